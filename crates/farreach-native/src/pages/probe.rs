//! Whether the entries of this processor's first TLB are as large as the pages: in a virtual machine they are no larger
//! than the pages of the host.

use super::PageSize;
use farreach_kernels::Rng;
use farreach_live::huge_pages_for;
use farreach_types::{Error, Result, ensure};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Base pages of the short chain: any first TLB has them.
const FEW: usize = 16;
/// Base pages of the long chain: more than any first TLB has entries. Its lines, 64 in each set of pages, fit into any
/// first cache.
const MANY: usize = 256;
const WORDS: usize = 4096 / size_of::<usize>();
/// Words of a line.
const LINE: usize = 64 / size_of::<usize>();
/// Loads of one measurement, and measurements; the shortest counts, since disturbances only make it longer.
const LOADS_PER_RUN: usize = 100_000;
const TIMES: usize = 15;

/// Time of a load in a chain of loads over many pages, divided by that in a chain over few, in memory on pages of this
/// size. 1 where one entry maps all of them; on 4 KB pages it shows the cost of a first-level miss.
///
/// # Errors
/// The kernel refuses advice about pages, or the clock stands still.
pub fn probe(size: PageSize) -> Result<f64> {
    // Twice the size, so that it contains an aligned piece.
    const BYTES: usize = 2 * MANY * 4096;
    let mut memory = vec![0usize; (BYTES + (2 << 20)) / size_of::<usize>()];
    let start = memory.as_ptr().addr();
    if size != PageSize::BASE {
        huge_pages_for(&(start..start + size_of_val(&memory[..])), size.larger()).map_err(Error::System)?;
    }
    let first = (start.next_multiple_of(2 << 20) - start) / size_of::<usize>();
    let (few, many) = (chain(&mut memory, first, FEW), chain(&mut memory, first, MANY));
    ensure!(few > Duration::ZERO, "the clock of this machine stands still");
    Ok(many.as_secs_f64() / few.as_secs_f64())
}

/// The shortest time of a chain of loads, one in each of `pages` pages, in random order.
fn chain(memory: &mut [usize], first: usize, pages: usize) -> Duration {
    // Lines spread over the sets of a cache.
    let place = |page: u32| first + page as usize * WORDS + page as usize % (WORDS / LINE) * LINE;
    let order = Rng::new(1).order(pages);
    for (i, &page) in order.iter().enumerate() {
        memory[place(page)] = place(order[(i + 1) % pages]);
    }
    let mut best = Duration::MAX;
    let mut at = place(order[0]);
    for _ in 0..TIMES {
        let began = Instant::now();
        for _ in 0..LOADS_PER_RUN {
            at = memory[at];
        }
        at = black_box(at);
        best = best.min(began.elapsed());
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_goes_through_every_page() {
        let mut memory = vec![0; 300 * WORDS];
        assert!(chain(&mut memory, 7, MANY) > Duration::ZERO);
        let (mut at, mut pages) = (memory.iter().position(|&next| next > 0).unwrap(), std::collections::HashSet::new());
        let begin = at;
        loop {
            pages.insert((at - 7) / WORDS);
            at = memory[at];
            if at == begin {
                break;
            }
        }
        assert_eq!(pages.len(), MANY);
    }

    #[test]
    fn a_probe_gives_a_ratio() {
        // Which one depends on the machine.
        let ratio = probe(PageSize::BASE).unwrap();
        assert!(ratio.is_finite() && ratio > 0.0, "{ratio}");
    }
}
