//! One stream through a machine with a part, the machine without it, and the plain model of the part.

use super::*;

/// Keys of the TLBs: the slots of data, fetch, and second level are counted from the left.
const LEVELS: [[(&str, &str); 3]; 3] = [
    [("l1d", "4K:2+2M:1+1G:1"), ("l1i", "4K:2+2M:1"), ("l2", "4K|2M|1G:4")],
    [("l1d", "4K:4/2+2M:2+1G:1"), ("l1i", "4K:2+2M:1"), ("l2", "4K|2M|1G:16/4")],
    [("l1d", "4K:1+2M:1"), ("l1i", "4K:1"), ("l2", "4K|2M:8/2+1G:1")],
];
/// Slots of the first level, on each side, and of the second.
const SLOTS: [[usize; 3]; 3] = [[4, 3, 4], [7, 3, 16], [2, 1, 9]];

/// A configuration of a machine with a part.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub levels: usize,
    pub process_ids: bool,
    /// Of page-directory, pointer and PML4 entries.
    pub walk_caches: [usize; 3],
    /// Name in the counts, and its keys.
    pub part: &'static str,
    pub keys: Vec<(&'static str, String)>,
    pub lookups: u64,
    /// Whether there are pages of 1 GB.
    pub giants: bool,
}

impl Setting {
    pub fn new(dice: &mut Dice, part: &'static str, keys: Vec<(&'static str, String)>) -> Setting {
        Setting {
            levels: dice.below(3) as usize,
            process_ids: dice.percent(60),
            walk_caches: dice.pick(&[[0, 0, 0], [0, 0, 0], [3, 2, 1], [2, 0, 1], [0, 2, 0]]),
            part,
            keys,
            lookups: 60 + dice.below(120),
            giants: true,
        }
    }

    /// With the part or without.
    fn given(&self, with: bool) -> Map<String, Value> {
        let caches = ["pwc_pd", "pwc_pdpt", "pwc_pml4"].into_iter().zip(self.walk_caches.map(|n| n.to_string()));
        let ids = ("process_ids", self.process_ids.to_string());
        let levels = LEVELS[self.levels].map(|(key, value)| (key, value.to_owned()));
        let lru = ("replacement", "lru".to_owned());
        let own = self.keys.iter().cloned().filter(|_| with);
        let all = levels.into_iter().chain([ids, lru]).chain(caches).chain(own);
        all.map(|(key, value)| (key.to_owned(), Value::from(value))).collect()
    }
}

/// A hierarchy, with its caches where it has some.
pub(super) struct Machine {
    pub tlb: Box<dyn Tlb>,
    caches: Option<Box<Levels>>,
    unfiltered: Unfiltered,
    slots: [usize; 3],
}

impl Machine {
    pub fn new(setting: &Setting, with: bool) -> Machine {
        let (given, design) = (setting.given(with), design("hierarchy").unwrap());
        let params = Params::resolve(&keys_of(design, &given), &given).unwrap_or_else(|e| panic!("{given:?}: {e}"));
        let mut tlb = (design.build)(&params).unwrap_or_else(|e| panic!("{given:?}: {e}"));
        let caches = tlb.port().map(|_| Box::new(Levels::new(&params).unwrap()));
        Machine { tlb, caches, unfiltered: Unfiltered::default(), slots: SLOTS[setting.levels] }
    }

    fn exchange(&mut self) {
        if let Some(caches) = &mut self.caches {
            self.tlb.port().unwrap().exchange(caches);
        }
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut dyn Tlb, &mut Unfiltered) -> R) -> R {
        self.exchange();
        let result = act(&mut *self.tlb, &mut self.unfiltered);
        self.tlb.lost_lines();
        self.exchange();
        self.unfiltered.clear();
        result
    }

    /// Whether the TLBs or the part answered.
    fn look(&mut self, look: &Look, world: &World) -> bool {
        self.tlb.latest_fetch(look.pc);
        self.tlb.position(look.position);
        let answer = self.with(|tlb, unfiltered| tlb.access(look.at, look.pte, world, unfiltered));
        if let Some(caches) = &mut self.caches {
            caches.reference(usize::from(!look.fetch()), data_line(look), false);
            self.with(|_, _| ());
        }
        answer.outcome == Outcome::Hit
    }

    fn tell(&mut self, step: &Step, world: &World) {
        self.with(|tlb, unfiltered| match *step {
            Step::Look(_) => {}
            Step::Change(asid, pages) => {
                tlb.invalidate(Asid(asid), pages, unfiltered);
                tlb.unmapped(Asid(asid), pages, world);
            }
            Step::Split(asid, pages) => {
                tlb.demote(Asid(asid), pages, unfiltered);
                tlb.mapped(Asid(asid), pages, world);
            }
            Step::Mapped(asid, pages) => tlb.mapped(Asid(asid), pages, world),
            Step::Gone(asid) => tlb.invalidate_space(Asid(asid), unfiltered),
            Step::Switch(to) => tlb.switch(Asid(to), unfiltered),
        });
    }

    pub fn levels(&self) -> Vec<EntryView> {
        self.tlb.entries_in(0..self.slots.iter().sum())
    }

    fn second(&self) -> Vec<EntryView> {
        let first = self.slots[0] + self.slots[1];
        self.tlb.entries_in(first..first + self.slots[2])
    }

    /// Entries of the part.
    fn behind(&self) -> Vec<(u32, u64, u8, u64)> {
        let all = self.tlb.entries_in(self.slots.iter().sum()..usize::MAX);
        all.iter().map(|e| (e.asid.0, e.base.0, e.order, e.pages[0].1.pfn.0)).collect()
    }

    /// Whether the first level of a side, or the second level, holds the page.
    pub fn holds(&self, level: usize, asid: u32, vpn: u64) -> bool {
        let first: usize = self.slots[..level].iter().sum();
        let views = self.tlb.entries_in(first..first + self.slots[level]);
        views.iter().any(|e| e.asid.0 == asid && vpn.wrapping_sub(e.base.0) < 1 << e.order)
    }
}

/// The line of data that a lookup's instruction reads or is.
pub(super) fn data_line(look: &Look) -> u64 {
    look.pte.pfn.0 << 6 | look.vpn() % 64
}

/// A miss of the last level, as the machine without the part has it.
pub(super) struct Miss<'a> {
    pub look: Look,
    pub world: &'a World,
    /// After the lookup.
    pub base: &'a Machine,
    /// What the second level evicted: process, first page, order.
    pub victim: Option<(u32, u64, u8)>,
}

/// References that a part made: steps waited for, references of these, background, hidden steps of walks.
pub(super) type References = [u64; 4];

/// The plain model of a part, as a machine.
pub(super) trait Plain {
    /// Whether the part answers; then all that follows from the miss.
    fn miss(&mut self, miss: &Miss) -> bool;
    /// A lookup is over, whatever answered it.
    fn referred(&mut self, _look: &Look) {}
    /// The world has it already.
    fn change(&mut self, asid: u32, pages: VpnRange, split: bool, world: &World);
    /// Pages were mapped that were not, or not in this size.
    fn mapped(&mut self, _asid: u32, _pages: VpnRange, _world: &World) {}
    fn gone(&mut self, asid: u32);
    fn switch(&mut self, to: u32);
    fn counts(&self) -> BTreeMap<&'static str, u64>;
    fn references(&self) -> References;
    /// Nodes of demand walks.
    fn nodes(&self) -> u64;
    /// The entries of the part, in any order: process, first page, order, frame.
    fn held(&self) -> Option<Vec<(u32, u64, u8, u64)>> {
        None
    }
}

fn victim(before: &[EntryView], base: &Machine, evictions: u64, look: &Look) -> Option<(u32, u64, u8)> {
    if base.tlb.counts().evictions == evictions {
        return None;
    }
    let now = base.second();
    let own =
        |e: &EntryView| e.asid == look.at.asid && VpnRange { start: e.base, pages: 1 << e.order }.contains(look.at.vpn);
    let page = now.iter().find(|e| own(e)).expect("it was filled");
    let covered = VpnRange { start: page.base, pages: 1 << page.order };
    let left = |e: &&EntryView| {
        let same = |x: &EntryView| (x.asid, x.base, x.order) == (e.asid, e.base, e.order);
        !now.iter().any(same) && !(e.asid == page.asid && covered.contains(e.base))
    };
    let mut all = before.iter().filter(left);
    let victim = all.next().expect("something was evicted");
    assert!(all.next().is_none(), "one victim");
    Some((victim.asid.0, victim.base.0, victim.order))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, ours: T, plain: T) -> Result<(), String> {
    if ours == plain { Ok(()) } else { Err(format!("{what}: the machine {ours:?}, the model {plain:?}")) }
}

/// Compares everything. `with` is the machine with the part.
fn compare(setting: &Setting, with: &Machine, base: &Machine, plain: &dyn Plain) -> Result<(), String> {
    same("HW-3, TLBs", with.levels(), base.levels())?;
    let counts = with.tlb.counts();
    let part = counts.parts.get(setting.part).ok_or("no such part")?;
    for (name, count) in plain.counts() {
        same(name, part.counters.get(name), count)?;
    }
    let (made, hidden) = (&part.memory.made, part.memory.hidden_references);
    let ours = [made.steps, made.references, made.background_references, hidden];
    same("references", ours, plain.references())?;
    same("nodes of demand walks", counts.walk.by_level().iter().sum(), plain.nodes())?;
    same("walks", counts.walk.walks, counts.misses)?;
    if let Some(mut held) = plain.held() {
        let mut ours = with.behind();
        ours.sort_unstable();
        held.sort_unstable();
        same("entries", ours, held)?;
    }
    Ok(())
}

/// The first difference between machine and model on the stream of this seed. `fault`: what is wrong with one of them.
pub(super) fn stream(seed: u64, setting: &Setting, plain: &mut dyn Plain, fault: Fault) -> Result<Sums, String> {
    let mut stream = Stream::new(seed, setting.giants);
    let (mut base, mut with) = (Machine::new(setting, false), Machine::new(setting, true));
    with.tlb = fault.around(with.tlb, setting.part);
    let mut sums = Sums::default();
    let mut steps = stream.first();
    while sums.lookups < setting.lookups {
        for step in std::mem::take(&mut steps) {
            let at = |why: String| format!("seed {seed}, {setting:?}, {step:?}: {why}");
            let Step::Look(look) = step else {
                base.tell(&step, &stream.world);
                with.tell(&step, &stream.world);
                fault.tell(&step, plain, &stream.world);
                continue;
            };
            sums.lookups += 1;
            let (before, evictions) = (base.second(), base.tlb.counts().evictions);
            let missed = !base.look(&look, &stream.world);
            let answered = with.look(&look, &stream.world);
            if missed {
                let victim = victim(&before, &base, evictions, &look);
                let by_part = plain.miss(&fault.miss(Miss { look, world: &stream.world, base: &base, victim }));
                sums.misses += 1;
                sums.answers += u64::from(by_part);
                same("the part answers", answered, by_part).map_err(at)?;
            } else {
                same("a TLB answers", answered, true).map_err(at)?;
            }
            plain.referred(&look);
            let truth = Some(Translation { pfn: look.pte.pfn, attr: look.pte.attr });
            same("XC-3", with.tlb.probe(look.at.asid, look.at.vpn, look.at.kind), truth).map_err(at)?;
            if sums.lookups % 8 == 0 || sums.lookups == setting.lookups {
                compare(setting, &with, &base, plain).map_err(at)?;
            }
        }
        steps = stream.next();
    }
    for (name, count) in plain.counts() {
        *sums.counts.entry(name).or_default() += count;
    }
    Ok(sums)
}

/// What streams did together, so that a test can say that enough happened.
#[derive(Default, Debug)]
pub(super) struct Sums {
    pub lookups: u64,
    pub misses: u64,
    pub answers: u64,
    pub counts: BTreeMap<&'static str, u64>,
}

/// All streams of a part: `make` gives the setting of a seed and its model.
pub(super) fn all(make: impl Fn(&mut Dice) -> (Setting, Box<dyn Plain>)) -> Sums {
    let mut sums = Sums::default();
    for seed in seeds(STREAMS) {
        let (setting, mut plain) = make(&mut Dice::new(seed));
        let one = stream(seed, &setting, &mut *plain, Fault::None).unwrap_or_else(|why| panic!("{why}"));
        sums.lookups += one.lookups;
        sums.misses += one.misses;
        sums.answers += one.answers;
        one.counts.into_iter().for_each(|(name, count)| *sums.counts.entry(name).or_default() += count);
    }
    sums
}
