//! Direct segments against the plain model that was written from the rules in the book (SEG-1 to SEG-20): processes
//! that map, unmap, protect, move, advise, fork, end and touch at random, on memories that are wide or full, with pools
//! in one piece or in many. Beside them three cores with registers and translations of their own, which know nothing
//! but the reported changes.
//!
//! `FARREACH_SEED=7 cargo test -p farreach-machine --test suite segment_oracle` repeats one stream.

use super::plain::{self, agree};
use super::programs::{Act, Programs, Shape};
use super::world::{os, pattern};
use farreach_oracle::segments::{Config, Counts, PlainSegments, Primary, Registers};
use farreach_os::{Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::SegmentUse;
use farreach_types::event::{Kind, Op};
use farreach_types::translation::{Attr, PageTableView, Pte, Segment, SegmentView};
use std::collections::BTreeMap;

/// A system: its keys, and the same for the model.
#[derive(Clone)]
struct Case {
    keys: String,
    config: Config,
    shape: Shape,
}

fn case(keys: &str, frames: u64, change: impl Fn(&mut Config)) -> Case {
    let mut config = Config {
        pages: 900,
        open: (0..frames).collect(),
        pool: 0,
        eager: true,
        primary: Primary::All,
        programs: Vec::new(),
        admit: 1,
        emulation: false,
        copy: false,
        lend: true,
    };
    change(&mut config);
    let keys = format!("placement=segment,memory={}K,segment_memory={}K,{keys}", 4 * frames, 4 * config.pool);
    let shape = Shape {
        pages: config.pages,
        lengths: &[1, 3, 8, 16, 40, 90],
        align: 1,
        in_a_row: 60,
        shared: 1,
        code: 0,
        populates: false,
        advises: 0,
        alone: false,
    };
    Case { keys, config, shape }
}

/// A core: its process, its registers, and every translation that it read and that was not invalidated.
#[derive(Default)]
struct Core {
    runs: Option<Asid>,
    registers: Option<Segment>,
    known: BTreeMap<(Asid, u64), Pte>,
}

struct Pair {
    os: Os,
    model: PlainSegments,
    case: Case,
    programs: Programs,
    cores: [Core; 3],
    log: Vec<String>,
}

fn registers(segment: Option<Segment>) -> Option<Registers> {
    segment.map(|s| Registers { base: s.base.0, limit: s.limit.0, frame: s.pfn.0 })
}

impl Pair {
    fn new(case: Case, seed: u64) -> Pair {
        Pair {
            os: os(&case.keys),
            model: PlainSegments::new(case.config.clone()),
            programs: Programs::new(seed, case.shape),
            case,
            cores: Default::default(),
            log: Vec::new(),
        }
    }

    fn apply(&mut self, asid: Asid, op: &Op) {
        self.log.push(format!("{asid:?} {op:x?}"));
        self.os.apply(asid, op);
        let os = &self.os;
        let truth = |process: u32, page: u64| os.pte(Asid(process), Vpn(page)).map(|pte| pte.pfn.0);
        match op {
            Op::KernelStore { start, .. } => {
                let served = self.model.touch(asid.0, start >> 12, Kind::Store, &truth).is_ok();
                assert_eq!(self.os.take_unserved().is_none(), served, "whether there is memory");
            }
            op => self.model.apply(asid.0, op, &truth),
        }
        self.follow_changes();
        self.compare();
        self.compare_pages();
    }

    fn act(&mut self) {
        let model = &self.model;
        let (asid, acts) = self.programs.acts(|asid, page| model.prot(asid.0, page).is_some());
        let core = self.programs.dice.below(3) as usize;
        if self.cores[core].runs != Some(asid) {
            // DS13-17: the registers are loaded when a process is dispatched.
            self.cores[core].runs = Some(asid);
            self.cores[core].registers = self.os.segment(asid);
        }
        for act in acts {
            match act {
                Act::Op(op) => self.apply(asid, &op),
                Act::Touch(page, kind) => self.touch(core, asid, page, kind),
            }
        }
    }

    fn touch(&mut self, core: usize, asid: Asid, page: u64, kind: Kind) {
        self.log.push(format!("{asid:?} {kind:?} {page:#x} on core {core}"));
        let got = self.os.touch(asid, Vpn(page), kind);
        let os = &self.os;
        let truth = |process: u32, page: u64| os.pte(Asid(process), Vpn(page)).map(|pte| pte.pfn.0);
        let expected = self.model.touch(asid.0, page, kind, &truth);
        assert_eq!(got.is_ok(), expected.is_ok(), "whether there is memory");
        self.follow_changes();
        self.compare();
        let Ok(touched) = got else { return self.compare_pages() };
        self.compare_page(asid, page);
        // What the core finds out: by its registers, by what it knows, or from the page table.
        let core = &mut self.cores[core];
        match core.registers.filter(|s| s.base.0 <= page && page < s.limit.0) {
            Some(s) => assert_eq!(touched.pte.pfn.0, page - s.base.0 + s.pfn.0, "the registers say another frame"),
            None => _ = core.known.insert((asid, page), touched.pte),
        }
    }

    /// The cores follow the reported changes (SEG-18).
    fn follow_changes(&mut self) {
        let mut changes = Vec::new();
        self.os.take_changes(&mut changes);
        for change in changes {
            for core in &mut self.cores {
                match change.what {
                    What::Segment if core.runs == Some(change.asid) => core.registers = self.os.segment(change.asid),
                    What::Stale => {
                        core.known.retain(|(asid, page), _| *asid != change.asid || !change.pages.contains(Vpn(*page)));
                    }
                    What::Gone => core.known.retain(|(asid, _), _| *asid != change.asid),
                    _ => {}
                }
            }
        }
        for core in &self.cores {
            let Some(asid) = core.runs else { continue };
            assert_eq!(core.registers, self.os.segment(asid), "a core has old registers of {asid:?}");
            for ((of, page), known) in &core.known {
                let now = self.os.pte(*of, Vpn(*page)).map(|pte| (pte.pfn, pte.attr));
                assert_eq!(now, Some((known.pfn, known.attr)), "{of:?} {page:#x} is stale on a core");
                let inside = self.os.segment(*of).is_some_and(|s| s.base.0 <= *page && *page < s.limit.0);
                assert!(!inside, "{of:?} {page:#x} entered the segment, and a core knows it by paging (DS13-3)");
            }
        }
    }

    fn compare(&mut self) {
        for asid in 0..self.programs.born() {
            let emulated = registers(self.os.segment_of(Asid(asid)));
            assert_eq!(emulated, self.model.registers(asid), "the segment of process {asid}");
            let hardware = registers(self.os.segment(Asid(asid)));
            assert_eq!(hardware, emulated.filter(|_| !self.case.config.emulation), "the registers of process {asid}");
        }
        assert_eq!(self.os.segment_use(), Some(self.model.segment_use()));
        let c = self.os.counts();
        let (page_faults, protection_faults) = (c.page_faults, c.protection_faults);
        let counts = Counts { page_faults, protection_faults, cow_copies: c.cow_copies, moved: c.gathered_pages };
        assert_eq!(counts, self.model.counts);
        assert_eq!(self.os.frames().free, Some(self.model.free()), "free frames");
    }

    fn compare_page(&self, asid: Asid, page: u64) {
        let (pte, entry) = (self.os.pte(asid, Vpn(page)), self.model.entry(asid.0, page));
        assert_eq!(pte.map(|p| p.pfn.0), entry.map(|e| e.frame), "{asid:?} {page:#x}");
        let (Some(pte), Some(entry)) = (pte, entry) else { return };
        let writable = self.model.prot(asid.0, page).is_some_and(|prot| prot.write) && !entry.cow;
        assert_eq!(pte.attr.0 & Attr::WRITE != 0, writable, "{asid:?} {page:#x} may be written");
    }

    fn compare_pages(&self) {
        self.model.check();
        self.os.check();
        for &asid in &self.programs.live {
            (0..self.case.config.pages).for_each(|page| self.compare_page(asid, page));
        }
    }
}

impl plain::Pair for Pair {
    fn step(&mut self) {
        self.act();
    }

    fn log(&self) -> &[String] {
        &self.log
    }
}

fn follows(case: Case, streams: u64, happened: fn(&SegmentUse) -> Vec<u64>) {
    let keys = case.keys.clone();
    let pair = |seed| vec![Pair::new(case.clone(), seed)];
    agree((&keys, streams, 800), pair, |pair| happened(&pair.os.segment_use().expect("there are segments")));
}

/// What happens where there is memory, and where there is little.
fn wide(u: &SegmentUse) -> Vec<u64> {
    vec![u.created, u.destroyed, u.grown, u.shrunk, u.converted_pages, u.reverted_pages]
}

fn short(u: &SegmentUse) -> Vec<u64> {
    [wide(u), vec![u.first_part]].concat()
}

#[test]
fn seg_3_one_piece_with_and_without_holes() {
    follows(case("admit_min=4K", 4000, |c| c.pool = 2000), 4, wide);
    follows(case("admit_min=4K", 2000, |c| c.pool = 128), 4, short);
    let lazy = |c: &mut Config| (c.pool, c.eager, c.copy, c.admit) = (700, false, true, 8);
    follows(case("admit_min=32K,provision=lazy,segment_fork=copy", 3000, lazy), 4, wide);
}

#[test]
fn seg_4_a_pool_in_pieces() {
    let file = pattern("pieces.txt", "every 110 offset 75\n200-214\n");
    let pieces = |c: &mut Config| {
        c.open.retain(|frame| frame % 110 != 75 && !(200..215).contains(frame));
        (c.pool, c.admit) = (900, 16);
    };
    follows(case(&format!("admit_min=64K,pattern={file}"), 3000, pieces), 6, short);
}

#[test]
fn seg_1_seg_5_by_size_by_name_and_by_program() {
    let large = |c: &mut Config| (c.pool, c.primary) = (1000, Primary::Large(16));
    follows(case("admit_min=4K,primary=large,primary_min=64K", 3000, large), 4, wide);
    let heap = |c: &mut Config| (c.pool, c.primary) = (1000, Primary::Heap);
    follows(case("admit_min=4K,primary=heap", 3000, heap), 4, |u| vec![u.created, u.destroyed, u.grown, u.shrunk]);
    let named = |c: &mut Config| (c.pool, c.programs) = (1000, vec!["b".into(), "c".into()]);
    follows(case("programs=b+c", 3000, named), 4, wide);
}

#[test]
fn seg_16_memory_that_is_full() {
    let lent = |u: &SegmentUse| vec![u.created, u.lent_pages, u.shrunk];
    follows(case("admit_min=4K", 400, |c| c.pool = 300), 6, lent);
    // More than is lent at a time.
    let large = |c: &mut Config| (c.pool, c.pages, c.copy) = (1800, 2400, true);
    let mut large = case("admit_min=4K,segment_fork=copy", 2000, large);
    large.shape = Shape { lengths: &[40, 200, 700], in_a_row: 97, ..large.shape };
    follows(large, 2, lent);
    let keeps = |c: &mut Config| (c.pool, c.lend) = (300, false);
    follows(case("admit_min=4K,segment_lend=false", 500, keeps), 4, |u| vec![u.created, u.grown]);
}

#[test]
fn seg_20_emulation() {
    let emulated = |c: &mut Config| (c.pool, c.emulation) = (800, true);
    follows(case("admit_min=4K,segment_mode=emulation", 3000, emulated), 6, short);
}
