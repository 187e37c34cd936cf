//! Which points go together.

use crate::pass::{Extent, Pass, Work};
use crate::point::Point;
use crate::program::Program;
use farreach_machine::MachineSpec;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A point that is to be run.
pub struct Wanted {
    /// On what.
    pub program: Program,
    /// What results call that.
    pub label: String,
    /// How much of it.
    pub extent: Extent,
    /// Which machine has caches: those are no company for others.
    pub has_caches: bool,
    /// Which machine.
    pub point: Point,
}

impl Wanted {
    /// Whether the machine of this description has caches.
    pub fn has_caches(spec: &MachineSpec) -> bool {
        spec.hardware.tlb().is_none()
    }
}

/// Fewest machines that a pass is cut down to: what the machines of a pass share, reading the program, costs as much as
/// some of them.
const NARROW: usize = 8;

/// Passes for these points, the widest first, so that no worker is left with one of them at the end. A pass has up to
/// `width` machines, or fewer if there would not be work for so many `workers`.
pub fn plan(wanted: Vec<Wanted>, width: usize, workers: usize) -> Vec<Pass> {
    let mut together: BTreeMap<(Program, String, Extent, bool), Vec<Point>> = BTreeMap::new();
    for Wanted { program, label, extent, has_caches, point } in wanted {
        together.entry((program, label, extent, has_caches)).or_default().push(point);
    }
    let parts = |width: usize| together.values().map(|points| points.len().div_ceil(width)).sum::<usize>();
    let mut width = width.max(1);
    while parts(width) < workers && width > NARROW {
        width = (width / 2).max(NARROW);
    }
    let mut passes = Vec::new();
    for ((program, label, extent, _), points) in together {
        let count = points.len().div_ceil(width);
        for i in 0..count {
            let some = &points[i * points.len() / count..(i + 1) * points.len() / count];
            let (program, label, extent) = (program.clone(), label.clone(), extent.clone());
            passes.push(Pass { program, label, extent, work: Work::Machines(some.to_vec()) });
        }
    }
    passes.sort_by_key(|pass| Reverse(pass.width()));
    passes
}
