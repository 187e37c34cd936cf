//! Hosts of virtual machines (SHD, AGI) beside a walk in two dimensions: every walk, every trap by kind, and the law
//! that their misses are those of a machine without any.
//!
//! The streams are those of all parts, with more pages that are mapped otherwise in their place, or joined.

use super::*;
use farreach_oracle::hosts::{HostConfig, HostKind, Hosts, Mistake, Walked};

type Keys = Vec<(&'static str, String)>;

/// A virtual machine and its model.
struct Guest {
    machine: Machine,
    model: Hosts,
    kind: HostKind,
    nested_walks: u64,
    walks: u64,
}

/// What the machine has of the model's counts.
fn read(machine: &Machine) -> Walked {
    let counts = machine.tlb.counts();
    Walked {
        own: counts.walk.by_level().iter().sum(),
        host: counts.host_walk.references,
        host_walks: counts.host_walk.walks,
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, ours: T, plain: T) -> Result<(), String> {
    if ours == plain { Ok(()) } else { Err(format!("{what}: the machine {ours:?}, the model {plain:?}")) }
}

impl Guest {
    /// `name`: the value of `host`.
    fn new(setting: &Setting, name: &str, keys: Keys, config: HostConfig, fault: Fault) -> Guest {
        let mut setting = setting.clone();
        setting.keys.extend([("guest", "walk".to_owned()), ("host", name.to_owned())]);
        setting.keys.extend(keys);
        let mut machine = Machine::new(&setting, true);
        if config.kind != HostKind::Walk {
            machine.tlb = fault.around(machine.tlb, "host");
        }
        Guest { machine, model: Hosts::new(config), kind: config.kind, nested_walks: 0, walks: 0 }
    }

    fn tell(&mut self, step: &Step, world: &World) {
        self.machine.tell(step, world);
        let model = &mut self.model;
        match *step {
            Step::Look(_) => {}
            Step::Change(asid, pages) => {
                for (first, _) in model.pages(asid, pages.start.0, pages.pages) {
                    match world.mapping(asid, first) {
                        Some(_) => model.alter(asid, first),
                        None => model.unmap(asid, first),
                    }
                }
            }
            Step::Split(asid, pages) => model.split(asid, pages.start.0),
            Step::Mapped(asid, pages) => {
                let order = pages.pages.trailing_zeros() as u8;
                match model.page(asid, pages.start.0) {
                    Some((_, smaller)) => model.join(asid, pages.start.0, smaller),
                    None => model.fault(asid, pages.start.0, order),
                }
            }
            Step::Gone(asid) => model.gone(asid),
            Step::Switch(to) => model.switch(to),
        }
    }

    /// Whether it missed.
    fn look(&mut self, look: &Look, world: &World) -> Result<bool, String> {
        let before = read(&self.machine);
        let missed = !self.machine.look(look, world);
        self.model.at(look.position);
        let walked = self.model.look(look.asid(), look.vpn(), look.at.kind == Kind::Store, missed).unwrap_or_default();
        let now = read(&self.machine);
        let ours = Walked {
            own: now.own - before.own,
            host: now.host - before.host,
            host_walks: now.host_walks - before.host_walks,
        };
        self.walks += u64::from(missed);
        self.nested_walks += u64::from(walked.host_walks > 0);
        same("references of a walk", ours, walked)?;
        self.compare()?;
        Ok(missed)
    }

    fn compare(&self) -> Result<(), String> {
        let parts = &self.machine.tlb.counts().parts;
        if parts.get("host").is_none() {
            return Ok(());
        }
        for (name, count) in self.counts() {
            same(name, parts.count("host", name), count)?;
        }
        Ok(())
    }

    /// The model's, as the machine calls them.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        let traps = &self.model.traps;
        let mut all = vec![
            ("fills", traps.fills),
            ("changes", traps.changes),
            ("faults", traps.faults),
            ("switches", traps.switches),
            ("dirty", traps.first_stores),
        ];
        if !matches!(self.kind, HostKind::Walk | HostKind::Shadow) {
            all.extend([
                ("nested_walks", self.nested_walks),
                ("merged_walks", self.walks - self.nested_walks),
                ("to_nested", traps.went_nested),
                ("to_merged", traps.went_back),
            ]);
        }
        all
    }
}

/// A machine without a host, one that walks, and one that is `shadow` or agile.
fn machines(dice: &mut Dice, shadow: bool, mistake: Option<Mistake>, fault: Fault) -> (Setting, [Guest; 2], bool) {
    let mut setting = Setting::new(dice, "host", Vec::new());
    let (levels, host_levels) = (4 + u8::from(dice.percent(30)), 4 + u8::from(dice.percent(30)));
    let (host_order, page) = dice.pick(&[(0, "4K"), (0, "4K"), (9, "2M"), (18, "1G")]);
    let fracture = dice.percent(60);
    let mut caches = [setting.walk_caches[0], setting.walk_caches[1], setting.walk_caches[2], 0];
    setting.keys.push(("walk_levels", levels.to_string()));
    if levels == 5 && dice.percent(60) {
        caches[3] = 1 + dice.below(2) as usize;
        setting.keys.push(("pwc_pml5", caches[3].to_string()));
    }
    let host_keys: Keys = vec![
        ("host_levels", host_levels.to_string()),
        ("host_page", page.to_owned()),
        ("host_fracture", fracture.to_string()),
    ];
    let epoch = dice.pick(&[1, 5, 20, 60, 1000]);
    let (rule, kind) = dice.pick(&[
        ("written", HostKind::Agile),
        ("written", HostKind::Agile),
        ("written", HostKind::Agile),
        ("never", HostKind::Top(levels)),
        ("always", HostKind::Top(0)),
    ]);
    let walked = dice.percent(40);
    let walks = HostConfig {
        kind: HostKind::Walk,
        levels,
        host_levels,
        host_order,
        fracture,
        caches,
        process_ids: setting.process_ids,
        epoch,
        first_walked: walked || kind == HostKind::Top(0),
        mistake: None,
    };
    let nested = Guest::new(&setting, "walk", host_keys.clone(), walks, Fault::None);
    let (mut keys, kind) = (host_keys, if shadow { HostKind::Shadow } else { kind });
    if !shadow {
        keys.extend([
            ("agile_epoch", epoch.to_string()),
            ("agile_nested", rule.to_owned()),
            ("agile_first", if walked { "walk" } else { "held" }.to_owned()),
        ]);
    }
    let config = HostConfig { kind, mistake, ..walks };
    let ours = Guest::new(&setting, if shadow { "shadow" } else { "agile" }, keys, config, fault);
    (setting, [nested, ours], fracture)
}

/// Some page of a process is mapped otherwise, in its place.
fn reprotect(dice: &mut Dice, world: &mut World) -> Option<Step> {
    let all: Vec<_> = world.mappings.keys().copied().collect();
    let (asid, first) = *all.get(dice.below(1 + all.len() as u64) as usize)?;
    let (_, attr, order) = world.mappings.get_mut(&(asid, first)).expect("just listed");
    *attr ^= Attr::EXEC;
    Some(Step::Change(asid, VpnRange { start: Vpn(first), pages: 1 << *order }))
}

/// Pages that were a superpage, and are there still, become one again.
fn join(world: &mut World, (asid, first): (u32, u64)) -> Option<Step> {
    let pages: Vec<_> = world.mappings.range((asid, first)..(asid, first + 512)).map(|(_, page)| *page).collect();
    let &(pfn, attr, _) = pages.first()?;
    if (0..512).map(|i| (pfn + i, attr, 0)).ne(pages) {
        return None;
    }
    (0..512).for_each(|i| _ = world.mappings.remove(&(asid, first + i)));
    world.map(asid, first, pfn, attr, 9);
    Some(Step::Mapped(asid, VpnRange { start: Vpn(first), pages: 512 }))
}

/// The counts of one stream, or the first difference.
fn stream(
    seed: u64,
    shadow: bool,
    mistake: Option<Mistake>,
    fault: Fault,
) -> Result<BTreeMap<&'static str, u64>, String> {
    let mut dice = Dice::new(seed);
    let (setting, mut guests, fracture) = machines(&mut dice, shadow, mistake, fault);
    let (mut native, kind) = (Machine::new(&setting, true), guests[1].kind);
    let mut stream = Stream::new(seed, setting.giants);
    let mut steps = vec![Step::Switch(0)];
    steps.extend(stream.first());
    // What was split last, and whether the stream has unmapped the piece since for which it may have been.
    let (mut lookups, mut split, mut is_done) = (0, None, false);
    while lookups < setting.lookups {
        for step in std::mem::take(&mut steps) {
            let at = |why: String| format!("seed {seed}, {setting:?}, {kind:?}, {step:?}: {why}");
            if let Step::Split(asid, VpnRange { start, pages: 512 }) = step {
                (split, is_done) = (Some((asid, start.0)), false);
            }
            let Step::Look(look) = step else {
                native.tell(&step, &stream.world);
                guests.iter_mut().for_each(|guest| guest.tell(&step, &stream.world));
                guests[1].compare().map_err(&at)?;
                continue;
            };
            lookups += 1;
            let missed = !native.look(&look, &stream.world);
            let [nested, ours] = guests.each_mut().map(|guest| guest.look(&look, &stream.world));
            let (nested, ours) = (nested.map_err(&at)?, ours.map_err(&at)?);
            same("misses = nested", ours, nested).map_err(&at)?;
            if !fracture {
                same("misses = native", ours, missed).map_err(&at)?;
            }
        }
        steps = match dice.below(100) {
            0..4 => reprotect(&mut dice, &mut stream.world).into_iter().collect(),
            4..16 if is_done => split.take().and_then(|pages| join(&mut stream.world, pages)).into_iter().collect(),
            _ => {
                is_done = true;
                stream.next()
            }
        };
    }
    Ok(guests[1].counts().into_iter().collect())
}

fn all_streams(shadow: bool, enough: &[&str]) {
    let mut sums = BTreeMap::new();
    for seed in seeds(STREAMS) {
        let counts = stream(seed, shadow, None, Fault::None).unwrap_or_else(|why| panic!("{why}"));
        counts.into_iter().for_each(|(name, count)| *sums.entry(name).or_insert(0) += count);
    }
    for name in enough {
        assert!(sums[name] > 500, "{name}: {sums:?}");
    }
}

/// SHD-1, SHD-2.
#[test]
fn shadow_agrees_with_the_plain_model() {
    all_streams(true, &["fills", "changes", "faults", "switches", "dirty"]);
}

/// AGI-1 to AGI-3.
#[test]
fn agile_agrees_with_the_plain_model() {
    all_streams(false, &["fills", "changes", "faults", "switches", "dirty", "nested_walks", "to_nested", "to_merged"]);
}

#[test]
fn every_planted_fault_of_hosts_is_found() {
    let found = |shadow, mistake, fault| {
        let seed = (0..STREAMS).find(|seed| faults::fails(|| stream(*seed, shadow, mistake, fault)));
        assert!(seed.is_some(), "{mistake:?}, {fault:?}: not found");
    };
    for mistake in Mistake::ALL {
        found(false, Some(*mistake), Fault::None);
    }
    for fault in [Fault::MapForgotten, Fault::UnmapForgotten, Fault::EndForgotten, Fault::SwitchForgotten] {
        found(true, None, fault);
        found(false, None, fault);
    }
    found(false, None, Fault::OldPosition);
}
