//! How large a part of a run can be simulated at an accepted slowdown.

/// What a while of a run cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// CPU time of the program and of all that its traps cost, in any unit.
    pub time: f64,
    /// Of this, the cost of the traps.
    pub trap_time: f64,
}

/// A part of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Part {
    /// Classes of pages to simulate; see [`SetSample`](super::SetSample).
    pub classes: u32,
    /// The share of the time to simulate.
    pub time: f64,
}

impl Part {
    /// Everything.
    pub fn whole(classes: u32) -> Part {
        Part { classes, time: 1.0 }
    }

    /// The share of the misses that is seen, about.
    pub fn share(&self, of: u32) -> f64 {
        f64::from(self.classes) / f64::from(of) * self.time
    }
}

impl Pace {
    /// Time of the program with its traps by its time without, if this share of what was measured trapped.
    pub fn slowdown(&self, share: f64) -> f64 {
        1.0 + share * self.trap_time / (self.time - self.trap_time)
    }

    /// The largest part that keeps to a slowdown, if `measured` was the part of what was measured and there are `of`
    /// classes. Sets first, since they see the whole of the time: no fewer than `least` classes, if there are so many;
    /// what is still too much is left out in time.
    ///
    /// # Panics
    /// A slowdown of 1 and less, which leaves no time for traps; or nothing was measured.
    pub fn part(&self, slowdown: f64, measured: Part, of: u32, least: u32) -> Part {
        assert!(slowdown > 1.0, "a slowdown of {slowdown}");
        assert!(self.trap_time >= 0.0 && self.time > self.trap_time, "{self:?}");
        // Of the cost of traps if everything trapped.
        let whole = self.slowdown(1.0 / measured.share(of)) - 1.0;
        let affordable = (slowdown - 1.0) / whole;
        if affordable >= 1.0 {
            return Part::whole(of);
        }
        let classes = (affordable * f64::from(of)) as u32;
        let least = least.min(of);
        if classes >= least {
            return Part { classes, time: 1.0 };
        }
        Part { classes: least, time: affordable * f64::from(of) / f64::from(least) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose traps cost nine times what itself takes.
    const SLOW: Pace = Pace { time: 10.0, trap_time: 9.0 };

    #[test]
    fn what_is_affordable_is_taken() {
        assert_eq!(SLOW.slowdown(1.0), 10.0);
        let part = |slowdown, of, least| SLOW.part(slowdown, Part::whole(of), of, least);
        assert_eq!(part(10.0, 128, 8), Part::whole(128));
        assert_eq!(part(30.0, 128, 8), Part::whole(128));
        assert_eq!(part(2.0, 128, 8), Part { classes: 14, time: 1.0 }, "1/9 of 128");
        // 1/9 of 16 is less than the least: 4 of 16, in 4/9 of the time.
        assert_eq!(part(2.0, 16, 4).classes, 4);
        assert!((part(2.0, 16, 4).time - 4.0 / 9.0).abs() < 1e-12);
        // Without sets, time alone.
        assert_eq!(part(2.0, 1, 8).classes, 1);
        assert!((part(2.0, 1, 8).time - 1.0 / 9.0).abs() < 1e-12);
        let free = Pace { time: 3.0, trap_time: 0.0 };
        assert_eq!(free.part(1.01, Part::whole(16), 16, 4), Part::whole(16));
    }

    #[test]
    fn a_part_that_was_measured_stands_for_all() {
        // A quarter of the classes cost 2 beside 1: all would cost 8.
        let quarter = Pace { time: 3.0, trap_time: 2.0 };
        let part = quarter.part(2.0, Part { classes: 32, time: 1.0 }, 128, 8);
        assert_eq!(part, Part { classes: 16, time: 1.0 });
        let part = quarter.part(9.5, Part { classes: 32, time: 1.0 }, 128, 8);
        assert_eq!(part, Part::whole(128));
    }

    #[test]
    fn the_slowdown_is_kept() {
        for (time, trap_time) in [(10.0, 9.0), (2.0, 1.0), (1000.0, 999.0), (5.0, 0.1)] {
            let pace = Pace { time, trap_time };
            for slowdown in [1.05, 1.5, 2.0, 4.0, 20.0] {
                for (of, least) in [(1, 8), (16, 4), (128, 8), (1 << 16, 8)] {
                    let part = pace.part(slowdown, Part::whole(of), of, least);
                    let kept = pace.slowdown(part.share(of));
                    assert!(kept <= slowdown * (1.0 + 1e-9), "{pace:?} {slowdown} {part:?}: {kept}");
                    assert!((1..=of).contains(&part.classes) && part.time > 0.0 && part.time <= 1.0, "{part:?}");
                }
            }
        }
    }
}
