//! Speed of the loop.
//!
//! `cargo bench --profile release -p farreach-machine --bench simulate [-- FILE [MILLIONS [NAME]]]`: the first MILLIONS
//! million references of a trace in memory (by default 200, of a generated program), through the designs of T94; NAME
//! selects rows by a part of their name, or is a machine with keys. A reference is one fetch, load or store. The unit
//! is a plain loop that only reads the words; the first figure of each row is its ratio to that loop.

use farreach_machine::{Lab, MachineSpec, Options, PAGE_SIZES, PageLab};
use farreach_trace::{generate, open_trace};
use farreach_types::event::{Batch, Source};
use std::hint::black_box;

const FIVE: [&str; 5] = ["t94/single", "t94/superpage", "t94/partial", "t94/complete", "t94/set-associative"];

/// The machines of the papers about large memory, each with the operating system it needs.
const SIX: [&str; 6] = ["rmm15/4k", "rmm15/thp", "ds13/1g", "rmm15/clustered", "ds13/segment", "rmm15/range"];

fn lab(machines: &[&str]) -> Lab {
    let specs = machines.iter().map(|m| MachineSpec::parse(m, 0).expect("a preset")).collect();
    Lab::new(specs, Options::default()).expect("machines that can be built")
}

fn load(file: Option<&String>, references: u64) -> Vec<Batch> {
    let mut source: Box<dyn Source> = match file {
        Some(file) => open_trace(file, None).expect("a trace").source,
        None => Box::new(generate::program(1, 1 << 40)),
    };
    let mut counter = lab(&["t94/single"]);
    let mut batches = Vec::new();
    while counter.progress().references < references {
        let Some(batch) = source.next_batch().expect("a whole trace") else { break };
        counter.feed(&batch).expect("memory is unlimited");
        batches.push(batch);
    }
    batches
}

/// CPU seconds of this thread, so that other load counts little.
fn clock() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let ns: u64 = stat.split_whitespace().next().and_then(|n| n.parse().ok()).expect("nanoseconds on a processor");
    ns as f64 / 1e9
}

fn best<R>(mut f: impl FnMut() -> R) -> f64 {
    let run = |f: &mut dyn FnMut() -> R| {
        let from = clock();
        black_box(f());
        clock() - from
    };
    (0..5).map(|_| run(&mut f)).fold(f64::MAX, f64::min)
}

fn main() {
    if cfg!(debug_assertions) {
        panic!("cargo bench --profile release: the profile bench has the debug checks");
    }
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let millions: u64 = args.get(1).map_or(200, |m| m.parse().expect("a number of million references"));
    let batches = load(args.first(), millions * 1_000_000);
    let read = best(|| batches.iter().flat_map(|b| &b.words).fold(0u64, |s, w| s.wrapping_add(*w)));
    let mut references = 0;
    let mut row = |name: &str, machines: &[&str]| {
        if args.get(2).is_some_and(|part| !name.contains(part)) {
            return;
        }
        let seconds = best(|| {
            let mut lab = lab(machines);
            for batch in &batches {
                lab.feed(batch).expect("memory is unlimited");
            }
            references = lab.progress().references;
        });
        println!("{name:44} {:7.2} x reading {:9.1} M references/s", seconds / read, references as f64 / seconds / 1e6);
    };
    if let Some(machine) = args.get(2).filter(|name| name.contains(':')) {
        row(machine, &[machine]);
    }
    row("the five designs of T94", &FIVE);
    let sweep: Vec<String> = ["single", "superpage", "partial"]
        .iter()
        .flat_map(|kind| [32, 64, 128, 256].map(|n| format!("t94/{kind}:entries={n}")))
        .collect();
    row("Table 9 of T94: three kinds, four sizes", &sweep.iter().map(String::as_str).collect::<Vec<_>>());
    row("six hierarchies of DS13 and RMM15", &SIX);
    for machine in FIVE {
        row(machine, &[machine]);
    }
    row("t94/single, true LRU", &["t94/single:replacement=lru"]);
    row("t94/single, FIFO", &["t94/single:replacement=fifo"]);
    row(
        "sixteen entry counts of t94/single",
        &std::array::from_fn::<_, 16, _>(|i| {
            ["16", "24", "32", "48", "64", "80", "96", "112", "128", "160", "192", "224", "256", "384", "512", "1024"]
                [i]
        })
        .map(|n| &*format!("t94/single:entries={n}").leak()),
    );
    row("sv97/softvm", &["sv97/softvm"]);
    row("sv97/mips", &["sv97/mips"]);
    let sizes = [1, 2, 4, 8, 16, 32, 64, 128].iter().flat_map(|l1| [512, 1024].map(|l2| (l1, l2)));
    let figure: Vec<String> = sizes
        .flat_map(|(l1, l2)| {
            [16, 32, 64, 128].map(|line| format!("sv97/softvm:l1_size={l1}K,l2_size={l2}K,line={line}"))
        })
        .collect();
    row("sv97: the 64 machines of Figure 8", &figure.iter().map(String::as_str).collect::<Vec<_>>());
    if args.get(2).is_none_or(|part| "seven page sizes".contains(part.as_str())) {
        let seconds = best(|| {
            let mut lab = PageLab::new(&PAGE_SIZES[..7], 64, Options::default()).expect("sizes of the study");
            batches.iter().for_each(|batch| _ = lab.feed(batch).expect("a sound trace"));
            references = lab.progress().references;
        });
        let name = "seven page sizes, all entry counts, LRU";
        println!("{name:44} {:7.2} x reading {:9.1} M references/s", seconds / read, references as f64 / seconds / 1e6);
    }
    println!("{:44} {:7.2}           {:9.1} M references/s", "reading the words", 1.0, references as f64 / read / 1e6);
}
