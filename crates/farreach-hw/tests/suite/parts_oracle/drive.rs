//! One stream through a machine with a part, the machine without it, and the plain model of the part.

use super::*;

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
    /// A lookup is over, answered by a TLB, a part or a walk.
    fn referred(&mut self, _look: &Look) {}
    /// The world has it already.
    fn change(&mut self, asid: u32, pages: VpnRange, split: bool, world: &World);
    /// A lookup ends in a page fault, before the page is mapped (PT-4).
    fn faulting(&mut self, _asid: u32, _vpn: u64) {}
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
        let is_covered = e.asid == page.asid && covered.contains(e.base);
        !(is_covered || now.iter().any(same))
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
    stream.world.restsegs = setting.restsegs.clone();
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
            let near = look.vpn() ^ [1, 8, 512, 1 << 18][(sums.lookups % 4) as usize];
            if stream.world.mapping(look.asid(), near).is_none() {
                with.tlb.faulting(look.at.asid, Vpn(near));
                plain.faulting(look.asid(), near);
            }
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
