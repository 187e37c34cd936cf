//! Is the recorded address space, after all changes, the one that the system shows?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::{Recording, drain, options, program};
use farreach_live::{Exit, Options, Recorder};
use farreach_types::event::{Advice, Backing, Mapping, Op, Prot};

const PAGE: u64 = 4096;

/// One page: its protection, whether it is shared, its file and offset.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Page {
    prot: Prot,
    shared: bool,
    file: Option<(String, u64)>,
}

type Space = BTreeMap<u64, Page>;

/// The address space that the events of a recording give, for the one that began last.
fn replayed(ops: &[(u32, Op)]) -> Space {
    let mut spaces: BTreeMap<u32, Space> = BTreeMap::new();
    for (asid, op) in ops {
        if let Op::Fork { child } = op {
            let copy = spaces[asid].clone();
            spaces.insert(child.0, copy);
        } else {
            replay(spaces.entry(*asid).or_default(), op);
        }
    }
    spaces.pop_last().expect("an address space").1
}

fn replay(space: &mut Space, op: &Op) {
    let pages = |start: u64, len: u64| (start..start + len).step_by(PAGE as usize);
    match op {
        Op::Map(m) => {
            for at in pages(m.start, m.len) {
                let file = match &m.backing {
                    Backing::File { path, offset } => Some((without_marks(path), offset + (at - m.start))),
                    _ => None,
                };
                space.insert(at, Page { prot: m.prot, shared: m.shared, file });
            }
        }
        Op::Unmap { start, len } => {
            for at in pages(*start, *len) {
                space.remove(&at);
            }
        }
        Op::Protect { start, len, prot } => {
            for at in pages(*start, *len) {
                space.get_mut(&at).unwrap_or_else(|| panic!("protected, but not mapped: {at:#x}")).prot = *prot;
            }
        }
        Op::Remap { old_start, old_len, new_start, new_len } => {
            let mut take = |at| space.remove(&at).unwrap_or_else(|| panic!("moved, but not mapped: {at:#x}"));
            let moved: Vec<Page> = pages(*old_start, *old_len).map(&mut take).collect();
            for (i, at) in pages(*new_start, *new_len).enumerate() {
                let page = moved.get(i).cloned().unwrap_or_else(|| {
                    let last = moved.last().expect("a place to grow from").clone();
                    let further = (i + 1 - moved.len()) as u64 * PAGE;
                    Page { file: last.file.map(|(path, offset)| (path, offset + further)), ..last }
                });
                space.insert(at, page);
            }
        }
        _ => {}
    }
}

/// The name of a file, without what either side adds if it has none any more.
fn without_marks(path: &str) -> String {
    let path = path.replace("\\012", "\n");
    let path = path.rsplit_once(" inode ").map_or(&path[..], |(name, _)| name);
    path.strip_suffix(" (deleted)").unwrap_or(path).to_owned()
}

/// The contents of /proc/self/maps without those of the recorder: its program and memory, and the kernel's mappings for
/// it. The first line has the start of the heap, where the recorder keeps executable pages.
fn system_mappings(text: &str, ops: &[(u32, Op)], tool: &Path) -> Space {
    let mut space = Space::new();
    let number = |text: &str| u64::from_str_radix(text, 16).expect(text);
    let (heap, maps) = text.split_once('\n').expect("two parts");
    let (heap, heap_end) = heap.split_once('-').map(|(a, b)| (number(a), number(b))).expect("the heap");
    let heaps = ops.iter().filter_map(|(_, op)| match op {
        Op::Map(m) if m.backing == Backing::Heap => Some((m.start, m.start + m.len)),
        _ => None,
    });
    let (heap, heap_top) = heaps.fold((heap, heap + PAGE), |(low, high), (start, end)| (low.min(start), high.max(end)));
    for line in maps.lines() {
        let mut fields = line.splitn(6, ' ');
        let mut next = || fields.next().expect(line);
        let (range, flags, offset, _device, inode) = (next(), next(), next(), next(), next());
        let name = fields.next().unwrap_or("").trim_start();
        let (start, end) = range.split_once('-').map(|(a, b)| (number(a), number(b))).expect(line);
        let own = name.starts_with(tool.to_str().unwrap())
            || (0x5800_0000..0x5900_0000).contains(&start)
            || (0x10_0000_0000..0x1f_0000_0000).contains(&start)
            || start >= 0x7000_0000_0000;
        if own {
            continue;
        }
        let has = |c: char| flags.contains(c);
        let prot = Prot { read: has('r'), write: has('w'), exec: has('x') };
        // Memory without a file, under any name of the kernel's.
        let anonymous = inode == "0"
            || name == "/dev/zero"
            || has('s') && (name.starts_with("/dev/zero") || name.starts_with("/SYSV"));
        for at in (start..end).step_by(PAGE as usize) {
            let file = (!anonymous).then(|| (without_marks(name), number(offset) + (at - start)));
            let mut page = Page { prot, shared: has('s'), file };
            if prot == Prot::RWX && !page.shared && (heap..heap_top.next_multiple_of(PAGE)).contains(&at) {
                if at >= heap_end {
                    continue;
                }
                page.prot.exec = false;
            }
            space.insert(at, page);
        }
    }
    space
}

fn shown(space: &Space) -> Vec<String> {
    let mut runs: Vec<(u64, u64, Page)> = Vec::new();
    for (&at, page) in space {
        match runs.last_mut() {
            Some((start, end, first))
                if *end == at
                    && first.prot == page.prot
                    && first.shared == page.shared
                    && match (&first.file, &page.file) {
                        (None, None) => true,
                        (Some((p, o)), Some((q, n))) => p == q && n.wrapping_sub(*o) == at - *start,
                        _ => false,
                    } =>
            {
                *end = at + PAGE;
            }
            _ => runs.push((at, at + PAGE, page.clone())),
        }
    }
    let flag = |on: bool, c: char| if on { c } else { '-' };
    runs.into_iter()
        .map(|(start, end, p)| {
            let (r, w, x) = (flag(p.prot.read, 'r'), flag(p.prot.write, 'w'), flag(p.prot.exec, 'x'));
            let file = p.file.map_or(String::new(), |(path, offset)| format!(" {path} {offset:#x}"));
            format!("{start:#x}-{end:#x} {r}{w}{x}{}{file}", if p.shared { 's' } else { 'p' })
        })
        .collect()
}

/// Records one way of the program `picture`.
fn recorded(way: &str, flags: &[&str]) -> (Recording, String) {
    let dir = crate::cli::Dir::new();
    let stdout = PathBuf::from(dir.path("picture"));
    let options = Options { stdout: Some(stdout.clone()), ..options() };
    let r = drain(Recorder::start(&crate::common::command(&program("picture", flags), &[way]), &options).unwrap());
    assert_eq!(r.report.exit, Exit::Code(0), "{way} {flags:?}");
    let maps = std::fs::read_to_string(&stdout).unwrap();
    (r, maps)
}

/// Differences between record and system, line by line.
fn differences(way: &str, flags: &[&str]) -> Vec<String> {
    let (r, maps) = recorded(way, flags);
    let (mut record, mut system) = (replayed(&r.ops), system_mappings(&maps, &r.ops, crate::common::tool()));
    let same: Vec<u64> = record.iter().filter(|(at, page)| system.get(at) == Some(page)).map(|(at, _)| *at).collect();
    assert!(same.len() > 20, "{way}: {maps}");
    for at in same {
        record.remove(&at);
        system.remove(&at);
    }
    let mark = |what: &str, space: &Space| shown(space).into_iter().map(|l| format!("{what} {l}")).collect::<Vec<_>>();
    [mark("record", &record), mark("system", &system)].concat()
}

const WAYS: [&str; 30] = [
    "nothing",
    "holes",
    "protect",
    "protect_many",
    "pkeys",
    "move",
    "move_files",
    "heap",
    "heap_pieces",
    "heap_to_nothing",
    "heap_limit",
    "heap_large",
    "stack",
    "threads",
    "libraries",
    "segments",
    "segments_over",
    "segments_many",
    "segments_moved",
    "memfd",
    "files",
    "hints",
    "fixed",
    "over_program",
    "child",
    "advice",
    "wipe",
    "remap_pages",
    "own_stack",
    "stack_exec",
];

fn all_ways(flags: &[&str]) {
    for way in WAYS {
        let none: [&str; 0] = [];
        assert_eq!(differences(way, flags), none, "{way} {flags:?}");
    }
}

#[test]
fn the_address_space_is_what_the_system_says() {
    all_ways(&[]);
}

#[test]
fn of_static_programs_too() {
    all_ways(&["-static"]);
}

#[test]
fn wherever_the_heap_lies_and_whatever_the_stack_may() {
    for flags in [&["-no-pie"][..], &["-static-pie"], &["-Wl,-z,execstack"]] {
        for way in ["heap", "heap_pieces", "stack", "threads"] {
            let none: [&str; 0] = [];
            assert_eq!(differences(way, flags), none, "{way} {flags:?}");
        }
    }
}

#[test]
fn a_heap_of_64_megabytes_is_one_piece() {
    let (r, _) = recorded("heap_large", &[]);
    let large = r.ops.iter().filter(|(_, op)| match op {
        Op::Map(m) => m.backing == Backing::Heap && m.len == 64 << 20,
        _ => false,
    });
    assert_eq!(large.count(), 1);
}

#[test]
fn files_without_a_name_are_told_apart() {
    let (r, _) = recorded("memfd", &[]);
    let paths = r.ops.iter().filter_map(|(_, op)| match op {
        Op::Map(Mapping { backing: Backing::File { path, .. }, .. }) if path.contains("a name") => Some(path),
        _ => None,
    });
    let paths: Vec<_> = paths.collect();
    assert!(paths.len() == 3 && paths[0] == paths[1] && paths[1] != paths[2], "{paths:?}");
}

#[test]
fn what_is_wiped_on_fork_is_empty_in_the_child() {
    let (r, _) = recorded("wipe", &[]);
    let dropped = |asid| {
        let all = r.of(asid).into_iter();
        all.filter(|op| matches!(op, Op::Advise { len: 8192, advice: Advice::DontNeed, .. })).count()
    };
    assert_eq!((dropped(0), dropped(1)), (0, 1));
}
