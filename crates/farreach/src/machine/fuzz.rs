//! What must hold for any description of a machine. The fuzzer `text` of `fuzz/` calls it; a panic is a finding.

use super::MachineSpec;
use crate::os::dump;
use crate::os::frames::fragmentation;

/// Text is refused as a machine, or describes one whose resolved keys describe it again; and so for the texts about memory.
#[doc(hidden)]
pub fn text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (toml, overrides) = text.split_once('\0').unwrap_or((text, ""));
    if let Ok(spec) = MachineSpec::from_toml("fuzz", toml, overrides, 0) {
        let resolved: Vec<String> = spec.params.as_json().iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let again = MachineSpec::from_toml("fuzz", &resolved.join("\n"), "", 0).expect("keys as they were resolved");
        assert_eq!(again.params.as_json(), spec.params.as_json());
    }
    fragmentation::fuzz(text);
    dump::fuzz(text);
}
