//! Speed of the page-size study.
//!
//! `cargo bench --profile release -p farreach-machine --bench pages [-- FILE [MILLIONS]]`: the first MILLIONS million
//! references of a trace in memory (by default 200, of a generated program), through the seven sizes of the study and
//! through all ten. The unit is a plain loop that only reads the words; the first figure of each row is its ratio to
//! that loop.

use farreach_machine::{Options, PAGE_SIZES, PageLab};
use farreach_trace::{generate, open_trace};
use farreach_types::event::{Batch, Source};
use std::hint::black_box;
use std::time::Instant;

fn lab(sizes: &[u64]) -> PageLab {
    PageLab::new(sizes, 64, Options::default()).expect("sizes of the study")
}

fn load(file: Option<&String>, references: u64) -> Vec<Batch> {
    let mut source: Box<dyn Source> = match file {
        Some(file) => open_trace(file, None).expect("a trace").source,
        None => Box::new(generate::program(1, 1 << 40)),
    };
    let mut counter = lab(&PAGE_SIZES[..1]);
    let mut batches = Vec::new();
    while counter.progress().references < references {
        let Some(batch) = source.next_batch().expect("a whole trace") else { break };
        counter.feed(&batch).expect("a sound trace");
        batches.push(batch);
    }
    batches
}

fn best<R>(mut f: impl FnMut() -> R) -> f64 {
    let run = |f: &mut dyn FnMut() -> R| {
        let clock = Instant::now();
        black_box(f());
        clock.elapsed().as_secs_f64()
    };
    (0..3).map(|_| run(&mut f)).fold(f64::MAX, f64::min)
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
    let mut row = |name: &str, sizes: &[u64]| {
        let seconds = best(|| {
            let mut lab = lab(sizes);
            for batch in &batches {
                lab.feed(batch).expect("a sound trace");
            }
            references = lab.progress().references;
        });
        println!("{name:44} {:7.2} x reading {:9.1} M references/s", seconds / read, references as f64 / seconds / 1e6);
    };
    row("4 KB", &PAGE_SIZES[..1]);
    row("4 to 256 KB", &PAGE_SIZES[..7]);
    row("4 KB to 2 MB", &PAGE_SIZES);
    println!("{:44} {:7.2}           {:9.1} M references/s", "reading the words", 1.0, references as f64 / read / 1e6);
}
