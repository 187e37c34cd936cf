//! Which structures a hierarchy has, and their modules.

use super::Structures;
use super::behind::{Clusters, Ranges, SegmentRegisters};
use super::held::Held;
use super::walkers::PageWalker;
use crate::modules::{
    CLUSTERED, Module, Parameters, RANGE_TLB, RANGE_WALKER, SEGMENT, WALKER, for_array, policy, seeded,
};
use crate::observer::Checker;
use farreach_hw::tlb::array_shapes;
use farreach_types::params::Params;

/// Offsets of the seeds of arrays from that of the machine: those of the simulator's hierarchy.
const SEED_L1_FETCH: u64 = 8;
const SEED_L2: u64 = 16;
const SEED_L2_FETCH: u64 = 24;
const SEED_BEHIND: u64 = 64;

struct Build<'a> {
    machine: &'a str,
    params: &'a Params,
    checker: &'a Checker,
    /// Slots so far.
    slots: usize,
}

impl Build<'_> {
    fn label(&self, structure: &str) -> String {
        format!("{} {structure}", self.machine)
    }

    /// The arrays of a level. Their slots follow those before.
    fn level(&mut self, key: &str, second: bool, seed: u64) -> Result<Vec<Held>, String> {
        let mut arrays = Vec::new();
        for (i, shape) in array_shapes(self.params, key)?.iter().enumerate() {
            let seed = self.params.int("seed").wrapping_add(seed + i as u64);
            let of = for_array(shape, second, self.params.text("replacement"), seed);
            let (module, parameters) = of.map_err(|why| format!("{key}: {why}"))?;
            let order = shape.orders[0];
            let size = farreach_types::addr::Bytes(4096 << order);
            let part = self.checker.part(self.label(&format!("{key} {size}")), (module, &parameters))?;
            arrays.push(Held::new(part, order, self.slots));
            self.slots += shape.entries;
        }
        Ok(arrays)
    }

    fn int(&self, key: &str) -> u64 {
        self.params.int(key)
    }

    /// A key must have a value, if it is there.
    fn only(&self, key: &str, only: &str) -> Result<(), String> {
        let value = self.params.as_json().get(key).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
        match value.filter(|value| value != only) {
            Some(other) => Err(format!("{key} = {other}: there is no RTL of it; {key} must be {only}")),
            None => Ok(()),
        }
    }

    /// Parameters of a fully associative array behind the first level.
    fn behind(&self, entries: u64, replacement: &str) -> Result<Parameters, String> {
        if entries < 2 {
            return Err(format!("an array of {entries} entry: RTL has at least 2"));
        }
        let seed = self.int("seed").wrapping_add(SEED_BEHIND);
        let all = Parameters::of(&[
            ("ENTRIES", entries),
            ("POLICY", policy(self.params.text(replacement), replacement)?),
            ("ASID_W", 12),
            ("VPN_W", 36),
            ("PFN_W", 36),
        ]);
        Ok(seeded(all, seed))
    }

    fn fixed(
        &self,
        structure: &str,
        module: &'static Module,
        own: &[(&'static str, u64)],
    ) -> Result<crate::part::Part, String> {
        let widths = [("ASID_W", 12), ("VPN_W", 36), ("PFN_W", 36)];
        let parameters = Parameters::of(&[&widths[..], own].concat());
        self.checker.part(self.label(structure), (module, &parameters))
    }
}

/// The structures of a machine of this kind.
pub(super) fn structures(machine: &str, kind: &str, params: &Params, checker: &Checker) -> Result<Structures, String> {
    let mut build = Build { machine, params, checker, slots: 0 };
    if !["hierarchy", "range", "clustered", "segment"].contains(&kind) {
        return Err(format!("kind = {kind}: there is no RTL of it"));
    }
    let emulated = params.has("segment_served_by") && params.text("segment_served_by") == "pages";
    build.only("page_size", "4096")?;
    build.only("walk_levels", "4")?;
    build.only("pwc_pml5", "0")?;
    build.only("segments", "1")?;
    build.only("l2_replacement", "same")?;
    build.only("behind", "[\"none\"]")?;
    build.only("table", "radix")?;
    build.only("second_level", "pages")?;
    build.only("cluster_beside", "[\"none\"]")?;
    build.only("kernel_segment", "none")?;
    build.only("cluster_ways", "0")?;
    build.only("cluster_frames", "group")?;
    let l1 = [build.level("l1d", false, 0)?, build.level("l1i", false, SEED_L1_FETCH)?];
    let (mut l2, mut l2_fetch) = (Vec::new(), None);
    if params.has("l2") {
        l2 = build.level("l2", true, SEED_L2)?;
        if params.texts("l2i") != ["shared"] {
            l2_fetch = Some(build.level("l2i", true, SEED_L2_FETCH)?);
        }
    }
    let clusters = (kind == "clustered").then(|| {
        let (entries, pages) = (build.int("cluster_entries"), build.int("cluster_pages"));
        let parameters = build.behind(entries, "replacement")?.with("FACTOR", pages).with("PARTS", pages);
        let part = checker.part(build.label("clusters"), (&CLUSTERED, &parameters))?;
        Ok::<_, String>(Clusters { part, first: build.slots, order: pages.ilog2() as u8 })
    });
    let ranges = (kind == "range").then(|| {
        let entries = build.int("range_entries");
        let parameters = build.behind(entries, "range_replacement")?;
        // As many in a bank as keep its registers small.
        let banks = if entries.is_multiple_of(8) { entries / 8 } else { 1 };
        let part = checker.part(build.label("ranges"), (&RANGE_TLB, &parameters.with("BANKS", banks)))?;
        Ok::<_, String>(Ranges { part, first: build.slots })
    });
    let segment = (kind == "segment" && !emulated).then(|| build.fixed("segment", &SEGMENT, &[]));
    let cache = |key: &str| match params.int(key) {
        1 => Err(format!("{key} = 1: RTL has at least 2 entries; {key} must be 0 or more than 1")),
        n => Ok(n),
    };
    let caches = [("CACHE_1", cache("pwc_pd")?), ("CACHE_2", cache("pwc_pdpt")?), ("CACHE_3", cache("pwc_pml4")?)];
    let range_walker = (kind == "range").then(|| build.fixed("range walker", &RANGE_WALKER, &[]));
    Ok(Structures {
        l1,
        l2,
        l2_fetch,
        clusters: clusters.transpose()?,
        ranges: ranges.transpose()?,
        ranges_first: kind == "range" && params.text("range_order") == "first",
        segment: segment.transpose()?.map(SegmentRegisters::new),
        walker: PageWalker::new(build.fixed("walker", &WALKER, &caches)?),
        range_walker: range_walker.transpose()?,
    })
}
