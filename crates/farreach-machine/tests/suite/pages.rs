//! Does the page-size study count as plain TLBs do (PS-1 to PS-3, CA-17, CA-18), and the memory as plain sets do (PS-5,
//! PS-7, PS-13, CA-19)? The model here is a list per TLB and a set per count; it shares no code with the engine.

use crate::common::Stream;
use farreach_machine::{Options, PAGE_SIZES, PageLab};
use farreach_trace::generate;
use farreach_types::addr::Asid;
use farreach_types::counts::{PageCounts, PageSizeResult};
use farreach_types::event::{
    Access, Advice, Backing, Batch, Block, Blocks, DataRef, End, Instr, Item, Kind, Op, Source,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Numbers of entries at which the engine is compared: both ends of its array of nearest pages, and beyond.
const ENTRIES: [u64; 14] = [1, 2, 3, 4, 7, 8, 15, 16, 17, 18, 31, 64, 100, 400];

type Page = (Asid, u64);

/// A true-LRU TLB: pages, the least recent first.
struct List {
    entries: usize,
    pages: Vec<Page>,
    misses: u64,
}

impl List {
    fn lookup(&mut self, page: Page) {
        match self.pages.iter().rposition(|p| *p == page) {
            Some(at) => drop(self.pages.remove(at)),
            None => {
                self.misses += 1;
                if self.pages.len() == self.entries {
                    self.pages.remove(0);
                }
            }
        }
        self.pages.push(page);
    }
}

/// One page size.
struct Size {
    shift: u32,
    lookups: [u64; 2],
    tlbs: [Vec<List>; 2],
    live: BTreeSet<Page>,
    allocations: u64,
    peak: usize,
}

/// The whole study, plainly.
struct Model {
    sizes: Vec<Size>,
    touched: [BTreeSet<Page>; 3],
    mapped: BTreeSet<Page>,
    instructions: u64,
    references: u64,
}

impl Model {
    fn new() -> Model {
        let list = |entries: &u64| List { entries: *entries as usize, pages: Vec::new(), misses: 0 };
        let tlbs = || ENTRIES.iter().map(list).collect();
        let size = |size: &u64| Size {
            shift: size.trailing_zeros(),
            lookups: [0; 2],
            tlbs: [tlbs(), tlbs()],
            live: BTreeSet::new(),
            allocations: 0,
            peak: 0,
        };
        Model {
            sizes: PAGE_SIZES.iter().map(size).collect(),
            touched: Default::default(),
            mapped: BTreeSet::new(),
            instructions: 0,
            references: 0,
        }
    }

    /// Whether it was inserted.
    fn access(&mut self, asid: Asid, access: Access, limit: u64) -> bool {
        let units = if self.instructions > 0 { self.instructions } else { self.references };
        // The data references of the last instruction are its own.
        if units >= limit && (access.kind == Kind::Fetch || self.instructions == 0) {
            return false;
        }
        self.instructions += u64::from(access.kind == Kind::Fetch);
        self.references += 1;
        let last = access.addr.saturating_add(u64::from(access.size) - 1);
        let side = usize::from(access.kind != Kind::Fetch);
        for vpn in access.addr >> 12..=last >> 12 {
            self.touched[side].insert((asid, vpn));
            if access.kind == Kind::Store {
                self.touched[2].insert((asid, vpn));
            }
        }
        for size in &mut self.sizes {
            for vpn in access.addr >> 12..=last >> 12 {
                size.allocations += u64::from(size.live.insert((asid, vpn >> (size.shift - 12))));
            }
            size.peak = size.peak.max(size.live.len());
            for page in access.addr >> size.shift..=last >> size.shift {
                size.lookups[side] += 1;
                size.tlbs[side].iter_mut().for_each(|tlb| tlb.lookup((asid, page)));
            }
        }
        true
    }

    /// A page is released if all of its mapped parts, and at least one part, lie in the released range.
    fn release(&mut self, asid: Asid, start: u64, len: u64) {
        let reached = start >> 12..(start + len) >> 12;
        if reached.is_empty() {
            return;
        }
        for size in &mut self.sizes {
            let parts = 1 << (size.shift - 12);
            let goes = |&(space, page): &Page| {
                let (from, to) = (page * parts, (page + 1) * parts);
                let mut inside = self.mapped.range((space, from)..(space, to));
                let outside = inside.any(|(_, vpn)| !reached.contains(vpn));
                space == asid && from < reached.end && reached.start < to && !outside
            };
            size.live.retain(|page| !goes(page));
            for tlb in size.tlbs.iter_mut().flatten() {
                tlb.pages.retain(|page| !goes(page));
            }
        }
    }

    fn unmap(&mut self, asid: Asid, start: u64, len: u64) {
        self.release(asid, start, len);
        let gone = start >> 12..(start + len) >> 12;
        self.mapped.retain(|(space, vpn)| *space != asid || !gone.contains(vpn));
    }

    fn map(&mut self, asid: Asid, start: u64, len: u64) {
        self.unmap(asid, start, len);
        self.mapped.extend((start >> 12..(start + len) >> 12).map(|vpn| (asid, vpn)));
    }

    fn op(&mut self, asid: Asid, op: &Op) {
        match *op {
            Op::Map(ref m) => self.map(asid, m.start, m.len),
            Op::Unmap { start, len } => self.unmap(asid, start, len),
            Op::Advise { start, len, advice: Advice::DontNeed } => self.release(asid, start, len),
            Op::Remap { old_start, old_len, new_start, new_len } if old_start != new_start => {
                self.unmap(asid, old_start, old_len);
                self.map(asid, new_start, new_len);
            }
            Op::Remap { old_start, old_len, new_len, .. } if old_len > new_len => {
                self.unmap(asid, old_start + new_len, old_len - new_len);
            }
            Op::Remap { old_start, old_len, new_len, .. } => self.map(asid, old_start + old_len, new_len - old_len),
            Op::Fork { child } => {
                let copies: Vec<Page> = self.mapped.iter().filter(|p| p.0 == asid).map(|p| (child, p.1)).collect();
                self.mapped.extend(copies);
            }
            Op::End(_) => self.unmap(asid, 0, !0),
            _ => {}
        }
    }

    fn run(batches: &[Batch], limit: u64) -> Model {
        let (mut model, mut blocks) = (Model::new(), Blocks::default());
        let mut on = true;
        for batch in batches {
            let each = |item: Item<'_>| {
                match item {
                    Item::Access(access) => on = on && model.access(batch.asid, access, limit),
                    Item::Op(op) if on => model.op(batch.asid, op),
                    Item::Op(_) => {}
                }
                on
            };
            blocks.expand(batch, each).unwrap();
            if !on {
                break;
            }
        }
        model
    }

    fn misses(&self, side: usize) -> Vec<Vec<u64>> {
        self.sizes.iter().map(|s| s.tlbs[side].iter().map(|t| t.misses).collect()).collect()
    }

    /// Page tables: an address space has a root, and nodes for all its prefixes of every level below.
    fn table_nodes(&self, shift: u32) -> u64 {
        let pages: BTreeSet<Page> = self.touched[0].union(&self.touched[1]).copied().collect();
        let spaces: BTreeSet<Asid> = pages.iter().map(|p| p.0).collect();
        let mut nodes = spaces.len() as u64;
        for level in (shift + 9..48).step_by(9) {
            nodes += pages.iter().map(|(asid, vpn)| (asid, vpn >> (level - 12))).collect::<BTreeSet<_>>().len() as u64;
        }
        nodes
    }

    fn counts(&self, size: &Size) -> [u64; 9] {
        let bytes = |pages: u64| pages << size.shift;
        let distinct = |sets: &[&BTreeSet<Page>]| {
            let pages = sets.iter().flat_map(|set| set.iter()).map(|(asid, vpn)| (asid, vpn >> (size.shift - 12)));
            bytes(pages.collect::<BTreeSet<_>>().len() as u64)
        };
        let [code, data, stored] = &self.touched;
        [
            size.lookups[0],
            size.lookups[1],
            distinct(&[code]),
            distinct(&[data]),
            distinct(&[code, data]),
            bytes(size.allocations),
            bytes(size.peak as u64),
            self.table_nodes(size.shift) << 12,
            distinct(&[stored]),
        ]
    }
}

fn counts(c: &PageCounts) -> [u64; 9] {
    [
        c.fetch_lookups,
        c.data_lookups,
        c.code_bytes,
        c.data_bytes,
        c.total_bytes,
        c.allocated_bytes,
        c.peak_bytes,
        c.page_table_bytes,
        c.write_back_bytes,
    ]
}

fn study(batches: &[Batch], sizes: &[u64], options: Options) -> (PageLab, PageSizeResult) {
    let mut lab = PageLab::new(sizes, 64, options).unwrap();
    for batch in batches {
        lab.feed(batch).unwrap();
    }
    lab.finish().unwrap();
    let result = lab.result("test", None, Vec::new());
    (lab, result)
}

/// Compares everything with the model, with and without shortcuts, on one thread and on three.
fn compare(batches: &[Batch], limit: Option<u64>) {
    let model = Model::run(batches, limit.unwrap_or(u64::MAX));
    let (lab, result) = study(batches, &PAGE_SIZES, Options { limit, ..Options::default() });
    for (plain, threads) in [(true, 1), (false, 3), (true, 4)] {
        let (_, other) = study(batches, &PAGE_SIZES, Options { limit, plain, threads, ..Options::default() });
        assert!(result == other, "plain {plain}, {threads} threads: nothing may change");
    }
    for (side, kind) in [(0, Kind::Fetch), (1, Kind::Load)] {
        let at = |size: &u64| ENTRIES.map(|n| lab.misses(kind, *size, n).unwrap()).to_vec();
        assert_eq!(PAGE_SIZES.iter().map(at).collect::<Vec<_>>(), model.misses(side), "{kind:?} misses");
    }
    assert_eq!(result.workload.instructions, model.instructions);
    assert_eq!(result.workload.references.total(), model.references);
    for (row, size) in result.rows.iter().zip(&model.sizes) {
        assert_eq!(counts(&row.counts), model.counts(size), "page size {}", row.counts.page_size);
    }
}

fn collect(source: &mut dyn Source) -> Vec<Batch> {
    std::iter::from_fn(|| source.next_batch().unwrap()).collect()
}

/// CA-17: maps, unmaps, moves, advice, threads, forks, execs and ends, and references that cross pages.
#[test]
fn programs_count_as_plain_lists_do() {
    for seed in 0..6 {
        compare(&collect(&mut generate::program(seed, 120)), None);
    }
    compare(&collect(&mut generate::uniform(3, 600, 4000)), None);
    compare(&collect(&mut generate::strided(4096, 90, 2000)), None);
}

/// PS-9, AMB-32: the limit cuts a block at the same reference as in the laboratory.
#[test]
fn a_limit_cuts_where_it_cuts_for_every_machine() {
    let batches = collect(&mut generate::program(11, 60));
    for limit in [1, 2, 57, 1000, 1001, 1002, 1003, 2500] {
        compare(&batches, Some(limit));
        let spec = farreach_machine::MachineSpec::parse("t94/single", 0).unwrap();
        let options = Options { limit: Some(limit), ..Options::default() };
        let mut lab = farreach_machine::Lab::new(vec![spec], options.clone()).unwrap();
        for batch in &batches {
            lab.feed(batch).unwrap();
        }
        let want = lab.result("test", None).workload;
        assert_eq!(study(&batches, &[4096], options).1.workload, want, "limit {limit}");
        let units = if want.instructions > 0 { want.instructions } else { want.references.total() };
        assert_eq!(units, limit);
    }
}

/// A stream without events that change an existing translation: no protection, no copy-on-write.
fn without_copies(batches: &[Batch]) -> Vec<Batch> {
    let without_copy = |op: &Op| match op {
        Op::Protect { .. } | Op::Fork { .. } => Op::Switch { thread: 1 },
        Op::Map(m) => Op::Map(farreach_types::event::Mapping { backing: Backing::Anonymous, ..m.clone() }),
        op => op.clone(),
    };
    batches.iter().map(|b| Batch { ops: b.ops.iter().map(without_copy).collect(), ..b.clone() }).collect()
}

/// The stack is one TLB of the laboratory for every number of entries (PS-3).
#[test]
fn every_number_of_entries_is_a_machine_of_its_own() {
    let entries = [1u64, 2, 5, 16, 17, 40, 64, 300];
    let names = entries.map(|n| format!("t94/single:split=true,replacement=lru,entries={n}"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut unmapped = Stream::new();
    unmapped.start().anon(0, 400);
    for i in 0..3000u64 {
        unmapped.load(i * i % 397).fetch(i % 90 + 500).store(i % 23);
        if i % 37 == 0 {
            let start = i % 300;
            unmapped.unmap(start, i % 60 + 1).anon(start, i % 60 + 1);
        }
    }
    let mut streams = vec![unmapped.batches, collect(&mut generate::uniform(5, 500, 6000))];
    streams.extend((20..24).map(|seed| without_copies(&collect(&mut generate::program(seed, 250)))));
    for batches in streams {
        let machines = crate::common::run_batches(&names, &batches, false, 1).result;
        let (lab, result) = study(&batches, &[4096], Options { seed: 7, ..Options::default() });
        for (machine, n) in machines.machines.iter().zip(entries) {
            let misses = [Kind::Fetch, Kind::Store].map(|side| lab.misses(side, 4096, n).unwrap());
            assert_eq!(misses, [machine.counts.tlb.fetch_misses, machine.counts.tlb.data_misses], "{n} entries");
        }
        assert_eq!(result.workload, machines.workload);
    }
}

/// CA-18: pages of 2^s bytes are 4 KB pages of the program with its addresses shifted, first and last byte of each
/// reference.
#[test]
fn larger_pages_are_shifted_addresses() {
    let batches = without_copies(&collect(&mut generate::program(31, 150)));
    let (lab, _) = study(&batches, &PAGE_SIZES, Options::default());
    // Events keep their effect only on whole large pages, so the streams have none but what ends an address space.
    let stays = |op: &Op| matches!(op, Op::Define { .. } | Op::Start { .. } | Op::End(_));
    let only: Vec<Batch> = batches
        .iter()
        .map(|b| Batch {
            ops: b.ops.iter().map(|op| if stays(op) { op.clone() } else { Op::Switch { thread: 1 } }).collect(),
            ..b.clone()
        })
        .collect();
    let (lab_only, _) = study(&only, &PAGE_SIZES, Options::default());
    let mut differs = false;
    for size in PAGE_SIZES {
        let by = size.trailing_zeros() - 12;
        let (mut blocks, mut shifted, mut ids) = (Blocks::default(), Vec::new(), BTreeMap::new());
        for batch in &only {
            let mut out = Batch::new(batch.asid);
            let each = |item: Item<'_>| {
                match item {
                    Item::Op(Op::Define { .. }) => {}
                    Item::Op(op) => out.push_op(op.clone()),
                    Item::Access(a) => {
                        let (first, last) = (a.addr >> by, (a.addr + u64::from(a.size) - 1) >> by);
                        let bytes = (last - first + 1) as u32;
                        let fetched = (a.kind == Kind::Fetch).then_some(first);
                        let next = ids.len() as u32;
                        let id = *ids.entry((a.kind, bytes, fetched)).or_insert(next);
                        if id == next {
                            let instrs = fetched.map(|pc| Instr { pc, len: bytes });
                            let refs = fetched.is_none().then_some(DataRef::new(0, a.kind, bytes, 0));
                            let block =
                                Block { instrs: instrs.into_iter().collect(), refs: refs.into_iter().collect() };
                            out.push_op(Op::Define { id, block: Arc::new(block) });
                        }
                        out.push_block(id, if fetched.is_none() { std::slice::from_ref(&first) } else { &[] });
                    }
                }
                true
            };
            blocks.expand(batch, each).unwrap();
            shifted.push(out);
        }
        let (folded, _) = study(&shifted, &[4096], Options::default());
        for side in [Kind::Fetch, Kind::Load] {
            for n in ENTRIES {
                assert_eq!(
                    folded.misses(side, 4096, n),
                    lab_only.misses(side, size, n),
                    "{size}, {side:?}, {n} entries"
                );
                differs |= lab.misses(side, size, n) != lab_only.misses(side, size, n);
            }
        }
    }
    assert!(differs, "the events that were left out are not without effect elsewhere");
}

/// CA-19, AMB-30, by hand: first touch, allocation again, code and data on one page, dirty pages, page tables.
#[test]
fn memory_by_hand() {
    let mut s = Stream::new();
    s.start().anon(0, 64);
    // Pages 0 and 1 hold code, page 1 data as well; pages 16 and 17 data, 17 is stored to.
    s.fetch(0).fetch(1).load(1).load(16).store(17);
    // Page 16 is released and allocated again: at 64 KB nothing changes, because other parts are mapped.
    s.unmap(16, 1).anon(16, 1).load(16);
    // Then all parts are released: a page of 64 KB is released and allocated again.
    s.unmap(16, 16).anon(16, 2).load(17);
    let (_, result) = study(&s.batches, &[4096, 65536, 2 << 20], Options::default());
    let row = |i: usize| {
        let c = &result.rows[i].counts;
        let bytes = [c.code_bytes, c.data_bytes, c.total_bytes, c.allocated_bytes, c.peak_bytes, c.write_back_bytes];
        (bytes.map(|b| b / c.page_size), c.page_table_bytes / 4096)
    };
    // Code, data, all; allocated: 0, 1, 16, 17, 16 again, 17 again; peak: 0, 1, 16, 17; dirty: 17. Four levels of page
    // table.
    assert_eq!(row(0), ([2, 3, 4, 6, 4, 1], 4));
    // Code: the first; data: both; allocated: first, second, second again. 16 bits, then 9, 9, 9, and a root for the
    // rest.
    assert_eq!(row(1), ([1, 2, 2, 3, 2, 1], 4));
    // One page: it is never released, because its code is not.
    assert_eq!(row(2), ([1, 1, 1, 1, 1, 1], 3));
    // Data misses with 64 entries: pages 1, 16, 17, 16, 17 of 4 KB; 0, 1, 1 of 64 KB; the one of 2 MB. Fetches: 0, 1;
    // 0; 0.
    assert_eq!(result.rows.iter().map(|r| r.counts.data_misses).collect::<Vec<_>>(), [5, 3, 1]);
    assert_eq!(result.rows.iter().map(|r| r.counts.fetch_misses).collect::<Vec<_>>(), [2, 1, 1]);
}

/// A process of two threads forks: two processes, three threads, for the page sizes as for machines with TLBs and with
/// caches.
#[test]
fn the_thread_that_forks_counts_in_the_child_too() {
    let mut s = Stream::new();
    s.start().op(Op::ThreadStart { thread: 1 }).op(Op::ThreadStart { thread: 2 }).anon(0, 1).load(0);
    s.op(Op::Fork { child: Asid(1) });
    let process_counts = |w: &farreach_types::counts::Workload| (w.processes, w.threads);
    let (_, sizes) = study(&s.batches, &[4096], Options::default());
    let machines = crate::common::run(&["t94/single", "sv97/softvm"], &s);
    assert_eq!([process_counts(&sizes.workload), process_counts(&machines.result.workload)], [(2, 3); 2]);
}

/// The child calls exec: it is the same process, and its thread starts once more.
#[test]
fn an_exec_is_no_process() {
    let mut s = Stream::new();
    s.start().op(Op::ThreadStart { thread: 1 }).anon(0, 1).load(0).op(Op::Fork { child: Asid(1) });
    s.space(1).op(Op::End(End::Exec));
    s.space(2)
        .op(Op::Start { pid: 2, parent: Some(Asid(1)), program: "/bin/true".into() })
        .op(Op::ThreadStart { thread: 1 });
    s.anon(0, 1).load(0);
    let (_, sizes) = study(&s.batches, &[4096], Options::default());
    let machines = crate::common::run(&["t94/single", "sv97/softvm"], &s);
    for workload in [&sizes.workload, &machines.result.workload] {
        assert_eq!((workload.processes, workload.threads), (2, 2));
    }
}

/// AMB-34: a reference across a page boundary looks up two pages, of those sizes that have a boundary there.
#[test]
fn crossing_is_a_matter_of_size() {
    let mut s = Stream::new();
    s.start().anon(0, 64);
    let block = Arc::new(Block { instrs: [].into(), refs: [DataRef::new(0, Kind::Load, 8, 0)].into() });
    s.op(Op::Define { id: 9, block });
    for _ in 0..3 {
        s.batches.last_mut().unwrap().push_block(9, &[3 * 4096 - 4]);
        s.batches.last_mut().unwrap().push_block(9, &[16 * 4096 - 4]);
    }
    let (lab, result) = study(&s.batches, &[4096, 8192, 65536, 131072], Options::default());
    let lookups: Vec<u64> = result.rows.iter().map(|r| r.counts.data_lookups).collect();
    // The first crosses at 12 KB, which divides 4 KB pages only; the second at 64 KB.
    assert_eq!(lookups, [12, 9, 9, 6]);
    // With one entry: 2 3 | 15 16 all miss; 1 | 7 8 all miss; 0 hits after 1; one page in all.
    assert_eq!([4096, 8192, 65536, 131072].map(|size| lab.misses(Kind::Load, size, 1).unwrap()), [12, 9, 6, 1]);
    compare(&s.batches, None);
}

#[test]
fn sizes_that_are_none_are_refused() {
    for (sizes, word) in
        [(&[][..], "one size or more"), (&[4096, 4096], "larger"), (&[8192, 4096], "larger"), (&[5000], "4K to 2M")]
    {
        let error = PageLab::new(sizes, 64, Options::default()).map(drop).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

/// Steps of a random stream: page, kind, and now and then an unmapping or a switch.
fn steps() -> impl Strategy<Value = Vec<(u8, u64, u64)>> {
    prop::collection::vec((0u8..40, 0u64..600, 1u64..80), 1..1200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Hostile: many invalidations, so that there are holes everywhere; few large pages, so that they are seldom
    /// released.
    #[test]
    fn random_streams_count_as_plain_lists_do(steps in steps(), spread in 1u64..40) {
        let mut s = Stream::new();
        s.start();
        for (what, page, n) in steps {
            match what {
                0..3 => drop(s.unmap(page * spread, n * spread)),
                3 => drop(s.space((page % 3) as u32)),
                4 => drop(s.op(Op::Remap {
                    old_start: page << 12,
                    old_len: n << 12,
                    new_start: (page + n * spread) << 12,
                    new_len: (n / 2 + 1) << 12,
                })),
                5..15 => drop(s.fetch(page * spread)),
                15..25 => drop(s.store(page * spread)),
                _ => drop(s.load(page * n % 600 * spread)),
            }
        }
        compare(&s.batches, None);
    }

    /// H-PS-8: more entries never miss more.
    #[test]
    fn misses_fall_with_entries(seed in 0u64..1000) {
        let batches = collect(&mut generate::program(seed, 60));
        let (_, result) = study(&batches, &PAGE_SIZES, Options::default());
        for row in &result.rows {
            let c = &row.counts;
            for curve in [&c.fetch_misses_by_entries, &c.data_misses_by_entries] {
                prop_assert!(curve.is_sorted_by(|a, b| a >= b), "{curve:?}");
            }
            prop_assert_eq!(c.fetch_misses_by_entries[6], c.fetch_misses);
            prop_assert_eq!(c.data_misses_by_entries[6], c.data_misses);
        }
        // Beyond the last number of entries nothing changes any more.
        let (lab, _) = study(&batches, &[4096], Options::default());
        let last = *result.entry_counts.last().unwrap();
        prop_assert_eq!(lab.misses(Kind::Load, 4096, last), lab.misses(Kind::Load, 4096, u64::MAX));
    }
}
