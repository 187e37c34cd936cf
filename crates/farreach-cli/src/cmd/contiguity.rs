//! `farreach contiguity`: how contiguous the memory of a living process is.

use super::common::{note, print, write_whole};
use super::program;
use anyhow::{Context, Result, bail};
use clap::Args;
use farreach::cost::contiguity::{Run, joined, sample};
use farreach::counts::{CONTIGUITY_SCHEMA, ContiguityResult, ContiguitySample, RegionContiguity};
use farreach::event::Prot;
use farreach::os::dump::{Area, Dump, Present};
use farreach::report::{contiguity as report, json};
use farreach_cli::live::{Watch as Signals, huge_pages};
use procfs::process::{MMPermissions, MMapPath, MemoryPageFlags, PageInfo, Process};
use procfs::{ProcError, ProcResult};
use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
/// Pages looked at together: what this takes of memory does not grow with the process.
const CHUNK: u64 = 1 << 16;
/// Seconds between looks at a command.
const EVERY: f64 = 1.0;

/// How contiguous is the memory of a process, and what would translation hardware need to reach it?
///
/// Reads /proc/PID/pagemap and smaps: the runs of pages that are contiguous in the virtual address space (what ideal placement could
/// make one range of) and those contiguous in both, how few of them cover the memory, and the entries that a range TLB, a clustered
/// TLB, a contiguous bit or 2 MB pages would take. Frames are only shown to a user with CAP_SYS_ADMIN; without it the virtual half is
/// reported. A COMMAND runs natively, at full speed.
#[derive(Args)]
#[command(after_help = "Examples:
  farreach contiguity -p 4711
  farreach contiguity -p 4711 --every 5 --count 60 --csv
  farreach contiguity --every 0.2 -- gcc -O2 -c big.c")]
pub struct ContiguityArgs {
    /// The process
    #[arg(short, long, value_name = "PID", required_unless_present = "command", conflicts_with = "command")]
    pid: Option<i32>,
    /// Look every so many seconds: once if not given, every second for a COMMAND
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    every: Option<f64>,
    /// Looks at a process, with --every; until it ends if not given
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print JSON (schema farreach.contiguity/1)
    #[arg(long, group = "form")]
    json: bool,
    /// Print CSV, one row per look
    #[arg(long, group = "form")]
    csv: bool,
    /// Also write the mapping itself, of the look with the most memory, for `farreach sim --mapping FILE`
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// A program and its arguments, after `--`, instead of a process
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.001..=86400.0).contains(&s) => Ok(s),
        _ => Err("seconds from 0.001 to 86400 are allowed".to_owned()),
    }
}

/// Looks, and prints what was seen. The exit status is the program's.
pub fn run(args: ContiguityArgs) -> Result<ExitCode> {
    let mut watch = Watch { signals: Signals::begin(), began: Instant::now(), samples: Vec::new(), peak: None };
    let (source, status) = match args.pid {
        Some(pid) => (watch.process(pid, &args)?, ExitCode::SUCCESS),
        None => watch.command(&args)?,
    };
    let Some((peak, look)) = watch.peak else {
        bail!("{source}: it ended before its memory could be looked at; try a smaller --every")
    };
    let sizes_known = look.iter().all(|region| region.huge.is_some());
    let result = ContiguityResult {
        schema: CONTIGUITY_SCHEMA.to_owned(),
        source,
        frames_visible: peak.physical_ranges.is_some(),
        regions: regions(&look),
        peak,
        samples: watch.samples,
    };
    if let Some(path) = &args.dump {
        write_whole(path, dump(&result.source, look).to_string().as_bytes())?;
        note(format_args!("mapping in {}", path.display()));
        if !sizes_known {
            note("this kernel does not say which pages are 2 MB pages (Linux 6.7 does): all stand there as 4 KB");
        }
    }
    print(&match (args.json, args.csv) {
        (true, _) => json::render(&result),
        (_, true) => report::csv(&result),
        _ => report::table(&result),
    })?;
    Ok(status)
}

/// What was seen so far.
struct Watch {
    signals: Signals,
    began: Instant,
    samples: Vec<ContiguitySample>,
    peak: Option<(ContiguitySample, Vec<Region>)>,
}

impl Watch {
    fn process(&mut self, pid: i32, args: &ContiguityArgs) -> Result<String> {
        let process = Process::new(pid).map_err(|e| refused(pid, &e))?;
        let words = process.cmdline().unwrap_or_default().into_iter().map(OsString::from).collect::<Vec<_>>();
        let name = if words.is_empty() { String::new() } else { format!(" ({})", program::shown(&words)) };
        let looks = if args.every.is_none() { 1 } else { args.count.unwrap_or(u64::MAX) };
        for i in 0..looks {
            if i > 0 && self.pause(Duration::from_secs_f64(args.every.unwrap_or(EVERY)), || Ok(false))? {
                break;
            }
            match look(&process) {
                Ok(regions) => self.take(regions),
                Err(e) if gone(&e) && i > 0 => break,
                Err(e) => return Err(refused(pid, &e)),
            }
        }
        Ok(format!("process {pid}{name}"))
    }

    fn command(&mut self, args: &ContiguityArgs) -> Result<(String, ExitCode)> {
        let shown = program::shown(&args.command);
        let mut child = Command::new(&args.command[0]).args(&args.command[1..]).spawn().with_context(|| shown.clone())?;
        let every = Duration::from_secs_f64(args.every.unwrap_or(EVERY));
        let pid = i32::try_from(child.id()).context("process id")?;
        let mut status = None;
        loop {
            // Ctrl-C reaches the program too: what it does about it decides.
            self.pause(every, || {
                status = child.try_wait().context("waiting for the program")?;
                Ok(status.is_some())
            })?;
            if status.is_some() {
                break;
            }
            // It may end while it is looked at.
            match Process::new(pid).and_then(|process| look(&process)) {
                Ok(regions) => self.take(regions),
                Err(e) if gone(&e) => {}
                Err(e) => return Err(refused(pid, &e)),
            }
        }
        let status = status.expect("it ended");
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok((shown, ExitCode::from(code as u8)))
    }

    /// Waits so long, or until `done`, or until Ctrl-C; says whether it was Ctrl-C.
    fn pause(&mut self, long: Duration, mut done: impl FnMut() -> Result<bool>) -> Result<bool> {
        let until = Instant::now() + long;
        while !done()? {
            if self.signals.take().0 > 0 {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(5)));
        }
        Ok(false)
    }

    fn take(&mut self, regions: Vec<Region>) {
        let runs: Vec<Run> = regions.iter().flat_map(|region| &region.runs).copied().collect();
        let huge = regions.iter().map(|region| region.huge_pages).sum();
        let seconds = match self.samples.is_empty() {
            true => {
                self.began = Instant::now();
                0.0
            }
            false => self.began.elapsed().as_secs_f64(),
        };
        let sample = sample(&runs, (seconds * 1000.0).round() / 1000.0, huge);
        if sample.pages > 0 && self.peak.as_ref().is_none_or(|(peak, _)| sample.pages > peak.pages) {
            self.peak = Some((sample.clone(), regions));
        }
        self.samples.push(sample);
    }
}

/// The process is not there any more.
fn gone(error: &ProcError) -> bool {
    match error {
        ProcError::NotFound(_) => true,
        ProcError::Io(e, _) => e.raw_os_error() == Some(libc::ESRCH),
        _ => false,
    }
}

fn refused(pid: i32, error: &ProcError) -> anyhow::Error {
    match error {
        e if gone(e) => anyhow::anyhow!("process {pid}: there is none"),
        ProcError::PermissionDenied(path) => {
            let file = path.as_ref().map_or_else(|| format!("/proc/{pid}"), |p| p.display().to_string());
            anyhow::anyhow!("{file}: not allowed; the process must be yours, or run farreach as root")
        }
        e => anyhow::anyhow!("process {pid}: {e}"),
    }
}

/// One mapping of the process.
struct Region {
    name: String,
    pages: Range<u64>,
    prot: Prot,
    shared: bool,
    /// Page of the file at its start.
    offset: u64,
    runs: Vec<Run>,
    huge_pages: u64,
    /// Pages mapped by 2 MB leaves; `None` if the kernel does not say.
    huge: Option<Vec<Range<u64>>>,
}

/// The mappings of a process with what is present of them. Memory may change meanwhile: every page is true for its moment.
fn look(process: &Process) -> ProcResult<Vec<Region>> {
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
            // What a program gave a name: [anon:glibc: malloc].
            MMapPath::Other(name) if name.starts_with("anon:") => "anonymous".to_owned(),
            other => format!("{other:?}"),
        };
        let has = |bit| map.perms.contains(bit);
        let mut region = Region {
            name,
            pages: map.address.0 / PAGE..map.address.1 / PAGE,
            prot: Prot { read: has(MMPermissions::READ), write: has(MMPermissions::WRITE), exec: has(MMPermissions::EXECUTE) },
            shared: has(MMPermissions::SHARED),
            offset: map.offset / PAGE,
            runs: Vec::new(),
            huge_pages: 0,
            huge: Some(Vec::new()),
        };
        // Reserved and never touched: often many gigabytes.
        if value("Rss") > 0 || !map.extension.map.contains_key("Rss") {
            present(&mut pagemap, map.address, permission(map.perms), &mut region.runs)?;
            region.huge_pages = ["AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"].map(value).iter().sum::<u64>() / PAGE;
        }
        if region.huge_pages > 0 {
            region.huge = huge_pages(process.pid(), region.pages.clone()).ok();
        }
        regions.push(region);
    }
    Ok(regions)
}

/// What counts for a range: read, write, execute.
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
        // A mapping that shrank meanwhile gives fewer.
        for (vpn, page) in (vpn..to).zip(pages) {
            let PageInfo::MemoryPage(flags) = page else { continue };
            if !flags.contains(MemoryPageFlags::PRESENT) {
                continue;
            }
            let frame = flags.get_page_frame_number().0;
            let run = Run { vpn, pages: 1, pfn: (frame != 0).then_some(frame), permission };
            match runs.last_mut() {
                Some(last) if last.vpn + last.pages == vpn && last.pfn.map(|f| f + last.pages) == run.pfn => last.pages += 1,
                _ => runs.push(run),
            }
        }
        vpn = to;
    }
    Ok(())
}

/// Regions of one name together, largest first.
fn regions(look: &[Region]) -> Vec<RegionContiguity> {
    let mut rows: Vec<RegionContiguity> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for region in look.iter().filter(|region| !region.runs.is_empty()) {
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
fn dump(source: &str, look: Vec<Region>) -> Dump {
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
    Dump { source: source.to_owned(), areas: look.into_iter().map(area).collect() }
}

/// A run in pieces of one leaf size. What changed between two looks may not fit together: then it is taken for base pages.
fn split(run: &Run, huge: &[Range<u64>]) -> Vec<Present> {
    const HUGE: u64 = farreach::os::dump::HUGE;
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
        // Frames that do not lie as a leaf must: the page was another one a moment ago.
        assert_eq!(split(&Run { pfn: Some(7), ..run }, &[512..1024, 1024..1536]).len(), 1);
        assert_eq!(sizes(split(&Run { vpn: 0, pages: 3, pfn: None, permission: 1 }, &[])), [(0, 3, None, false)]);
    }
}
