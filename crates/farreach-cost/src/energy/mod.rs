//! Energy of translation: lookups, fills, walks, and what walks read, each at the figure of its structure.
//!
//! Figures are those of the structures as hardware ([`crate::hardware`]) and, for caches and memory, printed ones. A
//! structure that has no figure has no energy, and then the machine has no sum. The clock of flip-flops that nothing is
//! asked of is not in it.

mod request;
mod scale;
#[cfg(test)]
mod tests;

pub use scale::scale;

use crate::hardware::{Figure, figures};
use crate::keys::TECHNOLOGY;
use farreach_hw::tlb::{ArrayShape, array_shapes, walk};
use farreach_types::addr::Bytes;
use farreach_types::counts::{Answered, Energy, EnergyPart, TlbCounts, Workload};
use farreach_types::params::Params;
use request::{Request, request};
use serde_json::Value as Json;

/// A read of 64 bits from a cache of 32 KB, in pJ at 45 nm (M. Horowitz, ISSCC 2014, as all of these).
const SMALL_CACHE: f64 = 20.0;
/// From a cache of 1 MB.
const LARGE_CACHE: f64 = 100.0;
/// From memory: the middle of 1.3 to 2.6 nJ. It has a technology of its own, and is not scaled.
const MEMORY: f64 = 1950.0;
const PRINTED_NM: u64 = 45;
const PRINTED: &str = "Horowitz, ISSCC 2014";
/// Words of 64 bits in a line of a cache; a node of a range table has two lines (RMM15-7).
const LINE_WORDS: u64 = 8;
const NODE_LINES: u64 = 2;

/// Designs that are one array, and one module.
const ONE_ARRAY: [&str; 5] = ["single", "superpage", "complete", "partial", "integrated"];
/// Designs that are taken apart into arrays.
const HIERARCHIES: [&str; 4] = ["hierarchy", "range", "clustered", "segment"];

/// A machine whose energy is added up.
struct Account<'a> {
    figures: &'a [Figure],
    params: &'a Params,
    energy: Energy,
}

impl Account<'_> {
    fn missing(&mut self, why: impl Into<String>) {
        self.energy.missing.push(why.into());
    }

    fn part(&mut self, structure: &str, event: &str, count: u64, (pj, technology, source): (f64, u64, &str)) {
        let scale = if technology == 0 { 1.0 } else { scale(technology, self.energy.technology) };
        self.energy.parts.push(EnergyPart {
            structure: structure.into(),
            event: event.into(),
            count,
            each_pj: pj * scale,
            source: source.into(),
            source_technology: technology,
        });
    }

    /// Lookups and fills of a structure, or walks.
    fn structure(&mut self, name: &str, of: Result<Request, String>, event: &str, lookups: u64, fills: u64) {
        let of = match of {
            Ok(of) => of,
            Err(why) => return self.missing(format!("{name}: {why}")),
        };
        self.part(name, event, lookups, (of.lookup, of.technology, &of.source));
        match of.fill {
            Some(pj) => self.part(name, "fills", fills, (pj, of.technology, &of.source)),
            None if fills > 0 => self.missing(format!("fills of {name}: nothing was filled in the excerpts")),
            None => {}
        }
    }

    fn synthesised(&self, structure: &str, entries: Option<u64>) -> Result<Request, String> {
        request(self.figures, structure, entries)
    }

    /// Reads by what answered them, `words` of 64 bits each.
    fn answered(&mut self, name: &str, by: &Answered, words: u64) {
        let levels = [
            ("first-level cache", by.l1, SMALL_CACHE, PRINTED_NM, "32 KB"),
            ("second-level cache", by.l2, LARGE_CACHE, PRINTED_NM, "1 MB"),
            ("last-level cache", by.llc, LARGE_CACHE, PRINTED_NM, "1 MB"),
            ("memory", by.memory, MEMORY, 0, "memory"),
        ];
        for (level, count, pj, technology, what) in levels.into_iter().filter(|level| level.1 > 0) {
            self.part(
                &format!("{name}: {level}"),
                "reads",
                count * words,
                (pj, technology, &format!("{PRINTED}: {what}")),
            );
        }
    }

    /// A key must have a value where it is there, or no figure is for the design.
    fn only(&mut self, key: &str, only: &str) {
        let text = |v: &Json| match v {
            Json::String(text) => text.clone(),
            Json::Array(words) => words.iter().filter_map(Json::as_str).collect::<Vec<_>>().join("+"),
            v => v.to_string(),
        };
        let value = self.params.as_json().get(key).map(text);
        if let Some(other) = value.filter(|value| value != only) {
            self.missing(format!("{key} = {other}: figures are for {key} = {only}"));
        }
    }

    /// A design of one array, and the handler that fills it.
    fn one_array(&mut self, kind: &str, counts: &TlbCounts) {
        for (key, only) in [("preload", "none"), ("all_valid", "false"), ("lookup", "one-array"), ("factor", "16")] {
            self.only(key, only);
        }
        let (entries, ways) = (self.params.int("entries"), self.params.int("ways"));
        let structure = match ways {
            0 => Ok(kind),
            n if n == entries => Ok(kind),
            4 if kind == "single" => Ok("set-associative"),
            n => Err(format!("{kind} in {n} ways was not synthesised")),
        };
        let of = structure.and_then(|structure| self.synthesised(structure, Some(entries)));
        self.structure(&format!("{kind}, {entries} entries"), of, "lookups", counts.lookups, counts.fills);
        // The handler's loads hit the cache, as their price has it; its instructions have no figure.
        let reads = Answered { l1: counts.misses + counts.extra_pte_reads, ..Answered::default() };
        self.answered("page table", &reads, 1);
    }

    /// The arrays of a level.
    fn arrays(&mut self, key: &str) -> Vec<ArrayShape> {
        array_shapes(self.params, key).unwrap_or_else(|why| {
            self.missing(why);
            Vec::new()
        })
    }

    /// One side of the first level: all its arrays are asked at each lookup. `fills`: of base pages, of superpages.
    fn first_level(&mut self, key: &str, lookups: u64, (base, large): (u64, u64)) {
        for ArrayShape { orders, entries, ways } in self.arrays(key) {
            let full = ways == entries;
            let structure = match (orders[..].first(), orders.len(), full, ways) {
                (Some(0), 1, false, 4) => Some(key.to_owned()),
                (Some(9), 1, false, 4) if key == "l1d" => Some(format!("{key}-2m")),
                (Some(9), 1, true, _) if key == "l1i" => Some(format!("{key}-2m")),
                (Some(18), 1, true, _) if key == "l1d" => Some(format!("{key}-1g")),
                _ => None,
            };
            let sizes = orders.iter().map(|order| Bytes(4096 << order).to_string()).collect::<Vec<_>>().join("|");
            let name = format!("{key} {sizes}:{entries}{}", if full { String::new() } else { format!("/{ways}") });
            let of = structure.ok_or_else(|| "such an array was not synthesised".to_owned());
            let of = of.and_then(|structure| self.synthesised(&structure, Some(entries as u64)));
            let fills = match orders[0] {
                0 => base,
                9 => large,
                _ => 0,
            };
            self.structure(&name, of, "lookups", lookups, fills);
        }
    }

    /// A hierarchy, its walkers, and what these read.
    fn hierarchy(&mut self, kind: &str, counts: &TlbCounts, workload: &Workload) {
        for (key, only) in [
            ("guest", "none"),
            ("walk_levels", "4"),
            ("second_level", "pages"),
            ("l2i", "shared"),
            ("coalesce", "4096"),
            ("l2_fracture", "false"),
            ("l2_replacement", "same"),
            ("behind", "none"),
            ("table", "radix"),
            ("range_order", "parallel"),
            ("mru_pointer", "false"),
            ("l2_cooperation", "false"),
            ("segments", "1"),
            ("kernel_segment", "none"),
            ("cluster_pages", "8"),
            ("cluster_ways", "0"),
            ("cluster_frames", "group"),
            ("cluster_beside", "none"),
        ] {
            self.only(key, only);
        }
        let large = counts.superpage_misses;
        let fetch = counts.second_level_fetch_hits + counts.fetch_misses;
        let data = counts.second_level_data_hits + counts.range.sole_hits + counts.data_misses;
        let lookups = workload.lookups;
        self.first_level("l1d", lookups.load + lookups.store, (data.saturating_sub(large), large));
        self.first_level("l1i", lookups.fetch, (fetch, 0));
        if kind == "segment" && self.params.text("segment_served_by") != "pages" {
            let of = self.synthesised("segment", None);
            // Loaded at a switch of processes, which is rare.
            self.structure("segment", of, "lookups", lookups.load + lookups.store, 0);
        }
        if kind == "clustered" {
            let entries = self.params.int("cluster_entries");
            let of = self.synthesised("clusters", Some(entries));
            self.structure(&format!("clusters, {entries} entries"), of, "lookups", fetch + data, counts.misses);
        } else if self.params.has("l2") {
            for ArrayShape { orders, entries, ways } in self.arrays("l2") {
                let of = match (&orders[..], ways) {
                    ([0], 4) => self.synthesised("l2", Some(entries as u64)),
                    _ => Err("such an array was not synthesised".into()),
                };
                self.structure(&format!("l2 4K:{entries}/{ways}"), of, "lookups", fetch + data, counts.misses - large);
            }
        }
        if kind == "range" {
            let (range, entries) = (&counts.range, self.params.int("range_entries"));
            let of = self.synthesised("range", Some(entries));
            let found = range.walks - range.wasted_walks;
            self.structure(&format!("range TLB, {entries} entries"), of, "lookups", range.hits + range.misses, found);
            let of = self.synthesised("range-walker", None);
            self.structure("range-table walker", of, "walks", range.walks, 0);
        }
        let caches = ["pwc_pd", "pwc_pdpt", "pwc_pml4"].map(|key| self.params.int(key));
        let of = match caches {
            [0, 0, 0] => self.synthesised("walker-bare", None),
            [2, 0, 0] => self.synthesised("walker", None),
            _ => Err("a walker with such caches was not synthesised".into()),
        };
        self.structure("page walker", of, "walks", counts.walk.walks, 0);
        self.references(counts);
    }

    /// What walkers read.
    fn references(&mut self, counts: &TlbCounts) {
        let by = counts.walk_caches.page_tables();
        if by.total() > 0 {
            self.answered("page table", &by, 1);
            self.answered("range table", &counts.walk_caches.range_table, LINE_WORDS);
        } else {
            // At a fixed price they are read from a second-level cache.
            self.answered("page table", &Answered { l2: counts.walk_references(), ..Answered::default() }, 1);
            let lines = Answered { l2: NODE_LINES * counts.range.nodes, ..Answered::default() };
            self.answered("range table", &lines, LINE_WORDS);
        }
    }
}

/// The energy of a design of this kind. `params`: its keys.
pub fn energy(kind: &str, counts: &TlbCounts, workload: &Workload, params: &Params) -> Energy {
    energy_with(figures(), kind, counts, workload, params)
}

fn energy_with(all: &[Figure], kind: &str, counts: &TlbCounts, workload: &Workload, params: &Params) -> Energy {
    let energy = Energy { technology: params.int(TECHNOLOGY.name), ..Energy::default() };
    let mut account = Account { figures: all, params, energy };
    if params.page_shift() != 12 {
        account.missing(format!("page_size = {}: figures are for 4K", Bytes(1 << params.page_shift())));
    }
    if ONE_ARRAY.contains(&kind) && !walk::walks(params) {
        account.one_array(kind, counts);
    } else if HIERARCHIES.contains(&kind) {
        account.hierarchy(kind, counts, workload);
    } else {
        account.missing(format!("kind = {kind}: it was not synthesised"));
    }
    account.energy
}

/// The energy of a machine whose events are not all known.
pub fn unknown(why: &str) -> Energy {
    Energy { technology: 0, parts: Vec::new(), missing: vec![why.to_owned()] }
}
