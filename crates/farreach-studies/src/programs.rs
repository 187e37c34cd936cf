//! The programs of a run of studies, and the stream of each.

use crate::steady::{self, Steady};
use crate::{Event, Listen};
use farreach_kernels::{KERNELS, Kernel, kernel};
use farreach_machine::Progress;
use farreach_papers::{ALIGNED, Program, Set, THEN};
use farreach_report::format::{counted, shown};
use farreach_report::limits::sentence;
use farreach_sweep::{Cache, Kept, Program as Stream, hash_file, keep, kept};
use farreach_trace::frt::TraceWriter;
use farreach_types::addr::Bytes;
use farreach_types::event::Source;
use farreach_types::{Context, Error, Result, bail};
use farreach_workloads::{self as workloads, KernelSpec, Workload, find, header};
use std::path::Path;

/// Data references of a kernel in the small set: enough for every kernel to reach its steady state.
const SMALL_REFERENCES: u64 = 3_000_000;
/// Data references of a kernel in the full set.
const FULL_REFERENCES: u64 = 100_000_000;
/// Instructions of a real program, unless a limit is given.
const SMALL_INSTRUCTIONS: u64 = 10_000_000;
const FULL_INSTRUCTIONS: u64 = 300_000_000;

/// Programs by name.
pub struct Programs {
    /// The set as studies see it.
    pub set: Set,
    streams: Vec<(String, Stream)>,
}

/// A kernel with settings, as a stream.
fn stream(kernel: &Kernel, size: u64, references: u64, seed: u64) -> Stream {
    Stream::Kernel { name: kernel.name.to_owned(), size, references, seed }
}

/// What `farreach sim` takes for a kernel.
fn argument(stream: &Stream) -> String {
    match stream {
        Stream::Kernel { name, size, references, seed } => {
            let mut parts = Vec::new();
            if kernel(name).is_some_and(|kernel| *size != kernel.default_size) {
                parts.push(format!("size={}", Bytes(*size)));
            }
            parts.push(match references {
                n if n % 1_000_000 == 0 => format!("references={}M", n / 1_000_000),
                n => format!("references={n}"),
            });
            parts.extend((*seed > 0).then(|| format!("seed={seed}")));
            format!("workload:{name}:{}", parts.join(","))
        }
        _ => String::new(),
    }
}

/// Where a set's programs come from.
pub struct Sources<'a> {
    /// Where recordings are kept.
    pub cache: &'a Cache,
    /// Short runs.
    pub small: bool,
    /// Instructions per program.
    pub limit: Option<u64>,
    /// Of kernels, and of the inputs of programs.
    pub seed: u64,
    /// Servers in their steady state, by their traps.
    pub steady: Option<Steady>,
}

impl Programs {
    /// The kernels that stand for programs of the papers; in the full set, real programs besides. `None`: interrupted.
    ///
    /// # Errors
    /// A program cannot be prepared or recorded.
    pub fn standard(from: &Sources, listen: Listen) -> Result<Option<Programs>> {
        let mut programs = Programs::none(if from.small { "small" } else { "full" }, from);
        for kernel in KERNELS.iter().filter(|k| T94.contains(&k.stands_for)) {
            programs.add_kernel(kernel, from);
        }
        for &(name, stands_for, small, references, full) in LARGE {
            let kernel = kernel(name).expect("the list names kernels");
            let size = (if from.small { small } else { full }) << 20;
            let references = if from.small { references * 1_000_000 } else { FULL_REFERENCES };
            let stream = stream(kernel, size, references, from.seed);
            let argument = argument(&stream);
            // `--workload` has it with other settings.
            let program = Program { name: name.into(), stands_for: stands_for.into(), argument, ..Program::default() };
            programs.set.large.push(program);
            programs.streams.push((name.into(), stream));
        }
        if !from.small {
            let packages = workloads::programs().iter().flat_map(|p| p.packages.iter().map(String::as_str));
            let there = workloads::installed(packages);
            // Studies that traps can measure are about programs with much memory.
            let is_wanted = |p: &&workloads::Program| p.full_set && (from.steady.is_none() || is_large(p));
            let wanted = workloads::programs().iter().filter(is_wanted);
            let (ready, absent): (Vec<_>, Vec<_>) =
                wanted.partition(|p| p.packages.iter().all(|name| there.contains(name)));
            for program in ready {
                if !programs.add_program(program, from, listen)? {
                    return Ok(None);
                }
            }
            if !absent.is_empty() {
                let names = absent.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
                listen(Event::Says(format!(
                    "left out, not installed: {names} (`farreach workloads` says what they need)"
                )));
            }
        }
        Ok(Some(programs))
    }

    /// Kernels, programs and trace files by name. `None`: interrupted.
    ///
    /// # Errors
    /// There is no such program, it is named twice, or it cannot be prepared or recorded.
    pub fn chosen(names: &[String], from: &Sources, listen: Listen) -> Result<Option<Programs>> {
        let mut programs = Programs::none("chosen", from);
        for name in names {
            let word = shown(&[name.into()]);
            programs.set.which += if programs.set.which.is_empty() { "-w " } else { " -w " };
            programs.set.which += &word;
        }
        for name in names {
            if programs.set.programs.iter().any(|p| p.name == *name) {
                bail!("--workload {name} is given twice");
            }
            if Path::new(name).is_file() {
                programs.add_trace(name, "", Path::new(name))?;
                continue;
            }
            match find(name).with_context(|| format!("--workload {name}: no such file"))? {
                Workload::Kernel(kernel) => programs.add_kernel(kernel, from),
                Workload::Program(program) => {
                    if !programs.add_program(program, from, listen)? {
                        return Ok(None);
                    }
                }
            }
        }
        if from.steady.is_some() && !programs.streams.iter().any(|(_, s)| matches!(s, Stream::Server { .. })) {
            let servers = steady::servers().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
            bail!("--trap: no program of --workload is a server; there are {servers}");
        }
        Ok(Some(programs))
    }

    fn none(name: &str, from: &Sources) -> Programs {
        let mut how = Vec::new();
        how.extend(from.limit.map(|n| format!("--limit {n}")));
        how.extend((from.seed > 0).then(|| format!("--seed {}", from.seed)));
        let which = if from.small { "--small" } else { "" }.to_owned();
        let servers = from.steady.map_or(String::new(), |steady| steady.options());
        Programs {
            set: Set { name: name.into(), which, how: how.join(" "), servers, ..Set::default() },
            streams: Vec::new(),
        }
    }

    /// A program of the studies of T94 and PS, and of those of DS13 and RMM15 if it stands for one of theirs or was
    /// named by the user.
    fn add(&mut self, name: &str, stands_for: &str, real: bool, argument: &str, stream: Stream) {
        let of = |paper: &dyn Fn(&str) -> bool| {
            let stands_for = stands_for.split(", ").filter(|s| paper(s)).collect::<Vec<_>>().join(", ");
            let (argument, workload) = (argument.to_owned(), shown(&[name.trim_end_matches('*').into()]));
            Program { name: name.into(), stands_for, real, argument, workload }
        };
        self.set.programs.push(of(&|s| T94.contains(&s)));
        let large = of(&stands_for_large);
        if self.set.name == "chosen" || !large.stands_for.is_empty() || matches!(stream, Stream::Server { .. }) {
            self.set.large.push(large);
        }
        self.streams.push((name.into(), stream));
    }

    fn add_kernel(&mut self, kernel: &'static Kernel, from: &Sources) {
        let references = if from.small { SMALL_REFERENCES } else { FULL_REFERENCES };
        let stream = stream(kernel, kernel.default_size, references, from.seed);
        self.add(kernel.name, kernel.stands_for, false, &argument(&stream), stream);
    }

    fn add_trace(&mut self, name: &str, stands_for: &str, file: &Path) -> Result<()> {
        let hash = hash_file(file)?;
        let bytes = file.metadata().with_context(|| file.display().to_string())?.len();
        let argument = shown(&[file.into()]);
        // Passes may run in another directory.
        let file = std::path::absolute(file).map_err(Error::System)?.display().to_string();
        self.add(name, stands_for, true, &argument, Stream::Trace { file, format: None, hash, bytes });
        Ok(())
    }

    /// A program of the catalogue, recorded once; false: interrupted.
    fn add_program(&mut self, program: &workloads::Program, from: &Sources, listen: Listen) -> Result<bool> {
        if let Some(server) = from.steady.and_then(|steady| steady.program(program, from.seed)) {
            self.add(&format!("{}*", program.name), &program.stands_for, true, "", server);
            return Ok(true);
        }
        let limit = from.limit.unwrap_or(if from.small { SMALL_INSTRUCTIONS } else { FULL_INSTRUCTIONS });
        let dir = from.cache.dir().join("traces");
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let what = format!("{}-{limit}-{}", program.name, from.seed);
        let (file, beside) = (dir.join(format!("{what}.frt")), dir.join(format!("{what}.json")));
        if !is_kept(&file, &beside, &what, listen) {
            if !record(program, &file, limit, from.seed, listen)
                .with_context(|| format!("recording {}", program.name))?
            {
                return Ok(false);
            }
            keep(&beside, HASH, &what, &format!("\"{}\"", hash_file(&file)?))?;
        }
        // Two real programs may stand for one of the paper's, beside the kernel that does: their names keep them apart.
        self.add_trace(&format!("{}*", program.name), &program.stands_for, &file)?;
        Ok(true)
    }

    /// The program of this name: one of the set, `workload:KERNEL:SETTINGS`, several that follow each other, one with
    /// aligned mappings, or a small one made by hand.
    ///
    /// # Errors
    /// Settings are none, or not those of the kernel.
    pub fn find(&self, name: &str) -> Result<Stream> {
        if let Some((_, stream)) = self.streams.iter().find(|(n, _)| n == name) {
            return Ok(stream.clone());
        }
        if name.contains(THEN) {
            return Ok(Stream::Chain(name.split(THEN).map(|part| self.find(part)).collect::<Result<_>>()?));
        }
        if let Some((inner, size)) = name.rsplit_once(ALIGNED) {
            let size = size.parse::<Bytes>().map_err(|e| Error::Failed(format!("{name}: {e}")))?;
            return Ok(Stream::Aligned(Box::new(self.find(inner)?), size.0));
        }
        Ok(Stream::kernel(name)?.unwrap_or_else(|| Stream::Micro(name.to_owned())))
    }
}

/// What is kept beside a recording.
const HASH: &str = "hash";

/// Whether a recording is there, and is what it was when it was made. `what`: its name and settings.
fn is_kept(file: &Path, beside: &Path, what: &str, listen: Listen) -> bool {
    let Ok(there) = file.symlink_metadata() else { return false };
    let why = match (kept(beside, HASH, what), hash_file(file)) {
        (Kept::There(then), Ok(now)) if then == format!("\"{now}\"") => return true,
        (Kept::There(_), Ok(_)) => "it is another than when it was recorded".into(),
        (_, Err(error)) => error.to_string(),
        (Kept::Nothing, _) => format!("{} is not there, which has its hash", beside.display()),
        (Kept::Unfit(why), _) => format!("of {} {why}", beside.display()),
    };
    listen(Event::Says(format!("{}: not used, because {why}; it is recorded again", file.display())));
    // A pipe would be written into, and would wait for a reader.
    if !there.is_file() {
        let _ = std::fs::remove_file(file);
    }
    false
}

/// Stores the trace of a program's first instructions; false: interrupted, and there is no trace.
fn record(program: &workloads::Program, file: &Path, limit: u64, seed: u64, listen: Listen) -> Result<bool> {
    let what = counted(limit, "instruction");
    listen(Event::Says(format!("recording {}: {}, up to {what}", program.name, program.about)));
    let prepared = workloads::prepare(program, &KernelSpec { seed: Some(seed), ..KernelSpec::default() }, false)?;
    let mut writer = TraceWriter::create(file, header(&prepared.command)?)?;
    let mut recorder = prepared.record()?;
    listen(Event::RecordingBegins { limit });
    while let Some(batch) = recorder.next_batch()? {
        writer.write(&batch)?;
        let totals = writer.totals();
        let (instructions, references) = (totals.instructions, totals.references());
        listen(Event::Recorded(Progress { instructions, references }));
        if totals.instructions >= limit {
            break;
        }
    }
    let report = recorder.finish()?;
    listen(Event::RecordingEnds);
    report.limits.iter().for_each(|limit| listen(Event::Says(sentence(limit))));
    let interrupted = report.interrupted.is_some();
    if !interrupted {
        writer.finish()?;
    }
    Ok(!interrupted)
}

/// Kernels in place of the programs of DS13 and RMM15, but MySQL, for which there is none: what each stands for; MiB
/// and million data references in the small set, enough to reach most of the memory; MiB in the full set. The papers'
/// big-memory programs have 54 to 75 GB, the others 120 to 1700 MB (RMM15 Table 4): the latter have their original size
/// in the full set, as far as a kernel fits in memory itself.
///
/// `bfs` has its size in the small set from what it uses at random, the parents, 4 bytes for each vertex: they are four
/// times the reach of the second-level TLB, which is unscaled, 512 pages of 4 KB. So there are 2^21 vertices in 256 MB.
/// A search stores each parent once before it begins; four references for each vertex leave three quarters to the
/// search. They reach a tenth of the memory: a whole search has 140 million.
const LARGE: &[(&str, &str, u64, u64, u64)] = &[
    ("bfs", "graph500", 256, 9, 1024),
    ("kv", "memcached", 128, 3, 2048),
    ("spmv", "NPB:CG, soplex", 64, 4, 2048),
    ("gups", "GUPS", 256, 2, 4096),
    ("simplex", "mcf", 32, 3, 1700),
    ("event-queue", "omnetpp", 16, 4, 165),
    ("astar", "astar", 8, 4, 350),
    ("anneal", "canneal", 64, 2, 780),
    ("suffix", "tigr, mummer", 16, 4, 512),
    ("stencil", "cactusADM, GemsFDTD, NPB:BT", 16, 6, 690),
    ("cluster", "streamcluster", 16, 5, 120),
];

/// Whether a program of DS13 or RMM15 has this name.
fn stands_for_large(name: &str) -> bool {
    name == "MySQL" || LARGE.iter().any(|l| l.1.split(", ").any(|other| other == name))
}

/// Whether a program of the catalogue is one for the studies of DS13 and RMM15. All servers are.
fn is_large(program: &workloads::Program) -> bool {
    !program.load.is_empty() || program.stands_for.split(", ").any(stands_for_large)
}

/// The programs of T94's tables.
const T94: [&str; 10] = ["coral", "nasa7", "compress", "fftpde", "wave5", "mp3d", "spice", "pthor", "ML", "gcc"];
