//! Shootdowns as in today's systems (OS-SHD-1 to OS-SHD-4, OS-SHD-6, OS-SHD-8, OS-SHD-9) against the plain model of
//! `farreach-oracle`, in the same random streams of threads, lookups and requests.
//!
//! Lookups that are filtered do not reach the design, as in the loop: what drops an entry must end that.

use farreach_hw::tlb::{FlushRequest, Lookup, Outcome, Tlb, Unfiltered};
use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::driver::{Table, tlb};
use farreach_oracle::shootdowns::{Mechanism, Request, ShootdownConfig, Shootdowns};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte};
use std::collections::{BTreeMap, BTreeSet};

/// Pages of 4 KB from 0 on, and from `LARGE` on regions of 64 KB, which are one page or sixteen.
const PAGES: u64 = 48;
const LARGE: u64 = 64;
const REGIONS: u64 = 12;
const PROCESSES: u32 = 5;

fn config(dice: &mut Dice) -> ShootdownConfig {
    let cores = dice.pick(&[1, 2, 3, 3, 4]);
    ShootdownConfig {
        mechanism: dice.pick(&[Mechanism::Generations, Mechanism::Broadcast, Mechanism::GlobalIds]),
        cores,
        pcid_slots: dice.pick(&[1, 2, 3, 4, 6]),
        flush_ceiling: dice.pick(&[0, 1, 3, 9, 33]),
        idle: dice.percent(50),
        space_ids: dice.pick(&[cores + 1, cores + 2, 65_536]),
        broadcast_most: dice.pick(&[1, 4, 20, 512]),
        broadcast_ranges: dice.percent(30),
        broadcast_pages: dice.pick(&[1, 2, 8]),
        global_id_cores: dice.pick(&[1, 2, 3]),
        shd_consider: dice.pick(&[1, 2, 5]),
    }
}

/// The keys of these choices. `ids`: whether one slot is said by `process_ids = false`.
fn keys(config: &ShootdownConfig, ids: bool) -> String {
    let ShootdownConfig { cores, pcid_slots, flush_ceiling, idle, space_ids, .. } = config;
    let ShootdownConfig { broadcast_most, broadcast_ranges, broadcast_pages, global_id_cores, shd_consider, .. } =
        config;
    let other = if *idle { "idle" } else { "busy" };
    let slots = if ids { format!("pcid_slots={pcid_slots}") } else { "process_ids=false".into() };
    let slots = format!("{slots},flush_ceiling={flush_ceiling},other_cores={other}");
    let own = match config.mechanism {
        Mechanism::Generations => format!("shootdown=generations,{slots}"),
        Mechanism::Broadcast => format!(
            "shootdown=broadcast,space_ids={space_ids},broadcast_most={broadcast_most},\
             broadcast_ranges={broadcast_ranges}"
        ),
        Mechanism::GlobalIds => format!(
            "shootdown=global_ids,{slots},broadcast_pages={broadcast_pages},global_id_cores={global_id_cores},\
             shd_consider={shd_consider}"
        ),
    };
    format!("l1d=4K|64K:4096,l1i=4K|64K:4096,l2=4K|64K:4096,cores={cores},{own}")
}

struct Pair {
    design: Box<dyn Tlb>,
    plain: Shootdowns,
    table: Table,
    frame: u64,
    unfiltered: Unfiltered,
    filter: BTreeSet<(u32, u64, bool)>,
}

impl Pair {
    /// Tells the design, and takes its report over into the filter.
    fn tell(&mut self, act: impl FnOnce(&mut dyn Tlb, &mut Unfiltered)) {
        let Pair { design, filter, unfiltered, .. } = self;
        act(&mut **design, unfiltered);
        filter.retain(|&(asid, vpn, _)| !unfiltered.contains(Asid(asid), Vpn(vpn)));
        unfiltered.clear();
    }

    fn map(&mut self, asid: u32, first: u64, pages: u64, order: u8) {
        self.frame += 16;
        for page in 0..pages {
            let pte = Pte { pfn: Pfn(self.frame + page), attr: Attr(7), order };
            self.table.0.insert((Asid(asid), Vpn(first + page)), pte);
        }
    }

    fn order(&self, asid: u32, vpn: u64) -> u8 {
        self.table.0[&(Asid(asid), Vpn(vpn))].order
    }

    fn start(&mut self, dice: &mut Dice, asid: u32) {
        (0..PAGES).for_each(|page| self.map(asid, page, 1, 0));
        (0..REGIONS).for_each(|region| self.map(asid, LARGE + 16 * region, 16, dice.pick(&[0, 4])));
    }

    fn switch(&mut self, asid: u32, thread: u32) {
        self.tell(|tlb, report| tlb.switch(Asid(asid), report));
        self.plain.switch(asid);
        self.tell(|tlb, report| tlb.thread(Asid(asid), thread, report));
        self.plain.thread(asid, thread);
    }

    fn look(&mut self, asid: u32, vpn: u64, kind: Kind) {
        let at = Lookup { asid: Asid(asid), vpn: Vpn(vpn), kind };
        let pte = self.table.pte(at.asid, at.vpn).unwrap();
        let expected = self.plain.lookup(asid, vpn >> pte.order << pte.order, pte.order);
        if self.filter.contains(&(asid, vpn, kind == Kind::Fetch)) {
            assert!(expected, "{at:?} was filtered");
            return;
        }
        self.plain.looked_up();
        let Pair { design, table, unfiltered, .. } = self;
        let answer = design.access(at, pte, table, unfiltered);
        self.tell(|_, _| {});
        assert_eq!(answer.outcome == Outcome::Hit, expected, "{at:?}");
        if answer.filterable {
            self.filter.insert((asid, vpn, kind == Kind::Fetch));
        }
    }

    /// Changes these pages in one request, or unannounced. With `splits`, they are one
    /// superpage.
    fn change(&mut self, request: Request, parts: &[(u64, u64)], announces: bool, splits: bool) {
        let Request { asid, first, pages, order, tables } = request;
        if announces {
            let pages = VpnRange { start: Vpn(first), pages };
            self.design.requested(FlushRequest { asid: Asid(asid), pages, order, tables, unmapped: false });
            self.plain.request(request);
        }
        for &(first, pages) in parts {
            let range = VpnRange { start: Vpn(first), pages };
            self.tell(|tlb, report| match splits {
                true => tlb.demote(Asid(asid), range, report),
                false => tlb.invalidate(Asid(asid), range, report),
            });
            self.plain.change(asid, first, pages);
        }
    }

    /// Some pages, or some regions, in up to three pieces.
    fn changes(&mut self, dice: &mut Dice, asid: u32) {
        let (unit, from, most) = if dice.percent(50) { (1, 0, PAGES) } else { (16, LARGE, REGIONS) };
        let mut parts = Vec::new();
        let mut at = dice.below(most);
        while at < most && parts.len() < 3 {
            let largest = if dice.percent(70) { 3 } else { most };
            let units = (1 + dice.below(largest)).min(most - at);
            parts.push((from + unit * at, unit * units));
            at += units + 1 + dice.below(4);
        }
        let (first, last) = (parts[0].0, parts[parts.len() - 1]);
        let mut changed = parts.iter().flat_map(|&(first, pages)| first..first + pages);
        let order = if changed.all(|vpn| self.order(asid, vpn) == 4) { 4 } else { 0 };
        let (announces, tables) = (dice.percent(80), dice.percent(30));
        for &(first, pages) in &parts {
            for piece in (first..first + pages).step_by(unit as usize) {
                self.map(asid, piece, unit, if unit == 16 { dice.pick(&[0, 4]) } else { 0 });
            }
        }
        let request = Request { asid, first, pages: last.0 + last.1 - first, order, tables };
        self.change(request, &parts, announces, false);
    }

    fn splits(&mut self, dice: &mut Dice, asid: u32) {
        let first = LARGE + 16 * dice.below(REGIONS);
        if self.order(asid, first) == 4 {
            let frame = self.table.0[&(Asid(asid), Vpn(first))].pfn;
            self.map(asid, first, 16, 0);
            (0..16).for_each(|i| {
                self.table.0.get_mut(&(Asid(asid), Vpn(first + i))).unwrap().pfn = Pfn(frame.0 + i);
            });
            let request = Request { asid, first, pages: 16, order: dice.pick(&[0, 4]), tables: false };
            self.change(request, &[(first, 16)], dice.percent(80), true);
        }
    }

    fn compare(&self, place: &str) {
        let counts = self.design.counts();
        let mut found: BTreeMap<_, _> =
            self.plain.counts.keys().map(|name| (*name, counts.parts.count("shootdown", name))).collect();
        found.insert("ipis", counts.shootdown.ipis);
        assert_eq!(found, self.plain.counts, "left: the design; {place}");
    }

    fn compare_entries(&self, cores: usize, place: &str) {
        let mut found = vec![BTreeSet::new(); cores];
        for view in self.design.entries() {
            let core = view.slot >> 20;
            if self.plain.may_use(core, view.asid.0) {
                found[core].insert((view.asid.0, view.base.0, view.order));
            }
        }
        let expected: Vec<_> = (0..cores).map(|core| self.plain.entries(core)).collect();
        assert_eq!(found, expected, "left: the design; {place}");
    }
}

/// Returns what the model counted.
fn drive(seed: u64) -> BTreeMap<&'static str, u64> {
    let mut dice = Dice::new(seed);
    let mut config = config(&mut dice);
    // Ids of all cores mean nothing where TLBs have none.
    let ids = dice.percent(80) || config.mechanism != Mechanism::Generations;
    if !ids {
        config.pcid_slots = 1;
    }
    let keys = keys(&config, ids);
    let mut pair = Pair {
        design: tlb("hierarchy", &keys),
        plain: Shootdowns::new(config.clone()),
        table: Table::default(),
        frame: 1 << 20,
        unfiltered: Unfiltered::default(),
        filter: BTreeSet::new(),
    };
    (0..PROCESSES).for_each(|asid| pair.start(&mut dice, asid));
    let mut asid = 0;
    let mut enters = true;
    for step in 0..400 {
        let place = format!("step {step}, seed {seed}: {keys}");
        let of = if dice.percent(60) { asid } else { dice.below(PROCESSES.into()) as u32 };
        let what = if enters { 0 } else { dice.below(100) };
        let name = match what {
            0..25 => {
                asid = if enters || dice.percent(70) { dice.below(PROCESSES.into()) as u32 } else { asid };
                let thread = 1 + dice.below(4) as u32;
                enters = false;
                pair.switch(asid, thread);
                format!("switch to {asid}, thread {thread}")
            }
            25..60 => {
                for _ in 0..12 {
                    let vpn = if dice.percent(50) { dice.below(PAGES) } else { LARGE + dice.below(16 * REGIONS) };
                    pair.look(asid, vpn, dice.pick(&[Kind::Fetch, Kind::Load, Kind::Store]));
                }
                format!("lookups of {asid}")
            }
            60..90 => {
                pair.changes(&mut dice, of);
                format!("changes of {of}")
            }
            90..97 => {
                pair.splits(&mut dice, of);
                format!("a split of {of}")
            }
            _ => {
                pair.tell(|tlb, report| tlb.invalidate_space(Asid(of), report));
                pair.plain.end(of);
                pair.start(&mut dice, of);
                enters = of == asid;
                format!("end of {of}")
            }
        };
        let place = format!("{name}, {place}");
        pair.compare(&place);
        pair.compare_entries(config.cores, &place);
    }
    pair.plain.counts
}

#[test]
fn os_shd_1_to_os_shd_9_and_a_plain_model() {
    let mut sum: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, n) in seeds(120).flat_map(drive) {
        *sum.entry(name).or_default() += n;
    }
    assert!(sum.values().all(|n| *n > 100), "{sum:?}");
}
