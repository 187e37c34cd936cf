//! Tailored page sizes (Guvenilir and Patt, ISCA 2020): pages of every power of two, as the page table has them
//! (TPS-3).
//!
//! A page between the sizes of two levels has several entries of the lower one. The first is true, and says how large
//! the page is; the others are aliases that only say where it is. A walk that ends at an alias reads the true entry
//! too. The TLBs are those of the machine: arrays of several sizes, fully associative.

use super::{Account, Addition, By, Context, Counter, Law, ListedAddition, Miss, Victim, only_native, shown};
use crate::cache::Purpose;
use crate::tlb::contract::EntryView;
use crate::tlb::parts::hierarchy::nodes::{Entry, RADIX};
use crate::tlb::parts::hierarchy::walk::leaf_level;
use crate::tlb::parts::tables::TABLE;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::Translation;

/// log2 of the page table entries in a line of 64 bytes.
const LINE: u32 = 3;

const ALIASES: usize = 0;
const REFERENCES: usize = 1;

/// The addition as the registry knows it.
pub const LISTED: ListedAddition = ListedAddition {
    name: "tps",
    about: "the page table has one true entry for a page between two levels' sizes, and aliases of it (TPS)",
    counters: &[
        Counter::new("aliases", "walks that ended at an alias"),
        Counter::new("alias_references", "of these, those that read the true entry in another line"),
    ],
    laws: &[Law {
        name: "TPS-3",
        sides: |part, _| (part.counters.get("alias_references"), part.memory.made.references),
    }],
    check: |params| {
        only_native(params)?;
        if params.text(TABLE.name) != TABLE.default {
            return Err(format!(
                "{} is not allowed with {} = {}: only a radix tree has aliases",
                shown(params),
                TABLE.name,
                params.text(TABLE.name)
            ));
        }
        Ok(())
    },
    build: |_, _| Ok(Box::new(Tps)),
    ..ListedAddition::NEW
};

/// See the module. It keeps nothing.
struct Tps;

/// The page of the true entry of the mapping of `2^order` pages that has this page, if this one has an alias; and
/// whether both lie in one line.
fn true_entry(vpn: Vpn, order: u8) -> Option<(Vpn, bool)> {
    let unit = u32::from(RADIX * leaf_level(order, RADIX));
    let first = vpn.align_down(order.into());
    let [own, of_first] = [vpn, first].map(|page| page.0 >> unit);
    (own != of_first).then_some((first, own >> LINE == of_first >> LINE))
}

impl Addition for Tps {
    fn filled(&mut self, miss: &Miss, by: By, _: Option<Victim>, context: &mut Context) {
        let Some((first, same_line)) = true_entry(miss.at.vpn, miss.pte.order).filter(|_| by == By::Walk) else {
            return;
        };
        *context.own().at(ALIASES) += 1;
        if same_line {
            return;
        }
        *context.own().at(REFERENCES) += 1;
        let entry = Entry::on_the_way(miss.at.asid, first, leaf_level(miss.pte.order, RADIX));
        let address = if context.port.by_caches() { context.port.place(entry).address } else { 0 };
        context.step(Purpose::Demand, &[address]);
    }

    fn drop_pages(&mut self, _: Asid, _: VpnRange, _: bool, _: &mut Account) -> u64 {
        0
    }

    fn drop_space(&mut self, _: Asid, _: &mut Account) -> u64 {
        0
    }

    fn switch(&mut self, _: Asid, _: &mut Account) -> u64 {
        0
    }

    /// It answers nothing.
    fn probe(&self, _: Asid, _: Vpn, _: Kind) -> Option<Translation> {
        None
    }

    fn views(&self, _: usize, _: &mut Vec<EntryView>) {}

    fn entries(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TPS-3, by hand: of a page of 32 KB all entries lie in one line; entry 9 of one of 64 KB is an alias in another
    /// line. Pages of whole levels have no aliases, and aliases of 4 MB are entries of page directories.
    #[test]
    fn tps_3_aliases() {
        let base = 1 << 18;
        let of = |page: u64, order| true_entry(Vpn(base + page), order).map(|(first, same)| (first.0 - base, same));
        assert_eq!([0, 1, 7].map(|page| of(page, 3)), [None, Some((0, true)), Some((0, true))]);
        let in_line = |page| of(page, 4).map(|(_, same)| same);
        assert_eq!([7, 8, 9, 15].map(in_line), [Some(true), Some(false), Some(false), Some(false)]);
        assert_eq!(of(9, 4), Some((0, false)));
        for (page, order) in [(5, 0), (511, 9), (1 << 17, 18)] {
            assert_eq!(of(page, order), None);
        }
        assert_eq!([511, 512].map(|page| of(page, 10)), [None, Some((0, true))]);
        assert_eq!(of(8 << 9, 13), Some((0, false)));
    }
}
