//! LZW compression of many files: a hash table probed at random, one stream of input, one stream of output.
//!
//! The heap is given out in segments of 64 KB. The table takes whole segments. Each file of 32 KB is read into a
//! segment of its own and uses only half of it. So a superpage of 32 KB can hold a file, and a superpage of 64 KB is at
//! most half used there.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "lzw",
    class: "compression",
    stands_for: "compress",
    about: "LZW: random probes of a hash table, files streamed through half-used segments",
    default_size: 3_481 << 10,
    small_size: 640 << 10,
    smallest: 320 << 10,
    largest: 1 << 30,
    layout: Layout::Heap,
    text_pages: 2,
    traced: run::<Traced>,
    native: run::<Native>,
};

const SEGMENT: usize = 64 << 10;
/// A slot is 8 bytes: prefix and character in the upper half, 1 + code in the lower; 0 is free.
const SLOT: usize = 8;
const FILE: usize = SEGMENT / 2;
/// The code that empties the table, and the first one of a string.
const CLEAR: u32 = 256;
const FIRST: u32 = 257;
/// Codes between two looks at the ratio.
const LOOK: u64 = 10_000;

/// A text of words by Zipf's law. Its vocabulary changes slowly, as that of a collection of files does.
pub struct Text {
    rng: Rng,
    words: Vec<Vec<u8>>,
    word: Vec<u8>,
}

impl Text {
    /// An endless text.
    pub fn new(seed: u64) -> Text {
        let mut rng = Rng::new(seed);
        let words = (0..4096).map(|_| Text::invent(&mut rng)).collect();
        Text { rng, words, word: Vec::new() }
    }

    fn invent(rng: &mut Rng) -> Vec<u8> {
        const LETTERS: &[u8] = b"etaoinshrdlcumwfgypbvkjxqz";
        (0..2 + rng.below(8)).map(|_| LETTERS[rng.zipf(LETTERS.len())]).collect()
    }
}

impl Iterator for Text {
    type Item = u8;
    fn next(&mut self) -> Option<u8> {
        if self.word.is_empty() {
            if self.rng.below(64) == 0 {
                let at = self.rng.below(self.words.len());
                self.words[at] = Text::invent(&mut self.rng);
            }
            self.word.push(b' ');
            let at = self.rng.zipf(self.words.len());
            self.word.extend(self.words[at].iter().rev());
        }
        self.word.pop()
    }
}

struct Lzw<M: Memory> {
    table: M::Array<u64>,
    files: Vec<M::Array<u8>>,
    output: M::Array<u32>,
    slots: usize,
    /// Bits of a code, and the most codes there may be: three for every four slots.
    bits: u32,
    most: u32,
    next: u32,
    /// Bits that do not fill a word yet, and words written.
    waiting: u64,
    waiting_bits: u32,
    written: usize,
}

impl<M: Memory> Lzw<M> {
    fn new(m: &mut M, s: &Settings) -> Lzw<M> {
        // One segment for the output, three of ten for files, the rest for the table. They come first on the heap, so
        // that segments begin at multiples of their size.
        let segments = s.size as usize / SEGMENT - 1;
        let files = (segments * 3 / 10).max(1);
        let slots = (segments - files) * SEGMENT / SLOT;
        let most = (slots * 3 / 4) as u32;
        let table = m.array(slots);
        let files = (0..files).map(|_| m.array(SEGMENT)).collect();
        let output = m.array(SEGMENT / 4);
        let bits = u32::BITS - most.leading_zeros();
        Lzw { table, files, output, slots, bits, most, next: FIRST, waiting: 0, waiting_bits: 0, written: 0 }
    }

    /// The slot for a string, and its contents: the string, or nothing.
    fn find(&mut self, m: &mut M, prefix: u32, character: u8) -> (usize, u64) {
        const PROBE: Site = site(0, 0);
        const AGAIN: Site = site(0, 1);
        let key = prefix << 8 | u32::from(character);
        let hash = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = ((u128::from(hash) * self.slots as u128) >> 64) as usize;
        let mut held = m.load(PROBE, &self.table, slot);
        let step = 1 + (hash & 0xff) as usize;
        while held != 0 && (held >> 32) as u32 != key {
            slot = (slot + step) % self.slots;
            held = m.load(AGAIN, &self.table, slot);
        }
        (slot, held)
    }

    fn put(&mut self, m: &mut M, code: u32) {
        const OUT: Site = site(0, 3);
        self.waiting |= u64::from(code) << self.waiting_bits;
        self.waiting_bits += self.bits;
        if self.waiting_bits >= 32 {
            m.store(OUT, &mut self.output, self.written % (SEGMENT / 4), self.waiting as u32);
            self.written += 1;
            self.waiting >>= 32;
            self.waiting_bits -= 32;
        }
    }

    fn clear(&mut self, m: &mut M) {
        const EMPTY: Site = site(1, 0);
        for slot in 0..self.slots {
            m.store(EMPTY, &mut self.table, slot, 0);
        }
        self.next = FIRST;
    }

    /// Compresses until the reference budget or the text is used up. `each` gets every code.
    fn compress(&mut self, m: &mut M, mut text: impl Iterator<Item = u8>, mut each: impl FnMut(u32)) {
        const IN: Site = site(0, 4);
        const NEW: Site = site(0, 5);
        let (mut prefix, mut taken, mut codes, mut best) = (None, 0u64, 0u64, 0u64);
        for file in (0..self.files.len()).cycle() {
            let chunk: Vec<u8> = text.by_ref().take(FILE).collect();
            m.read(&mut self.files[file], chunk.iter().copied());
            for i in 0..chunk.len() {
                let character = m.load(IN, &self.files[file], i);
                taken += 1;
                let Some(before) = prefix else {
                    prefix = Some(u32::from(character));
                    continue;
                };
                let (slot, held) = self.find(m, before, character);
                if held != 0 {
                    prefix = Some(held as u32 - 1);
                    continue;
                }
                self.put(m, before);
                each(before);
                codes += 1;
                prefix = Some(u32::from(character));
                if self.next < self.most {
                    let key = u64::from(before << 8 | u32::from(character));
                    m.store(NEW, &mut self.table, slot, key << 32 | u64::from(self.next + 1));
                    self.next += 1;
                } else if codes >= LOOK {
                    // A full table is kept as long as its compression ratio does not fall.
                    let ratio = taken * 256 / codes;
                    if ratio < best {
                        self.clear(m);
                        self.put(m, CLEAR);
                        each(CLEAR);
                        best = 0;
                    } else {
                        best = ratio;
                    }
                    (taken, codes) = (0, 0);
                }
                if !m.budget_left() {
                    break;
                }
            }
            if chunk.len() < FILE || !m.budget_left() {
                break;
            }
        }
        if let Some(last) = prefix {
            self.put(m, last);
            each(last);
        }
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut sum = 0u64;
    Lzw::new(m, s).compress(m, Text::new(s.seed), |code| sum = sum.rotate_left(7) ^ u64::from(code));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decompress(codes: &[u32], most: u32) -> Vec<u8> {
        let mut out: Vec<u8> = Vec::new();
        let mut strings: Vec<Vec<u8>> = (0..FIRST).map(|c| vec![c as u8]).collect();
        let mut before: Option<Vec<u8>> = None;
        for &code in codes {
            if code == CLEAR {
                strings.truncate(FIRST as usize);
                // The string before was not entered: the table was full.
                before = None;
                continue;
            }
            let string = match (strings.get(code as usize), &before) {
                (Some(string), _) => string.clone(),
                (None, Some(before)) => [&before[..], &before[..1]].concat(),
                (None, None) => panic!("code {code} without a string"),
            };
            if let Some(mut entry) = before.take()
                && (strings.len() as u32) < most
            {
                entry.push(string[0]);
                strings.push(entry);
            }
            out.extend(&string);
            before = Some(string);
        }
        out
    }

    #[test]
    fn decompression_gives_the_text_back() {
        for (size, len) in [(320 << 10, 3_000_000), (4 << 20, 500_000)] {
            let mut m = Native::new(u64::MAX);
            let mut lzw = Lzw::new(&mut m, &Settings { size, references: 1, seed: 0 });
            let text: Vec<u8> = Text::new(9).take(len).collect();
            let mut codes = Vec::new();
            lzw.compress(&mut m, text.iter().copied(), |code| codes.push(code));
            assert!(codes.len() < len / 2, "it compresses: {}", codes.len());
            assert_eq!(codes.contains(&CLEAR), len == 3_000_000, "the small table was cleared");
            assert!(decompress(&codes, lzw.most) == text);
            assert!(codes.iter().all(|&code| code >> lzw.bits == 0));
        }
    }

    #[test]
    fn the_second_half_of_a_file_s_segment_is_not_touched() {
        let mut m = Native::new(u64::MAX);
        let mut lzw = Lzw::new(&mut m, &Settings { size: 1 << 20, references: 1, seed: 0 });
        lzw.compress(&mut m, Text::new(1).take(500_000), drop);
        assert_eq!(lzw.files.len(), 4);
        for file in lzw.files {
            assert!(file[..FILE].iter().all(|&c| c != 0) && file[FILE..].iter().all(|&c| c == 0));
        }
    }
}
