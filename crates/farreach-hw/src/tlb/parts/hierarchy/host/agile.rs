//! Agile paging (AGI; Gandhi, Hill and Swift, ISCA 2016): a walk begins in a merged table, as in shadow paging, and
//! goes on in two dimensions where the guest writes its table often, from a node of the guest's table on.
//!
//! A node is there while a page lies below it. Its writes are its entries that the guest maps, unmaps or changes, and
//! those of nodes below that come and go; what was written before a node was there is none. Writes happen, as far as
//! the clock knows, at the walk that follows them (AGI-2), which all machines see at the same instruction, and nodes
//! change sides at walks only: when they are written twice, and when a walk or a write comes after an epoch without
//! writes.

use super::guest::{What, Written};
use super::merged::{Merged, OWN, traps};
use super::{GuestWalk, ListedHost, Mode, Nested, RADIX, VM_EXIT_CYCLES, shadow};
use crate::tlb::parts::additions::{Counter, Law};
use crate::tlb::parts::hierarchy::walk::{self, leaf_level};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::PageTableView;
use std::collections::BTreeMap;

/// AGI-2.
pub const AGILE_EPOCH: Key = Key {
    name: "agile_epoch",
    default: "100000000",
    allowed: Allowed::Int { min: 1, max: 1_000_000_000_000 },
    about: "host = agile: instructions within which two writes make a node of the guest's table be walked itself, and \
            after which without writes it is merged again",
};
/// AGI-1.
pub const AGILE_FIRST: Key = Key {
    name: "agile_first",
    default: "held",
    allowed: Allowed::OneOf(&["held", "walk"]),
    about: "host = agile: where the first node of the guest's table is, in system memory: held: the merged table says; \
            walk: the host's table is walked",
};
/// The laws of AGI.
pub const AGILE_NESTED: Key = Key {
    name: "agile_nested",
    default: "written",
    allowed: Allowed::OneOf(&["written", "never", "always"]),
    about: "host = agile: nodes of the guest's table that are walked themselves: written: those that the guest writes \
            often; never: none, as shadow; always: all from the root, as walk",
};

const MERGED_WALKS: usize = OWN;
const NESTED_WALKS: usize = OWN + 1;
const TO_NESTED: usize = OWN + 2;
const TO_MERGED: usize = OWN + 3;

/// The host as the registry knows it.
pub const LISTED: ListedHost = ListedHost {
    name: "agile",
    about: "a merged table for what rests of the guest's table, walks in two dimensions for the rest (AGI)",
    keys: &[&VM_EXIT_CYCLES, &AGILE_EPOCH, &AGILE_FIRST, &AGILE_NESTED],
    counters: traps![
        Counter::new("merged_walks", "walks that stayed in the merged table"),
        Counter::new("nested_walks", "walks that went on in two dimensions"),
        Counter::new("to_nested", "nodes of the guest's table that began to be walked themselves"),
        Counter::new("to_merged", "nodes that were merged again"),
    ],
    laws: &[Law {
        name: "AGI-1: a walk ends in the merged table, or in two dimensions",
        sides: |part, counts| {
            (counts.walk.walks, part.counters.get("merged_walks") + part.counters.get("nested_walks"))
        },
    }],
    follows: true,
    needs_fetches: |params| follows_writes(params).then(|| "host = agile".into()),
    check: shadow::check,
    build: |params| Some(Agile::new(params).into()),
};

fn follows_writes(params: &Params) -> bool {
    params.text(AGILE_NESTED.name) == "written"
}

/// Which nodes are nested.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Written,
    Never,
    Always,
}

/// Of a node of the guest's table: level, and the part of the page numbers below it.
type Name = (Asid, u8, u64);

#[derive(Clone, Copy, Default)]
struct Node {
    written: Option<u64>,
    is_nested: bool,
}

/// See the module.
pub(in crate::tlb) struct Agile {
    merged: Merged,
    rule: Rule,
    epoch: u64,
    first_is_held: bool,
    levels: u8,
    /// The guest's nodes.
    nodes: BTreeMap<Name, Node>,
    /// Writes since the last walk. Of several in a row to one node, two.
    writes: Vec<Name>,
}

fn name(asid: Asid, vpn: Vpn, level: u8) -> Name {
    (asid, level, vpn.0 >> (RADIX * (level + 1)))
}

/// The pages below a node.
fn pages((_, level, number): Name) -> VpnRange {
    let order = RADIX * (level + 1);
    VpnRange { start: Vpn(number << order), pages: 1 << order }
}

impl Agile {
    fn new(params: &Params) -> Agile {
        Agile {
            merged: Merged::default(),
            rule: match params.text(AGILE_NESTED.name) {
                "written" => Rule::Written,
                "never" => Rule::Never,
                _ => Rule::Always,
            },
            epoch: params.int(AGILE_EPOCH.name),
            first_is_held: params.text(AGILE_FIRST.name) == "held",
            levels: walk::levels(params),
            nodes: BTreeMap::new(),
            writes: Vec::new(),
        }
    }

    fn write(&mut self, node: Name) {
        let [.., a, b] = self.writes[..] else { return self.writes.push(node) };
        if a != node || b != node {
            self.writes.push(node);
        }
    }

    /// A new page: the entry of its leaf is written, and those that lead to new nodes.
    fn add(&mut self, asid: Asid, vpn: Vpn, leaf: u8) {
        for level in leaf..self.levels {
            let node = name(asid, vpn, level);
            let is_new = self.nodes.insert(node, *self.nodes.get(&node).unwrap_or(&Node::default()));
            self.write(node);
            if is_new.is_some() {
                break;
            }
        }
    }

    /// A page that went: its entry was written, and those that led to nodes that went with it. The root stays.
    fn take(&mut self, asid: Asid, vpn: Vpn, leaf: u8) {
        for level in leaf..self.levels {
            let node = name(asid, vpn, level);
            if level + 1 == self.levels || self.merged.guest().any(asid, pages(node)) {
                return self.write(node);
            }
            if self.nodes.remove(&node).is_none() {
                return; // with another page
            }
            self.writes.retain(|written| *written != node);
        }
    }

    /// One entry for pages, in the place of a node.
    fn join(&mut self, asid: Asid, entry: &Written) {
        let is_below = |node: &Name| node.0 == asid && node.1 < entry.level() && pages(*node).overlaps(&entry.pages());
        self.nodes.retain(|node, _| !is_below(node));
        self.writes.retain(|node| !is_below(node));
        self.write(name(asid, entry.vpn, entry.level()));
    }

    /// The other way round.
    fn split(&mut self, asid: Asid, entry: &Written) {
        for (vpn, order) in self.merged.guest().inside(asid, entry.pages()) {
            (order / RADIX..entry.level()).for_each(|level| _ = self.nodes.entry(name(asid, vpn, level)).or_default());
        }
        self.write(name(asid, entry.vpn, entry.level()));
    }

    fn follow(&mut self, asid: Asid, written: &[Written]) {
        if self.rule != Rule::Written {
            return;
        }
        for entry in written {
            match entry.what {
                What::Mapped => self.add(asid, entry.vpn, entry.level()),
                What::Unmapped => self.take(asid, entry.vpn, entry.level()),
                What::Altered => self.write(name(asid, entry.vpn, entry.level())),
                What::Joined => self.join(asid, entry),
                What::Split => self.split(asid, entry),
            }
        }
    }

    /// Whether no node on the way to this page, down to this level, is nested.
    fn is_merged(&self, asid: Asid, vpn: Vpn, leaf: u8) -> bool {
        let is_nested = |level| self.nodes.get(&name(asid, vpn, level)).is_some_and(|node| node.is_nested);
        self.rule != Rule::Always && !(leaf..self.levels).any(is_nested)
    }

    /// AGI-2, at the walk that follows.
    fn follow_writes(&mut self, now: u64, moved: &mut Vec<Asid>, own: &mut OwnCounts) {
        for i in 0..self.writes.len() {
            let written = self.writes[i];
            let node = self.nodes.entry(written).or_default();
            let again = node.written.is_some_and(|before| now - before <= self.epoch);
            node.written = Some(now);
            if again != node.is_nested {
                node.is_nested = again;
                *own.at(if again { TO_NESTED } else { TO_MERGED }) += 1;
                moved.push(written.0);
                self.merged.drop(written.0, pages(written));
            }
        }
        self.writes.clear();
    }

    /// The level of the highest nested node on the way to a page.
    fn highest(&mut self, walk: &GuestWalk, leaf: u8, moved: &mut Vec<Asid>, own: &mut OwnCounts) -> Option<u8> {
        let mut highest = None;
        for level in leaf..self.levels {
            let Some(node) = self.nodes.get_mut(&name(walk.at.asid, walk.at.vpn, level)) else { continue };
            let rests = node.written.is_none_or(|written| walk.position - written > self.epoch);
            if node.is_nested && rests {
                node.is_nested = false;
                *own.at(TO_MERGED) += 1;
                moved.push(walk.at.asid);
            }
            if node.is_nested {
                highest = Some(level);
            }
        }
        highest
    }
}

impl Mode for Agile {
    fn begins(&mut self, walk: &GuestWalk, moved: &mut Vec<Asid>, own: &mut OwnCounts) -> Nested {
        let nested = match self.rule {
            Rule::Never => None,
            Rule::Always => Some(Nested { below: walk.levels, first_is_known: false }),
            Rule::Written => {
                self.follow_writes(walk.position, moved, own);
                let highest = self.highest(walk, leaf_level(walk.order, RADIX), moved, own);
                highest.map(|level| Nested { below: level + 1, first_is_known: self.first_is_held })
            }
        };
        *own.at(if nested.is_some() { NESTED_WALKS } else { MERGED_WALKS }) += 1;
        nested.unwrap_or_else(|| {
            self.merged.used(walk, own);
            Nested { below: 0, first_is_known: true }
        })
    }

    /// In two dimensions, processors set the modified bit (AGI-3).
    fn stored(&mut self, asid: Asid, vpn: Vpn, own: &mut OwnCounts) {
        let traps = self.is_merged(asid, vpn, 0);
        self.merged.stored(asid, vpn, traps, own);
    }

    fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView, own: &mut OwnCounts) {
        let written = self.merged.mapped(asid, pages, table, own);
        let mut new = written.iter().filter(|entry| entry.what == What::Mapped);
        if new.any(|entry| self.is_merged(asid, entry.vpn, entry.level())) {
            self.merged.faulted(own);
        }
        self.follow(asid, &written);
        self.merged.give_back(written);
    }

    fn unmapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView, own: &mut OwnCounts) {
        let written = self.merged.unmapped(asid, pages, table, own);
        self.follow(asid, &written);
        self.merged.give_back(written);
    }

    fn gone(&mut self, asid: Asid) {
        self.merged.gone(asid);
        self.nodes.retain(|(of, ..), _| *of != asid);
        self.writes.retain(|(of, ..)| *of != asid);
    }

    /// The root of a process that is walked itself is the guest's business (AGI-3).
    fn switch(&mut self, to: Asid, own: &mut OwnCounts) {
        let traps = self.is_merged(to, Vpn(0), self.levels - 1);
        self.merged.switch(to, traps, own);
    }
}
