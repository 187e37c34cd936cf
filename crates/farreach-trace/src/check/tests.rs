use super::*;
use farreach_types::event::{Instr, Mapping, Prot};

fn start() -> Op {
    Op::Start { pid: 1, parent: None, program: "/bin/true".into() }
}

fn one() -> Op {
    let instrs = [Instr { pc: 0x1000, len: 4 }].into();
    Op::Define { id: 0, block: Arc::new(Block { instrs, refs: [].into() }) }
}

type Given<'a> = (u32, &'a [Op]);

/// The first violation of batches given as address space and events; block 0 is executed after each batch's events.
fn verdict(batches: &[Given]) -> Option<String> {
    let mut checker = Checker::default();
    for (i, (asid, ops)) in batches.iter().enumerate() {
        let mut batch = Batch::new(Asid(*asid));
        if i == 0 {
            batch.push_op(one());
        }
        ops.iter().for_each(|op| batch.push_op(op.clone()));
        if !matches!(ops.last(), Some(Op::End(_))) {
            batch.push_block(0, &[]);
        }
        if let Err(v) = checker.check(&batch) {
            assert_eq!(v.batch, i as u64);
            return Some(v.what);
        }
    }
    None
}

fn map(start: u64, len: u64) -> Op {
    Op::Map(Mapping { start, len, prot: Prot::RW, shared: false, backing: Backing::Anonymous })
}

#[test]
fn what_is_right_passes() {
    assert_eq!(verdict(&[(0, &[]), (7, &[])]), None);
    let fork = Op::Fork { child: Asid(1) };
    let exec = Op::Start { pid: 2, parent: Some(Asid(1)), program: "/bin/ls".into() };
    let ops: &[Op] = &[start(), map(0x1000, 0x1000), fork];
    assert_eq!(verdict(&[(0, ops), (1, &[]), (1, &[Op::End(End::Exec)]), (2, &[exec])]), None);
}

#[test]
fn each_rule_is_held() {
    let thread = |t| Op::ThreadStart { thread: t };
    let cases: [(&str, &[Given]); 12] = [
        ("no Start", &[(0, &[start()]), (1, &[])]),
        ("after its End", &[(0, &[start()]), (0, &[Op::End(End::Lost)]), (0, &[])]),
        ("was there before", &[(0, &[start(), Op::Fork { child: Asid(0) }])]),
        ("next number is 1", &[(0, &[start(), Op::Fork { child: Asid(5) }])]),
        ("behind other", &[(0, &[]), (1, &[start()])]),
        ("multiples", &[(0, &[map(0x1001, 0x1000)])]),
        ("multiples", &[(0, &[Op::Unmap { start: 0, len: 1 }])]),
        ("no length", &[(0, &[map(0x1000, 0)])]),
        ("past 2^64", &[(0, &[map(u64::MAX - 4095, 4096)])]),
        ("does not run", &[(0, &[thread(1), Op::Switch { thread: 2 }])]),
        ("runs already", &[(0, &[thread(1), thread(1)])]),
        ("never there", &[(0, &[Op::Start { pid: 1, parent: Some(Asid(9)), program: "".into() }])]),
    ];
    for (expected, batches) in cases {
        let what = verdict(batches);
        assert!(what.as_ref().is_some_and(|w| w.contains(expected)), "{expected}: {what:?}");
    }
}

#[test]
fn words_are_checked() {
    let violation = |words: Vec<u64>| {
        let instrs = [Instr { pc: 0x1000, len: 4 }].into();
        let refs = [farreach_types::event::DataRef::new(1, Kind::Load, 8, 0)].into();
        let ops = vec![Op::Define { id: 3, block: Arc::new(Block { instrs, refs }) }];
        Checker::default().check(&Batch { asid: Asid(0), words, ops }).err().map(|v| (v.word, v.what))
    };
    let run = farreach_types::event::block_word(3, 1);
    assert_eq!(violation(vec![OP_BIT, run, 0x10, run, NOT_EXECUTED]), None);
    for (words, at, expected) in [
        (vec![run, 0x10], 0, "never defined"),
        (vec![OP_BIT, run], 1, "0 words left"),
        (vec![OP_BIT, 3, 0x10], 1, "has 1 address, its execution announces 0"),
        (vec![OP_BIT, OP_BIT | 1], 1, "event 1 of 1"),
        (vec![OP_BIT, run, u64::MAX - 7], 1, "past 2^64"),
        (vec![OP_BIT, u64::MAX >> 1, 0], 1, "never defined"),
    ] {
        let (word, what) = violation(words).expect(expected);
        assert!(word == at && what.contains(expected), "{word} {what}");
    }
}
