//! How a laboratory runs.

/// What part of a run is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Of this many pieces of the run one is counted, 2 or more.
    pub one_in: u32,
    /// Instructions of a piece (references, for traces without fetches), 1 or more. The piece before each warms up.
    pub window: u64,
}

impl Sample {
    /// Instructions of a window, if nothing else is said.
    pub const WINDOW: u64 = 1_000_000;

    /// One in this many windows of the usual length.
    pub fn one_in(n: u32) -> Sample {
        Sample { one_in: n, window: Sample::WINDOW }
    }
}

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Instructions (references, for traces without fetches) after which the run stops. The result names this budget
    /// (PS-9, AMB-32).
    pub limit: Option<u64>,
    /// The stream has a [`Boundary::Counted`](farreach_types::event::Boundary::Counted) behind this many instructions:
    /// until then the machines are warmed up, and nothing is counted. They come before those of the limit. Amounts of
    /// memory are those of all that was simulated. Neither with `sample` nor for whole systems.
    pub warmup: Option<u64>,
    /// Only windows of the run are simulated, and what they say of all is estimated. Not for machines with caches, nor
    /// for those whose operating system reads their counters, nor for whole systems.
    pub sample: Option<Sample>,
    /// Seed of everything random.
    pub seed: u64,
    /// The caller asks [`Lab::again`](crate::Lab::again) when the stream has ended, and feeds it once more if so.
    /// Without this, machines that must know what comes are refused (REP-1).
    pub twice: bool,
    /// Without shortcuts: every lookup goes to every design. Slow; for checking.
    pub plain: bool,
    /// Threads, including the caller's; 0 and 1: only the caller's. With more threads, the caller's reads and the
    /// others simulate, and [`Lab::finish`](crate::Lab::finish) must be called before results and entries. The result
    /// is the same on any number.
    pub threads: usize,
    /// With more threads: bytes of the stream that may wait for the simulating threads. If this is large, a source of
    /// varying speed keeps them busy. There is always some room; 0: no more than that.
    pub ahead: u64,
}

impl Options {
    /// Instructions after which the run stops, with those of the warm-up.
    pub(super) fn stops_after(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_add(self.warmup.unwrap_or(0)))
    }
}
