//! Frames by which the kernel keeps the used bits of pages: those of a larger folio are kept at its first frame.

use super::Present;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A flag of /proc/kpageflags: a further frame of a larger folio.
const TAIL: u64 = 1 << 16;
/// Frames read at a time; a folio is at most as large and aligned to its size.
const CHUNK: u64 = 512;

/// Pages and the frame that stands for each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Framed {
    pub page: u64,
    pub frame: u64,
}

/// The frame that stands for each present page, in the order of the pages. Pages without a visible frame are left out.
pub(super) fn framed(present: &[Present]) -> io::Result<Vec<Framed>> {
    let flags = File::open("/proc/kpageflags")?;
    let mut chunk = Chunk { file: &flags, first: u64::MAX, flags: Vec::new() };
    let mut all = Vec::new();
    for Present { pages, frame } in present {
        let Some(frame) = frame else { continue };
        for page in pages.clone() {
            all.push(Framed { page, frame: chunk.head(frame + (page - pages.start))? });
        }
    }
    Ok(all)
}

/// Flags of frames, some at a time.
struct Chunk<'a> {
    file: &'a File,
    first: u64,
    flags: Vec<u64>,
}

impl Chunk<'_> {
    /// The first frame of the folio of this frame.
    fn head(&mut self, frame: u64) -> io::Result<u64> {
        let first = frame / CHUNK * CHUNK;
        if first != self.first {
            let mut bytes = vec![0; 8 * CHUNK as usize];
            self.file.read_exact_at(&mut bytes, first * 8)?;
            let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            self.flags = bytes.chunks_exact(8).map(word).collect();
            self.first = first;
        }
        Ok(first + head(&self.flags, (frame - first) as usize) as u64)
    }
}

/// The nearest place at or before this one that is not a tail.
fn head(flags: &[u64], at: usize) -> usize {
    (0..=at).rev().find(|&i| flags[i] & TAIL == 0).unwrap_or(0)
}

/// Pages, ascending, in ranges.
pub(super) fn ranges(pages: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for page in pages {
        match ranges.last_mut() {
            Some(last) if last.end == page => last.end += 1,
            _ => ranges.push(page..page + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_lead_to_their_heads() {
        let flags = [0, 0, TAIL, TAIL, 0, TAIL];
        assert_eq!([0, 1, 2, 3, 4, 5].map(|at| head(&flags, at)), [0, 1, 1, 1, 4, 4]);
        assert_eq!(ranges([1, 2, 5, 6, 7, 9]), [1..3, 5..8, 9..10]);
    }
}
