//! The machines of T94's experiments, as `--machine` takes them. Equal machines have equal names, so that studies share
//! runs.

use farreach_cost::area::area_rbe;
use farreach_machine::MachineSpec;
use farreach_types::addr::Bytes;

/// The five designs of Table 6.
pub const FIVE: [&str; 5] = [SINGLE, SUPERPAGE, PARTIAL, COMPLETE, SET_ASSOCIATIVE];
/// 64 entries, 4 KB.
pub const SINGLE: &str = "t94/single";
/// 64 entries, 4 KB and 64 KB.
pub const SUPERPAGE: &str = "t94/superpage";
/// 64 entries, factor 16.
pub const PARTIAL: &str = "t94/partial";
/// 64 entries, factor 16.
pub const COMPLETE: &str = "t94/complete";
/// 256 entries, 4 ways, random, 4 KB.
pub const SET_ASSOCIATIVE: &str = "t94/set-associative";
/// The cache of T94-74, 1 MB direct-mapped in lines of 32 bytes; one for each side, because the laboratory's caches are
/// split.
pub const CACHE: &str = "sv97/x86:l2_size=1M,line=32";

/// A preset with overrides. An override must not repeat the preset's value.
pub fn with(preset: &str, overrides: &[String]) -> String {
    if overrides.is_empty() { preset.to_owned() } else { format!("{preset}:{}", overrides.join(",")) }
}

/// A preset of 64 entries with another number of entries.
pub fn sized(preset: &str, entries: u64) -> String {
    with(preset, if entries == 64 { vec![] } else { vec![format!("entries={entries}")] }.as_slice())
}

/// A superpage TLB of 64 entries with another superpage size, in base pages (Figure 4, AMB-17). One page: the
/// single-page-size TLB.
pub fn superpage_of(pages: u64) -> String {
    let size = Bytes(pages * 4096).to_string();
    match pages {
        1 => SINGLE.to_owned(),
        16 => SUPERPAGE.to_owned(),
        _ => format!("{SUPERPAGE}:sizes=4K+{size},region={size},promote={size}"),
    }
}

/// A partial-subblock TLB of 64 entries with another factor and regions of that size (T94-49, Figure 5). Factor 1: the
/// single-page-size TLB.
pub fn partial_of(factor: u64) -> String {
    match factor {
        1 => SINGLE.to_owned(),
        16 => PARTIAL.to_owned(),
        _ => format!("{PARTIAL}:factor={factor},region={}", Bytes(factor * 4096)),
    }
}

/// Area in units of the 64-entry superpage TLB (Table 7).
pub fn relative_area(machine: &str) -> Option<f64> {
    let area = |machine: &str| {
        let spec = MachineSpec::parse(machine, 0).ok()?;
        Some(area_rbe(spec.params.int("entries"), (spec.hardware.tlb()?.bits)(&spec.params)?))
    };
    Some(area(machine)? / area(SUPERPAGE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AREA-4: the ends of Table 7 that the model reproduces.
    #[test]
    fn areas_are_those_of_table_7() {
        for (machine, ratio) in [
            (sized(SINGLE, 141), "2.02"),
            (sized(PARTIAL, 46), "0.86"),
            (sized(COMPLETE, 45), "3.22"),
            (SUPERPAGE.to_owned(), "1.00"),
        ] {
            assert_eq!(format!("{:.2}", relative_area(&machine).unwrap()), ratio, "{machine}");
        }
        assert_eq!(relative_area(SET_ASSOCIATIVE), None);
    }

    #[test]
    fn machines_are_descriptions_that_can_be_read() {
        for machine in
            FIVE.map(str::to_owned).into_iter().chain([2, 4, 8].map(superpage_of)).chain([2, 4, 8].map(partial_of))
        {
            MachineSpec::parse(&machine, 0).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}
