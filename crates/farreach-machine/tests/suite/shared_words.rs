//! References that share an address word: does every consumer see the same stream as with a word for each of them?

use crate::common::{lab, run_batches};
use farreach_machine::{Options, PAGE_SIZES, PageLab};
use farreach_oracle::dice::seeds;
use farreach_trace::{Chain, Header, Relocator, TraceWriter, check, generate, open_trace};
use farreach_types::addr::Asid;
use farreach_types::event::{
    Batch, Block, Blocks, DataRef, Instr, Kind, MAX_SPREAD, NOT_EXECUTED, OP_BIT, Op, Source, block_id, block_word,
    words_behind,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::HashMap;
use std::sync::Arc;

/// Lets references of a block share words at random: the same references, of which the sharing ones get other
/// addresses.
fn share(block: &Block, rng: &mut impl Rng) -> Block {
    // Of each word: references, all of them small.
    let mut users: Vec<(u32, bool)> = Vec::new();
    let mut refs: Vec<DataRef> = Vec::new();
    for r in &block.refs {
        let small = r.size <= MAX_SPREAD / 2;
        let word =
            users.iter().position(|(_, all_small)| small && *all_small && rng.random_bool(0.5)).unwrap_or(users.len());
        if word == users.len() {
            users.push((0, small));
        }
        users[word].0 += 1;
        let offset = rng.random_range(0..=MAX_SPREAD.saturating_sub(r.size));
        refs.push(DataRef { word: word as u32, offset, ..*r });
    }
    for r in &mut refs {
        r.offset *= u32::from(users[r.word as usize].0 > 1);
    }
    Block { instrs: block.instrs.clone(), refs: refs.into() }
}

/// A program whose blocks share words, and the same with a word for each reference.
pub fn programs(seed: u64, steps: u64) -> (Vec<Batch>, Vec<Batch>) {
    let mut source = generate::program(seed, steps);
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut blocks: HashMap<u32, (Arc<Block>, Arc<Block>)> = HashMap::new();
    let (mut shared, mut apart) = (Vec::new(), Vec::new());
    while let Some(batch) = source.next_batch().unwrap() {
        let (mut one, mut other) = (Batch::new(batch.asid), Batch::new(batch.asid));
        let mut words = batch.words.iter().copied();
        while let Some(word) = words.next() {
            if word & OP_BIT != 0 {
                let op = batch.op(word).unwrap();
                let Op::Define { id, block } = op else {
                    one.push_op(op.clone());
                    other.push_op(op.clone());
                    continue;
                };
                let block = Arc::new(share(block, &mut rng));
                let alone = Arc::new(block.apart());
                one.push_op(Op::Define { id: *id, block: Arc::clone(&block) });
                other.push_op(Op::Define { id: *id, block: Arc::clone(&alone) });
                blocks.insert(*id, (block, alone));
                continue;
            }
            let addrs: Vec<u64> = words.by_ref().take(words_behind(word)).collect();
            let (block, alone) = &blocks[&block_id(word)];
            let mut bases = vec![NOT_EXECUTED; block.words()];
            for (r, addr) in block.refs.iter().zip(addrs) {
                let base = &mut bases[r.word as usize];
                // References that share a word always happen.
                let shares = block.refs.iter().filter(|other| other.word == r.word).count() > 1;
                *base = if shares && addr == NOT_EXECUTED { 0x7000_0000_0fd0 } else { (*base).min(addr) };
            }
            one.push_block(block_id(word), &bases);
            let addrs: Vec<u64> = block.data(&bases).map(|(_, addr)| addr).collect();
            assert_eq!(addrs.len(), alone.words());
            other.push_block(block_id(word), &addrs);
        }
        shared.push(one);
        apart.push(other);
    }
    (shared, apart)
}

pub struct Made(std::vec::IntoIter<Batch>);

impl Source for Made {
    fn next_batch(&mut self) -> Result<Option<Batch>, farreach_types::Error> {
        Ok(self.0.next())
    }
}

pub fn made(batches: &[Batch]) -> Made {
    Made(Vec::from(batches).into_iter())
}

/// Everything in program order, but definitions.
pub fn expanded(source: &mut dyn Source) -> Vec<(Asid, String)> {
    let (mut blocks, mut all) = (Blocks::default(), Vec::new());
    while let Some(batch) = source.next_batch().unwrap() {
        let each = |item: farreach_types::event::Item| {
            if !matches!(item, farreach_types::event::Item::Op(Op::Define { .. })) {
                all.push((batch.asid, format!("{item:?}")));
            }
            true
        };
        blocks.expand(&batch, each).unwrap();
    }
    all
}

#[test]
fn the_streams_differ_in_words_and_say_the_same() {
    for seed in 0..4 {
        let (shared, apart) = programs(seed, 1500);
        let words = |batches: &[Batch]| batches.iter().map(|b| b.words.len()).sum::<usize>();
        assert!(words(&shared) * 10 < words(&apart) * 9, "{} of {} words", words(&shared), words(&apart));
        assert_eq!(expanded(&mut made(&shared)), expanded(&mut made(&apart)));
        let reports = [&shared, &apart].map(|batches| check(&mut made(batches)).unwrap());
        assert_eq!(format!("{:?}", reports[0]), format!("{:?}", reports[1]));
    }
}

#[test]
fn machines_count_the_same_and_end_with_the_same_entries() {
    const MACHINES: [&str; 9] = [
        "t94/single",
        "t94/superpage",
        "t94/partial",
        "t94/complete",
        "t94/set-associative:entries=16,ways=2",
        "t94/single:entries=7,replacement=lru,split=true",
        "ps/8k:entries=16",
        "rmm15/range",
        "sv97/x86",
    ];
    for seed in seeds(1).map(|seed| seed + 10) {
        let (shared, apart) = programs(seed, 800);
        for plain in [true, false] {
            let truth = run_batches(&MACHINES, &apart, plain, 1);
            for threads in [1, 3] {
                let other = run_batches(&MACHINES, &shared, plain, threads);
                let how = format!("seed {seed}, plain {plain}, {threads} threads");
                assert!(truth.result.workload == other.result.workload, "{how}");
                for (one, other) in truth.result.machines.iter().zip(&other.result.machines) {
                    assert_eq!(one.counts, other.counts, "{how}: {}", one.name);
                    assert!(one == other, "{how}: {}", one.name);
                }
                assert!(truth.entries == other.entries, "{how}");
            }
        }
    }
}

#[test]
fn a_limit_is_reached_at_the_same_reference() {
    let (shared, apart) = programs(20, 1500);
    for limit in [1, 2, 3, 100, 101, 102, 103, 5000, 5001, 5002, 5003, 5004, 5005, 5006] {
        let run = |batches: &[Batch], plain: bool| {
            let specs = ["t94/single", "sv97/x86"].map(|m| farreach_machine::MachineSpec::parse(m, 0).unwrap());
            let options = Options { limit: Some(limit), plain, ..Options::default() };
            let mut lab = farreach_machine::Lab::new(specs.into(), options).unwrap();
            lab.run(&mut made(batches)).unwrap();
            lab.finish().unwrap();
            lab.result("test", None)
        };
        let truth = run(&apart, true);
        assert_eq!(truth.workload.instructions, limit);
        assert!(truth == run(&shared, false), "{limit}");
        assert!(truth == run(&shared, true), "{limit}");
    }
}

#[test]
fn the_page_size_study_counts_the_same() {
    for seed in 30..33 {
        let (shared, apart) = programs(seed, 1500);
        let run = |batches: &[Batch], plain: bool| {
            let mut lab = PageLab::new(&PAGE_SIZES, 64, Options { plain, ..Options::default() }).unwrap();
            lab.run(&mut made(batches)).unwrap();
            lab.finish().unwrap();
            serde_json::to_string(&lab.result("test", None, Vec::new())).unwrap()
        };
        let truth = run(&apart, true);
        for (batches, plain) in [(&shared, false), (&shared, true), (&apart, false)] {
            assert_eq!(truth, run(batches, plain), "seed {seed}");
        }
    }
}

/// Stored, moved and chained streams.
#[test]
fn what_comes_out_of_it_is_the_same() {
    for seed in 40..43 {
        let (shared, apart) = programs(seed, 1500);
        let dir = tempfile::tempdir().unwrap();
        let files = [&shared, &apart].map(|batches| {
            let path = dir.path().join("it.frt");
            let mut writer = TraceWriter::create(&path, Header::default()).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
            let stored = expanded(&mut *open_trace(path.to_str().unwrap(), None).unwrap().source);
            (stored, std::fs::metadata(&path).unwrap().len())
        });
        assert!(files[0].0 == files[1].0 && files[0].0 == expanded(&mut made(&shared)), "seed {seed}");
        assert!(files[0].1 < files[1].1, "seed {seed}: words are stored once");
        let moved = [&shared, &apart].map(|batches| {
            let mut relocator = Relocator::new(64 << 10).unwrap();
            // References outside mappings may cross mappings, which is an error.
            batches.iter().map_while(|batch| relocator.apply(batch).ok()).collect::<Vec<_>>()
        });
        assert!(moved[0] == moved[1] && moved[0].len() > 3, "seed {seed}: {} batches", moved[0].len());
        let twice = |batches: &[Batch]| Chain::new(vec![Box::new(made(batches)), Box::new(made(batches))]);
        assert_eq!(expanded(&mut twice(&shared)), expanded(&mut twice(&apart)), "seed {seed}");
    }
}

/// By hand: a push, a pop of it, and a field 120 bytes up, which may lie in the next page.
#[test]
fn a_word_is_enough_for_three_references() {
    let refs = [(0, Kind::Store, 0), (1, Kind::Load, 0), (2, Kind::Load, 120)];
    let refs = refs.map(|(i, kind, offset)| DataRef { after: i + 1, kind, size: 8, word: 0, offset });
    let instrs = [0, 4, 8].map(|o| Instr { pc: 0x1000 + o, len: 4 });
    let block = Arc::new(Block { instrs: instrs.into(), refs: refs.into() });
    let mut batch = Batch::default();
    batch.push_op(Op::Define { id: 5, block });
    batch.push_block(5, &[0x2f00]);
    batch.push_block(5, &[0x2f00]);
    batch.push_block(5, &[0x2f84]);
    batch.push_block(5, &[0x2ff8]);
    assert_eq!(batch.words[1], block_word(5, 1));
    let mut lab = lab(&["t94/single"], false, 1);
    lab.feed(&batch).unwrap();
    lab.finish().unwrap();
    let result = lab.result("test", None);
    let lookups = &result.workload.lookups;
    // In the third, the last load is of both pages; in the fourth it is of the next one.
    assert_eq!((lookups.fetch, lookups.load, lookups.store), (12, 9, 4));
    assert_eq!(result.machines[0].counts.tlb.misses, 3);
}

#[test]
fn words_that_are_not_as_they_should_be_are_refused() {
    let block = |refs: &[(u32, u32, u32)]| Block {
        instrs: [].into(),
        refs: refs
            .iter()
            .map(|&(size, word, offset)| DataRef { after: 0, kind: Kind::Load, size, word, offset })
            .collect(),
    };
    assert_eq!(block(&[(8, 0, 0), (8, 1, 0), (8, 0, 120)]).validate(), Ok(()));
    for (refs, words) in [
        (&[(8, 1, 0)][..], "data reference 0 has address word 1; 0 is the next"),
        (&[(8, 0, 0), (8, 2, 0)], "data reference 1 has address word 2; 1 is the next"),
        (
            &[(8, 0, 0), (8, 0, 121)],
            "data reference 1 is 8 bytes at 121 behind an address that it shares (128 bytes in all allowed)",
        ),
        (&[(4096, 0, 0), (8, 0, 0)], "data reference 0 is 4096 bytes at 0"),
        (&[(8, 0, 0), (8, 0, u32::MAX)], "data reference 1 is 8 bytes"),
        (&[(8, 0, 16)], "data reference 0 is 16 bytes behind an address word of its own (0 allowed)"),
    ] {
        let why = block(refs).validate().unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}
