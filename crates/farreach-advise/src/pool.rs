//! Pools of huge pages: how a program takes memory from one, and how large it must be.

use super::change::{Change, ENDED_TOO_SOON, Program};
use super::kernel::Write;
use farreach_cost::today::pool_pages;
use farreach_live::AllocatorKind;
use farreach_live::system::{System, Thp};
use farreach_native::this::policy::mode;
use farreach_types::addr::{Asid, Bytes};
use farreach_types::event::{Advice, Batch, Op};
use std::collections::{BTreeMap, HashMap};

const M2: u64 = 2 << 20;
const G1: u64 = 1 << 30;

/// How a program takes memory from a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Takes {
    pub environment: Vec<(String, String)>,
    pub arguments: Vec<String>,
}

/// By its own switch, else by that of its allocator.
fn takes(program: &Program, page: u64) -> Result<Takes, String> {
    let own = |words: &[&str]| {
        Ok(Takes { arguments: words.iter().map(|word| (*word).to_owned()).collect(), ..Takes::default() })
    };
    let by = |name: &str, value: String| Ok(Takes { environment: vec![(name.into(), value)], ..Takes::default() });
    match (program.name.as_str(), &program.allocator) {
        ("mariadbd" | "mysqld", _) => own(&["--large-pages"]),
        ("postgres", _) if page == G1 => own(&["-c", "huge_pages=on", "-c", "huge_page_size=1GB"]),
        ("postgres", _) => own(&["-c", "huge_pages=on"]),
        (_, Some(AllocatorKind::Jvm)) => {
            by("JAVA_TOOL_OPTIONS", format!("-XX:+UseLargePages -XX:LargePageSizeInBytes={}", Bytes(page)))
        }
        (_, Some(AllocatorKind::Glibc(Some(version)))) if *version >= (2, 35) => {
            let value = if page == M2 { 2 } else { page };
            by("GLIBC_TUNABLES", format!("glibc.malloc.hugetlb={value}"))
        }
        _ => Err("no switch is known by which it takes memory from a pool (glibc from 2.35 on has one)".into()),
    }
}

/// The row of a pool with pages of this size. How many it needs is known once the program is recorded with it.
///
/// # Errors
/// Why there is none.
pub fn change(system: &System, program: &Program, page: u64) -> Result<Change, String> {
    let Some(resident) = program.resident_bytes else {
        let why = if program.unseen { ENDED_TOO_SOON } else { "its size needs a run of the program" };
        return Err(why.into());
    };
    let takes = takes(program, page)?;
    if !system.hugetlb.iter().any(|pool| pool.bytes == page) {
        return Err("this kernel or processor has no such pool".into());
    }
    if resident < page / 2 {
        return Err(format!("the program uses {} at most", Bytes(resident.next_multiple_of(1 << 20))));
    }
    let mut change = Change {
        name: if page == M2 { "hugetlb-2m".into() } else { "hugetlb-1g".into() },
        keys: keys(system.thp.as_ref(), program.thp_disabled, page),
        environment: takes.environment,
        arguments: takes.arguments,
        recorded_apart: true,
        pool: Some((page, 0)),
        reach: 4,
        ..Change::default()
    };
    resize(&mut change, system, pool_pages(resident, page))?;
    Ok(change)
}

/// Gives the pool of a change this many pages.
///
/// # Errors
/// They do not fit into memory.
pub fn resize(change: &mut Change, system: &System, pages: u64) -> Result<(), String> {
    let Some((page, _)) = change.pool else { return Ok(()) };
    change.pool = Some((page, pages));
    change.words = format!("{}: {pages}", words(page));
    change.risk = format!("{} less for others", Bytes(pages * page));
    change.writes = vec![Write::pool(system, page, pages)];
    match system.available_bytes {
        Some(available) if pages * page > available / 10 * 9 => {
            Err(format!("{pages} pages are more than nine tenths of the memory that is available"))
        }
        _ => Ok(()),
    }
}

/// `pool of 2M pages`.
pub fn words(page: u64) -> String {
    format!("pool of {} pages", Bytes(page))
}

/// The keys that simulate a pool: what asks for its pages asks for huge pages in the recording, and gets them, shared
/// memory too. All else is as today, where a kernel has no transparent huge pages for those that ask.
fn keys(thp: Option<&Thp>, disabled: bool, page: u64) -> String {
    let mode = if mode(thp) == "always" && !disabled { "always" } else { "madvise" };
    let size = Bytes(page);
    let mut keys =
        format!("placement=linux,pages_to_scan=0,thp={mode},thp_size={size},shmem_enabled=advise,shmem_size={size}");
    if page > M2 {
        // Linux finds such pages for a pool without its buddy allocator, whose blocks are smaller.
        keys += &format!(",max_order={}", (page >> 12).ilog2() + 1);
    }
    if page > M2 && mode == "always" {
        keys += &format!(",mthp_inherit={}", Bytes(M2));
    }
    keys
}

/// What a recorded program asked of its pool: each mapping takes its pages from it when it is made, touched or not.
///
/// A child has copies of its parent's private pages, which it needs as soon as either writes; without a page for it
/// the child gets SIGBUS. So it is taken to need them all, unless it ends or starts another program at once.
#[derive(Debug)]
pub struct Asked {
    page: u64,
    processes: HashMap<Asid, Process>,
    most: u64,
}

/// A process that takes pages from a pool.
#[derive(Debug, Default)]
struct Process {
    /// First address and end of what it has of the pool, and whether it shares that.
    mapped: BTreeMap<u64, (u64, bool)>,
    /// First address and end of its last mapping that is shared.
    shared: (u64, u64),
    /// A child of which nothing was recorded yet.
    is_new: bool,
}

impl Process {
    fn pages(&self, page: u64) -> u64 {
        self.mapped.iter().map(|(start, (end, _))| (end - start).div_ceil(page)).sum()
    }

    /// What of these addresses is mapped no longer.
    fn drop(&mut self, from: u64, to: u64) {
        let overlapping = self.mapped.range(..to).rev().take_while(|(_, (end, _))| *end > from);
        let hit: Vec<(u64, (u64, bool))> = overlapping.map(|(start, rest)| (*start, *rest)).collect();
        for (start, (end, shared)) in hit {
            self.mapped.remove(&start);
            let rest = [(start, from), (to, end)].into_iter().filter(|(start, end)| start < end);
            self.mapped.extend(rest.map(|(start, end)| (start, (end, shared))));
        }
    }
}

impl Asked {
    pub fn new(page: u64) -> Asked {
        Asked { page, processes: HashMap::new(), most: 0 }
    }

    /// Most pages at a time.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Follows a piece of the recording.
    pub fn follow(&mut self, batch: &Batch) {
        for op in &batch.ops {
            let process = self.processes.entry(batch.asid).or_default();
            match op {
                Op::Advise { start, len, advice: Advice::HugePage } => {
                    process.drop(*start, start + len);
                    let shared = (process.shared.0..process.shared.1).contains(start);
                    process.mapped.insert(*start, (start + len, shared));
                }
                Op::Unmap { start, len } => process.drop(*start, start + len),
                Op::Map(mapping) => {
                    let range = (mapping.start, mapping.start + mapping.len);
                    process.drop(range.0, range.1);
                    process.shared = if mapping.shared { range } else { (0, 0) };
                }
                Op::End(_) => _ = self.processes.remove(&batch.asid),
                Op::Fork { child } => {
                    let private = process.mapped.iter().filter(|(_, (_, shared))| !shared);
                    let mapped = private.map(|(start, rest)| (*start, *rest)).collect();
                    self.processes.insert(*child, Process { mapped, is_new: true, ..Process::default() });
                }
                _ => continue,
            }
            self.most = self.most.max(self.pages());
        }
        if let Some(child) = self.processes.get_mut(&batch.asid).filter(|process| process.is_new) {
            child.is_new = false;
            self.most = self.most.max(self.pages());
        }
    }

    fn pages(&self) -> u64 {
        self.processes.values().filter(|process| !process.is_new).map(|process| process.pages(self.page)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::event::{Backing, End, Mapping, Prot};

    const K4: u64 = 4 << 10;

    #[test]
    fn a_pool_is_for_what_asks() {
        let of = |mode: &str, disabled, page| {
            keys(Some(&Thp { enabled: Some(mode.into()), ..Thp::default() }), disabled, page)
        };
        let start = "placement=linux,pages_to_scan=0";
        assert_eq!(
            of("never", false, M2),
            format!("{start},thp=madvise,thp_size=2M,shmem_enabled=advise,shmem_size=2M")
        );
        assert_eq!(
            of("always", false, G1),
            format!("{start},thp=always,thp_size=1G,shmem_enabled=advise,shmem_size=1G,max_order=19,mthp_inherit=2M")
        );
        assert!(of("always", true, M2).contains("thp=madvise"), "it switches them off for itself");
        assert_eq!(mode(None), "never");
    }

    /// Applies an event: pages in use, and most of them.
    fn apply(asked: &mut Asked, asid: u32, op: Op) -> (u64, u64) {
        let mut batch = Batch::new(Asid(asid));
        batch.push_op(op);
        asked.follow(&batch);
        (asked.pages(), asked.most())
    }

    fn huge(start: u64, len: u64) -> Op {
        Op::Advise { start, len, advice: Advice::HugePage }
    }

    fn map(start: u64, len: u64, shared: bool) -> Op {
        Op::Map(Mapping { start, len, prot: Prot::RW, shared, backing: Backing::Anonymous })
    }

    #[test]
    fn what_is_asked_of_a_pool() {
        let mut asked = Asked::new(M2);
        let mut apply = |asid, op| apply(&mut asked, asid, op);
        assert_eq!(apply(0, huge(0, 3 * M2 - K4)), (3, 3));
        assert_eq!(apply(0, huge(8 * M2, K4)), (4, 4));
        assert_eq!(apply(1, huge(0, M2)), (5, 5));
        // The same again, the middle of it, and what hides it.
        assert_eq!(apply(0, huge(0, 3 * M2)), (5, 5));
        assert_eq!(apply(0, Op::Unmap { start: M2, len: M2 }), (4, 5));
        assert_eq!(apply(0, map(2 * M2, 16 * M2, false)), (2, 5));
        assert_eq!(apply(0, Op::End(End::Exit(0))), (1, 5));
        assert_eq!(apply(0, Op::Unmap { start: 0, len: M2 }), (1, 5), "of another process");
    }

    #[test]
    fn children_need_pages_for_what_they_do_not_share() {
        let mut asked = Asked::new(M2);
        let mut apply = |asid, op| apply(&mut asked, asid, op);
        apply(0, map(0, 3 * M2, false));
        apply(0, huge(0, 3 * M2));
        apply(0, map(8 * M2, 4 * M2, true));
        assert_eq!(apply(0, huge(8 * M2, 4 * M2)), (7, 7));
        // One that starts another program at once needs nothing, one that stays has all but what is shared.
        assert_eq!(apply(0, Op::Fork { child: Asid(1) }), (7, 7));
        assert_eq!(apply(1, Op::End(End::Exec)), (7, 7));
        assert_eq!(apply(0, Op::Fork { child: Asid(2) }), (7, 7));
        assert_eq!(apply(2, Op::Unmap { start: 2 * M2, len: M2 }), (9, 9));
        assert_eq!(apply(2, map(2 * M2, M2, false)), (9, 9));
        assert_eq!(apply(2, Op::End(End::Exit(0))), (7, 9));
    }
}
