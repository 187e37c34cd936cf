//! How a host translates: its nested TLB, then its table.

use super::super::nodes::{Entry, Pointer, RADIX};
use super::Host;
use crate::cache::{NodeRead, Port, Purpose};
use crate::tlb::parts::store::tag_index::Tag;
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::counts::TlbCounts;

impl Host {
    /// Translates a guest physical page, for which a walk waits.
    pub fn translate(&mut self, page: Pfn, counts: &mut TlbCounts, port: &mut Port) {
        self.translate_at_once([page].into_iter(), Purpose::Demand, counts, port);
    }

    /// Translates guest physical pages for one step of the guest's walker (NEC). All are looked up in the nested TLB,
    /// one after the other; what it does not have is walked for, all at once where the host's table is of that kind.
    pub fn translate_at_once(
        &mut self,
        pages: impl Iterator<Item = Pfn>,
        purpose: Purpose,
        counts: &mut TlbCounts,
        port: &mut Port,
    ) {
        for page in pages {
            if self.is_cached(page) {
                counts.host_walk.nested_tlb_hits += 1;
                continue;
            }
            counts.host_walk.walks += 1;
            match &mut self.table {
                Some(table) => table.walk(page, purpose, counts),
                None => self.walk(page, counts, port),
            }
        }
        if let Some(table) = &mut self.table {
            table.make(purpose, counts, port);
        }
    }

    /// Lines of the guest's table that the walker reads without asking the host, for it knows where they are.
    pub fn skipped(&self, lines: u64, counts: &mut TlbCounts) {
        if let Some(table) = &self.table {
            table.known(lines, counts);
        }
    }

    /// Whether the nested TLB has the translation of a page, which it has afterwards.
    fn is_cached(&mut self, page: Pfn) -> bool {
        let Some(cache) = &mut self.cache else { return false };
        let tag = Tag::of(Asid(0), Vpn(page.0), RADIX * self.leaf);
        let found = cache.find(tag);
        match found {
            Some(slot) => cache.touch(slot, 0, &mut self.ignored_report),
            None => _ = cache.place(tag, Pointer, &mut TlbCounts::default(), &mut self.ignored_report),
        }
        found.is_some()
    }

    /// Walks for a guest physical page, in a radix tree behind another.
    fn walk(&mut self, page: Pfn, counts: &mut TlbCounts, port: &mut Port) {
        counts.host_walk.references += u64::from(self.levels - self.leaf);
        let Some(nodes) = &mut self.nodes else { return };
        for level in (self.leaf..self.levels).rev() {
            let address = nodes.address(Entry::on_the_way(Asid(0), Vpn(page.0), level));
            port.node(NodeRead { level: NodeRead::HOST, address }, &mut counts.walk_caches);
        }
    }
}
