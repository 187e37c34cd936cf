//! Page traces: does every machine that looks at pages alone count the same as on the program itself?

use crate::common::{lab, run_batches};
use crate::shared_words::{expanded, made, programs};
use farreach_kernels::{Settings, kernel};
use farreach_machine::{Options, PAGE_SIZES, PageLab, Preset};
use farreach_oracle::dice::seeds;
use farreach_trace::{Pages, check, generate};
use farreach_types::event::{Batch, Blocks, Item, Op, Source, block_id, words_behind};
use farreach_types::event::{Kind, NOT_EXECUTED, OP_BIT};

fn drain(mut source: impl Source) -> Vec<Batch> {
    std::iter::from_fn(|| source.next_batch().unwrap()).collect()
}

/// The page trace, with the paths that are executed this often.
pub fn paged(batches: &[Batch], often: u16) -> Vec<Batch> {
    drain(Pages::new(made(batches)).with_paths_executed(often))
}

fn kernels(references: u64) -> Vec<Vec<Batch>> {
    let source = |name| {
        let kernel = kernel(name).unwrap();
        drain(kernel.source(&Settings { size: kernel.small_size, references, seed: 3 }).unwrap())
    };
    ["gups", "kv", "lzw", "anneal"].map(source).into()
}

/// Executions of blocks.
fn executions(batches: &[Batch]) -> usize {
    let count = |batch: &Batch| {
        let (mut at, mut count) = (0, 0);
        while let Some(&word) = batch.words.get(at) {
            let addresses = if word & OP_BIT == 0 { words_behind(word) } else { 0 };
            count += usize::from(word & OP_BIT == 0);
            at += 1 + addresses;
        }
        count
    };
    batches.iter().map(count).sum()
}

/// Everything in program order but definitions: of a data reference kind, size, and the first and the last page.
fn by_page(batches: &[Batch]) -> Vec<(u32, String)> {
    let (mut blocks, mut all) = (Blocks::default(), Vec::new());
    for batch in batches {
        let each = |item: Item| {
            let text = match item {
                Item::Op(Op::Define { .. } | Op::Pages) => return true,
                Item::Access(a) if a.kind != Kind::Fetch => {
                    let last = a.addr + u64::from(a.size) - 1;
                    format!("{:?} {} {:x} {:x}", a.kind, a.size, a.addr >> 12, last >> 12)
                }
                item => format!("{item:?}"),
            };
            all.push((batch.asid.0, text));
            true
        };
        blocks.expand(batch, each).unwrap();
    }
    all
}

#[test]
fn a_page_trace_has_the_same_pages_in_fewer_executions() {
    let random = (0..2).flat_map(|seed| <[_; 2]>::from(programs(seed, 1500)));
    let mut fewer = 0;
    for batches in random.chain(kernels(10_000)).chain((0..2).map(|seed| drain(generate::system(seed, 3000)))) {
        let truth = by_page(&batches);
        let mut before = usize::MAX;
        for often in [u16::MAX, 3, 1] {
            let pages = paged(&batches, often);
            assert_eq!(by_page(&pages), truth);
            let report = check(&mut made(&pages)).unwrap();
            assert_eq!(report.violation, None);
            assert_eq!(report.events["pages"], 1);
            let now = executions(&pages);
            assert!(now <= before, "paths are found more often");
            fewer += usize::from(2 * now < executions(&batches));
            before = now;
            // In a page trace an address is the first of its page at which the reference touches the same pages, so
            // another page trace of it has the same addresses.
            let again = expanded(&mut Pages::new(made(&pages)).with_paths_executed(often));
            assert_eq!(again, expanded(&mut made(&pages)));
        }
    }
    assert!(fewer > 4, "only {fewer} have less than half the executions");
}

/// The first event of a page trace says what it is.
fn mark() -> Batch {
    let mut batch = Batch::default();
    batch.push_op(Op::Pages);
    batch
}

#[test]
fn machines_count_the_same_or_refuse_it() {
    let machines: Vec<&str> = Preset::all_of("all").into_iter().map(|preset| preset.name).collect();
    let (pages, lines): (Vec<_>, Vec<_>) =
        machines.into_iter().partition(|machine| match lab(&[machine], false, 1).feed(mark()) {
            Ok(_) => true,
            Err(why) => {
                let why = why.to_string();
                assert!(why.contains(&format!("{machine}: it looks at the lines of references")), "{why}");
                false
            }
        });
    let has = |name| (pages.contains(&name), lines.contains(&name));
    assert_eq!(
        ["t94/single", "rmm15/range", "today/skylake", "sv97/softvm"].map(has).map(|(pages, _)| pages),
        [true, true, true, false]
    );
    let guest = |machine: &&str| {
        let spec = farreach_machine::MachineSpec::parse(machine, 0).unwrap();
        spec.to_toml().contains("placement = \"guest\"")
    };
    // With checks, these take much time.
    let fit = |machine: &&str| !guest(machine) && !["ds13/1g", "since/htab"].contains(machine);
    let pages: Vec<&str> = pages.into_iter().filter(fit).collect();
    let random = seeds(1).map(|seed| programs(seed + 60, 350).0);
    for batches in random.chain([kernels(1_000).swap_remove(1)]) {
        // Some need fetches before all else.
        let can = |machine: &&str| {
            let mut lab = lab(&[machine], false, 1);
            batches.iter().try_for_each(|batch| lab.feed(batch).map(|_| ())).is_ok()
        };
        let pages: Vec<&str> = pages.iter().copied().filter(can).collect();
        assert!(pages.len() > 60, "{pages:?}");
        let truth = run_batches(&pages, &batches, false, 1);
        for often in [1, 3, u16::MAX] {
            let other = run_batches(&pages, &paged(&batches, often), often == 3, 1);
            assert!(truth.result.workload == other.result.workload);
            for (one, other) in truth.result.machines.iter().zip(&other.result.machines) {
                assert_eq!(one.counts, other.counts, "{}, often {often}", one.name);
                assert!(one == other, "{}", one.name);
            }
            assert!(truth.entries == other.entries);
        }
    }
}

#[test]
fn the_page_size_study_counts_the_same() {
    for batches in kernels(10_000).into_iter().chain([programs(30, 1500).0]) {
        let run = |batches: &[Batch]| {
            let mut lab = PageLab::new(&PAGE_SIZES, 64, Options::default()).unwrap();
            lab.run(&mut made(batches)).unwrap();
            lab.finish().unwrap();
            serde_json::to_string(&lab.result("test", None, Vec::new())).unwrap()
        };
        assert_eq!(run(&batches), run(&paged(&batches, 2)));
    }
}

/// What is read before an error is passed on before it.
#[test]
fn a_source_that_fails_has_its_references_before() {
    struct Fails(Option<Batch>);
    impl Source for Fails {
        fn next_batch(&mut self) -> Result<Option<Batch>, farreach_types::Error> {
            self.0
                .take()
                .map(Some)
                .ok_or(farreach_types::Error::Config { machine: "".into(), what: "it is cut".into() })
        }
    }
    let batch = kernels(3_000).swap_remove(0).swap_remove(0);
    let truth = by_page(std::slice::from_ref(&batch));
    let mut source = Pages::new(Fails(Some(batch.clone()))).with_paths_executed(1);
    let first = source.next_batch().unwrap().unwrap();
    assert_eq!(by_page(&[first]), truth);
    assert!(source.next_batch().unwrap_err().to_string().contains("it is cut"));
    assert!(source.next_batch().unwrap().is_none(), "an error comes once");
    // A batch that breaks the contract, after one that does not.
    let mut broken = Batch::new(batch.asid);
    broken.push_block(9999, &[]);
    let mut source = Pages::new(made(&[batch, broken]));
    let first = source.next_batch().unwrap().unwrap();
    assert_eq!(by_page(&[first]), truth);
    assert!(source.next_batch().unwrap_err().to_string().contains("block 9999 was never defined"));
    assert!(source.next_batch().unwrap().is_none());
}

/// By hand: a reference into the next page and one that did not happen have words for themselves.
#[test]
fn references_on_a_page_share_a_word() {
    use farreach_types::event::{Block, DataRef, Instr};
    let refs = [8, 8, 8, 1].map(|size| (Kind::Load, size));
    let refs = (0..).zip(refs).map(|(word, (kind, size))| DataRef::new(1, kind, size, word)).collect();
    let block = Block { instrs: [Instr { pc: 0x1000, len: 4 }].into(), refs };
    let mut batch = Batch::default();
    batch.push_op(Op::Define { id: 5, block: std::sync::Arc::new(block) });
    batch.push_block(5, &[0x5008, 0x6ff9, 0x5ff8, 0x7fff]);
    batch.push_block(5, &[0x5008, NOT_EXECUTED, 0x5100, 0x7fff]);
    let [out] = &paged(&[batch], 1)[..] else { panic!("one batch") };
    let executed: Vec<&[u64]> = (0..out.words.len())
        .filter(|&at| out.words[at] & OP_BIT == 0 && block_id(out.words[at]) < 9 && words_behind(out.words[at]) > 2)
        .map(|at| &out.words[at + 1..][..words_behind(out.words[at])])
        .collect();
    assert_eq!(executed, [&[0x5000, 0x6ff9, 0x7000][..], &[0x5000, NOT_EXECUTED, 0x5000, 0x7000]]);
}
