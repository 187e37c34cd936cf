//! How large a part of a run can be simulated at an accepted slowdown.

/// What a while of a run cost in which everything was simulated, or a part of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// CPU time of the program and of all that its traps cost, in any unit.
    pub time: f64,
    /// Of this, the cost of the traps.
    pub trap_time: f64,
}

impl Pace {
    /// The pace if everything were simulated, measured while this many of `of` classes of pages were.
    pub fn of_everything(self, classes: u32, of: u32) -> Pace {
        let trap_time = self.trap_time * f64::from(of) / f64::from(classes);
        Pace { time: self.time - self.trap_time + trap_time, trap_time }
    }

    /// Time of the program with its traps by its time without, if this share of what was simulated were.
    pub fn slowdown(&self, share: f64) -> f64 {
        1.0 + share * self.trap_time / (self.time - self.trap_time)
    }

    /// How many of `of` classes of pages (see [`SetSample`](super::SetSample)), which all were simulated, can be at a
    /// slowdown; at least `least`, where there are as many.
    ///
    /// # Panics
    /// A slowdown of 1 and less, which leaves no time for traps; or nothing was measured.
    pub fn classes(&self, slowdown: f64, of: u32, least: u32) -> u32 {
        assert!(slowdown > 1.0, "a slowdown of {slowdown}");
        assert!(self.trap_time >= 0.0 && self.time > self.trap_time, "{self:?}");
        let affordable = (slowdown - 1.0) / (self.slowdown(1.0) - 1.0);
        // Converted to the nearest number that there is: without traps, everything is affordable.
        ((affordable * f64::from(of)) as u32).clamp(least.min(of), of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_tells_of_everything() {
        let eighth = Pace { time: 3.0, trap_time: 1.0 };
        assert_eq!(eighth.of_everything(16, 128), Pace { time: 10.0, trap_time: 8.0 });
        assert_eq!(eighth.of_everything(4, 4), eighth);
        assert_eq!(eighth.of_everything(16, 128).slowdown(0.125), eighth.slowdown(1.0));
    }

    #[test]
    fn what_is_affordable_is_taken() {
        // A program whose traps cost nine times what itself takes.
        let slow = Pace { time: 10.0, trap_time: 9.0 };
        assert_eq!(slow.slowdown(1.0), 10.0);
        assert_eq!(slow.classes(10.0, 128, 8), 128);
        assert_eq!(slow.classes(30.0, 128, 8), 128);
        assert_eq!(slow.classes(2.0, 128, 8), 14, "1/9 of 128");
        assert_eq!(slow.classes(2.0, 16, 4), 4, "1/9 of 16 is less than the least");
        assert_eq!(slow.classes(2.0, 4, 8), 4, "there are no more");
        assert_eq!(slow.classes(2.0, 1, 8), 1);
        let free = Pace { time: 3.0, trap_time: 0.0 };
        assert_eq!(free.classes(1.01, 16, 4), 16);
    }

    #[test]
    fn the_slowdown_is_kept_where_the_least_allows_it() {
        for (time, trap_time) in [(10.0, 9.0), (2.0, 1.0), (1000.0, 999.0), (5.0, 0.1)] {
            let pace = Pace { time, trap_time };
            for slowdown in [1.05, 1.5, 2.0, 4.0, 20.0] {
                for (of, least) in [(1, 8), (16, 4), (128, 8), (1 << 16, 8)] {
                    let classes = pace.classes(slowdown, of, least);
                    let kept =
                        |classes: u32| pace.slowdown(f64::from(classes) / f64::from(of)) <= slowdown * (1.0 + 1e-9);
                    assert!(kept(classes) || classes == least.min(of), "{pace:?} {slowdown}: {classes} of {of}");
                    assert!(
                        classes == of || !kept(classes + 1),
                        "{pace:?} {slowdown}: one more of {of} than {classes}"
                    );
                    assert!((1..=of).contains(&classes));
                }
            }
        }
    }
}
