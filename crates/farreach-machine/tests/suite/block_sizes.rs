//! Blocks of every size: does the loop, with one path for small blocks, another for larger ones and the plain way for
//! the rest, count as the plain loop does?

use crate::common::{lab, run_batches};
use farreach_machine::{Options, PAGE_SIZES, PageLab};
use farreach_types::addr::Asid;
use farreach_types::event::{Batch, Block, DataRef, Instr, Kind, MAX_REF_BYTES, MAX_SPREAD, NOT_EXECUTED, Op};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;

const CODE: u64 = 0x40_0000;
const DATA: u64 = 0x7000_0000;
/// Numbers around every bound of the loop: inlined words, words in a separate array, counts that fit a byte.
const INSTRS: [usize; 7] = [0, 1, 2, 20, 254, 255, 256];
const WORDS: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 40, 254, 255, 256, 300];
const SIZES: [u32; 8] = [1, 8, 64, MAX_SPREAD - 1, MAX_SPREAD, MAX_SPREAD + 1, 5000, MAX_REF_BYTES];

/// A block of these numbers of instructions and address words; some words are shared by two references.
fn block(rng: &mut impl Rng, instrs: usize, words: usize, size: u32, crosses: bool) -> Option<Block> {
    if instrs + words == 0 {
        return None;
    }
    let page = CODE + 4096 * rng.random_range(0..12);
    let from = if crosses { page + 4096 - 1 } else { page + rng.random_range(0..2000) };
    let instrs: Box<[Instr]> = (0..instrs as u64).map(|i| Instr { pc: from + 4 * i, len: 4 }).collect();
    let odd = rng.random_range(0..words.max(1));
    let mut refs = Vec::new();
    for word in 0..words {
        let after = (instrs.len() * word / words) as u32;
        let kind = |rng: &mut dyn Rng| if rng.random_bool(0.3) { Kind::Store } else { Kind::Load };
        let size = if word == odd { size } else { 8 };
        refs.push(DataRef::new(after, kind(rng), size, word as u32));
        if size <= MAX_SPREAD - 16 && rng.random_bool(0.3) {
            refs.push(DataRef { offset: MAX_SPREAD - 16, ..DataRef::new(after, kind(rng), 16, word as u32) });
        }
    }
    Some(Block { instrs, refs: refs.into() })
}

/// A program of such blocks, each executed several times over a few pages; and how many there are.
fn program(seed: u64) -> (Vec<Batch>, usize) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut blocks = Vec::new();
    for instrs in INSTRS {
        for words in WORDS {
            for size in SIZES {
                let crosses = rng.random_bool(0.1);
                // Not all of them: the rest of the seeds have others.
                if rng.random_bool(0.3) {
                    blocks.extend(block(&mut rng, instrs, words, size, crosses).map(Arc::new));
                }
            }
        }
    }
    let mut batches = vec![Batch::new(Asid(0))];
    for (id, block) in blocks.iter().enumerate() {
        batches[0].push_op(Op::Define { id: id as u32, block: Arc::clone(block) });
    }
    for _ in 0..40 {
        let mut batch = Batch::new(Asid(0));
        let pages: Vec<u64> = (0..5).map(|_| DATA + 4096 * rng.random_range(0..200)).collect();
        for _ in 0..30 {
            let id = rng.random_range(0..blocks.len());
            let turns = rng.random_range(1..4);
            for _ in 0..turns {
                let block = &blocks[id];
                let mut alone = vec![true; block.words()];
                block.refs.iter().for_each(|r| alone[r.word as usize] &= r.offset == 0);
                let address = |alone: bool| match rng.random_range(0..400) {
                    0 if alone => NOT_EXECUTED,
                    1 => DATA + rng.random_range(0..400 * 4096),
                    n => pages[n % pages.len()] + rng.random_range(0..3900),
                };
                let addrs: Vec<u64> = alone.into_iter().map(address).collect();
                batch.push_block(id as u32, &addrs);
            }
        }
        batches.push(batch);
    }
    (batches, blocks.len())
}

#[test]
fn machines_count_what_the_plain_loop_counts() {
    const MACHINES: [&str; 6] =
        ["t94/single", "t94/superpage", "t94/partial", "t94/complete", "t94/single:entries=9,split=true", "ds13/4k"];
    for seed in 0..6 {
        let (batches, blocks) = program(seed);
        assert!(blocks > 150, "{blocks} blocks");
        let truth = run_batches(&MACHINES, &batches, true, 1);
        let counted = &truth.result.workload;
        assert!(counted.instructions > 10_000 && truth.misses().iter().all(|&n| n > 200), "{:?}", truth.misses());
        for threads in [1, 3] {
            let fast = run_batches(&MACHINES, &batches, false, threads);
            assert!(truth.result.workload == fast.result.workload, "seed {seed}, {threads} threads");
            for (one, other) in truth.result.machines.iter().zip(&fast.result.machines) {
                assert!(
                    one == other,
                    "seed {seed}, {threads} threads: {}: {:?} {:?}",
                    one.name,
                    one.counts,
                    other.counts
                );
            }
            assert!(truth.entries == fast.entries, "seed {seed}, {threads} threads");
        }
    }
}

#[test]
fn the_page_size_study_counts_what_its_plain_loop_counts() {
    for seed in 10..13 {
        let (batches, _) = program(seed);
        let run = |plain: bool| {
            let mut lab = PageLab::new(&PAGE_SIZES, 64, Options { plain, ..Options::default() }).unwrap();
            batches.iter().for_each(|batch| assert!(lab.feed(batch).unwrap()));
            lab.finish().unwrap();
            serde_json::to_string(&lab.result("test", None, Vec::new())).unwrap()
        };
        assert_eq!(run(true), run(false), "seed {seed}");
    }
}

/// The same id may come again, as the same block only.
#[test]
fn a_block_is_defined_once() {
    let small = Block { instrs: [Instr { pc: CODE, len: 1 }].into(), refs: [].into() };
    let large = Block { instrs: (0..300).map(|i| Instr { pc: CODE + i, len: 1 }).collect(), refs: [].into() };
    for (first, then) in [(&small, &large), (&large, &small)] {
        let mut lab = lab(&["t94/single"], false, 1);
        let mut batch = Batch::new(Asid(0));
        for block in [first, first] {
            batch.push_op(Op::Define { id: 7, block: Arc::new(block.clone()) });
            batch.push_block(7, &[]);
        }
        lab.feed(&batch).unwrap();
        assert_eq!(lab.result("test", None).workload.instructions, 2 * first.instrs.len() as u64);
        let mut batch = Batch::new(Asid(0));
        batch.push_op(Op::Define { id: 7, block: Arc::new(then.clone()) });
        let error = lab.feed(&batch).unwrap_err().to_string();
        assert!(error.contains("block 7: defined twice, differently"), "{error}");
    }
}
