//! farreach's folder in the user's cache: what can be made, measured or fetched again.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use farreach_types::{Context, Result, bail};

use super::tool::changed_by_others;

/// `farreach/NAME` in `$XDG_CACHE_HOME`, or in `~/.cache`. `None`: neither `XDG_CACHE_HOME` nor `HOME` is an absolute
/// path.
pub fn place(name: &str) -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let base = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("farreach").join(name))
}

/// Makes a folder for this user alone, unless it is there. `kept`: what is kept there, in the plural.
///
/// # Errors
/// It cannot be made, or others can write into it: what lies there is trusted.
pub fn make(folder: &Path, kept: &str) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| folder.display().to_string())?;
    if let Some(how) = changed_by_others(folder) {
        bail!("{}, which {how}: {kept} are kept there; another folder is needed", folder.display());
    }
    Ok(())
}
