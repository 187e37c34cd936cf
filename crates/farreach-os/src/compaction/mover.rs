//! The frames that move, and their new places. As in Linux, two scanners move towards each other through the blocks of
//! memory. One empties blocks, the other fills free frames of the blocks that stay.
//!
//! Which blocks these are, and in which order, is said by the [way](super::contract::Way). In a *sweep* both go by
//! address: everything movable goes up, so that memory below becomes free. Otherwise a block that cannot be emptied as
//! a whole is left alone, or as soon as that is found.
//!
//! An *extent* moves as a whole: a range (RMM15-1), a superpage, or one page. So compaction never splits contiguous
//! memory. These stay where they are: extents larger than a block; pages that are mapped more than once, or not at all;
//! pages in a direct segment; frames that are set aside, reserved or kept for a process; objects whose frames were
//! chosen by a reservation.

use super::contract::Survey;
use super::policy::Plan;
use crate::bits;
use crate::contract::What;
use crate::os::Os;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::cmp::Reverse;

/// Memory is filled in pieces of a block, but of no more than 2^`GRANULE` frames.
const GRANULE: u32 = 9;

/// The result of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Moved {
    /// Pages copied.
    pub pages: u64,
    /// Of these, frames of other programs.
    pub of_others: u64,
    /// Extents that found no place.
    pub stayed: u64,
    /// Blocks emptied, wholly or, in a sweep, of what can move.
    pub blocks: u64,
}

/// Frames that move together.
#[derive(Clone, Copy, Debug)]
struct Extent {
    first: u64,
    frames: u64,
    /// log2 of the frames of the largest superpage in it.
    align: u32,
    /// First page; `None`: a frame of others.
    page: Option<(Asid, Vpn)>,
}

/// The page mapped to each frame that has exactly one mapping and may move.
pub(crate) type Owners = HashMap<u64, (Asid, Vpn), FixedState>;

/// Pieces of memory to fill, in order, and for each length and alignment of extents the piece reached.
struct TargetBlocks {
    /// log2 of the frames of a piece.
    order: u32,
    /// Numbers of pieces.
    pieces: Vec<u64>,
    next: HashMap<(u64, u32), usize, FixedState>,
    /// The first piece that may have room.
    room: usize,
    /// By piece, whether it is emptied, and whether something was moved into it.
    emptied: Vec<bool>,
    filled: Vec<bool>,
}

impl TargetBlocks {
    fn new(survey: &Survey, pieces: Vec<u64>) -> TargetBlocks {
        let none = vec![false; survey.pieces() as usize];
        let next = HashMap::default();
        TargetBlocks { order: survey.piece, pieces, next, room: 0, emptied: none.clone(), filled: none }
    }
}

impl Os {
    /// One run. The old frames are free after [`Memory::release_freed`](crate::memory::Memory::release_freed).
    pub(super) fn move_together(&mut self, plan: &Plan) -> Moved {
        let mut moved = Moved::default();
        let Some(total) = self.memory.alloc.total() else { return moved };
        let mut owners = self.owners(total);
        let survey = self.survey(plan.order, total, &owners);
        let way = &mut self.compaction.way;
        let layout = if plan.is_request() { way.for_request(&survey) } else { way.in_background(&survey) };
        let (blocks, mut targets) = (layout.empty, TargetBlocks::new(&survey, layout.fill));
        let mut touched: Vec<Asid> = Vec::new();
        for block in blocks {
            if moved.blocks == plan.blocks {
                break;
            }
            let (first, end) = (block << plan.order, ((block + 1) << plan.order).min(total));
            let pieces = (first >> targets.order) as usize..end.div_ceil(1 << targets.order) as usize;
            if plan.sweep && self.have_met(end, &mut targets) {
                break;
            }
            if targets.filled[pieces.clone()].contains(&true) {
                continue;
            }
            let (mut extents, mut clears) = self.extents(&owners, first..end, plan, 1 << targets.order);
            if !clears && !plan.blindly {
                continue;
            }
            if extents.iter().map(|u| u.frames).sum::<u64>() > plan.pages - moved.pages {
                break;
            }
            targets.emptied[pieces.clone()].fill(true);
            // Extents that are hard to place come first, where all of them are known.
            if !plan.blindly {
                extents.sort_by_key(|u| (Reverse(u.frames), u.first));
            }
            let mut found = Vec::new();
            for extent in extents {
                match self.alloc_target(&extent, plan, first, &mut targets) {
                    Some(to) => found.push((extent, to)),
                    None => {
                        moved.stayed += u64::from(extent.frames > 1);
                        clears &= plan.sweep;
                        if plan.blindly {
                            break;
                        }
                        if !plan.sweep {
                            found.drain(..).for_each(|(extent, to)| self.memory.alloc.free_run(to, extent.frames));
                            break;
                        }
                    }
                }
            }
            if found.is_empty() {
                targets.emptied[pieces].fill(false);
                continue;
            }
            moved.blocks += u64::from(clears);
            for (extent, to) in found {
                targets.filled[(to.0 >> targets.order) as usize] = true;
                moved.pages += extent.frames;
                (extent.first..extent.first + extent.frames).for_each(|frame| _ = owners.remove(&frame));
                match extent.page {
                    Some((asid, vpn)) => {
                        self.move_run(asid, VpnRange { start: vpn, pages: extent.frames }, to);
                        touched.push(asid);
                    }
                    None => {
                        moved.of_others += 1;
                        self.memory.counts.gathered_pages += 1;
                        self.memory.move_other(Pfn(extent.first), to);
                    }
                }
            }
        }
        touched.sort_unstable();
        touched.dedup();
        touched.into_iter().for_each(|asid| self.sync_ranges(asid));
        moved
    }

    /// The pages whose frames below `total` may move.
    pub(crate) fn owners(&self, total: u64) -> Owners {
        let mut owners = Owners::default();
        for (i, space) in self.spaces.iter().enumerate() {
            for region in space.regions.iter() {
                let object = self.memory.objects.get(region.object);
                if !object.faulted_groups.is_empty() || !object.large_groups.is_empty() {
                    continue;
                }
                for run in space.table.runs_in(region.range).into_iter().filter(|run| !run.entry.segment) {
                    for at in 0..run.pages {
                        let pfn = Pfn(run.entry.pfn.0 + at);
                        let held = self.memory.pool.owns(pfn) || self.memory.reservations.of_frame(pfn).is_some();
                        if pfn.0 < total && self.memory.mappings(pfn) == 1 && !held {
                            owners.insert(pfn.0, (Asid(i as u32), Vpn(run.first.0 + at)));
                        }
                    }
                }
            }
        }
        owners
    }

    /// What is known of memory in blocks of `2^order`.
    fn survey(&self, order: u32, total: u64, owners: &Owners) -> Survey {
        let piece = order.min(GRANULE);
        let pieces = total.div_ceil(1 << piece);
        let size = |at: u64| (total - (at << piece)).min(1 << piece);
        let taken: Vec<u64> = (0..pieces).map(|p| size(p) - self.free_frames(p << piece, size(p))).collect();
        let mut movable = vec![0; pieces as usize];
        for frame in owners.keys().copied().chain(self.memory.others().iter()) {
            movable[(frame >> piece) as usize] += 1;
        }
        Survey { order, piece, total, taken, movable, now: self.now }
    }

    /// Whether nothing is free above the block that ends at `end`, which ends a sweep.
    fn have_met(&self, end: u64, targets: &mut TargetBlocks) -> bool {
        let above = |piece: u64| piece << targets.order >= end;
        let full = |piece: u64| self.free_frames(piece << targets.order, 1 << targets.order) == 0;
        let pieces = &targets.pieces[targets.room..];
        targets.room += pieces.iter().take_while(|&&piece| above(piece) && full(piece)).count();
        !targets.pieces.get(targets.room).is_some_and(|&piece| above(piece))
    }

    fn is_free(&self, frame: u64) -> bool {
        self.memory.alloc.free_of(frame / 64) >> (frame % 64) & 1 == 1
    }

    fn free_frames(&self, first: u64, frames: u64) -> u64 {
        let free = |(word, at, n)| (self.memory.alloc.free_of(word) & bits::mask(at, n)).count_ones();
        bits::groups(first, frames, 64).map(|group| u64::from(free(group))).sum()
    }

    /// The extents that have a frame in a block, none larger than `most`, and whether it becomes free without them (in
    /// sweeps, what can). Outside sweeps those up to the first frame that stays.
    fn extents(&self, owners: &Owners, block: std::ops::Range<u64>, plan: &Plan, most: u64) -> (Vec<Extent>, bool) {
        let mut extents = Vec::new();
        let mut frame = block.start;
        while frame < block.end {
            let here = owners.contains_key(&frame) || self.memory.others().contains(frame);
            let extent = if here { self.extent(owners, frame, most) } else { None };
            match extent {
                Some(extent) => frame = extent.first + extent.frames,
                None if !plan.sweep && (here || plan.blindly && !self.is_free(frame)) => return (extents, false),
                None => frame += 1,
            }
            extents.extend(extent);
        }
        (extents, true)
    }

    /// The extent of a frame, if it may move.
    fn extent(&self, owners: &Owners, frame: u64, most: u64) -> Option<Extent> {
        let Some(&(asid, vpn)) = owners.get(&frame) else {
            return Some(Extent { first: frame, frames: 1, align: 0, page: None });
        };
        let table = &self.spaces[asid.0 as usize].table;
        let order = u32::from(table.get(vpn)?.order);
        let group = VpnRange { start: vpn.align_down(order), pages: 1 << order };
        let pages = self.range_of(asid, vpn).map_or(group, |range| VpnRange { start: range.first, pages: range.pages });
        let first = frame.checked_sub(vpn.0 - pages.start.0)?;
        let mut align = 0;
        let moves = |(page, frame): (Vpn, u64)| {
            let order = table.get(page).map_or(0, |e| u32::from(e.order));
            align = align.max(order);
            let group = VpnRange { start: page.align_down(order), pages: 1 << order };
            owners.get(&frame) == Some(&(asid, page)) && group.and(pages) == group
        };
        let whole = pages.pages <= most && pages.iter().zip(first..).all(moves);
        whole.then_some(Extent { first, frames: pages.pages, align, page: Some((asid, pages.start)) })
    }

    /// Takes frames for an extent of the block at `block` where pieces are filled; in a sweep only above it.
    fn alloc_target(&mut self, extent: &Extent, plan: &Plan, block: u64, targets: &mut TargetBlocks) -> Option<Pfn> {
        let next = targets.next.entry((extent.frames, extent.align)).or_insert(0);
        while let Some(&piece) = targets.pieces.get(*next) {
            let first = piece << targets.order;
            if plan.sweep && first <= block {
                return None;
            }
            if !targets.emptied[piece as usize]
                && let Some(to) = self.free_place(first, 1 << targets.order, extent, plan.blindly)
                && self.memory.alloc.take(to, extent.frames)
            {
                return Some(to);
            }
            *next += 1;
        }
        None
    }

    /// The highest free frames in a piece of memory that an extent fits into, as aligned as it is; or the lowest.
    fn free_place(&self, first: u64, frames: u64, extent: &Extent, lowest: bool) -> Option<Pfn> {
        let words: Vec<u64> = bits::groups(first, frames, 64)
            .map(|(word, at, n)| self.memory.alloc.free_of(word) & bits::mask(at, n))
            .collect();
        let base = first & !63;
        let (below, unlike) = ((1 << extent.align) - 1, |at: u64| at.wrapping_sub(extent.first));
        let place = |(at, n): (u64, u64)| {
            let (start, last) = (base + at, (base + at + n).checked_sub(extent.frames)?);
            let to = if lowest {
                start + (unlike(start).wrapping_neg() & below)
            } else {
                last.checked_sub(unlike(last) & below)?
            };
            (start..=last).contains(&to).then_some(Pfn(to))
        };
        let mut runs: Vec<(u64, u64)> = bits::runs(&words).collect();
        if !lowest {
            runs.reverse();
        }
        runs.into_iter().find_map(place)
    }

    /// Moves unshared pages in consecutive frames to other consecutive frames. They stay a range or superpage.
    pub(crate) fn move_run(&mut self, asid: Asid, pages: VpnRange, to: Pfn) {
        for (page, to) in pages.iter().zip(to.0..) {
            self.change_frame(asid, page, Pfn(to));
        }
        let moved: Vec<Vpn> = pages.iter().collect();
        self.ranges_changed(asid, &moved);
        self.spaces[asid.0 as usize].table.pack(pages);
        self.change(asid, pages, What::Stale);
    }
}
