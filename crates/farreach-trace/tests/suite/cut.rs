//! Pieces of runs: are they what a plain model leaves, reference by reference?

use farreach_trace::{Cut, Interleaved, Piece, Place, check, generate};
use farreach_types::addr::Asid;
use farreach_types::event::{
    Access, Batch, Block, Blocks, Boundary, DataRef, Instr, Kind, NOT_EXECUTED, OP_BIT, Op, Source, words_behind,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;

/// What a stream says, one after the other.
#[derive(Clone, PartialEq, Debug)]
enum Step {
    /// Whether it is the first of a block, and whether that has instructions.
    Access(Access, bool, bool),
    Op(Op),
}

struct Batches(std::vec::IntoIter<Batch>);

impl Source for Batches {
    fn next_batch(&mut self) -> farreach_types::Result<Option<Batch>> {
        Ok(self.0.next())
    }
}

fn source(batches: &[Batch]) -> Batches {
    Batches(Vec::from(batches).into_iter())
}

fn drain(mut source: impl Source) -> Vec<Batch> {
    std::iter::from_fn(|| source.next_batch().unwrap()).collect()
}

/// Everything but definitions.
fn steps(batches: &[Batch]) -> Vec<(Asid, Step)> {
    let (mut blocks, mut steps) = (Blocks::default(), Vec::new());
    for batch in batches {
        let mut at = 0;
        while let Some(&word) = batch.words.get(at) {
            if word & OP_BIT != 0 {
                match batch.op(word).unwrap() {
                    Op::Define { id, block } => blocks.define(*id, block).unwrap(),
                    Op::Code { .. } => {}
                    op => steps.push((batch.asid, Step::Op(op.clone()))),
                }
                at += 1;
                continue;
            }
            let (block, addrs) = blocks.execution(&batch.words, at).unwrap();
            let mut all = Vec::new();
            let fetch = |i: &Instr| Access { kind: Kind::Fetch, addr: i.pc, size: i.len };
            let mut fetched = 0;
            for (r, addr) in block.data(addrs) {
                all.extend(block.instrs[fetched..r.after as usize].iter().map(fetch));
                fetched = r.after as usize;
                if addr != NOT_EXECUTED {
                    all.push(Access { kind: r.kind, addr, size: r.size });
                }
            }
            all.extend(block.instrs[fetched..].iter().map(fetch));
            let code = !block.instrs.is_empty();
            let step = |(i, access)| (batch.asid, Step::Access(access, i == 0, code));
            steps.extend(all.into_iter().enumerate().map(step));
            at += 1 + addrs.len();
        }
    }
    steps
}

/// Where the model is.
#[derive(PartialEq)]
enum Stage {
    Skip,
    WarmUp,
    Count,
    Done,
}

/// The model. It looks at one step after the other, and at a boundary before the next fetch, block or event.
struct Model<'p> {
    piece: &'p Piece,
    stage: Stage,
    until: u64,
    count: u64,
    left: u64,
    skipped: u64,
    out: Vec<(Asid, Step)>,
}

impl Model<'_> {
    fn of(piece: &Piece, all: &[(Asid, Step)]) -> (Vec<(Asid, Step)>, u64) {
        let limit = piece.limit.unwrap_or(u64::MAX);
        let (stage, until) = (Stage::Skip, piece.skip);
        let mut model = Model { piece, stage, until, count: 0, left: limit, skipped: 0, out: Vec::new() };
        let (mut open, mut fetches, mut before) = (piece.from.is_none(), false, Asid(0));
        for (i, (asid, step)) in all.iter().enumerate() {
            let (fetch, begins) = match step {
                Step::Op(_) => (false, true),
                // Without fetches each reference is a unit.
                Step::Access(access, first, code) => {
                    (access.kind == Kind::Fetch, fetch_or(*first, access) || !fetches && !code)
                }
            };
            if begins {
                model.pass_boundaries(open, before);
            }
            if model.stage == Stage::Done {
                break;
            }
            before = *asid;
            let Step::Access(access, first, code) = step else {
                model.out.push((*asid, step.clone()));
                continue;
            };
            if *first && *code && !fetches {
                (fetches, model.count) = (true, 0);
            }
            // What a block does before its first fetch goes with that.
            let fetched = match (fetch, first) {
                (true, _) => Some(access.addr),
                (false, true) => first_fetch(&all[i..]),
                (false, false) => None,
            };
            if !open && fetched.is_some_and(|pc| piece.from == Some(Place::Address(pc))) {
                open = true;
                model.pass_boundaries(open, before);
            }
            let counts = u64::from(fetch || !fetches);
            if !open {
                model.skipped += u64::from(fetch);
                continue;
            }
            model.count += counts;
            match model.stage {
                Stage::Skip => model.skipped += counts,
                _ => model.out.push((*asid, step.clone())),
            }
        }
        model.pass_boundaries(open, before);
        (model.out, model.skipped)
    }

    fn pass_boundaries(&mut self, open: bool, asid: Asid) {
        while open && self.stage != Stage::Done && self.count >= self.until {
            let every = self.piece.every.unwrap_or(u64::MAX);
            let boundary = match self.stage {
                Stage::Skip if self.piece.warmup > 0 => {
                    (self.stage, self.until) = (Stage::WarmUp, self.piece.warmup);
                    None
                }
                Stage::Skip | Stage::WarmUp => {
                    let warm = self.stage == Stage::WarmUp;
                    (self.stage, self.until) = (Stage::Count, self.left.min(every));
                    warm.then_some(Boundary::Counted)
                }
                _ => {
                    self.left -= self.count;
                    self.until = self.left.min(every);
                    if self.left == 0 {
                        self.stage = Stage::Done;
                    }
                    (self.left > 0).then_some(Boundary::Phase)
                }
            };
            self.count = 0;
            self.out.extend(boundary.map(|boundary| (asid, Step::Op(Op::Boundary(boundary)))));
        }
    }
}

/// The first fetch of the block that begins here.
fn first_fetch(steps: &[(Asid, Step)]) -> Option<u64> {
    let mut of_block = steps.iter().enumerate().map_while(|(i, (_, step))| match step {
        Step::Access(access, first, _) if i == 0 || !first => Some(access),
        _ => None,
    });
    of_block.find(|access| access.kind == Kind::Fetch).map(|access| access.addr)
}

fn fetch_or(first: bool, access: &Access) -> bool {
    first || access.kind == Kind::Fetch
}

/// The same steps, wherever blocks begin.
fn plain(steps: Vec<(Asid, Step)>) -> Vec<(Asid, Step)> {
    let without = |step| match step {
        Step::Access(access, ..) => Step::Access(access, false, false),
        op => op,
    };
    steps.into_iter().map(|(asid, step)| (asid, without(step))).collect()
}

/// Without instructions: their loads and stores alone.
fn without_fetches(batches: &[Batch]) -> Vec<Batch> {
    let mut blocks = Blocks::default();
    let mut all = Vec::new();
    for batch in batches {
        let mut out = Batch::new(batch.asid);
        let mut at = 0;
        while let Some(&word) = batch.words.get(at) {
            if word & OP_BIT != 0 {
                match batch.op(word).unwrap() {
                    Op::Define { id, block } => {
                        blocks.define(*id, block).unwrap();
                        let refs = block.refs.iter().map(|r| DataRef { after: 0, ..*r }).collect();
                        let block = Block { instrs: Box::default(), refs };
                        if !block.refs.is_empty() {
                            out.push_op(Op::Define { id: *id, block: Arc::new(block) });
                        }
                    }
                    op => out.push_op(op.clone()),
                }
                at += 1;
                continue;
            }
            let (block, addrs) = blocks.execution(&batch.words, at).unwrap();
            if !block.refs.is_empty() {
                out.push_block(word as u32, addrs);
            }
            at += 1 + addrs.len();
        }
        all.push(out);
    }
    all
}

fn random_piece(rng: &mut Pcg64Mcg, all: &[(Asid, Step)]) -> Piece {
    let total = all.len() as u64 / 4 + 2;
    let mut some = |most: u64| if rng.random_bool(0.5) { rng.random_range(1..most.max(2)) } else { 0 };
    let (skip, warmup, limit, every) = (some(total / 2), some(total / 4), some(total / 2), some(total / 8));
    // Sometimes more than there is.
    let skip = if rng.random_bool(0.05) { skip + 8 * total } else { skip };
    let positive = |n: u64| (n > 0).then_some(n);
    let pcs = || {
        all.iter().filter_map(|(_, step)| match step {
            Step::Access(Access { kind: Kind::Fetch, addr, .. }, ..) => Some(*addr),
            _ => None,
        })
    };
    let place = rng.random_range(0..3 * pcs().count().max(1));
    let from = pcs().nth(place).map(Place::Address);
    Piece { from, skip, warmup, limit: positive(limit), every: positive(every) }
}

fn without_boundaries(batch: &mut Batch) {
    let (mut words, mut at) = (Vec::new(), 0);
    while let Some(&word) = batch.words.get(at) {
        let end = at + 1 + if word & OP_BIT == 0 { words_behind(word) } else { 0 };
        if word & OP_BIT == 0 || !matches!(batch.op(word).unwrap(), Op::Boundary(_)) {
            words.extend_from_slice(&batch.words[at..end]);
        }
        at = end;
    }
    batch.words = words;
}

/// A piece of a stream, as the plain model has it, and why it never came.
fn cut(whole: &[Batch], piece: &Piece, what: &str) -> (Vec<Batch>, Option<String>) {
    let (expected, skipped) = Model::of(piece, &steps(whole));
    let mut cut = Cut::new(source(whole), piece.clone());
    let mut piece_of = Vec::new();
    let end = loop {
        match cut.next_batch() {
            Ok(Some(batch)) => piece_of.push(batch),
            Ok(None) => break None,
            Err(why) => break Some(why.to_string()),
        }
    };
    assert_eq!(plain(steps(&piece_of)), plain(expected), "{what}, {piece:?}");
    if let Some(why) = &end {
        let says = if why.contains("--skip") { why.contains(&format!("after {skipped} ")) } else { true };
        assert!(says, "{why}: {skipped} were skipped");
        assert!(["--skip", "--warmup", "--from"].iter().any(|option| why.contains(option)), "{why}");
    }
    // A piece is a stream like any other.
    piece_of.iter_mut().for_each(without_boundaries);
    let report = check(&mut source(&piece_of)).unwrap();
    assert_eq!(report.violation, None, "{what}, {piece:?}");
    (piece_of, end)
}

#[test]
fn pieces_are_those_of_a_plain_model() {
    let (mut cut_blocks, mut never, mut again) = (0, 0, 0);
    for seed in 0..300 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut whole = drain(generate::program(seed, 60));
        if seed % 5 == 4 {
            whole = without_fetches(&whole);
        }
        for _ in 0..6 {
            let piece = random_piece(&mut rng, &steps(&whole));
            let (once, end) = cut(&whole, &piece, &format!("seed {seed}"));
            cut_blocks += once.iter().flat_map(|batch| &batch.ops).filter(|op| op.is_definition()).count();
            never += usize::from(end.is_some());
            // Its blocks have ids that parts of a piece of it would have had, too.
            let accesses = steps(&once);
            if accesses.len() > 40 {
                let (twice, _) = cut(&once, &random_piece(&mut rng, &accesses), &format!("seed {seed}, again"));
                again += usize::from(!twice.is_empty());
            }
        }
    }
    assert!(cut_blocks > 1000 && never > 20, "{cut_blocks} definitions, {never} pieces that never came");
    assert!(again > 200, "{again} pieces of pieces");
}

/// A block with a mark of a begin behind its first instruction, and one of an end before its last.
fn marked() -> (Batch, [u8; 8], [u8; 8]) {
    let nop = |number: u32| {
        let mut bytes = [0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        bytes[4..].copy_from_slice(&number.to_le_bytes());
        bytes
    };
    (Batch::new(Asid(3)), nop(0x4652_1001), nop(0x4652_1002))
}

#[test]
fn marked_pieces_are_what_is_executed_between_the_marks() {
    let (mut batch, begin, end) = marked();
    let instrs = |from: u64, lens: &[u32]| -> Box<[Instr]> {
        let before = |i: usize| lens[..i].iter().map(|&len| u64::from(len)).sum::<u64>();
        lens.iter().enumerate().map(|(i, &len)| Instr { pc: from + before(i), len }).collect()
    };
    let load = |after, word| DataRef::new(after, Kind::Load, 8, word);
    let first = Block { instrs: instrs(0x1000, &[1, 8, 2]), refs: [load(1, 0), load(3, 1)].into() };
    let work = Block { instrs: instrs(0x2000, &[4, 4]), refs: [load(1, 0)].into() };
    let last = Block { instrs: instrs(0x3000, &[3, 8, 1]), refs: [load(1, 0), load(3, 1)].into() };
    for (id, block) in [(0, &first), (1, &work), (2, &last)] {
        batch.push_op(Op::Define { id, block: Arc::new(block.clone()) });
    }
    batch.push_op(Op::Code { id: 0, bytes: [&[0x90][..], &begin, &[0x90, 0x90]].concat().into() });
    batch.push_op(Op::Code { id: 2, bytes: [&[0x90; 3][..], &end, &[0x90]].concat().into() });
    for round in 0..2 {
        batch.push_block(1, &[0x9000]);
        batch.push_block(0, &[0xa000, 0xa008]);
        batch.push_block(1, &[0xb000 + round]);
        batch.push_block(2, &[0xc000, 0xc008]);
    }
    let marks = Piece { from: Some(Place::Mark), ..Piece::default() };
    let mut cut = Cut::new(source(&[batch.clone()]), marks.clone());
    let left = cut.next_batch().unwrap().unwrap();
    assert!(cut.next_batch().unwrap().is_none());
    let accesses: Vec<(Kind, u64)> = steps(&[left])
        .into_iter()
        .filter_map(|(_, step)| match step {
            Step::Access(access, ..) => Some((access.kind, access.addr)),
            Step::Op(_) => None,
        })
        .collect();
    let (fetch, load) = (Kind::Fetch, Kind::Load);
    let round = |n: u64| {
        [
            (fetch, 0x1009),
            (load, 0xa008),
            (fetch, 0x2000),
            (load, 0xb000 + n),
            (fetch, 0x2004),
            (fetch, 0x3000),
            (load, 0xc000),
        ]
    };
    assert_eq!(accesses, [round(0), round(1)].concat());
    // The last of three instructions behind a begin is the last of the warm-up; phases go on over the gap.
    let piece = Piece { warmup: 3, every: Some(2), limit: Some(4), ..marks.clone() };
    let mut cut = Cut::new(source(&[batch.clone()]), piece);
    let left = steps(&[cut.next_batch().unwrap().unwrap()]);
    let place = |boundary| left.iter().position(|(_, step)| *step == Step::Op(Op::Boundary(boundary))).unwrap();
    let before = |at: usize| {
        left[..at].iter().filter(|(_, step)| matches!(step, Step::Access(a, ..) if a.kind == fetch)).count()
    };
    assert_eq!([before(place(Boundary::Counted)), before(place(Boundary::Phase)), before(left.len())], [3, 5, 7]);
    // Without code there are no marks; without marks nothing begins.
    let mut without = batch.clone();
    without.words.retain(|word| word & OP_BIT == 0 || *word < OP_BIT | 3);
    let why = |batch: &Batch, piece: &Piece| {
        let mut cut = Cut::new(source(std::slice::from_ref(batch)), piece.clone());
        cut.next_batch().unwrap();
        cut.next_batch().unwrap_err().to_string()
    };
    assert!(why(&without, &marks).contains("no code"), "{}", why(&without, &marks));
    let mut other = batch;
    let bytes = |op: &mut Op| {
        if let Op::Code { bytes, .. } = op {
            *bytes = vec![0x90; bytes.len()].into()
        }
    };
    other.ops.iter_mut().for_each(bytes);
    assert!(why(&other, &marks).contains("was never executed"), "{}", why(&other, &marks));
}

#[test]
fn a_cut_block_keeps_its_code() {
    let mut batch = Batch::new(Asid(0));
    let instrs = (0..6).map(|i| Instr { pc: 0x1000 + 2 * i, len: 2 }).collect();
    batch.push_op(Op::Define { id: 7, block: Arc::new(Block { instrs, refs: Box::default() }) });
    batch.push_op(Op::Code { id: 7, bytes: (0..12).collect::<Vec<u8>>().into() });
    batch.push_block(7, &[]);
    batch.push_block(7, &[]);
    let piece = Piece { skip: 2, limit: Some(9), ..Piece::default() };
    let left = Cut::new(source(&[batch]), piece).next_batch().unwrap().unwrap();
    let code: Vec<&[u8]> = left
        .ops
        .iter()
        .filter_map(|op| match op {
            Op::Code { bytes, .. } => Some(&**bytes),
            _ => None,
        })
        .skip(1)
        .collect();
    assert_eq!(code, [&[4, 5, 6, 7, 8, 9, 10, 11][..], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9][..]]);
}

/// What the kernel stores in what is left out never was, as what the program touches there.
#[test]
fn stores_of_the_kernel_are_left_out_with_what_is_executed() {
    let mut batch = Batch::new(Asid(0));
    let instrs = (0..6).map(|i| Instr { pc: 0x1000 + 2 * i, len: 2 }).collect();
    batch.push_op(Op::Define { id: 7, block: Arc::new(Block { instrs, refs: Box::default() }) });
    for start in 0..3 {
        batch.push_op(Op::KernelStore { start, len: 1 });
        batch.push_block(7, &[]);
    }
    let stays = |piece: Piece| -> Vec<u64> {
        let left = steps(&drain(Cut::new(source(std::slice::from_ref(&batch)), piece)));
        let start = |(_, step): &(Asid, Step)| match step {
            Step::Op(Op::KernelStore { start, .. }) => Some(*start),
            _ => None,
        };
        left.iter().filter_map(start).collect()
    };
    let skip = |skip| Piece { skip, ..Piece::default() };
    assert_eq!([stays(skip(5)), stays(skip(6)), stays(skip(7))], [vec![1, 2], vec![1, 2], vec![2]]);
    assert_eq!(stays(Piece { warmup: 12, ..Piece::default() }), [0, 1, 2]);
    assert_eq!(stays(Piece { from: Some(Place::Address(0x1004)), ..Piece::default() }), [1, 2]);
}

/// The plain merge: from each source in turn what the model leaves of a slice, under other numbers.
fn merged(sources: &[Vec<Batch>], slice: u64) -> Vec<(Asid, Step)> {
    let piece = Piece { every: Some(slice), ..Piece::default() };
    // The slices of each source.
    let mut slices: Vec<std::collections::VecDeque<Vec<(Asid, Step)>>> = Vec::new();
    for batches in sources {
        let (all, _) = Model::of(&piece, &steps(batches));
        let is_end = |step: &(Asid, Step)| step.1 == Step::Op(Op::Boundary(Boundary::Phase));
        slices.push(all.split(is_end).map(<[_]>::to_vec).collect());
    }
    let mut out = Vec::new();
    let (mut spaces, mut alive) = (vec![std::collections::HashMap::new(); sources.len()], Vec::new());
    let mut turns: std::collections::VecDeque<usize> = (0..sources.len()).collect();
    while let Some(of) = turns.pop_front() {
        let mut next = spaces.iter().map(|of: &std::collections::HashMap<Asid, Asid>| of.len()).sum::<usize>() as u32;
        let mut space = |asid: Asid| {
            *spaces[of].entry(asid).or_insert_with(|| {
                next += 1;
                Asid(next - 1)
            })
        };
        for (asid, mut step) in slices[of].pop_front().unwrap() {
            let asid = space(asid);
            match &mut step {
                Step::Op(Op::Start { pid, parent, .. }) => {
                    (*pid, *parent) = (0, parent.map(&mut space));
                    alive.push((of, asid));
                }
                Step::Op(Op::Fork { child }) => {
                    *child = space(*child);
                    alive.push((of, *child));
                }
                Step::Op(Op::End(_)) => alive.retain(|(_, one)| *one != asid),
                _ => {}
            }
            out.push((asid, step));
        }
        if !slices[of].is_empty() {
            turns.push_back(of);
        } else if !turns.is_empty() {
            let mut lost: Vec<Asid> = alive.iter().filter(|(one, _)| *one == of).map(|(_, asid)| *asid).collect();
            lost.sort();
            out.extend(lost.into_iter().map(|asid| (asid, Step::Op(Op::End(farreach_types::event::End::Lost)))));
            alive.retain(|(one, _)| *one != of);
        }
    }
    out
}

#[test]
fn programs_take_turns_as_in_a_plain_merge() {
    for seed in 0..60 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let count = rng.random_range(1..4);
        let slice = rng.random_range(1..200);
        let program = |i| {
            let mut batches = drain(generate::program(seed * 8 + i, 10 + 15 * i));
            if seed % 3 == 0 && i == 0 {
                batches.truncate(batches.len() / 2);
            }
            batches
        };
        let sources: Vec<Vec<Batch>> = (0..count).map(program).collect();
        let streams = sources.iter().map(|batches| Box::new(source(batches)) as Box<dyn Source + Send>);
        let left = drain(Interleaved::new(streams.collect(), slice));
        let mut pids = std::collections::HashMap::new();
        let without_pids = |(asid, mut step)| {
            if let Step::Op(Op::Start { pid, parent, .. }) = &mut step {
                if let Some(parent) = parent {
                    // What was forked has no id before its exec.
                    assert!(pids.get(parent).is_none_or(|known| known == pid), "an exec keeps its process id");
                } else {
                    assert!(pids.values().all(|other| other != pid), "no two processes share an id");
                }
                pids.insert(asid, std::mem::take(pid));
            }
            (asid, step)
        };
        let found: Vec<_> = plain(steps(&left)).into_iter().map(without_pids).collect();
        assert_eq!(found, plain(merged(&sources, slice)), "seed {seed}, slices of {slice}");
        assert_eq!(check(&mut source(&left)).unwrap().violation, None, "seed {seed}");
    }
}
