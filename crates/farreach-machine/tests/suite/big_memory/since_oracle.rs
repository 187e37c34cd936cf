//! Policies since 2002 against the plain models of their rules: TPS, Solaris, Windows, Trident, mosaic allocation.
//! The models know the frame of every page, when daemons work, and what the policies count themselves.

use super::plain::{Paged, Pair, agree};
use super::programs::{self, Shape};
use farreach_oracle::frames::Frames;
use farreach_oracle::linux::{Khugepaged, Mode};
use farreach_oracle::paging::{Full, Model, Paging};
use farreach_oracle::program::Name;
use farreach_oracle::since_os::mosaic::{self, PlainMosaic};
use farreach_oracle::since_os::solaris::{self, PlainSolaris};
use farreach_oracle::since_os::tps::{self, PlainTps};
use farreach_oracle::since_os::trident::{self, PlainTrident};
use farreach_oracle::since_os::windows::{self, PlainWindows, Request};
use farreach_types::addr::Asid;
use farreach_types::event::{Advice, Kind, Op, Prot};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Without shared memory.
const LARGE: Shape = Shape { shared: 0, ..programs::LARGE };
const SMALL: Shape = Shape { shared: 0, ..programs::SMALL };

/// One process with private memory.
fn alone(shape: Shape) -> Shape {
    Shape { alone: true, ..shape }
}

/// A model, what of its counters the policy has under which name, and a walk at each reference (OSC-2).
struct Named<M> {
    model: M,
    own: fn(&M) -> Vec<(&'static str, u64)>,
}

impl<M: Model> Model for Named<M> {
    fn paging(&self) -> &Paging {
        self.model.paging()
    }

    fn apply(&mut self, process: u32, op: &Op) {
        self.model.apply(process, op);
    }

    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        self.model.touch(process, page, kind)?;
        self.model.walked(process, page);
        Ok(())
    }

    fn due(&self) -> u64 {
        self.model.due()
    }

    fn advance(&mut self, now: u64) {
        self.model.advance(now);
    }

    fn own(&self) -> Vec<(&'static str, u64)> {
        (self.own)(&self.model)
    }
}

fn counter<M: Model>(model: &M, name: &str) -> u64 {
    model.own().iter().find(|(other, _)| *other == name).map_or_else(|| panic!("{name}"), |(_, count)| *count)
}

const STEPS: usize = 800;
const SEEDS: u64 = 5;

type Of<M> = Paged<Named<M>>;

fn pair<M: Model>(keys: &str, model: M, own: fn(&M) -> Vec<(&'static str, u64)>, seed: u64, shape: Shape) -> Of<M> {
    let keys = format!("address_ordered=true,{keys}");
    Paged::new(&keys, Named { model, own }, (seed, shape), |_, _, _, _| {})
}

/// The same programs on both, and what happens often enough to mean something.
fn follows<M: Model>(keys: &str, pairs: impl Fn(u64) -> Vec<Of<M>>, happened: impl Fn(&M) -> Vec<u64>) {
    agree((keys, SEEDS, STEPS), pairs, |pair| happened(&pair.model.model));
}

/// The seeds whose programs find out that the model has another rule.
fn found_out<M: Model>(pairs: impl Fn(u64) -> Vec<Of<M>>) -> usize {
    let differs = |mut pair: Of<M>| catch_unwind(AssertUnwindSafe(|| (0..STEPS).for_each(|_| pair.step()))).is_err();
    (0..SEEDS).filter(|seed| pairs(*seed).into_iter().any(differs)).count()
}

fn blocks(frames: u64) -> Frames {
    Frames::blocks(frames, |_| true, 11, true)
}

/// What the system keeps and the model gives up: reserved frames of pages that go while others of their mapping stay,
/// and frames of pages that are dropped or moved.
fn cuts(model: &Named<PlainTps>, asid: Asid, op: &Op) -> bool {
    let mapping = |page: u64| model.paging().page(asid.0, page).map(|page| page.mapping);
    let cut = |start: u64, len: u64| {
        let (first, end) = (start >> 12, (start + len) >> 12);
        let inside = |at: u64| at > 0 && mapping(at).is_some() && mapping(at) == mapping(at - 1);
        inside(first) || inside(end)
    };
    match op {
        Op::Map(of) => cut(of.start, of.len),
        Op::Unmap { start, len } => cut(*start, *len),
        Op::Remap { .. } | Op::Advise { advice: Advice::DontNeed, .. } => true,
        _ => false,
    }
}

fn tps_pairs(seed: u64, largest: u32) -> Vec<Of<PlainTps>> {
    let own = |model: &PlainTps| vec![("promotions", model.promotions)];
    let model = || PlainTps::new(tps::Config { frames: blocks(4096), largest, threshold: 100 });
    let shapes = [alone(LARGE), alone(SMALL), alone(Shape { lengths: &[7, 33, 64, 100], ..LARGE })];
    let keys = "placement=tps,memory=16M,max_order=11,tps_largest=128K";
    shapes.map(|shape| pair(keys, model(), own, seed, shape).without(cuts)).into()
}

/// OS-TPS-1 to OS-TPS-3, in memory that is never full.
#[test]
fn os_tps_follows_the_plain_model() {
    let happened = |model: &PlainTps| vec![model.reservations, model.promotions, model.paging().counts.demotions];
    follows("tps", |seed| tps_pairs(seed, 5), happened);
    assert!(found_out(|seed| tps_pairs(seed, 4)) >= 3);
}

fn solaris_pairs(seed: u64, frames: u64, orders: &[u32]) -> Vec<Of<PlainSolaris>> {
    let keys = format!("placement=solaris,sol_sizes=16K+64K,sol_auto=heap+stack+text,memory={}K", 4 * frames);
    let model = || PlainSolaris::new(solaris::Config { frames: blocks(frames), orders: orders.to_vec() });
    let skips = |model: &Named<PlainSolaris>, asid: Asid, op: &Op| match op {
        // What mremap adds to a heap that has moved is other memory here.
        Op::Remap { .. } => true,
        // Private mappings of files that can be stored to are not of the model (ON-24).
        Op::Protect { start, len, prot } if prot.write => (start >> 12..(start + len) >> 12)
            .filter_map(|page| model.paging().page(asid.0, page))
            .any(|page| page.name == Name::File && !page.shared),
        _ => false,
    };
    let shared = |shape| Shape { shared: 3, code: 6, ..shape };
    let shapes = [LARGE, SMALL, shared(LARGE), shared(SMALL)];
    shapes.map(|shape| pair(&keys, model(), |_| Vec::new(), seed, shape).without(skips)).into()
}

/// SOL-1 and SOL-2, with enough memory and without.
#[test]
fn sol_follows_the_plain_model() {
    let happened = |model: &PlainSolaris| {
        let counts = &model.paging().counts;
        vec![counts.superpage_faults, counts.demotions, model.of_files, model.mapped_again]
    };
    follows("solaris", |seed| solaris_pairs(seed, 4096, &[4, 2]), happened);
    follows(
        "solaris, little memory",
        |seed| solaris_pairs(seed, 192, &[4, 2]),
        |model| [happened(model), vec![model.paging().counts.superpage_fallbacks]].concat(),
    );
    assert!(found_out(|seed| solaris_pairs(seed, 4096, &[4, 3])) >= 3);
}

fn windows_pairs(seed: u64, frames: u64, keys: &str, request: Request, order: u32) -> Vec<Of<PlainWindows>> {
    let keys = format!("placement=windows,win_large_page=16K,{keys},memory={}K", 4 * frames);
    let model = || PlainWindows::new(windows::Config { frames: blocks(frames), order, request });
    let own = |model: &PlainWindows| vec![("large_requests", model.served), ("large_refused_memory", model.refused)];
    let aligned = Shape { align: 4, lengths: &[1, 4, 4, 8, 16, 40], advises: 40, ..LARGE };
    // Nothing is requested of memory that is inaccessible, nor mapped by mremap in the model.
    let skips = |_: &Named<PlainWindows>, _, op: &Op| match op {
        Op::Remap { .. } => true,
        Op::Map(of) => of.prot == Prot::NONE,
        Op::Protect { prot, .. } => *prot == Prot::NONE,
        _ => false,
    };
    let shapes = [LARGE, aligned, Shape { pages: 160, ..aligned }];
    shapes.map(|shape| pair(&keys, model(), own, seed, shape).without(skips)).into()
}

/// WIN-1.
#[test]
fn win_follows_the_plain_model() {
    let happened = |model: &PlainWindows| vec![model.served, model.paging().counts.demotions];
    let advised = |seed, frames, order| windows_pairs(seed, frames, "win_request=advice", Request::Advised, order);
    follows("windows", |seed| advised(seed, 4096, 2), happened);
    follows("windows, little memory", |seed| advised(seed, 160, 2), |model| vec![model.served, model.refused]);
    assert!(found_out(|seed| advised(seed, 4096, 3)) >= 1);
}

/// A part of a superpage goes. The system knows which of its pages were touched, the model that one of them was.
fn halves(model: &Named<PlainTrident>, asid: Asid, op: &Op) -> bool {
    let cut = |start: u64, len: u64| {
        let (first, end) = (start >> 12, (start + len) >> 12);
        let inside = |at: u64| {
            let entry = model.paging().entry(asid.0, at);
            entry.is_some_and(|entry| at & ((1 << entry.order) - 1) != 0)
        };
        inside(first) || inside(end)
    };
    match op {
        Op::Map(of) => cut(of.start, of.len),
        Op::Unmap { start, len } | Op::Advise { start, len, advice: Advice::DontNeed } => cut(*start, *len),
        Op::Remap { .. } => true,
        _ => false,
    }
}

const PROMOTER: Khugepaged =
    Khugepaged { pages_to_scan: 32, scan_sleep: 25, alloc_sleep: 120, max_ptes_none: 3, max_ptes_shared: 4 };

fn trident_pairs(seed: u64, frames: u64, pause: u64, max_none_giant: u64) -> Vec<Of<PlainTrident>> {
    let keys = format!(
        "placement=trident,tri_size=64K,thp_size=16K,defrag=never,ticks_per_ms=1,scan_sleep_ms=25,alloc_sleep_ms=120,\
         pages_to_scan=32,max_ptes_none=3,max_ptes_shared=4,tri_max_none=10,compaction_block=16K,max_order=11,\
         compaction_pause_ms=200,memory={}K",
        4 * frames
    );
    let config = trident::Config {
        frames: blocks(frames),
        memory: frames,
        giant: 4,
        pmd: 2,
        mode: Mode::Always,
        promoter: PROMOTER,
        max_none_giant,
        compaction: Some(pause),
    };
    let own = |model: &PlainTrident| {
        let count = |name| counter(model, name);
        vec![
            ("khugepaged_wakes", count("khugepaged_wakes")),
            ("khugepaged_scanned_ptes", count("khugepaged_scanned_ptes")),
            ("khugepaged_large", count("trident_promotions")),
            ("khugepaged_copied_pages", count("khugepaged_copied_pages") + count("compacted_pages")),
            ("khugepaged_zeroed_pages", count("khugepaged_zeroed_pages")),
            ("khugepaged_no_block", count("khugepaged_no_block")),
        ]
    };
    let model = || PlainTrident::new(config.clone());
    [LARGE, SMALL].map(|shape| pair(&keys, model(), own, seed, alone(shape)).without(halves)).into()
}

/// TRI-1 to TRI-3.
#[test]
fn tri_follows_the_plain_model() {
    let happened = |model: &PlainTrident| {
        let counts = &model.paging().counts;
        vec![counts.superpage_faults, counts.collapses, counts.demotions, counter(model, "trident_promotions")]
    };
    follows("trident", |seed| trident_pairs(seed, 4096, 200, 10), happened);
    follows(
        "trident, little memory",
        |seed| trident_pairs(seed, 256, 200, 10),
        |model| {
            let names = ["trident_rounds", "compacted_pages", "trident_aborts"];
            [happened(model), names.map(|name| counter(model, name)).to_vec()].concat()
        },
    );
    assert!(found_out(|seed| trident_pairs(seed, 4096, 200, 0)) >= 1, "pages that are missing");
}

fn mosaic_pairs(seed: u64, choices: u64, hash: u64) -> Vec<Of<PlainMosaic>> {
    let config = mosaic::Config { frames: 320, front: 12, back: 4, choices, seed: hash };
    let keys = "placement=mosaic,mos_front=12,mos_back=4,mos_choices=3,seed=5,memory=1280K";
    let own = |model: &PlainMosaic| {
        vec![("front_pages", model.fronts), ("back_pages", model.backs), ("conflicts", model.conflicts)]
    };
    let shapes = [LARGE, SMALL, Shape { shared: 4, ..LARGE }];
    shapes.map(|shape| pair(keys, PlainMosaic::new(config), own, seed, shape)).into()
}

/// OS-MOS-1 and OS-MOS-2.
#[test]
fn os_mos_follows_the_plain_model() {
    follows("mosaic", |seed| mosaic_pairs(seed, 3, 5), |model| vec![model.fronts, model.backs, model.conflicts]);
    assert!(found_out(|seed| mosaic_pairs(seed, 2, 5)) >= 3, "the choices");
    assert!(found_out(|seed| mosaic_pairs(seed, 3, 6)) >= 3, "the hash");
}
