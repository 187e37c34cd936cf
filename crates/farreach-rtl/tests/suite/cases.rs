//! Small machines, in which entries come and go, and what runs through them.

use farreach_hw::tlb::{Tlb, Unfiltered, design};
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_oracle::driver::world::{World, apply};
use farreach_oracle::driver::{Table, at, params};
use farreach_rtl::{Checker, Compiler};
use farreach_trace::generate;
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::event::{Kind, Source};
use farreach_types::translation::{KernelSegment, PageTableView, Pte, Segment, SegmentView};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::path::Path;

/// What runs through a design.
#[derive(Clone, Copy)]
pub enum Case {
    /// A small memory that changes at random, through a design with these keys.
    World(&'static str, &'static str),
    /// A program made at random, through a machine with an operating system. The seed of its shift registers is 0, so
    /// that all runs have the same modules.
    Program(&'static str),
    /// All kinds of references in and around a segment, through a design with these keys.
    Segment(&'static str),
}

/// Pages of which some are a segment. Their frames are those that it gives.
struct Covered {
    table: Table,
    segment: Segment,
}

/// Pages in and around a segment.
const PAGES: u64 = 64;

impl PageTableView for Covered {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.table.pte(asid, vpn)
    }
    fn segments(&self) -> &dyn SegmentView {
        self
    }
}

impl SegmentView for Covered {
    fn segment(&self, _: Asid) -> Option<Segment> {
        Some(self.segment)
    }
    fn kernel_segment(&self, _: Asid) -> Option<KernelSegment> {
        None
    }
}

impl Covered {
    fn new(rng: &mut Pcg64Mcg) -> Covered {
        let base = rng.random_range(1..PAGES / 2);
        let segment = Segment { base: Vpn(base), limit: Vpn(rng.random_range(base + 1..PAGES - 1)), pfn: Pfn(0x5000) };
        let frame = |vpn: u64| segment.translate(Vpn(vpn)).map_or(0x9000 + 3 * vpn, |pfn| pfn.0);
        Covered { table: Table::of(&(0..PAGES).map(|vpn| (vpn, frame(vpn))).collect::<Vec<_>>()), segment }
    }
}

/// All of them by name. Between them they have every module.
pub const CASES: &[(&str, Case)] = &[
    ("single", Case::World("single", "entries=8")),
    ("single-fifo", Case::World("single", "entries=8,replacement=fifo")),
    ("superpage", Case::World("superpage", "entries=8,sizes=4K+64K+1M")),
    ("complete", Case::World("complete", "entries=8,factor=16")),
    ("complete-late", Case::World("complete", "entries=8,factor=4,fill_sets_used=false")),
    ("partial", Case::World("partial", "entries=8,factor=16")),
    ("partial-lru", Case::World("partial", "entries=6,factor=8,replacement=lru")),
    ("integrated", Case::World("integrated", "entries=8,factor=16,sizes=4K+64K+1M")),
    ("sets", Case::World("single", "entries=32,ways=4,replacement=lfsr")),
    ("sets-used", Case::World("single", "entries=16,ways=2")),
    (
        "range",
        Case::Program(
            "rmm15/range:l1d=4K:8/4,l1i=4K:4,l2=4K:32/4,range_entries=8,range_replacement=used-bit,\
             placement=demand,ranges=true,range_threshold=1",
        ),
    ),
    (
        "range-lfsr",
        Case::Program(
            "rmm15/range:l1d=4K:8/4,l1i=4K:4,l2=4K:32/4,range_entries=4,range_replacement=lfsr,\
             placement=demand,ranges=true,range_threshold=1,range_order=first,process_ids=false",
        ),
    ),
    ("walker", Case::Program("rmm15/thp:l1d=4K:8/4+2M:4,l1i=4K:4,l2=4K:32/4,pwc_pd=2,pwc_pdpt=2,pwc_pml4=2")),
    ("clustered", Case::Program("rmm15/clustered:l1d=4K:8/4,l1i=4K:4,cluster_entries=8,placement=demand")),
    ("segment-edges", Case::Segment("l1d=4K:8/4,l1i=4K:4,l2=4K:32/4")),
    ("segment", Case::Program("ds13/segment:l1d=4K:8/4,l1i=4K:4,l2=4K:32/4")),
];

/// The case of a name.
pub fn case(name: &str) -> Case {
    CASES.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no case {name}")).1
}

/// The folder for programs and waveforms of the tests.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The compiler, if its tools are installed.
pub fn compiler() -> Option<Compiler> {
    Compiler::new(folder().join("rtl")).map_err(|why| eprintln!("skipped: {why}")).ok()
}

impl Case {
    /// One random run of it.
    pub fn run(self, name: &str, seed: u64, steps: u64, checker: &Checker) {
        match self {
            Case::World(kind, keys) => {
                let params = params(kind, keys);
                let tlb = (design(kind).unwrap().build)(&params).unwrap();
                let observed = checker.observe(&format!("{name} seed {seed}"), kind, &params, tlb);
                let mut tlb: Box<dyn Tlb> = observed.unwrap_or_else(|e| panic!("{e}"));
                let mut world = World::new(seed);
                let mut unfiltered = Unfiltered::default();
                for _ in 0..steps {
                    let step = world.step();
                    apply(&step, &mut *tlb, &world.table, &mut unfiltered);
                    unfiltered.clear();
                }
            }
            Case::Segment(keys) => {
                let params = params("segment", keys);
                let tlb = (design("segment").unwrap().build)(&params).unwrap();
                let observed = checker.observe(&format!("{name} seed {seed}"), "segment", &params, tlb);
                let mut tlb: Box<dyn Tlb> = observed.unwrap_or_else(|e| panic!("{e}"));
                let mut rng = Pcg64Mcg::seed_from_u64(seed);
                let covered = Covered::new(&mut rng);
                let mut unfiltered = Unfiltered::default();
                for _ in 0..steps {
                    let kind = [Kind::Fetch, Kind::Load, Kind::Store][rng.random_range(0..3)];
                    let at = at(rng.random_range(0..PAGES), kind);
                    tlb.access(at, covered.pte(at.asid, at.vpn).unwrap(), &covered, &mut unfiltered);
                    unfiltered.clear();
                }
            }
            Case::Program(machine) => {
                let machines = vec![MachineSpec::parse(machine, 0).unwrap()];
                let options = Options { plain: true, seed, ..Options::default() };
                let lab = Lab::observed(machines, options, &mut |spec, tlb| {
                    checker.observe(&format!("{name} seed {seed}"), spec.hardware.kind(), &spec.params, tlb)
                });
                let mut lab = lab.unwrap_or_else(|e| panic!("{e}"));
                let mut source = generate::program(seed, steps);
                while !checker.stopped()
                    && let Some(batch) = source.next_batch().unwrap()
                {
                    lab.feed(batch).unwrap();
                }
            }
        }
    }
}
