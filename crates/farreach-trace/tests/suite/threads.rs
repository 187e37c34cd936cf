//! Trace files that several threads code.

use crate::frt::{Shared, block, drain, every_guest_event, flat, folder, from_bytes, header, small};
use farreach_trace::{Header, TraceWriter, generate};
use farreach_types::addr::Asid;
use farreach_types::event::{Batch, OP_BIT, Op, block_word};

/// A file does not tell how many threads coded it.
#[test]
fn several_threads_make_the_file_of_one() {
    let redefined = {
        let mut batches = drain(generate::program(6, 1_000));
        let defines = batches.iter().flat_map(|b| b.ops.iter().map(|op| (b.asid, op.clone())));
        let again: Vec<_> = defines.filter(|(_, op)| matches!(op, Op::Define { .. })).collect();
        for (asid, op) in again {
            let mut batch = Batch::new(asid);
            batch.push_op(op);
            batches.push(batch);
        }
        batches.extend(drain(generate::program(6, 1_000)).into_iter().filter(|b| b.ops.is_empty()));
        batches
    };
    let streams = [
        drain(generate::program(5, 4_000)),
        drain(generate::system(1, 4_000)),
        drain(generate::uniform(1, 1 << 20, 20_000)),
        redefined,
        Vec::new(),
        small(),
        every_guest_event(),
    ];
    for (number, batches) in streams.iter().enumerate() {
        for words in [20, 2_000] {
            let written = |threads: usize| {
                let file = Shared::default();
                let w = TraceWriter::to_stream_on(file.clone(), "memory", header(), threads).expect("a header");
                let mut w = w.with_chunks_of(words);
                batches.iter().for_each(|b| w.append(b.clone()).expect("a good batch"));
                let totals = w.finish().expect("room");
                (totals, std::mem::take(&mut *file.0.lock().expect("finished")))
            };
            let one = written(1);
            let (_, back) = from_bytes(&one.1).expect("just written");
            assert!(flat(&back) == flat(batches), "stream {number}, chunks of {words}");
            for threads in [2, 5] {
                assert!(written(threads) == one, "stream {number}, chunks of {words}, {threads} threads");
            }
        }
    }
}

/// The error of the first batch that breaks the contract is that of one thread, at the latest at the end.
#[test]
fn several_threads_refuse_what_one_does() {
    let good = drain(generate::program(5, 4_000));
    let of_guest = every_guest_event().remove(0);
    let undefined = Batch { asid: Asid(0), words: vec![block_word(77_777, 0)], ops: vec![] };
    let twice = Op::Define { id: 0, block: block(&[(1 << 40, 4)], &[]) };
    let twice = Batch { asid: Asid(0), words: vec![OP_BIT], ops: vec![twice] };
    let no_event = Batch { asid: Asid(0), words: vec![OP_BIT | 5], ops: vec![] };
    for bad in [undefined, twice, no_event, of_guest] {
        for at in [1, good.len() / 2, good.len()] {
            let mut batches = good.clone();
            batches.insert(at, bad.clone());
            batches.insert(1, Batch::new(Asid(0)));
            batches.push(Batch { asid: Asid(0), words: vec![block_word(88_888, 0)], ops: vec![] });
            let error = |threads: usize| {
                let folder = folder("refused");
                let dir = folder.path();
                let w = TraceWriter::create_on(dir.join("t.frt"), Header::default(), threads).expect("room");
                let mut w = w.with_chunks_of(1_000);
                let written = batches.iter().try_for_each(|b| w.append(b.clone()));
                let error = match written {
                    Ok(()) => w.finish().map(|_| ()).expect_err("it is not good"),
                    Err(error) => {
                        assert!(w.append(Batch::new(Asid(0))).is_err() && w.finish().is_err());
                        error
                    }
                };
                assert_eq!(std::fs::read_dir(dir).expect("there").count(), 0, "no file is left");
                error.to_string().replace(&dir.display().to_string(), "")
            };
            let one = error(1);
            [2, 3].iter().for_each(|&threads| assert_eq!(error(threads), one));
        }
    }
    // Dropped on the way.
    let folder = folder("dropped");
    let dir = folder.path();
    let mut w = TraceWriter::create_on(dir.join("t.frt"), Header::default(), 3).expect("room").with_chunks_of(100);
    good.iter().take(40).for_each(|b| w.append(b.clone()).expect("good"));
    drop(w);
    assert_eq!(std::fs::read_dir(dir).expect("there").count(), 0);
}
