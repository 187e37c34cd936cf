//! Text on huge pages, by a library that is preloaded.

use super::change::{ENDED_TOO_SOON, Program};
use farreach_live::{TEXT_LIBRARY, Text, tool_dir};
use std::path::{Path, PathBuf};

/// Where the library is.
pub fn library() -> Result<PathBuf, String> {
    let file = tool_dir(None).map_err(|e| e.to_string())?.join(TEXT_LIBRARY);
    if file.is_file() { Ok(file) } else { Err(format!("{} is not there", file.display())) }
}

/// The variable by which the program gets its text on huge pages. `preloaded`: what it has in that variable today.
///
/// # Errors
/// Why it cannot.
pub fn variable(
    program: &Program,
    library: Result<&Path, &String>,
    preloaded: Option<&str>,
) -> Result<(String, String), String> {
    match program.text {
        Text::Unknown if program.unseen => return Err(ENDED_TOO_SOON.into()),
        Text::Unknown => return Err("it needs a run of the program".into()),
        Text::Static => return Err("the program is linked statically, so no library can be preloaded".into()),
        Text::HugePages(0) => return Err(format!("the text of {} has no whole huge page", program.name)),
        Text::HugePages(_) => {}
    }
    let file = library?.display().to_string();
    if file.contains([' ', ':']) {
        return Err(format!("{file}: the dynamic linker takes no blanks or colons in a path of LD_PRELOAD"));
    }
    let before = preloaded.filter(|words| !words.is_empty()).map_or(String::new(), |words| format!("{words}:"));
    Ok(("LD_PRELOAD".into(), before + &file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preloaded_or_why_not() {
        let of = |text, library: Result<&str, &str>, before| {
            let program = Program { text, name: "program".into(), ..Program::default() };
            let library = library.map(Path::new).map_err(str::to_owned);
            variable(&program, library.as_ref().map(|path| *path), before).map(|(_, value)| value)
        };
        let there = Ok("/lib/text.so");
        assert_eq!(of(Text::HugePages(1), there, None).unwrap(), "/lib/text.so");
        assert_eq!(of(Text::HugePages(1), there, Some("/a.so")).unwrap(), "/a.so:/lib/text.so");
        assert!(of(Text::HugePages(0), there, None).unwrap_err().contains("text of program has no whole"));
        assert!(of(Text::Static, there, None).unwrap_err().contains("statically"));
        assert!(of(Text::Unknown, there, None).unwrap_err().contains("run"));
        assert!(of(Text::HugePages(1), Ok("/a b/text.so"), None).unwrap_err().contains("blanks"));
        assert_eq!(of(Text::HugePages(1), Err("none"), None).unwrap_err(), "none");
    }
}
