//! Copies made by hand, one of this very process, damages.

use super::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::io::Read;

const MAPS: &str = "\
00400000-00402000 r-xp 00003000 08:01 1234                               /usr/bin/a program
00500000-00504000 rw-p 00000000 00:00 0                                  [heap]
7f0000000000-7f0000001000 rw-p 00000000 00:00 0 
7f0000001000-7f0000002000 rw-p 00000000 00:00 0                          [anon:glibc: malloc]
7fff00000000-7fff00001000 rw-s 00000000 00:01 9                          /dev/zero (deleted)
7fff00002000-7fff00003000 r-xp 00000000 00:00 0                          [vdso]
";

fn entry(pfn: u64) -> u64 {
    PRESENT | 1 << 61 | 1 << 55 | pfn
}

/// A copy with these entries, each at the place of its page.
fn sparse(pages: &[(u64, u64)]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    for (vpn, entry) in pages {
        file.as_file().write_all_at(&entry.to_le_bytes(), vpn * ENTRY).expect("room");
    }
    file
}

fn dense(entries: &[u64]) -> tempfile::NamedTempFile {
    sparse(&(0..).zip(entries.iter().copied()).collect::<Vec<_>>())
}

#[test]
fn entries_are_pages_from_the_address_on() {
    let copy = dense(&[entry(7), entry(8), 0, SWAPPED | 3 << 5, entry(20), entry(9)]);
    let dump = read(copy.path(), 0x7000_0000, None).expect("a copy");
    let text = "mapping 70000 2 rwxp 0 anonymous\n70000 2 7 4K\nmapping 70004 2 rwxp 0 anonymous\n70004 1 14 4K\n\
                70005 1 9 4K\n";
    assert!(dump.to_string().ends_with(text), "{dump}");
    assert_eq!(Dump::parse(&dump.to_string()).expect("its own text").areas, dump.areas);
}

/// A copy of a whole address space: 256 GB, of which some blocks are there.
#[test]
fn holes_take_neither_time_nor_memory() {
    let places = [(0x400, entry(5)), (0x500, entry(6)), (0x7_f000_0000, entry(7)), (0x7_f000_0001, entry(8))];
    let copy = sparse(&places);
    assert!(copy.as_file().metadata().expect("it is there").len() > 250 << 30);
    let began = std::time::Instant::now();
    let dump = read(copy.path(), 0, None).expect("a copy");
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    let runs: Vec<(u64, u64)> = dump.areas.iter().flat_map(|area| &area.runs).map(|run| (run.vpn, run.pages)).collect();
    assert_eq!(runs, [(0x400, 1), (0x500, 1), (0x7_f000_0000, 2)]);
    // The same pages in the mappings of the process.
    let dump = read(copy.path(), 0, Some(MAPS)).expect("a copy");
    let text = "mapping 400 2 r-xp 3 /usr/bin/a program\n400 1 5 4K\nmapping 500 4 rw-p 0 heap\n500 1 6 4K\n\
                mapping 7f0000000 1 rw-p 0 anonymous\n7f0000000 1 7 4K\nmapping 7f0000001 1 rw-p 0 anonymous\n\
                7f0000001 1 8 4K\nmapping 7fff00000 1 rw-s 0 /dev/zero (deleted)\n";
    assert!(dump.to_string().ends_with(text), "{dump}");
    assert_eq!(Dump::parse(&dump.to_string()).expect("its own text").areas, dump.areas);
    // The kernel's own pages are nobody's.
    let vdso = sparse(&[(0x400, entry(5)), (0x7_fff0_0002, entry(99))]);
    assert_eq!(read(vdso.path(), 0, Some(MAPS)).expect("a copy").areas.len(), 5);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let error = |entries: &[u64], start, maps: Option<&str>| read(dense(entries).path(), start, maps).unwrap_err();
    for (entries, start, words) in [
        (&[entry(1), PRESENT][..], 0x1000, &["byte 8, address 0x2000: its frame is 0: only root", "again"][..]),
        (&[entry(1), 1 << 59], 0, &["byte 8, address 0x1000: 0x800000000000000 is no entry"]),
        (&[PRESENT | SWAPPED | 1], 0, &["byte 0", "no entry of /proc/PID/pagemap"]),
        (&[entry(1 << 34)], 0, &["its frame 0x400000000 is not allowed: the last possible is 0x3ffffffff"]),
        (&[entry(1)], 0x1001, &["the address 0x1001", "multiple of 4096"]),
        (&[entry(1), entry(2)], 0xffff_ffff_ffff_f000, &["0x2 pages from address 0xfffffffffffff000 on do not fit"]),
        (&[], 0, &["it is empty"]),
    ] {
        let error = error(entries, start, None);
        assert!(words.iter().all(|word| error.contains(word)), "{error}: {words:?}");
    }
    let outside = error(&[entry(1), entry(2), entry(3)], 0x40_0000, Some(MAPS));
    assert_eq!(
        outside,
        "byte 16: the page at 0x402000 is present, and no mapping has it: pagemap and maps are of other moments"
    );
    for (from, to, words) in [
        ("00500000-", "00400000-", "maps, line 2: '00400000-00504000 rw-p"),
        ("00504000 rw-p", "00500000 rw-p", "mappings ascend, and each has pages"),
        ("r-xp 00003000", "rexp 00003000", "the protection 'rexp'"),
        ("00402000", "00402001", "a mapping reads"),
        (" 08:01 1234                               /usr/bin/a program", "", "a mapping reads"),
    ] {
        let maps = MAPS.replacen(from, to, 1);
        assert!(error(&[0], 0, Some(&maps)).contains(words), "{maps}");
    }
    assert!(error(&[0], 0, Some("")).contains("no mapping"));
    let cut = dense(&[entry(1)]);
    cut.as_file().set_len(7).expect("it is a file");
    assert_eq!(
        read(cut.path(), 0, None).unwrap_err(),
        "its 7 bytes are no whole number of entries of 8 bytes: the copy is cut"
    );
    assert!(read(Path::new("/dev/zero"), 0, None).unwrap_err().contains("no file"));
    assert!(read(Path::new("/proc/self/pagemap"), 0, None).unwrap_err().contains("it is empty; a copy"));
}

/// Memory of this very process, whose frames only root sees: those of pages that were touched are there, page by page.
#[test]
fn a_copy_of_this_process_has_its_pages() {
    let memory = vec![1_u8; 64 << 12];
    let first = memory.as_ptr().addr().next_multiple_of(4096) as u64 >> BASE_SHIFT;
    let mut entries = vec![0; 60 * 8];
    File::open("/proc/self/pagemap").expect("Linux").read_exact_at(&mut entries, first * ENTRY).expect("readable");
    let mut maps = String::new();
    File::open("/proc/self/maps").expect("Linux").read_to_string(&mut maps).expect("readable");
    let copy = tempfile::NamedTempFile::new().expect("a temporary file");
    copy.as_file().write_all_at(&entries, 0).expect("room");
    for maps in [None, Some(&maps[..])] {
        match read(copy.path(), first << BASE_SHIFT, maps) {
            Ok(dump) => {
                let pages: u64 = dump.areas.iter().flat_map(|area| &area.runs).map(|run| run.pages).sum();
                assert_eq!(pages, 60, "{dump}");
            }
            Err(what) => {
                assert!(!rustix::process::geteuid().is_root(), "{what}");
                assert!(what.contains("only root"), "{what}");
            }
        }
    }
    assert_eq!(memory[5000], 1);
}

/// A hundred damages: refused, or a dump that survives being written and read again.
#[test]
fn damaged_copies_are_refused_or_sound() {
    let mut dice = Pcg64Mcg::seed_from_u64(5);
    let good: Vec<u8> = (1..60).flat_map(|i| entry(1000 + i * (1 + i % 3)).to_le_bytes()).collect();
    let mut refused = 0;
    for round in 0..100 {
        let mut bytes = good.clone();
        let at = dice.random_range(0..bytes.len());
        match round % 3 {
            0 => bytes[at] ^= 1 << dice.random_range(0..8),
            1 => drop(bytes.remove(at)),
            _ => bytes.insert(at, dice.random_range(0..=255)),
        }
        let copy = tempfile::NamedTempFile::new().expect("a temporary file");
        copy.as_file().write_all_at(&bytes, 0).expect("room");
        match read(copy.path(), 0x7f00_0000_0000, None) {
            Err(_) => refused += 1,
            Ok(dump) => assert_eq!(Dump::parse(&dump.to_string()).expect("its own text").areas, dump.areas),
        }
    }
    assert!(refused > 66, "{refused} of 100");
}
