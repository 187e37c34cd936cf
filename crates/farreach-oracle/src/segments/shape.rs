//! When a segment changes (SEG-6 to SEG-10), and what lending takes from it (SEG-16).

use super::windows::{At, Layout, better};
use super::{PlainSegments, Registers};
use crate::program::Name;
use std::ops::Range;

/// Frames lent at a time.
const LOAN: u64 = 512;

impl PlainSegments {
    /// Pieces of the pool, ascending: first frame and length (SEG-4). `without`: as if this process had no segment.
    fn pieces(&self, without: Option<u32>) -> Vec<(u64, u64)> {
        let named = self.named();
        let others: Vec<Registers> =
            self.all_registers().filter(|(process, _)| Some(*process) != without).map(|(_, r)| r).collect();
        let taken = |frame: u64| named.contains_key(&frame) || others.iter().any(|r| r.frames().contains(&frame));
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for &frame in self.pool.iter().filter(|frame| !taken(**frame)) {
            match pieces.last_mut() {
                Some((first, n)) if *first + *n == frame => *n += 1,
                _ => pieces.push((frame, 1)),
            }
        }
        pieces
    }

    fn largest_piece(&self, without: Option<u32>) -> Option<(u64, u64)> {
        let pieces = self.pieces(without);
        let longest = pieces.iter().map(|(_, n)| *n).max()?;
        pieces.into_iter().find(|(_, n)| *n == longest)
    }

    /// SEG-6.
    pub(super) fn shape(&mut self, process: u32) {
        let layout = self.layout(process);
        if let Some(r) = self.registers(process) {
            let kept = layout.best(r.base..r.limit, u64::MAX).map(|window| window.pages);
            self.shrink_to(process, kept);
        }
        let admitted = self.admitted(process, &layout);
        if let Some(r) = self.registers(process) {
            let grown = self.grown(process, r, &layout);
            let covers = layout.covered(grown.clone());
            let piece = self.largest_piece(Some(process)).map_or(0, |(_, n)| n);
            let elsewhere = layout.best(layout.everywhere(), piece).map_or(0, |window| window.covers);
            if admitted && elsewhere > 2 * covers {
                self.shrink_to(process, None);
            } else if grown != (r.base..r.limit) {
                self.used.grown += 1;
                let frame = r.frame + grown.start - r.base;
                self.write(process, Some(Registers { base: grown.start, limit: grown.end, frame }));
            }
        }
        if admitted && self.registers(process).is_none() {
            self.create(process, &layout);
        }
        self.note();
    }

    /// The segment keeps these of its pages, or is removed.
    pub(super) fn shrink_to(&mut self, process: u32, kept: Option<Range<u64>>) {
        let Some(r) = self.registers(process) else { return };
        match kept {
            None => {
                self.used.destroyed += 1;
                self.write(process, None);
            }
            Some(kept) if kept != (r.base..r.limit) => {
                self.used.shrunk += 1;
                let frame = r.frame + kept.start - r.base;
                self.write(process, Some(Registers { base: kept.start, limit: kept.end, frame }));
            }
            Some(_) => {}
        }
    }

    /// SEG-8.
    fn grown(&self, process: u32, r: Registers, layout: &Layout) -> Range<u64> {
        let named = self.named();
        let serves = |page: u64| {
            let Some(frame) = (r.frame + page).checked_sub(r.base) else { return false };
            let segment = self.all_registers().any(|(_, other)| other.frames().contains(&frame));
            let just_this =
                named.get(&frame) == Some(&1) && self.entry(process, page).is_some_and(|entry| entry.frame == frame);
            self.pool.contains(&frame) && !segment && (!named.contains_key(&frame) || just_this)
        };
        let eligible = |page: &u64| layout.at(*page) == At::Eligible;
        let reached = |page: &u64| layout.passable(*page) && serves(*page);
        let below = (0..r.base).rev().take_while(reached).filter(eligible).last();
        let above = (r.limit..self.config.pages).take_while(reached).filter(eligible).last();
        below.unwrap_or(r.base)..above.map_or(r.limit, |page| page + 1)
    }

    /// SEG-10.
    fn create(&mut self, process: u32, layout: &Layout) {
        let Some((first, n)) = self.largest_piece(None) else {
            self.used.refused += 1;
            return;
        };
        let window = layout.best(layout.everywhere(), n).expect("its primary region covers something");
        let (base, limit) = (window.pages.start, window.pages.end);
        self.used.created += 1;
        self.used.first_part += u64::from(window.covers < layout.stretch(base));
        let heap = self.programs.spaces[&process].pages[&base].name == Name::Heap;
        let frame = if heap { first } else { first + n - (limit - base) };
        self.write(process, Some(Registers { base, limit, frame }));
    }

    /// These pages leave the segment (SEG-15).
    pub(super) fn leave(&mut self, process: u32, pages: Range<u64>) {
        let Some(r) = self.registers(process) else { return };
        if pages.start.max(r.base) >= pages.end.min(r.limit) {
            return;
        }
        let layout = self.layout(process);
        let sides = [r.base..pages.start.max(r.base), pages.end.min(r.limit)..r.limit];
        let kept = better(sides.into_iter().filter_map(|side| layout.best(side, u64::MAX)));
        self.shrink_to(process, kept.map(|window| window.pages));
    }

    /// SEG-16: whether frames were lent.
    pub(super) fn lend(&mut self) -> bool {
        if !self.config.lend {
            return false;
        }
        if self.pieces(None).is_empty() {
            let Some((process, pages)) = self.unused_pages() else { return false };
            self.leave(process, pages);
        }
        let Some(&(first, n)) = self.pieces(None).last() else { return false };
        for frame in (first..first + n).rev().take(LOAN as usize) {
            self.pool.remove(&frame);
            self.used.lent_pages += 1;
        }
        true
    }

    /// The pages that leave a segment when there is no piece to lend.
    fn unused_pages(&self) -> Option<(u32, Range<u64>)> {
        let mut at_ends: Vec<(u32, Range<u64>, Range<u64>)> = Vec::new();
        let mut inside: Vec<(u32, Range<u64>, Range<u64>)> = Vec::new();
        for (process, r) in self.all_registers() {
            let unused = |page: u64| self.entry(process, page).is_none();
            let mut page = r.base;
            while page < r.limit {
                let end = (page..r.limit).find(|p| !unused(*p)).unwrap_or(r.limit);
                let run = page..end;
                page = end + 1;
                if run.is_empty() {
                    continue;
                }
                if run.end == r.limit {
                    at_ends.push((process, run.clone(), run.start.max(run.end.saturating_sub(LOAN))..run.end));
                } else if run.start == r.base {
                    at_ends.push((process, run.clone(), run.start..run.end.min(run.start + LOAN)));
                } else {
                    inside.push((process, run.clone(), run));
                }
            }
        }
        let from = if at_ends.is_empty() { inside } else { at_ends };
        let longest = from.iter().map(|(_, run, _)| run.end - run.start).max()?;
        let longest: Vec<_> = from.into_iter().filter(|(_, run, _)| run.end - run.start == longest).collect();
        let process = longest[0].0;
        let highest = longest.into_iter().rfind(|(of, ..)| *of == process)?;
        Some((process, highest.2))
    }
}
