//! What holds for every kernel (T94-74).

use std::collections::HashSet;
use xxhash_rust::xxh3::Xxh3;

use super::running::Running;
use super::*;
use farreach_trace::check;
use farreach_trace::generate::{CODE, STACK_END};
use farreach_types::event::{Blocks, Item, Kind, OP_BIT, Op, Source, block_id, words_behind};

fn quick(kernel: &Kernel) -> Settings {
    Settings { size: kernel.small_size, references: 200_000, seed: 1 }
}

#[test]
fn streams_are_sound_and_keep_to_their_mappings() {
    for kernel in KERNELS {
        let report = check(&mut *kernel.source(&quick(kernel)).unwrap()).unwrap();
        assert_eq!(report.violation, None, "{}", kernel.name);
        assert_eq!(report.spaces.len(), 1);
        let (mut blocks, mut maps) = (Blocks::default(), Vec::new());
        let mut source = kernel.source(&quick(kernel)).unwrap();
        while let Some(batch) = source.next_batch().unwrap() {
            let each = |item: Item<'_>| {
                match item {
                    Item::Op(Op::Map(map)) => maps.push((map.start, map.start + map.len, map.prot)),
                    Item::Op(_) => {}
                    Item::Access(a) => {
                        // An array on the heap may extend over two mappings.
                        for byte in [a.addr, a.addr + u64::from(a.size) - 1] {
                            let map = maps.iter().find(|m| (m.0..m.1).contains(&byte));
                            let prot = map.unwrap_or_else(|| panic!("{}: {byte:#x} is not mapped", kernel.name)).2;
                            let allowed = match a.kind {
                                Kind::Fetch => prot.exec,
                                Kind::Load => prot.read,
                                Kind::Store => prot.write,
                            };
                            assert!(allowed, "{}: {a:?}", kernel.name);
                        }
                    }
                }
                true
            };
            blocks.expand(&batch, each).unwrap();
        }
    }
}

/// The reference budget is exceeded by at most a round, and the ratio of instructions to references is as documented.
#[test]
fn budgets_and_instruction_ratios() {
    for kernel in KERNELS {
        let settings = Settings { references: 4_000_000, ..quick(kernel) };
        let totals = check(&mut *kernel.source(&settings).unwrap()).unwrap().totals;
        let made = totals.loads + totals.stores;
        assert!((4_000_000..12_000_000).contains(&made), "{}: {made} references", kernel.name);
        let ratio = totals.instructions as f64 / made as f64;
        assert!((2.0..5.0).contains(&ratio), "{}: {ratio} instructions per reference", kernel.name);
    }
}

/// Mapped data is within a factor of two of the requested size.
#[test]
fn sizes_are_what_was_asked_for() {
    for kernel in KERNELS {
        for size in [kernel.small_size, kernel.default_size] {
            let mut source = kernel.source(&Settings { size, references: 1, seed: 0 }).unwrap();
            let mut mapped = 0;
            while let Some(batch) = source.next_batch().unwrap() {
                for op in &batch.ops {
                    if let Op::Map(map) = op
                        && map.start != CODE
                        && map.start + map.len != STACK_END
                    {
                        mapped += map.len;
                    }
                }
            }
            let factor = mapped as f64 / size as f64;
            assert!((0.5..2.0).contains(&factor), "{}: {mapped} bytes for {size}", kernel.name);
        }
    }
}

#[test]
fn tracing_changes_nothing() {
    for kernel in KERNELS {
        let settings = quick(kernel);
        let mut running = Running::with_values(kernel, settings, true);
        while running.next_batch().unwrap().is_some() {}
        assert_eq!(running.checksum, Some(kernel.run_native(&settings).unwrap()), "{}", kernel.name);
        assert_ne!(
            running.checksum,
            Some(0),
            "{}: a result of 0 would not show that anything was computed",
            kernel.name
        );
    }
}

/// The calls of a watch, in order.
#[derive(Clone, Default)]
struct WatchLog(std::rc::Rc<std::cell::RefCell<Vec<Step>>>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Made(u64),
    Begins,
    Ends(u64),
}

impl Watch for WatchLog {
    fn made(&mut self, at: std::ops::Range<usize>) {
        self.0.borrow_mut().push(Step::Made(at.len() as u64));
    }
    fn begins(&mut self) {
        self.0.borrow_mut().push(Step::Begins);
    }
    fn ends(&mut self, references: u64) {
        self.0.borrow_mut().push(Step::Ends(references));
    }
}

#[test]
fn who_watches_hears_of_arrays_and_of_beginning_and_end_once() {
    for kernel in KERNELS {
        let settings = Settings { references: 2_000_000, ..quick(kernel) };
        let log = WatchLog::default();
        let sum = kernel.run_watched(&settings, Box::new(log.clone())).unwrap();
        assert_eq!(sum, kernel.run_native(&settings).unwrap(), "{}: watching changes nothing", kernel.name);
        let steps = log.0.take();
        let begins = steps.iter().position(|step| *step == Step::Begins).unwrap();
        let ends: Vec<u64> = steps.iter().filter_map(|s| if let Step::Ends(n) = s { Some(*n) } else { None }).collect();
        assert_eq!(
            (ends.len(), steps.iter().filter(|s| **s == Step::Begins).count()),
            (1, 1),
            "{}: {steps:?}",
            kernel.name
        );
        assert!(matches!(steps.last(), Some(Step::Ends(_))), "{}: {steps:?}", kernel.name);
        // The budget covers all references, including those that make the input of some kernels.
        assert!(ends[0] > settings.references / 20, "{}: {} of {}", kernel.name, ends[0], settings.references);
        let made: u64 = steps[..begins].iter().map(|s| if let Step::Made(bytes) = s { *bytes } else { 0 }).sum();
        assert!(
            (settings.size / 2..settings.size * 2).contains(&made),
            "{}: {made} bytes for {}",
            kernel.name,
            settings.size
        );
    }
}

/// A hash over all ids, addresses and definitions.
fn hash(mut source: impl Source) -> u64 {
    let mut hasher = Xxh3::new();
    while let Some(batch) = source.next_batch().unwrap() {
        let mut at = 0;
        while let Some(&word) = batch.words.get(at) {
            let (first, behind) =
                if word & OP_BIT != 0 { (word, 0) } else { (block_id(word).into(), words_behind(word)) };
            hasher.update(&first.to_le_bytes());
            batch.words[at + 1..at + 1 + behind].iter().for_each(|word| hasher.update(&word.to_le_bytes()));
            at += 1 + behind;
        }
        batch.ops.iter().for_each(|op| hasher.update(format!("{op:?}").as_bytes()));
    }
    hasher.digest()
}

/// The stream of each kernel at its quick settings, byte for byte, on every machine.
const STREAMS: &[(&str, u64)] = &[
    ("join", 0x02b1fedfaf094b44),
    ("dense", 0x53558fb18eea8c64),
    ("lzw", 0x831b10233f01f46a),
    ("fft3d", 0x4da7186ead988d3e),
    ("particles", 0x30066c846c8ab130),
    ("cells", 0x08ef245ed0510f1a),
    ("sparse-lu", 0x64df054ff35b89d3),
    ("logic", 0x43432c40a2773e5b),
    ("semispace", 0x7fbdfb25dd794648),
    ("compiler", 0x420ab0b232e6be87),
    ("gups", 0x1f08af1e2866b050),
    ("bfs", 0xf7f92889d15073c0),
    ("kv", 0xc9f3a0d82adadeb7),
    ("spmv", 0xa1f4547e1f87a8e3),
    ("simplex", 0x340d95bff2e45e3a),
    ("event-queue", 0x706da210fc411268),
    ("astar", 0x5f77c518375cdaa5),
    ("anneal", 0x588f1c4c2b52b4d3),
    ("suffix", 0x0c07f8163ce02ea2),
    ("stencil", 0xf22aa019a60e99b2),
    ("cluster", 0x3bf8a053899a4aa7),
    ("server", 0x7984a31efc51fc9d),
];

#[test]
fn streams_are_the_same_everywhere() {
    let line = |&(name, hash): &(&str, u64)| format!("(\"{name}\", {hash:#018x}),");
    let streams: Vec<String> = KERNELS.iter().map(|k| line(&(k.name, hash(k.source(&quick(k)).unwrap())))).collect();
    let published: Vec<String> = STREAMS.iter().map(line).collect();
    assert_eq!(streams, published, "what is published must repeat: change a line only with its kernel");
}

/// Opaque values have no influence on the stream.
#[test]
fn opaque_values_are_opaque() {
    for kernel in KERNELS {
        let settings = quick(kernel);
        let without = hash(kernel.source(&settings).unwrap());
        let with = hash(Running::with_values(kernel, settings, true));
        assert_eq!(without, with, "{}: opaque values steer the addresses", kernel.name);
        // The addresses of three do not depend on their values at all.
        let regular = ["dense", "fft3d", "stencil"].contains(&kernel.name);
        let other = hash(kernel.source(&Settings { seed: 2, ..settings }).unwrap());
        assert_eq!(without == other, regular, "{}: whether another seed makes the same addresses", kernel.name);
    }
}

#[test]
fn a_source_can_be_dropped_at_any_time() {
    for kernel in KERNELS {
        drop(kernel.source(&quick(kernel)).unwrap());
        let mut source = kernel.source(&Settings { references: u64::MAX, ..quick(kernel) }).unwrap();
        for _ in 0..10 {
            assert!(source.next_batch().unwrap().is_some());
        }
    }
}

#[test]
fn names_are_unique_and_bad_settings_are_refused() {
    let names: HashSet<_> = KERNELS.iter().map(|k| k.name).collect();
    assert_eq!(names.len(), KERNELS.len());
    for k in KERNELS {
        assert!(kernel(k.name).is_some_and(|found| std::ptr::eq(found, k)));
        assert!((k.smallest..=k.default_size).contains(&k.small_size) && k.default_size <= k.largest, "{}", k.name);
        for (size, references, words) in
            [(k.smallest - 1, 1, "size"), (k.largest + 1, 1, "size"), (k.smallest, 0, "references")]
        {
            let error = k.source(&Settings { size, references, seed: 0 }).err().expect("refused").to_string();
            assert!(error.contains(k.name) && error.contains(words), "{error}");
        }
    }
    assert!(kernel("nothing").is_none());
}
