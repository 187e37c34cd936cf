//! Walks and TLBs by hand, and the random kernel held to what it means.

mod by_hand;
mod tlbs_by_hand;

use super::kernel::format::FORMATS;
use super::kernel::{Kernel, KernelConfig};
use super::system::{Heard, System};
use super::tlb::{TlbConfig, TlbCounts, Tlbs};
use super::{Found, Mistake};
use crate::dice::seeds;
use farreach_types::addr::Asid;

const STEPS: usize = 150;

fn config(seed: u64, late: bool) -> KernelConfig {
    let round = seed as usize / FORMATS.len();
    KernelConfig {
        format: FORMATS[seed as usize % FORMATS.len()],
        processors: [1, 2, 3][round % 3],
        late,
        tags: round.is_multiple_of(2),
        local_kernel: round % 4 == 3,
        processes: [2, 5][round / 2 % 2],
    }
}

fn tlb(shift: u32, mixed: bool, drops: bool) -> TlbConfig {
    TlbConfig { entries: 12, mixed, shift, drops, pcid: false }
}

/// The walk finds what the kernel means, at every step: frame, size, rights, global or not.
#[test]
fn walks_find_what_the_kernel_means() {
    for seed in seeds(52) {
        let config = config(seed, seed % 2 == 1);
        let (mut kernel, mut system) = (Kernel::new(config, seed), System::new(None));
        let (mut mapped, mut runs, mut large) = (0, 0, 0);
        for step in 0..STEPS {
            for batch in kernel.play(1) {
                system.read(&batch, |_, _| ());
            }
            for (space, page, means) in kernel.known() {
                let found = system.walk(Asid(space), page);
                let place =
                    format!("seed {seed}, step {step}, space {space}, page {page:#x} of {config:?}: {means:x?}");
                let Some((leaf, at)) = means else {
                    assert_eq!(found, None, "{place}");
                    continue;
                };
                let found = found.unwrap_or_else(|| panic!("not mapped: {place}"));
                mapped += 1;
                assert_eq!(found.frame, at >> 12, "{place}");
                assert_eq!((found.rights.user, found.rights.write), (leaf.means.user, leaf.means.write), "{place}");
                let exec = if leaf.means.user { found.rights.user_exec } else { found.rights.kernel_exec };
                assert_eq!((exec, found.global), (leaf.means.exec, leaf.means.global), "{place}");
                let (format, level) = (config.format, leaf.level);
                let alone = format.shift(level) - 12;
                let run = alone + format.run(level).trailing_zeros();
                // A late kernel leaves runs behind that are none, and a run's bit alone.
                assert!(found.order == if leaf.run { run } else { alone } || config.late && leaf.run, "{place}");
                runs += u64::from(leaf.run && found.order == run);
                large += u64::from(level > 0);
            }
        }
        assert!(mapped > 1000 && large > 0, "seed {seed}: {mapped} compared, {large} large");
        assert!(runs > 0 || config.format.run(0) == 1, "seed {seed}: no runs");
    }
}

/// The counts of a run, entries dropped, and what all accesses translated to.
fn run(seed: u64, late: bool, tlb: TlbConfig, mistake: Option<Mistake>) -> ([TlbCounts; 2], u64, Vec<Option<Found>>) {
    let mut kernel = Kernel::new(config(seed, late), seed);
    let (mut system, mut tlbs) = (System::new(mistake), Tlbs::new(tlb, mistake));
    let mut found = Vec::new();
    for batch in kernel.play(STEPS) {
        system.read(&batch, |system, heard| {
            tlbs.hear(system, heard);
            if let Heard::Access(access) = heard {
                found.push(system.translate(system.space, access.addr >> 12));
            }
        });
    }
    (tlbs.sums(), tlbs.dropped, found)
}

/// No lookup of a right kernel's system meets a stale entry; those of a late one's do, unless changes drop entries.
#[test]
fn only_late_kernels_meet_stale_entries() {
    let (mut stale, mut lookups) = (0, [0, 0]);
    for seed in seeds(52) {
        let shift = FORMATS[seed as usize % FORMATS.len()].granule;
        for mixed in [false, true] {
            let (right, ..) = run(seed, false, tlb(shift, mixed, false), None);
            assert_eq!(right.map(|half| half.stale), [0, 0], "seed {seed}");
            let (late, ..) = run(seed, true, tlb(shift, mixed, false), None);
            stale += late[0].stale + late[1].stale;
            let (dropped, ..) = run(seed, true, tlb(shift, mixed, true), None);
            assert_eq!(dropped.map(|half| half.stale), [0, 0], "seed {seed}");
            assert_eq!(dropped.map(|half| half.lookups), late.map(|half| half.lookups), "seed {seed}");
            (0..2).for_each(|half| lookups[half] += late[half].lookups);
        }
    }
    assert!(stale > 100, "{stale} stale lookups");
    assert!(lookups.iter().all(|count| *count > 10_000), "{lookups:?}");
}

/// Each mistake changes a count or a stale lookup of some stream.
#[test]
fn each_mistake_is_seen() {
    for mistake in Mistake::ALL {
        let seen = (0..52).any(|seed| {
            let tlb = tlb(FORMATS[seed as usize % FORMATS.len()].granule, true, false);
            run(seed, false, tlb, Some(mistake)) != run(seed, false, tlb, None)
        });
        assert!(seen, "{mistake:?}");
    }
}
