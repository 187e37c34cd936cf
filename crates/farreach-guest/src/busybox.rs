//! A shell that needs no library: Debian's busybox-static, which every guest has.

use crate::cache::{Work, kept};
use crate::debian::{self, Apt};
use farreach_types::event::Arch;
use farreach_types::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Its package.
const PACKAGE: &str = "busybox-static";

/// Its file, fetched if it is not kept.
///
/// # Errors
/// It cannot be fetched.
pub fn find(arch: Arch, cache: &Path, apt: &Apt) -> Result<PathBuf> {
    let path = cache.join("busybox").join(arch.name());
    kept(&path, |new| {
        let work = Work::new(new.parent().unwrap_or(new))?;
        let deb = apt.download(PACKAGE, &work.0)?;
        let found = debian::files(&deb, |name| name.ends_with("bin/busybox"))?;
        let [name] = &found[..] else { bail!("{PACKAGE}: {} files in it are called busybox, not one", found.len()) };
        debian::unpack(&deb, &work.0, &found)?;
        fs::rename(work.0.join(name), new).with_context(|| new.display().to_string())
    })?;
    Ok(path)
}

/// The programs that it is, by their names in its text: one after another, from `[` on, the last before an empty one.
pub fn programs(file: &[u8]) -> Vec<String> {
    const FIRST: &[u8] = b"\0[\0[[\0";
    let Some(at) = file.windows(FIRST.len()).position(|bytes| bytes == FIRST) else { return Vec::new() };
    let names = file[at + 1..].split(|&byte| byte == 0).map_while(|name| {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"[-_.+".contains(byte);
        (!name.is_empty() && name.iter().all(plain)).then(|| String::from_utf8_lossy(name).into_owned())
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_programs_are_read_in_its_text() {
        assert_eq!(programs(b"text\0[\0[[\0acpid\0udhcpc6\0zcat\0\0more\0"), ["[", "[[", "acpid", "udhcpc6", "zcat"]);
        assert!(programs(b"nothing of it\0[\0").is_empty());
    }
}
