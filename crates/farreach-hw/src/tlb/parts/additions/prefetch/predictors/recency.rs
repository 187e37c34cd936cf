//! RP: the pages that left the second level just before and after that of the miss (RP-1 to RP-6). They are a stack for
//! each process, linked through the page table, so that it takes nothing on the chip and outlives process switches.

use super::super::queue::Queue;
use super::{Listed, POINTER_WRITES, Predictor, Trigger};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// RP-2.
pub const RP_PREFETCH: Key = Key {
    name: "rp_prefetch",
    default: "2",
    allowed: Allowed::Int { min: 2, max: 3 },
    about: "prefetcher = recency: pages that a miss prefetches at most: the two beside it; 3: a further one above, too",
};
/// RP-5.
pub const RP_REFERENCE: Key = Key {
    name: "rp_reference",
    default: "pte",
    allowed: Allowed::OneOf(&["pte", "walk"]),
    about: "prefetcher = recency: what a prefetch reads: the page table entry that the pointer leads to, or a walk",
};

/// The prefetcher as the registry knows it.
pub const LISTED: Listed = Listed {
    name: "recency",
    keys: &[&RP_PREFETCH, &RP_REFERENCE],
    for_all_sizes: true,
    build: |params| Ok(Box::new(Recency::new(params))),
    ..Listed::NEW
};

/// The pages of a process, the newest on top, by their first base page (RP-6), with log2 of their base pages.
type Stack = Queue<u64, u8>;

struct Recency {
    stacks: HashMap<Asid, Stack, FixedState>,
    above_next: bool,
}

impl Recency {
    fn new(params: &Params) -> Recency {
        Recency { stacks: HashMap::default(), above_next: params.int(RP_PREFETCH.name) > 2 }
    }
}

/// Takes a page out. Returns the pointers that this writes: one of each neighbour.
fn unlink(stack: &mut Stack, page: u64) -> u64 {
    let neighbours = u64::from(stack.newer(&page).is_some()) + u64::from(stack.older(&page).is_some());
    stack.remove(&page);
    neighbours
}

impl Predictor for Recency {
    /// RP-2.
    fn predict(&mut self, at: &Trigger, into: &mut Vec<i64>, _: &mut OwnCounts) {
        let Some(stack) = self.stacks.get(&at.asid) else { return };
        let above = stack.newer(&(at.page as u64));
        let below = stack.older(&(at.page as u64));
        let next = above.filter(|_| self.above_next).and_then(|above| stack.newer(&above));
        into.extend([above, below, next].into_iter().flatten().map(|page| page as i64));
    }

    /// RP-2, RP-3.
    fn train(&mut self, at: &Trigger, own: &mut OwnCounts) {
        if let Some(stack) = self.stacks.get_mut(&at.asid) {
            *own.at(POINTER_WRITES) += unlink(stack, at.page as u64);
        }
        let Some(victim) = at.victim else { return };
        let stack = self.stacks.entry(victim.asid).or_insert_with(|| Queue::new(0));
        // A page can be there although it is in the second level: that of misses which the buffer does not serve.
        let again = unlink(stack, victim.vpn.0);
        *own.at(POINTER_WRITES) += again + 1 + u64::from(stack.newest().is_some());
        stack.push(victim.vpn.0, victim.order);
    }

    /// RP-1: the stack has the pages that left the second level, at walks and at sole answers.
    fn passed(&mut self, at: &Trigger, own: &mut OwnCounts) {
        self.train(at, own);
    }

    /// The stack is not on the chip.
    fn forget(&mut self) {}

    /// RP-4. Pointers that the system writes then are not counted.
    fn unmapped(&mut self, asid: Asid, pages: VpnRange) {
        let Some(stack) = self.stacks.get_mut(&asid).filter(|stack| stack.len() > 0) else { return };
        if pages.pages == 0 {
            return;
        }
        if pages.pages >= stack.len() as u64 {
            stack.drop_where(|first, order| VpnRange { start: Vpn(*first), pages: 1 << order }.overlaps(&pages));
            return;
        }
        for order in 1..=18 {
            let first = pages.start.align_down(order).0;
            if stack.get(&first).is_some_and(|of| u32::from(*of) >= order) {
                stack.remove(&first);
            }
        }
        pages.iter().for_each(|page| _ = stack.remove(&page.0));
    }

    fn gone(&mut self, asid: Asid) {
        self.stacks.remove(&asid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RP-2, RP-3, RP-5: the golden stream, with the victims of two entries.
    #[test]
    fn rp_3_stack_by_hand() {
        let (params, mut own) = super::super::defaults();
        let mut recency = Recency::new(&params);
        let misses: Vec<_> = [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]
            .into_iter()
            .zip([None, None, Some(1), Some(2), Some(3), Some(4), Some(5), Some(1), Some(2), Some(3)])
            .collect();
        let made = super::super::drive(&mut recency, &misses, &mut own);
        assert_eq!(made[5..], [vec![2], vec![3], vec![4], vec![5], vec![1]]);
        let stack = &recency.stacks[&Asid(0)];
        let pages: Vec<_> = std::iter::successors(stack.newest(), |page| stack.older(page)).collect();
        assert_eq!((pages, own.get("pointer_writes")), (vec![3, 2, 1], 20));
    }

    /// RP-2: in the middle of the stack the one above comes first, and with three the one above that last.
    #[test]
    fn rp_2_three_pages() {
        let (params, mut own) = super::super::defaults();
        let mut recency = Recency { above_next: true, ..Recency::new(&params) };
        let misses: Vec<_> = (1..6).map(|page| (100 + page, Some(page as u64))).chain([(3, None)]).collect();
        let made = super::super::drive(&mut recency, &misses, &mut own);
        assert_eq!((made.last(), own.get("pointer_writes")), (Some(&vec![4, 2, 5]), 1 + 4 * 2 + 2));
    }
}
