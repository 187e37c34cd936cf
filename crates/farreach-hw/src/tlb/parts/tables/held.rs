//! The mappings that a table has been told of, so that it can be told of exact differences.

use super::{Mapping, Table};
use crate::tlb::parts::hierarchy::nodes::RADIX;
use crate::tlb::parts::hierarchy::walk::leaf_level;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::OwnCounts;
use farreach_types::translation::PageTableView;
use std::collections::BTreeMap;

/// Who is told of differences: a table, or what follows one.
pub(in crate::tlb) trait Follow {
    /// This is mapped now. Nothing else maps its pages.
    fn map(&mut self, mapping: Mapping, own: &mut OwnCounts);
    /// This is not mapped any more.
    fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts);
}

impl<T: Table + ?Sized> Follow for T {
    fn map(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        Table::map(self, mapping, own);
    }
    fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        Table::unmap(self, mapping, own);
    }
}

/// See the module.
#[derive(Default)]
pub(in crate::tlb) struct Held {
    /// By process and first page: the order.
    mappings: BTreeMap<(Asid, u64), u8>,
}

/// What maps this page in the operating system's page table. Superpages of sizes between those of leaves are several
/// leaves.
fn in_view(asid: Asid, vpn: Vpn, view: &dyn PageTableView) -> Option<Mapping> {
    let order = RADIX * leaf_level(view.pte(asid, vpn)?.order, RADIX);
    Some(Mapping { asid, vpn: vpn.align_down(order.into()), order })
}

impl Held {
    /// Number of mappings.
    pub fn len(&self) -> usize {
        self.mappings.len()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Mapping> {
        self.mappings.iter().map(|(&(asid, vpn), &order)| Mapping { asid, vpn: Vpn(vpn), order })
    }

    /// What maps this page.
    pub fn mapping(&self, asid: Asid, vpn: Vpn) -> Option<Mapping> {
        let (&(of, first), &order) = self.mappings.range(..=(asid, vpn.0)).next_back()?;
        (of == asid && vpn.0 - first < 1 << order).then_some(Mapping { asid, vpn: Vpn(first), order })
    }

    /// Whether something maps one of these pages.
    pub fn any(&self, asid: Asid, pages: VpnRange) -> bool {
        let mut inside = self.mappings.range((asid, pages.start.0)..(asid, pages.end().0));
        inside.next().is_some() || self.mapping(asid, pages.start).is_some()
    }

    /// What maps these pages.
    pub fn within(&self, asid: Asid, pages: VpnRange) -> Vec<Mapping> {
        let from = self.mapping(asid, pages.start).map_or(pages.start, |mapping| mapping.vpn);
        let range = self.mappings.range((asid, from.0)..(asid, pages.end().0));
        range.map(|(&(asid, vpn), &order)| Mapping { asid, vpn: Vpn(vpn), order }).collect()
    }

    fn drop(&mut self, mapping: Mapping, table: &mut (impl Follow + ?Sized), own: &mut OwnCounts) {
        self.mappings.remove(&(mapping.asid, mapping.vpn.0));
        table.unmap(mapping, own);
    }

    fn add(&mut self, mapping: Mapping, table: &mut (impl Follow + ?Sized), own: &mut OwnCounts) {
        self.mappings.insert((mapping.asid, mapping.vpn.0), mapping.order);
        table.map(mapping, own);
    }

    /// These pages are mapped, or in other sizes than before.
    pub fn mapped(
        &mut self,
        asid: Asid,
        pages: VpnRange,
        view: &dyn PageTableView,
        table: &mut (impl Follow + ?Sized),
        own: &mut OwnCounts,
    ) {
        self.unmapped(asid, pages, view, table, own);
        let mut vpn = pages.start;
        while vpn < pages.end() {
            let mapping = in_view(asid, vpn, view);
            if let Some(mapping) = mapping
                && self.mapping(asid, vpn).is_none()
            {
                self.add(mapping, table, own);
            }
            vpn = Vpn(mapping.map_or(vpn.0, |m| m.vpn.0 + (1 << m.order) - 1) + 1);
        }
    }

    /// Those of these pages that it has may not be mapped any more, or in other sizes.
    pub fn unmapped(
        &mut self,
        asid: Asid,
        pages: VpnRange,
        view: &dyn PageTableView,
        table: &mut (impl Follow + ?Sized),
        own: &mut OwnCounts,
    ) {
        for mapping in self.within(asid, pages) {
            if in_view(asid, mapping.vpn, view) == Some(mapping) {
                continue;
            }
            self.drop(mapping, table, own);
            // Of a superpage that was split, the pages outside the range are still mapped.
            let whole = VpnRange { start: mapping.vpn, pages: 1 << mapping.order };
            for vpn in whole.iter().filter(|_| mapping.order > 0) {
                if let Some(part) = in_view(asid, vpn, view).filter(|part| part.vpn == vpn) {
                    self.add(part, table, own);
                }
            }
        }
    }

    /// The address space ended.
    pub fn gone(&mut self, asid: Asid, table: &mut (impl Follow + ?Sized), own: &mut OwnCounts) {
        for mapping in self.within(asid, VpnRange::ALL) {
            self.drop(mapping, table, own);
        }
    }
}
