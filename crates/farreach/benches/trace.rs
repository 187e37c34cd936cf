//! Speed and size of the trace layer. `cargo bench --bench trace [FILE [MILLIONS]]`: a Lackey text or a farreach trace, by
//! default a generated program. Everything is compared with the plainest reader there is: one sum over the same words in memory.

use std::hint::black_box;
use std::time::Instant;

use farreach::event::{Batch, Source};
use farreach::trace::{FrtReader, Header, Input, TraceWriter, open_trace};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let Some(file) = args.first().cloned() else {
        println!("no file given");
        return;
    };
    let limit = args.get(1).map_or(200, |m| m.parse::<usize>().expect("a number of million words")) * 1_000_000;
    let clock = Instant::now();
    let mut source = open_trace(&file, None).expect("a trace").source;
    let mut batches: Vec<Batch> = Vec::new();
    let mut words = 0;
    while let Some(batch) = source.next_batch().expect("a whole trace") {
        words += batch.words.len();
        batches.push(batch);
        if words >= limit {
            break;
        }
    }
    let read = clock.elapsed().as_secs_f64();

    let path = std::env::temp_dir().join(format!("farreach-bench-{}.frt", std::process::id()));
    let clock = Instant::now();
    let mut writer = TraceWriter::create(&path, Header::default()).expect("a file");
    batches.iter().for_each(|b| writer.write(b).expect("room"));
    let coded = clock.elapsed().as_secs_f64();
    let totals = writer.finish().expect("room");
    let written = clock.elapsed().as_secs_f64();
    let bytes = std::fs::metadata(&path).expect("just written").len();

    let refs = totals.references() as f64;
    println!("{totals:?}\n{words} words, {:.2} references per word", refs / words as f64);
    println!("read source {:.1} M references/s", refs / read / 1e6);
    println!("write {:.1} M references/s (callers thread {:.1})", refs / written / 1e6, refs / coded / 1e6);
    println!("{bytes} bytes, {:.4} per reference", bytes as f64 / refs);

    let mut best_sum = f64::MAX;
    let mut best_frt = f64::MAX;
    for _ in 0..3 {
        let clock = Instant::now();
        let sum = batches.iter().flat_map(|b| &b.words).fold(0u64, |s, w| s.wrapping_add(*w));
        black_box(sum);
        best_sum = best_sum.min(clock.elapsed().as_secs_f64());
        let clock = Instant::now();
        let mut reader = FrtReader::new(Input::open(path.to_str().expect("a plain name")).expect("a file")).expect("a trace");
        let mut got = 0;
        while let Some(batch) = reader.next_batch().expect("whole") {
            got += black_box(batch).words.len();
        }
        assert_eq!(got, words);
        best_frt = best_frt.min(clock.elapsed().as_secs_f64());
    }
    println!("sum over words {:.0} M references/s, {:.0} M words/s", refs / best_sum / 1e6, words as f64 / best_sum / 1e6);
    println!("decode frt     {:.0} M references/s, {:.0} M words/s", refs / best_frt / 1e6, words as f64 / best_frt / 1e6);
    println!("decode / sum   {:.3}", best_sum / best_frt);
    std::fs::remove_file(&path).expect("just written");
}
