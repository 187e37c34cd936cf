//! Placement by the mapping of a live process (RMM15-44): pages are found by the mapping they belong to.

use super::world::{A, frame, map, os, pattern, touch};
use farreach_machine::MachineSpec;
use farreach_os::Os;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Backing, End, Kind, Mapping, Op, Prot};
use farreach_types::translation::{Attr, PageTableView};

/// Frames of the dump are numbered from here on.
const FIRST: u64 = 1 << 34;

const EXEC: Prot = Prot { read: true, write: false, exec: true };

const DUMP: &str = "# farreach mapping 2
# by hand
mapping 400 4 r-xp 0 /bin/x
400 2 7000 4K
402 2 7100 4K
mapping 404 2 rw-p 4 /bin/x
404 2 7200 4K
mapping 1000 40 rw-p 0 heap
1000 10 100 4K
1018 8 300 4K
mapping 10000 20 rw-p 0 anonymous
10000 20 900 4K
mapping 20000 600 rw-p 0 anonymous
20000 200 8000 4K
20200 200 8400 2M
20400 200 9000 4K
mapping 7ffe0 10 rw-p 0 stack
7ffe8 8 5000 4K
";

fn with(name: &str, text: &str, more: &str) -> Os {
    os(&format!("placement=mapping,mapping={}{more}", pattern(name, text)))
}

fn file(start: u64, pages: u64, page: u64, prot: Prot) -> Op {
    let backing = Backing::File { path: "/bin/x".into(), offset: page << 12 };
    Op::Map(Mapping { start: start << 12, len: pages << 12, prot, shared: false, backing })
}

fn found(os: &Os) -> (u64, u64, u64) {
    let c = os.counts();
    (c.mapping_pages, c.mapping_missing, c.mapping_taken)
}

#[test]
fn a_page_has_the_frame_of_what_it_belongs_to() {
    let mut os = with("objects.map", DUMP, "");
    os.apply(A, &file(0x108, 4, 0, EXEC));
    os.apply(A, &file(0x10c, 2, 4, Prot::RW));
    map(&mut os, 0x200, 0x10, Backing::Heap);
    map(&mut os, 0x210, 0x30, Backing::Heap);
    map(&mut os, 0x900, 0x10, Backing::Stack);
    for (page, kind, expected) in [
        (0x108, Kind::Fetch, 0x7000),
        (0x10b, Kind::Fetch, 0x7101),
        // A store to a private mapping of a file: the copy gets the frame that the process had.
        (0x10d, Kind::Store, 0x7201),
        (0x200, Kind::Load, 0x100),
        (0x20f, Kind::Store, 0x10f),
        // The heap grew; the stack counts from its end.
        (0x219, Kind::Store, 0x301),
        (0x90f, Kind::Store, 0x5007),
    ] {
        touch(&mut os, page, kind);
        assert_eq!(frame(&os, page), Some(FIRST + expected), "page {page:#x}");
    }
    assert_eq!(found(&os), (7, 0, 0));
    // Not present in the heap of the dump, beyond it, above what is present of the stack: ordinary frames.
    map(&mut os, 0x240, 0x10, Backing::Heap);
    for page in [0x210, 0x240, 0x900] {
        touch(&mut os, page, Kind::Store);
        assert!(frame(&os, page).unwrap() < FIRST, "page {page:#x}");
    }
    assert_eq!(found(&os), (7, 3, 0));
    os.check();
}

#[test]
fn anonymous_memory_comes_from_the_top_down_and_goes_back() {
    let mut os = with("anonymous.map", DUMP, "");
    // 16 pages at the top of the upper mapping, the next below it.
    map(&mut os, 0x3000, 0x10, Backing::Anonymous);
    map(&mut os, 0x4000, 0x20, Backing::Anonymous);
    touch(&mut os, 0x3000, Kind::Store);
    touch(&mut os, 0x401f, Kind::Store);
    assert_eq!((frame(&os, 0x3000), frame(&os, 0x401f)), (Some(FIRST + 0x91f0), Some(FIRST + 0x91ef)));
    // The address itself decides where the dump has it.
    map(&mut os, 0x10008, 8, Backing::Anonymous);
    touch(&mut os, 0x1000a, Kind::Store);
    assert_eq!(frame(&os, 0x1000a), Some(FIRST + 0x90a));
    // A mapping larger than every free place is not found; when others are unmapped, it is.
    map(&mut os, 0x8000, 0x5f0, Backing::Anonymous);
    touch(&mut os, 0x8000, Kind::Store);
    assert_eq!(found(&os), (3, 1, 0));
    os.apply(A, &Op::Unmap { start: 0x3000 << 12, len: 0x1020 << 12 });
    os.apply(A, &Op::Unmap { start: 0x8000 << 12, len: 0x5f0 << 12 });
    map(&mut os, 0x9000, 0x5f0, Backing::Anonymous);
    touch(&mut os, 0x95ef, Kind::Store);
    // It begins at a 2 MB boundary, and so does its place.
    assert_eq!(frame(&os, 0x95ef), Some(FIRST + 0x91ef));
    os.apply(A, &Op::End(End::Exit(0)));
    os.check();
}

#[test]
fn leaves_of_2_mb_are_leaves_where_they_fit() {
    // 1.5 K pages that begin 16 pages behind a boundary: the place in the dump is as far behind one.
    let mut os = with("huge.map", DUMP, "");
    map(&mut os, 0x3_0000, 0x600, Backing::Anonymous);
    for (page, order) in [(0x3_0000, 0), (0x3_0234, 9), (0x3_0400, 0)] {
        touch(&mut os, page, Kind::Store);
        assert_eq!(os.pte(A, Vpn(page)).unwrap().order, order, "page {page:#x}");
    }
    assert_eq!(frame(&os, 0x3_0234), Some(FIRST + 0x8434));
    assert_eq!((os.counts().superpage_faults, found(&os)), (1, (514, 0, 0)));
    // At another distance from the boundary the frames are contiguous, but no leaf can map them.
    let mut askew = with("askew.map", DUMP, "");
    map(&mut askew, 0x3_0007, 0x600, Backing::Anonymous);
    touch(&mut askew, 0x3_0007 + 0x234, Kind::Store);
    assert_eq!(frame(&askew, 0x3_0007 + 0x234), Some(FIRST + 0x8434));
    assert_eq!(askew.pte(A, Vpn(0x3_0007 + 0x234)).map(|pte| (pte.order, pte.attr)), Some((0, Attr(3))));
}

#[test]
fn a_frame_serves_one_page() {
    // The page of zeros lies behind many pages; a second process has the same files.
    let text = "# farreach mapping 2\n# zeros\nmapping 10 8 rw-p 0 anonymous\n10 1 77 4K\n11 1 77 4K\n12 4 77 4K\n";
    let mut os = with("zeros.map", text, "");
    map(&mut os, 0x10, 8, Backing::Anonymous);
    (0x10..0x17).for_each(|page| touch(&mut os, page, Kind::Load));
    assert_eq!(found(&os), (4, 1, 2));
    let mut two = with("fork.map", DUMP, "");
    map(&mut two, 0x200, 0x10, Backing::Heap);
    touch(&mut two, 0x200, Kind::Store);
    two.apply(A, &Op::Fork { child: Asid(1) });
    two.touch(Asid(1), Vpn(0x200), Kind::Store).unwrap();
    assert_eq!((frame(&two, 0x200), found(&two)), (Some(FIRST + 0x100), (1, 0, 0)));
    assert!(two.pte(Asid(1), Vpn(0x200)).unwrap().pfn.0 < FIRST, "the copy is the child's own");
    two.apply(Asid(1), &Op::End(End::Exit(0)));
    two.check();
}

#[test]
fn a_stream_without_mappings_goes_by_address() {
    let mut os = with("addresses.map", DUMP, "");
    for page in [0x401, 0x1018, 0x20000, 0x999] {
        touch(&mut os, page, Kind::Load);
    }
    assert_eq!((frame(&os, 0x401), frame(&os, 0x1018), frame(&os, 0x20000)), {
        let at = |frame: u64| Some(FIRST + frame);
        (at(0x7001), at(0x300), at(0x8000))
    });
    assert_eq!(found(&os), (3, 1, 0));
}

#[test]
fn dumps_that_are_no_use_are_refused() {
    for (name, text, keys, words) in [
        ("blind.map", DUMP.replace("1000 10 100", "1000 10 -"), "", &["blind.map", "no frames", "CAP_SYS_ADMIN"][..]),
        ("overlap.map", DUMP.replace("1018 8", "100f 8"), "", &["overlap.map", "line 10", "100f 8 300", "ascend"]),
        ("empty.map", "# farreach mapping 2\n# x\n".to_owned(), "", &["empty.map", "nothing is present"]),
        ("other.map", "kind = 3".to_owned(), "", &["other.map", "line 1", "# farreach mapping 2"]),
        ("large.map", DUMP.to_owned(), ",page_size=8K", &["large.map", "page_size = 8K", "4K"]),
        ("end.map", DUMP.to_owned(), ",memory=65T", &["memory", "64T"]),
    ] {
        let keys = format!("placement=mapping,mapping={}{keys}", pattern(name, &text));
        let spec = MachineSpec::from_toml("test", "kind = \"single\"", &keys, 1).unwrap();
        let error = Os::new(&spec.params).err().unwrap();
        assert!(words.iter().all(|word| error.contains(word)), "{error}: {words:?}");
    }
    let spec = MachineSpec::from_toml("test", "kind = \"single\"", "placement=mapping", 1).unwrap();
    assert!(Os::new(&spec.params).err().unwrap().contains("contiguity --dump"));
}
