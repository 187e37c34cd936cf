//! Replays the committed corpus of every fuzzer on any toolchain: what was once found stays fixed.

use std::path::Path;

use farreach_trace::fuzz;

fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).expect("the corpus is part of the repository") {
        let path = entry.expect("a readable folder").path();
        let data = std::fs::read(&path).expect("a readable file");
        // Prefixes too: a cheap source of more inputs.
        (0..data.len()).step_by(1 + data.len() / 64).for_each(|n| target(&data[..n]));
        target(&data);
        files += 1;
    }
    assert!(files > 0, "{} is empty", folder.display());
}

#[test]
fn lackey() {
    replay("lackey", fuzz::lackey);
}

#[test]
fn drmemtrace() {
    replay("drmemtrace", fuzz::drmemtrace);
}

#[test]
fn champsim() {
    replay("champsim", fuzz::champsim);
}

#[test]
fn table() {
    replay("table", fuzz::table);
}

#[test]
fn lines() {
    replay("lines", fuzz::lines);
}

#[test]
fn parquet() {
    replay("parquet", fuzz::parquet);
    replay("parquet", fuzz::open);
}

#[test]
fn arrow() {
    replay("arrow", fuzz::arrow);
    replay("arrow", fuzz::open);
}

#[test]
fn perf() {
    replay("perf", fuzz::perf);
}

#[test]
fn cvp() {
    replay("cvp", fuzz::cvp);
    replay("cvp", fuzz::open);
}

#[test]
fn sift() {
    replay("sift", fuzz::sift);
    replay("sift", fuzz::open);
}

#[test]
fn gem5() {
    replay("gem5", fuzz::gem5);
}

#[test]
fn frt() {
    replay("frt", fuzz::frt);
}

#[test]
fn text() {
    replay("text", farreach_machine::fuzz::text);
}

#[test]
fn open() {
    replay("open", fuzz::open);
    replay("champsim", fuzz::open);
    replay("drmemtrace", fuzz::open);
    // Each target also gets the corpora of others.
    replay("lackey", fuzz::open);
    replay("table", fuzz::open);
    replay("lines", fuzz::open);
    replay("perf", fuzz::open);
    replay("gem5", fuzz::open);
    replay("lackey", fuzz::table);
    replay("table", fuzz::lackey);
    replay("frt", fuzz::open);
    replay("open", fuzz::frt);
}

/// Writes the seeds of the fuzzers. Run it after a change of the format:
/// `cargo test -p farreach-trace --test suite -- --ignored write_seeds`.
#[test]
#[ignore = "writes into the repository"]
fn write_seeds() {
    use farreach_trace::{Header, TraceWriter, generate};
    use farreach_types::event::Source;

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let write = |name: &str, mut source: Box<dyn Source>| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("room");
        let mut writer = TraceWriter::create(&path, Header::default()).expect("room");
        while let Some(batch) = source.next_batch().expect("no input") {
            writer.write(&batch).expect("sound");
        }
        writer.finish().expect("room");
        std::fs::read(path).expect("just written")
    };
    let (table, _) = crate::writers::written(&crate::writers::golden(), "parquet").expect("sound");
    std::fs::create_dir_all(folder.join("parquet")).expect("room");
    std::fs::write(folder.join("parquet/golden"), table).expect("room");
    std::fs::create_dir_all(folder.join("arrow")).expect("room");
    for (name, table) in ["file", "stream"].into_iter().zip(crate::arrow::golden()) {
        std::fs::write(folder.join("arrow").join(name), table).expect("room");
    }
    write("frt/empty", Box::new(generate::program(0, 0)));
    write("frt/sequential", Box::new(generate::sequential(1, 5)));
    write("frt/update", Box::new(generate::uniform(1, 4, 3)));
    for seed in 0..4 {
        write(&format!("frt/program-{seed}"), Box::new(generate::program(seed, 2 + 10 * seed)));
    }
    for seed in 0..3 {
        write(&format!("frt/system-{seed}"), Box::new(generate::system(seed, 300)));
    }
    let text = concat!(
        "==1== Lackey\nI  1000,4\n L 2000,8\nI  1004,2\n M 2008,4\n\n",
        "I  1000,4\n S 1fff0005e8,16\n--1-- x\n L 3000,1\n"
    );
    let frt = write("open/frt", Box::new(generate::sequential(1, 3)));
    std::fs::create_dir_all(folder.join("lackey")).expect("room");
    std::fs::write(folder.join("lackey/golden"), text).expect("room");
    std::fs::write(folder.join("lackey/data"), b" L 10,4\n S ffff,65536\n M 0,1\n").expect("room");
    // Other options, and blanks at the ends of lines.
    let stamped = concat!(
        "==00:00:00:00.001 18071== Lackey\nSB 00001000\nI  1000,4 \n L 2000,8\t\r\nSB 00001000 \n",
        "I  1000,4\n--00:00:00:00.790 18071-- x\n"
    );
    std::fs::write(folder.join("lackey/options"), stamped).expect("room");
    std::fs::write(folder.join("lackey/program"), "I  1000,4\nhello\n").expect("room");
    std::fs::write(folder.join("lackey/loop"), b"I  1000,4\n L 2000,8\nI  1004,2\n".repeat(20)).expect("room");
    std::fs::write(folder.join("open/text"), text).expect("room");
    for (name, text) in [
        ("table/plain", "# addresses\n10\n0x20\n\n0xffffffffffffff00\n"),
        ("table/kinds", "R 7ffe0010 8\nW 0x7ffe0018 4\nI 401000 15\nM 10 1\n"),
        ("table/csv", "time,op,address,bytes,who,by\n1,R,0x10,4,7,0x400\n2, W ,\"16\",4,7,0x400,x\n3,I,0x400,4,8,0\n"),
        ("table/cut", "R 7ffe0010 8\nW 0x7ffe001"),
        ("lines/pinatrace", "#\n# Memory Access Trace Generated By Pin\n#\n0x7f: R 0x10\n0x7f: W 0x10\n#eof\n"),
        ("lines/values", "0x7f: R      0x10  8        0x1\n0x80: W (nil) 16 0x1f00\n0x80: R 0x20  1 \n#eof\n"),
        ("lines/k6", "0x1A2B40 P_MEM_WR 123\n0x1A2B80  P_FETCH   124\n0x1A2B80 BOFF 125\n"),
        ("lines/mase", "0x1A2B40 READ 0\n0x1A2B40 IFETCH 1\n0x40 WRITE 1\n"),
        (
            "perf/pebs",
            "# ========\nls 7579/7579  4076.8: 1 cpu/mem-loads,ldlat=30/P:     7ffe6e453de8      5080022 |OP LOAD|LVL \
             L1 hit|SNP None|LCK No|BLK  N/A   34      7f22155be545 main (/usr/bin/ls)\n",
        ),
        (
            "perf/ibs",
            "ls 7 [001] 1.5: 1 ibs_op//: 0 21 |OP N/A|LVL N/A\nls 7 [001] 1.6: 1 ibs_op//: 7ff 22 |OP STORE|LVL N/A\n",
        ),
        ("perf/plain", "mem-stores:     7ffe6e453de8     7f22155be545\nmem-loads: ffffffff81753360 ffffffff8175336a\n"),
        ("lines/misc", "0x1A2B40 read\n0x1A2B40 write 00ff\n"),
        (
            "lines/execlog",
            "0, 0xa12, 0xf8012400, \"movs r4, #0\"\n1, 0xa14, 0xf87f42b4, \"cmp r4, r6\", load, 0x00001230, store, \
             0x00001234\n0, 0xa16, 0x1, \"mov\", x29 -> 0x10, load, 0x20\n\n",
        ),
    ] {
        std::fs::create_dir_all(folder.join(name).parent().expect("a folder")).expect("room");
        std::fs::write(folder.join(name), text).expect("room");
    }
    std::fs::create_dir_all(folder.join("cvp")).expect("room");
    std::fs::write(folder.join("cvp/records"), crate::cvp::records().concat()).expect("room");
    std::fs::create_dir_all(folder.join("sift")).expect("room");
    for (name, trace) in ["plain", "zlib"].into_iter().zip(crate::sift::golden()) {
        std::fs::write(folder.join("sift").join(name), trace).expect("room");
    }
    std::fs::create_dir_all(folder.join("gem5")).expect("room");
    std::fs::write(folder.join("gem5/cpu"), crate::gem5::trace(&crate::gem5::packets())).expect("room");
    std::fs::write(folder.join("gem5/cache"), crate::gem5::trace(&crate::gem5::behind_a_cache())).expect("room");
    // Three instructions of each size: a fetch alone, one with a load, a taken branch with a store.
    std::fs::create_dir_all(folder.join("champsim")).expect("room");
    for (name, bytes, store, load) in [("plain", 64, 16, 32), ("cloudsuite", 96, 24, 56)] {
        let mut records = vec![0; 3 * bytes];
        for (i, record) in records.chunks_mut(bytes).enumerate() {
            record[..3].copy_from_slice(&[4 * i as u8, 0x10, 0x40]);
            record[load + 2] = u8::from(i == 1);
            (record[store + 2], record[8], record[9]) = if i == 2 { (1, 1, 1) } else { (0, 0, 0) };
        }
        std::fs::write(folder.join(format!("champsim/{name}")), records).expect("room");
    }
    // Records of twelve bytes: type, size, value.
    let records = |records: &[(u16, u16, u64)]| -> Vec<u8> {
        let bytes = |&(ty, size, value): &(u16, u16, u64)| {
            [&ty.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
        };
        records.iter().flat_map(bytes).collect()
    };
    let begin =
        |tid, filetype| [(25, 0, 7), (28, 12, 7), (28, 9, filetype), (22, 4, tid), (24, 4, 1), (28, 2, 10), (28, 3, 0)];
    let end = |tid| [(23, 4, tid), (26, 0, 0)];
    let instr =
        [(47, 4, 0x9090_9090), (10, 4, 0x40_1000), (0, 8, 0x7ff0), (28, 29, 5), (12, 2, 0x40_1004), (1, 8, 0x7ff8)];
    let rest = [
        (17, 2, 0x0302),
        (29, 2, 0x40_1004),
        (0, 1, 16),
        (2, 1, 64),
        (18, 8, 64),
        (28, 2, 20),
        (1, 0, 32),
        (48, 3, 0x40_1000),
    ];
    std::fs::create_dir_all(folder.join("drmemtrace")).expect("room");
    let thread = |tid, filetype| records(&[&begin(tid, filetype)[..], &instr, &rest, &end(tid)].concat());
    let core = [
        &begin(1, 0x1_0040)[..],
        &instr,
        &end(1),
        &[(28, 33, 0), (22, 4, 2), (24, 4, 3)],
        &begin(2, 0x1_0040),
        &instr,
        &end(2),
    ];
    let threads = [thread(1, 0x40), thread(2, 0x40)].concat();
    let mut chunks = begin(1, 0x40).to_vec();
    for chunk in 0..3 {
        chunks.extend(
            [
                &instr[..],
                &[(28, 21, chunk), (28, 22, 9), (28, 2, 10), (28, 3, 0), (22, 4, chunk), (24, 4, 1 + chunk / 2)],
            ]
            .concat(),
        );
    }
    std::fs::write(folder.join("drmemtrace/thread"), thread(1, 0x8)).expect("room");
    std::fs::write(folder.join("drmemtrace/threads"), &threads).expect("room");
    std::fs::write(folder.join("drmemtrace/core"), records(&core.concat())).expect("room");
    std::fs::write(folder.join("drmemtrace/chunks"), records(&[&chunks[..], &instr, &end(2)].concat())).expect("room");
    for (name, data) in [("text", text.as_bytes()), ("frt", &frt[..]), ("drmemtrace", &threads)] {
        for kind in crate::archive::KINDS {
            std::fs::write(folder.join(format!("open/{name}.{kind}")), crate::archive::pack(kind, &[data]))
                .expect("room");
        }
    }
}
