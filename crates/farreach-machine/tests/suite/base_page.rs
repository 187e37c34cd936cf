//! Machines whose base page is not 4 KB (PS-1, PS-2, PS-5, PS-7; CA-18), by hand. Random streams: `run_oracle`.

use crate::common::{Stream, run, run_batches};
use farreach_machine::{MachineSpec, PRESETS};
use farreach_trace::generate;
use farreach_types::counts::{MemoryUse, TlbCounts};
use farreach_types::event::{
    Advice, Backing, Batch, Block, DataRef, Instr, Kind, NOT_EXECUTED, OP_BIT, Op, Prot, Source, block_id, words_behind,
};
use std::sync::Arc;

const SIZES: [(&str, u32); 9] =
    [("8k", 1), ("16k", 2), ("32k", 3), ("64k", 4), ("128k", 5), ("256k", 6), ("512k", 7), ("1m", 8), ("2m", 9)];

/// A generated program with every address shifted right, and nothing but references: instructions and references of one
/// byte, so that none crosses a page in one program only.
fn program(steps: u64, k: u32) -> Vec<Batch> {
    let mut source = generate::program(3, steps);
    std::iter::from_fn(|| source.next_batch().unwrap()).map(|batch| bytes(&batch, k)).collect()
}

fn bytes(batch: &Batch, k: u32) -> Batch {
    let mut out = Batch::new(batch.asid);
    let mut words = batch.words.iter();
    while let Some(&word) = words.next() {
        if word & OP_BIT == 0 {
            let shifted = |a: &u64| if *a == NOT_EXECUTED { *a } else { a >> k };
            let addrs: Vec<u64> = words.by_ref().take(words_behind(word)).map(shifted).collect();
            out.push_block(block_id(word), &addrs);
        } else if let Op::Define { id, block } = &batch.ops[(word & !OP_BIT) as usize] {
            let block = Block {
                instrs: block.instrs.iter().map(|i| Instr { pc: i.pc >> k, len: 1 }).collect(),
                refs: block.refs.iter().map(|r| DataRef { size: 1, ..*r }).collect(),
            };
            out.push_op(Op::Define { id: *id, block: Arc::new(block) });
        }
    }
    out
}

/// The part of a result that does not name pages.
fn misses(c: &TlbCounts) -> [u64; 5] {
    [c.lookups, c.fetch_misses, c.load_misses, c.store_misses, c.evictions]
}

#[test]
fn ca_18_a_larger_page_is_a_shifted_address() {
    for (name, k) in SIZES {
        let of = |machine: &str, k| {
            let outcome = run_batches(&[machine], &program(3_000, k), false, 1);
            (misses(&outcome.machine(0).counts.tlb), outcome.machine(0).counts.os.page_faults)
        };
        let (folded, shifted) = (of(&format!("ps/{name}"), 0), of("ps/4k", k));
        assert_eq!(folded, shifted, "ps/{name}");
        assert!(folded.0[1] > 0 || k > 6, "{folded:?}");
    }
}

/// The same of a hierarchy: Arm's larger granules. Its page table has fewer levels.
#[test]
fn ca_18_hierarchies_too() {
    let of = |machine: &str, k| {
        let outcome = run_batches(&[machine], &program(3_000, k), false, 1);
        let counts = &outcome.machine(0).counts;
        let second = counts.tlb.second_level_fetch_hits + counts.tlb.second_level_data_hits;
        ((misses(&counts.tlb), second, counts.os.page_faults), counts.tlb.walk.clone())
    };
    let small = "l1d=4K|16K|64K:12,l1i=4K|16K|64K:8,l2=4K|16K|64K:64/4,pwc_pd=4";
    for (page, k, levels) in [("4K", 0, 4), ("16K", 2, 4), ("64K", 4, 3)] {
        let (folded, walk) = of(&format!("today/neoverse-n1:{small},page_size={page}"), 0);
        assert_eq!(folded, of(&format!("today/neoverse-n1:{small}"), k).0, "{page}");
        assert!(folded.0[1] > 0 && folded.1 > 0, "{folded:?}");
        assert_eq!(walk.pt_references, walk.walks, "{page}");
        assert_eq!(walk.pml4_references > 0, levels == 4, "{page}: {walk:?}");
    }
}

/// Without walk caches a walk reads every level.
#[test]
fn a_walk_with_64k_pages_reads_three_levels() {
    let mut s = Stream::new();
    s.start().anon(0x10000, 0x10000).loads((0..500).map(|page| 0x10000 + 16 * page));
    let machine = "today/neoverse-n1:page_size=64K,pwc_pd=0,pwc_pdpt=0,pwc_pml4=0";
    let counts = &run(&[machine], &s).machine(0).counts.clone();
    let w = &counts.tlb.walk;
    assert_eq!(
        [w.walks, w.pt_references, w.pd_references, w.pdpt_references, w.pml4_references],
        [500, 500, 500, 500, 0]
    );
    assert_eq!(counts.os.page_faults, 500);
}

#[test]
fn base_pages_without_a_page_table_are_refused() {
    for (machine, says) in [
        (
            "today/neoverse-n1:page_size=8K",
            "page_size = 8K is not allowed: page tables have base pages of 4K, 16K or 64K",
        ),
        ("today/neoverse-n1:page_size=16K", "must have 16K"),
        ("today/zen3:page_size=64K", "must have 64K"),
        ("rmm15/range:page_size=64K", "page_size = 64K is not allowed with kind = range"),
        ("today/neoverse-n1:page_size=64K,guest=walk", "page_size = 64K is not allowed with guest = walk"),
        ("today/neoverse-n1:page_size=64K,walk_cost=caches", "machines with caches have pages of 4K"),
    ] {
        let spec = MachineSpec::parse(machine, 0).unwrap();
        let why =
            farreach_machine::Lab::new(vec![spec], farreach_machine::Options::default()).err().unwrap().to_string();
        assert!(why.contains(says), "{machine}: {why}");
    }
}

fn whole_program(steps: u64) -> Vec<Batch> {
    let mut source = generate::program(3, steps);
    std::iter::from_fn(|| source.next_batch().unwrap()).collect()
}

#[test]
fn ca_18_side_by_side_as_alone() {
    let mut stream = Stream::new();
    stream.batches = whole_program(600);
    let machines = ["ps/4k", "ps/16k", "ps/256k", "ps/2m", "t94/partial:page_size=8K", "t94/single"];
    let together = run(&machines, &stream);
    for (i, machine) in machines.iter().enumerate() {
        let alone = run_batches(&[machine], &stream.batches, true, 1);
        assert_eq!(together.machine(i).counts, alone.machine(0).counts, "{machine}");
        assert_eq!(together.result.workload, alone.result.workload, "{machine}");
        assert_eq!(together.machine(i).timeline, alone.machine(0).timeline, "{machine}");
        assert_eq!(together.entries[i], alone.entries[0], "{machine}");
    }
}

#[test]
fn xc_1_a_reference_asks_once_for_each_page_of_the_machine() {
    let mut s = Stream::new();
    let kinds = [(Kind::Load, 8), (Kind::Store, 9000)];
    let refs = [0, 1].map(|word| DataRef::new(0, kinds[word].0, kinds[word].1, word as u32));
    s.op(Op::Define {
        id: 9,
        block: Arc::new(Block { instrs: [Instr { pc: 0x3ffe, len: 4 }].into(), refs: refs.into() }),
    });
    // A load across a 4 KB boundary inside 16 KB, and a store over pages 6 to 9: it leaves page 1 of 16 KB for page 2.
    s.batches.last_mut().unwrap().push_block(9, &[0x4ffc, 0x6ff8]);
    // The same again: nothing misses.
    s.batches.last_mut().unwrap().push_block(9, &[0x4ffc, 0x6ff8]);
    let out = run(&["ps/4k", "ps/8k", "ps/16k", "ps/32k", "t94/single:page_size=16K"], &s);
    let lookups: Vec<u64> = out.result.machines.iter().map(|m| m.counts.tlb.lookups).collect();
    assert_eq!(out.result.workload.lookups.total(), 2 * (2 + 2 + 4));
    assert_eq!(lookups, [2 * 8, 2 * (2 + 1 + 2), 2 * (2 + 1 + 2), 2 * (1 + 1 + 2), 2 * (2 + 1 + 2)]);
    assert_eq!(out.result.workload.touched_bytes, 7 << 12);
}

fn memory(stream: &Stream, machine: &str) -> MemoryUse {
    run(&[machine], stream).machine(0).memory.clone()
}

#[test]
fn ps_5_ps_7_the_whole_page_is_allocated_at_its_first_touch() {
    let mut s = Stream::new();
    s.start().anon(0x100, 8).anon(0x200, 1);
    s.loads([0x100, 0x101, 0x107, 0x200]);
    for (machine, bytes, reserved) in
        [("ps/4k", 4 << 12, 9 << 12), ("ps/16k", 3 << 14, 3 << 14), ("ps/2m", 2 << 21, 2 << 21)]
    {
        let m = memory(&s, machine);
        assert_eq!(
            (m.touched_bytes, m.resident_bytes, m.mapped_bytes, m.virtual_bytes),
            (bytes, bytes, bytes, reserved),
            "{machine}"
        );
    }
}

/// The label of each page: the region of its misses.
fn regions(stream: &Stream, machine: &str) -> Vec<(String, u64)> {
    let out = run(&[machine], stream);
    out.machine(0).regions.iter().map(|r| (r.region.clone(), r.fetch_misses + r.data_misses)).collect()
}

#[test]
fn a_page_that_mappings_share_belongs_to_the_first_until_its_last_part_goes() {
    let mut s = Stream::new();
    let code = Prot { read: true, write: false, exec: true };
    s.start();
    s.map(0x102, 1, code, false, Backing::File { path: "/bin/prog".into(), offset: 0 });
    s.map(0x103, 1, Prot::RW, false, Backing::Heap);
    s.fetch(0x102).store(0x103);
    assert_eq!(regions(&s, "ps/16k"), [("prog code".into(), 2)], "one page; the split TLB misses on either side");
    // The remainder of the first mapping keeps its page, so there is no fault; but it is not executable any more, so
    // its translation was dropped.
    s.unmap(0x102, 1).store(0x103);
    assert_eq!(regions(&s, "ps/16k"), [("prog code".into(), 3)]);
    assert_eq!(run(&["ps/16k"], &s).machine(0).counts.os.page_faults, 1);
    // With its last part the page goes.
    s.unmap(0x103, 1).anon(0x101, 1).store(0x101);
    assert_eq!(regions(&s, "ps/16k"), [("prog code".into(), 3), ("anonymous".into(), 1)]);
    assert_eq!(run(&["ps/16k"], &s).machine(0).counts.os.wild_faults, 0);
    assert_eq!(run(&["ps/16k"], &s).machine(0).counts.os.forbidden_accesses, 0, "the page allows what a part allows");
}

#[test]
fn advice_reaches_whole_pages_only() {
    let mut s = Stream::new();
    s.start().anon(0x100, 8).loads([0x100, 0x104]);
    s.op(Op::Advise { start: 0x101 << 12, len: 7 << 12, advice: Advice::DontNeed });
    s.loads([0x100, 0x104]);
    let faults = |machine: &str| run(&[machine], &s).machine(0).counts.os.page_faults;
    assert_eq!(
        [faults("ps/4k"), faults("ps/16k"), faults("ps/32k")],
        [3, 3, 1],
        "of 16 KB pages, only 0x104 to 0x107 went"
    );
}

#[test]
fn mremap_moves_frames_by_whole_pages_only() {
    let moved = |to: u64| {
        let mut s = Stream::new();
        s.start().anon(0x100, 8).loads([0x100, 0x104]);
        s.op(Op::Remap { old_start: 0x100 << 12, old_len: 8 << 12, new_start: to << 12, new_len: 8 << 12 });
        s.loads([to, to + 4]);
        run(&["ps/16k"], &s).machine(0).counts.os.page_faults
    };
    assert_eq!(moved(0x200), 2, "frames move");
    assert_eq!(moved(0x202), 4, "new memory: a system would copy");
}

/// What mremap adds allows what the end of the mapping allowed, not what the page allows in which it ended.
#[test]
fn mremap_adds_pages_with_the_rights_of_the_end() {
    let mut s = Stream::new();
    s.start().map(0x102, 4, Prot::RW, false, Backing::Anonymous);
    s.protect(0x105, 1, Prot { write: false, ..Prot::RW });
    let (start, len) = (0x102 << 12, 4 << 12);
    s.op(Op::Remap { old_start: start, old_len: len, new_start: start, new_len: 4 * len });
    s.store(0x108).store(0x10c).store(0x110).store(0x104);
    let out = run(&["ps/4k", "ps/16k"], &s);
    assert_eq!([0, 1].map(|i| out.machine(i).counts.os.forbidden_accesses), [3, 3]);
}

#[test]
fn sizes_below_the_base_page_are_refused() {
    let refused = |text: &str| {
        let options = farreach_machine::Options { twice: true, ..Default::default() };
        MachineSpec::parse(text, 0).and_then(|s| farreach_machine::Lab::new(vec![s], options)).err()
    };
    for (text, words) in [
        ("t94/superpage:page_size=16K", "sizes must begin with page_size, 16K"),
        ("t94/superpage:page_size=128K,sizes=128K+1M,promote=1M", "region must be a multiple of page_size, 128K"),
        ("t94/single:page_size=64K,promote=32K", "promote must be a multiple of page_size, 64K"),
        ("t94/single:page_size=64K,promote=64K", "promote must be larger"),
        ("t94/integrated:page_size=16K,sizes=16K+64K", "after page_size must come factor pages, 256K"),
        ("t94/single:page_size=16K,memory=20K", "memory = 20K is not a whole number of base pages of 16K"),
        ("t94/single:page_size=2K", "page_size must be a power of two from 4K to 2M"),
        ("t94/single:page_size=6K", "page_size must be a power of two from 4K to 2M"),
    ] {
        let error = refused(text).map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains(words), "{text}: {error}");
    }
    assert!(PRESETS.iter().all(|p| refused(p.name).is_none()));
}
