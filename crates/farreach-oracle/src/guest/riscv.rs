//! RISC-V: Sv39, Sv48 and Sv57, Svnapot (2.3). No write of a register drops anything.

use super::{Found, Memory, Mistake, Registers, Rights, bit, bits, word};

const V: u32 = 0;
const R: u32 = 1;
const W: u32 = 2;
const X: u32 = 3;
const U: u32 = 4;
const G: u32 = 5;
const N: u32 = 63;

pub fn tag(registers: &Registers) -> u16 {
    (bits(registers.root0, 59, 44) >> 44) as u16
}

pub fn walk(memory: &Memory, registers: &Registers, page: u64, mistake: Option<Mistake>) -> Option<Found> {
    let satp = registers.root0;
    let levels = match satp >> 60 {
        8 => 3,
        9 => 4,
        10 => 5,
        _ => return None,
    };
    // Bits above the last that is translated are its copies, up to bit 56 of the address.
    let copies = page >> (9 * levels - 1);
    if copies != 0 && copies != (1 << (46 - 9 * levels)) - 1 {
        return None;
    }
    let mut table = bits(satp, 43, 0) << 12;
    let mut global = false;
    for level in (0..levels).rev() {
        let place = table + 8 * (page >> (9 * level) & 511);
        let entry = word(memory, place);
        let has = |at| bit(entry, at);
        // Writable and not readable is reserved.
        if !has(V) || has(W) && !has(R) {
            return None;
        }
        if mistake == Some(Mistake::LeafRights) {
            global = false;
        }
        global |= has(G);
        let frame = bits(entry, 53, 10) >> 10;
        if !has(R) && !has(X) {
            table = frame << 12;
            continue;
        }
        // No guest has a leaf of 512 GB.
        if level > 2 {
            return None;
        }
        let rights =
            Rights { user: has(U), write: has(W), user_exec: has(X) && has(U), kernel_exec: has(X) && !has(U) };
        let global = global && mistake != Some(Mistake::IgnoresGlobal);
        let size = 9 * level;
        let first = bits(frame, 43, size);
        if level == 0 && napot(entry) {
            let alone = mistake == Some(Mistake::DropsContiguous);
            let order = if alone || !contiguous(memory, place) { 0 } else { 4 };
            return Some(Found { frame: bits(frame, 43, 4) | page & 15, order, leaf: 0, rights, global });
        }
        return Some(Found { frame: first | page & ((1 << size) - 1), order: size, leaf: size, rights, global });
    }
    None
}

/// One of 16 entries for 64 KB.
fn napot(entry: u64) -> bool {
    bit(entry, N) && bits(entry, 13, 10) >> 10 == 8
}

/// OZ-3: they are alike but for A and D, and the bits for software.
fn contiguous(memory: &Memory, place: u64) -> bool {
    let first = place & !127;
    let alike = |at: u64| {
        let entry = word(memory, first + 8 * at);
        napot(entry).then_some(entry & !0x3c0)
    };
    alike(0).is_some() && (1..16).all(|at| alike(at) == alike(0))
}
