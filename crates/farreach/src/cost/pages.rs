//! What follows from the counts of the page-size study (PS-10): misses and memory against the smallest size, the frontier of
//! misses against memory, and advice. Pure functions of the counts.

use crate::addr::Bytes;
use crate::counts::{Advice, FrontierPoint, PageCounts, PageSizeResult, Relative};

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

/// Those that no other beats: by ascending memory, each with fewer misses than all before it.
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

/// The size with the fewest misses among those that grow memory by no more than [`MEMORY_ALLOWED`], the smallest if several have as few.
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
    let mut text = if at == 0 {
        format!(
            "{}: {} misses in {:.2} MiB; no larger size saves any within {} more memory",
            name(base),
            base.misses(),
            mib(base.total_bytes),
            percent(MEMORY_ALLOWED)
        )
    } else {
        format!(
            "{}: {} of {} ({} against {}) for {} more memory ({:.2} MiB against {:.2})",
            name(&best.counts),
            of_base(&best.counts),
            name(base),
            best.counts.misses(),
            base.misses(),
            memory(&best.counts),
            mib(best.counts.total_bytes),
            mib(base.total_bytes)
        )
    };
    if let Some(next) = result.rows.get(at + 1) {
        text += &format!("; {} would have {} for {} more", name(&next.counts), of_base(&next.counts), memory(&next.counts));
    }
    text.push('.');
    let rule = format!(
        "Rule: fewest misses, fetch and data together, with {} entries each, where memory grows by {} or less.",
        result.entries,
        percent(MEMORY_ALLOWED)
    );
    Some(Advice { page_size: best.counts.page_size, memory_allowed: MEMORY_ALLOWED, text, rule })
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
