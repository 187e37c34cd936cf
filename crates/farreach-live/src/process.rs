//! One recorded process image: its ring, and whether its process is alive.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use farreach_types::addr::Asid;
use farreach_types::plural::with_noun;

use super::counts::Counts;
use super::layout::{CHUNK_WORDS, CHUNKS, MAGIC, RING_BYTES, RING_HEAD, ring};
use super::shared::Shared;

/// A process image whose stream has not ended.
pub struct Process {
    pub ring: u32,
    pub asid: Asid,
    /// 0 until known.
    pub pid: u32,
    /// Its PID namespace, 0 for that of the reader, and its number there. It keeps both when it calls exec, also where
    /// it has ended before its number here was found. None until the ring is open.
    pub own: Option<(u32, u32)>,
    /// Start time of the process in /proc: the system may reuse a process id.
    born: Option<u64>,
    map: Option<Shared>,
    /// File of the program; empty until it is known.
    pub program: Arc<str>,
    /// An exec is being tried.
    pub execing: bool,
    /// When it was first found gone, while it may still have become another program by exec.
    pub dead_since: Option<Instant>,
    pub counts: Counts,
    pub cut: Counts,
}

impl Process {
    pub fn announced(ring: u32, asid: Asid) -> Process {
        Process {
            ring,
            asid,
            pid: 0,
            own: None,
            born: None,
            map: None,
            program: "".into(),
            execing: false,
            dead_since: None,
            counts: Counts::default(),
            cut: Counts::default(),
        }
    }

    /// Nothing changes if the process id is not known (0).
    pub fn set_pid(&mut self, pid: u32) {
        if pid != 0 && self.pid != pid {
            self.pid = pid;
            self.born = born(pid);
        }
    }

    /// The file of a ring, if there is one.
    pub fn ring_file(run_dir: &Path, ring: u32) -> Option<File> {
        plain_file(File::options().read(true).write(true), &run_dir.join(format!("ring.{ring}")))
    }

    /// Maps the ring if the recorder has made it by now.
    pub fn open(&mut self, run_dir: &Path) -> Option<&Shared> {
        if self.map.is_none() {
            let file = Process::ring_file(run_dir, self.ring)?;
            let map = Shared::map(&file, RING_BYTES).ok()?;
            if map.u64(ring::MAGIC).load(Ordering::SeqCst) != MAGIC {
                return None;
            }
            let [namespace, number] = [ring::FOREIGN, ring::PID].map(|at| map.u32(at).load(Ordering::SeqCst));
            self.own = Some((namespace, number));
            let pid = if namespace != 0 { writer_of(run_dir, self.ring) } else { number };
            // A process that cannot be found is gone already.
            self.set_pid(if pid == 0 { NO_PROCESS } else { pid });
            self.map = Some(map);
        }
        self.map.as_ref()
    }

    /// Published chunks not taken yet.
    pub fn pending(&mut self, run_dir: &Path) -> u64 {
        self.open(run_dir)
            .map_or(0, |m| m.u64(ring::PRODUCED).load(Ordering::SeqCst) - m.u64(ring::CONSUMED).load(Ordering::SeqCst))
    }

    /// Takes the next published chunk and gives its memory back.
    pub fn take_chunk(&mut self, run_dir: &Path) -> Result<Vec<u64>, String> {
        let number = self.ring;
        let map = self.open(run_dir).ok_or_else(|| format!("ring.{number} cannot be opened"))?;
        let n = map.u64(ring::CONSUMED).load(Ordering::SeqCst);
        let slot = (n % CHUNKS) as usize;
        let used = map.u32(ring::USED + 4 * slot).load(Ordering::SeqCst) as usize;
        if used > CHUNK_WORDS {
            return Err(format!("chunk {n} claims {}, {CHUNK_WORDS} are possible", with_noun(used as u64, "word")));
        }
        let words = map.take_words(RING_HEAD + slot * CHUNK_WORDS * 8, used);
        map.u64(ring::CONSUMED).store(n + 1, Ordering::SeqCst);
        if map.u32(ring::WRITER_WAITS).load(Ordering::SeqCst) != 0 {
            map.wake(ring::CONSUMED);
        }
        Ok(words)
    }

    /// The words that a dead process left in the chunk it was filling.
    pub fn take_unpublished(&mut self, run_dir: &Path) -> Vec<u64> {
        let Some(map) = self.open(run_dir) else { return Vec::new() };
        let n = map.u64(ring::PRODUCED).load(Ordering::SeqCst);
        if n - map.u64(ring::CONSUMED).load(Ordering::SeqCst) >= CHUNKS {
            return Vec::new();
        }
        map.take_words(RING_HEAD + (n % CHUNKS) as usize * CHUNK_WORDS * 8, CHUNK_WORDS)
    }

    /// Wakes the recorder if it waits for room.
    pub fn wake(&self) {
        if let Some(map) = &self.map {
            map.wake(ring::CONSUMED);
        }
    }

    /// Whether the process has ended. A process without a known id has not.
    pub fn is_dead(&self) -> bool {
        self.pid != 0 && (born(self.pid) != self.born || !has_living_task(self.pid))
    }
}

/// Opens a file in the directory of a run. That may belong to a user whom a program of root became: only a plain file
/// without another name is opened, nothing that leads elsewhere.
pub fn plain_file(how: &mut OpenOptions, path: &Path) -> Option<File> {
    let file = how.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
    file.metadata().is_ok_and(|about| about.is_file() && about.nlink() == 1).then_some(file)
}

/// The process that writes a ring, of a program that made a PID namespace: the one that has the ring mapped. 0 if it
/// cannot be found.
fn writer_of(run_dir: &Path, ring: u32) -> u32 {
    let name = format!("/{}/ring.{ring}", run_dir.file_name().unwrap_or_default().display());
    let maps_it = |pid: &u32| {
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        maps.split(|&b| b == b'\n').any(|line| line.ends_with(name.as_bytes()))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|&pid| pid != std::process::id() && maps_it(&pid)).unwrap_or(0)
}

/// Larger than any process id.
const NO_PROCESS: u32 = i32::MAX as u32;

/// State and start time of a task.
fn stat(path: &Path) -> Option<(char, u64)> {
    let text = fs::read_to_string(path).ok()?;
    let rest = text.rsplit_once(')')?.1;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

fn born(pid: u32) -> Option<u64> {
    stat(Path::new(&format!("/proc/{pid}/stat"))).map(|(_, time)| time)
}

/// Whether a process still runs. Its first thread may have ended (then it looks like a zombie) while others go on.
pub fn has_living_task(pid: u32) -> bool {
    let alive = |path: &Path| stat(path).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X' | 'x'));
    alive(Path::new(&format!("/proc/{pid}/stat")))
        || fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|t| alive(&t.path().join("stat")))
}
