//! Programs that need no library, of which every guest has a copy: Debian's busybox and bash, linked statically.

use crate::cache::{Work, kept};
use crate::debian::{self, Apt};
use farreach_types::event::Arch;
use farreach_types::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A static program.
pub struct Tool {
    package: &'static str,
    /// How the path of its file in the package ends.
    file: &'static str,
}

/// Makes file systems, sets the console, powers off; and is the programs that a root lacks.
pub const BUSYBOX: Tool = Tool { package: "busybox-static", file: "bin/busybox" };
/// The shell. That of busybox does not come in question: it runs programs of busybox in the place of those in `PATH`.
pub const SHELL: Tool = Tool { package: "bash-static", file: "bin/bash-static" };

impl Tool {
    /// What is in its file, which is fetched if it is not kept.
    ///
    /// # Errors
    /// It cannot be fetched.
    pub fn read(&self, arch: Arch, cache: &Path, apt: &Apt) -> Result<Vec<u8>> {
        let path = self.find(arch, cache, apt)?;
        fs::read(&path).with_context(|| path.display().to_string())
    }

    fn find(&self, arch: Arch, cache: &Path, apt: &Apt) -> Result<PathBuf> {
        let path = cache.join("tools").join(arch.name()).join(self.package);
        kept(&path, |new| {
            let work = Work::new(new.parent().unwrap_or(new))?;
            let deb = apt.download(self.package, &work.0)?;
            let found = debian::files(&deb, |name| name.ends_with(self.file))?;
            let [name] = &found[..] else {
                bail!("{}: {} files in it end with {}, not one", self.package, found.len(), self.file)
            };
            debian::unpack(&deb, &work.0, &found)?;
            fs::rename(work.0.join(name), new).with_context(|| new.display().to_string())
        })?;
        Ok(path)
    }
}

/// The programs that a busybox is, by their names in its text: one after another, from `[` on, the last before an empty
/// one.
pub fn programs(busybox: &[u8]) -> Vec<String> {
    const FIRST: &[u8] = b"[\0[[\0";
    let Some(at) = busybox.windows(FIRST.len()).position(|bytes| bytes == FIRST) else { return Vec::new() };
    let names = busybox[at..].split(|&byte| byte == 0).map_while(|name| {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"[-_.+".contains(byte);
        (!name.is_empty() && name.iter().all(plain)).then(|| String::from_utf8_lossy(name).into_owned())
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_in_the_text_of_busybox() {
        // Data, which need not end with a zero, stand before them.
        assert_eq!(programs(b"\x01[\0[[\0acpid\0udhcpc6\0zcat\0\0more\0"), ["[", "[[", "acpid", "udhcpc6", "zcat"]);
        assert!(programs(b"nothing of it\0[\0").is_empty());
    }
}
