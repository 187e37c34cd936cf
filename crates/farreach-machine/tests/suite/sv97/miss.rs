//! CA-21, CA-22: the miss algorithm and its two instructions (SV97-5, SV97-6, SV97-7, SV97-8, SV97-15, SV97-20,
//! SV97-21, SV97-41).

use super::world::{RWX, World};
use farreach_hw::cache::Line;
use farreach_hw::system::{TagLatch, TagLatchError};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::Attr;

/// CA-21, SV97-16, SV97-40, AMB-45. A cold data side, handler code resident.
#[test]
fn golden_costs() {
    let mut w = World::new("");
    // A fetch brings the handler's code in, but no line that the data references below would find: its segment is
    // another.
    w.go(0, Kind::Fetch, 0x7000_0040);
    let code = w.counts().handler;
    assert_eq!((code.l1i_misses, code.l2i_misses), (3, 3), "ten instructions are three lines of 16 bytes");
    let steps = [0x400000u64, 0x400010, 0x401000, 0x404000, 0x800000, 0x10000000];
    let costs: Vec<u64> = steps
        .iter()
        .map(|&addr| {
            let before = w.cycles();
            w.load(addr);
            assert_eq!(w.cached(0, addr), [true, true], "SV97-8, AMB-44");
            w.cycles() - before
        })
        .collect();
    assert_eq!(costs, [240, 10, 10, 130, 130, 240]);
    let rows = w.counts().handler;
    let events = [
        rows.data_runs - code.data_runs,
        rows.l1d_misses - code.l1d_misses,
        rows.l2d_misses - code.l2d_misses,
        rows.upte_loads - code.upte_loads,
    ];
    assert_eq!(events, [10, 6, 2, 4]);
    assert_eq!((rows.l1i_misses, rows.l2i_misses, rows.fetch_runs), (3, 3, 1));
    assert_eq!(w.counts().data.l2_misses, 6);
}

/// A first fetch: the datum of an instruction miss goes to the instruction side (AMB-41), page table entries to the
/// data side.
#[test]
fn sides() {
    let mut w = World::new("");
    w.go(0, Kind::Fetch, 0x1000);
    assert_eq!(w.machine.cached_lines(0, Asid(0), 0x1000).map(|l| l.is_some()), [true, true]);
    assert_eq!(w.cached(0, 0x1000), [false, false]);
    // 10 + 3 lines of code x 110, UPTE 20, recursion 10, root 20 + 90, UPTE 90.
    assert_eq!(w.cycles(), 10 + 3 * 110 + 20 + 10 + 110 + 90);
    let c = w.counts();
    assert_eq!((c.handler.fetch_runs, c.handler.data_runs), (1, 1));
    assert_eq!((c.fetch.l1_misses, c.fetch.l2_misses, c.data.l1_misses), (1, 1, 0));
}

/// AMB-48: a second-level line is several first-level lines; a fill brings all of it, and one of them.
#[test]
fn long_second_level_lines() {
    let mut w = World::new("l2_line=64");
    w.load(0x1010);
    assert_eq!(
        [0x1000, 0x1010, 0x103f, 0x1040].map(|a| w.cached(0, a)),
        [[false, true], [true, true], [false, true], [false; 2]]
    );
    let before = w.counts();
    w.load(0x1000);
    let after = w.counts();
    assert_eq!((after.data.l1_misses - before.data.l1_misses, after.data.l2_misses - before.data.l2_misses), (1, 0));
    assert_eq!(after.data.events[2], before.data.events[2] + 1);
}

/// CA-22, SV97-7: no pair inside another. Naive hardware puts the first datum under the second tag.
#[test]
fn the_pair_is_atomic() {
    let attr = Attr(Attr::READ);
    let mut naive = TagLatch::NAIVE;
    naive.specify(0x111, RWX).unwrap();
    // An interrupt with a pair of its own.
    naive.specify(0x222, attr).unwrap();
    assert_eq!(naive.load_and_map().unwrap().tag, 0x222);
    let corrupted = naive.load_and_map().unwrap();
    assert_eq!((corrupted.tag, corrupted.attr), (0x222, attr), "the interrupted insert goes astray");

    // The same with save and restore.
    let mut saved = TagLatch::NAIVE;
    saved.specify(0x111, RWX).unwrap();
    let kept = saved.save();
    saved.specify(0x222, attr).unwrap();
    assert_eq!(saved.load_and_map().unwrap().tag, 0x222);
    saved.restore(kept);
    assert_eq!(saved.load_and_map().unwrap().tag, 0x111);

    // Hardware that forbids it, and a datum before its tag.
    let mut guarded = TagLatch::GUARDED;
    assert_eq!(guarded.load_and_map(), Err(TagLatchError::NoTag));
    guarded.specify(0x111, RWX).unwrap();
    assert_eq!(guarded.specify(0x222, attr), Err(TagLatchError::Interrupted));
    assert_eq!(guarded.load_and_map().unwrap().tag, 0x111);
    assert_eq!(guarded.load_and_map(), Err(TagLatchError::NoTag), "one datum to a tag");
    let mut empty = TagLatch::NAIVE;
    assert_eq!(empty.load_and_map(), Err(TagLatchError::NoTag), "tag before data");
}

/// SV97-20: a miss whose victim is modified runs the handler twice; the victim's entry was here, so it costs 10.
#[test]
fn a_modified_victim_is_translated_again() {
    let run = |overrides: &str, dirty: bool| {
        let mut w = World::new(overrides);
        w.load(0x42000);
        if dirty {
            w.store(0x42000);
        }
        // The same set of the second level, an entry line of its own.
        w.load(0x42000 + (512 << 10));
        assert_eq!(w.cached(0, 0x42000), [false; 2]);
        w.counts()
    };
    let (clean, dirty, kept) = (run("", false), run("", true), run("write_back=keep", true));
    assert_eq!((clean.dirty_victims, clean.write_back.data_runs), (0, 0));
    assert_eq!((dirty.dirty_victims, dirty.write_back.data_runs, dirty.most_write_backs), (1, 1, 1));
    assert_eq!((dirty.write_back.loads, dirty.write_back.l1d_misses, dirty.handler), (1, 0, clean.handler.clone()));
    assert_eq!((kept.dirty_victims, kept.write_back.data_runs), (1, 0), "SV97-21: the line knows its physical address");
}

/// SV97-20: a write-back can cause a write-back, but only a finite number: each removes a modified line and brings in
/// none.
#[test]
fn write_backs_end() {
    // Two lines to a side: page table entries and data fight for them.
    let mut w = World::new("l1_size=64,l2_size=64,line=16");
    let mut most = 0;
    for i in 0..20_000u64 {
        let addr = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 37 & !15;
        w.store(addr);
        assert_eq!(w.cached(0, addr), [true, true], "the program goes on with its line in place");
        most = most.max(w.counts().most_write_backs);
    }
    assert!((2..=4).contains(&most), "{most}: never more than there are lines");
    let c = w.counts();
    assert_eq!(c.write_back.data_runs - c.write_back.upte_loads, c.dirty_victims);
}

/// SV97-21, F-17: a kept translation is stale after a remap, unless the page was flushed.
#[test]
fn kept_translations_go_stale() {
    let run = |on_remap: &str| {
        let mut w = World::new(&format!("write_back=keep,on_remap={on_remap}"));
        w.table.map(0, 0x42, 100, RWX);
        w.store(0x42000);
        w.remap(0, 0x42, 200, RWX);
        w.load(0x42000 + (512 << 10));
        (w.counts().stale_write_backs, w.counts().flushed_dirty)
    };
    assert_eq!((run("flush"), run("leave")), ((0, 1), (1, 0)));
}

/// SV97-19: pages of a transfer leave the caches, and no reference brings them back before it ends.
#[test]
fn transfers_by_devices() {
    let mut w = World::new("");
    w.store(0x2000);
    w.store(0x3000);
    w.machine.dma_begin(Asid(0), VpnRange { start: Vpn(2), pages: 1 });
    assert_eq!((w.cached(0, 0x2000), w.cached(0, 0x3000)), ([false; 2], [true; 2]));
    assert_eq!(
        (w.counts().flushed_lines, w.counts().flushed_dirty),
        (1, 1),
        "what was modified is in memory before the transfer"
    );
    w.load(0x2000);
    assert_eq!((w.cached(0, 0x2000), w.counts().dma_waits), ([false; 2], 1));
    w.machine.dma_end(Asid(0), VpnRange { start: Vpn(2), pages: 1 });
    w.load(0x2000);
    assert_eq!((w.cached(0, 0x2000), w.counts().dma_waits), ([true; 2], 1));
    assert!(!w.machine.cached_lines(1, Asid(0), 0x2000)[0].is_some_and(Line::dirty));
}
