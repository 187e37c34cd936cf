//! Random programs on the policies and on the plain models of the same rules (`farreach_oracle::reservations`): after
//! every event each page has the same frame, in a superpage of the same size, and the same was counted.
//!
//! Left out, because the models read silent rules in another way, each in a manner of its own: fork (a model's objects
//! hide one another, as in FreeBSD; here a page that was not touched before a fork is not shared), ends of objects that
//! are unmapped while the rest stays, and rights to store that come back to pages that were stored to (FBR).

use super::*;
use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::reservations::freebsd::FreeBsd;
use farreach_oracle::reservations::freebsd::quicksilver::{Config, Quicksilver};
use farreach_oracle::reservations::navarro::{DirtyRule, Navarro, Preempt};
use farreach_oracle::reservations::{Access, EXEC, Failed, Grows, Kind as Memory, Policy, READ, Touched, WRITE, World};
use std::ops::Range;

type Check = Result<(), String>;

fn same<T: PartialEq + std::fmt::Debug>(what: &str, ours: T, plain: T) -> Check {
    if ours == plain { Ok(()) } else { Err(format!("{what}: the system {ours:?}, the model {plain:?}")) }
}

/// Pages of a place for one object of a process, and places of a process.
const PLACE: u64 = 64;
const PLACES: u64 = 6;
const PROCESSES: u32 = 3;
/// The files, each mapped as a whole by process 0 at the end of its memory.
const FILES: [u64; 2] = [40, 23];

fn place(at: u64) -> u64 {
    PLACE * (1 + at)
}

enum Plain {
    Navarro(Navarro),
    FreeBsd(FreeBsd),
    Quicksilver(Quicksilver),
}

/// The same call on either model.
macro_rules! on {
    ($model:expr, $call:ident($($argument:expr),*)) => {
        match $model {
            Plain::Navarro(model) => model.$call($($argument),*),
            Plain::FreeBsd(model) => model.$call($($argument),*),
            Plain::Quicksilver(model) => model.$call($($argument),*),
        }
    };
}

impl Plain {
    fn world(&self) -> &World {
        match self {
            Plain::Navarro(model) => &model.world,
            Plain::FreeBsd(model) => &model.world,
            Plain::Quicksilver(model) => &model.freebsd.world,
        }
    }
}

/// What a place has: the pages that are never unmapped while the rest stays.
#[derive(Clone)]
struct Object {
    grows: Grows,
    pages: Range<u64>,
    file: bool,
}

struct Random {
    os: Os,
    model: Plain,
    dice: Dice,
    places: Vec<Vec<Option<Object>>>,
    sizes: Vec<u64>,
    tick: u64,
}

impl Random {
    /// `wrong`: the model has another value of a key.
    fn navarro(seed: u64, wrong: bool) -> Random {
        let mut dice = Dice::new(seed);
        let sizes = dice.pick(&[vec![1, 4, 16], vec![1, 16], vec![1, 2, 4, 8, 16, 32], vec![1, 8]]);
        let frames = dice.pick(&[1024, 200, 128, 96, 72]);
        let (rule, preempt) = (dice.below(3) as usize, dice.below(2) as usize);
        let words = sizes.iter().map(u64::to_string).collect::<Vec<_>>().join("+");
        let keys = format!(
            "nav_sizes={words},memory={},address_ordered=true,nav_dirty_rule={},nav_preempt={}",
            frames << 12,
            ["file", "all", "off"][rule],
            ["nearest", "oldest"][preempt],
        );
        let other = |at: usize, of: usize| if wrong { (at + 1) % of } else { at };
        let rule = [DirtyRule::File, DirtyRule::All, DirtyRule::Off][other(rule, 3)];
        let preempt = [Preempt::Nearest, Preempt::Oldest][other(preempt, 2)];
        let model = Navarro::new(&sizes, frames, rule).preempting(preempt);
        Random::new(os("navarro", &keys), Plain::Navarro(model), dice, sizes, u64::MAX)
    }

    fn freebsd(seed: u64, wrong: bool) -> Random {
        let mut dice = Dice::new(seed);
        let (pages, frames) = (dice.pick(&[4, 16]), dice.pick(&[1024, 200, 128, 96, 72]));
        let tick = dice.pick(&[1, 5, 1000]);
        let keys = format!("fbr_pages={pages},memory={},address_ordered=true,fbr_tick={tick}", frames << 12);
        let tick = if wrong { 1001 - tick } else { tick };
        Random::new(os("freebsd", &keys), Plain::FreeBsd(FreeBsd::new(pages, frames)), dice, vec![1, pages], tick)
    }

    /// In memory that is never short: the model moves reservations in the queue by the same clock that breaks idle
    /// ones.
    fn quicksilver(seed: u64, wrong: bool) -> Random {
        let mut dice = Dice::new(seed);
        let (threshold, later, inactive) = (dice.pick(&[3, 5, 8]), dice.pick(&[true, false]), dice.pick(&[3, 10]));
        let keys = format!(
            "fbr_pages=16,memory=8M,address_ordered=true,fbr_tick={},ticks_per_ms=1,qks_threshold={threshold},\
             qks_async={later},qks_inactive_ms={inactive}",
            u64::MAX
        );
        let threshold = threshold + u64::from(wrong);
        let model = Quicksilver::new(Config { threshold, asynchronous: later, inactive }, 16, 2048);
        Random::new(os("quicksilver", &keys), Plain::Quicksilver(model), dice, vec![1, 16], u64::MAX)
    }

    fn new(mut os: Os, mut model: Plain, mut dice: Dice, sizes: Vec<u64>, tick: u64) -> Random {
        for asid in 1..PROCESSES {
            os.apply(Asid(asid), &Op::Start { pid: 1 + asid, parent: None, program: "/bin/p".into() });
        }
        for (at, pages) in (0..).zip(FILES) {
            let vpn = place(PLACES + at) + dice.pick(&[0, 0, 4, 3]);
            map_as(&mut os, 0, vpn, pages, true, file(&format!("/{at}"), 0));
            let object = on!(&mut model, object(Memory::File, Grows::No, 0..pages));
            assert_eq!(object as u64, at);
            on!(&mut model, map(0, vpn, object, 0..pages, READ | WRITE));
        }
        let places = vec![vec![None; PLACES as usize]; PROCESSES as usize];
        Random { os, model, dice, places, sizes, tick }
    }

    /// Something new in an empty place.
    fn map(&mut self, process: u32, at: u64) {
        let room = &self.places[process as usize];
        let (heap, stack) = (
            room.iter().flatten().any(|o| o.grows == Grows::Up),
            room.iter().flatten().any(|o| o.grows == Grows::Down),
        );
        let from = self.dice.pick(&[0, 0, 0, 4, 1]);
        let pages = 1 + self.dice.below(40);
        let (vpn, top) = (place(at) + from, place(at) + PLACE);
        let (grows, range, backing) = match self.dice.below(8) {
            0 | 1 if !heap => (Grows::Up, vpn..vpn + pages, Backing::Heap),
            2 | 3 if !stack => (Grows::Down, top - pages - from..top - from, Backing::Stack),
            4 | 5 => {
                let number = self.dice.below(FILES.len() as u64);
                let first = self.dice.below(FILES[number as usize]) & !3;
                let pages = 1 + self.dice.below(FILES[number as usize] - first);
                map_as(&mut self.os, process, vpn, pages, true, file(&format!("/{number}"), first));
                on!(&mut self.model, map(process, vpn, number as usize, first..first + pages, READ | WRITE));
                self.places[process as usize][at as usize] =
                    Some(Object { grows: Grows::No, pages: vpn..vpn + pages, file: true });
                return;
            }
            _ => (Grows::No, vpn..vpn + pages, Backing::Anonymous),
        };
        map_as(&mut self.os, process, range.start, range.end - range.start, false, backing);
        let object = on!(&mut self.model, object(Memory::Anonymous, grows, range.clone()));
        on!(&mut self.model, map(process, range.start, object, range.clone(), READ | WRITE));
        self.places[process as usize][at as usize] = Some(Object { grows, pages: range, file: false });
    }

    /// A heap or stack grows inside its place, if its end is as it was mapped.
    fn grow(&mut self, process: u32, at: u64, of: &Object) {
        let more = 1 + self.dice.below(6);
        let (edge, new, backing) = match of.grows {
            Grows::No => return,
            Grows::Up => (of.pages.end - 1, of.pages.end..of.pages.end + more, Backing::Heap),
            Grows::Down => (of.pages.start, of.pages.start - more..of.pages.start, Backing::Stack),
        };
        let inside = place(at) <= new.start && new.end <= place(at + 1);
        let rights = self.model.world().mapping(process, edge).map(|mapping| mapping.rights);
        if !inside || rights != Some(READ | WRITE) {
            return;
        }
        map_as(&mut self.os, process, new.start, more, false, backing);
        match &mut self.model {
            Plain::Navarro(model) => model.grow(process, edge, more),
            Plain::FreeBsd(model) => model.grow(process, edge, more),
            Plain::Quicksilver(model) => model.freebsd.grow(process, edge, more),
        }
        let pages = &mut self.places[process as usize][at as usize].as_mut().expect("it grows").pages;
        *pages = pages.start.min(new.start)..pages.end.max(new.end);
    }

    fn unmap(&mut self, process: u32, at: u64, of: &Object) {
        let all = of.pages.clone();
        let mut range = all.clone();
        if self.dice.percent(70) {
            let (first, pages) = (all.start + self.dice.below(all.end - all.start), 1 + self.dice.below(12));
            range = first..(first + pages).min(all.end);
            if !matches!(self.model, Plain::Navarro(_)) {
                // The order in which several reservations move in one event is open.
                let size = self.sizes[1];
                range.end = range.end.min(first / size * size + size);
            }
            match (of.file, of.grows) {
                (true, _) => {}
                (_, Grows::No) => range = range.start.max(all.start + 1)..range.end.min(all.end - 1),
                (_, Grows::Up) => range.start = range.start.max(all.start + 1),
                (_, Grows::Down) => range.end = range.end.min(all.end - 1),
            }
            if range.is_empty() {
                return;
            }
        }
        self.os.apply(Asid(process), &Op::Unmap { start: range.start << 12, len: (range.end - range.start) << 12 });
        on!(&mut self.model, unmap(process, range.clone()));
        let (low, high) = (self.mapped_start(process, &all), self.mapped_end(process, &all));
        let kept = &mut self.places[process as usize][at as usize];
        match of.grows {
            _ if range == all => *kept = None,
            Grows::Up => kept.as_mut().expect("it is there").pages.end = high,
            Grows::Down => kept.as_mut().expect("it is there").pages.start = low,
            Grows::No => {}
        }
    }

    fn mapped_end(&self, process: u32, pages: &Range<u64>) -> u64 {
        let last = pages.clone().rev().find(|vpn| self.model.world().mapping(process, *vpn).is_some());
        last.map_or(pages.start, |last| last + 1)
    }

    fn mapped_start(&self, process: u32, pages: &Range<u64>) -> u64 {
        pages.clone().find(|vpn| self.model.world().mapping(process, *vpn).is_some()).unwrap_or(pages.end)
    }

    fn protect(&mut self, process: u32, of: &Object) {
        let first = of.pages.start + self.dice.below(of.pages.end - of.pages.start);
        let range = first..(first + 1 + self.dice.below(20)).min(of.pages.end);
        let all = [READ, READ | EXEC, READ | WRITE, READ | WRITE | EXEC];
        let some = if matches!(self.model, Plain::Navarro(_)) { &all[..] } else { &all[..2] };
        let rights = self.dice.pick(some);
        let has = |right: u8| rights & right != 0;
        let prot = Prot { read: has(READ), write: has(WRITE), exec: has(EXEC) };
        self.os.apply(
            Asid(process),
            &Op::Protect { start: range.start << 12, len: (range.end - range.start) << 12, prot },
        );
        on!(&mut self.model, protect(process, range, rights));
    }

    fn touches(&mut self, process: u32, pages: &Range<u64>) -> Check {
        let first = pages.start + self.dice.below(pages.end - pages.start);
        let stores = self.dice.pick(&[0, 0, 30, 100, 100]);
        for vpn in first..(first + 1 + self.dice.below(40)).min(pages.end) {
            let store = self.dice.percent(stores);
            self.touch(process, vpn, store)?;
        }
        Ok(())
    }

    fn touch(&mut self, process: u32, vpn: u64, stores: bool) -> Check {
        let (kind, access) = if stores { (Kind::Store, Access::Store) } else { (Kind::Load, Access::Load) };
        let Some(mapping) = self.model.world().mapping(process, vpn) else { return Ok(()) };
        if stores && mapping.rights & WRITE == 0 {
            return Ok(());
        }
        if let Plain::FreeBsd(model) = &mut self.model
            && self.os.pte(Asid(process), Vpn(vpn)).is_none()
            && (self.os.counts().page_faults + 1).is_multiple_of(self.tick)
        {
            model.tick(1);
        }
        let ours = self.os.touch(Asid(process), Vpn(vpn), kind).ok();
        let ours = ours.map(|found| (found.pte.pfn.0, u32::from(found.pte.order)));
        let plain = match on!(&mut self.model, touch(process, vpn, access)) {
            Ok(Touched { frame, order, .. }) => Some((frame, order)),
            Err(Failed::Full) => None,
            Err(why) => return Err(format!("{process} {vpn}: {why:?}")),
        };
        same(&format!("a {kind:?} of {vpn} by {process}"), ours, plain)
    }

    fn step(&mut self) -> Check {
        if let Plain::Quicksilver(model) = &mut self.model {
            for _ in 0..self.dice.below(3) {
                let now = self.os.due();
                self.os.advance(now);
                model.tick(1);
            }
        }
        let (process, at) = (self.dice.below(PROCESSES.into()) as u32, self.dice.below(PLACES));
        let Some(of) = self.places[process as usize][at as usize].clone() else {
            self.map(process, at);
            return Ok(());
        };
        match self.dice.below(20) {
            0 | 1 => self.unmap(process, at, &of),
            2 => self.protect(process, &of),
            3 | 4 => self.grow(process, at, &of),
            5 => {
                let number = self.dice.below(FILES.len() as u64);
                let vpn = place(PLACES + number);
                return self.touches(0, &(vpn..vpn + PLACE));
            }
            _ => return self.touches(process, &of.pages),
        }
        Ok(())
    }

    fn agree(&self) -> Check {
        self.os.check();
        let world = self.model.world();
        for process in 0..PROCESSES {
            for vpn in place(0)..place(PLACES + FILES.len() as u64) {
                let pte = self.os.pte(Asid(process), Vpn(vpn));
                let ours = pte.map(|pte| (pte.pfn.0, u32::from(pte.order)));
                let plain = world.frame(process, vpn).zip(world.order(process, vpn));
                same(&format!("page {vpn} of {process}"), ours, plain)?;
            }
        }
        let frames = self.os.frames();
        same("free, busy, reserved", [frames.free.unwrap(), frames.resident, frames.reserved], world.shares())?;
        let counts = self.os.counts();
        let ours = |name: &str| counts.policy.get(name);
        match &self.model {
            Plain::Navarro(model) => {
                for &size in &self.sizes[1..] {
                    for name in ["reservations", "promotions", "demotions"] {
                        same(name, ours(&format!("{name}_{size}")), model.count(name, size))?;
                    }
                }
                for (name, plain) in [
                    ("honoured", "honoured"),
                    ("preempted", "preempted"),
                    ("refused_overlap", "overlap"),
                    ("refused_outside", "bounds"),
                    ("refused_alignment", "alignment"),
                    ("refused_extent", "memory"),
                ] {
                    let plain = self.sizes[1..].iter().map(|size| model.count(plain, *size)).sum();
                    same(name, ours(name), plain)?;
                }
            }
            Plain::FreeBsd(model) => {
                for (name, plain) in [
                    ("promotions", "promotions"),
                    ("promotion_failures", "failures"),
                    ("demotions", "demotions"),
                    ("mapped_at_once", "mapped_at_once"),
                    ("broken", "broken"),
                    ("reclaimed", "reclaimed"),
                    ("freed", "freed"),
                ] {
                    same(name, ours(name), model.count(plain))?;
                }
                same("made", counts.reservations_made, model.count("reservations"))?;
                same("honoured", counts.reservations_honoured, model.count("honoured"))?;
                same("stores that fault", counts.protection_faults, model.count("write_faults"))?;
                same("fullpop", ours("fullpop"), model.fullpop())?;
                same("partpop_unused", ours("partpop_unused"), model.partpop())?;
            }
            Plain::Quicksilver(model) => {
                for (name, plain) in [
                    ("promotions", "promotions"),
                    ("demotions", "demotions"),
                    ("inactive", "qks_inactive"),
                    ("zero_pages_background", "zero_pages_background"),
                ] {
                    same(name, ours(name), model.count(plain))?;
                }
                let filled = model.count("zero_pages") + model.count("zero_pages_background");
                same("filled", ours("filled_pages"), filled)?;
                same("made", counts.reservations_made, model.count("reservations"))?;
                same("stores that fault", counts.protection_faults, model.count("write_faults"))?;
            }
        }
        Ok(())
    }
}

const EVENTS: usize = 300;

/// What was counted, if policy and model agree.
fn compare(mut random: Random) -> Result<farreach_types::counts::OsCounts, String> {
    for event in 0..EVENTS {
        let step = random.step().and_then(|()| random.agree());
        step.map_err(|what| format!("event {event}: {what}"))?;
    }
    Ok(random.os.counts())
}

/// The sums of these counters over all programs must be large enough to mean something.
fn all_agree(of: fn(u64, bool) -> Random, least: &[(&str, u64)]) {
    let mut sums = vec![0; least.len()];
    for seed in seeds(40) {
        let counts = compare(of(seed, false)).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        least.iter().zip(&mut sums).for_each(|((name, _), sum)| *sum += counts.policy.get(name));
    }
    if std::env::var("FARREACH_SEED").is_err() {
        for ((name, least), sum) in least.iter().zip(sums) {
            assert!(sum >= *least, "{name} {sum}");
        }
    }
}

/// NAV-1 to NAV-9.
#[test]
fn nav_equals_the_plain_model() {
    let least = [("preempted", 100), ("promotions_16", 30), ("demotions_16", 15), ("refused_extent", 50)];
    all_agree(Random::navarro, &least);
}

/// FBR-1 to FBR-9.
#[test]
fn fbr_equals_the_plain_model() {
    let least = [("reclaimed", 100), ("promotions", 100), ("promotion_failures", 100), ("mapped_at_once", 5)];
    all_agree(Random::freebsd, &least);
}

/// QKS-1 to QKS-3.
#[test]
fn qks_equals_the_plain_model() {
    let least = [("promotions", 100), ("filled_pages", 500), ("inactive", 100), ("zero_pages_background", 100)];
    all_agree(Random::quicksilver, &least);
}

#[test]
fn a_model_with_another_key_is_found_out() {
    for of in [Random::navarro, Random::freebsd, Random::quicksilver] {
        let found = (0..30).filter(|&seed| compare(of(seed, true)).is_err()).count();
        assert!(found >= 10, "{found} of 30");
    }
}
