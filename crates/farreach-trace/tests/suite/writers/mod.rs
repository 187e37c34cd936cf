//! Do traces in the formats of other tools say what the stream says: read back, and by a plain look at their bytes?

mod champsim;
mod drmemtrace;
mod files;
mod gem5;
mod parquet;

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use farreach_trace::{
    Header, Input, Opened, TARGETS, Target, TraceInfo, TraceWriter, Written, check, generate, open_input, write_to,
};
use farreach_types::addr::Asid;
use farreach_types::event::*;

/// A source of these batches.
pub struct Given(pub std::vec::IntoIter<Batch>);

impl Source for Given {
    fn next_batch(&mut self) -> Result<Option<Batch>, farreach_types::Error> {
        Ok(self.0.next())
    }
}

pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).expect(name)
}

pub fn opened(batches: Vec<Batch>) -> Opened {
    let info = TraceInfo { file: "given".into(), format: "frt", compression: None, bytes: None, header: None };
    Opened { source: Box::new(Given(batches.into_iter())), info }
}

/// The bytes in a format.
pub fn written(batches: &[Batch], name: &str) -> Result<(Vec<u8>, Written), String> {
    let mut bytes = Vec::new();
    let written = write_to(opened(batches.to_vec()), target(name), &mut bytes, "memory");
    written.map(|written| (bytes, written)).map_err(|e| e.to_string())
}

/// An item of a stream: a reference, with address space and thread.
pub type Ref = (u32, u32, Kind, u64, u32);

/// All references of a stream. A thread has the number that `Switch` gives it, or the first `ThreadStart`.
pub fn references(mut source: impl Source) -> Vec<Ref> {
    let mut blocks = Blocks::default();
    let (mut threads, mut started) = (HashMap::new(), HashMap::new());
    let mut all = Vec::new();
    while let Some(batch) = source.next_batch().expect("it can be read") {
        let space = batch.asid.0;
        let expanded = blocks.expand(&batch, |item| {
            match item {
                Item::Access(a) => {
                    let thread = threads.get(&space).copied().unwrap_or(0);
                    let again = started.get(&(space, thread)).copied().unwrap_or(1);
                    all.push((space, thread + 1000 * again, a.kind, a.addr, a.size));
                }
                Item::Op(Op::Switch { thread }) => _ = threads.insert(space, *thread),
                // A number may be used again after its thread has ended.
                Item::Op(Op::ThreadStart { thread }) => {
                    *started.entry((space, *thread)).or_insert(0) += 1;
                    threads.entry(space).or_insert(*thread);
                }
                Item::Op(Op::ThreadExit { thread }) => *started.entry((space, *thread)).or_insert(1) += 1,
                Item::Op(Op::Fork { child }) => {
                    let thread = threads.get(&space).copied();
                    threads.extend(thread.map(|thread| (child.0, thread)));
                }
                Item::Op(_) => {}
            }
            true
        });
        expanded.expect("a sound stream");
    }
    all
}

/// Those that are read from bytes.
pub fn read(bytes: &[u8], format: &str) -> Vec<Ref> {
    let open = || {
        let input = Input::from_stream(Box::new(Cursor::new(bytes.to_vec())), "back").expect("bytes");
        open_input(input, Some(format)).expect("our own trace")
    };
    assert_eq!(check(&mut *open().source).expect("our own trace").violation, None);
    references(open().source)
}

/// A program with forks, threads, mappings and references that did not happen, without the bytes of its code.
pub fn program(seed: u64) -> Vec<Batch> {
    let mut source = generate::program(seed, 3000);
    std::iter::from_fn(|| source.next_batch().expect("memory")).collect()
}

/// The bytes of an instruction, its address, and what it refers to.
type Instruction<'a> = (u64, &'a [u8], &'a [(Kind, u64, u32)]);

/// Appends an execution of a block of its own.
fn execute(batch: &mut Batch, id: u32, instructions: &[Instruction]) {
    let instrs = instructions.iter().map(|&(pc, bytes, _)| Instr { pc, len: bytes.len() as u32 }).collect();
    let mut refs = Vec::new();
    let mut addrs = Vec::new();
    for (at, (_, _, data)) in instructions.iter().enumerate() {
        for &(kind, addr, size) in *data {
            refs.push(DataRef::new(at as u32 + 1, kind, size, addrs.len() as u32));
            addrs.push(addr);
        }
    }
    batch.push_op(Op::Define { id, block: Arc::new(Block { instrs, refs: refs.into() }) });
    let bytes: Vec<u8> = instructions.iter().flat_map(|(_, bytes, _)| bytes.iter().copied()).collect();
    batch.push_op(Op::Code { id, bytes: bytes.into() });
    batch.push_block(id, &addrs);
}

const GATHER: [(Kind, u64, u32); 8] = {
    let mut all = [(Kind::Load, 0, 4); 8];
    let mut i = 0;
    while i < 8 {
        all[i].1 = 0xa000 + 0x100 * i as u64;
        i += 1;
    }
    all
};

/// A program of real code, of two threads in one process, and another process.
pub fn golden() -> Vec<Batch> {
    use Kind::{Load, Store};
    let mut one = Batch::new(Asid(0));
    one.push_op(Op::Start { pid: 77, parent: None, program: "/bin/golden".into() });
    let whole = Mapping { start: 0, len: 1 << 40, prot: Prot::RWX, shared: false, backing: Backing::Anonymous };
    one.push_op(Op::Map(whole));
    one.push_op(Op::ThreadStart { thread: 1 });
    execute(
        &mut one,
        1,
        &[
            (0x1000, &[0x48, 0x8b, 0x07], &[(Load, 0x7000, 8)]), // mov rax, [rdi]
            (0x1003, &[0x55], &[(Store, 0x7ffe_fff8, 8)]),       // push rbp
            (0x1004, &[0x75, 0x06], &[]),                        // jne 0x100c
        ],
    );
    execute(&mut one, 2, &[(0x100c, &[0xe8, 0xef, 0x0f, 0, 0], &[(Store, 0x7ffe_fff0, 8)])]); // call 0x2000
    execute(&mut one, 3, &[(0x2000, &[0xff, 0x25, 0xfa, 0xff, 0, 0], &[(Load, 0x1_2000, 8)])]); // jmp [rip+...]
    execute(&mut one, 4, &[(0x3000, &[0xc3], &[(Load, 0x7ffe_fff0, 8)])]); // ret
    execute(&mut one, 5, &[(0x1011, &[0x75, 0xed], &[])]); // jne 0x1000
    for i in 0..2 {
        // rep movsb
        execute(&mut one, 6 + i, &[(0x1013, &[0xf3, 0xa4], &[(Load, 0x8fff, 1), (Store, 0x9000 + u64::from(i), 1)])]);
    }
    execute(&mut one, 8, &[(0x1015, &[0xc4, 0xe2, 0x75, 0x90, 0x14, 0x07], &GATHER)]); // vpgatherdd
    execute(&mut one, 9, &[(0x101b, &[0x74, 0x10], &[])]); // je, and another thread goes on
    one.push_op(Op::ThreadStart { thread: 4 });
    one.push_op(Op::Switch { thread: 4 });
    execute(&mut one, 10, &[(0x3000, &[0xc3], &[(Load, 0x6ffe, 8)])]); // ret, the last of its thread
    one.push_op(Op::ThreadExit { thread: 4 });
    one.push_op(Op::Switch { thread: 1 });
    let mut other = Batch::new(Asid(1));
    one.push_op(Op::Fork { child: Asid(1) });
    execute(&mut other, 11, &[(0x1000, &[0x0f, 0x05], &[]), (0x1002, &[0xeb, 0xfc], &[])]); // syscall; jmp 0x1000
    let mut last = Batch::new(Asid(0));
    execute(&mut last, 12, &[(0x102d, &[0x90], &[])]);
    last.push_op(Op::End(End::Exit(0)));
    vec![one, other, last]
}

#[test]
fn code_comes_back_and_is_no_event() {
    let mut bytes = Vec::new();
    {
        let shared = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut writer =
            TraceWriter::to_stream(Shared(Arc::clone(&shared)), "memory", Header::default()).expect("a small header");
        golden().iter().for_each(|batch| writer.write(batch).expect("sound"));
        let totals = writer.finish().expect("memory");
        assert_eq!((totals.blocks, totals.ops), (12, 9));
        bytes.append(&mut shared.lock().expect("one thread"));
    }
    let codes = |mut source: Box<dyn Source>| {
        let mut all = Vec::new();
        while let Some(batch) = source.next_batch().expect("sound") {
            all.extend(batch.ops.into_iter().filter(|op| matches!(op, Op::Code { .. })));
        }
        all
    };
    let input = Input::from_stream(Box::new(Cursor::new(bytes.clone())), "memory").expect("bytes");
    let mut back = open_input(input, None).expect("a trace").source;
    let report = check(&mut *back).expect("sound");
    assert_eq!((report.violation, report.events["code"], report.totals.ops), (None, 12, 9));
    let input = Input::from_stream(Box::new(Cursor::new(bytes)), "memory").expect("bytes");
    let back = codes(open_input(input, None).expect("a trace").source);
    assert_eq!(back, codes(Box::new(Given(golden().into_iter()))));
    // Of a block that is not there, or too short.
    for (id, expected) in [(99, "code of block 99, which was never defined"), (1, "block 1 has 2 bytes of code")] {
        let mut batches = golden();
        batches[2].push_op(Op::Code { id, bytes: [0, 0].into() });
        let violation = check(&mut Given(batches.clone().into_iter())).expect("memory").violation.expect("wrong");
        assert!(violation.what.contains(expected), "{}", violation.what);
        let e = written(&batches, "champsim").expect_err("wrong");
        assert!(e.starts_with("given: address space 0, behind instruction 15: ") && e.contains(expected), "{e}");
        let mut writer = TraceWriter::to_stream(std::io::sink(), "memory", Header::default()).expect("a small header");
        let e = batches.iter().try_for_each(|batch| writer.write(batch)).expect_err("wrong").to_string();
        assert!(e.contains(expected), "{e}");
    }
}

#[derive(Clone)]
struct Shared(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("one thread").extend_from_slice(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
