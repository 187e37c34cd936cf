//! Random words in a few tables that point to each other, against walks by the letter of the manual. Hardware that
//! remembers every translation is told of every one that becomes wrong.

use super::*;
use std::collections::HashMap;

/// Tables are the frames 1 to 8; roots of A and B the first two.
const TABLES: u64 = 8;
const INDICES: [u64; 5] = [0, 1, 255, 256, 511];
const ROOTS: [(Asid, u64); 2] = [(A, 1), (B, 2)];

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % sides
    }
}

/// Memory, and the walk of it.
#[derive(Default)]
struct Memory(HashMap<u64, u64>);

impl Memory {
    fn walk(&self, root: u64, address: u64) -> Option<(u64, u8)> {
        let (mut table, mut write, mut exec) = (root, true, true);
        for level in (0..4).rev() {
            let index = address >> (12 + 9 * level) & 511;
            let word = self.0.get(&(table * 512 + index)).copied().unwrap_or(0);
            if word & 1 == 0 {
                return None;
            }
            write &= word & 2 != 0;
            exec &= word >> 63 == 0;
            let frame = word >> 12 & 0xff_ffff_ffff;
            let large = word & 0x80 != 0 && level > 0;
            if level == 0 || large {
                let pages = 1u64 << (9 * level);
                let attr = Attr::READ | if write { Attr::WRITE } else { 0 } | if exec { Attr::EXEC } else { 0 };
                return (level < 3).then(|| (frame / pages * pages + (address >> 12) % pages, attr));
            }
            table = frame;
        }
        unreachable!("the last level has leaves")
    }
}

fn addresses() -> Vec<u64> {
    let mut all = Vec::new();
    for a in INDICES {
        for b in [0, 1, 511] {
            for c in [0, 255] {
                for d in [1, 511] {
                    let address = a << 39 | b << 30 | c << 21 | d << 12;
                    all.push(if a > 255 { address | 0xffff << 48 } else { address });
                }
            }
        }
    }
    all
}

#[test]
fn walks_and_page_tables_agree() {
    let all = addresses();
    let (mut served, mut stale) = (0, 0);
    for seed in 1..16u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (mut memory, mut known) = (Memory::default(), HashMap::<(u32, u64), (u64, u8)>::new());
        let mut bench = Bench::new(Arch::X86, "");
        bench.register(KERNEL, Register::Control, 0x80);
        let mut running = 0;
        bench.register(KERNEL, Register::Root0, ROOTS[running].1 << 12);
        for _ in 0..400 {
            match dice.roll(20) {
                0 => {
                    running = dice.roll(2) as usize;
                    bench.register(A, Register::Root0, ROOTS[running].1 << 12);
                }
                1..8 => {
                    let (table, index) = (1 + dice.roll(TABLES), INDICES[dice.roll(5) as usize]);
                    let flags = [3, 3, 1, 3 | 1 << 63, 0x83, 0, 0x63][dice.roll(7) as usize];
                    let value = if flags == 0 { 0 } else { (3 + dice.roll(TABLES - 2)) << 12 | flags };
                    // Roots have the same upper halves, but for a moment.
                    let tables = if table <= 2 && index > 255 { vec![1, 2] } else { vec![table] };
                    for table in tables {
                        memory.0.insert(table * 512 + index, value);
                        bench.words(table * 4096 + index * 8, &[value]);
                    }
                }
                _ => {
                    let (asid, root) = ROOTS[running];
                    let address = all[dice.roll(all.len() as u64) as usize];
                    let kind = if dice.roll(2) == 0 { Kind::Load } else { Kind::Store };
                    let got = bench.touch(asid, address, kind).ok().map(|(pfn, attr, _)| (pfn, attr));
                    assert_eq!(got, memory.walk(root, address), "seed {seed}: {address:#x} of {asid:?}");
                    if let Some(got) = got {
                        served += 1;
                        known.insert((if address >> 63 == 1 { 0 } else { asid.0 }, address), got);
                    }
                }
            }
            for (asid, first, pages, what) in bench.changes() {
                let gone = |of: u32, address: u64| {
                    let page = (address & ((1 << 57) - 1)) >> 12;
                    what == What::Stale && of == asid && page >= first && page - first < pages
                };
                let before = known.len();
                known.retain(|&(of, address), _| !gone(of, address));
                stale += before - known.len();
            }
            for (&(asid, address), &translation) in &known {
                let root = if asid == 0 { ROOTS[running].1 } else { u64::from(asid) };
                assert_eq!(Some(translation), memory.walk(root, address), "seed {seed}: {address:#x} of {asid}");
            }
        }
    }
    assert!(served > 300 && stale > 100, "{served} {stale}");
}
