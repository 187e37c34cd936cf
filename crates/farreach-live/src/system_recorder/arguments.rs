//! The arguments of QEMU: what the recorder adds, and what it refuses.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::size::{DEFAULT_MEMORY, memory};

/// Options without a value. All others have one, which is the next argument.
const ALONE: [&str; 36] = [
    "h",
    "help",
    "version",
    "nographic",
    "portrait",
    "full-screen",
    "alt-grab",
    "ctrl-grab",
    "no-frame",
    "no-quit",
    "sdl",
    "snapshot",
    "s",
    "S",
    "no-reboot",
    "no-shutdown",
    "daemonize",
    "enable-kvm",
    "usb",
    "win2k-hack",
    "no-acpi",
    "no-hpet",
    "no-fd-bootchk",
    "no-user-config",
    "nouserconfig",
    "nodefaults",
    "only-migratable",
    "preconfig",
    "mem-prealloc",
    "singlestep",
    "one-insn-per-tb",
    "enable-fips",
    "enable-sync-profile",
    "old-param",
    "semihosting",
    "perfmap",
];
/// Others that are newer.
const ALONE_NEWER: [&str; 3] = ["jitdump", "xen-attach", "xen-domid-restrict"];

/// Name of the memory of the guest, which the plugin finds in QEMU's own memory.
const RAM: &str = "farreach-ram";

/// What is wrong: the option with its value, and why.
type Refused = (String, String);

/// The arguments of QEMU, with a memory that the plugin can read and one thread for all processors.
pub(super) fn with_recorder(given: &[OsString]) -> Result<Vec<OsString>, Refused> {
    let mut all = Vec::new();
    let (mut bytes, mut accelerated) = (DEFAULT_MEMORY, false);
    let mut words = given.iter();
    while let Some(word) = words.next() {
        let option = option_of(word);
        let value = option.filter(|name| !ALONE.contains(name) && !ALONE_NEWER.contains(name));
        let value = value.and_then(|_| words.next());
        let mut kept = value.cloned();
        let text = value.map_or("".into(), |value| value.to_string_lossy());
        let refuse = |why: &str| Err((format!("-{} {text}", option.unwrap_or_default()).trim_end().into(), why.into()));
        let or_refuse = |why: String| (format!("-{} {text}", option.unwrap_or_default()), why);
        match option {
            Some("accel") => {
                kept = Some(accelerator(&text).map_err(or_refuse)?.into());
                accelerated = true;
            }
            Some("enable-kvm" | "xen-attach") => return refuse(ONLY_TCG),
            Some("machine" | "M") => {
                let Some(rest) = machine(&text).map_err(or_refuse)? else { continue };
                kept = rest.map(OsString::from).or(kept);
            }
            Some("m") => bytes = memory(&text).map_err(or_refuse)?,
            Some("object") if text.contains("memory-backend-") => {
                return refuse(
                    "memory of one's own is not allowed: page tables are read in the memory that farreach adds, which \
                     has the size of -m",
                );
            }
            Some("mem-path") => return refuse("not allowed: the guest's memory is one that farreach adds"),
            Some("numa") if elements(&text).iter().any(|e| e.starts_with("memdev=") || e.starts_with("mem=")) => {
                return refuse("memory of nodes is not allowed: all memory is in the one piece that farreach adds");
            }
            Some("readconfig") => {
                return refuse("not allowed: its options are not seen here; give them on the command line");
            }
            Some("loadvm" | "incoming") => {
                return refuse(
                    "not allowed: what a saved guest did before is not seen, nor what is loaded into its memory",
                );
            }
            Some("daemonize") => return refuse("not allowed: the recording ends with the program that was started"),
            Some("plugin") if text.contains(super::PLUGIN) => {
                return refuse("not allowed: farreach adds its plugin itself");
            }
            _ => {}
        }
        all.push(word.clone());
        all.extend(kept);
    }
    if !accelerated {
        all.extend(["-accel", "tcg,thread=single"].map(OsString::from));
    }
    let backend = format!("memory-backend-memfd,id={RAM},size={bytes},share=on");
    all.extend(["-object".into(), backend.into(), "-machine".into(), format!("memory-backend={RAM}").into()]);
    Ok(all)
}

const ONLY_TCG: &str = "only tcg is allowed: it alone shows what a guest executes";

/// The name of an option, which has one or two dashes.
fn option_of(word: &OsStr) -> Option<&str> {
    let name = word.to_str()?.strip_prefix('-')?;
    Some(name.strip_prefix('-').unwrap_or(name)).filter(|name| !name.is_empty())
}

/// The parts between commas; a doubled comma is none.
fn elements(text: &str) -> Vec<String> {
    text.replace(",,", "\0").split(',').map(|e| e.replace('\0', ",,")).collect()
}

/// The value of `-accel`, with one thread.
fn accelerator(text: &str) -> Result<String, String> {
    let parts = elements(text);
    let name = parts[0].strip_prefix("accel=").unwrap_or(&parts[0]);
    if name != "tcg" {
        return Err(ONLY_TCG.into());
    }
    match parts.iter().find_map(|e| e.strip_prefix("thread=")) {
        Some("single") => Ok(text.into()),
        Some(other) => Err(format!(
            "thread={other}: only single is allowed, or references of several processors would have no order"
        )),
        None => Ok(format!("{text},thread=single")),
    }
}

/// The value of `-machine` without its accelerator. None: nothing is left. An inner None: it stays as it is.
fn machine(text: &str) -> Result<Option<Option<String>>, String> {
    let fixed = "the guest's memory is one that farreach adds";
    if text.trim_start().starts_with('{') {
        let wrong = ["accel", "memory-backend"].into_iter().find(|key| text.contains(key));
        return wrong.map_or(Ok(Some(None)), |key| Err(format!("{key} is not allowed in JSON: {fixed}, with tcg")));
    }
    let parts = elements(text);
    if parts.iter().any(|e| e.starts_with("memory-backend=")) {
        return Err(format!("memory-backend is not allowed: {fixed}"));
    }
    if parts.iter().any(|e| e.starts_with("max-ram-below-4g=")) {
        return Err(format!("max-ram-below-4g is not allowed: {fixed}, and read where machines have it by default"));
    }
    let (accel, rest): (Vec<String>, Vec<String>) = parts.into_iter().partition(|e| e.starts_with("accel="));
    match accel.iter().find(|e| *e != "accel=tcg") {
        Some(other) => Err(format!("{other}: {ONLY_TCG}")),
        None if accel.is_empty() => Ok(Some(None)),
        None => Ok((!rest.is_empty()).then(|| Some(rest.join(",")))),
    }
}

/// A text as a value of an option, in which each comma is doubled.
pub(super) fn escaped(text: &OsStr) -> OsString {
    let double = |&byte: &u8| std::iter::repeat_n(byte, if byte == b',' { 2 } else { 1 });
    OsString::from_vec(text.as_bytes().iter().flat_map(double).collect())
}
