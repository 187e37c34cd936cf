//! What the sizes of a working set say about huge pages, and what they cannot say.

use farreach_types::counts::{EntryBounds, HugePages, WatchRecommendation};

/// What a recommendation rests on.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Entries that the median working set would need in 4 KB pages; `None` if use is not known.
    pub small: Option<EntryBounds>,
    /// The same in 2 MB pages.
    pub large: Option<EntryBounds>,
    /// Entries of this processor for 4 KB pages; `None` if it does not tell.
    pub small_entries: Option<u64>,
    /// For 2 MB pages.
    pub large_entries: Option<u64>,
    /// Huge pages now and possible.
    pub huge: HugePages,
    /// Present memory.
    pub present_bytes: u64,
}

/// From this share of the memory that could be in huge pages on, they are in use already.
const MOSTLY: f64 = 0.9;
/// From this share of the present memory on, what huge pages would add is a price to weigh.
const DEAR: f64 = 0.25;

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// What follows. Only sizes are compared: nothing here says how much faster anything gets.
pub fn recommend(facts: &Facts) -> WatchRecommendation {
    let huge = &facts.huge;
    let mut reasons = Vec::new();
    let cannot = |verdict: &str, text: &str, reasons: Vec<String>| WatchRecommendation {
        verdict: verdict.to_owned(),
        text: text.to_owned(),
        reasons,
        limits: limits(),
        next: String::new(),
    };
    let (Some(small), Some(large)) = (facts.small, facts.large) else {
        return cannot("unknown", "No recommendation: this method does not see which memory is used.", reasons);
    };
    let (Some(entries), Some(large_entries)) = (facts.small_entries, facts.large_entries) else {
        let text = "No recommendation: this processor does not tell how many entries its TLBs have.";
        return cannot("unknown", text, reasons);
    };
    let needs = |n: EntryBounds| match n.low == n.high {
        true => n.low.to_string(),
        false => format!("{} to {}", n.low, n.high),
    };
    reasons.push(format!(
        "In an interval the process uses {} pages of 4 KB; the TLB has {entries} entries for them.",
        needs(small)
    ));
    if huge.refused_bytes >= 2 << 20 {
        reasons.push(format!("The process refused huge pages for {}.", mib(huge.refused_bytes)));
    }
    if small.high <= entries {
        let text = "Leave page sizes as they are: the entries for 4 KB pages reach what the process uses.";
        return cannot("leave", text, reasons);
    }
    if huge.now_bytes as f64 >= MOSTLY * huge.possible_present_bytes as f64 && huge.now_bytes > 0 {
        reasons.push(format!(
            "{} of {} that could be in huge pages are in them.",
            mib(huge.now_bytes),
            mib(huge.possible_present_bytes)
        ));
        return cannot("leave", "Leave page sizes as they are: huge pages are in use already.", reasons);
    }
    if huge.possible_blocks == 0 {
        reasons.push("No mapping of anonymous memory has a present block of 2 MB.".to_owned());
        return cannot("no", "Huge pages cannot help: no memory of this process could be in them.", reasons);
    }
    reasons.push(format!(
        "In pages of 2 MB it would need {} entries; there are {large_entries}. {} of present memory could be in them.",
        needs(large),
        mib(huge.possible_present_bytes)
    ));
    let added = huge.would_add_bytes as f64 / facts.present_bytes.max(1) as f64;
    reasons.push(format!(
        "They would add at most {} of memory, {:.0} % of what is present.",
        mib(huge.would_add_bytes),
        100.0 * added
    ));
    if huge.disabled == Some(true) {
        reasons
            .push("The process switched huge pages off for itself: its own setting decides, not the kernel's.".into());
    }
    if small.low <= entries {
        let text = "Undecided: what is known about the working set leaves open whether the 4 KB entries reach it.";
        return cannot("unknown", text, reasons);
    }
    let mut text = "Huge pages are worth a try: the 4 KB entries do not reach what the process uses".to_owned();
    text += match large.low > large_entries {
        true => ", though those for 2 MB pages would not reach all of it either",
        false if large.high > large_entries => ", and those for 2 MB pages may",
        false => ", and those for 2 MB pages would",
    };
    text += if added >= DEAR { "; weigh the memory that they add." } else { "." };
    WatchRecommendation { verdict: "try".into(), text, reasons, limits: limits(), next: String::new() }
}

/// What sizes alone never tell.
fn limits() -> Vec<String> {
    [
        "How often a page is used within an interval is not seen, so neither are misses: a working set beyond the \
         reach of the TLB may still miss rarely.",
        "Time saved is not estimated here. A simulation of the program or a measured comparison can do that.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            small: Some(EntryBounds { low: 9000, high: 9000 }),
            large: Some(EntryBounds { low: 40, high: 40 }),
            small_entries: Some(2048),
            large_entries: Some(2048),
            huge: HugePages {
                possible_blocks: 50,
                possible_present_bytes: 90 << 20,
                would_add_bytes: 10 << 20,
                ..HugePages::default()
            },
            present_bytes: 100 << 20,
        }
    }
    fn verdict(change: impl Fn(&mut Facts)) -> String {
        let mut facts = facts();
        change(&mut facts);
        let found = recommend(&facts);
        assert!(!found.text.is_empty() && found.limits.len() == 2);
        found.verdict
    }
    fn bounds(low: u64, high: u64) -> Option<EntryBounds> {
        Some(EntryBounds { low, high })
    }

    #[test]
    fn each_verdict_has_its_case() {
        assert_eq!(verdict(|_| ()), "try");
        assert_eq!(verdict(|f| f.small = bounds(2048, 2048)), "leave");
        assert_eq!(verdict(|f| f.small = bounds(2000, 2049)), "unknown");
        assert_eq!(verdict(|f| f.small = None), "unknown");
        assert_eq!(verdict(|f| f.large_entries = None), "unknown");
        assert_eq!(verdict(|f| f.huge.now_bytes = 81 << 20), "leave");
        assert_eq!(verdict(|f| f.huge.now_bytes = 80 << 20), "try");
        assert_eq!(verdict(|f| f.huge = HugePages::default()), "no");
    }

    #[test]
    fn the_price_in_memory_is_told() {
        let dear = Facts { huge: HugePages { would_add_bytes: 25 << 20, ..facts().huge }, ..facts() };
        assert!(recommend(&dear).text.contains("weigh the memory"));
        assert!(!recommend(&facts()).text.contains("weigh"));
        let beyond = Facts { large: bounds(3000, 4000), ..facts() };
        assert!(recommend(&beyond).text.contains("would not reach all of it either"));
        assert!(recommend(&facts()).reasons.iter().any(|reason| reason.contains("10.0 MiB of memory, 10 %")));
    }
}
