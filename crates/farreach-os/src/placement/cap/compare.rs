//! Random programs on the policy and on its plain model (`farreach_oracle::cap`): after every event each page has the
//! same frame, in a superpage of the same size, and the same was counted.

use crate::Os;
use crate::testing::{file, map_as, os};
use farreach_oracle::cap::{Cap, Fault};
use farreach_oracle::dice::{Dice, seeds};
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::counts::OsCounts;
use farreach_types::event::{Backing, Kind, Op};
use farreach_types::translation::PageTableView;
use std::ops::Range;

const PLACE: u64 = 256;
const PLACES: u64 = 5;
const PROCESSES: u32 = 2;
/// Pages of the file, which process 0 maps behind its places.
const FILE: u64 = 70;
const COUNTERS: [&str; 7] = [
    "placements",
    "targets_hit",
    "targets_occupied",
    "targets_small",
    "targets_large",
    "targets_misaligned",
    "pairs_overwritten",
];

struct Random {
    os: Os,
    model: Cap,
    dice: Dice,
    /// By process and place: the region of the model, and its pages.
    places: Vec<Option<(usize, Range<u64>)>>,
}

impl Random {
    fn new(seed: u64, fault: Fault) -> Random {
        let mut dice = Dice::new(seed);
        let shape = [dice.pick(&[2048, 1024, 512, 416]), dice.pick(&[4, 5, 6]), dice.pick(&[1, 4])];
        Random::with(seed, fault, shape)
    }

    /// Frames, and log2 of the largest block and of a superpage.
    fn with(seed: u64, fault: Fault, [frames, top, superpage]: [u64; 3]) -> Random {
        let keys = format!(
            "memory={},address_ordered=true,khugepaged=0,max_order={},thp_size={}",
            frames << 12,
            top + 1,
            4096 << superpage
        );
        let mut system = os("cap", &keys);
        for asid in 1..PROCESSES {
            system.apply(Asid(asid), &Op::Start { pid: 1 + asid, parent: None, program: "/bin/p".into() });
        }
        let mut model = Cap::new(frames, top as u32, superpage as u32, fault);
        map_as(&mut system, 0, PLACE * (PLACES + 1), FILE, true, file("/f", 0));
        assert_eq!(model.map(0..FILE, true), 0);
        let dice = Dice::new(seed + 1000);
        Random { os: system, model, dice, places: vec![None; PROCESSES as usize * PLACES as usize] }
    }

    fn touch(&mut self, process: u32, region: usize, vpn: u64, page: u64) -> Result<(), String> {
        let ours = self.os.touch(Asid(process), Vpn(vpn), self.dice.pick(&[Kind::Load, Kind::Store])).is_ok();
        let plain = self.model.touch(region, page);
        if ours == plain { Ok(()) } else { Err(format!("touch of {vpn}: the system {ours}, the model {plain}")) }
    }

    fn step(&mut self) -> Result<(), String> {
        let at = self.dice.below(self.places.len() as u64);
        let (process, place) = ((at / PLACES) as u32, PLACE * (1 + at % PLACES));
        let Some((region, pages)) = self.places[at as usize].clone() else {
            let first = place + self.dice.pick(&[0, 0, 3, 16]);
            let pages = first..first + 1 + self.dice.below(PLACE - 32);
            map_as(&mut self.os, process, first, pages.end - first, false, Backing::Anonymous);
            self.places[at as usize] = Some((self.model.map(pages.clone(), false), pages));
            return Ok(());
        };
        match self.dice.below(12) {
            0 | 1 => {
                let mut gone = pages.clone();
                if self.dice.percent(60) {
                    gone.start += self.dice.below(pages.end - pages.start);
                    gone.end = (gone.start + 1 + self.dice.below(60)).min(pages.end);
                }
                let (start, len) = (gone.start << 12, (gone.end - gone.start) << 12);
                self.os.apply(Asid(process), &Op::Unmap { start, len });
                self.model.unmap(region, gone);
                if !self.model.is_mapped(region, pages.clone()) {
                    self.places[at as usize] = None;
                }
            }
            2 => {
                let page = self.dice.below(FILE);
                for page in page..(page + 10).min(FILE) {
                    self.touch(0, 0, PLACE * (PLACES + 1) + page, page)?;
                }
            }
            _ => {
                let first = pages.start + self.dice.below(pages.end - pages.start);
                let (pages, stride) = (first..(first + 60).min(pages.end), self.dice.pick(&[1, 1, 16]));
                for page in pages.step_by(stride) {
                    if self.model.is_mapped(region, page..page + 1) {
                        self.touch(process, region, page, page)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn agree(&self) -> Result<(), String> {
        self.os.check();
        let pages = self.places.iter().enumerate().filter_map(|(at, place)| Some((at as u64 / PLACES, place.clone()?)));
        let pages = pages.flat_map(|(process, (region, pages))| pages.map(move |page| (process, region, page, page)));
        let of_file = (0..FILE).map(|page| (0, 0, PLACE * (PLACES + 1) + page, page));
        for (process, region, vpn, page) in pages.chain(of_file) {
            let pte = self.os.pte(Asid(process as u32), Vpn(vpn));
            let ours = pte.map(|pte| (pte.pfn.0, u32::from(pte.order)));
            let plain = self.model.frame(region, page);
            if ours != plain {
                return Err(format!("page {vpn} of {process}: the system {ours:?}, the model {plain:?}"));
            }
        }
        let policy = self.os.counts().policy;
        let ours = COUNTERS.map(|name| policy.get(name));
        let plain = COUNTERS.map(|name| self.model.count(name));
        let free = [self.os.frames().free.unwrap(), self.model.free_frames()];
        if ours != plain || free[0] != free[1] {
            return Err(format!("{COUNTERS:?}: the system {ours:?}, the model {plain:?}; free {free:?}"));
        }
        Ok(())
    }
}

/// What was counted, if policy and model agree.
fn compare(seed: u64, fault: Fault) -> Result<OsCounts, String> {
    let mut random = Random::new(seed, fault);
    for event in 0..300 {
        let step = random.step().and_then(|()| random.agree());
        step.map_err(|what| format!("event {event}: {what}"))?;
    }
    Ok(random.os.counts())
}

/// CAP-1 to CAP-7.
#[test]
fn cap_equals_the_plain_model() {
    let mut sums = [0; COUNTERS.len()];
    for seed in seeds(40) {
        let counts = compare(seed, Fault::None).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        COUNTERS.iter().zip(&mut sums).for_each(|(name, sum)| *sum += counts.policy.get(name));
    }
    if std::env::var("FARREACH_SEED").is_err() {
        for ((name, least), sum) in COUNTERS.iter().zip([500, 500, 500, 20, 100, 100]).zip(sums) {
            assert!(sum >= least, "{name} {sum}");
        }
    }
}

/// CAP-1: more than 64 pairs in a region. Others take each target just before it is wanted.
#[test]
fn cap_1_overwrites_the_oldest_pair_as_the_model_does() {
    for seed in seeds(5) {
        let mut random = Random::with(seed, Fault::None, [8192, 4, 1]);
        let first = PLACE;
        map_as(&mut random.os, 0, first, PLACE, false, Backing::Anonymous);
        let region = random.model.map(first..first + PLACE, false);
        random.places[0] = Some((region, first..first + PLACE));
        for _ in 0..300 {
            let page = first + random.dice.below(PLACE);
            let mapped = random.model.frame(region, page).is_some();
            if let Some(frame) = random.model.target(region, page & !1).filter(|_| !mapped && random.dice.percent(90))
                && random.model.take(frame)
            {
                assert!(random.os.memory.alloc.take(Pfn(frame), 1));
                random.os.memory.keep(1);
            }
            random.touch(0, region, page, page).and_then(|()| random.agree()).unwrap();
        }
        let overwritten = random.model.count("pairs_overwritten");
        assert!(overwritten >= 20, "{overwritten}");
    }
}

#[test]
fn planted_faults_are_found() {
    for fault in [Fault::Rover, Fault::Pair, Fault::Split] {
        let found = (0..20).filter(|&seed| compare(seed, fault).is_err()).count();
        assert!(found >= 8, "{fault:?}: {found} of 20");
    }
}
