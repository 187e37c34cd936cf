//! Speed of the generation of streams: `cargo bench --profile release -p farreach-kernels --bench kernels [--
//! NAME...]`, as ratios to the same algorithm on real memory, at the small size.

use std::time::Instant;

use farreach_kernels::{KERNELS, Settings};
use farreach_types::event::{OP_BIT, Source};

fn main() {
    if cfg!(debug_assertions) {
        panic!("cargo bench --profile release: the profile bench has the debug checks");
    }
    let names: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    println!("{:12} {:>18} {:>18} {:>7}", "kernel", "M data refs/s", "native M refs/s", "ratio");
    for kernel in KERNELS.iter().filter(|k| names.is_empty() || names.iter().any(|n| n == k.name)) {
        let seconds = |references: u64, native: bool| {
            let settings = Settings { size: kernel.small_size, references, seed: 0 };
            let clock = Instant::now();
            if native {
                std::hint::black_box(kernel.run_native(&settings).expect("good settings"));
            } else {
                let mut source = kernel.source(&settings).expect("good settings");
                let mut words = 0;
                while let Some(batch) = source.next_batch().expect("a kernel cannot fail") {
                    words += batch.words.iter().filter(|w| **w & OP_BIT == 0).count();
                }
                assert!(words as u64 > references, "a word for each reference at least");
            }
            clock.elapsed().as_secs_f64()
        };
        // The difference of two lengths leaves out the constant part.
        let rate = |references: u64, native| {
            3e-6 * references as f64 / (seconds(4 * references, native) - seconds(references, native))
        };
        let (traced, native) = (rate(10_000_000, false), rate(100_000_000, true));
        println!("{:12} {traced:18.0} {native:18.0} {:7.3}", kernel.name, traced / native);
    }
}
