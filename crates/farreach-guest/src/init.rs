//! The first process of a guest: a script that makes the usual file systems, runs the command between marks, tells its
//! status, and powers off.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The script. It lies with all that farreach puts into a root.
pub const SCRIPT: &str = "/farreach/init";
/// The shell.
pub const SHELL: &str = "/farreach/sh";
/// All other programs that the script needs.
pub const BUSYBOX: &str = "/farreach/busybox";
/// The program that executes marks.
pub const MARK: &str = "/farreach/mark";
/// What the command's standard input is, if it is a file.
pub const INPUT: &str = "/farreach/input";
/// Where programs are looked for.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What the command's standard input is.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The terminal, with its kind, rows and columns.
    Terminal {
        /// The variable `TERM`.
        kind: String,
        /// Height and width in characters; 0 if they are not known.
        size: (u16, u16),
    },
    /// These bytes.
    Bytes(Vec<u8>),
    /// Empty.
    Nothing,
}

/// A word as a shell reads it again, with all its characters.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut text = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend(b"'\\''"),
            byte => text.push(byte),
        }
    }
    text.push(b'\'');
    text
}

/// The script for a command that begins in `directory`, on the console of this name.
pub fn script(command: &[OsString], directory: &Path, console: &str, input: &Input) -> Vec<u8> {
    let device = format!("/dev/{console}");
    let mut text = format!(
        "\
#!{SHELL}
# The first process of a guest of farreach.
b={BUSYBOX}
export PATH={PATH} HOME=/root
$b mount -t devtmpfs dev /dev
$b mkdir -p /proc /sys /dev/pts /dev/shm /run /tmp /root
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devpts pts /dev/pts
$b mount -t tmpfs -o mode=1777 shm /dev/shm
$b chmod 1777 /tmp
$b hostname guest
$b ifconfig lo 127.0.0.1 up
exec > {device} 2>&1
"
    )
    .into_bytes();
    // The console gives lines as they are: this machine's terminal ends them as it needs.
    match input {
        Input::Terminal { kind, size: (rows, columns) } => {
            text.extend(format!("export TERM={kind}\n$b stty -F {device} -onlcr").into_bytes());
            if *rows > 0 && *columns > 0 {
                text.extend(format!(" rows {rows} cols {columns}").into_bytes());
            }
        }
        _ => text.extend(format!("$b stty -F {device} -onlcr -echo").into_bytes()),
    }
    text.extend(b"\ncd ");
    text.extend(quoted(directory.as_os_str()));
    // It is in every root, so only a root that was not unpacked to its end lacks it.
    text.extend(
        b" || {
echo 'farreach: the root does not fit into the memory of the guest: give it more by --memory'
echo 0 > /proc/sys/kernel/printk
$b poweroff -f
}",
    );
    // In the place of a shell of its own: so it is a program, and nothing that the shell does itself.
    match input {
        // On a terminal it has the right to stop and continue others. What does that would run its own programs first.
        Input::Terminal { .. } => {
            text.extend(b"\nprogram=$(type -P ");
            text.extend(quoted(&command[0]));
            text.extend(b") || program=");
            text.extend(quoted(&command[0]));
            text.extend(format!("\n{MARK} begin\n(exec $b setsid -c \"$program\"").into_bytes());
        }
        _ => {
            text.extend(format!("\n{MARK} begin\n(exec ").into_bytes());
            text.extend(quoted(&command[0]));
        }
    }
    for word in &command[1..] {
        text.push(b' ');
        text.extend(quoted(word));
    }
    let from = match input {
        Input::Terminal { .. } => &device,
        Input::Bytes(_) => INPUT,
        Input::Nothing => "/dev/null",
    };
    text.extend(
        format!(
            " < {from})
status=$?
{MARK} status $status
{MARK} end
# The kernel's last word is none of the command's.
echo 0 > /proc/sys/kernel/printk
$b poweroff -f
"
        )
        .into_bytes(),
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;
    use std::process::Command;

    #[test]
    fn every_word_comes_through_a_shell_as_it_is() {
        let words = ["plain", "", "it's", "a b", "$HOME `x` \\ \"", "line\nend", "*", "-n", "#"];
        let mut words: Vec<OsString> = words.map(OsString::from).to_vec();
        words.push(OsString::from_vec((1..=255).collect()));
        let mut script = b"printf '%s\\000'".to_vec();
        for word in &words {
            script.push(b' ');
            script.extend(quoted(word));
        }
        let done = Command::new("sh").arg("-c").arg(OsString::from_vec(script)).output().unwrap();
        let expected: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
        assert_eq!(done.stdout, expected);
    }

    #[test]
    fn the_script_marks_the_command_and_nothing_else() {
        let text = script(&["ls".into(), "it's".into()], Path::new("/a b"), "ttyS0", &Input::Nothing);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("cd '/a b' || {"), "{text}");
        let command = "}\n/farreach/mark begin\n(exec 'ls' 'it'\\''s' < /dev/null)\nstatus=$?\n";
        assert!(text.contains(command), "{text}");
        let terminal = Input::Terminal { kind: "xterm".into(), size: (24, 80) };
        let text = String::from_utf8(script(&["sh".into()], Path::new("/"), "ttyS0", &terminal)).unwrap();
        assert!(
            text.contains("rows 24 cols 80\n") && text.contains("(exec $b setsid -c \"$program\" < /dev/ttyS0)"),
            "{text}"
        );
        // A shell takes it.
        let done = Command::new("sh").args(["-n", "-c", &text]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
}
