//! Small static programs, assembled from text.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where all data of the programs is, the stack too; see `fixtures/steps/begin.h`.
pub const MEMORY: Range<u64> = 0x2000_0000..0x2100_0000;
/// Where the pages of programs with `faults.h` are that come back by faults; a symbol for it is `guarded_at`.
pub const GUARDED: u64 = 0x4000_0000;
/// Where `.forms` is, a section of code that some programs have.
pub const FORMS: Range<u64> = 0x5000_0000..0x5010_0000;
/// Where signal frames are. What the kernel writes there has other places under the recorder.
pub const SIGNALS: Range<u64> = 0x3000_0000..0x3001_0000;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace exists")
}

/// A folder for the files of the tests.
pub fn scratch() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(&folder).expect("test folder");
    folder
}

/// Folder of the sources.
pub fn sources() -> PathBuf {
    root().join("fixtures/steps")
}

/// Assembles and links a program; the name is for its files.
pub fn program(name: &str, text: &str) -> PathBuf {
    program_with(name, text, &[])
}

/// The same with more arguments for gcc.
pub fn program_with(name: &str, text: &str, arguments: &[&str]) -> PathBuf {
    let out = scratch().join(format!("steps-{name}-{}", std::process::id()));
    let source = out.with_extension("S");
    std::fs::write(&source, text).expect("source written");
    let places = [(".memory", MEMORY), (".signals", SIGNALS), (".forms", FORMS)]
        .map(|(section, range)| format!("-Wl,--section-start={section}={:#x}", range.start));
    let mut gcc = Command::new("gcc");
    gcc.args(["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none"])
        .args(places)
        .arg(format!("-Wl,--defsym=guarded_at={GUARDED:#x}"));
    let done =
        gcc.arg("-I").arg(sources()).arg("-o").arg(&out).arg(&source).args(arguments).output().expect("gcc runs");
    assert!(done.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&done.stderr));
    out
}

/// Removes a program that is not needed any more. Those that came out wrong stay, to be looked at.
pub fn remove(program: &Path) {
    for file in [program.to_owned(), program.with_extension("S")] {
        std::fs::remove_file(file).expect("a file of the test");
    }
}

/// Whether this processor has a feature; `base` and the like are those that every x86-64 has.
pub fn has(feature: &str) -> bool {
    match feature {
        "base" | "x87" | "mmx" | "sse2" => true,
        "ssse3" => is_x86_feature_detected!("ssse3"),
        "sse3" => is_x86_feature_detected!("sse3"),
        "sse4.1" => is_x86_feature_detected!("sse4.1"),
        "sse4.2" => is_x86_feature_detected!("sse4.2"),
        "aes" => is_x86_feature_detected!("aes"),
        "pclmulqdq" => is_x86_feature_detected!("pclmulqdq"),
        "movbe" => is_x86_feature_detected!("movbe"),
        "lzcnt" => is_x86_feature_detected!("lzcnt"),
        "adx" => is_x86_feature_detected!("adx"),
        "bmi1" => is_x86_feature_detected!("bmi1"),
        "bmi2" => is_x86_feature_detected!("bmi2"),
        "avx" => is_x86_feature_detected!("avx"),
        "f16c" => is_x86_feature_detected!("f16c"),
        "avx2" => is_x86_feature_detected!("avx2"),
        "fma" => is_x86_feature_detected!("fma"),
        "xsave" => is_x86_feature_detected!("xsave"),
        "xsaveopt" => is_x86_feature_detected!("xsaveopt"),
        "xsavec" => is_x86_feature_detected!("xsavec"),
        "vaes" => is_x86_feature_detected!("vaes"),
        "vpclmulqdq" => is_x86_feature_detected!("vpclmulqdq"),
        "gfni" => is_x86_feature_detected!("gfni"),
        // Not known to the macro of the standard library.
        "clflushopt" | "clwb" | "fsgsbase" => in_cpuinfo(feature),
        "sha" => is_x86_feature_detected!("sha"),
        other => panic!("the feature {other} is not known here"),
    }
}

fn in_cpuinfo(flag: &str) -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").expect("/proc/cpuinfo");
    let line = text.lines().find(|line| line.starts_with("flags")).expect("flags");
    line.split_whitespace().any(|word| word == flag)
}
