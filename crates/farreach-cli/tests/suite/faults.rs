//! Is a recording exact where instructions fault and run again?

use crate::common::{command, options, program, record};
use farreach_live::{Exit, Recorder};
use farreach_types::event::{Access, Blocks, Item, Kind, Op, Prot, Source};

#[test]
fn a_faulting_instruction_counts_when_it_succeeds() {
    let r = record(&program("barrier", &[]), &[]);
    assert_eq!(r.report.exit, Exit::Code(0));
    let heap = r.ops.iter().find_map(|(_, op)| match op {
        Op::Map(m) if m.len == 64 * 4096 && m.prot == (Prot { read: true, write: false, exec: false }) => Some(m.start),
        _ => None,
    });
    let heap = heap.expect("the protected heap");
    // Each page: load, store (once, though tried twice), store, load.
    for page in 0..64 {
        let at = heap + page * 4096;
        let seen: Vec<(Kind, u64)> =
            r.accesses.iter().filter(|(_, a)| a.addr & !4095 == at).map(|(_, a)| (a.kind, a.addr - at)).collect();
        assert_eq!(seen, [(Kind::Load, 8), (Kind::Store, 16), (Kind::Store, 24), (Kind::Load, 16)], "page {page}");
    }
    let protects = r.ops.iter().filter(|(_, op)| matches!(op, Op::Protect { len: 4096, prot: Prot::RW, .. })).count();
    assert_eq!(protects, 64);
}

/// The references of straight code are the same with handled faults and without, whether the address word was written
/// before the fault or not.
#[test]
fn faults_between_references_that_share_a_word() {
    let program = program("faults", &["-static"]);
    let work = |args: &[&str]| {
        let r = record(&program, args);
        assert_eq!(r.report.exit, Exit::Code(0));
        let pages = r.ops.iter().find_map(|(_, op)| match op {
            Op::Map(m) if m.len == 32 * 4096 => Some(m.start),
            _ => None,
        });
        let pages = pages.expect("the pages");
        let inside = |a: &Access| (pages..pages + 32 * 4096).contains(&a.addr);
        // Instructions from the first to the last that touch the pages, and their references.
        let mut fetched = Access { kind: Kind::Fetch, addr: 0, size: 0 };
        let touching = r.accesses.iter().filter_map(|(_, a)| {
            if a.kind == Kind::Fetch {
                fetched = *a;
            }
            inside(a).then_some(fetched.addr)
        });
        let (first, last) = touching.fold((u64::MAX, 0), |(first, last), pc| (first.min(pc), last.max(pc)));
        let mut on = false;
        let all = r.accesses.iter().map(|(_, a)| *a).filter(|a| {
            if a.kind == Kind::Fetch {
                on = (first..=last).contains(&a.addr);
            }
            on
        });
        let protects =
            r.ops.iter().filter(|(_, op)| matches!(op, Op::Protect { len: 4096, prot: Prot::RW, .. })).count();
        (
            all.map(|a| Access { addr: if inside(&a) { a.addr - pages } else { a.addr }, ..a }).collect::<Vec<_>>(),
            protects,
        )
    };
    let ((open, none), (closed, mended)) = (work(&["open"]), work(&[]));
    assert_eq!((none, mended), (0, 8));
    assert_eq!(open.len(), 8 * (8 + 9));
    assert_eq!(open, closed);
    let data = |mode: u64| {
        let (p, q) = (mode * 0x4000 + 0x1000, mode * 0x4000 + 0x3000);
        let r = mode * 0x4000 + if mode & 4 != 0 { 0x2000 } else { 512 };
        let load = |addr| Access { kind: Kind::Load, addr, size: 8 };
        let store = |addr, size| Access { kind: Kind::Store, addr, size };
        [
            load(r),
            store(r - 8, 8),
            load(q),
            load(p - 8),
            store(p, 8),
            store(p - 16, 4),
            load(q + 8),
            load(p + 8),
            store(p + 8, 8),
        ]
    };
    let expected: Vec<Access> = (0..8).flat_map(data).collect();
    assert_eq!(closed.into_iter().filter(|a| a.kind != Kind::Fetch).collect::<Vec<_>>(), expected);
}

/// The words written identify the one that faulted, so no two share one.
#[test]
fn a_fault_in_an_unrolled_loop() {
    let mut twice = 0;
    let mut recorder = Recorder::start(&command(&program("faults", &["-static"]), &["fill"]), &options()).unwrap();
    let (mut blocks, mut accesses, mut pages) = (Blocks::default(), Vec::new(), 0);
    while let Some(batch) = recorder.next_batch().unwrap() {
        let each = |item: Item<'_>| {
            match item {
                Item::Access(a) => accesses.push(a),
                Item::Op(Op::Map(m)) if m.len == 32 * 4096 => pages = m.start,
                Item::Op(Op::Define { block, .. }) => {
                    twice += usize::from((1..block.instrs.len()).any(|i| block.instrs[..i].contains(&block.instrs[i])));
                }
                Item::Op(_) => {}
            }
            true
        };
        blocks.expand(&batch, each).unwrap();
    }
    assert_eq!(recorder.finish().unwrap().exit, Exit::Code(0));
    assert!(twice > 0, "a loop is unrolled");
    let first = accesses.iter().position(|a| a.addr == pages).expect("the first store") - 1;
    let expected = (pages..pages + 4096).step_by(16).flat_map(|addr| {
        [(Kind::Store, addr), (Kind::Store, addr + 8)].into_iter().zip([8, 4]).map(|((kind, addr), size)| Access {
            kind,
            addr,
            size,
        })
    });
    // Of each round four fetches and two stores; of the last, nothing.
    let seen = &accesses[first..first + 256 * 6];
    assert_eq!(
        seen.iter().filter(|a| a.kind != Kind::Fetch).copied().collect::<Vec<_>>(),
        expected.collect::<Vec<_>>()
    );
    let pcs: Vec<u64> = seen.iter().filter(|a| a.kind == Kind::Fetch).map(|a| a.addr).collect();
    assert!(pcs.chunks(4).all(|round| round == &pcs[..4]), "{pcs:x?}");
    assert!(!pcs.contains(&accesses[first + 256 * 6].addr), "the store that faulted is not fetched");
}
