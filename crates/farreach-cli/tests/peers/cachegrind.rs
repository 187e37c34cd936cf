//! Are cache misses those that an independent simulator counts? The reference is Cachegrind, one of Valgrind's own
//! tools: on a real program, for several geometries, each of its misses is one here, and each difference to a whole
//! machine has a cause that is counted. The references are those of Lackey: both tools see the code after Valgrind has
//! removed loads whose value nobody uses, which the recorder keeps.

use crate::Alone;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{program, scratch, tool};
use crate::lackey;
use farreach_hw::cache::{Cache, Shape};
use farreach_hw::system::{Space, global};
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_trace::open_trace;
use farreach_types::addr::Asid;
use farreach_types::event::{Access, Kind};
use farreach_types::translation::Attr;

/// First level of either side, last level for both together.
const GEOMETRIES: [(Shape, Shape); 4] = [
    (shape(1 << 10, 32, 2), shape(8 << 10, 32, 4)),
    (shape(2 << 10, 64, 1), shape(16 << 10, 64, 8)),
    (shape(512, 32, 4), shape(4 << 10, 32, 1)),
    (shape(8 << 10, 64, 2), shape(64 << 10, 64, 8)),
];

const fn shape(size: u64, line: u64, ways: u64) -> Shape {
    Shape { size, line, ways }
}

/// The first and last line of a reference.
fn lines(addr: u64, size: u64, line: u64) -> std::ops::RangeInclusive<u64> {
    addr / line..=(addr + size - 1) / line
}

/// References a line; whether it was missing.
fn missing(cache: &mut Cache, line: u64) -> bool {
    let missing = cache.find(line).is_none();
    if missing {
        cache.insert(line, Attr(0), false);
    }
    missing
}

/// What Cachegrind prints: Ir I1mr ILmr, Dr D1mr DLmr, Dw D1mw DLmw.
type Summary = [u64; 9];

fn cachegrind(tool: &Path, program: &Path, (l1, ll): (Shape, Shape)) -> Summary {
    let out = scratch().join(format!("cachegrind-{}.out", std::process::id()));
    let cache = |name: &str, s: Shape| format!("--{name}={},{},{}", s.size, s.ways, s.line);
    let ran = Command::new(tool)
        .args(lackey::COMMON)
        .args(["--tool=cachegrind", "--cache-sim=yes"])
        .args([cache("I1", l1), cache("D1", l1), cache("LL", ll)])
        .arg(format!("--cachegrind-out-file={}", out.display()))
        .arg(program)
        .env_clear()
        .env("VALGRIND_LAUNCHER", "/cachegrind")
        .env("VALGRIND_LIB", crate::common::tool())
        .output()
        .expect("Cachegrind runs");
    assert_eq!(ran.status.code(), Some(7), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = std::fs::read_to_string(&out).expect("Cachegrind's result");
    let summary = text.lines().find_map(|line| line.strip_prefix("summary: ")).expect("a summary");
    let numbers: Vec<u64> = summary.split_whitespace().map(|n| n.parse().expect("a count")).collect();
    numbers.try_into().expect("nine counts")
}

/// The same from the references and [`Cache`], by Cachegrind's rules: a reference misses once, even if several of its
/// lines miss; a store to the bytes that the same instruction has just loaded is no reference of its own; a reference
/// longer than a line counts as one line; the last level is asked for all lines of a reference that missed, and is not
/// inclusive.
fn by_its_rules(accesses: &[Access], (l1, ll): (Shape, Shape)) -> Summary {
    let [mut i1, mut d1, mut last] = [l1, l1, ll].map(|s| Cache::new(s).expect("a geometry that fits"));
    let mut counts = Summary::default();
    let mut before: Option<Access> = None;
    for &access in accesses {
        let modifies = access.kind == Kind::Store
            && before.is_some_and(|b| b.kind == Kind::Load && (b.addr, b.size) == (access.addr, access.size));
        before = Some(access);
        if modifies {
            continue;
        }
        let (first, cache) = match access.kind {
            Kind::Fetch => (0, &mut i1),
            Kind::Load => (3, &mut d1),
            Kind::Store => (6, &mut d1),
        };
        let size = u64::from(access.size).min(l1.line);
        counts[first] += 1;
        // All lines are looked up, even after one has missed.
        let missed = lines(access.addr, size, l1.line).fold(false, |missed, line| missing(cache, line) | missed);
        if missed {
            counts[first + 1] += 1;
            let missed =
                lines(access.addr, size, ll.line).fold(false, |missed, line| missing(&mut last, line) | missed);
            counts[first + 2] += u64::from(missed);
        }
    }
    counts
}

/// First-level misses of a machine without TLB and without handler code, whose second level is so large that nothing is
/// evicted: each line of a reference counts, and the first touch of a line loads a page table entry, which may displace
/// another line.
#[derive(Default)]
struct Machine {
    misses: [u64; 2],
    /// Loads of page table entries that missed the first level.
    entries: u64,
}

fn machine(accesses: &[Access], l1: Shape) -> Machine {
    let mut first = [l1, l1].map(|s| Cache::new(s).expect("a geometry that fits"));
    let mut second = [HashSet::new(), HashSet::new()];
    let mut space = Space::new(24);
    let mut found = Machine::default();
    for access in accesses {
        let side = usize::from(access.kind != Kind::Fetch);
        for line in lines(access.addr, access.size.into(), l1.line) {
            let addr = line * l1.line;
            let id = space.enter(Asid(0), Space::chunk(addr)).segment.id;
            let global = global::global(id, addr);
            if first[side].find(global / l1.line).is_some() {
                continue;
            }
            found.misses[side] += 1;
            if second[side].insert(global / l1.line) {
                let entry = global::upte(global) / l1.line;
                if first[1].find(entry).is_none() {
                    found.entries += 1;
                    if second[1].insert(entry) {
                        let root = global::cached(space.root(Asid(0), global >> 12)) / l1.line;
                        found.entries += u64::from(missing(&mut first[1], root));
                        second[1].insert(root);
                    }
                    first[1].insert(entry, Attr(0), false);
                }
            }
            first[side].insert(global / l1.line, Attr(0), false);
        }
    }
    found
}

/// The references as a trace without mappings, so that no page is ever copied and flushed.
fn text(accesses: &[Access]) -> PathBuf {
    let mut text = String::new();
    for a in accesses {
        let kind = match a.kind {
            Kind::Fetch => "I ",
            Kind::Load => " L",
            Kind::Store => " S",
        };
        writeln!(text, "{kind} {:08x},{}", a.addr, a.size).expect("memory takes it");
    }
    let file = scratch().join(format!("cachegrind-{}.lackey", std::process::id()));
    std::fs::write(&file, text).expect("room for a trace");
    file
}

#[test]
fn every_miss_as_cachegrind_counts_it() {
    let _alone = Alone::new();
    let installed = ["/usr/libexec/valgrind/cachegrind-amd64-linux", "/usr/lib/valgrind/cachegrind-amd64-linux"];
    let installed = installed.map(Path::new).into_iter().find(|p| p.exists());
    let (Some(installed), Some(lackey)) = (installed, lackey::lackey_tool()) else {
        eprintln!("skipped: this Valgrind comes without Cachegrind or Lackey");
        return;
    };
    let plain = program("plain", &["-static"]);
    // Both from the same directory, so that the stacks are alike.
    let copy = tool().join("cachegrind-amd64-linux");
    std::fs::copy(installed, &copy).expect("Cachegrind copied");
    let theirs = GEOMETRIES.map(|geometry| cachegrind(&copy, &plain, geometry));

    let accesses = lackey::theirs(lackey, &plain);
    assert!(accesses.len() > 50_000, "only {} references", accesses.len());
    for (geometry, theirs) in GEOMETRIES.into_iter().zip(theirs) {
        assert_eq!(by_its_rules(&accesses, geometry), theirs, "{geometry:?}");
        assert!(theirs[1] > 200 && theirs[4] > 200, "{geometry:?} has misses to speak of: {theirs:?}");
    }

    // A whole machine on the same references, through the whole loop.
    let file = text(&accesses);
    for (l1, _) in GEOMETRIES {
        let name = format!("sv97/spur:l1_size={},l1_ways={},line={},l2_size=64M,l2_ways=16", l1.size, l1.ways, l1.line);
        let mut lab =
            Lab::new(vec![MachineSpec::parse(&name, 0).expect("a description")], Options::default()).expect("it fits");
        lab.run(&mut open_trace(file.to_str().expect("a plain name"), None).expect("a trace").source)
            .expect("the trace is sound");
        let result = lab.result("plain", None);
        let counts = result.machines[0].system.as_ref().expect("a machine with caches");
        let ours = machine(&accesses, l1);
        assert_eq!([counts.fetch.l1_misses, counts.data.l1_misses], ours.misses, "{name}");
        assert_eq!(counts.handler.l1d_misses, ours.entries, "{name}");
        assert_eq!(counts.dirty_victims + counts.flushed_lines, 0, "{name}: nothing leaves the second level");
    }
    std::fs::remove_file(file).expect("it was just read");
}
