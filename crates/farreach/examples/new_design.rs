//! A TLB design of your own, in one file, against the five of T94 on a generated program:
//!
//!     cargo run --release --example new_design
//!
//! The design: a direct-mapped array indexed by a hash of the page number. Cheap to build; this program shows how often
//! it misses. To make it part of farreach, move everything above `main` to
//! `crates/farreach-hw/src/tlb/designs/hashed.rs` and add `&hashed::DESIGN` to `DESIGNS`; then `--machine mine.toml`
//! with `kind = "hashed"` finds it.

use farreach::addr::{Asid, Vpn, VpnRange};
use farreach::counts::TlbCounts;
use farreach::event::Kind;
use farreach::params::Params;
use farreach::tlb::{Answer, Capabilities, DESIGNS, Design, EntryView, Lookup, Outcome, Tlb, Unfiltered, keys};
use farreach::trace::generate;
use farreach::translation::{PageTableView, Pte, Translation};
use farreach::{Lab, MachineSpec, Options, Report};

/// Its keys in a machine description, and how it is built.
const DESIGN: Design = Design {
    kind: "hashed",
    about: "direct-mapped, indexed by a hash of the page number",
    keys: &[&keys::ENTRIES, &keys::PAGE_SIZE],
    build: |params| Ok(Box::new(Hashed::new(params)?)),
    bits: |_| None, // the area model covers fully associative TLBs
    reach: |params| params.int("entries") * params.int("page_size"),
};

#[derive(Clone, Copy)]
struct Entry {
    asid: Asid,
    vpn: Vpn,
    is: Translation,
    modified: bool,
}

struct Hashed {
    slots: Vec<Option<Entry>>,
    counts: TlbCounts,
}

impl Hashed {
    fn new(params: &Params) -> Result<Hashed, String> {
        let entries = params.int("entries");
        if !entries.is_power_of_two() {
            return Err(format!(
                "entries = {entries} is not allowed: entries must be a power of two for kind = hashed"
            ));
        }
        Ok(Hashed { slots: vec![None; entries as usize], counts: TlbCounts::default() })
    }
    fn slot(&self, vpn: Vpn) -> usize {
        (vpn.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.slots.len() - 1)
    }
    /// Empties a slot and reports its page to the filter.
    fn drop(&mut self, slot: usize, unfiltered: &mut Unfiltered) {
        if let Some(old) = self.slots[slot].take() {
            unfiltered.add(old.asid, old.vpn, 1);
            self.counts.invalidations += 1;
        }
    }
}

/// It has one page size, tags with process ids, one core, no segments, used bits or walkers: it needs no capability.
impl Capabilities for Hashed {}

impl Tlb for Hashed {
    fn access(&mut self, at: Lookup, pte: Pte, _: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        let (slot, store) = (self.slot(at.vpn), at.kind == Kind::Store);
        if let Some(entry) = self.slots[slot].as_mut().filter(|e| (e.asid, e.vpn) == (at.asid, at.vpn)) {
            entry.modified |= store;
            // The same lookup again would change nothing: the loop may filter it.
            return Answer { outcome: Outcome::Hit, filterable: true };
        }
        self.counts.misses += 1;
        self.counts.tag_misses += 1;
        self.counts.superpage_misses += u64::from(pte.order > 0);
        match at.kind {
            Kind::Fetch => self.counts.fetch_misses += 1,
            Kind::Load => self.counts.load_misses += 1,
            Kind::Store => self.counts.store_misses += 1,
        }
        self.counts.data_misses = self.counts.load_misses + self.counts.store_misses;
        if let Some(old) = self.slots[slot] {
            self.counts.evictions += 1;
            unfiltered.add(old.asid, old.vpn, 1);
        }
        self.counts.fills += 1;
        let is = Translation { pfn: pte.pfn, attr: pte.attr };
        self.slots[slot] = Some(Entry { asid: at.asid, vpn: at.vpn, is, modified: store });
        Answer { outcome: Outcome::TagMiss, filterable: true }
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_some_and(|e| e.asid == asid && pages.contains(e.vpn)) {
                self.drop(slot, unfiltered);
            }
        }
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.slots[self.slot(vpn)].filter(|e| (e.asid, e.vpn) == (asid, vpn)).map(|e| e.is)
    }

    fn entries(&self) -> Vec<EntryView> {
        let valid = self.slots.iter().enumerate().filter_map(|(slot, e)| e.map(|e| (slot, e)));
        valid
            .map(|(slot, e)| EntryView {
                slot,
                asid: e.asid,
                base: e.vpn,
                order: 0,
                pages: vec![(0, e.is, e.modified)],
                sb_enabled: None,
                used: None,
            })
            .collect()
    }

    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}

fn main() -> farreach::Result<()> {
    let designs: Vec<&'static Design> = DESIGNS.iter().copied().chain([&DESIGN]).collect();
    let mine = |entries| {
        let name = format!("hashed/{entries}");
        MachineSpec::with_designs(&name, &format!("kind = 'hashed'\nentries = {entries}"), "", 0, &designs)
    };
    let mut machines = vec![mine(64)?, mine(256)?];
    for preset in ["t94/single", "t94/superpage", "t94/partial", "t94/complete", "t94/set-associative"] {
        machines.push(MachineSpec::parse(preset, 0)?);
    }
    let mut lab = Lab::new(machines, Options::default())?;
    lab.run(&mut generate::program(1, 200_000))?;
    print!("{}", lab.result("a generated program", None).table(usize::MAX));
    Ok(())
}
