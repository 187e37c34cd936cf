//! Times between traps: what a trap costs outside the monitor.

use std::time::{Duration, Instant};

/// Nanoseconds of a bucket.
const WIDTH: u128 = 250;
/// Gaps of as many buckets or more are not those of a program that only traps.
const BUCKETS: usize = 128;

/// The distribution of the time from one trap's end in the monitor to the next trap. It has the switch to the program,
/// some of the program's own work, the exception and the switch back. Monitor and program share a processor, so where
/// the work is short, the rest is what the kernel takes for a trap.
pub struct Gaps {
    counts: [u64; BUCKETS],
    all: u64,
    end: Option<Instant>,
}

impl Gaps {
    pub fn new() -> Gaps {
        Gaps { counts: [0; BUCKETS], all: 0, end: None }
    }

    /// The monitor begins to serve a trap.
    pub fn begin(&mut self, now: Instant) {
        if let Some(end) = self.end.take() {
            self.add(now - end);
        }
    }

    /// The monitor has served a trap, and does nothing else before the next.
    pub fn end(&mut self, now: Instant) {
        self.end = Some(now);
    }

    fn add(&mut self, gap: Duration) {
        self.all += 1;
        if let Some(count) = self.counts.get_mut((gap.as_nanos() / WIDTH) as usize) {
            *count += 1;
        }
    }

    /// The gap that the shortest twentieth of all does not exceed, in nanoseconds; none if there were few, or if so few
    /// are short.
    pub fn short(&self) -> Option<u64> {
        const FEW: u64 = 1000;
        let mut below = 0;
        let twentieth = self.counts.iter().position(|count| {
            below += count;
            below * 20 >= self.all
        });
        twentieth.filter(|_| self.all >= FEW).map(|bucket| (bucket as u64 + 1) * WIDTH as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_twentieth_decides() {
        let mut gaps = Gaps::new();
        let mut add = |micros: f64, times: u32| {
            (0..times).for_each(|_| gaps.add(Duration::from_nanos((micros * 1000.0) as u64)));
            gaps.short()
        };
        assert_eq!(add(9.1, 999), None, "too few");
        assert_eq!(add(9.1, 1), Some(9250));
        assert_eq!(add(3.3, 52), Some(9250), "less than a twentieth");
        assert_eq!(add(3.3, 1), Some(3500));
        assert_eq!(add(5000.0, 20_000), Some(9250), "of all, long ones too");
        assert_eq!(add(5000.0, 20_000), None, "fewer than a twentieth are short");
    }

    #[test]
    fn only_what_follows_a_trap_is_a_gap() {
        let (mut gaps, now) = (Gaps::new(), Instant::now());
        gaps.begin(now);
        assert_eq!(gaps.all, 0);
        gaps.end(now);
        gaps.begin(now + Duration::from_micros(3));
        gaps.begin(now + Duration::from_micros(9));
        assert_eq!((gaps.all, gaps.counts[12]), (1, 1));
    }
}
