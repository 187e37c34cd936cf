//! `/sys/kernel/mm/page_idle/bitmap`: a bit for each frame. Writing a 1 marks it as idle; the mark is gone once the
//! page was used. Frames that the kernel cannot mark, such as those of hugetlbfs, count as used.

use super::clear_refs::Flush;
use super::frames::{Framed, framed, ranges};
use super::{Present, Seen, Watcher};
use crate::rights::{self, Right};
use crate::tries::{Failure, Tried};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::time::Duration;

const BITMAP: &str = "/sys/kernel/mm/page_idle/bitmap";
/// Frames of a word of the bitmap.
const WORD: u64 = 64;

fn open() -> Result<File, Failure> {
    File::options().read(true).write(true).open(BITMAP).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Failure::new(format!("there is no {BITMAP}")).or_turn_on("a kernel built with CONFIG_IDLE_PAGE_TRACKING")
        }
        ErrorKind::PermissionDenied => Failure::of(BITMAP, error).or_turn_on(rights::wanted(Right::Files, "")),
        _ => Failure::of(BITMAP, error),
    })
}

/// Whether it can be used.
pub fn ready() -> Tried {
    let file = open()?;
    let mut word = [0; 8];
    file.read_exact_at(&mut word, 0).map_err(|e| Failure::of(BITMAP, e))?;
    crate::tries::frames()?;
    Ok("the bitmap was read, and frames are visible".into())
}

/// The marks of the frames of a process.
pub(super) struct IdlePages {
    bitmap: File,
    flush: Flush,
    /// In the order of their pages.
    framed: Vec<Framed>,
}

impl IdlePages {
    pub(super) fn open(pid: i32) -> Result<IdlePages, Failure> {
        ready()?;
        let flush = Flush::open(pid);
        Ok(IdlePages { bitmap: open()?, flush, framed: Vec::new() })
    }

    /// The words that have the frames: their place, and which of their bits.
    fn words(&self) -> BTreeMap<u64, u64> {
        let mut words = BTreeMap::new();
        for Framed { frame, .. } in &self.framed {
            *words.entry(frame / WORD).or_insert(0) |= 1 << (frame % WORD);
        }
        words
    }
}

/// Words that follow each other, for one call: the place of the first, and all.
fn runs(words: BTreeMap<u64, u64>) -> Vec<(u64, Vec<u64>)> {
    let mut runs: Vec<(u64, Vec<u64>)> = Vec::new();
    for (place, word) in words {
        match runs.last_mut() {
            Some((first, words)) if *first + words.len() as u64 == place && words.len() < 512 => words.push(word),
            _ => runs.push((place, vec![word])),
        }
    }
    runs
}

impl Watcher for IdlePages {
    fn begin(&mut self, present: &[Present], _: Duration) -> io::Result<()> {
        self.framed = framed(present)?;
        for (place, words) in runs(self.words()) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            // The kernel takes fewer where frames end.
            self.bitmap.write_at(&bytes, place * 8)?;
        }
        self.flush.flush()
    }

    fn end(&mut self) -> io::Result<Seen> {
        let mut idle: BTreeMap<u64, u64> = BTreeMap::new();
        for (place, words) in runs(self.words()) {
            let mut bytes = vec![0; 8 * words.len()];
            let got = self.bitmap.read_at(&mut bytes, place * 8)?;
            for (i, word) in bytes[..got].chunks_exact(8).enumerate() {
                idle.insert(place + i as u64, u64::from_ne_bytes(word.try_into().expect("eight bytes")));
            }
        }
        let is_idle = |frame: u64| idle.get(&(frame / WORD)).is_some_and(|word| word >> (frame % WORD) & 1 == 1);
        let used = self.framed.iter().filter(|framed| !is_idle(framed.frame)).map(|framed| framed.page);
        Ok(Seen::Pages(ranges(used)))
    }

    fn flushes(&self) -> bool {
        self.flush.works()
    }

    fn waits(&self) -> [Duration; 2] {
        self.flush.waits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_side_by_side_are_one_call() {
        let words = BTreeMap::from([(3, 1), (4, 2), (7, 4)]);
        assert_eq!(runs(words), [(3, vec![1, 2]), (7, vec![4])]);
    }
}
