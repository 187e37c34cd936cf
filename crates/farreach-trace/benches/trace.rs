//! Speed and size of the trace layer.
//!
//! `cargo bench --profile release -p farreach-trace --bench trace [-- TRACE [MILLION_WORDS]]`. Without a trace it takes
//! a generated program. All speeds are ratios to the simplest reader, one sum over the same words in memory.

use std::hint::black_box;
use std::time::Instant;

use farreach_trace::{Checker, FrtReader, Header, Input, TraceWriter, generate, open_trace};
use farreach_types::event::{Batch, Source};

/// Seconds of the fastest of three runs.
fn best(mut run: impl FnMut()) -> f64 {
    let once = |_| {
        let clock = Instant::now();
        run();
        clock.elapsed().as_secs_f64()
    };
    (0..3).map(once).fold(f64::MAX, f64::min)
}

fn main() {
    if cfg!(debug_assertions) {
        panic!("cargo bench --profile release: the profile bench has the debug checks");
    }
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let limit = args.get(1).map_or(40, |m| m.parse::<usize>().expect("a number of million words")) * 1_000_000;
    let mut source: Box<dyn Source> = match args.first() {
        Some(file) => open_trace(file, None).expect("a trace").source,
        None => Box::new(generate::program(1, 200_000)),
    };
    let clock = Instant::now();
    let mut batches: Vec<Batch> = Vec::new();
    let mut words = 0;
    while words < limit {
        let Some(batch) = source.next_batch().expect("a whole trace") else { break };
        words += batch.words.len();
        batches.push(batch);
    }
    let read = clock.elapsed().as_secs_f64();

    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("it.frt");
    let clock = Instant::now();
    let mut writer = TraceWriter::create(&path, Header::default()).expect("a file");
    batches.iter().for_each(|b| writer.write(b).expect("room"));
    let coded = clock.elapsed().as_secs_f64();
    let totals = writer.finish().expect("room");
    let written = clock.elapsed().as_secs_f64();
    let bytes = std::fs::metadata(&path).expect("just written").len();

    let refs = totals.references() as f64;
    let rate = |seconds: f64| refs / seconds / 1e6;
    println!("{totals:?}");
    println!(
        "{words} words, {:.2} references per word; {bytes} bytes, {:.4} per reference",
        refs / words as f64,
        bytes as f64 / refs
    );
    println!("M references/s:");
    println!("  from the source   {:8.1}", rate(read));
    println!("  write             {:8.1}, callers thread alone {:.1}", rate(written), rate(coded));
    let sum = best(|| {
        black_box(batches.iter().flat_map(|b| &b.words).fold(0u64, |s, w| s.wrapping_add(*w)));
    });
    println!("  sum of the words  {:8.1}", rate(sum));
    let check = best(|| {
        let mut checker = Checker::default();
        batches.iter().for_each(|b| checker.check(b).expect("sound"));
    });
    println!("  check             {:8.1}, {:.3} of the sum", rate(check), sum / check);
    let name = path.to_str().expect("a plain name");
    let decode = best(|| {
        let mut reader = FrtReader::new(Input::open(name).expect("a file")).expect("a trace");
        let mut got = 0;
        while let Some(batch) = reader.next_batch().expect("whole") {
            got += black_box(batch).words.len();
        }
        assert_eq!(got, words);
    });
    println!("  read .frt         {:8.1}, {:.3} of the sum", rate(decode), sum / decode);
}
