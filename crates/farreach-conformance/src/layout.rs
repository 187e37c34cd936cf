//! Layouts of newly mapped pages: superpages of all orders, runs, and regions with frames in any order.

use crate::table::Extent;
use crate::world::World;
use farreach_types::addr::{Asid, Pfn};
use farreach_types::translation::{Attr, Perforated};

/// Processes.
pub const SPACES: u32 = 3;
/// Places of a process: small ones side by side, and large ones.
pub const PLACES: u64 = SMALL + LARGE;
const SMALL: u64 = 8;
const LARGE: u64 = 3;
/// First page of the small places, and pages of each.
const SMALL_FIRST: u64 = 0x400;
const SMALL_PAGES: u64 = 256;
/// Pages of a large place.
const LARGE_PAGES: u64 = 1 << 19;

/// First page of a place, and its pages.
pub fn pages(place: u64) -> (u64, u64) {
    match place.checked_sub(SMALL) {
        None => (SMALL_FIRST + place * SMALL_PAGES, SMALL_PAGES),
        Some(i) => ((i + 1) * LARGE_PAGES, LARGE_PAGES),
    }
}

pub fn place_of(vpn: u64) -> Option<u64> {
    (0..PLACES).find(|&place| {
        let (first, n) = pages(place);
        (first..first + n).contains(&vpn)
    })
}

/// Unused frames, `skew` above a multiple of `align`.
pub fn frames(world: &mut World, n: u64, align: u64, skew: u64) -> u64 {
    let first = world.frame.next_multiple_of(align) + skew;
    world.frame = first + n;
    first
}

/// The mappings of a place.
pub fn place(world: &mut World, asid: Asid, place: u64) -> Vec<Extent> {
    let (first, n) = pages(place);
    let mut all = Vec::new();
    let attr = attr(world);
    let new = |first, pages, pfn, order, ranged| Extent { asid, first, pages, pfn, attr, order, ranged };
    if n == LARGE_PAGES {
        let ranged = world.percent(50);
        match world.below(4) {
            0 => {
                let pfn = frames(world, 1 << 18, 1 << 18, 0);
                all.push(new(first, 1 << 18, pfn, 18, ranged));
            }
            1 => {
                let (pages, order) = (1024 * (1 + world.below(6)), world.pick(&[9, 9, 10]));
                let pfn = frames(world, pages, 1024, 0);
                all.push(new(first, pages, pfn, order, ranged));
            }
            2 => (0..1 + world.below(2)).for_each(|i| perforated(world, asid, first + 512 * i, attr, &mut all)),
            // A long run, aligned or not, with another one right behind it.
            _ => {
                let (from, pages) = (first + world.below(40), 1 + world.below(700));
                let skew = from % 512 + world.below(2);
                let pfn = frames(world, pages, 512, skew);
                all.push(new(from, pages, pfn, 0, ranged && pages >= 8));
                let pfn = frames(world, 64, 64, 0);
                all.push(new(from + pages, 40, pfn, 0, !ranged));
            }
        }
        return all;
    }
    match world.below(8) {
        0 => {
            let pfn = frames(world, n, n, 0);
            let ranged = world.percent(30);
            all.push(new(first, n, pfn, 8, ranged));
        }
        1 | 2 => {
            let from = world.below(20);
            let pages = n - from - world.below(200);
            let skew = from + world.below(2);
            let pfn = frames(world, n, n, skew);
            let ranged = pages >= 8 && world.percent(60);
            all.push(new(first + from, pages, pfn, 0, ranged));
        }
        _ => (0..n / 16).for_each(|i| region(world, asid, first + 16 * i, &mut all)),
    }
    all
}

/// 2 MB in an aligned block, with holes: pages that lie elsewhere, or are not mapped (PRF-1).
fn perforated(world: &mut World, asid: Asid, first: u64, attr: Attr, into: &mut Vec<Extent>) {
    let (block, elsewhere) = (frames(world, 512, 512, 0), frames(world, 512, 1, 0));
    let mut holes = [0; 8];
    for _ in 0..world.pick(&[0, 1, 3, 20, 100]) {
        let hole = world.below(512);
        holes[(hole / 64) as usize] |= 1 << (hole % 64);
    }
    let is_hole = |page: &u64| holes[(page / 64) as usize] >> (page % 64) & 1 == 1;
    let pages: Vec<u64> = (0..512).collect();
    for run in pages.chunk_by(|one, other| !is_hole(one) && !is_hole(other)) {
        let (page, pages) = (run[0], run.len() as u64);
        let extent = |pfn| Extent { asid, first: first + page, pages, pfn, attr, order: 0, ranged: false };
        match is_hole(&page) {
            false => into.push(extent(block + page)),
            true if world.percent(75) => into.push(extent(elsewhere + page)),
            true => {}
        }
    }
    world.table.perforate(asid, first >> Perforated::ORDER, Perforated { pfn: Pfn(block), attr, holes });
}

fn attr(world: &mut World) -> Attr {
    Attr(world.pick(&[7, 7, 7, 3, 5]))
}

/// Sixteen pages.
fn region(world: &mut World, asid: Asid, first: u64, into: &mut Vec<Extent>) {
    let attr = attr(world);
    let page = |i: u64, pfn| Extent { asid, first: first + i, pages: 1, pfn, attr, order: 0, ranged: false };
    let whole = |pfn, order| Extent { pages: 16, order, ..page(0, pfn) };
    // Two groups of frames that lie one after the other.
    let group = frames(world, 32, 32, 0);
    match world.below(10) {
        0 | 1 => into.push(whole(group, 4)),
        2 => {
            // Four superpages, out of order.
            let key = world.below(4);
            into.extend((0..4).map(|i| Extent { pages: 4, order: 2, ..page(4 * i, group + 4 * (i ^ key)) }));
        }
        3 => into.push(whole(group, 0)),
        4 => into.push(whole(group + 1, 0)),
        5 => into.extend((0..16).map(|i| Extent { attr: Attr(world.pick(&[attr.0, 1, 3])), ..page(i, group + i) })),
        6 => into.extend((0..16).map(|i| page(i, group + 16 * world.below(2) + i))),
        7 => {
            // Aligned, out of order within lines, with holes.
            let key = world.below(8);
            into.extend((0..16).filter_map(|i| world.percent(80).then_some(page(i, group + (i ^ key)))));
        }
        8 => into.extend((0..16).filter_map(|i| world.percent(75).then_some(page(i, group + i)))),
        _ => {
            for i in 0..16 {
                let pfn = frames(world, 1, 1, i % 3);
                into.push(page(i, pfn));
            }
        }
    }
}
