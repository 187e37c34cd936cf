//! Time of one access to each TLB design, as a multiple of one lookup in a hash map, which every simulator needs; the
//! ratio depends less on the machine than nanoseconds do.

use farreach_hw::tlb::{Lookup, Unfiltered, design};
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Pte};
use hashbrown::HashMap;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Map, Value};
use std::hint::black_box;
use std::time::Instant;

const ACCESSES: usize = 4_000_000;

struct Straight;

impl Straight {
    fn entry(vpn: Vpn) -> Pte {
        Pte { pfn: Pfn(vpn.0 + (1 << 20)), attr: Attr(7), order: 4 }
    }
}

impl PageTableView for Straight {
    fn pte(&self, _: Asid, vpn: Vpn) -> Option<Pte> {
        Some(Straight::entry(vpn))
    }
}

/// Best of several rounds, in nanoseconds per access.
fn time(mut round: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed().as_nanos() as f64 / ACCESSES as f64);
    }
    best
}

/// Pages at random, the lower ones more often.
fn stream(pages: u64) -> Vec<Vpn> {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut draw = || u64::from(rng.next_u32());
    (0..ACCESSES).map(|_| Vpn((((draw() * draw()) >> 32) * pages) >> 32)).collect()
}

fn main() {
    if cfg!(debug_assertions) {
        panic!("cargo bench --profile release: the profile bench has the debug checks");
    }
    println!("{:>8} {:<44} {:>7} {:>6} {:>7}", "pages", "design", "misses", "ns", "x map");
    for pages in [256, 4096, 65536] {
        let stream = stream(pages);
        let map: HashMap<u64, u64, foldhash::fast::FixedState> = (0..pages).map(|v| (v, v)).collect();
        let base = time(|| {
            black_box(stream.iter().map(|v| map.get(&v.0).copied().unwrap_or(0)).sum::<u64>());
        });
        println!("{pages:>8} {:<44} {:>7} {base:>6.1} {:>7.2}", "(hash map lookup)", "", 1.0);
        for (kind, keys) in [
            ("single", "entries=64"),
            ("single", "entries=64,replacement=lru"),
            ("single", "entries=256,ways=4,replacement=random"),
            ("single", "entries=4096"),
            ("superpage", "entries=64"),
            ("superpage", "entries=64,sizes=4K"),
            ("complete", "entries=64"),
            ("partial", "entries=64"),
            ("integrated", "entries=64"),
            ("hierarchy", ""),
            ("hierarchy", "l2=4K:1536/12"),
            ("hierarchy", "l2=4K:1536/12,replacement=fifo"),
            ("hierarchy", "l2=4K:1536/12,replacement=random"),
        ] {
            let design = design(kind).expect(kind);
            let pairs = keys.split(',').filter_map(|pair| pair.split_once('='));
            let given: Map<String, Value> = pairs.map(|(k, v)| (k.to_owned(), v.into())).collect();
            let params = Params::resolve(design.keys, &given).expect(keys);
            let mut tlb = (design.build)(&params).expect(keys);
            let mut unfiltered = Unfiltered::default();
            let ns = time(|| {
                for &vpn in &stream {
                    let at = Lookup { asid: Asid(0), vpn, kind: Kind::Load };
                    black_box(tlb.access(at, Straight::entry(vpn), &Straight, &mut unfiltered));
                    unfiltered.clear();
                }
            });
            let misses = tlb.counts().misses as f64 / (5 * ACCESSES) as f64 * 100.0;
            println!("{pages:>8} {:<44} {misses:>6.1}% {ns:>6.1} {:>7.2}", format!("{kind}:{keys}"), ns / base);
        }
    }
}
