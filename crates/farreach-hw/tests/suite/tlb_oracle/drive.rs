//! One stream through a design, its twin and the oracle.

use super::*;

/// A design that sees no filtered lookups, as the machine runs it.
pub(super) struct Skipper {
    pub(super) tlb: Box<dyn Tlb>,
    pub(super) filtered: BTreeSet<(Asid, u64, Kind)>,
}

impl Skipper {
    pub(super) fn unfilter(&mut self, unfiltered: &Unfiltered) {
        self.filtered.retain(|&(asid, v, _)| !unfiltered.contains(asid, Vpn(v)));
    }
    pub(super) fn access(&mut self, at: Lookup, pte: Pte, world: &World) {
        if self.filtered.contains(&(at.asid, at.vpn.0, at.kind)) {
            return;
        }
        let mut unfiltered = Unfiltered::default();
        let answer = self.tlb.access(at, pte, world, &mut unfiltered);
        self.unfilter(&unfiltered);
        if answer.filterable {
            self.filtered.insert((at.asid, at.vpn.0, at.kind));
            if at.kind == Kind::Store {
                self.filtered.insert((at.asid, at.vpn.0, Kind::Load));
            }
        }
    }
    pub(super) fn change(&mut self, applied: Change) {
        let mut unfiltered = Unfiltered::default();
        apply_change(self.tlb.as_mut(), applied, &mut unfiltered);
        self.unfilter(&unfiltered);
    }
}
/// Runs one stream; `Err` names the first difference between subject and oracle.
pub(super) fn drive(
    c: &TlbConfig,
    make: &dyn Fn() -> Box<dyn Tlb>,
    dice: &mut Dice,
    step: &Cell<u64>,
) -> Result<TlbCounts, String> {
    let mut world = World::new(c, dice);
    let (mut oracle, mut subject) = (PlainTlb::new(c.clone()), make());
    let mut skipper = Skipper { tlb: make(), filtered: BTreeSet::new() };
    let mut pattern = Pattern::new(&world, c, dice);
    let mut current = None;
    let steps = dice.pick(&[60, 300, 700, 1200]);
    let (changes, phase) = (dice.pick(&[0, 1, 5, 20, 30]), dice.pick(&[20, 100, 400]));
    for i in 0..steps {
        step.set(i);
        if i % phase == phase - 1 {
            pattern = Pattern::new(&world, c, dice);
        }
        let (mut applied, mut next) = (Vec::new(), None);
        if dice.percent(changes) {
            let in_use = pattern.next(dice);
            applied = change(&mut world, dice, in_use);
            // Neighbours of changed pages are checked too.
            let (asid, v) = in_use;
            let region = world.first((v - world.base) >> world.order);
            next = dice.percent(50).then(|| (asid, region + dice.below(1 << world.order)));
        }
        let (asid, v) = next.unwrap_or_else(|| pattern.next(dice));
        if current.is_some_and(|now| now != asid) || dice.percent(1) {
            applied.push(Change::Switch(asid));
        }
        current = Some(asid);
        for &t in &applied {
            apply_change(&mut oracle, t, &mut Unfiltered::default());
            apply_change(subject.as_mut(), t, &mut Unfiltered::default());
            skipper.change(t);
        }
        world.fault(dice, asid, v);
        let pte = world.pte(asid, Vpn(v)).expect("just mapped");
        let at = Lookup { asid, vpn: Vpn(v), kind: kind_for(pte, dice) };
        let before = oracle.views();
        let want = oracle.lookup(at, pte, &world);
        let got = subject.access(at, pte, &world, &mut Unfiltered::default());
        if got.outcome != want {
            return Err(format!(
                "after {applied:?}, then {at:?} {pte:?}: oracle {want:?}, got {:?}\nbefore: {before:#?}",
                got.outcome
            ));
        }
        if got.filterable && dice.percent(20) {
            let (entries, counts) = (subject.entries(), subject.counts().clone());
            let again = subject.access(at, pte, &world, &mut Unfiltered::default());
            if again.outcome != Outcome::Hit || subject.entries() != entries || *subject.counts() != counts {
                return Err(format!("{at:?} was called filtered, but a repetition is {again:?} or changes something"));
            }
        }
        skipper.access(at, pte, &world);
        if dice.percent(10) || i + 1 == steps {
            same(&oracle, subject.as_ref(), "design")?;
            same(&oracle, skipper.tlb.as_ref(), "design that skips filtered lookups")?;
        }
        let w = if dice.percent(50) { v } else { world.base + dice.below(world.pages()) };
        let (mine, its) = (oracle.probe(asid, Vpn(w), at.kind), subject.probe(asid, Vpn(w), at.kind));
        if mine != its {
            return Err(format!("after {applied:?}, then {at:?}: probe of {w:#x}: oracle {mine:?}, got {its:?}"));
        }
        if let Some(t) = mine {
            let pte = world.pte(asid, Vpn(w)).expect("XC-3: the oracle translates a page that is not mapped");
            assert_eq!((t.pfn, t.attr), (pte.pfn, pte.attr), "XC-3: the oracle is wrong");
        }
    }
    check_sums(oracle.counts(), c);
    Ok(oracle.counts().clone())
}

pub(super) fn same(oracle: &PlainTlb, subject: &dyn Tlb, who: &str) -> Result<(), String> {
    let (mine, its) = (oracle.views(), subject.entries());
    if mine != its {
        let first = mine.iter().zip(&its).position(|(a, b)| a != b).unwrap_or(mine.len().min(its.len()));
        let (a, b) = (mine.get(first), its.get(first));
        return Err(format!(
            "{who}: entries differ ({} and {}), first the {first}th: oracle {a:#?}, got {b:#?}",
            mine.len(),
            its.len()
        ));
    }
    let numbers =
        |c: &TlbCounts| serde_json::to_value(TlbCounts { lookups: 0, ..c.clone() }).expect("counts are numbers");
    let (mine, its) = (numbers(oracle.counts()), numbers(subject.counts()));
    let differ: Vec<String> = mine
        .as_object()
        .expect("an object")
        .iter()
        .filter(|(key, n)| its[key.as_str()] != **n)
        .map(|(key, n)| format!("{key}: oracle {n}, got {}", its[key.as_str()]))
        .collect();
    if differ.is_empty() { Ok(()) } else { Err(format!("{who}: counts differ: {}", differ.join("; "))) }
}

/// Properties that hold for every stream.
pub(super) fn check_sums(n: &TlbCounts, c: &TlbConfig) {
    assert_eq!(n.misses, n.fetch_misses + n.data_misses);
    assert_eq!(n.data_misses, n.load_misses + n.store_misses);
    assert_eq!(n.misses, n.tag_misses + n.subblock_misses);
    assert!(n.merges <= n.misses && n.fills >= n.misses && n.fills - n.misses <= n.preloaded);
    assert!(c.preload != Preload::None || n.fills == n.misses && (c.all_valid || n.preloaded == 0));
    assert!(n.preloaded <= n.extra_pte_reads || c.assisted_check, "what was loaded was read");
    // Entries that were begun and dropped.
    assert!(n.evictions + n.covered_drops <= n.fills - n.merges);
    let splits = n.split_unaligned + n.split_frames + n.split_attributes;
    assert!(splits <= n.fills - n.merges);
}

/// One stream of a kind; the error names the stream and the step.
pub(super) fn stream(
    kind: TlbKind,
    seed: u64,
    has: &dyn Fn(&str) -> bool,
    make: &dyn Fn(&TlbConfig) -> Box<dyn Tlb>,
) -> Result<TlbCounts, String> {
    let mut dice = Dice::new(seed);
    let c = sample(kind, &mut dice, has);
    let step = Cell::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| drive(&c, &|| make(&c), &mut dice, &step)));
    let why = match result {
        Ok(Ok(counts)) => return Ok(counts),
        Ok(Err(why)) => why,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_else(|| "panic".into())
        }
    };
    Err(format!("{} seed {seed} step {}: {why}\n{c:?}", name(kind), step.get()))
}
