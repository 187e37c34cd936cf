//! Systems beside plain models: the same random programs on both, everything compared after each step.

use super::programs::{Act, Programs, Shape};
use super::world::os;
use farreach_oracle::dice::seeds;
use farreach_oracle::paging::{Counts, Model, Paging, ZEROS};
use farreach_os::Os;
use farreach_os::frames::numbers;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Kind, Op};
use farreach_types::translation::PageTableView;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A system and its model.
pub trait Pair {
    fn step(&mut self);
    /// What they did so far.
    fn log(&self) -> &[String];
}

/// Runs streams, some for each seed, and says what led to a failure. All that is counted as `happened` must happen as
/// often as there are seeds.
pub fn agree<P: Pair>(
    (keys, streams, steps): (&str, u64, usize),
    pairs: impl Fn(u64) -> Vec<P>,
    happened: impl Fn(&P) -> Vec<u64>,
) {
    let mut sums: Vec<u64> = Vec::new();
    for (seed, mut pair) in seeds(streams).flat_map(|seed| pairs(seed).into_iter().map(move |pair| (seed, pair))) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (0..steps).for_each(|_| pair.step()))) {
            let last = pair.log().len().saturating_sub(40);
            eprintln!("{keys}, seed {seed}, step {}:\n{}", pair.log().len(), pair.log()[last..].join("\n"));
            resume_unwind(panic);
        }
        let counted = happened(&pair);
        sums.resize(counted.len(), 0);
        sums.iter_mut().zip(counted).for_each(|(sum, n)| *sum += n);
    }
    let seldom = sums.iter().any(|sum| *sum < streams);
    assert!(std::env::var("FARREACH_SEED").is_ok() || !seldom, "{keys}: too little happened: {sums:?}");
}

/// A system, and a model that knows the frame of every page.
pub struct Paged<M> {
    pub os: Os,
    pub model: M,
    programs: Programs,
    pages: u64,
    log: Vec<String>,
    /// Instructions so far, as far as the work of a system is concerned.
    now: u64,
    /// Of a hundred touches, those that are walks (OSC-2).
    walks: u64,
    /// What else is compared of a page.
    more: fn(&Os, &M, Asid, u64),
    /// Events that are left out.
    skips: fn(&M, Asid, &Op) -> bool,
}

impl<M: Model> Paged<M> {
    pub fn new(keys: &str, model: M, (seed, shape): (u64, Shape), more: fn(&Os, &M, Asid, u64)) -> Paged<M> {
        let (os, programs) = (os(keys), Programs::new(seed, shape));
        let (log, skips) = (Vec::new(), |_: &M, _, _: &Op| false);
        Paged { os, model, programs, pages: shape.pages, log, now: 0, walks: 0, more, skips }
    }

    /// Of a hundred touches this many are walks.
    pub fn walking(self, walks: u64) -> Paged<M> {
        Paged { walks, ..self }
    }

    /// Without these events.
    pub fn without(self, skips: fn(&M, Asid, &Op) -> bool) -> Paged<M> {
        Paged { skips, ..self }
    }

    fn apply(&mut self, asid: Asid, op: &Op) {
        if (self.skips)(&self.model, asid, op) {
            return;
        }
        self.os.apply(asid, op);
        let served = self.model.event(asid.0, op).is_ok();
        assert_eq!(self.os.take_unserved().is_none(), served, "whether there is memory");
        self.compare_all();
    }

    /// Time passes, and what is due is done before the next act.
    fn pass(&mut self, time: u64) {
        self.now += time;
        self.os.note_time(self.now);
        let due = |due: u64| due.max(self.now);
        assert_eq!(due(self.os.due()), due(self.model.due()), "when it works by itself, now {}", self.now);
        self.model.advance(self.now);
        if self.os.due() <= self.now {
            self.os.advance(self.now);
            self.compare_all();
        }
    }

    fn compare_all(&self) {
        self.os.check();
        for &asid in &self.programs.live {
            (0..self.pages).for_each(|page| self.compare(asid, page));
        }
    }

    fn touch(&mut self, asid: Asid, page: u64, kind: Kind) {
        let got = self.os.touch(asid, Vpn(page), kind);
        let expected = self.model.touch(asid.0, page, kind);
        assert_eq!(got.is_ok(), expected.is_ok(), "whether there is memory");
        if self.walks > 0 && got.is_ok() && self.programs.dice.percent(self.walks) {
            self.log.push("a walk".into());
            self.os.walked(asid, Vpn(page));
            self.model.walked(asid.0, page);
        }
        self.compare(asid, page);
    }

    fn compare(&self, asid: Asid, page: u64) {
        compare_page(&self.os, self.model.paging(), asid, page);
        (self.more)(&self.os, &self.model, asid, page);
    }
}

impl<M: Model> Pair for Paged<M> {
    fn step(&mut self) {
        if self.os.keeps_time() {
            let time = self.programs.dice.pick(&[0, 0, 0, 3, 50]);
            self.pass(time);
        }
        let paging = self.model.paging();
        let (asid, acts) = self.programs.acts(|asid, page| paging.page(asid.0, page).is_some());
        for act in acts {
            self.log.push(format!("at {}: {asid:?} {act:x?}", self.now));
            self.pass(1);
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

/// The entry of a page in both.
pub fn compare_page(os: &Os, paging: &Paging, asid: Asid, page: u64) {
    let got = os.pte(asid, Vpn(page)).map(|pte| {
        let frame = if numbers::is_zeros(pte.pfn) { ZEROS } else { pte.pfn.0 };
        (frame, u32::from(pte.order), pte.attr)
    });
    let expected = paging.entry(asid.0, page).map(|entry| {
        let prot = paging.page(asid.0, page).expect("what has an entry is mapped").prot;
        (entry.frame, entry.order, entry.attr(prot))
    });
    assert_eq!(got, expected, "{asid:?} {page:#x}");
}

/// What both counted.
pub fn compare_counts(os: &Os, model: &impl Model) {
    assert_eq!(counts(os), model.paging().counts);
    let own = os.counts().policy;
    model.own().into_iter().for_each(|(name, count)| assert_eq!(own.get(name), count, "{name}"));
    assert_eq!(os.frames().free, Some(model.paging().frames.free()), "free frames");
}

/// What the models of paging count.
fn counts(os: &Os) -> Counts {
    let c = os.counts();
    Counts {
        page_faults: c.page_faults,
        protection_faults: c.protection_faults,
        cow_copies: c.cow_copies,
        zeroed_pages: c.zeroed_pages,
        populated_pages: c.populated_pages,
        superpage_faults: c.superpage_faults,
        superpage_fallbacks: c.superpage_fallbacks,
        collapses: c.collapses,
        gathered_pages: c.gathered_pages,
        demotions: c.demotions,
        huge_rest_pages: c.huge_rest_pages,
        eager_requests: c.eager_requests,
        eager_pages: c.eager_pages,
        eager_refused: c.eager_refused,
        eager_missing: c.eager_missing,
    }
}
