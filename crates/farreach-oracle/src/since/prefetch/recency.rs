//! Stacks of pages that left the second level (RP-1 to RP-6), one for each process, in the page table.

use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Stacks {
    /// By process, first pages of mappings with their orders, top last.
    pub stacks: BTreeMap<u32, Vec<(u64, u8)>>,
    /// RP-5.
    pub pointer_writes: u64,
}

impl Stacks {
    fn place(&self, asid: u32, page: u64) -> Option<usize> {
        self.stacks.get(&asid)?.iter().position(|p| p.0 == page)
    }

    /// RP-2: the candidates of a miss, as page numbers.
    pub fn around(&self, asid: u32, page: u64, prefetch: usize) -> Vec<u64> {
        let Some(at) = self.place(asid, page) else { return Vec::new() };
        let stack = &self.stacks[&asid];
        let above = stack.get(at + 1).map(|p| p.0);
        let below = if at == 0 { None } else { Some(stack[at - 1].0) };
        let second = if prefetch == 3 { stack.get(at + 2).map(|p| p.0) } else { None };
        [above, below, second].into_iter().flatten().collect()
    }

    /// RP-2, RP-5: the page leaves, if it is there; one write for each neighbour.
    pub fn unlink(&mut self, asid: u32, page: u64) {
        let Some(at) = self.place(asid, page) else { return };
        let stack = self.stacks.get_mut(&asid).expect("a page is in it");
        self.pointer_writes += u64::from(at > 0) + u64::from(at + 1 < stack.len());
        stack.remove(at);
    }

    /// RP-3, RP-5: one write for the page, one for the old top.
    pub fn push(&mut self, asid: u32, page: u64, order: u8) {
        self.unlink(asid, page);
        let stack = self.stacks.entry(asid).or_default();
        self.pointer_writes += 1 + u64::from(!stack.is_empty());
        stack.push((page, order));
    }

    /// RP-4: a page of which a part changes leaves.
    pub fn changed(&mut self, asid: u32, first: u64, pages: u64) {
        if let Some(stack) = self.stacks.get_mut(&asid) {
            stack.retain(|(p, order)| p + (1 << order) <= first || *p >= first.saturating_add(pages));
        }
    }
}
