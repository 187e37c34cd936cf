//! What all formats share: files, and what none can hold.

use std::path::Path;

use super::{Given, golden, opened, references, target, written};
use farreach_trace::{Opened, Pages, TARGETS, generate, open_trace, write_file};
use farreach_types::addr::Asid;
use farreach_types::error::Error;
use farreach_types::event::*;

/// A trace that ends in an error.
struct Broken(Given);

impl Source for Broken {
    fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        let cut = || Error::Trace { file: "given".into(), place: "its middle".into(), what: "it is cut".into() };
        self.0.next_batch()?.map(Some).ok_or_else(cut)
    }
}

#[test]
fn a_name_says_the_compression() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["t", "t.gz", "t.xz"] {
        let path = folder.path().join(name);
        let path = path.to_str().expect("plain");
        write_file(opened(golden()), target("champsim"), path).expect("room");
        let back = open_trace(path, None).expect("our own");
        assert_eq!((back.info.format, back.info.compression), ("champsim", name.split_once('.').map(|(_, kind)| kind)));
        assert_eq!(references(back.source).len(), 34);
    }
}

/// ChampSim unpacks by the name, gz, xz and bz2, and takes all else for plain; readers of drmemtrace know gz.
#[test]
fn a_name_that_its_readers_take_for_something_else_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, ending) in [
        ("champsim", "bz2"),
        ("champsim", "zst"),
        ("cloudsuite", "zip"),
        ("drmemtrace", "xz"),
        ("drmemtrace", "lz4"),
        ("gem5", "zst"),
        ("parquet", "gz"),
        ("lackey", "bz2"),
    ] {
        let path = folder.path().join(format!("t.{ending}"));
        let path = path.to_str().expect("plain");
        let e = write_file(opened(golden()), target(name), path).expect_err(name).to_string();
        assert!(e.starts_with(path) && e.contains(&format!("a file of {name} must not end in .{ending}")), "{e}");
        assert!(e.contains(if name == "parquet" { "no compression is allowed" } else { ".gz" }), "{e}");
    }
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0);
}

#[test]
fn what_is_not_whole_gets_no_name() {
    let folder = tempfile::tempdir().expect("a folder");
    for target in TARGETS {
        for name in std::iter::once("t".to_owned()).chain(target.endings.iter().map(|ending| format!("t.{ending}"))) {
            let path = folder.path().join(name);
            let given = opened(vec![]).info;
            let broken = Opened { source: Box::new(Broken(Given(golden().into_iter()))), info: given };
            let e = write_file(broken, target, path.to_str().expect("plain")).expect_err("cut").to_string();
            assert!(e.contains("it is cut"), "{}: {e}", target.name);
        }
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0, "{}", target.name);
        if Path::new("/dev/full").exists() {
            let e = write_file(opened(golden()), target, "/dev/full").expect_err("no room").to_string();
            assert!(e.starts_with("/dev/full: "), "{}: {e}", target.name);
        }
    }
}

#[test]
fn what_would_pass_for_something_else_is_refused() {
    let pages = || Pages::new(Given(golden().into_iter()));
    let mut samples = Batch::new(Asid(0));
    samples.push_op(Op::Samples);
    for target in TARGETS {
        let name = target.name;
        let mut source = pages();
        let batches: Vec<_> = std::iter::from_fn(|| source.next_batch().expect("memory")).collect();
        let e = written(&batches, name).expect_err("pages");
        assert!(e.contains("it has no addresses within pages") && e.contains(name), "{e}");
        let e = written(&[samples.clone()], name).expect_err("samples");
        assert!(e.contains(&format!("these are samples: {name} cannot say so")), "{e}");
    }
    let mut data = Batch::new(Asid(0));
    let refs = [DataRef::new(0, Kind::Load, 8, 0)];
    data.push_op(Op::Define { id: 1, block: std::sync::Arc::new(Block { instrs: [].into(), refs: refs.into() }) });
    data.push_block(1, &[0x5000]);
    let e = written(&[data], "champsim").expect_err("no instruction");
    assert!(e.contains("a reference before the first instruction"), "{e}");
    let mut far = Batch::new(Asid(65_536));
    let instrs = [Instr { pc: 0x5000, len: 4 }];
    far.push_op(Op::Define { id: 1, block: std::sync::Arc::new(Block { instrs: instrs.into(), refs: [].into() }) });
    far.push_block(1, &[]);
    let e = written(&[far], "cloudsuite").expect_err("far");
    assert!(e.contains("address space 65536; a record has 0 to 65535"), "{e}");
}

/// Those of a whole system have 57 bits, and copies of the highest above.
#[test]
fn addresses_of_a_whole_system_are_whole() {
    let mut system = generate::system(3, 200);
    let batches: Vec<_> = std::iter::from_fn(|| system.next_batch().expect("memory")).collect();
    let of = |mut r: super::Ref| {
        r.3 = ((r.3 << 7) as i64 >> 7) as u64;
        (r.2, r.3, r.4)
    };
    let expected: Vec<_> = references(Given(batches.clone().into_iter())).into_iter().map(of).collect();
    assert!(expected.iter().any(|r| r.1 >> 63 == 1), "the kernel runs");
    for name in ["lackey", "gem5"] {
        let (bytes, said) = written(&batches, name).expect("good");
        let back: Vec<_> = super::read(&bytes, name).iter().map(|r| (r.2, r.3, r.4)).collect();
        assert!(back == expected, "{name}");
        assert!(said.lost[0].contains("of page tables and processors"), "{:?}", said.lost);
    }
}
