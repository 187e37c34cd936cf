//! Shootdowns as in today's systems (OS-SHD-1 to OS-SHD-6, OS-SHD-8 to OS-SHD-10) against the plain model of
//! `farreach-oracle`, in the same random streams of threads, lookups and requests. [`late`] has those with unmaps and
//! ticks.
//!
//! Lookups that are filtered do not reach the design, as in the loop: what drops an entry must end that.

mod late;
mod pair;

use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::shootdowns::{Mechanism, ShootdownConfig};
use farreach_types::addr::Asid;
use farreach_types::event::Kind;
use pair::Pair;
use std::collections::BTreeMap;

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
        latr_records: None,
        latr_tick: 0,
        kpti: false,
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
    let slots = if config.kpti { slots + ",kpti=true" } else { slots };
    let own = match config.mechanism {
        Mechanism::Generations => format!("shootdown=generations,{slots}"),
        Mechanism::Late => {
            let (records, tick) = (config.latr_records.unwrap(), config.latr_tick);
            format!("shootdown=latr,{slots},latr_records={records},latr_tick={tick}")
        }
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
    let mut pair = Pair::new(&keys, config.clone());
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
