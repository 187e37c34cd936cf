//! Whether a program is a QEMU that has what the plugin needs.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::super::guarded::Start;
use super::super::launch::Options;

/// The first version with interface 4 of plugins: memory is read, and values of accesses are seen.
const LEAST: [u32; 2] = [9, 2];
/// How long a program may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks a program for its version.
pub(super) fn check(program: &Path, run_dir: &Path, options: &Options) -> Result<(), String> {
    judge(&answer(program, run_dir, options)?)
}

/// What the program says.
fn answer(program: &Path, run_dir: &Path, options: &Options) -> Result<String, String> {
    let file = run_dir.join("version");
    let said = |e: std::io::Error| e.to_string();
    let mut start = Start::new(program, None, options.tool_dir.as_deref()).map_err(said)?;
    let out = File::create(&file).map_err(said)?;
    start.command().arg("--version").stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
    let (mut running, began) = (start.spawn().map_err(said)?, Instant::now());
    while running.try_wait().map_err(said)?.is_none() {
        if began.elapsed() > PATIENCE {
            return Err(format!("no answer in {} s; a QEMU system emulator is needed", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let text = std::fs::read(&file).map_err(said)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Judges the first line of an answer.
fn judge(text: &str) -> Result<(), String> {
    let line = text.lines().next().unwrap_or_default();
    let shown: String = line.chars().take(80).collect();
    let Some(version) = line.strip_prefix("QEMU emulator version ") else {
        return Err(format!(
            "it says '{}'; a QEMU system emulator is needed, such as qemu-system-x86_64, which says 'QEMU emulator \
             version ...'",
            shown.escape_debug()
        ));
    };
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    match [numbers.next(), numbers.next()] {
        [Some(major), Some(minor)] if [major, minor] >= LEAST => Ok(()),
        _ => Err(format!("it says '{}'; QEMU {}.{} or newer is needed", shown.escape_debug(), LEAST[0], LEAST[1])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged_by_their_first_line() {
        for good in ["QEMU emulator version 9.2.0\n", "QEMU emulator version 10.0.2 (Debian 1:10.0.2)\nCopyright"] {
            assert_eq!(judge(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("QEMU emulator version 9.1.3", "QEMU 9.2 or newer"),
            ("QEMU emulator version 7.2.1", "QEMU 9.2 or newer"),
            ("QEMU emulator version x", "QEMU 9.2 or newer"),
            ("qemu-x86_64 version 10.0.2", "a QEMU system emulator is needed"),
            ("", "it says ''"),
        ] {
            assert!(judge(bad).unwrap_err().contains(why), "{bad}");
        }
    }
}
