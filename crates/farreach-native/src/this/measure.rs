//! The TLBs of this processor by measurement, against its description.

use super::sweep::{Kind, Plan, curve};
use crate::Say;
use farreach_cost::knees::{Step, steps};
use farreach_live::chase::{Backing, Ground, stay, ticks, ticks_per_cycle};
use farreach_live::room::room;
use farreach_live::system::System;
use farreach_machine::MachineSpec;
use farreach_machine::this::{Price, Prices};
use farreach_report::format::bytes;
use farreach_types::addr::Bytes;
use farreach_types::counts::{TLBS_SCHEMA, TlbCurve, TlbKnee, TlbMeasurement, TlbPrice};
use farreach_types::{Context, Result, bail, ensure};
use std::time::{Duration, Instant};

const K4: usize = 4 << 10;
const M2: usize = 2 << 20;
const G1: usize = 1 << 30;
/// Pages of 4 KB that a chain goes through at most: a gigabyte.
const MOST_BASE: usize = 1 << 18;
/// The stride at which no two pages lie in one aligned group that a processor coalesces; odd, so that all sets are
/// used.
const APART: usize = 9;
/// Memory for chains of lines close together.
const NEAR: usize = 128 << 20;
/// The same where it is in base pages: 64 of them, which every first level has.
const NEAR_BASE: usize = 64 * K4;
/// Least memory for chains over pages.
const LEAST: usize = 64 << 20;
/// The share of a curve's memory that must be in huge pages.
const HELD: f64 = 0.95;
/// The name of prices in the result.
const SECOND_LEVEL: &str = "second-level hit";
const WALK: &str = "walk";
/// Pages behind the last knee from which on a load walks every time, times those at the knee.
const WALKS_FROM: f64 = 2.0;

/// Lines are in the first cache while a load takes up to this times what it takes on one line.
const FIRST_CACHE: f64 = 1.25;

/// What the user chose.
pub struct Options {
    /// Repetitions of each point.
    pub repetitions: u64,
    /// Of the order of pages.
    pub seed: u64,
    /// Most bytes of memory; `None`: a quarter of what is available, up to 8 GB.
    pub memory: Option<u64>,
}

/// Measures. It takes some minutes of one processor; `say` gets a line before each curve.
///
/// # Errors
/// There is not enough memory.
pub fn measure(options: &Options, say: Say) -> Result<TlbMeasurement> {
    let system = System::here();
    let available = system.available_bytes.unwrap_or(4 << 30);
    let budget = options.memory.unwrap_or((available / 4).min(8 << 30)) as usize;
    if options.memory.is_some() {
        ensure!(budget >= LEAST, "--memory {}: {} or more is needed", Bytes(budget as u64), Bytes(LEAST as u64));
    }
    // Beside the chains over pages there are those that are subtracted, page tables, and orders of pages.
    let needed = budget.max(LEAST) as u64 / 16 * 17 + NEAR as u64;
    if needed > available {
        let room = room().map_or_else(|| format!("{} are left", bytes(available)), |room| room.to_string());
        bail!(
            "--measure needs {} (--memory {}, at least {}, and {} besides); {room}",
            bytes(needed),
            Bytes(budget as u64),
            Bytes(LEAST as u64),
            bytes(needed - budget.max(LEAST) as u64)
        );
    }
    let budget = budget.max(LEAST);
    // Before CPUID is read: the cores of a processor may differ.
    let stays = stay();
    let spec = super::parse(super::NAME, 0)?;
    let mut found = TlbMeasurement {
        schema: TLBS_SCHEMA.into(),
        processor: spec.about.clone(),
        hypervisor: system.hypervisor.clone(),
        repetitions: options.repetitions,
        seed: options.seed,
        ..TlbMeasurement::default()
    };
    if let Err(why) = stays {
        found.missing.push(format!("one processor alone: this thread could not be pinned: {why}"));
    }
    let (mut near, near_bytes) = near(&mut found.missing)?;
    let plan = Plan { repetitions: options.repetitions, seed: options.seed };
    let mut clock = 0.0;
    for kind in kinds(&system, budget, &mut found.missing) {
        let stride = if kind.stride == 1 { "side by side".to_owned() } else { format!("every {}th", kind.stride) };
        say(format!("loads over pages of {}, {stride} ...", Bytes(kind.page_size as u64)));
        match curve(kind, &mut near, near_bytes, plan) {
            Ok((curve, ticks)) => {
                found.curves.push(curve);
                clock = ticks;
            }
            Err(why) => found.missing.push(format!("{} pages: {why}", Bytes(kind.page_size as u64))),
        }
    }
    found.gigahertz = ticks_per_nanosecond() / clock;
    analyse(&mut found, &spec);
    Ok(found)
}

/// Memory for the chains that are subtracted, in huge pages if there are some.
fn near(missing: &mut Vec<String>) -> Result<(Ground, usize)> {
    if let Ok(mut ground) = Ground::new(Backing::Transparent, NEAR) {
        let touched: Vec<usize> = (0..NEAR / K4).map(|page| page * K4).collect();
        ground.chain(&touched);
        if ground.huge_share().is_ok_and(|share| share >= HELD) {
            return Ok((ground, NEAR));
        }
    }
    missing.push("caches beyond 4096 pages: no transparent huge pages for the chains that are subtracted".into());
    Ok((Ground::new(Backing::Base, NEAR_BASE).context("memory")?, NEAR_BASE))
}

/// The curves that this machine can give.
fn kinds(system: &System, budget: usize, missing: &mut Vec<String>) -> Vec<Kind> {
    let base = (budget / K4).min(MOST_BASE);
    let kind = |backing, page_size, stride, most| Kind { backing, page_size, stride, most };
    let mut all = vec![kind(Backing::Base, K4, 1, base), kind(Backing::Base, K4, APART, base)];
    let mut probe = Ground::new(Backing::Transparent, 16 * M2);
    let held = probe.as_mut().ok().and_then(|ground| {
        ground.chain(&(0..16).map(|page| page * M2).collect::<Vec<_>>());
        ground.huge_share().ok()
    });
    match held {
        Some(share) if share >= HELD => all.push(kind(Backing::Transparent, M2, 1, budget / M2)),
        _ => missing.push(
            "2M pages: the kernel gives no huge pages, or does not say so (`farreach doctor huge-pages pagemap-scan`)"
                .into(),
        ),
    }
    let pool = system.hugetlb.iter().find(|pool| pool.bytes == G1 as u64);
    match pool.map_or(0, |pool| pool.free.saturating_sub(pool.reserved)) {
        0 => missing.push("1G pages: none is free in the pool (/sys/kernel/mm/hugepages/hugepages-1048576kB)".into()),
        free => all.push(kind(Backing::Gigabyte, G1, 1, free as usize)),
    }
    all
}

/// Cycles of the core in a nanosecond.
pub fn gigahertz() -> f64 {
    ticks_per_nanosecond() / ticks_per_cycle()
}

/// Ticks of the clock of chases in a nanosecond.
pub fn ticks_per_nanosecond() -> f64 {
    let (began, first) = (Instant::now(), ticks());
    std::thread::sleep(Duration::from_millis(50));
    ticks().wrapping_sub(first) as f64 / began.elapsed().as_nanos() as f64
}

/// Finds knees and prices. Where there are several curves of a page size, prices are from the pages farthest apart,
/// which no processor coalesces.
fn analyse(found: &mut TlbMeasurement, spec: &MachineSpec) {
    let mut curves: Vec<&TlbCurve> = found.curves.iter().collect();
    for curve in &curves {
        for (step, level) in steps(&curve.points, 2).iter().zip([1u8, 2]) {
            let [entries, next, half] = [step.last, step.last + 1, step.half].map(|i| curve.points[i].pages);
            let key = if level == 1 { "l1d" } else { "l2" };
            let described = described(&spec.params.texts(key), curve.page_size);
            let (page_size, stride_pages) = (curve.page_size, curve.stride_pages);
            found.knees.push(TlbKnee { page_size, stride_pages, level, entries, next, half, described });
        }
    }
    curves.sort_by_key(|curve| std::cmp::Reverse(curve.stride_pages));
    for curve in curves {
        let [first, second] = steps(&curve.points, 2)[..] else { continue };
        for price in second_level(curve, first, second).into_iter().chain(walk(curve, second)) {
            if !found.prices.iter().any(|p| (&p.event, p.page_size) == (&price.event, price.page_size)) {
                found.prices.push(price);
            }
        }
    }
    found.prices.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
}

fn price(event: &str, curve: &TlbCurve, cycles: impl Iterator<Item = (u64, f64)>) -> Option<TlbPrice> {
    let all: Vec<(u64, f64)> = cycles.collect();
    let mut values: Vec<f64> = all.iter().map(|p| p.1).collect();
    values.sort_by(f64::total_cmp);
    Some(TlbPrice {
        event: event.into(),
        page_size: curve.page_size,
        cycles: *values.get(values.len() / 2)?,
        low: values[0],
        high: values[values.len() - 1],
        pages: [all[0].0, all[all.len() - 1].0],
    })
}

/// Points between the knees where the first level answers nothing and the second all; of those, the ones whose lines
/// are in the first cache: in the next one, the search of the TLB overlaps with that of the cache.
fn second_level(curve: &TlbCurve, first: Step, second: Step) -> Option<TlbPrice> {
    let [from, to] = [first, second].map(|step| curve.points[step.last].pages);
    let cached = FIRST_CACHE * (curve.points[0].load_cycles - curve.points[0].cycles);
    let between = curve.points.iter().filter(|p| p.pages >= from * 3 / 2 && p.pages <= to * 3 / 4);
    let between = between.filter(|p| p.load_cycles - p.cycles <= cached);
    price(SECOND_LEVEL, curve, between.map(|p| (p.pages, p.cycles - first.below)))
}

/// Points far behind the last knee: with each octave a part of the page table leaves a cache.
fn walk(curve: &TlbCurve, last: Step) -> Option<TlbPrice> {
    let from = curve.points[last.last].pages as f64 * WALKS_FROM;
    price(WALK, curve, curve.points.iter().filter(|p| p.pages as f64 >= from).map(|p| (p.pages, p.cycles)))
}

/// Entries for a page size in a level of a description.
pub fn described(arrays: &[String], page_size: u64) -> Option<u64> {
    let parts = arrays.iter().filter_map(|array| array.split_once(':'));
    parts
        .filter(|(sizes, _)| sizes.split('|').any(|s| s.parse::<Bytes>().is_ok_and(|b| b.0 == page_size)))
        .find_map(|(_, shape)| shape.split('/').next()?.parse().ok())
}

/// The prices of the description, from those measured with 4 KB pages.
pub fn prices(found: &TlbMeasurement, spec: &MachineSpec) -> Prices {
    let of = |event: &str| found.prices.iter().find(|p| p.event == event && p.page_size == K4 as u64);
    let source = |p: &TlbPrice, what: &str| {
        format!(
            "Measured here ({} to {} pages of 4 KB, {} repetitions): {what}, {:.1} cycles; from {:.1} to {:.1} over \
             those points",
            p.pages[0], p.pages[1], found.repetitions, p.cycles, p.low, p.high
        )
    };
    let second_level = of(SECOND_LEVEL).map(|p| Price {
        cycles: p.cycles,
        source: source(p, "a load that only the second level answers") + ". For fetches the same is assumed",
    });
    let nested = if found.hypervisor.is_some() { ", the host's page tables included" } else { "" };
    let walk_reference = of(WALK).map(|p| {
        let pages = (p.pages[0] as f64 * p.pages[1] as f64).sqrt();
        let nodes = nodes(pages * APART as f64 * K4 as f64 / M2 as f64, spec.params.int("pwc_pd") as f64);
        Price {
            cycles: p.cycles / nodes,
            source: source(p, &format!("a walk{nested}"))
                + &format!(". This machine reads {nodes:.2} nodes of the page table in such a walk"),
        }
    });
    Prices { second_level, walk_reference }
}

/// Nodes of the page table that a walk reads when it goes to `directories` entries of page directories at random, of
/// which LRU keeps `cached`. Entries above are always cached.
fn nodes(directories: f64, cached: f64) -> f64 {
    if directories <= cached { 1.0 } else { 2.0 - cached / directories }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::counts::TlbPoint;

    /// 64 and 2048 entries, 7 and 30 cycles.
    fn planted(page_size: usize, stride_pages: u64, most: u64) -> TlbCurve {
        let cycles = |n: u64| {
            if n <= 64 {
                0.0
            } else if n <= 2048 {
                7.0
            } else {
                30.0
            }
        };
        let octaves = (0..18).flat_map(|power| (0..8).map(move |part| (1u64 << power) + (part << power) / 8));
        let mut pages: Vec<u64> = octaves.filter(|n| *n <= most).collect();
        pages.dedup();
        let point =
            |n| TlbPoint { pages: n, cycles: cycles(n), low: cycles(n), high: cycles(n), load_cycles: cycles(n) + 4.0 };
        TlbCurve { page_size: page_size as u64, stride_pages, points: pages.into_iter().map(point).collect() }
    }

    #[test]
    fn what_was_planted_is_found() {
        let spec = MachineSpec::parse("today/zen3", 0).unwrap();
        let mut found = TlbMeasurement {
            curves: vec![planted(K4, 1, 1 << 17), planted(K4, APART as u64, 1 << 17), planted(M2, 1, 512)],
            repetitions: 7,
            ..TlbMeasurement::default()
        };
        analyse(&mut found, &spec);
        let knees: Vec<_> =
            found.knees.iter().map(|k| (k.page_size as usize, k.level, k.entries, k.described)).collect();
        let expected = [(K4, 1, 64, Some(64)), (K4, 2, 2048, Some(2048))];
        assert_eq!(knees, [&expected[..], &expected, &[(M2, 1, 64, Some(64))]].concat());
        let names: Vec<&str> = found.prices.iter().map(|p| p.event.as_str()).collect();
        assert_eq!(names, [SECOND_LEVEL, WALK]);
        let prices = prices(&found, &spec);
        assert_eq!(prices.second_level.unwrap().cycles, 7.0);
        assert!((10.0..=30.0).contains(&prices.walk_reference.unwrap().cycles));
    }

    #[test]
    fn nodes_of_a_walk() {
        assert_eq!((nodes(100.0, 1024.0), nodes(2048.0, 1024.0), nodes(64.0, 0.0)), (1.0, 1.5, 2.0));
    }
}
