//! The performance model of RMM15, from measured runs and simulated misses, and its proxies for energy. DS13's linear
//! model is in [`super::cycles`].

use super::keys::{CPI, WALK_REFERENCE};
use farreach_types::counts::{IdealSegment, MachineResult, TlbCounts, Workload};

/// The ideal direct segment (RMM15-42), of which the walks inside are known, beside all misses of its machine.
pub fn beside(inside: IdealSegment, all: &TlbCounts) -> IdealSegment {
    IdealSegment {
        walks_outside: all.misses - inside.walks_inside,
        fetch_walks_outside: all.fetch_misses - inside.fetch_walks_inside,
        share: (all.misses > 0).then(|| inside.walks_inside as f64 / all.misses as f64),
        ..inside
    }
}

/// A run with one page size, measured: cycles in all, cycles of page walks, walks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// T: cycles of the run.
    pub cycles: f64,
    /// C: cycles of its page walks.
    pub walk_cycles: f64,
    /// M: page walks.
    pub walks: f64,
}

impl Measured {
    /// The data side of a simulated run: what the papers read from counters (DS13-32). Everything but walks takes `cpi`
    /// cycles per instruction; a walk costs its references, at a fixed price or at the latency of the caches; hits of a
    /// second level are not counted. Of a run by traps, whose instructions are not seen, everything but walks takes the
    /// time of a native run. `None`: neither is known, or the machine does not walk.
    pub fn of(machine: &MachineResult, workload: &Workload) -> Option<Measured> {
        let native = workload.traps.as_ref().and_then(|traps| traps.native.as_ref());
        let rest = match native {
            Some(native) => native.cycles(),
            None => machine.config.get(CPI.name)?.as_f64()? * workload.instructions as f64,
        };
        let (counts, walks) = (&machine.counts.tlb, machine.config.contains_key(WALK_REFERENCE.name));
        if rest == 0.0 || !walks || counts.walk.walks != counts.misses {
            return None;
        }
        // Fetches and data share the walker; the cycles of one side follow from its walks.
        let data = if counts.misses == 0 { 0.0 } else { counts.data_misses as f64 / counts.misses as f64 };
        let walk_cycles = data * machine.cost.walk_cycles.unwrap_or(0) as f64;
        Some(Measured { cycles: rest + walk_cycles, walk_cycles, walks: counts.data_misses as f64 })
    }

    /// Walk cycles in percent of all cycles (DS13-32).
    pub fn percent(&self) -> f64 {
        if self.cycles == 0.0 { 0.0 } else { 100.0 * self.walk_cycles / self.cycles }
    }

    /// AvgC: cycles of one walk; 0 if there was none.
    pub fn cycles_per_walk(&self) -> f64 {
        if self.walks == 0.0 { 0.0 } else { self.walk_cycles / self.walks }
    }
}

/// RMM15-40 (Table 6): overheads relative to an ideal run without page walks.
///
/// ```
/// use farreach_cost::overhead::{Measured, PerformanceModel};
///
/// let model = PerformanceModel {
///     base: Measured { cycles: 150.0, walk_cycles: 45.0, walks: 9.0 },
///     large: Measured { cycles: 100.0, walk_cycles: 10.0, walks: 1.0 },
/// };
/// assert_eq!(model.ideal_cycles(), 90.0);
/// assert_eq!(model.base_overhead(), 0.5);
/// assert_eq!(format!("{:.3}", model.simulated_overhead(0.09)), "0.005");
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PerformanceModel {
    /// With 4 KB pages.
    pub base: Measured,
    /// With 2 MB pages.
    pub large: Measured,
}

impl PerformanceModel {
    /// T_ideal = T_2M - C_2M.
    pub fn ideal_cycles(&self) -> f64 {
        self.large.cycles - self.large.walk_cycles
    }
    /// Over_4K = C_4K / T_ideal.
    pub fn base_overhead(&self) -> f64 {
        self.base.walk_cycles / self.ideal_cycles()
    }
    /// T_4K / T_ideal and T_2M / T_ideal: the span of speed-ups that an ideal run promises (AMB-99).
    pub fn times(&self) -> [f64; 2] {
        [self.base.cycles, self.large.cycles].map(|t| t / self.ideal_cycles())
    }
    /// Over_2M = C_2M / T_ideal.
    pub fn large_overhead(&self) -> f64 {
        self.large.walk_cycles / self.ideal_cycles()
    }
    /// Over_SIM = M_SIM x AvgC_4K / T_ideal, for a simulated mechanism with `walks` walks.
    pub fn simulated_overhead(&self, walks: f64) -> f64 {
        walks * self.base.cycles_per_walk() / self.ideal_cycles()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CA-36.
    #[test]
    fn rmm15_40_golden() {
        let model = PerformanceModel {
            base: Measured { cycles: 150.0, walk_cycles: 45.0, walks: 9.0 },
            large: Measured { cycles: 100.0, walk_cycles: 10.0, walks: 2.0 },
        };
        assert_eq!((model.ideal_cycles(), model.base_overhead()), (90.0, 0.5));
        assert_eq!(model.times(), [150.0 / 90.0, 100.0 / 90.0], "AMB-99");
        assert_eq!(format!("{:.4} {:.3}", model.large_overhead(), model.simulated_overhead(0.09)), "0.1111 0.005");
        let none = Measured { walk_cycles: 0.0, walks: 0.0, ..model.base };
        assert_eq!(PerformanceModel { base: none, ..model }.simulated_overhead(5.0), 0.0);
    }
}
