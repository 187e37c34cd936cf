//! Steps of a stream: lookups of a few hot pages of each size, runs with strides, loops, pages at both ends of the
//! address space, and changes of their mappings.

use super::*;

/// The one page at the end of what programs have (PB-6).
const TOP: u64 = (1 << 35) - 1;

/// Draws steps.
pub(super) struct Stream {
    pub world: World,
    dice: Dice,
    asid: u32,
    frame: u64,
    /// Page, order if it is to be mapped, program counter.
    plan: Vec<(u64, u8, u64)>,
    position: u64,
    later: Vec<Step>,
    /// Percent of superpages among the pages that are drawn.
    large: u64,
    giants: bool,
}

impl Stream {
    pub fn new(seed: u64, giants: bool) -> Stream {
        let mut dice = Dice::new(seed ^ 0x7061_7274);
        let large = dice.pick(&[0, 10, 30, 50]);
        let mut stream = Stream {
            world: World::default(),
            dice,
            asid: 0,
            frame: 1 << 20,
            plan: Vec::new(),
            position: 0,
            later: Vec::new(),
            large,
            giants,
        };
        stream.new_regions();
        stream
    }

    /// The pages that are mapped at the start, of all processes.
    pub fn first(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for asid in 0..3 {
            self.asid = asid;
            for _ in 0..self.dice.below(30) {
                let (vpn, order) = self.page();
                steps.extend(self.fault(vpn, order));
            }
        }
        self.asid = 0;
        steps
    }

    fn new_regions(&mut self) {
        self.world.version += 1;
        for asid in 0..3 {
            let all = [(0, 512), (512, 512), (4 << 9, 4 << 9), (1 << 18, 1 << 18)];
            let mut some: Vec<_> = all.into_iter().filter(|_| self.dice.percent(60)).collect();
            some.sort_by_key(|(first, pages)| (u64::MAX - pages, *first));
            let ranges = some.into_iter().map(|(first, pages)| VpnRange { start: Vpn(first), pages });
            self.world.regions.insert(asid, ranges.collect());
        }
    }

    /// Aligned frames that no page has had, or with these low bits for base pages.
    fn frames(&mut self, order: u8) -> u64 {
        let first = self.frame.next_multiple_of(1 << order);
        self.frame = first + (1 << order);
        first
    }

    /// A page and the order in which it is mapped if it is not.
    fn page(&mut self) -> (u64, u8) {
        if self.dice.percent(self.large) {
            return match self.dice.below(8) {
                0 if self.giants => ((self.dice.below(2) + 1) << 18 | self.dice.below(1 << 18), 18),
                _ => ((4 + self.dice.below(5)) << 9 | self.dice.below(512), 9),
            };
        }
        match self.dice.below(20) {
            0..=8 => (self.dice.below(24), 0),
            9..=13 => (512 + self.dice.below(20) * 3, 0),
            14..=16 => ((3 << 18) + self.dice.below(12), 0),
            17 => (TOP - self.dice.below(3), 0),
            // Base pages beside superpages.
            _ => ((9 << 9) + self.dice.below(12), 0),
        }
    }

    /// Maps a page: in its reservation, in a row with its neighbours, or anywhere.
    fn fault(&mut self, vpn: u64, order: u8) -> Option<Step> {
        let asid = self.asid;
        let first = vpn >> order << order;
        if self.world.any(asid, first, 1 << order) {
            return None;
        }
        let attr = if self.dice.percent(90) { 7 } else { 3 };
        let whole = VpnRange { start: Vpn(first), pages: 1 << order };
        if !self.world.restsegs.is_empty() && self.world.place(asid, first, attr, order) {
            return Some(Step::Mapped(asid, whole));
        }
        let frame = match order {
            0 if vpn >> 9 == 1 && self.dice.percent(85) => {
                if !self.world.reserved.contains_key(&(asid, 1)) {
                    let base = self.frames(9);
                    self.world.reserved.insert((asid, 1), base);
                }
                self.world.reserved[&(asid, 1)] + vpn % 512
            }
            0 if self.dice.percent(70) => (1 << 30) + (u64::from(asid) << 22) + vpn % (1 << 21),
            _ => self.frames(order),
        };
        self.world.map(asid, first, frame, attr, order);
        Some(Step::Mapped(asid, whole))
    }

    fn split(&mut self, first: u64) -> Option<Step> {
        if !self.world.restsegs.is_empty() {
            return None;
        }
        let asid = self.asid;
        let &(pfn, attr, order) = self.world.mappings.get(&(asid, first)).filter(|mapping| mapping.2 > 0)?;
        self.world.mappings.remove(&(asid, first));
        for i in 0..512 {
            let pages = i << (order - 9);
            self.world.map(asid, first + pages, pfn + pages, attr, order - 9);
        }
        Some(Step::Split(asid, VpnRange { start: Vpn(first), pages: 1 << order }))
    }

    /// All base pages of 2 MB are mapped properly, then become a superpage.
    fn promote(&mut self, region: u64) -> Option<Step> {
        let (asid, first) = (self.asid, region << 9);
        let pages: Vec<_> =
            self.world.mappings.range((asid, first)..(asid, first + 512)).map(|(_, page)| *page).collect();
        let &(pfn, attr, _) = pages.first().filter(|_| pages.len() == 512)?;
        let fits = |(i, page): (usize, &(u64, u8, u8))| *page == (pfn + i as u64, attr, 0);
        if pfn % 512 != 0 || !pages.iter().enumerate().all(fits) {
            return None;
        }
        (0..512).for_each(|i| _ = self.world.mappings.remove(&(asid, first + i)));
        self.world.map(asid, first, pfn, attr, 9);
        Some(Step::Mapped(asid, VpnRange { start: Vpn(first), pages: 512 }))
    }

    fn unmap(&mut self, first: u64, pages: u64) -> Step {
        let asid = self.asid;
        let range = VpnRange { start: Vpn(first), pages };
        self.world.mappings.retain(|&(of, page), &mut (.., order)| {
            of != asid || !VpnRange { start: Vpn(page), pages: 1 << order }.overlaps(&range)
        });
        if pages >= 512 {
            self.world.reserved.remove(&(asid, first >> 9));
        }
        Step::Change(asid, range)
    }

    /// Pages that are looked up next, the last first: a run with a stride, a loop that comes twice, or any page.
    fn plan(&mut self) {
        let at = self.dice.below(2) * 512 + self.dice.below(24);
        let pc = 0x400 + 4 * self.dice.below(2);
        match self.dice.below(4) {
            0 => {
                let stride = self.dice.pick(&[1, 1, 2, 3, -1, -2]);
                let pages = (0..3 + self.dice.below(8) as i64).map(|i| at as i64 + 40 + i * stride);
                self.plan = pages.rev().map(|page| (page as u64, 0, pc)).collect();
            }
            1 => {
                let pages: Vec<_> = (0..4 + self.dice.below(3)).map(|_| self.page()).collect();
                self.plan = pages.iter().chain(&pages).rev().map(|(page, order)| (*page, *order, pc + 64)).collect();
            }
            _ => {
                let (page, order) = self.page();
                self.plan = vec![(page, order, pc + 128)];
            }
        }
    }

    fn look(&mut self) -> Vec<Step> {
        if self.plan.is_empty() {
            self.plan();
        }
        let (vpn, order, pc) = self.plan.pop().expect("a plan has pages");
        let mut steps = Vec::new();
        if self.world.mapping(self.asid, vpn).is_none() {
            steps.extend(self.fault(vpn, order));
        }
        self.position += 1 + self.dice.below(4);
        let at = Lookup {
            asid: Asid(self.asid),
            vpn: Vpn(vpn),
            kind: self.dice.pick(&[Kind::Fetch, Kind::Load, Kind::Load, Kind::Store]),
        };
        // What could not be mapped whole is looked up another time.
        let Some(pte) = self.world.pte(at.asid, at.vpn) else { return steps };
        let pc = if at.kind == Kind::Fetch { vpn << 12 } else { pc };
        steps.push(Step::Look(Look { at, pte, pc, position: self.position }));
        steps
    }

    /// The next steps; the page table is as after the last of them.
    pub fn next(&mut self) -> Vec<Step> {
        if let Some(Step::Change(_, range)) = self.later.pop() {
            return vec![self.unmap(range.start.0, range.pages)]; // of what was split
        }
        let (vpn, _) = self.page();
        let mapping = self.world.mapping(self.asid, vpn);
        let step = match self.dice.below(100) {
            0..=3 => match mapping {
                Some((first, order, _)) if order > 0 && self.dice.percent(50) => {
                    // A piece of it, after a split.
                    let pages = self.dice.pick(&[1, 8]);
                    let split = self.split(first);
                    if order == 9 && split.is_some() {
                        let range = VpnRange { start: Vpn(vpn & !7), pages };
                        self.later.push(Step::Change(self.asid, range));
                    }
                    split
                }
                Some((first, order, _)) => Some(self.unmap(first, 1 << order)),
                None => {
                    let first = vpn >> 9 << 9;
                    (vpn >> 9 < 3 && self.world.any(self.asid, first, 512)).then(|| self.unmap(first, 512))
                }
            },
            4 => mapping.and_then(|(first, ..)| self.split(first)),
            5 => self.promote(vpn >> 9),
            6..=8 => {
                let to = (self.asid + 1 + self.dice.below(2) as u32) % 3;
                self.asid = to;
                Some(Step::Switch(to))
            }
            9 if self.dice.percent(50) => {
                let gone = self.dice.below(3) as u32;
                self.world.mappings.retain(|key, _| key.0 != gone);
                self.world.reserved.retain(|key, _| key.0 != gone);
                Some(Step::Gone(gone))
            }
            10 => {
                self.new_regions();
                None
            }
            _ => return self.look(),
        };
        step.into_iter().collect()
    }
}
