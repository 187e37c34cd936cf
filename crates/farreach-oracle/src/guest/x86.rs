//! x86-64: four or five levels, and what writes of CR3 and CR4 drop (2.1).

use super::tlb::Dropped;
use super::{Found, Memory, Mistake, Registers, Rights, bit, bits, word};
use farreach_types::addr::GUEST_ADDRESS_BITS;
use farreach_types::event::Register;

const PSE: u32 = 4;
const PAE: u32 = 5;
const PGE: u32 = 7;
const LA57: u32 = 12;
const PCIDE: u32 = 17;
const SMEP: u32 = 20;

pub fn tag(registers: &Registers) -> u16 {
    if bit(registers.control, PCIDE) { bits(registers.root0, 11, 0) as u16 } else { 0 }
}

pub fn walk(memory: &Memory, registers: &Registers, page: u64, mistake: Option<Mistake>) -> Option<Found> {
    let levels = if bit(registers.control, LA57) { 5 } else { 4 };
    // Bits above the last that is translated are its copies.
    let copies = page >> (9 * levels - 1);
    if copies != 0 && copies != (1 << (GUEST_ADDRESS_BITS - 12 - 9 * levels + 1)) - 1 {
        return None;
    }
    let mut table = bits(registers.root0, 51, 12);
    let (mut write, mut user, mut exec) = (true, true, true);
    for level in (0..levels).rev() {
        let entry = word(memory, table + 8 * (page >> (9 * level) & 511));
        if !bit(entry, 0) {
            return None;
        }
        if mistake == Some(Mistake::LeafRights) {
            (write, user, exec) = (true, true, true);
        }
        write &= bit(entry, 1);
        user &= bit(entry, 2);
        exec &= !bit(entry, 63);
        if level > 0 && !bit(entry, 7) {
            table = bits(entry, 51, 12);
            continue;
        }
        // A large leaf of 512 GB or more is a reserved bit.
        if level > 2 {
            return None;
        }
        let size = 9 * level;
        let mut first = bits(entry, 51, 12 + size) >> 12;
        if level > 0 && mistake == Some(Mistake::PatInAddress) {
            first |= bits(entry, 12, 12) >> 12;
        }
        let rights = Rights { user, write, user_exec: user && exec, kernel_exec: exec };
        let global = bit(entry, 8) && bit(registers.control, PGE) && mistake != Some(Mistake::IgnoresGlobal);
        return Some(Found { frame: first + (page & ((1 << size) - 1)), order: size, leaf: size, rights, global });
    }
    unreachable!("the last level is a leaf")
}

/// What a write drops, by the registers before it.
pub fn written(before: &Registers, register: Register, value: u64, mistake: Option<Mistake>) -> Dropped {
    match register {
        Register::Root0 if !bit(before.control, PCIDE) || mistake == Some(Mistake::ForgetsPcide) => Dropped::NotGlobal,
        Register::Root0 if bit(value, 63) && mistake != Some(Mistake::ForgetsBit63) => Dropped::Nothing,
        Register::Root0 => Dropped::Tagged(bits(value, 11, 0) as u16),
        Register::Root1 => Dropped::Nothing,
        Register::Control => {
            let (old, new) = (before.control, value);
            let changed = [PGE, PAE, LA57, PSE].iter().any(|at| bit(old ^ new, *at));
            let all = changed || bit(old, PCIDE) && !bit(new, PCIDE) || !bit(old, SMEP) && bit(new, SMEP);
            if all && mistake != Some(Mistake::KeepsAtCr4) { Dropped::All } else { Dropped::Nothing }
        }
    }
}
