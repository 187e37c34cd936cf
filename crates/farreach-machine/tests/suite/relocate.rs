//! Superpage-aligned new mappings (T94-53): are relocated streams a renaming of pages, with every new mapping aligned?

use crate::common::{Stream, lab, run_batches};
use farreach_trace::relocate::AREA;
use farreach_trace::{Layout, Relocated, Relocator, check, generate};
use farreach_types::addr::Asid;
use farreach_types::event::{Access, Advice, Backing, Batch, Blocks, End, Item, Op, Prot, Source};
use std::collections::HashMap;

const SIZE: u64 = 64 << 10;

fn relocate(batches: &[Batch], size: u64) -> Result<Vec<Batch>, String> {
    relocate_so(batches, Layout::Aligned(size))
}

fn relocate_so(batches: &[Batch], layout: Layout) -> Result<Vec<Batch>, String> {
    let mut relocator = Relocator::with(layout)?;
    batches.iter().map(|b| relocator.apply(b).map_err(|e| e.to_string())).collect()
}

fn program(seed: u64) -> Vec<Batch> {
    let mut source = generate::program(seed, 1500);
    std::iter::from_fn(|| source.next_batch().expect("generators do not fail")).collect()
}

fn accesses(batches: &[Batch]) -> Vec<(Asid, Access)> {
    let (mut blocks, mut all) = (Blocks::default(), Vec::new());
    for batch in batches {
        let each = |item: Item| {
            if let Item::Access(a) = item {
                all.push((batch.asid, a));
            }
            true
        };
        blocks.expand(batch, each).expect("a sound stream");
    }
    all
}

fn ops(batches: &[Batch]) -> Vec<Op> {
    let ops = batches.iter().flat_map(|b| &b.ops);
    ops.filter(|op| !matches!(op, Op::Define { .. } | Op::Start { .. })).cloned().collect()
}

/// Events and references of a stream after relocation.
fn shift(of: &Stream, size: u64) -> (Vec<Op>, Vec<Access>) {
    let new = relocate(&of.batches, size).expect("it can be relocated");
    (ops(&new), accesses(&new).into_iter().map(|(_, a)| a).collect())
}

fn map_starts(ops: &[Op]) -> Vec<u64> {
    ops.iter().filter_map(|op| if let Op::Map(m) = op { Some(m.start) } else { None }).collect()
}

struct Slice<'a>(std::slice::Iter<'a, Batch>);

impl Source for Slice<'_> {
    fn next_batch(&mut self) -> Result<Option<Batch>, farreach_types::Error> {
        Ok(self.0.next().cloned())
    }
}

/// Everything a stream can have: the same references at the same offsets, sound for every consumer.
#[test]
fn relocated_programs_are_sound_and_refer_alike() {
    for (seed, layout) in (0..12).flat_map(|seed| [Layout::Aligned(SIZE), Layout::Linux].map(|layout| (seed, layout))) {
        let batches = program(seed);
        let new = relocate_so(&batches, layout).expect("it can be relocated");
        let report = check(&mut Slice(new.iter())).expect("no input, no failure");
        assert_eq!(report.violation, None, "seed {seed}");
        let (old, new) = (accesses(&batches), accesses(&new));
        assert_eq!(old.len(), new.len());
        let mut moved = 0;
        for ((s, a), (t, b)) in old.iter().zip(&new) {
            assert_eq!((s, a.kind, a.size, a.addr % 4096), (t, b.kind, b.size, b.addr % 4096));
            moved += usize::from(b.addr >= AREA);
        }
        assert!(moved > old.len() / 2, "seed {seed}: {moved} of {} references moved", old.len());
        let mut source = Relocated::with(Slice(batches.iter()), layout).expect("a good size");
        assert_eq!(check(&mut source).expect("the same").totals.loads, report.totals.loads);
    }
}

/// A renaming of pages changes nothing for designs that do not look at page numbers.
#[test]
fn t94_53_fully_associative_single_page_designs_miss_alike() {
    let machines = [
        "t94/single:replacement=lru",
        "t94/single:entries=8,replacement=lru",
        "t94/single:entries=16",
        "t94/single:entries=16,replacement=fifo",
        "t94/single:entries=16,replacement=random",
        "t94/single:entries=16,process_ids=false,replacement=lru",
    ];
    for (seed, layout) in (0..6).flat_map(|seed| [Layout::Aligned(SIZE), Layout::Linux].map(|layout| (seed, layout))) {
        let batches = program(seed);
        let old = run_batches(&machines, &batches, false, 1);
        let new = run_batches(&machines, &relocate_so(&batches, layout).expect("it can be relocated"), false, 1);
        let (w, v) = (&old.result.workload, &new.result.workload);
        assert_eq!((w.instructions, &w.lookups, &w.references), (v.instructions, &v.lookups, &v.references));
        for (a, b) in old.result.machines.iter().zip(&new.result.machines) {
            assert_eq!(a.counts.tlb, b.counts.tlb, "seed {seed}, {}", a.name);
            assert_eq!(a.counts.os, b.counts.os, "seed {seed}, {}", a.name);
            assert_eq!((a.memory.resident_bytes, a.timeline.clone()), (b.memory.resident_bytes, b.timeline.clone()));
        }
    }
}

/// Below each other, whole 2 MB at a multiple; what grows where there is no room moves, what reaches beyond a part that
/// it replaces is two mappings, and what replaces a mapping has its place.
#[test]
fn mappings_lie_where_linux_puts_them() {
    let mut s = Stream::new();
    s.start();
    s.anon(0x100, 1).load(0x100);
    s.anon(0x2000, 3).anon(0x3000, 4).anon(0x5001, 512).load(0x2002).load(0x3000).load(0x5001);
    s.op(Op::Remap { old_start: 0x3000 << 12, old_len: 4 << 12, new_start: 0x3000 << 12, new_len: 5 << 12 });
    s.load(0x3000).load(0x3004);
    s.anon(0x2001, 3).load(0x2001).load(0x2003);
    s.anon(0x1fff, 2).load(0x1fff).load(0x2000).anon(0x1fff, 1).load(0x1fff);
    let new = relocate_so(&s.batches, Layout::Linux).expect("it can be relocated");
    let (ops, accesses) = (ops(&new), accesses(&new));
    let starts = map_starts(&ops);
    let top = (AREA >> 12) + 0x7_ffff_7fff;
    let below = |addr: u64| top - (addr >> 12);
    assert_eq!(starts[1..4].iter().map(|start| below(*start)).collect::<Vec<_>>(), [3, 7, 1023]);
    assert_eq!(starts[3] % (2 << 20), 0);
    let moved = ops.iter().find_map(|op| if let Op::Remap { new_start, .. } = op { Some(*new_start) } else { None });
    assert_eq!(moved.map(below), Some(12));
    assert_eq!(starts[4..].iter().map(|start| below(*start)).collect::<Vec<_>>(), [2, 4, 5, 3, 5]);
    let pages: Vec<u64> = accesses[1..].iter().map(|(_, a)| below(a.addr)).collect();
    assert_eq!(pages, [1, 7, 1023, 12, 8, 2, 4, 5, 3, 5]);
}

/// The interpreter of a program, of which the recorder has another place, and eight pages of the kernel have the top.
#[test]
fn the_interpreter_lies_above_all_that_is_mapped_later() {
    let mut s = Stream::new();
    s.op(Op::Start { pid: 1, parent: None, program: "/bin/p".into() });
    s.file(0x100, 5, "/bin/p").file(0x200, 3, "/lib/ld.so").file(0x210, 2, "/lib/ld.so");
    s.op(Op::ThreadStart { thread: 1 }).load(0x100).anon(0x1000, 1).load(0x1000);
    s.op(Op::ThreadStart { thread: 2 }).anon(0x1010, 1).load(0x1010);
    let new = relocate_so(&s.batches, Layout::Linux).expect("it can be relocated");
    let accesses = accesses(&new);
    let below = |(_, a): &(Asid, Access)| (AREA >> 12) + 0x7_ffff_7fff - (a.addr >> 12);
    let pages: Vec<u64> = accesses[1..].iter().map(below).collect();
    assert_eq!(pages, [3 + 2 + 8 + 1, 3 + 2 + 8 + 2]);
}

#[test]
fn t94_53_superpage_coverage_improves() {
    let mut s = Stream::new();
    s.start();
    // Loads of a page elsewhere, so that no mapping continues another.
    for i in 0..8 {
        s.anon(0x1009 + 0x40 * i, 32).loads(0x1009 + 0x40 * i..0x1029 + 0x40 * i);
    }
    let machines = ["t94/superpage", "t94/partial"];
    let old = run_batches(&machines, &s.batches, false, 1);
    let new = run_batches(&machines, &relocate(&s.batches, SIZE).expect("it can be relocated"), false, 1);
    let promotions = |o: &crate::common::Outcome| o.machine(0).counts.os.promotions;
    assert_eq!((promotions(&old), promotions(&new)), (8, 16), "one whole region of two, then both");
    assert_eq!((old.entries[1].len(), new.entries[1].len()), (24, 16), "partial entries for the same pages");
    for size in [8 << 10, 2 << 20, 1 << 30] {
        let moved = relocate(&s.batches, size).expect("it can be relocated");
        assert!(map_starts(&ops(&moved)).iter().all(|start| start % size == 0), "{size}");
    }
}

#[test]
fn what_belongs_together_stays_together() {
    let lib = |offset: u64| Backing::File { path: "/lib/libc.so.6".into(), offset };
    let code = Prot { read: true, write: false, exec: true };
    let mut s = Stream::new();
    s.start();
    // The program: code, data, and bss; they may be addressed across their borders.
    s.map(0x401, 3, code, false, Backing::File { path: "/bin/p".into(), offset: 0 });
    s.map(0x404, 1, Prot::RW, false, Backing::File { path: "/bin/p".into(), offset: 0x3000 }).anon(0x405, 2);
    s.map(0x500, 1, Prot::RW, false, Backing::Heap).map(0x7fffe, 2, Prot::RW, false, Backing::Stack);
    s.load(0x401);
    // A library: the loader maps the whole file first, then its segments over it. Then a mapping right behind.
    s.map(0x1003, 8, code, false, lib(0)).map(0x1007, 2, Prot::RW, false, lib(0x4000)).anon(0x1009, 2).anon(0x100b, 1);
    // Heap and stack grow.
    s.map(0x501, 3, Prot::RW, false, Backing::Heap).map(0x7fff0, 14, Prot::RW, false, Backing::Stack);
    s.load(0x406).load(0x503).load(0x7fff1).load(0x1007).load(0x100a).load(0x100b);
    let (ops, accesses) = shift(&s, SIZE);
    let starts = map_starts(&ops);
    let pages = |i: usize| starts[i] >> 12;
    assert_eq!([pages(1) - pages(0), pages(2) - pages(0)], [3, 4], "the program");
    assert_eq!([pages(6) - pages(5), pages(7) - pages(5)], [4, 6], "the library");
    assert_eq!([pages(9) - pages(3), pages(4) - pages(10)], [1, 14], "heap and stack");
    for i in [0, 3, 4, 5, 8] {
        assert_eq!(starts[i] % SIZE, 0, "mapping {i}");
    }
    let at = |i: usize| accesses[i].addr >> 12;
    assert_eq!(at(0), pages(0));
    assert_eq!([at(1), at(2), at(3)], [pages(2) + 1, pages(9) + 2, pages(10) + 1]);
    assert_eq!([at(4), at(5), at(6)], [pages(6), pages(7) + 1, pages(8)]);
    assert!(!ops.iter().any(|op| matches!(op, Op::Unmap { .. })), "what is replaced goes by itself");
}

#[test]
fn events_follow_their_pages() {
    let mut s = Stream::new();
    s.start().load(0x9000).anon(0x101, 4).anon(0x105, 4).load(0x101).load(0x105).load(0x9001);
    let range = |start: u64, len: u64| (start << 12, len << 12);
    let (start, len) = range(0x103, 4);
    s.op(Op::Protect { start, len, prot: Prot::NONE }).op(Op::Advise { start, len, advice: Advice::DontNeed });
    s.op(Op::Remap { old_start: 0x105 << 12, old_len: 4 << 12, new_start: 0x203 << 12, new_len: 6 << 12 });
    s.op(Op::Remap { old_start: 0x203 << 12, old_len: 6 << 12, new_start: 0x203 << 12, new_len: 9 << 12 });
    s.load(0x20b).unmap(0x100, 0x200).load(0x101).anon(0x103, 1).load(0x103);
    let (ops, accesses) = shift(&s, SIZE);
    let at: Vec<u64> = accesses.iter().map(|a| a.addr >> 12).collect();
    let [a, b] = [at[1], at[2]];
    assert!(a % 16 == 0 && b % 16 == 0 && a != b);
    assert_eq!((at[0], at[3], at[5]), (0x9000, 0x9001, 0x101), "outside of mappings");
    let bytes = |pages: u64| pages << 12;
    let protects: Vec<_> = ops
        .iter()
        .filter_map(|o| if let Op::Protect { start, len, .. } = o { Some((*start, *len)) } else { None })
        .collect();
    assert_eq!(protects, [(bytes(a + 2), bytes(2)), (bytes(b), bytes(2))]);
    let advice = ops.iter().filter(|o| matches!(o, Op::Advise { .. })).count();
    assert_eq!(advice, 2);
    let remaps: Vec<_> = ops.iter().filter(|o| matches!(o, Op::Remap { .. })).cloned().collect();
    let c = at[4] - 8;
    assert_eq!(c % 16, 0);
    let moved = Op::Remap { old_start: bytes(b), old_len: bytes(4), new_start: bytes(c), new_len: bytes(6) };
    let grown = Op::Remap { old_start: bytes(c), old_len: bytes(6), new_start: bytes(c), new_len: bytes(9) };
    assert_eq!(remaps, [moved, grown]);
    let unmaps: Vec<_> =
        ops.iter().filter_map(|o| if let Op::Unmap { start, len } = o { Some((*start, *len)) } else { None }).collect();
    assert_eq!(unmaps, [(bytes(a), bytes(4)), (bytes(c), bytes(9))]);
    assert_eq!(at[6], a, "the lowest place is used again");
}

/// A page referenced while nothing is mapped there stays; a later mapping replaces it, as without relocation.
/// What the kernel stores lies in several mappings, or, where the trace has no mapping, stays where it is.
#[test]
fn stores_of_the_kernel_follow_their_bytes() {
    let mut s = Stream::new();
    s.start().load(0x9000).anon(0x101, 4).anon(0x105, 4).load(0x101).load(0x105);
    s.op(Op::KernelStore { start: (0x104 << 12) + 8, len: 4096 }).op(Op::KernelStore { start: 0x9008, len: 16 });
    let (ops, accesses) = shift(&s, SIZE);
    let [a, b] = [accesses[1].addr & !4095, accesses[2].addr & !4095];
    let stores: Vec<_> = ops
        .iter()
        .filter_map(|o| if let Op::KernelStore { start, len } = o { Some((*start, *len)) } else { None })
        .collect();
    assert_eq!(stores, [(a + 0x3008, 4088), (b, 8), (0x9008, 16)]);
}

#[test]
fn stray_pages_go_when_something_is_mapped_over_them() {
    let mut s = Stream::new();
    s.start().anon(0x900, 1).load(0x900).load(0x105).anon(0x101, 16).load(0x105).load(0x900);
    let (ops, accesses) = shift(&s, SIZE);
    assert_eq!(accesses[1].addr, 0x105 << 12);
    assert_eq!(accesses[2].addr % SIZE, 4 << 12);
    assert!(
        ops.iter()
            .any(|op| matches!(op, Op::Unmap { start, len } if *start <= 0x105 << 12 && start + len > 0x105 << 12))
    );
    let machine = "t94/single:entries=2,replacement=lru";
    let new = relocate(&s.batches, SIZE).expect("it can be relocated");
    assert_eq!(run_batches(&[machine], &s.batches, true, 1).misses(), run_batches(&[machine], &new, true, 1).misses());
}

#[test]
fn fork_and_exec() {
    let mut s = Stream::new();
    s.start().map(0x401, 2, Prot::RWX, false, Backing::Anonymous).fetch(0x401).load(0x402);
    s.op(Op::Fork { child: Asid(1) });
    // The child inherits the places and diverges.
    s.space(1).fetch(0x401).unmap(0x401, 2).anon(0x700, 1).load(0x700);
    s.space(0).fetch(0x401).load(0x402);
    s.space(1).op(Op::End(End::Exec));
    s.space(2).op(Op::Start { pid: 2, parent: Some(Asid(1)), program: "next".into() });
    s.map(0x801, 2, Prot::RWX, false, Backing::Anonymous)
        .map(0x401, 2, Prot::RWX, false, Backing::Anonymous)
        .fetch(0x401)
        .load(0x401);
    let new = relocate(&s.batches, SIZE).expect("it can be relocated");
    assert_eq!(check(&mut Slice(new.iter())).expect("none").violation, None);
    let at: Vec<(u32, u64)> = accesses(&new).iter().map(|(s, a)| (s.0, a.addr >> 12)).collect();
    let a = at[0].1;
    assert_eq!(at[..4], [(0, a), (0, a + 1), (1, a), (1, a)], "the child's new mapping takes the place it gave up");
    assert_eq!(at[4..6], [(0, a), (0, a + 1)]);
    assert_ne!(at[6].1, a, "the same code, elsewhere: the block was defined again");
    assert_eq!(at[6], at[7]);
    let defined = new.iter().flat_map(|b| &b.ops).filter(|op| matches!(op, Op::Define { .. })).count();
    assert_eq!(defined, 3, "two places of the fetch, one load");
}

#[test]
fn code_that_moves_is_defined_anew_and_once() {
    let mut s = Stream::new();
    s.start().map(0x101, 1, Prot::RWX, false, Backing::Anonymous).fetch(0x101);
    for i in 0..20 {
        let (from, to) = if i % 2 == 0 { (0x101, 0x205) } else { (0x205, 0x101) };
        s.op(Op::Remap { old_start: from << 12, old_len: 4096, new_start: to << 12, new_len: 4096 }).fetch(to);
    }
    let new = relocate(&s.batches, SIZE).expect("it can be relocated");
    let places: HashMap<u64, usize> = accesses(&new).iter().fold(HashMap::new(), |mut m, (_, a)| {
        *m.entry(a.addr).or_default() += 1;
        m
    });
    assert_eq!(places.len(), 2, "places are used again: {places:x?}");
    let defined = new.iter().flat_map(|b| &b.ops).filter(|op| matches!(op, Op::Define { .. })).count();
    assert_eq!(defined, 2, "the block once in each place");
}

#[test]
fn what_cannot_be_relocated_is_an_error_with_its_address() {
    let mut s = Stream::new();
    s.start().anon(0x101, 1).load(0x101).load((AREA + (1 << 36)) >> 12);
    let error = relocate(&s.batches, SIZE).expect_err("it lies where the mapping is now");
    assert!(error.contains("0x200001000000000"), "{error}");
    // Eight bytes across two mappings.
    let mut s = Stream::new();
    s.start().load(0x900).anon(0x101, 1).anon(0x102, 1);
    let last = s.batches.last_mut().expect("one");
    last.push_block(1, &[0x101ffc]);
    let error = relocate(&s.batches, SIZE).expect_err("they are apart now");
    assert!(error.contains("0x101ffc") && error.contains("ends in another"), "{error}");
    for size in [0, 4095, 2048, 3 << 12, 1 << 37] {
        let error = relocate(&[], size).expect_err("no such alignment");
        assert!(error.contains("4K to 64G"), "{error}");
    }
    assert!(relocate(&[], 4096).is_ok());
}

/// A trace without mappings has nothing to align.
#[test]
fn without_mappings_nothing_changes() {
    let mut s = Stream::new();
    s.loads([0x101, 0x205, 0x101]).store(0x300);
    let new = relocate(&s.batches, SIZE).expect("it can be relocated");
    assert_eq!(accesses(&new), accesses(&s.batches));
    let mut lab = lab(&["t94/single"], false, 1);
    assert!(new.iter().all(|b| lab.feed(b).expect("memory suffices")));
}
