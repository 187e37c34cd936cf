//! A direct segment (DS13): registers that translate the data references inside [BASE, LIMIT), in front of a hierarchy
//! for all other references. Or several segments (F-20): then the system pins the largest ranges of the process
//! (RMM15-1) in the registers, without a range TLB.

use crate::cache::{self, Port};
use crate::nested::Hypervisor;
use registers::{Held, One, Registers};
mod registers;

use crate::tlb::contract::{
    Answer, Capabilities, Design, EntryView, Lookup, OnDemotion, OnFetch, OnMap, OnSegment, OnSwitch, Outcome, Timed,
    Tlb,
};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::hierarchy::cores::on_cores;
pub use crate::tlb::parts::hierarchy::host::VM_EXIT_CYCLES;
use crate::tlb::parts::hierarchy::host::{self, Entries, GUEST, HOST, Host};
use crate::tlb::parts::hierarchy::{self, Guest, Hierarchy, KEYS, Paging, check_replacement};
use crate::tlb::parts::store::policies;
use crate::tlb::parts::{additions, tables};
use farreach_types::addr::{Asid, KERNEL, Vpn, VpnRange, owner};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::joined_keys;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{KernelSegment, PageTableView, Pte, Translation};
use std::ops::Range;

/// DS13-1 and DS13-25.
pub const SERVED_BY: Key = Key {
    name: "segment_served_by",
    default: "registers",
    allowed: Allowed::OneOf(&["registers", "pages"]),
    about: "what translates inside the segment: registers, or pages like all others, and their misses are counted \
            apart",
};

/// F-20.
pub const SEGMENTS: Key = Key {
    name: "segments",
    default: "1",
    allowed: Allowed::Int { min: 1, max: 256 },
    about: "sets of segment registers; more than one hold the largest ranges of the process, so that the system must \
            keep ranges",
};

/// F-2, DS13-43.
pub const KERNEL_SEGMENT: Key = Key {
    name: "kernel_segment",
    default: "none",
    allowed: Allowed::OneOf(&["none", "shared", "own"]),
    about: "registers for the kernel's direct map: shared: those of the program, while it has no segment; own: a \
            second set; none: it is paged",
};

/// DS13-10 and DS13-43.
pub const KERNEL_SEGMENT_COVERS: Key = Key {
    name: "kernel_segment_covers",
    default: "uniform",
    allowed: Allowed::OneOf(&["uniform", "all"]),
    about: "of a direct map whose pages do not all have the same rights, in a recorded system: uniform: its longest \
            part that has one set of rights; all: all of it, and pages with other rights in it stay paged",
};

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "segment",
    about: "a direct segment in front of a hierarchy of page TLBs (DS13)",
    keys: joined_keys!(&[&SERVED_BY, &SEGMENTS, &KERNEL_SEGMENT, &KERNEL_SEGMENT_COVERS, &VM_EXIT_CYCLES], KEYS),
    build: |params| {
        host::check(params, "kind = segment", Entries::Segment { served: params.text(SERVED_BY.name) != "pages" })?;
        check_kernel(params)?;
        check_replacement(params)?;
        cache::replacement::check_replacement(params)?;
        check_foresight(params)?;
        tables::check(params)?;
        additions::chosen(params, &[])?;
        on_cores(params, |params, _, _| Ok(Box::new(SegmentTlb::new(params)?)))
    },
    bits: |_| None,
    reach: hierarchy::reach, // of the page TLBs: segments have no largest size
};

/// Refuses policies of the second level that must know what comes.
fn check_foresight(params: &Params) -> Result<(), String> {
    let Some(policy) = policies::foresees(params) else { return Ok(()) };
    Err(format!("{policy} is not allowed with kind = segment: it is defined where all lookups reach TLBs (REP-1)"))
}

/// Refuses `kernel_segment` with keys that exclude it.
fn check_kernel(params: &Params) -> Result<(), String> {
    let (kernel, sets, guest) = (params.text(KERNEL_SEGMENT.name), params.int(SEGMENTS.name), params.text(GUEST.name));
    let refuse = |with: &str, why: &str| Err(format!("kernel_segment = {kernel} is not allowed with {with}: {why}"));
    if kernel == "none" {
        Ok(())
    } else if guest != "none" {
        refuse(
            &format!("guest = {guest}"),
            "the direct map of a guest's kernel leads to guest physical memory; kernel_segment or guest must be none",
        )
    } else if sets > 1 {
        refuse(
            &format!("segments = {sets}"),
            "the direct map is one of the ranges that these hold; kernel_segment must be none, or segments must be 1",
        )
    } else {
        Ok(())
    }
}

/// The registers of the kernel's direct map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernel {
    /// None: it is paged.
    Paged,
    /// The program's registers, while it has no segment.
    Shared,
    /// A second set.
    Own,
}

/// The hardware that serves pages inside the segment.
#[derive(Clone, Copy)]
enum Served {
    /// The registers, in front of the TLBs.
    Registers,
    /// TLBs, and at a miss the page table (DS13-25); or, if the registers do not lead to system memory, the registers
    /// and the host (DS13-41).
    Pages(Guest),
}

/// The design. Lookups inside the segment do not reach the TLBs (AMB-65) and change nothing, so they stay filtered.
struct SegmentTlb {
    paging: Hierarchy<Paging>,
    /// Those of the running process, and with registers for the kernel those of [`KERNEL`], to which the kernel's half
    /// belongs in a whole system. `None`: to be loaded before the next lookup.
    registers: [Option<Registers>; 2],
    served: Served,
    /// Sets of registers.
    sets: usize,
    kernel: Kernel,
    /// The kernel's registers have one set of rights.
    uniform: bool,
    /// The hypervisor that composes their contents with the host's segment, in a virtual machine.
    hypervisor: Option<Hypervisor>,
}

impl SegmentTlb {
    /// Builds it from the keys of [`DESIGN`].
    pub fn new(params: &Params) -> Result<SegmentTlb, String> {
        let sets = params.int(SEGMENTS.name) as usize;
        let served = match (params.text(SERVED_BY.name), params.text(GUEST.name), params.text(HOST.name)) {
            ("pages", ..) => Served::Pages(Guest::Tables),
            (_, "segment", "walk") => Served::Pages(Guest::Registers),
            // Registers of both dimensions in hardware, one addition after the other, count as composed ones.
            _ => Served::Registers,
        };
        let composed = params.text(GUEST.name) == "composed";
        Ok(SegmentTlb {
            paging: Hierarchy::new(params, Paging::new(params)?, &[])?,
            registers: [None, None],
            served,
            sets,
            kernel: match params.text(KERNEL_SEGMENT.name) {
                "shared" => Kernel::Shared,
                "own" => Kernel::Own,
                _ => Kernel::Paged,
            },
            uniform: params.text(KERNEL_SEGMENT_COVERS.name) == "uniform",
            hypervisor: composed.then(|| Hypervisor::new(Host::memory(params), sets)),
        })
    }

    /// Which of the two sets is an address space's.
    fn index(&self, asid: Asid) -> usize {
        usize::from(asid == KERNEL && self.kernel != Kernel::Paged)
    }

    fn registers(&self, asid: Asid) -> Option<&Registers> {
        self.registers[self.index(asid)].as_ref().filter(|registers| registers.asid == asid)
    }

    /// The registers, loaded if another process runs or its segment changed.
    fn loaded(&mut self, asid: Asid, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> &mut Registers {
        if self.registers(asid).is_none() {
            // From now on, lookups inside the segment are not those of entries that the page TLBs have of its pages.
            self.paging.settle(unfiltered);
            let held = self.load(asid, table, unfiltered);
            let own = self.kernel == Kernel::Own;
            let kernel = if own { self.direct_map(asid, table, unfiltered) } else { One::default() };
            self.registers[self.index(asid)] = Some(Registers { asid, held, kernel });
        }
        self.registers[self.index(asid)].as_mut().expect("just loaded")
    }

    /// The contents of the registers for this process. In a guest without hardware registers, the hypervisor decides
    /// (F-15).
    fn load(&mut self, asid: Asid, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Held {
        let mut held = match self.sets {
            1 => {
                let own = One::new(table.segments().segment(asid));
                let free = own.segment.is_none() && self.kernel == Kernel::Shared;
                Held::One(if free { self.direct_map(asid, table, unfiltered) } else { own })
            }
            sets => Held::Several { ranges: table.ranges().largest(asid, sets), version: table.ranges().version(asid) },
        };
        if let Some(hypervisor) = &mut self.hypervisor {
            held.compose(hypervisor);
            self.paging.counts.segment.traps = hypervisor.traps();
        }
        held
    }

    /// Registers for the direct map (DS13-43). Where the kernel of a recorded system loads them, it had the pages in
    /// page tables before, so it flushes them (DS13-3, DS13-20).
    fn direct_map(&mut self, asid: Asid, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> One {
        let all = table.segments().kernel_segment(asid);
        let held = if self.uniform { all.map(KernelSegment::longest_part) } else { all };
        if let Some(kernel) = held.as_ref().filter(|_| self.is_in_front()) {
            for (&tag, part) in kernel.tags.iter().flat_map(|tag| kernel.parts().map(move |part| (tag, part))) {
                self.paging.invalidate(tag, part, unfiltered);
            }
        }
        One::of_kernel(held)
    }

    /// Whether the registers serve the lookups inside.
    fn is_in_front(&self) -> bool {
        matches!(self.served, Served::Registers)
    }

    /// Whether the system reloads the registers of a process after this miss: with several sets, if the page lies in a
    /// range, and ranges changed since they were loaded.
    fn outdated(&self, at: Lookup, table: &dyn PageTableView) -> bool {
        let Some(Registers { held: Held::Several { version, .. }, .. }) = self.registers(at.asid) else { return false };
        *version != table.ranges().version(at.asid) && table.ranges().range(at.asid, at.vpn).is_some()
    }
}

impl SegmentTlb {
    /// Reloads the registers if they hold some of these pages.
    fn unload(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        if self.registers(asid).is_some_and(|registers| registers.depend_on(&pages)) {
            self.segment_changed(asid, unfiltered);
        }
    }
}

impl Tlb for SegmentTlb {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        // DS13-5, AMB-63: fetches are not served.
        let (served, space) = (self.served, owner(at.asid, at.vpn.0));
        let registers = self.loaded(space, table, unfiltered);
        let found = if at.kind == Kind::Fetch { None } else { registers.translate(at.vpn) };
        let Some((frame, _)) = found else {
            let answer = self.paging.answer(at, pte, Guest::Tables, table, unfiltered);
            if answer.outcome != Outcome::Hit && self.outdated(at, table) {
                self.registers[self.index(at.asid)] = None;
                unfiltered.add_all();
                return Answer { filterable: false, ..answer };
            }
            return answer;
        };
        debug_assert_eq!(frame, pte.pfn, "XC-3: {at:?}");
        if let Served::Pages(by) = served {
            let answer = self.paging.answer(at, pte, by, table, unfiltered);
            self.paging.counts.segment.misses_inside += u64::from(answer.outcome != Outcome::Hit);
            return answer;
        }
        let index = self.index(space);
        if let Some(Registers { held: Held::One(one), kernel, .. }) = &mut self.registers[index] {
            one.note(at.vpn, pte.attr);
            kernel.note(at.vpn, pte.attr);
        }
        debug_assert_eq!(
            self.probe(at.asid, at.vpn, at.kind).map(|t| t.attr),
            Some(pte.attr),
            "DS13-10: {at:?} has another protection than the segment"
        );
        Answer { outcome: Outcome::Hit, filterable: true }
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        // The protection of the segment may have changed.
        self.unload(asid, pages, unfiltered);
        self.paging.invalidate(asid, pages, unfiltered);
    }

    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        self.segment_changed(asid, unfiltered);
        self.paging.invalidate_space(asid, unfiltered);
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        let registers = self.registers(owner(asid, vpn.0)).filter(|_| self.is_in_front() && kind != Kind::Fetch);
        if let Some((pfn, attr)) = registers.and_then(|r| r.translate(vpn)) {
            return Some(Translation { pfn, attr: attr? });
        }
        self.paging.probe(asid, vpn, kind)
    }

    /// Those of the page TLBs; the registers are no entry.
    fn entries(&self) -> Vec<EntryView> {
        self.paging.entries()
    }

    fn entries_in(&self, slots: Range<usize>) -> Vec<EntryView> {
        self.paging.entries_in(slots)
    }

    fn counts(&self) -> &TlbCounts {
        self.paging.counts()
    }
}

impl Capabilities for SegmentTlb {
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        Some(self)
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
    fn on_segment(&mut self) -> Option<&mut dyn OnSegment> {
        Some(self)
    }
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        self.paging.timed()
    }
    fn port(&mut self) -> Option<&mut Port> {
        self.paging.port()
    }
    fn on_fetch(&mut self) -> Option<&mut dyn OnFetch> {
        self.paging.on_fetch()
    }
    fn on_map(&mut self) -> Option<&mut dyn OnMap> {
        self.paging.on_map()
    }
}

impl OnDemotion for SegmentTlb {
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        // A range that shrank or split. A single segment is reported separately.
        if self.sets > 1 {
            self.unload(asid, pages, unfiltered);
        }
        self.paging.demote(asid, pages, unfiltered);
    }
}

impl OnSwitch for SegmentTlb {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        if self.hypervisor.is_some() {
            // At the next lookup the registers belong to another process.
            unfiltered.add_all();
        }
        self.paging.switch(to, unfiltered);
    }
}

impl OnSegment for SegmentTlb {
    fn segment_changed(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        if self.registers(asid).is_some() {
            self.registers[self.index(asid)] = None;
        }
        unfiltered.add_all();
    }
}
