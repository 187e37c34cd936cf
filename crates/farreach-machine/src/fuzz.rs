//! Properties that must hold for any description of a machine. The fuzzer `text` of `fuzz/` calls this; a panic is a
//! finding.

use super::MachineSpec;
use farreach_os::dump;
use farreach_os::frames::fragmentation;

/// A text is refused as a machine, or describes one whose resolved keys describe it again; likewise for the texts about
/// memory.
#[doc(hidden)]
pub fn text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (toml, overrides) = text.split_once('\0').unwrap_or((text, ""));
    if let Ok(spec) = MachineSpec::from_toml("fuzz", toml, overrides, 0) {
        let again = MachineSpec::from_toml("fuzz", &spec.to_toml(), "", 0).expect("keys as they were resolved");
        assert_eq!((again.about.as_str(), again.params.as_json()), (spec.about.as_str(), spec.params.as_json()));
    }
    fragmentation::fuzz(text);
    dump::fuzz(text);
}
