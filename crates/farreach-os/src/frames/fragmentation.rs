//! Frames that belong to others from the start, so that contiguous memory is scarce.

use super::pinned::{Bits, PhysicalMemory, PinnedSet};
use farreach_types::text_file;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::path::PathBuf;

/// Largest memory that can be fragmented, in frames: 16 TB of base pages, half a gigabyte of bits.
const MOST_FRAMES: u64 = 1 << 32;

/// Most bytes of a pattern.
const MOST_PATTERN_BYTES: u64 = 1 << 30;

/// Most bytes of a copy of `/proc/buddyinfo`.
const MOST_BUDDYINFO_BYTES: u64 = 1 << 20;

/// Most orders a copy of `/proc/buddyinfo` may have.
const MOST_ORDERS: usize = 32;

/// How memory is fragmented at the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fragmentation {
    /// Not at all.
    #[default]
    None,
    /// `floor(fraction × frames)` frames, scattered uniformly.
    Fraction {
        /// At least 0, below 1.
        fraction: f64,
        /// Same seed, same frames.
        seed: u64,
    },
    /// The frames a file lists, one item per line: a frame `17`, a range `32-47` (both ends pinned), or `every 16
    /// offset 3` (frames 3, 19, 35, ...). `#` begins a comment.
    Pattern(PathBuf),
    /// A memory whose free blocks are, order by order, as many as in a copy of `/proc/buddyinfo`, summed over nodes and
    /// zones. All other frames are pinned. The blocks are placed at random, never so that two of them below the largest
    /// order of the file would join. An allocator with as many orders as the file has columns therefore starts with
    /// exactly the counts of the file; with more orders, neighbouring blocks of the file's largest order join, as they
    /// would on such a kernel.
    BuddyInfo {
        /// The copy.
        path: PathBuf,
        /// Same seed, same places.
        seed: u64,
    },
}

impl Fragmentation {
    /// The memory of `frames` frames (`None`: unlimited) with this fragmentation. A copy of buddyinfo without a number
    /// of frames gives the smallest memory that holds its blocks ([`Fragmentation::BuddyInfo`]). The error names file,
    /// line, value and what is allowed.
    pub fn resolve(&self, frames: Option<u64>) -> Result<PhysicalMemory, String> {
        match self {
            Fragmentation::None => Ok(PhysicalMemory::new(frames, PinnedSet::default())),
            Fragmentation::Fraction { fraction, seed } => {
                let frames = finite(&format!("fragmentation = {fraction}"), frames)?;
                if !(0.0..1.0).contains(fraction) {
                    return Err(format!(
                        "fragmentation = {fraction} is not allowed: it must be at least 0 and below 1"
                    ));
                }
                Ok(scattered(frames, share(*fraction, frames), *seed))
            }
            Fragmentation::Pattern(path) => {
                let name = path.display().to_string();
                let frames = finite(&format!("pattern = {name}"), frames)?;
                let text = text_file::read(path, MOST_PATTERN_BYTES).map_err(|e| format!("{name}: {e}"))?;
                pattern(&text, frames).map_err(|e| format!("{name}: {e}"))
            }
            Fragmentation::BuddyInfo { path, seed } => {
                let name = path.display().to_string();
                let text = text_file::read(path, MOST_BUDDYINFO_BYTES).map_err(|e| format!("{name}: {e}"))?;
                let counts = buddyinfo(&text).map_err(|e| format!("{name}: {e}"))?;
                placed(&counts, frames, *seed).map_err(|e| format!("{name}: {e}"))
            }
        }
    }
}

fn finite(setting: &str, frames: Option<u64>) -> Result<u64, String> {
    match frames {
        None => Err(format!("{setting} needs a memory with an end: give memory, such as memory=1G")),
        Some(n) if n > MOST_FRAMES => {
            Err(format!("{setting} allows a memory of at most {MOST_FRAMES} frames, not {n}: give a smaller memory"))
        }
        Some(n) => Ok(n),
    }
}

/// The random numbers for one `purpose` of a seed; purposes must not share a stream.
pub(super) fn rng(seed: u64, purpose: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A uniform number below `n`. Written out, so that results do not depend on the version of the random library.
pub(super) fn below(rng: &mut Pcg64Mcg, n: u64) -> u64 {
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(n);
        let low = product as u64;
        // The lowest `2^64 mod n` remainders would be drawn too often.
        if low >= n || low >= n.wrapping_neg() % n {
            return (product >> 64) as u64;
        }
    }
}

/// floor(fraction × frames) for the decimal fraction the user wrote: 0.29 of 100 is 29, though 0.29 in binary is a
/// little less.
fn share(fraction: f64, frames: u64) -> u64 {
    (fraction * frames as f64 * (1.0 + 2.0 * f64::EPSILON)).floor() as u64
}

/// `pinned` of `frames` frames, every choice equally likely (Floyd's sampling).
fn scattered(frames: u64, pinned: u64, seed: u64) -> PhysicalMemory {
    let (mut rng, mut bits) = (rng(seed, 0), Bits::default());
    for last in frames - pinned..frames {
        let draw = below(&mut rng, last + 1);
        let frame = if bits.has(draw) { last } else { draw };
        bits.set(frame..frame + 1);
    }
    PhysicalMemory::new(Some(frames), bits.into())
}

/// Of the frames of others, those in a `share` of the aligned groups of `group` frames may be moved.
pub(super) fn may_move(memory: PhysicalMemory, group: u64, share: f64, seed: u64) -> PhysicalMemory {
    const ALL: u64 = 1 << 32;
    let mut rng = rng(seed, 3);
    memory.with_movable(group, |_| (below(&mut rng, ALL) as f64) < share * ALL as f64)
}

fn pattern(text: &str, frames: u64) -> Result<PhysicalMemory, String> {
    let mut bits = Bits::default();
    for (number, line) in text.lines().enumerate() {
        let item = line.split('#').next().unwrap_or_default().trim();
        let refuse = |what: String| format!("line {}: '{item}': {what}", number + 1);
        let words: Vec<&str> = item.split_whitespace().collect();
        match words[..] {
            [] => {}
            ["every", every, "offset", offset] => match (every.parse::<u64>(), offset.parse::<u64>()) {
                (Ok(every), Ok(offset)) if offset < every => {
                    let mut frame = offset;
                    while frame < frames {
                        bits.set(frame..frame + 1);
                        frame = frame.saturating_add(every);
                    }
                }
                _ => return Err(refuse("'every N offset K' wants whole numbers, K below N".to_owned())),
            },
            [one] => {
                let (first, last) = one.split_once('-').unwrap_or((one, one));
                match (first.parse::<u64>(), last.parse::<u64>()) {
                    (Ok(first), Ok(last)) if first <= last && last < frames => bits.set(first..last + 1),
                    (Ok(first), Ok(last)) if first <= last => {
                        return Err(refuse(format!(
                            "the memory has {frames} frames, numbered from 0; give larger memory"
                        )));
                    }
                    (Ok(_), Ok(_)) => return Err(refuse("a range goes from the lower frame to the higher".to_owned())),
                    _ => return Err(refuse(ALLOWED.to_owned())),
                }
            }
            _ => return Err(refuse(ALLOWED.to_owned())),
        }
    }
    Ok(PhysicalMemory::new(Some(frames), bits.into()))
}

const ALLOWED: &str = "allowed are a frame '17', a range '32-47', or 'every 16 offset 3'";

/// Free blocks by order, summed over all zones.
fn buddyinfo(text: &str) -> Result<Vec<u64>, String> {
    let mut sums: Vec<u64> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let refuse = |what: String| format!("line {}: {what}", number + 1);
        let zone = match (words.next(), words.next(), words.next(), words.next()) {
            (None, ..) => continue,
            (Some("Node"), Some(_), Some("zone"), Some(zone)) => zone,
            _ => return Err(refuse(format!("'{}' does not read 'Node 0, zone Normal 216 55 ...'", line.trim()))),
        };
        let count = |word: &str| {
            let n = word.parse().ok().filter(|&n: &u64| n <= MOST_FRAMES);
            n.ok_or_else(|| refuse(format!("'{word}' is not a number of free blocks, 0 to {MOST_FRAMES}")))
        };
        let counts = words.map(count).collect::<Result<Vec<u64>, String>>()?;
        if sums.is_empty() {
            sums = vec![0; counts.len()];
        }
        if counts.is_empty() || counts.len() > MOST_ORDERS || counts.len() != sums.len() {
            let wanted = if sums.is_empty() { format!("1 to {MOST_ORDERS}") } else { format!("{}", sums.len()) };
            return Err(refuse(format!("zone {zone} has {} orders, not {wanted}", counts.len())));
        }
        sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
    }
    if sums.iter().all(|&n| n == 0) {
        return Err("there is no free block; a line reads 'Node 0, zone Normal 216 55 ...'".to_owned());
    }
    Ok(sums)
}

/// Frames of the smallest memory with `counts[order]` free blocks that do not join. In each order, upwards, a free
/// block needs a buddy that is not one free block. Groups of smaller blocks serve as buddies; missing ones are wholly
/// pinned. Blocks of the largest order need no buddy.
fn smallest(counts: &[u64]) -> u128 {
    let (top, lower) = counts.split_last().map_or((0, counts), |(n, rest)| (u128::from(*n), rest));
    let others = lower.iter().map(|&n| u128::from(n)).fold(0, |others: u128, n| (n + others.max(n)).div_ceil(2));
    (others + top) << lower.len()
}

/// A memory with `counts[order]` free blocks placed uniformly among the places that remain, largest first; the rest is
/// pinned.
fn placed(counts: &[u64], frames: Option<u64>, seed: u64) -> Result<PhysicalMemory, String> {
    let needed = smallest(counts);
    let frames = match frames {
        Some(n) if u128::from(n) < needed => {
            return Err(format!(
                "these free blocks need at least {needed} frames, the memory has {n}; give larger memory"
            ));
        }
        Some(n) => n,
        None => u64::try_from(needed).unwrap_or(u64::MAX),
    };
    let frames = finite("this copy of buddyinfo", Some(frames))?;
    let (mut rng, mut bits) = (rng(seed, 1), Bits::default());
    bits.set(0..frames);
    let top = counts.len() - 1;
    let places = frames >> top;
    // Groups of the current size that are wholly pinned so far.
    let mut left = places;
    for (order, &count) in counts.iter().enumerate().rev() {
        // Below the largest order, a block takes one half of a pinned group of twice its size. The other half never
        // becomes free as a whole, so the two never join.
        let halves = u32::from(order < top);
        let size = 1u64 << (order as u32 + halves);
        let (mut wanted, mut candidates) = (count, left);
        let mut start = 0;
        while wanted > 0 {
            if bits.has_all(start..start + size) {
                if below(&mut rng, candidates) < wanted {
                    let block = size >> halves;
                    let at = if halves == 1 && below(&mut rng, 2) == 1 { start + block } else { start };
                    bits.clear(at..at + block);
                    wanted -= 1;
                }
                candidates -= 1;
            }
            start += size;
        }
        left = (left << halves) - count;
    }
    Ok(PhysicalMemory::new(Some(frames), bits.into()))
}

/// For the fuzzer: a text is refused, or describes a memory of 65536 frames that agrees with it.
#[doc(hidden)]
pub fn fuzz(text: &str) {
    const FRAMES: u64 = 1 << 16;
    if let Ok(memory) = pattern(text, FRAMES) {
        assert_eq!(memory.frames(), Some(FRAMES));
    }
    if let Ok(counts) = buddyinfo(text)
        && let Ok(memory) = placed(&counts, Some(FRAMES), 0)
    {
        let free: u64 = counts.iter().enumerate().map(|(order, n)| n << order).sum();
        assert_eq!(memory.pinned().count(), FRAMES - free, "{counts:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_memory_for_free_blocks() {
        // One block of 1: it and its pinned buddy. One each of 1 and 2: four frames, one of them pinned.
        for (counts, frames) in [
            (vec![1], 1),
            (vec![1, 0], 2),
            (vec![1, 1], 4),
            (vec![1, 1, 0], 4),
            (vec![0, 2, 0], 8),
            (vec![3, 0, 0], 8),
            (vec![0, 0, 5], 20),
        ] {
            assert_eq!(smallest(&counts), frames, "{counts:?}");
        }
    }

    #[test]
    fn a_share_is_that_of_the_decimal_fraction() {
        for (fraction, frames, pinned) in
            [(0.29, 100, 29), (0.3, 10, 3), (0.5, 7, 3), (0.0, 9, 0), (0.99, 1 << 32, 4252017623)]
        {
            assert_eq!(share(fraction, frames), pinned);
        }
    }
}
