//! How a hierarchy asks its additions, and what it tells them (HW-2).

use super::{Hierarchy, SecondLevel};
use crate::tlb::contract::Lookup;
use crate::tlb::parts::additions::{Account, Addition, By, Context, ListedAddition, Miss, Victim};
use farreach_types::event::Kind;
use farreach_types::translation::{PageTableView, Pte, Translation};

/// A miss that additions are told of when both levels are filled (PB-5).
pub(super) struct Filled {
    pub miss: Miss,
    pub by: By,
    pub victim: Option<Victim>,
}

/// An addition in its place.
pub(super) struct Placed {
    pub addition: Box<dyn Addition>,
    pub listed: &'static ListedAddition,
    /// The place of its counters in [`TlbCounts::parts`].
    pub part: usize,
}

impl<S: SecondLevel + 'static> Hierarchy<S> {
    /// Lets the additions take part, in order, until one has an answer. Returns its place and the answer.
    #[inline(always)]
    fn each<R>(
        &mut self,
        table: &dyn PageTableView,
        mut ask: impl FnMut(&mut dyn Addition, &mut Context) -> Option<R>,
    ) -> Option<(usize, R)> {
        let Hierarchy { l1, second, additions, walker, tables, port, counts, .. } = self;
        for (place, Placed { addition, part, .. }) in additions.iter_mut().enumerate() {
            let (tables, part) = (tables.as_mut(), *part);
            let context = &mut Context { table, l1, second, walker, tables, port, counts, place, part };
            if let Some(answer) = ask(&mut **addition, context) {
                return Some((place, answer));
            }
        }
        None
    }

    /// Asks the additions beside the second level, which answered so, or not.
    #[inline(never)]
    pub(super) fn beside(
        &mut self,
        at: Lookup,
        pte: Pte,
        page: Option<(Translation, u8)>,
        table: &dyn PageTableView,
    ) -> Option<(Translation, u8)> {
        let mut answer = page;
        self.each::<()>(table, |addition, context| {
            let found = addition.beside(at, pte, page, context);
            answer = answer.or(found);
            None
        });
        answer
    }

    /// Asks the additions behind the second level.
    #[inline(never)]
    pub(super) fn behind(&mut self, miss: &Miss, table: &dyn PageTableView) -> Option<(usize, Translation)> {
        self.each(table, |addition, context| addition.missed(miss, context))
    }

    /// Fills the second level at a miss, with what additions have to say to it. `by`: the addition that answered.
    #[inline(never)]
    pub(super) fn fill_behind(&mut self, miss: Miss, by: Option<usize>, order: u8, table: &dyn PageTableView) {
        let (at, page) = (miss.at, Translation { pfn: miss.pte.pfn, attr: miss.pte.attr });
        let by = by.map_or(By::Walk, By::Addition);
        let mut holds = true;
        self.each::<()>(table, |addition, context| {
            holds &= addition.leaves_to_second(&miss, by, order, context);
            None
        });
        let merges = self.counts.merges;
        let victim = if holds { self.second.fill(at, page, order, table, &mut self.counts) } else { None };
        if by != By::Walk {
            self.counts.merges = merges; // of misses alone
        }
        self.untold = Some(Filled { miss, by, victim });
    }

    /// Tells the additions of the last miss, if there was one, now that both levels are filled (PB-5).
    #[inline(never)]
    pub(super) fn tell(&mut self, table: &dyn PageTableView) {
        let Some(Filled { miss, by, victim }) = self.untold.take() else { return };
        self.each::<()>(table, |addition, context| {
            addition.filled(&miss, by, victim, context);
            None
        });
    }

    /// Whether there is a level behind the first for lookups of this side, so that its evictions count.
    pub(super) fn takes(&self, kind: Kind) -> bool {
        self.second.takes(kind) || self.additions.iter().any(|placed| placed.addition.stands_for_second())
    }

    /// A change behind the first level. Returns how many translations it dropped.
    pub(super) fn change(
        &mut self,
        second: impl FnOnce(&mut S) -> u64,
        mut addition: impl FnMut(&mut dyn Addition, &mut Account) -> u64,
    ) -> u64 {
        let Hierarchy { additions, counts, port, .. } = self;
        let each = additions
            .iter_mut()
            .map(|placed| addition(&mut *placed.addition, &mut Account { counts, port, part: placed.part }));
        each.sum::<u64>() + second(&mut self.second)
    }
}
