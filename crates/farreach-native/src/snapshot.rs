//! A snapshot of the memory of a process: its mappings, their present pages and the frames.

use farreach_cost::contiguity::{Run, joined};
use farreach_live::huge_pages;
use farreach_live::rights::{self, Right};
use farreach_os::dump::{Area, Dump, Present};
use farreach_types::Error;
use farreach_types::counts::RegionContiguity;
use farreach_types::event::Prot;
use procfs::process::{MMPermissions, MMapPath, MemoryPageFlags, PageInfo, Process, VmFlags};
use procfs::{ProcError, ProcResult};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::ops::Range;

const PAGE: u64 = 4096;
/// Pages read at a time: the memory for this does not grow with the process.
const CHUNK: u64 = 1 << 16;

/// One mapping of the process.
pub struct Region {
    /// `heap`, `stack`, `anonymous`, or the file.
    pub name: String,
    /// Its pages of 4 KB, by number.
    pub pages: Range<u64>,
    prot: Prot,
    shared: bool,
    /// Page of the file at its start.
    offset: u64,
    /// Present pages.
    pub runs: Vec<Run>,
    /// 4 KB pages of those that 2 MB leaves map.
    pub huge_pages: u64,
    /// Of these, anonymous ones.
    pub anonymous_huge_pages: u64,
    /// Pages whose used bit is set (`Referenced`).
    pub used_pages: u64,
    /// The process asked for huge pages here, or refused them.
    pub advice: Option<bool>,
    /// Pages mapped by 2 MB leaves; `None` if the kernel does not say.
    pub huge: Option<Vec<Range<u64>>>,
}

impl Region {
    /// Private memory without a file: what transparent huge pages are for.
    pub fn is_anonymous(&self) -> bool {
        !self.shared && matches!(self.name.as_str(), "heap" | "stack" | "anonymous")
    }
}

/// The mappings of a process with their present pages. Memory may change meanwhile: each page is read at its own
/// moment.
///
/// # Errors
/// The process has ended, or this user may not read its memory: see [`refused`].
pub fn snapshot(process: &Process) -> ProcResult<Vec<Region>> {
    let maps = process.smaps()?;
    let mut pagemap = process.pagemap()?;
    let mut regions = Vec::new();
    for map in maps.iter() {
        let value = |name: &str| map.extension.map.get(name).copied().unwrap_or(0);
        let name = match &map.pathname {
            MMapPath::Path(path) => path.display().to_string(),
            MMapPath::Heap => "heap".to_owned(),
            MMapPath::Stack | MMapPath::TStack(_) => "stack".to_owned(),
            // The kernel's own pages have no frames that the process owns.
            MMapPath::Vsyscall | MMapPath::Vdso | MMapPath::Vvar => continue,
            MMapPath::Anonymous => "anonymous".to_owned(),
            MMapPath::Other(name) if name.starts_with("vvar") => continue,
            // Anonymous memory with a name: [anon:glibc: malloc].
            MMapPath::Other(name) if name.starts_with("anon:") => "anonymous".to_owned(),
            other => format!("{other:?}"),
        };
        let has = |bit| map.perms.contains(bit);
        let mut region = Region {
            name,
            pages: map.address.0 / PAGE..map.address.1 / PAGE,
            prot: Prot {
                read: has(MMPermissions::READ),
                write: has(MMPermissions::WRITE),
                exec: has(MMPermissions::EXECUTE),
            },
            shared: has(MMPermissions::SHARED),
            offset: map.offset / PAGE,
            runs: Vec::new(),
            huge_pages: 0,
            anonymous_huge_pages: value("AnonHugePages") / PAGE,
            used_pages: value("Referenced") / PAGE,
            advice: advice(map.extension.vm_flags),
            huge: Some(Vec::new()),
        };
        // Reserved memory that was never touched may be many gigabytes.
        if value("Rss") > 0 || !map.extension.map.contains_key("Rss") {
            present(&mut pagemap, map.address, permission(map.perms), &mut region.runs)?;
            region.huge_pages =
                ["AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"].map(value).iter().sum::<u64>() / PAGE;
        }
        if region.huge_pages > 0 {
            region.huge = huge_pages(process.pid(), region.pages.clone()).ok();
        }
        regions.push(region);
    }
    Ok(regions)
}

/// What the process said about huge pages in a mapping.
fn advice(flags: VmFlags) -> Option<bool> {
    if flags.contains(VmFlags::NH) { Some(false) } else { flags.contains(VmFlags::HG).then_some(true) }
}

/// The permissions that a range must share: read, write, execute.
fn permission(perms: MMPermissions) -> u8 {
    (perms & (MMPermissions::READ | MMPermissions::WRITE | MMPermissions::EXECUTE)).bits()
}

/// Appends the present pages of a mapping.
fn present(
    pagemap: &mut procfs::process::PageMap,
    (start, end): (u64, u64),
    permission: u8,
    runs: &mut Vec<Run>,
) -> ProcResult<()> {
    let mut vpn = start / PAGE;
    while vpn < end / PAGE {
        let to = (vpn + CHUNK).min(end / PAGE);
        let pages = pagemap.get_range_info(vpn as usize..to as usize)?;
        // A mapping that shrank meanwhile has fewer.
        for (vpn, page) in (vpn..to).zip(pages) {
            let PageInfo::MemoryPage(flags) = page else { continue };
            if !flags.contains(MemoryPageFlags::PRESENT) {
                continue;
            }
            let frame = flags.get_page_frame_number().0;
            let run = Run { vpn, pages: 1, pfn: (frame != 0).then_some(frame), permission };
            match runs.last_mut() {
                Some(last) if last.vpn + last.pages == vpn && last.pfn.map(|f| f + last.pages) == run.pfn => {
                    last.pages += 1
                }
                _ => runs.push(run),
            }
        }
        vpn = to;
    }
    Ok(())
}

/// Whether the process has ended.
pub fn gone(error: &ProcError) -> bool {
    match error {
        ProcError::NotFound(_) => true,
        // Files in /proc of an address space that ended while they were open are empty.
        ProcError::Io(e, _) => e.raw_os_error() == Some(libc::ESRCH) || e.kind() == ErrorKind::UnexpectedEof,
        _ => false,
    }
}

/// Why the memory of this process cannot be read, for people.
pub fn refused(pid: i32, error: &ProcError) -> Error {
    let failed = Error::Failed;
    match error {
        // For a process without address space the kernel returns ESRCH.
        e if gone(e) => match Process::new(pid).and_then(|process| process.stat()) {
            Ok(stat) if stat.state == 'Z' => {
                failed(format!("process {pid} ({}) has ended; its memory is gone", stat.comm))
            }
            Ok(stat) => {
                failed(format!("process {pid} ({}) has no memory of its own: it is a thread of the kernel", stat.comm))
            }
            Err(_) => failed(format!("process {pid}: there is none")),
        },
        ProcError::PermissionDenied(path) => {
            let file = path.as_ref().map_or_else(|| format!("/proc/{pid}"), |p| p.display().to_string());
            let owner = Process::new(pid)
                .and_then(|process| process.uid())
                .map_or(String::new(), |uid| format!(" (user {uid})"));
            let wanted = rights::wanted(Right::Ptrace, &format!(", or as the user of the process{owner}"));
            failed(format!("process {pid}: {file} may not be read; {wanted}"))
        }
        e => failed(format!("process {pid}: {e}")),
    }
}

/// Regions of one name together, largest first.
pub fn regions(snapshot: &[Region]) -> Vec<RegionContiguity> {
    let mut rows: Vec<RegionContiguity> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for region in snapshot.iter().filter(|region| !region.runs.is_empty()) {
        let row = *index.entry(&region.name).or_insert_with(|| {
            rows.push(RegionContiguity { region: region.name.clone(), ..RegionContiguity::default() });
            rows.len() - 1
        });
        let row = &mut rows[row];
        row.pages += region.runs.iter().map(|run| run.pages).sum::<u64>();
        row.huge_pages += region.huge_pages;
        row.virtual_ranges += joined(&region.runs, false).len() as u64;
        if region.runs.iter().all(|run| run.pfn.is_some()) {
            *row.physical_ranges.get_or_insert(0) += joined(&region.runs, true).len() as u64;
        }
    }
    rows.sort_by(|a, b| b.pages.cmp(&a.pages).then_with(|| a.region.cmp(&b.region)));
    rows
}

/// The mapping for the laboratory.
pub fn dump(source: &str, snapshot: Vec<Region>) -> Dump {
    let area = |region: Region| {
        let huge = region.huge.unwrap_or_default();
        Area {
            start: region.pages.start,
            pages: region.pages.end - region.pages.start,
            prot: region.prot,
            shared: region.shared,
            offset: region.offset,
            name: region.name,
            runs: region.runs.iter().flat_map(|run| split(run, &huge)).collect(),
        }
    };
    Dump { source: source.to_owned(), areas: snapshot.into_iter().map(area).collect() }
}

/// A run in pieces of one leaf size. The two files of the kernel may disagree about memory that changed between their
/// reads: then it is taken for base pages.
fn split(run: &Run, huge: &[Range<u64>]) -> Vec<Present> {
    const HUGE: u64 = farreach_os::dump::HUGE;
    let mut pieces: Vec<Present> = Vec::new();
    let mut add = |pages: Range<u64>, huge: bool| {
        if !pages.is_empty() {
            let pfn = run.pfn.map(|pfn| pfn + (pages.start - run.vpn));
            pieces.push(Present { vpn: pages.start, pages: pages.end - pages.start, pfn, huge });
        }
    };
    let (mut at, end) = (run.vpn, run.vpn + run.pages);
    for range in huge {
        let (first, last) = (range.start.max(at).next_multiple_of(HUGE), range.end.min(end) / HUGE * HUGE);
        if first < last && run.pfn.is_none_or(|pfn| (pfn + (first - run.vpn)).is_multiple_of(HUGE)) {
            add(at..first, false);
            add(first..last, true);
            at = last;
        }
    }
    add(at..end, false);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_split_where_the_leaf_size_changes() {
        let run = Run { vpn: 500, pages: 1548, pfn: Some(500), permission: 3 };
        let sizes = |pieces: Vec<Present>| pieces.iter().map(|p| (p.vpn, p.pages, p.pfn, p.huge)).collect::<Vec<_>>();
        let here = sizes(split(&run, &[512..1024, 1536..2048]));
        let at = |vpn, pages, huge| (vpn, pages, Some(vpn), huge);
        assert_eq!(here, [at(500, 12, false), at(512, 512, true), at(1024, 512, false), at(1536, 512, true)]);
        // Frames that are not aligned as a leaf must be: the mapping changed between the reads.
        assert_eq!(split(&Run { pfn: Some(7), ..run }, &[512..1024, 1024..1536]).len(), 1);
        assert_eq!(sizes(split(&Run { vpn: 0, pages: 3, pfn: None, permission: 1 }, &[])), [(0, 3, None, false)]);
    }

    /// The process may end between two reads of a look.
    #[test]
    fn a_process_that_ends_while_it_is_looked_at_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let process = Process::new(child.id() as i32).unwrap();
        let mut pagemap = process.pagemap().unwrap();
        let first = process.maps().unwrap().0[0].address.0 as usize / 4096;
        assert!(pagemap.get_range_info(first..first + 1).is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        let error = pagemap.get_range_info(first..first + 1).unwrap_err();
        assert!(gone(&error), "{error}");
    }
}
