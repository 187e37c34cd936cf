//! Properties that must hold for any bytes. The fuzzers of `fuzz/` call these with the bytes they generate,
//! `tests/suite/corpus.rs` with the inputs they found. A panic is a finding.

use std::io::Cursor;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::assemble::Assembled;
use super::drmemtrace::DrmemtraceReader;
use super::{Header, Input, Opened, TraceWriter, check, open_input, to_lackey};
use farreach_types::error::Result;
use farreach_types::event::{Batch, Source};

/// Traces larger than this after decompression are not worth a fuzzer's time.
const MOST_BATCHES: usize = 64;

fn open_as(data: &[u8], format: Option<&str>) -> Result<Opened> {
    open_input(Input::from_stream(Box::new(Cursor::new(data.to_vec())), "fuzz")?, format)
}

/// The whole stream, if it is sound and small.
fn batches(mut source: impl Source) -> Option<Vec<Batch>> {
    let mut all = Vec::new();
    while let Some(batch) = source.next_batch().ok()? {
        all.push(batch);
        if all.len() > MOST_BATCHES {
            return None;
        }
    }
    Some(all)
}

/// Lackey text is refused, or is a stream without violation and comes back from its own text.
pub fn lackey(data: &[u8]) {
    let Ok(opened) = open_as(data, Some("lackey")) else { return };
    let Some(all) = batches(opened.source) else { return };
    let report = check(&mut Replay(all.into_iter())).expect("nothing to read");
    assert_eq!(report.violation, None, "a reader makes sound streams only");
    let mut text = Vec::new();
    let again = open_as(data, Some("lackey")).expect("it was read before");
    let written = to_lackey(again, &mut text, "memory").expect("it was read before");
    assert_eq!(written.references(), report.totals.references());
    let mut second = open_as(&text, Some("lackey")).expect("our own text");
    assert_eq!(check(&mut *second.source).expect("our own text").totals.references(), written.references());
}

/// A trace of drmemtrace is refused, or is a stream without violation that has as many references as its own Lackey
/// text; its halves as two files in a folder are refused, or have as many references together as each by itself.
pub fn drmemtrace(data: &[u8]) {
    let references = |inputs: &[&[u8]]| {
        let input = |data: &&[u8]| Input::from_stream(Box::new(Cursor::new(data.to_vec())), "fuzz").ok();
        let inputs = inputs.iter().map(input).collect::<Option<Vec<_>>>()?;
        let all = batches(Assembled::new(DrmemtraceReader::new(inputs, "fuzz").ok()?))?;
        let report = check(&mut Replay(all.into_iter())).expect("nothing to read");
        assert_eq!(report.violation, None, "a reader makes sound streams only");
        Some(report.totals.references())
    };
    if let Some(read) = references(&[data]) {
        let mut text = Vec::new();
        let again = open_as(data, Some("drmemtrace")).expect("it was read before");
        let written = to_lackey(again, &mut text, "memory").expect("it was read before");
        let mut second = open_as(&text, Some("lackey")).expect("our own text");
        let second = check(&mut *second.source).expect("our own text");
        assert_eq!((read, second.totals.references()), (written.references(), written.references()));
    }
    let (first, second) = data.split_at(data.len() / 24 * 12);
    if let Some(both) = references(&[first, second]) {
        // A file without references is no trace by itself.
        let [a, b] = [first, second].map(|data| references(&[data]).unwrap_or(0));
        assert_eq!(both, a + b);
    }
}

/// Records of ChampSim are refused, or are a stream without violation and the same as Lackey text of the same
/// references.
pub fn champsim(data: &[u8]) {
    as_text(data, &["champsim", "cloudsuite"]);
}

/// So is text of any columns.
pub fn table(data: &[u8]) {
    as_text(
        data,
        &[
            "text:address=1",
            "text:address=2,kind=1,size=3,base=16",
            "text:address=3,kind=2,size=4,pid=5,instruction=6,separator=comma,header=1,more=7",
        ],
    );
}

/// So are tables of Parquet.
pub fn parquet(data: &[u8]) {
    as_text(data, &["parquet", "text:address=2,kind=1,size=3,pid=4"]);
}

/// So are tables of Arrow IPC.
pub fn arrow(data: &[u8]) {
    as_text(data, &["arrow", "text:address=2,kind=1,size=3,pid=4"]);
}

/// So is what tools write a line for each reference of.
pub fn lines(data: &[u8]) {
    as_text(data, &["pinatrace", "dramsim", "execlog"]);
}

/// So are packet traces of gem5.
pub fn gem5(data: &[u8]) {
    as_text(data, &["gem5:addresses=virtual", "gem5:addresses=physical,load=22,store=7,skip=11"]);
}

/// So are traces of Sniper.
pub fn sift(data: &[u8]) {
    as_text(data, &["sift"]);
}

/// So are traces of the championship in value prediction.
pub fn cvp(data: &[u8]) {
    as_text(data, &["cvp"]);
}

/// Text of perf is refused, or is a stream of samples without violation, which does not become text.
pub fn perf(data: &[u8]) {
    let Ok(opened) = open_as(data, Some("perf")) else { return };
    let Some(all) = batches(opened.source) else { return };
    let report = check(&mut Replay(all.into_iter())).expect("nothing to read");
    assert_eq!(report.violation, None, "a reader makes sound streams only");
    assert_eq!((report.events.get("samples"), report.totals.instructions), (Some(&1), 0));
    let again = open_as(data, Some("perf")).expect("it was read before");
    assert!(to_lackey(again, &mut Vec::new(), "memory").is_err());
}

/// What any reader must keep in each of these formats.
fn as_text(data: &[u8], formats: &[&str]) {
    for &format in formats {
        let Ok(opened) = open_as(data, Some(format)) else { continue };
        let Some(all) = batches(opened.source) else { continue };
        let report = check(&mut Replay(all.into_iter())).expect("nothing to read");
        assert_eq!(report.violation, None, "a reader makes sound streams only");
        let mut text = Vec::new();
        let again = open_as(data, Some(format)).expect("it was read before");
        let written = to_lackey(again, &mut text, "memory").expect("it was read before");
        let mut second = open_as(&text, Some("lackey")).expect("our own text");
        let second = check(&mut *second.source).expect("our own text");
        assert_eq!(
            (report.totals.references(), second.totals.references()),
            (written.references(), written.references())
        );
    }
}

/// A farreach trace is refused, or can be written and read again with the same content.
pub fn frt(data: &[u8]) {
    let Ok(opened) = open_as(data, Some("frt")) else { return };
    let Some(all) = batches(opened.source) else { return };
    let report = check(&mut Replay(all.clone().into_iter())).expect("nothing to read");
    let (sender, receiver) = channel();
    let mut writer = TraceWriter::to_stream(Sent(sender), "memory", Header::default()).expect("a small header");
    all.iter().for_each(|b| writer.write(b).expect("what was read can be written"));
    writer.finish().expect("memory");
    let again = collect(&receiver);
    let back = batches(open_as(&again, Some("frt")).expect("just written").source);
    if let Some(back) = back {
        let second = check(&mut Replay(back.into_iter())).expect("nothing to read");
        assert_eq!((second.totals, second.spaces), (report.totals, report.spaces));
        assert_eq!(second.violation.map(|v| v.what), report.violation.map(|v| v.what));
    }
}

/// Any bytes: no panic.
pub fn open(data: &[u8]) {
    if let Ok(opened) = open_as(data, None) {
        batches(opened.source);
    }
}

struct Replay(std::vec::IntoIter<Batch>);

impl Source for Replay {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        Ok(self.0.next())
    }
}

struct Sent(Sender<Vec<u8>>);

impl std::io::Write for Sent {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.send(buf.to_vec()).map_err(std::io::Error::other)?;
        Ok(buf.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn collect(receiver: &Receiver<Vec<u8>>) -> Vec<u8> {
    receiver.iter().flatten().collect()
}
