//! `farreach workloads KERNEL --native --pages 4k,2m`: the kernel on real memory with pages of several sizes, beside the prediction.

use super::common::note;
use anyhow::{Context, Result, bail, ensure};
use farreach::machine::{Lab, MachineSpec, Options};
use farreach::report::format::{bytes, count, digits};
use farreach::report::table::lines;
use farreach::trace::kernels::{Kernel, Settings};
use farreach_cli::live::without_huge_pages;
use farreach_cli::workloads::timed;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// What predicts.
const MACHINES: [&str; 3] = ["today/skylake", "today/zen2", "today/cortex-a76"];
/// References that are simulated: the rate of misses of a kernel is steady by then.
const SIMULATED: u64 = 20_000_000;
/// User time of a run, below which its measure is no good.
const LEAST: Duration = Duration::from_millis(50);
const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// A page size that the kernel of this machine can give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageSize {
    bytes: u64,
}

/// Reads one of `--pages`.
pub fn page_size(text: &str) -> Result<PageSize, String> {
    let bytes = text.parse::<farreach::addr::Bytes>().map(|size| size.0).unwrap_or(0);
    match bytes.is_power_of_two() && (4 << 10..=2 << 20).contains(&bytes) && bytes != 8 << 10 {
        true => Ok(PageSize { bytes }),
        false => Err("sizes are 4k, 2m and those of multi-size THP between them, from 16k on".to_owned()),
    }
}

impl PageSize {
    fn name(self) -> String {
        farreach::addr::Bytes(self.bytes).to_string()
    }

    /// The machine's own hierarchy, with a system that gives such pages.
    fn machine(self, preset: &str) -> String {
        match self.bytes {
            4096 => format!("{preset}:placement=demand"),
            bytes => format!("{preset}:placement=thp,khugepaged=0,thp_size={bytes}"),
        }
    }

    /// Why this machine's kernel does not give such pages to who asks for them by madvise. The setting is not changed: it is everybody's.
    fn missing(self) -> Option<String> {
        if self.bytes == 4096 {
            return None;
        }
        let Some(all) = chosen(&format!("{THP}/enabled")) else {
            return Some(format!("this kernel has no transparent huge pages ({THP} is not there)"));
        };
        let own = |bytes: u64| {
            let path = format!("{THP}/hugepages-{}kB/enabled", bytes >> 10);
            let set = chosen(&path);
            (path, set.map(|word| if word == "inherit" { all.clone() } else { word }))
        };
        let gives = |word: &Option<String>| word.as_deref().is_some_and(|word| ["always", "madvise"].contains(&word));
        let (path, set) = own(self.bytes);
        let set = if self.bytes == 2 << 20 { Some(set.unwrap_or(all.clone())) } else { set };
        match set {
            None => Some(format!("this kernel has no pages of {} ({path} is not there)", self.name())),
            set if !gives(&set) => Some(format!("write madvise to {path} as root")),
            _ => {
                // The kernel takes the largest size that is on.
                let larger = std::iter::successors(Some(self.bytes * 2), |bytes| Some(bytes * 2)).take_while(|b| *b <= 2 << 20);
                let first = larger.map(own).find(|(_, set)| gives(set));
                first.map(|(path, _)| format!("larger pages come first: write never to {path} as root"))
            }
        }
    }
}

/// The word in brackets of a setting.
fn chosen(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Superpages of this size given out until now.
fn given(size: PageSize) -> u64 {
    let path = format!("{THP}/hugepages-{}kB/stats/anon_fault_alloc", size.bytes >> 10);
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// One run of a kernel.
struct Run {
    user: Duration,
    /// Bytes in pages of the size, as the kernel counted them.
    got: u64,
}

/// Runs a kernel in a process of its own.
fn run(kernel: &Kernel, settings: &Settings, size: PageSize) -> Result<Run> {
    let own = std::env::current_exe().context("the path of farreach")?;
    let mut command = Command::new(own);
    command.args(["workloads", &format!("kernel/{}", kernel.name), "--native"]);
    for (option, value) in [("--size", settings.size), ("--references", settings.references), ("--seed", settings.seed)] {
        command.args([option, &value.to_string()]);
    }
    if size.bytes == 4096 {
        without_huge_pages(&mut command);
        command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0");
    } else {
        // glibc asks for huge pages by madvise for all that malloc maps.
        command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
    }
    let before = given(size);
    let (usage, out) = timed(&mut command)?;
    ensure!(usage.status.success(), "kernel/{}: {}", kernel.name, usage.status);
    ensure!(
        usage.user >= LEAST,
        "kernel/{}: {} references are too few to measure their time; give more --references",
        kernel.name,
        count(settings.references)
    );
    ensure!(out.len() > 8, "kernel/{}: it computed nothing", kernel.name);
    Ok(Run { user: usage.user, got: (given(size) - before) * size.bytes })
}

/// Misses as cycles, and instructions, of the same kernel simulated on each machine.
fn predict(kernel: &Kernel, settings: &Settings, sizes: &[PageSize]) -> Result<Vec<[f64; 2]>> {
    let names = MACHINES.iter().flat_map(|preset| sizes.iter().map(|size| size.machine(preset)));
    let specs = names.map(|name| MachineSpec::parse(&name, settings.seed)).collect::<Result<Vec<_>, _>>()?;
    let cpi: Vec<f64> = specs.iter().map(|spec| spec.params.number("cpi")).collect();
    let threads = super::common::threads(0);
    let mut lab = Lab::new(specs, Options { seed: settings.seed, threads, ..Options::default() })?;
    lab.run(&mut *kernel.source(&Settings { references: settings.references.min(SIMULATED), ..*settings })?)?;
    let result = lab.result(kernel.name, None);
    let references = result.workload.references.load + result.workload.references.store;
    let per_reference = |n: f64| n / references as f64;
    let of = |(machine, cpi): (&farreach::counts::MachineResult, &f64)| {
        [per_reference(machine.cost.cycles as f64), per_reference(result.workload.instructions as f64 * cpi)]
    };
    Ok(result.machines.iter().zip(&cpi).map(of).collect())
}

/// Median, least and most.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[values.len() / 2], values[0], values[values.len() - 1]]
}

/// Clock of this machine in Hz, as the kernel says.
fn clock() -> Option<f64> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    line.rsplit(' ').next()?.trim().parse::<f64>().ok().map(|mhz| mhz * 1e6)
}

/// Measures and predicts; the table.
pub fn compare(kernel: &Kernel, settings: &Settings, pages: &[PageSize], rounds: u32) -> Result<String> {
    let small = PageSize { bytes: 4096 };
    let mut sizes = vec![small];
    for &size in pages.iter().filter(|size| **size != small) {
        match size.missing() {
            Some(why) => note(format_args!("no pages of {}: {why}", size.name())),
            None if !sizes.contains(&size) => sizes.push(size),
            None => {}
        }
    }
    if sizes.len() == 1 {
        bail!("there is nothing to compare 4 KB pages with on this machine");
    }
    // Round by round, so that whatever else the machine does meets all sizes alike; the first one warms up and does not count.
    let mut times: Vec<Vec<Run>> = sizes.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        for (size, times) in sizes.iter().zip(&mut times) {
            let run = run(kernel, settings, *size)?;
            if round > 0 {
                times.push(run);
            }
        }
    }
    let predicted = predict(kernel, settings, &sizes)?;
    let mut heads = [vec![String::new(), "in such".to_owned(), "measured, times as fast as 4 KB".to_owned()], Vec::new()];
    heads[1] = ["pages", "pages", "median (least to most)"].map(str::to_owned).to_vec();
    for (first, second) in MACHINES.iter().flat_map(|m| [(*m, "alone"), (*m, "on top")]) {
        heads[0].push(first.to_owned());
        heads[1].push(second.to_owned());
    }
    let mut rows = Vec::new();
    for (i, size) in sizes.iter().enumerate() {
        let ratio = |(base, own): (&Run, &Run)| base.user.as_secs_f64() / own.user.as_secs_f64();
        let [median, least, most] = spread(times[0].iter().zip(&times[i]).map(ratio).collect());
        let got = times[i].iter().map(|run| run.got).min().unwrap_or(0);
        let share = if i == 0 { String::new() } else { format!("{} %", digits(100.0 * got as f64 / settings.size as f64)) };
        let mut row = vec![size.name(), share, format!("{median:.2} ({least:.2} to {most:.2})")];
        let [seconds, ..] = spread(times[i].iter().map(|run| run.user.as_secs_f64()).collect());
        for machine in 0..MACHINES.len() {
            let [misses, work] = predicted[machine * sizes.len() + i];
            let [base, base_work] = predicted[machine * sizes.len()];
            row.push(format!("{:.2}", (base + base_work) / (misses + work)));
            let cycles = clock().map(|hz| seconds * hz / settings.references as f64);
            row.push(cycles.map_or_else(|| "-".to_owned(), |all| format!("{:.2}", 1.0 + (base - misses) / all)));
        }
        rows.push(row);
    }
    let what = format!(
        "kernel/{}, {}, {} references, {rounds} rounds, user time",
        kernel.name,
        bytes(settings.size),
        count(settings.references)
    );
    let virtual_machine = fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" hypervisor"));
    let nested = match virtual_machine {
        true => "\nThis is a virtual machine: its walks go through two page tables, the predicted ones through one.",
        false => "",
    };
    Ok(format!(
        "{what}\n\n{}\nalone: misses and `cpi` cycles per instruction, nothing else (no data cache).
on top: what 4 KB pages add to the time that was measured with the larger ones (as RMM15-40 takes the ideal time).{nested}\n",
        lines(&heads, &rows)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(["4k", "64K", "2m"].map(|text| page_size(text).unwrap().bytes), [4096, 65536, 2 << 20]);
        for bad in ["8k", "1g", "3k", "", "x"] {
            assert!(page_size(bad).unwrap_err().contains("4k, 2m"), "{bad}");
        }
        assert_eq!(page_size("64k").unwrap().machine("a/b"), "a/b:placement=thp,khugepaged=0,thp_size=65536");
    }

    #[test]
    fn the_spread_has_the_median() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), [2.0, 1.0, 3.0]);
    }
}
