//! The examples of the rules row by row, planted faults, and random programs.

mod fbr;
mod nav;
mod planted;
mod qks;

use super::*;
use crate::dice::Dice;

const RW: u8 = READ | WRITE;

/// An object that process 1 maps wholly, at an aligned address of its own.
fn mapped(model: &mut impl Policy, kind: Kind, grows: Grows, pages: u64) -> (usize, u64) {
    let object = model.object(kind, grows, 0..pages);
    let at = object as u64 * 1024;
    model.map(1, at, object, 0..pages, RW);
    (object, at)
}

fn touch(model: &mut impl Policy, vpn: u64, access: Access) -> u64 {
    model.touch(1, vpn, access).expect("a frame").frame
}

fn touch_all(model: &mut impl Policy, vpns: Range<u64>, access: Access) {
    for vpn in vpns {
        touch(model, vpn, access);
    }
}

/// Random programs have six objects, 512 pages apart: some pages of one.
fn range(dice: &mut Dice) -> Range<u64> {
    let at = 512 * dice.below(6) + dice.pick(&[0, 128]) + dice.below(48);
    at..at + 1 + dice.below(12)
}

/// A run of touches somewhere in a mapping.
fn run(dice: &mut Dice, world: &World) -> Vec<(u32, u64)> {
    if world.mappings().is_empty() {
        return Vec::new();
    }
    let mapping = dice.pick(world.mappings());
    let at = mapping.vpn + dice.below(mapping.vpns().end - mapping.vpn);
    let end = mapping.vpns().end.min(at + 1 + dice.below(20));
    (at..end).map(|vpn| (mapping.process, vpn)).collect()
}
