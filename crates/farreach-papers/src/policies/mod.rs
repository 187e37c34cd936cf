//! Policies of operating systems since 2002, on one hierarchy of today, in fresh and in aged memory: walks, time by the
//! model, memory, and how long a fault takes.

pub(crate) mod cores;
pub(crate) mod files;
pub(crate) mod memory;
mod open;
pub(crate) mod price;

use crate::atlas::is_on_front;
use crate::number_text::{list, percent};
use crate::results::{Results, Set, grid};
use crate::since::{few, geomean};
use crate::study::Study;
use farreach_types::papers::{Bars, Cell, Chart, Origin, Program, Section, Series, Table};
pub(crate) use open::STUDY as OPEN;
use price::Work;

pub(crate) const STUDY: Study = Study {
    id: "policies",
    title: "Page policies of operating systems, 2002 to today: walks, time, memory, waiting",
    rules: "NAV-1 to NAV-9, FBR-1 to FBR-10, QKS-1 to QKS-3, LNX-1 to LNX-21, ING-1 to ING-7, HWE-1 to HWE-6, \
            SOL-1, TRI-1 to TRI-3, CAP-1 to CAP-7, RNG-1 to RNG-4, RMM15-23, RMM15-26, OSC-1",
    plan: |_, set| {
        let mut wanted = grid(few(set), &machines());
        wanted.extend(grid(few(set), &COLLAPSING));
        wanted
    },
    section,
};

/// The hardware of all.
const HARDWARE: &str = "today/skylake";

/// A policy: its name in tables, and its keys.
pub(crate) const POLICIES: [(&str, &str); 17] = [
    ("demand", "placement=demand"),
    ("navarro", "placement=navarro"),
    ("freebsd", "placement=freebsd"),
    ("thp of 2015", "placement=thp"),
    ("linux never", "placement=linux,thp=never"),
    ("linux 64K", "placement=linux,thp=never,mthp_always=64K"),
    ("linux 2M", "placement=linux"),
    ("linux all sizes", "placement=linux,mthp_always=16K+32K+64K+128K+256K+512K+1M"),
    ("linux 2M, defrag", "placement=linux,defrag=always"),
    ("quicksilver", "placement=quicksilver"),
    ("ingens", "placement=ingens"),
    ("hawkeye", "placement=hawkeye,prezero_rate=10,coverage_ms=10,coverage_window_ms=1,promote_sleep_ms=10"),
    ("solaris", "placement=solaris"),
    ("trident", "placement=trident"),
    ("cap", "placement=cap"),
    ("ranger", "placement=ranger,ranger_period_ms=1"),
    ("eager", "placement=eager"),
];
/// What the others are compared with.
const BASE: usize = 0;

/// The state of memory when a program starts: its name, and the keys.
pub(crate) const AGES: [(&str, &str); 3] = [
    ("fresh", ""),
    ("used", ",allocator=buddy,memory=16G,fragmentation=0.3,movable=1"),
    ("aged", ",allocator=buddy,memory=16G,fragmentation=0.3"),
];

/// Linux in used memory, whose khugepaged works each 10 ms: where no page of a group may be missing, and where 511 may.
pub(crate) const COLLAPSING: [&str; 2] = [
    "today/skylake:placement=linux,scan_sleep_ms=10,max_ptes_none=0,memory=16G,fragmentation=0.3,movable=1",
    "today/skylake:placement=linux,scan_sleep_ms=10,max_ptes_none=511,memory=16G,fragmentation=0.3,movable=1",
];

/// The policy of this name.
pub(crate) fn policy(name: &str) -> usize {
    POLICIES.iter().position(|(own, _)| *own == name).expect("claims name policies that are there")
}

/// A policy in a memory.
pub(crate) fn machine(policy: usize, age: usize) -> String {
    format!("{HARDWARE}:{}{}", POLICIES[policy].1, AGES[age].1)
}

fn machines() -> Vec<String> {
    (0..AGES.len()).flat_map(|age| (0..POLICIES.len()).map(move |policy| machine(policy, age))).collect()
}

/// What is measured of a policy on a program.
#[derive(Clone, Copy)]
struct Measures {
    walks: u64,
    /// Cycles of the program, of translation, and of the system while the program waits.
    time: u64,
    /// Of these, those of the system.
    waited: u64,
    /// Cycles of the system beside the program.
    background: u64,
    resident: u64,
    wasted: u64,
    faults: u64,
    largest_fault: u64,
}

impl Measures {
    fn of(results: &Results, program: &str, machine: &str) -> Option<Measures> {
        let measured = results.measured(program, machine)?;
        let (machine, work) = (&measured.machine, Work::of(&measured.machine.counts.os));
        let cycles = machine.cost.cycles;
        Some(Measures {
            walks: machine.counts.tlb.misses,
            time: measured.workload.instructions + cycles + work.waited(),
            waited: work.waited(),
            background: work.background(),
            resident: machine.memory.resident_bytes,
            wasted: machine.memory.wasted_bytes,
            faults: work.faults,
            largest_fault: work.largest_fault(),
        })
    }
}

/// Cycles of a program with a policy in fresh memory: of the program, of translation, and of the system while it waits.
pub(crate) fn time(results: &Results, program: &str, name: &str) -> Option<u64> {
    Some(Measures::of(results, program, &machine(policy(name), 0))?.time)
}

/// A policy and a memory, in all programs that were run.
fn measured<'a>(results: &'a Results, set: &'a Set, policy: usize, age: usize) -> Vec<(&'a Program, Measures)> {
    let machine = machine(policy, age);
    few(set).filter_map(|p| Some((p, Measures::of(results, &p.name, &machine)?))).collect()
}

/// By geometric mean, in percent of the base policy in fresh memory.
fn relative(results: &Results, set: &Set, policy: usize, age: usize, of: fn(&Measures) -> u64) -> Option<f64> {
    let base = measured(results, set, BASE, 0);
    let mine = measured(results, set, policy, age);
    (base.len() == mine.len()).then_some(())?;
    geomean(mine.iter().zip(&base).map(|((_, mine), (_, base))| (of(mine), of(base))))
}

fn sum(all: &[(&Program, Measures)], of: fn(&Measures) -> u64) -> u64 {
    all.iter().map(|(_, measures)| of(measures)).sum()
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    for (age, (name, _)) in AGES.iter().enumerate() {
        let points: Vec<Vec<Option<f64>>> = (0..POLICIES.len())
            .map(|policy| {
                vec![
                    relative(results, set, policy, age, |m| m.time),
                    relative(results, set, policy, age, |m| m.resident),
                ]
            })
            .collect();
        let mut table = Table::new(
            &format!("{name} memory: percent of demand paging in fresh memory, geometric means; sums of cycles"),
            "policy",
        );
        for column in ["walks", "time", "resident", "faults"] {
            table.column(column, Origin::Measured, "%");
        }
        table.column("waited for the system", Origin::Measured, "% of time");
        table.column("in the background", Origin::Measured, "% of time");
        table.column("wasted", Origin::Measured, "% of resident");
        table.column("longest fault", Origin::Measured, "cycles");
        table.column("on the front", Origin::Measured, "");
        for (policy, (name, _)) in POLICIES.iter().enumerate() {
            let all = measured(results, set, policy, age);
            let share = |part: fn(&Measures) -> u64, of: fn(&Measures) -> u64| {
                (!all.is_empty()).then(|| 100.0 * sum(&all, part) as f64 / sum(&all, of).max(1) as f64)
            };
            let known = points[policy].iter().all(Option::is_some);
            let front = if known && is_on_front(&points, &points[policy]) { "time and memory" } else { "" };
            let longest = all.iter().map(|(_, m)| m.largest_fault).max();
            let cells = vec![
                Cell::from(relative(results, set, policy, age, |m| m.walks)),
                Cell::from(points[policy][0]),
                Cell::from(points[policy][1]),
                Cell::from(relative(results, set, policy, age, |m| m.faults)),
                Cell::from(share(|m| m.waited, |m| m.time)),
                Cell::from(share(|m| m.background, |m| m.time)),
                Cell::from(share(|m| m.wasted, |m| m.resident)),
                longest.map_or(Cell::from(""), Cell::Count),
                Cell::from(front),
            ];
            table.row(*name, cells);
        }
        section.tables.push(table);
        let fastest = |i: &usize| points[*i][0];
        let best = (0..POLICIES.len())
            .filter(|i| fastest(i).is_some())
            .min_by(|a, b| fastest(a).unwrap_or(f64::MAX).total_cmp(&fastest(b).unwrap_or(f64::MAX)));
        if let Some(best) = best {
            let front: Vec<String> = (0..POLICIES.len())
                .filter(|&i| points[i].iter().all(Option::is_some) && is_on_front(&points, &points[i]))
                .map(|i| POLICIES[i].0.to_owned())
                .collect();
            section.note(format!(
                "{name} memory: least time: {} ({} of demand paging in fresh memory). On the front of time and memory: \
                 {}.",
                POLICIES[best].0,
                percent(fastest(&best).unwrap_or_default()),
                list(&front)
            ));
        }
    }
    section.tables.push(by_program(results, set));
    section.bars.push(bars(results, set));
    section.note(price::WORDS);
    section.note(
        "Used memory: other programs have three of ten frames, everywhere, which compaction may move. Aged memory: it \
         may not, so that there is no free block of 2 MB. A millisecond is three million instructions; khugepaged \
         wakes each ten seconds, so a short program sees it once; HawkEye and Ranger work each ten milliseconds here, \
         not each thirty and five seconds. Eager paging works when memory is asked for, which is no fault.",
    );
}

/// Time of each policy on each program, by age.
fn by_program(results: &Results, set: &Set) -> Table {
    let mut table = Table::new("Time in percent of demand paging in fresh memory", "program, memory");
    POLICIES.iter().for_each(|(name, _)| table.column(*name, Origin::Measured, "%"));
    for p in few(set) {
        let base = Measures::of(results, &p.name, &machine(BASE, 0));
        for (age, (name, _)) in AGES.iter().enumerate() {
            let cells = (0..POLICIES.len()).map(|policy| {
                let mine = Measures::of(results, &p.name, &machine(policy, age));
                Cell::from(mine.zip(base).map(|(mine, base)| 100.0 * mine.time as f64 / base.time.max(1) as f64))
            });
            table.row(format!("{}, {name}", p.name), cells.collect());
        }
    }
    table
}

fn bars(results: &Results, set: &Set) -> Bars {
    let chart = Chart {
        title: "Time by policy and memory".into(),
        x: "policy".into(),
        places: POLICIES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        y: "% of demand paging in fresh memory".into(),
        series: (0..AGES.len())
            .map(|age| Series {
                name: format!("{} memory", AGES[age].0),
                values: (0..POLICIES.len()).map(|p| relative(results, set, p, age, |m| m.time)).collect(),
            })
            .collect(),
    };
    Bars { chart, clip: None }
}
