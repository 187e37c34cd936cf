//! A system and its plain model under programs with several threads.

use super::super::plain::{Pair, compare_counts, compare_page};
use super::super::programs::{Act, Programs, Shape};
use farreach_machine::MachineSpec;
use farreach_oracle::dice::Dice;
use farreach_oracle::paging::Model;
use farreach_oracle::since_os::carrefour::{Config, PlainCarrefour};
use farreach_os::{Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Kind, Op};
use std::collections::BTreeSet;

/// The system of a machine with these keys: of one with many cores if they say how many.
pub fn os(keys: &str) -> Os {
    let kind = if keys.contains(",cores=") { "hierarchy" } else { "single" };
    let spec = MachineSpec::from_toml("test", &format!("kind = \"{kind}\""), keys, 1);
    Os::new(&spec.unwrap_or_else(|e| panic!("{keys}: {e}")).params).unwrap()
}

/// A system and its model. Threads and walks have choices of their own.
pub struct Both {
    pub os: Os,
    pub model: PlainCarrefour,
    programs: Programs,
    dice: Dice,
    pages: u64,
    now: u64,
    log: Vec<String>,
}

impl Both {
    pub fn new(keys: &str, config: Config, seed: u64, shape: Shape) -> Both {
        let (programs, dice) = (Programs::new(seed, shape), Dice::new(seed ^ 0x5eed));
        let model = PlainCarrefour::new(config);
        Both { os: os(keys), model, programs, dice, pages: shape.pages, now: 0, log: Vec::new() }
    }

    fn compare_all(&self) {
        self.os.check();
        for &asid in &self.programs.live {
            (0..self.pages).for_each(|page| compare_page(&self.os, self.model.paging(), asid, page));
        }
    }

    fn apply(&mut self, asid: Asid, op: &Op) {
        self.os.apply(asid, op);
        let served = self.model.event(asid.0, op).is_ok();
        assert_eq!(self.os.take_unserved().is_none(), served, "whether there is memory");
        self.compare_all();
    }

    /// A thread begins, ends, or goes on.
    fn thread(&mut self, asid: Asid) {
        let thread = self.dice.below(4) as u32;
        let ops = [Op::Switch { thread }, Op::Switch { thread }, Op::ThreadStart { thread }, Op::ThreadExit { thread }];
        let op = self.dice.pick(&ops);
        self.log.push(format!("at {}: {asid:?} {op:?}", self.now));
        self.apply(asid, &op);
    }

    fn touch(&mut self, asid: Asid, page: u64, kind: Kind) {
        let got = self.os.touch(asid, Vpn(page), kind);
        let expected = self.model.touch(asid.0, page, kind);
        assert_eq!(got.is_ok(), expected.is_ok(), "whether there is memory");
        compare_page(&self.os, self.model.paging(), asid, page);
        if self.dice.percent(60) {
            (0..self.dice.pick(&[1, 1, 2, 4])).for_each(|_| self.walk(asid, page));
        }
        if self.dice.percent(5) {
            let any = self.dice.below(self.pages);
            self.walk(asid, any);
        }
    }

    fn walk(&mut self, asid: Asid, page: u64) {
        self.log.push(format!("a walk for {page:x}"));
        self.os.walked(asid, Vpn(page));
        self.model.walked(asid.0, page);
        compare_counts(&self.os, &self.model);
    }

    /// Threads use pages that lie together, each its part or in turns.
    fn use_together(&mut self, asid: Asid) {
        let first = self.dice.below(self.pages / 8) * 8;
        let (pages, part) = (self.dice.pick(&[8, 16, 32]), self.dice.pick(&[1, 4, 8, 32]));
        let pages = first..(first + pages).min(self.pages);
        let rounds = self.dice.pick(&[1, 1, 2, 3]);
        for page in std::iter::repeat_n(pages, rounds).flatten() {
            if page == first || page % part == 0 {
                self.pass(1);
                self.thread(asid);
            }
            if self.model.paging().entry(asid.0, page).is_some() && self.dice.percent(70) {
                (0..self.dice.pick(&[1, 1, 2])).for_each(|_| self.walk(asid, page));
            }
        }
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        let due = |due: u64| due.max(self.now);
        assert_eq!(due(self.os.due()), due(self.model.due()), "when it works by itself, now {}", self.now);
        if self.os.due() > self.now {
            return;
        }
        let mut changes = Vec::new();
        self.os.take_changes(&mut changes);
        changes.clear();
        self.model.stale.clear();
        self.model.demoted.clear();
        self.log.push(format!("at {}: it works", self.now));
        self.model.advance(self.now);
        self.os.advance(self.now);
        self.os.take_changes(&mut changes);
        for (what, expected) in [(What::Stale, &self.model.stale), (What::Demoted, &self.model.demoted)] {
            let got = changes.iter().filter(|change| change.what == what);
            let got: BTreeSet<(u32, u64)> =
                got.flat_map(|change| change.pages.iter().map(|page| (change.asid.0, page.0))).collect();
            let expected = expected.iter().flat_map(|(of, pages)| pages.clone().map(|page| (*of, page))).collect();
            assert_eq!(got, expected, "{what:?}");
        }
        let others = changes.iter().filter(|change| !matches!(change.what, What::Stale | What::Demoted)).count();
        assert_eq!(others, 0, "{changes:?}");
        self.compare_all();
    }
}

impl Pair for Both {
    fn step(&mut self) {
        let time = self.dice.pick(&[0, 0, 0, 3, 50]);
        self.pass(time);
        if self.dice.percent(12) && !self.programs.live.is_empty() {
            let asid = self.dice.pick(&self.programs.live);
            return self.use_together(asid);
        }
        let paging = self.model.paging();
        let (asid, acts) = self.programs.acts(|asid, page| paging.page(asid.0, page).is_some());
        for act in acts {
            self.pass(1);
            if self.dice.percent(7) && self.programs.live.contains(&asid) {
                self.thread(asid);
            }
            self.log.push(format!("at {}: {asid:?} {act:x?}", self.now));
            match act {
                Act::Op(op) => self.apply(asid, &op),
                Act::Touch(page, kind) => self.touch(asid, page, kind),
            }
            compare_counts(&self.os, &self.model);
        }
    }

    fn log(&self) -> &[String] {
        &self.log
    }
}
