//! DAMON by its files in sysfs. Every watched page is a region of its own, and a sample is as long as an interval: so
//! what DAMON reports are exactly the pages that were used, not an estimate. It takes as many regions as the kernel can
//! hold in files without much memory; of larger processes whole blocks of 2 MB are drawn at random.

use super::clear_refs::Flush;
use super::frames::{framed, ranges};
use super::{Present, Seen, Watcher};
use crate::guard::{Guard, Undo};
use crate::lock::{Lock, Refused};
use crate::rights::{self, Right};
use crate::tries::{Failure, Tried};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::hash::BuildHasher;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// DAMON's files, which are one set for everybody.
const FOLDER: &str = "/sys/kernel/mm/damon/admin/kdamonds";
/// The lock of who uses them.
const LOCK: &str = "/run/farreach-damon";
const PAGE: u64 = 4096;
/// Pages of a block, log2.
const BLOCK: u32 = 9;
/// Most regions. Each takes about a kilobyte of the kernel's memory, and its files time to write.
const REGIONS: usize = 8192;
/// How long the kernel may take for an answer beyond two intervals.
const PATIENCE: Duration = Duration::from_secs(5);

fn set(path: &Path, value: impl ToString) -> io::Result<()> {
    // Not created: it must be a file of the kernel.
    let mut file = fs::File::options().write(true).open(path)?;
    io::Write::write_all(&mut file, value.to_string().as_bytes())
}

fn get(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

/// How pages are named to DAMON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operations {
    /// By their address in the process.
    Virtual,
    /// By their frame: use by other processes counts too.
    Physical,
}

/// Whether it can be used: that it is there, that it is not in use, and what it can do.
pub fn ready() -> Tried {
    let operations = Held::take(Path::new(FOLDER), Path::new(LOCK))?.operations;
    Ok(match operations {
        Operations::Virtual => "it takes addresses of a process (fvaddr)".into(),
        Operations::Physical => "it takes physical addresses (paddr)".into(),
    })
}

/// DAMON's files, while this process uses them. DAMON is off and its files are empty again when this is dropped; if
/// this process is killed, the guard sees to that.
struct Held {
    folder: PathBuf,
    operations: Operations,
    // Before the lock, so that it is dropped first.
    _guard: Guard,
    _lock: Lock,
}

impl Held {
    fn take(folder: &Path, lock: &Path) -> Result<Held, Failure> {
        let number = folder.join("nr_kdamonds");
        let failed = |file: &Path, error: io::Error| match error.kind() {
            ErrorKind::NotFound => Failure::new(format!("there is no {}", file.display()))
                .or_turn_on("a kernel of Linux 6.2 or newer built with CONFIG_DAMON_SYSFS and CONFIG_DAMON_VADDR"),
            ErrorKind::PermissionDenied => {
                Failure::of(file.display(), error).or_turn_on(rights::wanted(Right::Files, ""))
            }
            _ => Failure::of(file.display(), error),
        };
        let read = |file: &Path| get(file).map_err(|e| failed(file, e));
        let write = |file: &Path, value: u64| set(file, value).map_err(|e| failed(file, e));
        read(&number)?; // who may not read it is told so
        let mut lock = Lock::take(lock).map_err(|refused| match refused {
            Refused::System(e) => Failure::of("the lock of DAMON", e),
            held @ Refused::Held { .. } => Failure::new(format!("another farreach uses DAMON: {held}")),
        })?;
        if read(&number)? != "0" {
            return Err(Held::in_use(folder));
        }
        // Off first: the kernel takes no number while one is on.
        let undo = [(folder.join("0/state"), "off", "on"), (number.clone(), "0", "1")];
        let undo = undo.map(|(file, before, set)| Undo { file, before: before.to_owned(), set: set.to_owned() });
        let of_guard = |e| Failure::of("the process that turns DAMON off", e);
        lock.note(&undo).map_err(of_guard)?;
        // There may be nothing to turn off: DAMON ends with the process that it watches.
        let guard = Guard::start(&undo, lock.file(), Stdio::null()).map_err(of_guard)?;
        write(&number, 1)?;
        let operations = Operations::Virtual;
        let mut held = Held { folder: folder.to_owned(), operations, _guard: guard, _lock: lock };
        write(&folder.join("0/contexts/nr_contexts"), 1)?;
        let known = read(&held.path("avail_operations"))?;
        let knows = |name: &str| known.split_whitespace().any(|word| word == name);
        held.operations = if knows("fvaddr") {
            Operations::Virtual
        } else if knows("paddr") {
            crate::tries::frames()?;
            Operations::Physical
        } else {
            return Err(Failure::new(format!("DAMON cannot watch memory: avail_operations is '{known}'"))
                .or_turn_on("a kernel built with CONFIG_DAMON_VADDR"));
        };
        write(&held.path("schemes/nr_schemes"), 1)?;
        if fs::metadata(held.path("schemes/0/tried_regions")).is_err() {
            return Err(Failure::new("DAMON does not list the regions that were used")
                .or_turn_on("a kernel of Linux 6.2 or newer"));
        }
        Ok(held)
    }

    /// A file of its context.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join("0/contexts/0").join(name)
    }

    /// Turns it on or off, or has it do something.
    fn state(&self, word: &str) -> io::Result<()> {
        set(&self.folder.join("0/state"), word)
    }

    /// It has one set of files for everybody.
    fn in_use(folder: &Path) -> Failure {
        let states = fs::read_dir(folder).into_iter().flatten().flatten();
        let on = states
            .map(|entry| entry.path().join("state"))
            .find(|state| fs::read_to_string(state).is_ok_and(|text| text.trim() == "on"));
        match on {
            Some(state) => Failure::new("somebody else uses DAMON: one is on")
                .or_turn_on(format!("if you may stop it: echo off | sudo tee {}", state.display())),
            None => Failure::new("somebody else has set up DAMON, though none is on")
                .or_turn_on(format!("if you may discard it: echo 0 | sudo tee {}/nr_kdamonds", folder.display())),
        }
    }
}

/// DAMON, watching pages of a process.
pub(super) struct Damon {
    pid: i32,
    held: Held,
    flush: Flush,
    on: bool,
    length: Duration,
    /// When DAMON's sample began that the interval is of.
    begun: Instant,
    /// The watched pages, by the place that stands for them: an address in bytes.
    watched: BTreeMap<u64, Vec<u64>>,
    sampled: bool,
}

impl Damon {
    pub(super) fn open(pid: i32) -> Result<Damon, Failure> {
        let (held, flush) = (Held::take(Path::new(FOLDER), Path::new(LOCK))?, Flush::open(pid));
        let (begun, watched) = (Instant::now(), BTreeMap::new());
        Ok(Damon { pid, held, flush, on: false, length: Duration::ZERO, begun, watched, sampled: false })
    }

    /// The pages to watch, by the place that stands for them.
    fn places(&self, pages: &[Present]) -> io::Result<BTreeMap<u64, Vec<u64>>> {
        let mut places: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        match self.held.operations {
            Operations::Virtual => {
                places.extend(pages.iter().flat_map(|p| p.pages.clone()).map(|page| (page * PAGE, vec![page])));
            }
            Operations::Physical => {
                for framed in framed(pages)? {
                    places.entry(framed.frame * PAGE).or_default().push(framed.page);
                }
            }
        }
        Ok(places)
    }

    /// How long DAMON's samples are: the answer is to be asked for before the sample ends.
    fn sample(&self) -> Duration {
        self.length + (self.length / 4).clamp(Duration::from_millis(50), Duration::from_secs(1))
    }

    /// Waits until DAMON has cleared the used bits for a sample, if it is about to: then its thread is idle. What is
    /// flushed from the TLB before that may be back in it, and its use would not be seen.
    fn await_cleared(&self) -> io::Result<()> {
        let Some(thread) = self.kernel_thread() else { return Ok(()) };
        let idle = || {
            let stat = fs::read_to_string(format!("/proc/{thread}/stat"))?;
            Ok::<_, io::Error>(stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('I')))
        };
        while self.begun.elapsed() < self.length / 2 && !idle()? {
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    fn configure(&mut self) -> io::Result<()> {
        if self.on {
            self.held.state("off")?;
            self.on = false;
        }
        let path = |name: &str| self.held.path(name);
        let micros = self.sample().as_micros();
        let name = match self.held.operations {
            Operations::Virtual => "fvaddr",
            Operations::Physical => "paddr",
        };
        set(&path("operations"), name)?;
        for interval in ["sample_us", "aggr_us"] {
            set(&path(&format!("monitoring_attrs/intervals/{interval}")), micros)?;
        }
        // As many as there are: no region is split, and none is joined with its neighbour.
        let number = self.watched.len().max(3);
        set(&path("monitoring_attrs/nr_regions/max"), number)?;
        set(&path("monitoring_attrs/nr_regions/min"), number)?;
        set(&path("targets/nr_targets"), 1)?;
        if self.held.operations == Operations::Virtual {
            set(&path("targets/0/pid_target"), self.pid)?;
        }
        set(&path("targets/0/regions/nr_regions"), self.watched.len())?;
        for (i, place) in self.watched.keys().enumerate() {
            set(&path(&format!("targets/0/regions/{i}/start")), place)?;
            set(&path(&format!("targets/0/regions/{i}/end")), place + PAGE)?;
        }
        let scheme = |name: &str| path(&format!("schemes/0/{name}"));
        set(&scheme("action"), "stat")?;
        set(&scheme("access_pattern/nr_accesses/min"), 1)?;
        for most in ["sz/max", "nr_accesses/max", "age/max"] {
            set(&scheme(&format!("access_pattern/{most}")), u32::MAX)?;
        }
        self.held.state("on")?;
        self.on = true;
        Ok(())
    }
}

impl Watcher for Damon {
    fn begin(&mut self, present: &[Present], length: Duration) -> io::Result<()> {
        let drawn = drawn(present, REGIONS);
        self.sampled = drawn.is_some();
        let places = self.places(drawn.as_deref().unwrap_or(present))?;
        if !self.on || places != self.watched || length != self.length {
            (self.watched, self.length) = (places, length);
            self.configure()?;
        } else {
            // Answered when a sample has ended and the next one begins.
            self.held.state("update_schemes_stats")?;
        }
        self.begun = Instant::now();
        self.await_cleared()?;
        self.flush.flush()
    }

    fn end(&mut self) -> io::Result<Seen> {
        if self.begun.elapsed() >= self.sample() {
            // The answer is of a later sample.
            self.flush.flush()?;
        }
        let began = Instant::now();
        self.held.state("update_schemes_tried_regions")?;
        if began.elapsed() > 2 * self.length + PATIENCE {
            return Err(io::Error::new(ErrorKind::TimedOut, "DAMON did not answer in time"));
        }
        let folder = self.held.path("schemes/0/tried_regions");
        let mut used: Vec<u64> = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let region = entry?.path();
            if !region.is_dir() {
                continue;
            }
            let number = |name: &str| {
                let text = fs::read_to_string(region.join(name))?;
                text.trim().parse::<u64>().map_err(|_| io::Error::other(format!("{}: '{text}'", region.display())))
            };
            for (_, pages) in self.watched.range(number("start")?..number("end")?) {
                used.extend(pages);
            }
        }
        used.sort_unstable();
        let used = ranges(used);
        if !self.sampled {
            return Ok(Seen::Pages(used));
        }
        let mut watched: Vec<u64> = self.watched.values().flatten().copied().collect();
        watched.sort_unstable();
        Ok(Seen::Sample { watched: ranges(watched), used })
    }

    fn flushes(&self) -> bool {
        self.flush.works()
    }
    fn waits(&self) -> [Duration; 2] {
        self.flush.waits()
    }
    fn kernel_thread(&self) -> Option<i32> {
        get(&self.held.folder.join("0/pid")).ok()?.parse().ok().filter(|pid| *pid > 0)
    }
}

/// Blocks at random that have at most `most` pages together; `None` if all have. The choice depends on the numbers of
/// the blocks alone, so most of it stays when memory comes and goes.
fn drawn(present: &[Present], most: usize) -> Option<Vec<Present>> {
    let mut sizes: HashMap<u64, usize> = HashMap::new();
    for piece in present.iter().flat_map(pieces) {
        *sizes.entry(piece.pages.start >> BLOCK).or_default() += (piece.pages.end - piece.pages.start) as usize;
    }
    if sizes.values().sum::<usize>() <= most {
        return None;
    }
    let mut order: Vec<u64> = sizes.keys().copied().collect();
    let hash = foldhash::quality::FixedState::with_seed(0);
    order.sort_unstable_by_key(|block| (hash.hash_one(block), *block));
    let mut left = most;
    let fits = order.iter().take_while(|block| {
        let size = sizes[block];
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    });
    let chosen: HashSet<u64> = fits.copied().collect();
    Some(present.iter().flat_map(pieces).filter(|piece| chosen.contains(&(piece.pages.start >> BLOCK))).collect())
}

/// The parts of a run that lie in one block.
fn pieces(run: &Present) -> impl Iterator<Item = Present> {
    let Range { start, end } = run.pages.clone();
    let blocks = start >> BLOCK..end.div_ceil(1 << BLOCK);
    let frame = run.frame;
    blocks.map(move |block| {
        let pages = start.max(block << BLOCK)..end.min((block + 1) << BLOCK);
        Present { frame: frame.map(|frame| frame + (pages.start - start)), pages }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_are_drawn_and_most_stay() {
        let memory = [Present { pages: 100..100 + 200 * 512, frame: Some(7) }];
        assert_eq!(drawn(&memory, 200 * 512), None);
        let some = drawn(&memory, 64 * 512).unwrap();
        let pages: u64 = some.iter().map(|p| p.pages.end - p.pages.start).sum();
        assert!((60 * 512..=64 * 512).contains(&pages), "{pages}");
        for p in &some {
            assert_eq!(p.pages.start >> BLOCK, (p.pages.end - 1) >> BLOCK);
            assert_eq!(p.frame, Some(7 + p.pages.start - 100));
            let whole = p.pages.end - p.pages.start == 512 || p.pages.start == 100 || p.pages.end == 100 + 200 * 512;
            assert!(whole, "{p:?}");
        }
        let less = [Present { pages: 100..100 + 150 * 512, frame: Some(7) }];
        let again = drawn(&less, 64 * 512).unwrap();
        let kept = again.iter().filter(|p| some.contains(p)).count();
        assert!(kept * 2 > again.len(), "{kept} of {}", again.len());
    }

    /// Files like those of an unused DAMON.
    fn files() -> tempfile::TempDir {
        let made = tempfile::tempdir().unwrap();
        let folder = made.path();
        let context = folder.join("0/contexts/0");
        fs::create_dir_all(context.join("schemes/0/tried_regions")).unwrap();
        let files = ["nr_kdamonds", "0/state", "0/contexts/nr_contexts"].map(|name| folder.join(name));
        let files = files.into_iter().chain([context.join("schemes/nr_schemes")]);
        files.for_each(|file| fs::write(file, "").unwrap());
        fs::write(context.join("avail_operations"), "vaddr fvaddr paddr\n").unwrap();
        fs::write(folder.join("nr_kdamonds"), "0\n").unwrap();
        made
    }

    /// After any end, SIGKILL too. (The files are not the kernel's, which may be in use here or not be there.)
    #[test]
    fn damon_is_off_after_any_end() {
        const HOLDS: &str = "FARREACH_TEST_HOLD_DAMON";
        if let Some(folder) = std::env::var_os(HOLDS) {
            // The child of this test: it holds DAMON until it is killed.
            let folder = Path::new(&folder);
            let held = Held::take(folder, &folder.join("lock")).unwrap();
            held.state("on").unwrap();
            std::thread::sleep(Duration::from_secs(60));
            return;
        }
        let made = files();
        let (folder, lock) = (made.path(), made.path().join("lock"));
        let now = || ["nr_kdamonds", "0/state"].map(|name| get(&folder.join(name)).unwrap());
        let held = Held::take(folder, &lock).unwrap();
        held.state("on").unwrap();
        assert_eq!(now(), ["1", "on"]);
        assert!(Held::take(folder, &lock).is_err_and(|e| e.why.contains("another farreach uses DAMON: process")));
        // One that knows no lock.
        let other = made.path().join("other");
        assert!(Held::take(folder, &other).is_err_and(|e| e.why.contains("somebody else uses DAMON: one is on")));
        assert_eq!(now(), ["1", "on"]);
        drop(held);
        assert_eq!(now(), ["0", "off"]);
        for round in 0..5 {
            fs::write(folder.join("0/state"), "").unwrap();
            let mut child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "watch::damon::tests::damon_is_off_after_any_end"])
                .env(HOLDS, folder)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let wait = |wanted: [&str; 2]| {
                let began = Instant::now();
                while now() != wanted {
                    assert!(began.elapsed() < Duration::from_secs(60), "round {round}: {:?}", now());
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            wait(["1", "on"]);
            std::thread::sleep(Duration::from_millis(round));
            child.kill().unwrap(); // SIGKILL
            child.wait().unwrap();
            wait(["0", "off"]);
        }
    }
}
