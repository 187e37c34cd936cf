use super::*;
use farreach_types::event::{Arch, Instr, Invalidate, Mapping, Prot, Register};

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

/// The stream of a system: `from` in its first batch, then `ops` in address space 1, then a block of a program.
fn system(from: &[Op], ops: &[Op]) -> Option<String> {
    let start = |pid| Op::Start { pid, parent: None, program: "".into() };
    let mut first = Batch::new(Asid(0));
    first.push_op(start(0));
    from.iter().for_each(|op| first.push_op(op.clone()));
    let mut second = Batch::new(Asid(1));
    [start(1), one()].into_iter().chain(ops.iter().cloned()).for_each(|op| second.push_op(op));
    second.push_block(0, &[]);
    let mut checker = Checker::default();
    [first, second].iter().find_map(|batch| checker.check(batch).err()).map(|v| v.what)
}

#[test]
fn the_laws_of_a_system_are_checked() {
    let guest = |guest: Guest| Op::Guest(guest);
    let machine = |arch, processors, memory| guest(Guest::Machine { arch, processors, memory });
    let privilege = |kernel| guest(Guest::Privilege { kernel });
    let register = |register| guest(Guest::Register { register, value: 0x1000 });
    let entries = |address, n: usize| guest(Guest::Entries { address, values: vec![1; n].into() });
    let invalidate =
        |tag, bytes| guest(Guest::Invalidate(Invalidate { tag, bytes, global: true, leaves: false, broadcast: false }));
    let exception = |vector| guest(Guest::Exception { vector });
    let x86 = [machine(Arch::X86, 2, 1 << 20)];
    let arm = [machine(Arch::Aarch64, 2, 1 << 20)];
    let ready = [register(Register::Root0), register(Register::Control), privilege(false)];
    let with = |op: &Op| [&ready[..], std::slice::from_ref(op)].concat();
    assert_eq!(system(&x86, &ready), None);
    for op in [
        entries(0x1ff0, 2),
        invalidate(Some(4095), Some((0x1000, 0x2000))),
        invalidate(None, None),
        exception(255),
        guest(Guest::Name("x".into())),
    ] {
        assert_eq!(system(&x86, &with(&op)), None, "{op:?}");
    }
    let second = [Op::Switch { thread: 1 }, register(Register::Root0), register(Register::Control)];
    assert_eq!(system(&x86, &[&ready[..], &second].concat()), None, "it runs a program as the one before did");
    let all_of_arm = [&ready[..], &[register(Register::Root1), exception(0x480), invalidate(Some(u16::MAX), None)]];
    assert_eq!(system(&arm, &all_of_arm.concat()), None);
    let code = |pcs: &[u64]| {
        let instrs = pcs.iter().map(|&pc| Instr { pc, len: 4 }).collect();
        Op::Define { id: 0, block: Arc::new(Block { instrs, refs: [].into() }) }
    };
    let cases: [(&str, &[Op], &[Op]); 20] = [
        ("before its Machine", &[privilege(false)], &[]),
        ("not the first event", &[], &x86),
        ("not the first event", &[Op::Switch { thread: 0 }, x86[0].clone()], &[]),
        ("a second Machine", &[x86[0].clone(), x86[0].clone()], &[]),
        ("0 processors", &[machine(Arch::X86, 0, 1 << 20)], &[]),
        ("0x1001 bytes", &[machine(Arch::X86, 1, 0x1001)], &[]),
        ("a switch to processor 2 of 2", &x86, &[Op::Switch { thread: 2 }]),
        ("before its register Root0", &x86, &ready[1..]),
        ("before its register Control", &x86, &[ready[0].clone(), ready[2].clone()]),
        ("before its register Root1", &arm, &ready),
        ("processor 1 runs before its register", &x86, &[&ready[..], &second[..2]].concat()),
        ("before its privilege", &x86, &ready[..2]),
        ("processor 0 runs the kernel, but a block in the lower half", &x86, &with(&privilege(true))),
        ("register Root1, which x86_64 does not have", &x86, &with(&register(Register::Root1))),
        ("8 bytes of a table at 0x1004", &x86, &with(&entries(0x1004, 1))),
        ("16 bytes of a table at 0x1ff8", &x86, &with(&entries(0x1ff8, 2))),
        ("tag 4096; x86_64 has 4096", &x86, &with(&invalidate(Some(4096), None))),
        ("has no length", &x86, &with(&invalidate(None, Some((0x1000, 0))))),
        ("an exception 0x100", &x86, &with(&exception(0x100))),
        ("an event 'map' of a program", &x86, &with(&map(0x1000, 0x1000))),
    ];
    for (why, from, ops) in cases {
        let what = system(from, ops);
        assert!(what.as_ref().is_some_and(|w| w.contains(why)), "{why}: {what:?}");
    }
    let verdict = |block: Op, words: &[u64]| {
        let mut checker = Checker::default();
        let mut batch = Batch::new(Asid(0));
        x86.iter().chain(&ready).for_each(|op| batch.push_op(op.clone()));
        batch.push_op(block);
        batch.push_block(0, words);
        checker.check(&batch).err().map(|v| v.what)
    };
    assert_eq!(verdict(code(&[0x1000, 0x1004]), &[]), None);
    let half = 1 << 56;
    for (pcs, why) in [
        (&[half][..], "runs a program, but a block in the upper half"),
        (&[half - 4, half], "in both halves"),
        (&[2 * half], "or beyond them"),
    ] {
        assert!(verdict(code(pcs), &[]).is_some_and(|what| what.contains(why)), "{why}");
    }
    let load = farreach_types::event::DataRef::new(0, Kind::Load, 8, 0);
    let load = || Op::Define { id: 0, block: Arc::new(Block { instrs: [].into(), refs: [load].into() }) };
    assert_eq!(verdict(load(), &[2 * half - 8]), None);
    assert!(verdict(load(), &[2 * half - 7]).is_some_and(|what| what.contains("past 2^57")));
}

#[test]
fn generated_systems_are_sound() {
    for seed in 0..20 {
        let report = check(&mut crate::generate::system(seed, 2000)).unwrap();
        assert_eq!(report.violation, None, "{seed}");
        let system = report.system.expect("it is one");
        assert!(system.table_words > system.table_frames && system.table_frames > 0);
        assert!(
            ["machine", "register", "privilege", "table_entries", "invalidate", "exception", "name"]
                .iter()
                .all(|name| report.events[name] > 0)
        );
        assert!(report.spaces.iter().any(|space| space.program.starts_with("program ")));
    }
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
    let cases: [(&str, &[Given]); 15] = [
        ("no Start", &[(0, &[start()]), (1, &[])]),
        ("after its End", &[(0, &[start()]), (0, &[Op::End(End::Lost)]), (0, &[])]),
        ("was there before", &[(0, &[start(), Op::Fork { child: Asid(0) }])]),
        ("next number is 1", &[(0, &[start(), Op::Fork { child: Asid(5) }])]),
        ("behind other", &[(0, &[]), (1, &[start()])]),
        ("multiples", &[(0, &[map(0x1001, 0x1000)])]),
        ("multiples", &[(0, &[Op::Unmap { start: 0, len: 1 }])]),
        ("stores 0 bytes", &[(0, &[Op::KernelStore { start: 8, len: 0 }])]),
        ("1 to 2147483648 are", &[(0, &[Op::KernelStore { start: 8, len: (1 << 31) + 1 }])]),
        ("which reach past 2^64", &[(0, &[Op::KernelStore { start: u64::MAX - 7, len: 8 }])]),
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
