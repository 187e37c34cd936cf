//! Second levels of several cores, shared (SLL-1, SLL-2) or their own, against the plain model of `farreach-oracle`, in
//! the same random streams of threads, processes and changes.
//!
//! Lookups that are filtered do not reach the design, as in the loop: a change by another core must end that.

use farreach_hw::tlb::{Lookup, Outcome, Tlb, Unfiltered};
use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::driver::{Table, tlb};
use farreach_oracle::sll::{Answer, Array, Sll, SllConfig};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte};
use std::collections::{BTreeMap, BTreeSet};

/// Pages of 4 KB from 0 on, and regions of 2 MB behind them, which are one page or several.
const PAGES: u64 = 48;
const REGIONS: u64 = 3;
const PROCESSES: u32 = 3;

fn text(arrays: &[Array]) -> String {
    let size = |order: &u8| if *order == 0 { "4K" } else { "2M" };
    let array = |a: &Array| {
        let sizes: Vec<_> = a.orders.iter().map(size).collect();
        format!("{}:{}/{}", sizes.join("|"), a.entries, a.ways)
    };
    arrays.iter().map(array).collect::<Vec<_>>().join("+")
}

fn config(dice: &mut Dice) -> SllConfig {
    let mut array = |orders: &[u8], sets: &[usize]| {
        let (sets, ways) = (dice.pick(sets), dice.pick(&[1, 2, 4]));
        Array { orders: orders.to_vec(), entries: sets * ways, ways }
    };
    let mut first = || vec![array(&[0], &[1, 2]), array(&[9], &[1])];
    let l1 = [first(), first()];
    let l2 = match dice.below(3) {
        0 => vec![Array { orders: vec![0, 9], entries: 8, ways: 2 }],
        1 => vec![Array { orders: vec![9, 0], entries: 3, ways: 3 }],
        _ => vec![Array { orders: vec![0], entries: 16, ways: 4 }, Array { orders: vec![9], entries: 2, ways: 1 }],
    };
    SllConfig { cores: dice.pick(&[1, 2, 4, 8]), l1, l2, l2_shared: dice.percent(70), process_ids: true }
}

struct Pair {
    design: Box<dyn Tlb>,
    plain: Sll,
    table: Table,
    frame: u64,
    unfiltered: Unfiltered,
    filter: BTreeSet<(u32, u64, bool)>,
    first_hits: u64,
}

impl Pair {
    /// Takes the report of the design over into the filter.
    fn report(&mut self) {
        let Pair { filter, unfiltered, .. } = self;
        filter.retain(|&(asid, vpn, _)| !unfiltered.contains(Asid(asid), Vpn(vpn)));
        unfiltered.clear();
    }

    fn tell(&mut self, act: impl FnOnce(&mut dyn Tlb, &mut Unfiltered)) {
        act(&mut *self.design, &mut self.unfiltered);
        self.report();
    }

    fn map(&mut self, asid: u32, first: u64, order: u8) {
        self.frame = (self.frame + (2 << order)) >> order << order;
        for page in 0..1 << order {
            let pte = Pte { pfn: Pfn(self.frame + page), attr: Attr(7), order };
            self.table.0.insert((Asid(asid), Vpn(first + page)), pte);
        }
        self.changed(asid, first, 1 << order);
        self.plain.map(asid, first, order);
    }

    /// Only the design is told.
    fn changed(&mut self, asid: u32, first: u64, pages: u64) {
        self.tell(|tlb, report| tlb.invalidate(Asid(asid), VpnRange { start: Vpn(first), pages }, report));
    }

    fn unmap(&mut self, asid: u32, vpn: u64) {
        let order = self.table.0[&(Asid(asid), Vpn(vpn))].order;
        let first = vpn >> order << order;
        self.table.0.retain(|(of, page), _| of.0 != asid || !(first..first + (1 << order)).contains(&page.0));
        self.changed(asid, first, 1 << order);
        self.plain.unmap(asid, first);
    }

    fn look(&mut self, core: usize, asid: u32, vpn: u64, kind: Kind) {
        let at = Lookup { asid: Asid(asid), vpn: Vpn(vpn), kind };
        let fetch = kind == Kind::Fetch;
        let expected = self.plain.lookup(core, asid, vpn, fetch);
        if self.filter.contains(&(asid, vpn, fetch)) {
            assert_eq!(expected, Answer::L1, "{at:?} was filtered");
            self.first_hits += 1;
            return;
        }
        let seconds = |tlb: &dyn Tlb| tlb.counts().second_level_fetch_hits + tlb.counts().second_level_data_hits;
        let before = seconds(&*self.design);
        let pte = self.table.pte(at.asid, at.vpn).unwrap();
        let answer = self.design.access(at, pte, &self.table, &mut self.unfiltered);
        self.report();
        let found = match (answer.outcome, seconds(&*self.design) - before) {
            (Outcome::Hit, 0) => Answer::L1,
            (Outcome::Hit, _) => Answer::L2,
            _ => Answer::Walk,
        };
        assert_eq!(found, expected, "{at:?}");
        self.first_hits += u64::from(found == Answer::L1);
        if answer.filterable {
            self.filter.insert((asid, vpn, fetch));
        }
    }
}

/// Returns how often a second level answered what another core had filled, at least.
fn drive(seed: u64) -> u64 {
    let mut dice = Dice::new(seed);
    let config = config(&mut dice);
    let SllConfig { cores, l1: [l1i, l1d], l2, l2_shared, .. } = &config;
    let (l1i, l1d, l2) = (text(l1i), text(l1d), text(l2));
    let keys = format!("cores={cores},l2_shared={l2_shared},l1i={l1i},l1d={l1d},l2={l2}");
    let mut pair = Pair {
        design: tlb("hierarchy", &keys),
        plain: Sll::new(config.clone()),
        table: Table::default(),
        frame: 1 << 20,
        unfiltered: Unfiltered::default(),
        filter: BTreeSet::new(),
        first_hits: 0,
    };
    let (mut places, mut dealt) = (BTreeMap::new(), 0);
    let (mut asid, mut threads) = (0, [1; PROCESSES as usize]);
    let mut enter = true;
    for step in 0..600 {
        if enter || dice.percent(8) {
            asid = dice.below(PROCESSES.into()) as u32;
            let thread = threads[asid as usize];
            pair.tell(|tlb, report| {
                tlb.switch(Asid(asid), report);
                tlb.thread(Asid(asid), thread, report);
            });
            enter = false;
        } else if dice.percent(15) {
            threads[asid as usize] = 1 + dice.below(4) as u32;
            let thread = threads[asid as usize];
            pair.tell(|tlb, report| tlb.thread(Asid(asid), thread, report));
        }
        let core = *places.entry((asid, threads[asid as usize])).or_insert_with(|| {
            dealt += 1;
            (dealt - 1) % cores
        });
        let vpn = if dice.percent(60) { dice.below(PAGES) } else { 512 * (1 + dice.below(REGIONS)) + dice.below(6) };
        if pair.table.pte(Asid(asid), Vpn(vpn)).is_none() {
            let order = if vpn >= 512 && dice.percent(50) { 9 } else { 0 };
            if order > 0 {
                // Pages of 4 KB that are there go first.
                let first = vpn >> 9 << 9;
                let own: Vec<u64> =
                    (first..first + 512).filter(|v| pair.table.0.contains_key(&(Asid(asid), Vpn(*v)))).collect();
                own.into_iter().for_each(|v| pair.unmap(asid, v));
            }
            pair.map(asid, vpn >> order << order, order);
        }
        let kind = dice.pick(&[Kind::Fetch, Kind::Load, Kind::Store]);
        pair.look(core, asid, vpn, kind);
        // Of this process or of one that does not run.
        let of = dice.below(PROCESSES.into()) as u32;
        match dice.below(60) {
            0 | 1 => {
                let some: Vec<u64> = pair.table.0.keys().filter(|(a, _)| a.0 == of).map(|(_, v)| v.0).collect();
                if !some.is_empty() {
                    pair.unmap(of, dice.pick(&some));
                }
            }
            2 => {
                let (first, pages) = (dice.below(PAGES), 1 + dice.below(600));
                pair.changed(of, first, pages);
                pair.plain.changed(of, first, pages);
            }
            3 if dice.percent(20) => {
                pair.table.0.retain(|(a, _), _| a.0 != of);
                pair.tell(|tlb, report| tlb.invalidate_space(Asid(of), report));
                pair.plain.gone(of);
                // Its id may be that of a new process, whose threads get cores of their own.
                places.retain(|(a, _), _| *a != of);
                enter = true;
            }
            _ => {}
        }
        let counts = pair.design.counts();
        let plain = |names: &[&str]| names.iter().map(|name| pair.plain.counts[name]).sum::<u64>();
        let found = [
            pair.first_hits,
            counts.second_level_fetch_hits + counts.second_level_data_hits,
            counts.walk.walks,
            counts.invalidations,
        ];
        let expected = [
            plain(&["l1_hits"]),
            plain(&["l2_hits"]),
            plain(&["walks"]),
            plain(&["l1_invalidations", "l2_invalidations"]),
        ];
        assert_eq!(found, expected, "first level, second, walks, dropped: step {step}, seed {seed}: {keys}");
    }
    if config.l2_shared && config.cores > 1 { pair.plain.counts["l2_hits"] } else { 0 }
}

#[test]
fn sll_1_sll_2_and_a_plain_model() {
    let shown: u64 = seeds(1000).map(drive).sum();
    assert!(shown > 5000, "shared levels answer: {shown}");
}
