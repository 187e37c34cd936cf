//! Drops that wait for a tick (OS-SHD-10), and two tags for each process (OS-SHD-5), in random programs that give pages
//! back and map them anew. A page that is not mapped is never looked up.

use super::pair::Pair;
use super::{LARGE, PAGES, PROCESSES, REGIONS, config, keys};
use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::shootdowns::{Mechanism, Request, ShootdownConfig};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::Kind;
use std::collections::BTreeMap;

fn late_config(dice: &mut Dice) -> ShootdownConfig {
    let [late, others] = [Mechanism::Late, Mechanism::Generations];
    let mechanism = dice.pick(&[late, late, late, late, late, late, late, others, others, Mechanism::GlobalIds]);
    let records = dice.pick(&[1, 2, 64]);
    ShootdownConfig {
        mechanism,
        idle: dice.percent(20),
        latr_records: (mechanism == Mechanism::Late).then_some(records),
        latr_tick: dice.pick(&[1, 100, 400, 3_000_000]),
        kpti: dice.percent(50),
        ..config(dice)
    }
}

struct Program {
    dice: Dice,
    pair: Pair,
    asid: u32,
    now: u64,
    /// The process that ran has ended: another one must come first.
    enters: bool,
}

impl Program {
    fn is_mapped(&self, asid: u32, vpn: u64) -> bool {
        self.pair.table.0.contains_key(&(Asid(asid), Vpn(vpn)))
    }

    /// Size and place of what is mapped and unmapped as a whole.
    fn unit(&self, vpn: u64) -> (u64, u64) {
        if vpn < LARGE { (vpn, 1) } else { (vpn / 16 * 16, 16) }
    }

    /// Maps what is not mapped of these pages, which are whole units, and says so at once or in pieces.
    fn map_anew(&mut self, asid: u32, first: u64, pages: u64) {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut at = first;
        while at < first + pages {
            let (start, size) = self.unit(at);
            if !self.is_mapped(asid, start) {
                let order = if size == 16 { self.dice.pick(&[0, 4]) } else { 0 };
                self.pair.map(asid, start, size, order);
                let whole = self.dice.percent(70);
                match runs.last_mut().filter(|run| whole && run.0 + run.1 == start) {
                    Some(run) => run.1 += size,
                    None => runs.push((start, size)),
                }
            }
            at += size;
        }
        runs.into_iter().for_each(|(first, pages)| self.pair.mapped(asid, first, pages));
    }

    fn lookups(&mut self) {
        for _ in 0..12 {
            let small = self.dice.percent(50);
            let vpn = if small { self.dice.below(PAGES) } else { LARGE + self.dice.below(16 * REGIONS) };
            if !self.is_mapped(self.asid, vpn) {
                if self.dice.percent(70) {
                    continue;
                }
                let (first, pages) = self.unit(vpn);
                self.map_anew(self.asid, first, pages);
            }
            self.pair.look(self.asid, vpn, self.dice.pick(&[Kind::Fetch, Kind::Load, Kind::Store]));
        }
    }

    /// Some pages, or some regions: first and number.
    fn range(&mut self) -> (u64, u64) {
        let (unit, from, most) = if self.dice.percent(50) { (1, 0, PAGES) } else { (16, LARGE, REGIONS) };
        let at = self.dice.below(most);
        let largest = if self.dice.percent(70) { 3 } else { most };
        let units = (1 + self.dice.below(largest)).min(most - at);
        (from + unit * at, unit * units)
    }

    /// Gives pages back, or changes them, in one or two pieces. What is not mapped stays so.
    fn changes(&mut self, asid: u32, unmapped: bool) {
        let (first, pages) = self.range();
        let unit = self.unit(first).1;
        let mut parts = vec![(first, pages)];
        if pages >= 3 * unit && self.dice.percent(50) {
            parts = vec![(first, unit), (first + 2 * unit, pages - 2 * unit)];
        }
        let mut orders = Vec::new();
        for start in parts.iter().flat_map(|&(first, pages)| (first..first + pages).step_by(unit as usize)) {
            if self.is_mapped(asid, start) {
                orders.push(self.pair.order(asid, start));
                let order = if unit == 16 { self.dice.pick(&[0, 4]) } else { 0 };
                self.pair.map(asid, start, unit, order);
                if unmapped {
                    self.pair.unmap(asid, start, unit);
                }
            }
        }
        if orders.is_empty() {
            return;
        }
        let order = if orders.iter().all(|&order| order == 4) { 4 } else { 0 };
        // Nothing that is unannounced joins a request that waits.
        let announces = self.dice.percent(80) || self.pair.plain.may_join(asid);
        let request = Request { asid, first, pages, order, tables: self.dice.percent(30), unmapped };
        self.pair.change(request, &parts, announces, false);
    }

    fn splits(&mut self, asid: u32) {
        let first = LARGE + 16 * self.dice.below(REGIONS);
        if self.is_mapped(asid, first) && !self.pair.plain.may_join(asid) {
            self.pair.split(&mut self.dice, asid, first);
        }
    }

    fn time(&mut self) {
        self.now += self.dice.below(150);
        let due = self.pair.design.on_time().map(|design| design.due());
        assert_eq!(due.filter(|&due| due < u64::MAX), self.pair.plain.due());
        if due.is_some_and(|due| due <= self.now) {
            let now = self.now;
            self.pair.tell(|tlb, report| tlb.on_time().unwrap().advance(now, report));
            self.pair.plain.advance(now);
        }
    }

    fn end(&mut self, asid: u32) {
        self.pair.tell(|tlb, report| tlb.invalidate_space(Asid(asid), report));
        self.pair.plain.end(asid);
        self.pair.table.0.retain(|at, _| at.0 != Asid(asid));
        self.map_anew(asid, 0, PAGES);
        self.map_anew(asid, LARGE, 16 * REGIONS);
        self.enters = asid == self.asid;
    }

    fn step(&mut self) -> String {
        let any = self.dice.below(PROCESSES.into()) as u32;
        let of = if self.dice.percent(60) { self.asid } else { any };
        match if self.enters { 0 } else { self.dice.below(100) } {
            0..25 => {
                self.asid = if self.enters || self.dice.percent(40) { any } else { self.asid };
                let thread = 1 + self.dice.below(4) as u32;
                self.enters = false;
                self.pair.switch(self.asid, thread);
                format!("switch to {}, thread {thread}", self.asid)
            }
            25..60 => {
                self.lookups();
                format!("lookups of {}", self.asid)
            }
            60..77 => {
                self.changes(of, true);
                format!("unmaps of {of}")
            }
            77..84 => {
                self.changes(of, false);
                format!("changes of {of}")
            }
            84..87 => {
                self.splits(of);
                format!("a split of {of}")
            }
            87..92 => {
                let (first, pages) = self.range();
                self.map_anew(of, first, pages);
                format!("pages from {first} to {} mapped anew in {of}", first + pages)
            }
            92..98 => {
                self.time();
                format!("time {}", self.now)
            }
            _ => {
                self.end(of);
                format!("end of {of}")
            }
        }
    }
}

fn drive(seed: u64) -> BTreeMap<&'static str, u64> {
    let mut dice = Dice::new(seed);
    let mut config = late_config(&mut dice);
    let ids = dice.percent(80) || config.mechanism == Mechanism::GlobalIds;
    if !ids {
        config.pcid_slots = 1;
    }
    let keys = keys(&config, ids);
    let pair = Pair::new(&keys, config.clone());
    let mut program = Program { dice, pair, asid: 0, now: 0, enters: true };
    (0..PROCESSES).for_each(|asid| program.pair.start(&mut program.dice, asid));
    for step in 0..400 {
        let place = format!("{}, step {step}, seed {seed}: {keys}", program.step());
        program.pair.compare(&place);
        program.pair.compare_entries(config.cores, &place);
    }
    program.pair.plain.counts
}

#[test]
fn os_shd_10_and_a_plain_model() {
    let mut sum: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, n) in seeds(80).flat_map(drive) {
        *sum.entry(name).or_default() += n;
    }
    assert!(sum.values().all(|n| *n > 100), "{sum:?}");
}
