use super::*;
use farreach_types::event::{End, Mapping};

const A: Asid = Asid(0);

/// Three lookups to an instruction.
fn at(instructions: u64) -> Time {
    Time { instructions, lookups: 3 * instructions }
}

fn map(start: u64, pages: u64, backing: Backing) -> Op {
    Op::Map(Mapping { start: start << 12, len: pages << 12, prot: Prot::RW, shared: false, backing })
}

/// Regions, pages, walks inside, and of those resized: regions and walks.
fn numbers(lifetimes: &mut RegionLifetimes, now: u64) -> [u64; 5] {
    let i = lifetimes.ideal(0, at(now)).unwrap();
    [i.regions, i.pages, i.walks_inside, i.resized_regions, i.resized_walks_inside]
}

fn walks(lifetimes: &mut RegionLifetimes, page: u64, n: u64) {
    (0..n).for_each(|_| lifetimes.walk(A, page, Kind::Load, 0));
}

#[test]
fn rmm15_42_more_than_eighty_percent_with_one_size() {
    let mut lifetimes = RegionLifetimes::new(1);
    lifetimes.op(A, &map(0x10, 4, Backing::Anonymous), at(0));
    assert_eq!(lifetimes.ideal(0, at(0)), Some(IdealSegment::default()), "nothing has happened");
    lifetimes.op(A, &map(0x20, 8, Backing::Anonymous), at(19));
    lifetimes.op(A, &map(0x30, 16, Backing::Anonymous), at(20));
    for (page, n) in [(0x13, 1), (0x14, 10), (0x27, 100), (0x30, 1000), (0x3f, 10000)] {
        walks(&mut lifetimes, page, n);
    }
    lifetimes.walk(A, 0x20, Kind::Fetch, 0);
    // 81 of 100 is more than 80 %, 80 is not; page 0x14 is in no region.
    assert_eq!(numbers(&mut lifetimes, 100), [2, 12, 102, 0, 0]);
    assert_eq!(lifetimes.ideal(0, at(100)).unwrap().fetch_walks_inside, 1);
    assert_eq!(numbers(&mut lifetimes, 101), [3, 28, 11102, 0, 0]);
    // A region that ends early is out; one that ends later is in.
    lifetimes.op(A, &Op::Unmap { start: 0x10 << 12, len: 4 << 12 }, at(120));
    assert_eq!(numbers(&mut lifetimes, 140), [3, 28, 11102, 0, 0]);
    assert_eq!(numbers(&mut lifetimes, 150), [2, 24, 11101, 0, 0], "120 of 150 is not more than 80 %");
}

#[test]
fn rmm15_42_whoever_changes_size_begins_anew() {
    let mut lifetimes = RegionLifetimes::new(1);
    lifetimes.op(A, &map(0x10, 4, Backing::Heap), at(0));
    lifetimes.op(A, &map(0x50, 8, Backing::Anonymous), at(0));
    lifetimes.op(A, &map(0x80, 4, Backing::Stack), at(0));
    walks(&mut lifetimes, 0x11, 7);
    lifetimes.op(A, &map(0x14, 4, Backing::Heap), at(10));
    walks(&mut lifetimes, 0x11, 1);
    walks(&mut lifetimes, 0x17, 2);
    // The hole in the middle leaves two regions, and what is mapped there is a third.
    lifetimes.op(A, &map(0x52, 2, Backing::Anonymous), at(15));
    walks(&mut lifetimes, 0x57, 30);
    assert_eq!(numbers(&mut lifetimes, 100), [5, 20, 33, 3, 33]);
    // A stack that grows late.
    lifetimes.op(A, &map(0x7e, 2, Backing::Stack), at(60));
    assert_eq!(numbers(&mut lifetimes, 100), [4, 16, 33, 3, 33]);
    // mremap: in place, then elsewhere.
    let bytes = |page: u64| page << 12;
    lifetimes.op(
        A,
        &Op::Remap { old_start: bytes(0x54), old_len: bytes(4), new_start: bytes(0x54), new_len: bytes(6) },
        at(100),
    );
    assert_eq!(numbers(&mut lifetimes, 101), [4, 16, 33, 3, 33], "what it was lived for 85 of 101");
    assert_eq!(numbers(&mut lifetimes, 120), [3, 12, 3, 2, 3]);
    lifetimes.op(
        A,
        &Op::Remap { old_start: bytes(0x54), old_len: bytes(6), new_start: bytes(0x90), new_len: bytes(5) },
        at(102),
    );
    walks(&mut lifetimes, 0x54, 1000);
    walks(&mut lifetimes, 0x94, 5);
    // Heap of 8, 0x50 of 2, 0x52 of 2, the stack of 6, 0x90 of 5: only 0x52 never changed.
    assert_eq!(numbers(&mut lifetimes, 10_000), [5, 23, 8, 4, 8]);
}

#[test]
fn rmm15_42_what_nobody_may_access_is_no_memory() {
    let mut lifetimes = RegionLifetimes::new(1);
    let guard =
        Mapping { start: 0x10 << 12, len: 64 << 12, prot: Prot::NONE, shared: false, backing: Backing::Anonymous };
    lifetimes.op(A, &Op::Map(guard), at(0));
    assert_eq!(numbers(&mut lifetimes, 100), [0; 5]);
    let open = |start: u64, pages: u64, prot| Op::Protect { start: start << 12, len: pages << 12, prot };
    lifetimes.op(A, &open(0x10, 4, Prot::RW), at(1));
    walks(&mut lifetimes, 0x10, 3);
    walks(&mut lifetimes, 0x14, 3);
    assert_eq!(numbers(&mut lifetimes, 100), [1, 4, 3, 0, 0]);
    lifetimes.op(A, &open(0x14, 4, Prot::RW), at(2));
    assert_eq!(numbers(&mut lifetimes, 100), [1, 8, 0, 1, 0], "grown");
    lifetimes.op(A, &open(0x10, 8, Prot::RWX), at(50));
    assert_eq!(numbers(&mut lifetimes, 100), [1, 8, 0, 1, 0], "only that it may be accessed counts");
    lifetimes.op(A, &open(0x16, 8, Prot::NONE), at(50));
    assert_eq!(numbers(&mut lifetimes, 300), [1, 6, 0, 1, 0]);
}

#[test]
fn a_process_has_a_time_of_its_own() {
    let mut lifetimes = RegionLifetimes::new(1);
    lifetimes.op(A, &map(0x10, 4, Backing::Anonymous), at(0));
    lifetimes.op(A, &Op::Fork { child: Asid(1) }, at(1000));
    lifetimes.walk(Asid(1), 0x12, Kind::Store, 0);
    lifetimes.op(Asid(1), &map(0x20, 1, Backing::Anonymous), at(1050));
    lifetimes.op(Asid(1), &Op::End(End::Exit(0)), at(1100));
    assert_eq!(numbers(&mut lifetimes, 2000), [2, 8, 1, 0, 0]);
}

/// Lookups per instruction vary. Only a stream without instructions is measured by its lookups.
#[test]
fn amb_92_lives_are_measured_in_instructions() {
    let regions = |late: Time, end: Time| {
        let mut lifetimes = RegionLifetimes::new(1);
        lifetimes.op(A, &map(0x10, 4, Backing::Anonymous), Time::default());
        lifetimes.op(A, &map(0x20, 8, Backing::Anonymous), late);
        lifetimes.ideal(0, end).unwrap().regions
    };
    let time = |instructions, lookups| Time { instructions, lookups };
    assert_eq!(regions(time(10, 900), time(100, 1000)), 2, "there for 90 of 100 instructions, 100 of 1000 lookups");
    assert_eq!(regions(time(90, 100), time(100, 1000)), 1);
    assert_eq!([regions(time(0, 100), time(0, 1000)), regions(time(0, 900), time(0, 1000))], [2, 1]);
}

/// A plain model: every page with its region, and every region that ever existed.
#[test]
fn nothing_that_counts_is_forgotten_and_memory_stays_small() {
    let mut lifetimes = RegionLifetimes::new(1);
    let mut all: Vec<(u64, u64, u64, u64)> = Vec::new(); // born, died, pages, walks
    let mut live: Vec<(usize, u64)> = Vec::new(); // index, slot of 16 pages
    let mut state = 5u64;
    let mut random = move |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    for now in 0..20_000u64 {
        let slot = random(40);
        // Few slots have long lifetimes.
        if random(if slot < 8 { 4000 } else { 3 }) == 0 || !live.iter().any(|l| l.1 == slot) {
            if let Some(at) = live.iter().position(|l| l.1 == slot) {
                all[live.swap_remove(at).0].1 = now;
            }
            let len = 1 + random(15);
            lifetimes.op(A, &Op::Unmap { start: slot << 16, len: 16 << 12 }, at(now));
            lifetimes.op(A, &map(slot << 4, len, Backing::Anonymous), at(now));
            all.push((now, u64::MAX, len, 0));
            live.push((all.len() - 1, slot));
        }
        let (slot, page) = (random(40), random(16));
        lifetimes.walk(A, slot * 16 + page, Kind::Load, 0);
        if let Some(l) = live.iter().find(|l| l.1 == slot).filter(|l| page < all[l.0].2) {
            all[l.0].3 += 1;
        }
        if now % 500 == 499 {
            let inside = all.iter().filter(|r| 100 * (r.1.min(now) - r.0) > 80 * now);
            let sums = inside.fold([0; 3], |s, r| [s[0] + 1, s[1] + r.2, s[2] + r.3]);
            assert_eq!(numbers(&mut lifetimes, now)[..3], sums, "at {now}");
            assert!(lifetimes.spaces[&A].ended.len() <= 2 * 40 + 65, "at {now}");
        }
    }
    assert!(numbers(&mut lifetimes, 20_000)[0] > 0, "some lived long");
}
