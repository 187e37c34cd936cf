//! The examples of the rules by hand, and random programs for what must hold after every event.

mod carrefour;
mod hawkeye;
mod mosaic;
mod promoters;
mod random;
mod ranger;
mod sizes;
mod trident;

use crate::frames::Frames;
use crate::paging::Model;
use farreach_types::addr::Asid;
use farreach_types::event::{Advice, Backing, End, Kind, Mapping, Op, Prot};
use std::ops::Range;

const READ_ONLY: Prot = Prot { read: true, write: false, exec: false };

fn bytes(pages: &Range<u64>) -> (u64, u64) {
    (pages.start << 12, (pages.end - pages.start) << 12)
}

fn map_as(model: &mut (impl Model + ?Sized), process: u32, pages: Range<u64>, backing: Backing) {
    let (start, len) = bytes(&pages);
    model.apply(process, &Op::Map(Mapping { start, len, prot: Prot::RW, shared: false, backing }));
}

fn map(model: &mut (impl Model + ?Sized), process: u32, pages: Range<u64>) {
    map_as(model, process, pages, Backing::Anonymous);
}

fn unmap(model: &mut (impl Model + ?Sized), process: u32, pages: Range<u64>) {
    let (start, len) = bytes(&pages);
    model.apply(process, &Op::Unmap { start, len });
}

fn protect(model: &mut (impl Model + ?Sized), process: u32, pages: Range<u64>, prot: Prot) {
    let (start, len) = bytes(&pages);
    model.apply(process, &Op::Protect { start, len, prot });
}

fn advise(model: &mut (impl Model + ?Sized), process: u32, pages: Range<u64>, advice: Advice) {
    let (start, len) = bytes(&pages);
    model.apply(process, &Op::Advise { start, len, advice });
}

fn fork(model: &mut (impl Model + ?Sized), process: u32, child: u32) {
    model.apply(process, &Op::Fork { child: Asid(child) });
}

fn end(model: &mut (impl Model + ?Sized), process: u32) {
    model.apply(process, &Op::End(End::Exit(0)));
}

/// References, each by a walk.
fn touch(model: &mut (impl Model + ?Sized), process: u32, pages: Range<u64>, kind: Kind) {
    for page in pages {
        model.touch(process, page, kind).expect("a frame");
        model.walked(process, page);
    }
}

fn store(model: &mut (impl Model + ?Sized), process: u32, pages: Range<u64>) {
    touch(model, process, pages, Kind::Store);
}

fn load(model: &mut (impl Model + ?Sized), process: u32, pages: Range<u64>) {
    touch(model, process, pages, Kind::Load);
}

/// The frame of a page.
fn frame(model: &impl Model, process: u32, page: u64) -> Option<u64> {
    model.paging().entry(process, page).map(|entry| entry.frame)
}

/// First pages of the leaves of a process, and log2 of their pages.
fn leaves(model: &impl Model, process: u32) -> Vec<(u64, u32)> {
    let table = &model.paging().programs.spaces[&process].table;
    table.iter().filter(|(page, e)| page.is_multiple_of(1 << e.order)).map(|(page, e)| (*page, e.order)).collect()
}

/// What the policy counts itself.
fn own(model: &impl Model, name: &str) -> u64 {
    model.own().into_iter().find(|(of, _)| *of == name).unwrap_or_else(|| panic!("{name}")).1
}

/// Free blocks of up to 2^18 frames, ascending.
fn blocks(frames: u64) -> Frames {
    Frames::blocks(frames, |_| true, 19, true)
}
