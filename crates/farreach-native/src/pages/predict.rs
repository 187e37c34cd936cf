//! The prediction of the machines of today for a kernel on pages of several sizes.

use super::PageSize;
use farreach_kernels::{Kernel, Settings};
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_types::Result;
use farreach_types::counts::MachineResult;

/// The machines that predict.
pub const MACHINES: [&str; 4] = ["today/skylake", "today/golden-cove", "today/zen2", "today/cortex-a76"];

/// The prediction of a machine for pages of one size, per data reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Predicted {
    /// Lookups that only the second level answered.
    pub second: f64,
    /// Lookups that no level answered.
    pub walks: f64,
    /// Cycles of both.
    pub cycles: f64,
    /// Cycles of the walks.
    pub walk_cycles: f64,
    /// Instructions, at `cpi`.
    pub work: f64,
}

/// The same kernel with the same number of references, simulated on each machine with each size: a prediction for each
/// size on the first machine, then on the next.
///
/// # Errors
/// The kernel or a machine refuses its settings.
pub fn predict(kernel: &Kernel, settings: &Settings, sizes: &[PageSize], threads: usize) -> Result<Vec<Predicted>> {
    let names = MACHINES.iter().flat_map(|preset| sizes.iter().map(|size| size.machine(preset)));
    let specs = names.map(|name| MachineSpec::parse(&name, settings.seed)).collect::<Result<Vec<_>>>()?;
    let cpi: Vec<f64> = specs.iter().map(|spec| spec.params.number("cpi")).collect();
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

/// What a prediction says about pages of a size, beside what was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Told {
    /// How many times as fast as with 4 KB pages: misses and `cpi` cycles per instruction, nothing else.
    pub alone: f64,
    /// The same from the time that was measured with such pages, and what the machine says that 4 KB pages add.
    pub on_top: Option<f64>,
    /// The cycles that a walk would have to cost for that to be the time measured; nothing where few are spared.
    pub walk: Option<f64>,
}

/// `base`, `own`: the prediction with 4 KB pages and with those of the size. `measured`: cycles for each data reference
/// with either, on this machine.
pub fn told(base: &Predicted, own: &Predicted, measured: [Option<f64>; 2]) -> Told {
    let [four, all] = measured;
    // The difference less the price of second-level hits, per walk that the larger page saved. With few saved walks it
    // is noise.
    let spared = base.walks - own.walks;
    let hits = |p: &Predicted| p.cycles - p.walk_cycles;
    Told {
        alone: (base.cycles + base.work) / (own.cycles + own.work),
        on_top: all.map(|all| 1.0 + (base.cycles - own.cycles) / all),
        walk: four
            .zip(all)
            .filter(|_| spared > base.walks / 10.0)
            .map(|(four, all)| (four - all - (hits(base) - hits(own))) / spared),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_kernels::{KernelSpec, kernel};

    /// 4 KB: 0.25 walks at 48 cycles; 2 MB: 0.2 hits of the second level at 7. Measured 36 and 16 cycles: the walks
    /// took 21.4 of them.
    #[test]
    fn what_a_walk_costs_here_follows_from_the_difference() {
        let four = Predicted { walks: 0.25, cycles: 12.0, walk_cycles: 12.0, work: 4.5, ..Predicted::default() };
        let two = Predicted { second: 0.2, cycles: 1.4, work: 4.5, ..Predicted::default() };
        let all = told(&four, &two, [Some(36.0), Some(16.0)]);
        let shown = |n: Option<f64>| n.map(|n| (n * 100.0).round() / 100.0);
        assert_eq!([shown(Some(all.alone)), shown(all.on_top), shown(all.walk)], [Some(2.8), Some(1.66), Some(85.6)]);
        let blind = told(&four, &two, [None, None]);
        assert_eq!((blind.alone, blind.on_top, blind.walk), (all.alone, None, None));
        assert_eq!(told(&four, &four, [Some(36.0), Some(36.0)]).walk, None, "no walk was spared");
    }

    #[test]
    fn larger_pages_are_predicted_to_walk_less() {
        let gups = kernel("gups").unwrap();
        let spec = KernelSpec { size: Some(64 << 20), references: Some(100_000), ..KernelSpec::default() };
        let sizes = [PageSize::BASE, PageSize { bytes: 2 << 20 }];
        let all = predict(gups, &spec.settings(gups), &sizes, 1).unwrap();
        assert_eq!(all.len(), MACHINES.len() * 2);
        assert!(all.chunks(2).all(|two| two[0].walks > two[1].walks && two[0].cycles > two[1].cycles), "{all:?}");
    }
}
