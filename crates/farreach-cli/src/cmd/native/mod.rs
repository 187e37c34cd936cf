//! `farreach workloads KERNEL --native --pages 4k,2m`: the kernel on real memory with pages of several sizes, beside
//! the prediction.

mod once;
mod pages;
mod probe;

use super::common::{note, print, terminal_width};
use anyhow::{Result, bail, ensure};
use farreach_kernels::{Kernel, Settings};
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_report::format::{NONE, bytes, count, digits, rate};
use farreach_report::grid::lines;
use farreach_types::counts::MachineResult;
use once::Measured;
pub use once::once;
pub use pages::{PageSize, page_size};
use std::fs;

/// The machines that predict.
const MACHINES: [&str; 4] = ["today/skylake", "today/golden-cove", "today/zen2", "today/cortex-a76"];

/// The prediction of a machine for pages of one size, per data reference.
#[derive(Clone, Copy, Default)]
struct Predicted {
    /// Lookups that only the second level answered.
    second: f64,
    walks: f64,
    /// Cycles of both.
    cycles: f64,
    /// Cycles of the walks.
    walk_cycles: f64,
    /// Instructions, at `cpi`.
    work: f64,
}

/// The same kernel with the same number of references, simulated on each machine with each size.
fn predict(kernel: &Kernel, settings: &Settings, sizes: &[PageSize]) -> Result<Vec<Predicted>> {
    let names = MACHINES.iter().flat_map(|preset| sizes.iter().map(|size| size.machine(preset)));
    let specs = names.map(|name| MachineSpec::parse(&name, settings.seed)).collect::<Result<Vec<_>, _>>()?;
    let cpi: Vec<f64> = specs.iter().map(|spec| spec.params.number("cpi")).collect();
    let threads = super::common::threads(0);
    let mut lab = Lab::new(specs, Options { seed: settings.seed, threads, ..Options::default() })?;
    lab.run(&mut *kernel.source(settings)?)?;
    let result = lab.result(kernel.name, None);
    let references = result.workload.references.load + result.workload.references.store;
    let per_reference = |n: f64| n / references as f64;
    let of = |(machine, cpi): (&MachineResult, &f64)| {
        let tlb = &machine.counts.tlb;
        Predicted {
            second: per_reference((tlb.second_level_fetch_hits + tlb.second_level_data_hits) as f64),
            walks: per_reference(tlb.misses as f64),
            cycles: per_reference(machine.cost.cycles as f64),
            walk_cycles: per_reference(machine.cost.walk_cycles.unwrap_or(0) as f64),
            work: per_reference(result.workload.instructions as f64 * cpi),
        }
    };
    Ok(result.machines.iter().zip(&cpi).map(of).collect())
}

/// Median, least and most.
fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [values[values.len() / 2], values[0], values[values.len() - 1]]
}

/// Clock of this machine in Hz, from the kernel.
fn clock() -> Option<f64> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    line.rsplit(' ').next()?.trim().parse::<f64>().ok().map(|mhz| mhz * 1e6)
}

/// Load average of the last minute.
fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// The sizes that this machine supports, 4 KB first; the others are reported.
fn given(pages: &[PageSize]) -> Result<Vec<PageSize>> {
    let mut sizes = vec![PageSize::BASE];
    for &size in pages {
        match size.missing() {
            Some(missing) => note(format_args!("no pages of {}: {missing}", size.name())),
            None if !sizes.contains(&size) => sizes.push(size),
            None => {}
        }
    }
    if sizes.len() == 1 {
        bail!("there is nothing to compare 4 KB pages with on this machine");
    }
    Ok(sizes)
}

/// Measures, then predicts, and prints a table after each.
pub fn compare(kernel: &Kernel, settings: &Settings, pages: &[PageSize], rounds: u32) -> Result<()> {
    let sizes = given(pages)?;
    // In rounds over all sizes, so that other load affects all sizes alike; the first round is a warm-up and does not
    // count.
    let mut runs: Vec<Vec<Measured>> = sizes.iter().map(|_| Vec::new()).collect();
    let mut loads = Vec::new();
    for round in 0..=rounds {
        for (size, runs) in sizes.iter().zip(&mut runs) {
            let run = once::apart(kernel, settings, *size)?;
            if round > 0 {
                runs.push(run);
                loads.extend(load_average());
            }
        }
    }
    let same = |run: &Measured| run.checksum == runs[0][0].checksum;
    ensure!(
        runs.iter().flatten().all(same),
        "kernel/{}: runs on pages of several sizes computed different things",
        kernel.name
    );
    let [setup, ..] = spread(runs[0].iter().map(|run| run.setup / run.seconds));
    let mut out = format!(
        "kernel/{}, {}, {} references, {rounds} rounds in turns; user time of the algorithm. Its input, made before, \
         took {} times as long and does not count.\n",
        kernel.name,
        bytes(settings.size),
        count(runs[0][0].references),
        rate(setup),
    );
    if !loads.is_empty() {
        let [median, least, most] = spread(loads.into_iter());
        out += &format!("Load of this machine meanwhile: {median:.1} ({least:.1} to {most:.1}).\n");
    }
    let cycles: Vec<Option<f64>> = runs.iter().map(|runs| cycles(runs)).collect();
    out += &format!("\n{}", measured_table(&sizes, &runs, &cycles));
    out += "
chain of 256 pages: how many times as long a load takes there, each after the other, as in one of 16; 1 where one TLB \
entry holds them all.
";
    if fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" hypervisor")) {
        out += "This is a virtual machine: its walks go through two page tables, the predicted ones through one.\n";
    }
    if large_entries(&sizes, &runs) == Some(false) {
        out += "The chain misses the first TLB on pages of 2 MB as it does on those of 4 KB: entries are no larger \
with them here, as when a host maps the
memory of its guest in 4 KB pages. What they spare is the last level of a walk; the machines that predict have entries \
of 2 MB.\n";
    }
    // The measurement is printed before the prediction, which takes long.
    print(&out)?;
    let predicted = predict(kernel, settings, &sizes)?;
    print(&format!(
        "\n{}
alone: misses and `cpi` cycles per instruction, nothing else (no data cache).
on top: what the machine says that 4 KB pages add to the time measured with the larger ones (as RMM15-40 takes the \
ideal time).
a walk here: the cycles a walk would have to cost for that to be the measured time; beside them what the machine takes \
for one.\n",
        predicted_table(&sizes, &cycles, &predicted)
    ))
}

/// Cycles of this machine for each data reference.
fn cycles(runs: &[Measured]) -> Option<f64> {
    let [median, ..] = spread(runs.iter().map(|run| run.seconds / run.references as f64));
    clock().map(|hz| median * hz)
}

/// The probe of the runs.
fn chain(runs: &[Measured]) -> f64 {
    let [median, ..] = spread(runs.iter().map(|run| run.probe));
    median
}

/// Whether one entry of the first TLB holds far more than 4 KB on pages of 2 MB; nothing if there were none, or if 4 KB
/// pages make no difference either.
fn large_entries(sizes: &[PageSize], runs: &[Vec<Measured>]) -> Option<bool> {
    let (small, large) = (chain(&runs[0]), chain(&runs[sizes.iter().position(|size| size.bytes == 2 << 20)?]));
    (small > 1.2).then(|| large - 1.0 < (small - 1.0) / 2.0)
}

fn head<const N: usize>(first: [&str; N], second: [&str; N]) -> [Vec<String>; 2] {
    [first, second].map(|line| line.map(str::to_owned).to_vec())
}

fn measured_table(sizes: &[PageSize], runs: &[Vec<Measured>], cycles: &[Option<f64>]) -> String {
    let heads = head(
        ["measured", "of arrays", "chain of", "cycles a", "times as fast as 4 KB", ""],
        ["pages", "in such", "256 pages", "reference", "median", "least to most"],
    );
    let row = |((size, own), cycles): ((&PageSize, &Vec<Measured>), &Option<f64>)| {
        let [median, least, most] = spread(runs[0].iter().zip(own).map(|(base, own)| base.seconds / own.seconds));
        let [share, ..] = spread(own.iter().map(|run| 100.0 * run.held as f64 / run.bytes.max(1) as f64));
        vec![
            size.name(),
            if *size == PageSize::BASE { NONE.to_owned() } else { format!("{} %", rate(share)) },
            digits(chain(own)),
            cycles.map_or_else(|| NONE.to_owned(), digits),
            format!("{median:.2}"),
            format!("{least:.2} to {most:.2}"),
        ]
    };
    lines(&heads, &sizes.iter().zip(runs).zip(cycles).map(row).collect::<Vec<_>>(), terminal_width())
}

/// `measured`: cycles of this machine for each data reference, by size.
fn predicted_table(sizes: &[PageSize], measured: &[Option<f64>], predicted: &[Predicted]) -> String {
    let heads = head(
        ["", "", "per 1000", "references", "cycles a", "times as", "fast", "cycles of", "cycles"],
        ["predicted", "pages", "second level", "walks", "reference", "alone", "on top", "a walk here", "taken"],
    );
    let none = || NONE.to_owned();
    let mut rows = Vec::new();
    for (preset, of) in MACHINES.iter().zip(predicted.chunks(sizes.len())) {
        for (i, (size, own)) in sizes.iter().zip(of).enumerate() {
            let base = of[0];
            let alone = (base.cycles + base.work) / (own.cycles + own.work);
            let on_top = measured[i].map(|all| 1.0 + (base.cycles - own.cycles) / all);
            // The difference less the price of second-level hits, per walk that the larger page saved. With few saved
            // walks it is noise.
            let spared = base.walks - own.walks;
            let hits = |p: Predicted| p.cycles - p.walk_cycles;
            let walk = measured[0]
                .zip(measured[i])
                .filter(|_| spared > base.walks / 10.0)
                .map(|(four, all)| (four - all - (hits(base) - hits(*own))) / spared);
            let first = i == 0;
            rows.push(vec![
                if first { (*preset).to_owned() } else { String::new() },
                size.name(),
                rate(1000.0 * own.second),
                rate(1000.0 * own.walks),
                digits(own.cycles),
                if first { none() } else { format!("{alone:.2}") },
                if first { none() } else { on_top.map_or_else(none, |x| format!("{x:.2}")) },
                walk.map_or_else(none, |x| format!("{x:.0}")),
                if own.walks > 0.0 { format!("{:.0}", own.walk_cycles / own.walks) } else { none() },
            ]);
        }
    }
    lines(&heads, &rows, terminal_width())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_has_the_median() {
        assert_eq!(spread([3.0, 1.0, 2.0].into_iter()), [2.0, 1.0, 3.0]);
    }

    const SIZES: [PageSize; 2] = [PageSize::BASE, PageSize { bytes: 2 << 20 }];

    fn probed(small: f64, large: f64) -> Vec<Vec<Measured>> {
        [small, large].map(|probe| vec![Measured { probe, seconds: 1.0, references: 1, ..Measured::default() }]).into()
    }

    #[test]
    fn entries_are_as_large_as_the_chain_says() {
        assert_eq!(large_entries(&SIZES, &probed(2.4, 2.39)), Some(false));
        assert_eq!(large_entries(&SIZES, &probed(2.4, 1.02)), Some(true));
        assert_eq!(
            large_entries(&SIZES, &probed(1.01, 1.0)),
            None,
            "a first TLB that has all pages, or none whose misses cost"
        );
        assert_eq!(large_entries(&SIZES[..1], &probed(2.4, 2.4)), None, "nothing to tell");
    }

    /// 4 KB: 0.25 walks at 48 cycles; 2 MB: 0.2 hits of the second level at 7. Measured 36 and 16 cycles: the walks
    /// took 21.4 of them.
    #[test]
    fn what_a_walk_costs_here_follows_from_the_difference() {
        let four = Predicted { walks: 0.25, cycles: 12.0, walk_cycles: 12.0, work: 4.5, ..Predicted::default() };
        let two = Predicted { second: 0.2, cycles: 1.4, work: 4.5, ..Predicted::default() };
        let table = predicted_table(&SIZES, &[Some(36.0), Some(16.0)], &[[four, two]; 4].concat());
        let row = table.lines().rfind(|line| line.contains("2M")).unwrap();
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>(),
            ["2M", "200", "0", "1.40", "2.80", "1.66", "86", "–"],
            "{table}"
        );
        let table = predicted_table(&SIZES, &[None, None], &[[four, two]; 4].concat());
        assert!(table.lines().filter(|line| line.contains("2M")).all(|line| line.contains("2.80")), "{table}");
    }
}
