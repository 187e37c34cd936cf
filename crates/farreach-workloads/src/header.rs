//! What a recording says of its origin.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use farreach_trace::frt::Header;
use farreach_types::Result;
use serde_json::{Value, json};

/// The header of a trace of this command, recorded here and now.
///
/// # Errors
/// The program cannot be recorded.
pub fn header(command: &[OsString]) -> Result<Header> {
    let fact = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let facts = [
        ("kernel", fact("/proc/sys/kernel/osrelease")),
        ("transparent_hugepage", fact("/sys/kernel/mm/transparent_hugepage/enabled")),
        ("randomize_va_space", fact("/proc/sys/kernel/randomize_va_space")),
        ("base_page", Some((1u64 << farreach_types::addr::BASE_SHIFT).to_string())),
        ("directory", std::env::current_dir().ok().map(|d| d.display().to_string())),
    ];
    Ok(Header {
        environment: facts.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?))).collect(),
        ..begun(command, "Valgrind tool")?
    })
}

/// The header of a trace of a whole system, which this QEMU runs, recorded here and now. `facts`: what is known of the
/// guest.
///
/// # Errors
/// The program cannot be recorded.
pub fn system_header(command: &[OsString], facts: &[(&str, String)]) -> Result<Header> {
    let environment = facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Ok(Header { environment, ..begun(command, "QEMU plugin")? })
}

/// The program and the libraries that it is started with: path, size, BLAKE3, and the build id that its linker gave it.
/// What it loads or executes later is not among them.
fn manifest(program: &Path) -> Vec<Value> {
    let files = std::iter::once(program.to_owned()).chain(farreach_live::libraries_of(program));
    let fact = |path: PathBuf| {
        let file = File::open(&path).ok()?;
        let bytes = file.metadata().ok()?.len();
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&file).ok()?;
        let mut fact = json!({ "path": path.display().to_string(), "bytes": bytes });
        fact["blake3"] = hasher.finalize().to_hex().to_string().into();
        if let Some(id) = farreach_live::build_id(&file) {
            fact["build_id"] = id.into();
        }
        Some(fact)
    };
    files.filter_map(fact).collect()
}

fn begun(command: &[OsString], recorder: &str) -> Result<Header> {
    let program = farreach_live::check_program(&command[0]).map_err(farreach_types::Error::from)?;
    let more = [("files".to_owned(), manifest(&program).into())];
    Ok(Header {
        program: program.display().to_string(),
        more: more.into_iter().collect(),
        arguments: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        date: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        recorder: format!("farreach {} ({recorder})", env!("CARGO_PKG_VERSION")),
        ..Header::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_what_the_program_is_made_of() {
        let found = header(&["sh".into()]).expect("there is a shell");
        let files = found.more["files"].as_array().expect("a list");
        assert_eq!(files[0]["path"], found.program);
        let is_c = |file: &&Value| file["path"].as_str().is_some_and(|path| path.contains("libc.so"));
        let c = files.iter().find(is_c).expect("it is linked with the library of C");
        let bytes = std::fs::read(c["path"].as_str().expect("text")).expect("it is there");
        assert_eq!(c["blake3"], blake3::hash(&bytes).to_hex().to_string());
        assert_eq!(c["bytes"], bytes.len());
        let id = c["build_id"].as_str().expect("Debian's has one");
        assert!(id.len() >= 16 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
        assert!(
            files.iter().any(|file| file["path"].as_str().is_some_and(|path| path.contains("ld-linux"))),
            "{files:?}"
        );
    }
}
