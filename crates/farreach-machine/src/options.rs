//! How a laboratory runs.

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Instructions (references, for traces without fetches) after which the run stops. The result names this budget
    /// (PS-9, AMB-32).
    pub limit: Option<u64>,
    /// Seed of everything random.
    pub seed: u64,
    /// Without shortcuts: every design is asked at every lookup. Slow; for checking.
    pub plain: bool,
    /// Threads, the caller's with them; 0 and 1: only the caller's. With more it reads and others simulate, and
    /// [`Lab::finish`](crate::Lab::finish) comes before results and entries. The result is the same on any number.
    pub threads: usize,
    /// With more threads: bytes of the stream that may wait for those that simulate. A source that is now faster than
    /// they, now slower, keeps them at work if this is large. There is always some room; 0: no more.
    pub ahead: u64,
}
