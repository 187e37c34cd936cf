//! AArch64: granules of 4, 16 and 64 KB, both halves, 52 bits (2.2). No write of a register drops anything.

use super::{Found, Memory, Mistake, Registers, Rights, bit, bits, word};

const HA: u32 = 39;
const HD: u32 = 40;
const DS: u32 = 59;

pub fn tag(registers: &Registers) -> u16 {
    let tcr = registers.control;
    let ttbr = if bit(tcr, 22) { registers.root1 } else { registers.root0 };
    let asid = (ttbr >> 48) as u16;
    if bit(tcr, 36) { asid } else { asid & 0xff }
}

/// The upper or the lower half, as TCR has it.
struct Half {
    ttbr: u64,
    /// Bits of an address that are translated.
    input: u32,
    /// Log2 of the bytes of a granule.
    granule: u32,
    disabled: bool,
    /// Table descriptors have no rights.
    flat: bool,
}

fn half(registers: &Registers, upper: bool) -> Half {
    let tcr = registers.control;
    let field = |low: u32, bits: u32| tcr >> low & ((1 << bits) - 1);
    if upper {
        let granule = [0, 14, 12, 16][field(30, 2) as usize];
        let input = 64 - field(16, 6) as u32;
        Half { ttbr: registers.root1, input, granule, disabled: bit(tcr, 23), flat: bit(tcr, 42) }
    } else {
        let granule = [12, 16, 14, 0][field(14, 2) as usize];
        let input = 64 - field(0, 6) as u32;
        Half { ttbr: registers.root0, input, granule, disabled: bit(tcr, 7), flat: bit(tcr, 41) }
    }
}

pub fn walk(memory: &Memory, registers: &Registers, page: u64, mistake: Option<Mistake>) -> Option<Found> {
    let tcr = registers.control;
    let address = page << 12;
    let upper = bit(address, 56);
    let Half { ttbr, input, granule, disabled, flat } = half(registers, upper);
    if disabled || granule == 0 {
        return None;
    }
    // Bits 55 and below, down to those that are translated, choose the half. Bit 56 of the stream is a copy of 55.
    if address >> input != if upper { (1 << (57 - input)) - 1 } else { 0 } {
        return None;
    }
    let wide = bit(tcr, DS) && granule < 16 || granule == 16 && tcr >> 32 & 7 == 6;
    let mut table = bits(ttbr, 47, 1);
    if wide {
        table = bits(ttbr, 47, 6) | bits(ttbr, 5, 2) << 46;
    }
    let stride = granule - 3;
    let levels = (input - granule).div_ceil(stride);
    let (mut user, mut write, mut user_exec, mut kernel_exec) = (true, true, true, true);
    for level in (0..levels).rev() {
        let low = granule + level * stride;
        let index =
            if level == levels - 1 { bits(address, input - 1, low) } else { bits(address, low + stride - 1, low) };
        let place = table + 8 * (index >> low);
        let entry = word(memory, place);
        let is_leaf = match (level, entry & 3) {
            (0, 3) => true,
            (_, 3) => false,
            (1, 1) => true,
            (2, 1) if granule == 12 => true,
            _ => return None,
        };
        if !is_leaf {
            if !flat && mistake != Some(Mistake::LeafRights) {
                user &= !bit(entry, 61);
                write &= !bit(entry, 62);
                user_exec &= !bit(entry, 60);
                kernel_exec &= !bit(entry, 59);
            }
            table = output(entry, granule, granule, wide);
            continue;
        }
        if !bit(entry, 10) && !bit(tcr, HA) {
            return None;
        }
        user &= bit(entry, 6);
        write &= !bit(entry, 7) || bit(entry, 51) && bit(tcr, HD);
        user_exec &= !bit(entry, 54);
        kernel_exec &= !bit(entry, 53);
        let run = if mistake == Some(Mistake::DropsContiguous) { 0 } else { run(granule, level) };
        let frame = |entry| output(entry, low, granule, wide);
        let whole = run > 0 && contiguous(memory, place, run, low, bit(tcr, HD), frame);
        let size = if whole { low + run } else { low };
        let frame = (frame(entry) | if low > 12 { bits(address, low - 1, 12) } else { 0 }) >> 12;
        let rights = Rights { user, write, user_exec, kernel_exec };
        let global = !bit(entry, 11) && mistake != Some(Mistake::IgnoresGlobal);
        return Some(Found { frame, order: size - 12, leaf: low - 12, rights, global });
    }
    unreachable!("the last level is a leaf")
}

/// The address in a descriptor whose leaf, or table, is aligned to `2^low` bytes.
fn output(entry: u64, low: u32, granule: u32, wide: bool) -> u64 {
    match (wide, granule) {
        (false, _) => bits(entry, 47, low),
        (true, 16) => bits(entry, 47, low) | bits(entry, 15, 12) << 36,
        (true, _) => bits(entry, 49, low) | bits(entry, 9, 8) << 42,
    }
}

/// Log2 of the entries of a contiguous run.
fn run(granule: u32, level: u32) -> u32 {
    match (granule, level) {
        (12, 0 | 1) => 4,
        (14, 0) => 7,
        (14, 1) => 5,
        (16, 0 | 1) => 5,
        _ => 0,
    }
}

/// OZ-3.
fn contiguous(m: &Memory, place: u64, run: u32, low: u32, sets_d: bool, frame: impl Fn(u64) -> u64) -> bool {
    let first = place >> (run + 3) << (run + 3);
    let entries: Vec<u64> = (0..1u64 << run).map(|i| word(m, first + 8 * i)).collect();
    // AF, and D: AP[2] where DBM is set.
    let alike = |entry: u64| {
        let ignored = 1 << 10 | if sets_d && bit(entry, 51) { 1 << 7 } else { 0 };
        let address = bits(u64::MAX, 49, 12) | bits(u64::MAX, 9, 8);
        entry & !ignored & !address
    };
    let start = frame(entries[0]);
    start.is_multiple_of(1 << (low + run))
        && entries.iter().all(|entry| bit(*entry, 52) && alike(*entry) == alike(entries[0]))
        && (0..).zip(&entries).all(|(i, entry)| frame(*entry) == start + (i << low))
}
