//! Mosaic: frames in buckets, of which a hash allows a page a few (OS-MOS-1 and OS-MOS-2).
//!
//! * ON-80 Bucket b has the frames from b times its size on, those of the front first. Frames behind the last whole
//!   bucket are never used. A page takes the lowest free frame of the front, or of the back.
//! * ON-81 Hash i is `mix(process << 52 ^ page, seed + i)` mod buckets: of the front for 0, of the backs for 1 to d.
//!   Two of them may be equal.
//! * ON-82 The back with the fewest pages in its back, the first hash of equal ones.
//! * ON-83 A page of a file or of shared memory has the place of the process and page that touched it first, a copy
//!   that of the process that stored. A page that has a frame keeps it, where it is mapped or moved to as well.
//! * ON-84 A conflict refuses the page, as if memory were full.

use crate::frames::Frames;
use crate::paging::{Full, Model, Paging};
use crate::system::System;
use farreach_types::event::{Kind, Op};
use farreach_types::hash::mix;

/// A system.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub frames: u64,
    /// Frames of a bucket: of its front, and of its back.
    pub front: u64,
    pub back: u64,
    /// Backs that a page may be in.
    pub choices: u64,
    pub seed: u64,
}

/// The bucket of the front, and those of the backs, of a page of a process.
pub type Places = Box<dyn Fn(u32, u64) -> (u64, Vec<u64>)>;

/// The model.
pub struct PlainMosaic {
    config: Config,
    places: Places,
    paging: Paging,
    /// What is touched.
    at: (u32, u64),
    pub conflicts: u64,
    /// Pages that went to the front, and to a back.
    pub fronts: u64,
    pub backs: u64,
}

impl PlainMosaic {
    pub fn new(config: Config) -> PlainMosaic {
        let buckets = config.frames / (config.front + config.back);
        // ON-81.
        let hash =
            move |process: u32, page: u64, i: u64| mix(u64::from(process) << 52 ^ page, config.seed + i) % buckets;
        let backs = move |process, page| (1..=config.choices).map(|i| hash(process, page, i)).collect();
        PlainMosaic::with(config, Box::new(move |process, page| (hash(process, page, 0), backs(process, page))))
    }

    /// With another hash.
    pub fn with(config: Config, places: Places) -> PlainMosaic {
        let used = config.frames - config.frames % (config.front + config.back);
        let paging = Paging::new(Frames::list(used, |_| true), false);
        PlainMosaic { config, places, paging, at: (0, 0), conflicts: 0, fronts: 0, backs: 0 }
    }

    /// OS-MOS-1: makes the frame of a page the next one.
    fn find(&mut self, (process, page): (u32, u64)) -> Result<(), Full> {
        let Config { front, back, .. } = self.config;
        let (own, others) = (self.places)(process, page);
        let free = |bucket: u64, slots: std::ops::Range<u64>| {
            let frames = slots.map(move |slot| bucket * (front + back) + slot);
            frames.filter(|frame| !self.paging.busy(*frame)).collect::<Vec<_>>()
        };
        let in_front = free(own, 0..front);
        // The first of those with the most free frames.
        let backs = others.into_iter().map(|bucket| free(bucket, front..front + back));
        let in_back = backs.reduce(|best, next| if next.len() > best.len() { next } else { best });
        let (frame, count) = match (in_front.first(), in_back.iter().flatten().next()) {
            (Some(frame), _) => (*frame, &mut self.fronts),
            (None, Some(frame)) => (*frame, &mut self.backs),
            (None, None) => {
                self.conflicts += 1;
                return Err(Full);
            }
        };
        *count += 1;
        let Frames::List(list) = &mut self.paging.frames else { panic!("it is a list") };
        list.retain(|of| *of != frame);
        list.insert(0, frame);
        Ok(())
    }
}

impl System for PlainMosaic {
    fn memory(&mut self) -> &mut Paging {
        &mut self.paging
    }

    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.paging.counts.page_faults += 1;
        let known = self.paging.known(process, page);
        if known.private() || !self.paging.programs.shared.contains_key(&(known.mapping, known.index)) {
            self.find((process, page))?;
        }
        self.paging.base_page(process, page)
    }

    fn frame_to_copy(&mut self) -> Option<u64> {
        self.find(self.at).ok()?;
        self.paging.frames.one()
    }
}

impl Model for PlainMosaic {
    fn paging(&self) -> &Paging {
        &self.paging
    }

    fn apply(&mut self, process: u32, op: &Op) {
        self.follow(process, op);
    }

    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        self.at = (process, page);
        self.refer(process, page, kind)
    }

    fn own(&self) -> Vec<(&'static str, u64)> {
        vec![("mosaic_conflicts", self.conflicts), ("mosaic_front", self.fronts), ("mosaic_back", self.backs)]
    }
}
