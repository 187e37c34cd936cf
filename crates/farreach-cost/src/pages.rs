//! Ratios from the counts of the page-size study (PS-10): misses and memory against the smallest size, the frontier of
//! misses against memory, and advice. Pure functions of the counts.

use farreach_types::addr::Bytes;
use farreach_types::counts::{Advice, FrontierPoint, PageCounts, PageSizeResult, Relative};
use farreach_types::plural::with_noun;

/// Growth of memory that advice allows: what the study calls typical and small (H-PS-3).
pub const MEMORY_ALLOWED: f64 = 0.25;

/// Fills in everything that is derived.
pub fn derive(result: &mut PageSizeResult) {
    let Some(base) = result.rows.first().map(|row| row.counts.clone()) else { return };
    for row in &mut result.rows {
        row.relative = relative(&row.counts, &base);
    }
    result.frontier = frontier(result);
    result.advice = advice(result);
}

/// One size against another (PS-10).
pub fn relative(counts: &PageCounts, base: &PageCounts) -> Relative {
    let ratio = |here: u64, there: u64| (there > 0).then(|| here as f64 / there as f64);
    let growth = |here, there| ratio(here, there).map(|r| r - 1.0);
    Relative {
        relative_fetch_misses: ratio(counts.fetch_misses, base.fetch_misses),
        relative_data_misses: ratio(counts.data_misses, base.data_misses),
        relative_code_memory: growth(counts.code_bytes, base.code_bytes),
        relative_data_memory: growth(counts.data_bytes, base.data_bytes),
        relative_memory: growth(counts.total_bytes, base.total_bytes),
    }
}

/// The points that no other beats: by ascending memory, each with fewer misses than all before it.
pub fn frontier(result: &PageSizeResult) -> Vec<FrontierPoint> {
    let mut points = result.points();
    points.sort_by_key(|p| (p.peak_bytes, p.misses));
    let mut fewest = u64::MAX;
    points.retain(|p| {
        let fewer = p.misses < fewest;
        fewest = fewest.min(p.misses);
        fewer
    });
    points
}

/// The size with the fewest misses among those that grow memory by no more than [`MEMORY_ALLOWED`], the smallest if
/// several have as few.
pub fn advice(result: &PageSizeResult) -> Option<Advice> {
    let base = &result.rows.first()?.counts;
    if base.fetch_lookups + base.data_lookups == 0 {
        return None;
    }
    let allowed = |growth: Option<f64>| growth.is_some_and(|g| g <= MEMORY_ALLOWED);
    let fits = result.rows.iter().enumerate().filter(|(_, row)| allowed(row.relative.relative_memory));
    let (at, best) = fits.min_by_key(|(_, row)| row.counts.misses())?;
    let name = |counts: &PageCounts| format!("{} pages", Bytes(counts.page_size));
    let percent = |ratio: f64| format!("{:.1} %", 100.0 * ratio);
    let of_base = |counts: &PageCounts| match base.misses() {
        0 => "as many misses (none)".to_owned(),
        all => format!("{} of the misses", percent(counts.misses() as f64 / all as f64)),
    };
    let memory = |counts: &PageCounts| percent(counts.total_bytes as f64 / base.total_bytes as f64 - 1.0);
    // Numbers that are compared have one unit.
    let size =
        |bytes: u64, unit: &str| if unit == "MiB" { format!("{:.2}", mib(bytes)) } else { (bytes >> 10).to_string() };
    let mut text = if at == 0 {
        let unit = if base.total_bytes < 1 << 20 { "KiB" } else { "MiB" };
        format!(
            "{}: {} in {} {unit}; no larger size saves any within {} more memory",
            name(base),
            with_noun(base.misses(), "miss"),
            size(base.total_bytes, unit),
            percent(MEMORY_ALLOWED)
        )
    } else {
        let unit = if best.counts.total_bytes < 1 << 20 { "KiB" } else { "MiB" };
        format!(
            "{}: {} of {} ({} against {}) for {} more memory ({} {unit} against {})",
            name(&best.counts),
            of_base(&best.counts),
            name(base),
            best.counts.misses(),
            base.misses(),
            memory(&best.counts),
            size(best.counts.total_bytes, unit),
            size(base.total_bytes, unit)
        )
    };
    if let Some(next) = result.rows.get(at + 1) {
        text +=
            &format!("; {} would have {} for {} more", name(&next.counts), of_base(&next.counts), memory(&next.counts));
    }
    text.push('.');
    let rule = format!(
        "Rule: fewest misses, fetch and data together, with {} each, where memory grows by {} or less.",
        with_noun(result.entries, "entry"),
        percent(MEMORY_ALLOWED)
    );
    Some(Advice { page_size: best.counts.page_size, memory_allowed: MEMORY_ALLOWED, text, rule })
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::counts::{MachineResult, PageRow};

    fn result(rows: &[(u64, u64, u64)]) -> PageSizeResult {
        let row = |&(kb, misses, total): &(u64, u64, u64)| PageRow {
            counts: PageCounts {
                page_size: kb << 10,
                fetch_lookups: 1000,
                fetch_misses: misses / 2,
                data_misses: misses - misses / 2,
                total_bytes: total << 20,
                peak_bytes: total << 20,
                ..PageCounts::default()
            },
            ..PageRow::default()
        };
        let mut result = PageSizeResult {
            phases: Vec::new(),
            schema: String::new(),
            workload: Default::default(),
            entries: 64,
            entry_counts: Vec::new(),
            rows: rows.iter().map(row).collect(),
            policies: Vec::<MachineResult>::new(),
            frontier: Vec::new(),
            advice: None,
        };
        derive(&mut result);
        result
    }

    #[test]
    fn the_frontier_leaves_out_what_is_beaten() {
        let r = result(&[(4, 900, 10), (8, 400, 11), (16, 400, 12), (32, 500, 12), (64, 100, 20), (128, 100, 20)]);
        let names: Vec<&str> = r.frontier.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["4K", "8K", "64K"]);
    }

    #[test]
    fn advice_keeps_to_its_rule() {
        let r = result(&[(4, 900, 8), (8, 450, 9), (16, 300, 10), (32, 300, 10), (64, 9, 11)]);
        let advice = r.advice.unwrap();
        assert_eq!(advice.page_size, 16 << 10, "a quarter is allowed, 64K takes more, 32K is larger for nothing");
        let want = "16K pages: 33.3 % of the misses of 4K pages (300 against 900) for 25.0 % more memory (10.00 MiB \
                    against 8.00); 32K pages would have 33.3 % of the misses for 25.0 % more.";
        assert_eq!(advice.text, want);
        let r = result(&[(4, 900, 8), (8, 450, 12)]);
        assert!(
            r.advice
                .unwrap()
                .text
                .starts_with("4K pages: 900 misses in 8.00 MiB; no larger size saves any within 25.0 %")
        );
    }

    #[test]
    fn nothing_to_divide_by_is_no_number() {
        let r = result(&[(4, 0, 0), (8, 5, 1)]);
        assert_eq!(r.rows[1].relative, Relative::default());
        assert_eq!(result(&[(4, 4, 8), (8, 1, 10)]).rows[1].relative.relative_memory, Some(0.25));
        assert_eq!(result(&[]).advice, None);
    }
}
