//! Replays the committed corpus of every fuzzer on any toolchain: what was once found stays fixed.

use std::path::Path;

use farreach::trace::fuzz;

fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).expect("the corpus is part of the repository") {
        let path = entry.expect("a readable folder").path();
        let data = std::fs::read(&path).expect("a readable file");
        // Every beginning too: a cheap way to more inputs.
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
fn champsim() {
    replay("champsim", fuzz::champsim);
}

#[test]
fn frt() {
    replay("frt", fuzz::frt);
}

#[test]
fn text() {
    replay("text", farreach::machine::fuzz::text);
}

#[test]
fn open() {
    replay("open", fuzz::open);
    replay("champsim", fuzz::open);
    // Any target survives the food of the others.
    replay("lackey", fuzz::open);
    replay("frt", fuzz::open);
    replay("open", fuzz::frt);
}

/// Writes the first food of the fuzzers. Run it after a change of the format:
/// `cargo test -p farreach --test trace_corpus -- --ignored write_seeds`.
#[test]
#[ignore = "writes into the repository"]
fn write_seeds() {
    use farreach::event::Source;
    use farreach::trace::{Header, TraceWriter, generate};

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
    write("frt/empty", Box::new(generate::program(0, 0)));
    write("frt/sequential", Box::new(generate::sequential(1, 5)));
    write("frt/update", Box::new(generate::uniform(1, 4, 3)));
    for seed in 0..4 {
        write(&format!("frt/program-{seed}"), Box::new(generate::program(seed, 2 + 10 * seed)));
    }
    let text = b"==1== Lackey\nI  1000,4\n L 2000,8\nI  1004,2\n M 2008,4\n\nI  1000,4\n S 1fff0005e8,16\n--1-- x\n L 3000,1\n";
    let frt = write("open/frt", Box::new(generate::sequential(1, 3)));
    std::fs::create_dir_all(folder.join("lackey")).expect("room");
    std::fs::write(folder.join("lackey/golden"), text).expect("room");
    std::fs::write(folder.join("lackey/data"), b" L 10,4\n S ffff,65536\n M 0,1\n").expect("room");
    std::fs::write(folder.join("lackey/loop"), b"I  1000,4\n L 2000,8\nI  1004,2\n".repeat(20)).expect("room");
    std::fs::write(folder.join("open/text"), text).expect("room");
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
    for (name, data) in [("text", &text[..]), ("frt", &frt[..])] {
        use std::io::Read;
        let mut gz = flate2::read::GzEncoder::new(data, flate2::Compression::best());
        let mut bz2 = bzip2::read::BzEncoder::new(data, bzip2::Compression::best());
        let mut xz = liblzma::read::XzEncoder::new(data, 1);
        let packed: [(&str, &mut dyn Read); 3] = [("gz", &mut gz), ("bz2", &mut bz2), ("xz", &mut xz)];
        for (kind, encoder) in packed {
            let mut out = Vec::new();
            encoder.read_to_end(&mut out).expect("memory");
            std::fs::write(folder.join(format!("open/{name}.{kind}")), out).expect("room");
        }
        std::fs::write(folder.join(format!("open/{name}.zst")), zstd::encode_all(data, 1).expect("memory")).expect("room");
    }
}
