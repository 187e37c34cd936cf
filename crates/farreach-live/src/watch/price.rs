//! What a page that is used costs the watched process in each interval, by a measurement on memory of this process.

use super::Method;
use super::clear_refs::{SOFT_DIRTY, USED, soft_dirty_works};
use crate::chase::{Backing, Ground, processor_time};
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::time::Duration;

const PAGE: usize = 4096;
/// Pages of a round: more than most TLBs hold, so that each load walks, as those of a large process do.
const PAGES: usize = 8192;
/// They lie this many pages apart, so that their page table takes as many lines of caches as that of a large process.
const APART: usize = 9;
/// Loads from pages used before, between first uses.
const BETWEEN: usize = 8;
/// Rounds of each kind, in turns. The middle one counts: other load disturbs some.
const ROUNDS: usize = 7;

/// What the first use of a page in an interval takes beyond a later one, in processor time: the processor has to set
/// its used bit, or where stores alone are watched, the kernel serves a fault. The TLB is flushed before both, if it is
/// flushed when an interval begins. It may be less than in the watched process, whose loads wait for memory: the book
/// (watch) compares the two.
///
/// # Errors
/// There is no memory, or `clear_refs` does not work.
pub fn used_page(method: Method) -> io::Result<Duration> {
    if method == Method::Resident {
        return Ok(Duration::ZERO);
    }
    let stores = method == Method::SoftDirty;
    let flushes = !stores && soft_dirty_works().is_err();
    let mut ground = Ground::new(Backing::Base, PAGES * APART * PAGE)?;
    let random = |n: &usize| foldhash::quality::FixedState::with_seed(0).hash_one(n) as usize;
    let mut order: Vec<usize> = (0..PAGES).collect();
    order.sort_by_key(random);
    // Lines at random, most of which are in no near cache: a bit is set when the loads before it have come.
    let place = |page: usize, line: usize| page * APART * PAGE + random(&line) % (PAGE / 64) * 64;
    let mut offsets = Vec::new();
    for (i, page) in order.iter().enumerate() {
        offsets.push(place(*page, i));
        let before = |k: usize| order[random(&(i * BETWEEN + k)) % (i + 1)];
        offsets.extend((0..BETWEEN).map(|k| place(before(k), i * BETWEEN + k + PAGES)));
    }
    ground.chain(&offsets);
    let mut clear = File::options().write(true).open("/proc/self/clear_refs")?;
    let mut rounds = [Vec::new(), Vec::new()];
    for round in 0..2 * ROUNDS {
        let watched = round % 2 == 1;
        if watched {
            clear.write_all(if stores { SOFT_DIRTY } else { USED })?;
        }
        if flushes {
            clear.write_all(SOFT_DIRTY)?;
        }
        let began = processor_time();
        if stores {
            ground.chain(&offsets);
        } else {
            ground.gather(&offsets);
        }
        rounds[round % 2].push(processor_time() - began);
    }
    let [later, first] = rounds.map(|mut times| {
        times.sort_unstable();
        times[ROUNDS / 2]
    });
    Ok(Duration::from_nanos(first.saturating_sub(later)) / PAGES as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_page_costs_less_than_a_fault_of_a_disk() {
        assert_eq!(used_page(Method::Resident).unwrap(), Duration::ZERO);
        if let Ok(price) = used_page(Method::ClearRefs) {
            assert!(price < Duration::from_millis(1), "{price:?}");
        }
    }
}
