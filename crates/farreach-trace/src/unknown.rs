//! What to say of a trace whose format is not known: what its first bytes suggest.

use crate::champsim;
use crate::input::compression_of;
use crate::lines::shown;
use crate::perf;

/// A sentence for people, without a full stop.
pub(crate) fn suggestion(head: &[u8]) -> String {
    if let Some(compression) = compression_of(head) {
        return format!("what is unpacked is compressed once more, by {compression}: unpack it once");
    }
    if let Some(bytes) = champsim::other_size(head) {
        return format!(
            "it looks like records of {bytes} bytes of a changed ChampSim; read are those of 64 and 96 bytes"
        );
    }
    let line = head.split(|&b| b == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let is_text = head.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
    if !is_text {
        return format!("it begins with '{}'", head[..head.len().min(24)].escape_ascii());
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if let Some(why) = perf::why_not(line) {
        return format!("its first line, '{}', is like those of perf script, but {why}", shown(line));
    }
    format!(
        "its first line is '{}'; a text with a line for each reference is read if it is said what its columns are, as \
         with --columns address=1",
        shown(line)
    )
}
