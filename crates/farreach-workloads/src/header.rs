//! What a recording says of its origin.

use std::ffi::OsString;

use farreach_trace::frt::Header;
use farreach_types::Result;

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

fn begun(command: &[OsString], recorder: &str) -> Result<Header> {
    Ok(Header {
        program: farreach_live::check_program(&command[0]).map_err(farreach_types::Error::from)?.display().to_string(),
        arguments: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        date: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        recorder: format!("farreach {} ({recorder})", env!("CARGO_PKG_VERSION")),
        ..Header::default()
    })
}
