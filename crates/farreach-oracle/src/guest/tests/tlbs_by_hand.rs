//! What drops an entry, one rule after the other.

use crate::guest::system::System;
use crate::guest::tlb::{TlbConfig, Tlbs};
use farreach_types::addr::{Asid, KERNEL};
use farreach_types::event::{Arch, Batch, Block, Guest, Instr, Invalidate, Op, Register};
use std::sync::Arc;

const PGE: u64 = 0x80;
const PCIDE: u64 = 0x20000;
const CR4: u64 = 0x20;

/// Two spaces with roots 0x1000 and 0x9000. Each has pages 1 and 2 and a large leaf at 2 MB; the kernel has a global
/// page 1 and one, 2, that is not.
struct Bench {
    system: System,
    tlbs: Tlbs,
    space: Asid,
}

const UPPER: u64 = 0x1ff_8000_0000_0000;
/// Pages by name.
const ONE: u64 = 0x1000;
const TWO: u64 = 0x2000;
const LARGE: u64 = 0x20_7000;
const GLOBAL: u64 = UPPER + 0x1000;
const LOCAL: u64 = UPPER + 0x2000;
const PLACES: [u64; 5] = [ONE, TWO, LARGE, GLOBAL, LOCAL];

impl Bench {
    fn new(cr4: u64, processors: u32) -> Bench {
        let config = TlbConfig { entries: 64, mixed: true, shift: 12, drops: false, pcid: false };
        let mut bench = Bench { system: System::new(None), tlbs: Tlbs::new(config, None), space: KERNEL };
        bench.say(Guest::Machine { arch: Arch::X86, processors, memory: 1 << 30 });
        for (root, frames) in [(0x1000u64, 0x10_0000u64), (0x9000, 0x20_0000)] {
            let mut words = vec![(0, root + 0x1000), (0x1000, root + 0x2000), (0x2000, root + 0x3000)];
            words.extend([(256 * 8, 0x2_0000)]);
            for (at, to) in words {
                bench.entry(root + at, to | 7);
            }
            bench.entry(root + 0x3008, frames | 7);
            bench.entry(root + 0x3010, (frames + 0x1000) | 7);
            bench.entry(root + 0x2008, (frames + 0x4000_0000) | 0x87);
        }
        for (at, word) in [(0x2_0000, 0x2_1003), (0x2_1000, 0x2_2003), (0x2_2008, 0x5103), (0x2_2010, 0x6003)] {
            bench.entry(at, word);
        }
        bench.entry(0x2_1000, 0x2_2003);
        for (at, word) in [(0x2_1000, 0x2_3003), (0x2_3008, 0x5103), (0x2_3010, 0x6003)] {
            bench.entry(at, word);
        }
        for (id, address) in (1..).zip(PLACES) {
            let instrs = [Instr { pc: address, len: 1 }].into();
            bench.op(Op::Define { id, block: Arc::new(Block { instrs, refs: Box::default() }) });
        }
        for processor in (0..processors).rev() {
            bench.op(Op::Switch { thread: processor });
            bench.say(Guest::Register { register: Register::Control, value: cr4 });
            bench.root(1, 0x1001);
        }
        bench
    }

    fn read(&mut self, batch: &Batch) {
        self.system.read(batch, |system, heard| self.tlbs.hear(system, heard));
    }

    fn op(&mut self, op: Op) {
        let mut batch = Batch::new(self.space);
        batch.push_op(op);
        self.read(&batch);
    }

    fn say(&mut self, guest: Guest) {
        self.op(Op::Guest(guest));
    }

    fn entry(&mut self, address: u64, word: u64) {
        self.say(Guest::Entries { address, values: Arc::from([word]) });
    }

    fn root(&mut self, space: u32, value: u64) {
        self.say(Guest::Register { register: Register::Root0, value });
        self.space = Asid(space);
        self.read(&Batch::new(self.space));
    }

    fn control(&mut self, value: u64) {
        self.say(Guest::Register { register: Register::Control, value });
    }

    /// Misses and stale lookups of a fetch from each place.
    fn misses(&mut self, places: &[u64]) -> (u64, u64) {
        let sum =
            |tlbs: &Tlbs| (tlbs.sums()[0].misses + tlbs.sums()[1].misses, tlbs.sums()[0].stale + tlbs.sums()[1].stale);
        let before = sum(&self.tlbs);
        for place in places {
            let id = PLACES.iter().position(|one| one == place).unwrap() as u32 + 1;
            let mut batch = Batch::new(self.space);
            batch.push_block(id, &[]);
            self.read(&batch);
        }
        let after = sum(&self.tlbs);
        (after.0 - before.0, after.1 - before.1)
    }

    fn all(&mut self) -> (u64, u64) {
        self.misses(&PLACES)
    }
}

fn invalidate(tag: Option<u16>, bytes: Option<(u64, u64)>, global: bool, broadcast: bool) -> Guest {
    Guest::Invalidate(Invalidate { tag, bytes, global, leaves: false, broadcast })
}

#[test]
fn mov_cr3_without_pcide_keeps_global_entries() {
    let mut bench = Bench::new(CR4 | PGE, 1);
    assert_eq!((bench.all(), bench.all()), ((5, 0), (0, 0)));
    bench.root(2, 0x9002);
    assert_eq!((bench.all(), bench.all()), ((4, 0), (0, 0)));
    bench.root(2, 0x9002 | 1 << 63);
    assert_eq!(bench.all(), (4, 0));
    // Without PGE nothing is global.
    let mut bench = Bench::new(CR4, 1);
    bench.all();
    bench.root(2, 0x9000);
    assert_eq!(bench.all(), (5, 0));
    assert_eq!(bench.tlbs.sums().map(|half| (half.lookups, half.misses)), [(6, 6), (4, 4)]);
}

#[test]
fn mov_cr3_with_pcide_and_bit_63() {
    let mut bench = Bench::new(CR4 | PGE | PCIDE, 1);
    bench.all();
    bench.root(2, 0x9002);
    // The page of the kernel that is not global has an entry with each tag.
    assert_eq!(bench.all(), (4, 0));
    bench.root(1, 0x1001 | 1 << 63);
    assert_eq!(bench.all(), (0, 0));
    bench.root(2, 0x9002);
    assert_eq!(bench.all(), (4, 0));
    bench.root(1, 0x1001 | 1 << 63);
    assert_eq!(bench.all(), (0, 0));
    // Another space with a tag that was not dropped: its entries answer, and are wrong.
    bench.root(2, 0x9001 | 1 << 63);
    assert_eq!(bench.all(), (0, 3));
}

#[test]
fn mov_cr4() {
    for (to, drops) in [
        (CR4 | PGE | PCIDE, false),
        (CR4 | PGE | PCIDE | 1 << 21, false),
        (CR4 | PGE | PCIDE | 1 << 20, true),
        (CR4 | PGE | PCIDE | 1 << 4, true),
        (CR4 | PCIDE, true),
        (CR4 | PGE, true),
    ] {
        let mut bench = Bench::new(CR4 | PGE | PCIDE, 1);
        bench.all();
        bench.control(to);
        assert_eq!(bench.all(), (if drops { 5 } else { 0 }, 0), "{to:#x}");
    }
    // SMEP 1 to 0 and PCIDE 0 to 1 drop nothing. The tag was 0 before, and is 1 now.
    let mut bench = Bench::new(CR4 | PGE | 1 << 20, 1);
    bench.all();
    bench.control(CR4 | PGE);
    assert_eq!(bench.all(), (0, 0));
    bench.control(CR4 | PGE | PCIDE);
    assert_eq!(bench.all(), (4, 0));
}

#[test]
fn invlpg_and_invpcid() {
    let warm = |cr4| {
        let mut bench = Bench::new(cr4, 1);
        bench.all();
        bench.root(2, 0x9002);
        bench.all();
        bench
    };
    let tagged = CR4 | PGE | PCIDE;
    let back = |mut bench: Bench, what: Guest| {
        bench.say(what);
        let (here, _) = bench.all();
        bench.root(1, 0x1001 | 1 << 63);
        (here, bench.all().0)
    };
    // INVLPG: its page in this PCID, of any size, and also if global.
    assert_eq!(back(warm(tagged), invalidate(Some(2), Some((ONE, 4096)), true, false)), (1, 0));
    assert_eq!(back(warm(tagged), invalidate(Some(2), Some((0x3f_f000, 4096)), true, false)), (1, 0));
    assert_eq!(back(warm(tagged), invalidate(Some(2), Some((GLOBAL, 4096)), true, false)), (1, 0));
    // INVPCID 0: not if global. 1: a PCID. 2: all. 3: all but global.
    assert_eq!(back(warm(tagged), invalidate(Some(1), Some((GLOBAL, 4096)), false, false)), (0, 0));
    assert_eq!(back(warm(tagged), invalidate(Some(1), Some((LARGE, 4096)), false, false)), (0, 1));
    assert_eq!(back(warm(tagged), invalidate(Some(1), None, false, false)), (0, 4));
    assert_eq!(back(warm(tagged), invalidate(None, None, true, false)), (5, 4));
    assert_eq!(back(warm(tagged), invalidate(None, None, false, false)), (4, 4));
    // A range: both pages and the large leaf, 0x1000 to 0x200fff.
    assert_eq!(back(warm(tagged), invalidate(None, Some((ONE, 0x20_0000)), true, false)), (3, 3));
    assert_eq!(back(warm(tagged), invalidate(None, Some((ONE, 0x1f_f000)), true, false)), (2, 2));
}

#[test]
fn processors_hear_broadcasts_alone() {
    for (broadcast, misses) in [(false, 0), (true, 1)] {
        let mut bench = Bench::new(CR4 | PGE | PCIDE, 2);
        bench.all();
        bench.op(Op::Switch { thread: 1 });
        assert_eq!(bench.all(), (5, 0), "TLBs of its own");
        bench.say(invalidate(Some(1), Some((TWO, 4096)), true, broadcast));
        assert_eq!(bench.all(), (1, 0));
        bench.op(Op::Switch { thread: 0 });
        assert_eq!(bench.all(), (misses, 0));
        // Registers are heard by their own processor.
        bench.root(1, 0x1001);
        bench.op(Op::Switch { thread: 1 });
        assert_eq!(bench.all(), (0, 0));
    }
}

/// A remapped page, an unmapped one, one with fewer rights, and one with a bit that means nothing.
#[test]
fn stale_entries_answer_until_they_are_dropped() {
    for drops in [false, true] {
        let mut bench = Bench::new(CR4 | PGE, 1);
        bench.tlbs.config.drops = drops;
        bench.all();
        bench.entry(0x4008, 0x30_0007);
        bench.entry(0x4010, 0x10_1005);
        bench.entry(0x3008, 0x4010_0027 | 0x80);
        bench.entry(0x2_3008, 0x5163);
        let (misses, stale) = bench.misses(&[ONE, TWO, GLOBAL]);
        assert_eq!((misses, stale), if drops { (2, 0) } else { (0, 2) });
        bench.entry(0x4008, 0);
        assert_eq!(bench.misses(&[ONE, ONE]), if drops { (2, 0) } else { (0, 2) });
        bench.say(invalidate(Some(0), Some((ONE, 4096)), true, false));
        // The walker finds nothing, so each lookup is a miss.
        assert_eq!(bench.misses(&[ONE, ONE]), (2, 0));
    }
}
