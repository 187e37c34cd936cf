//! Advice as text and as CSV.

use super::csv as rows;
use super::format::{NONE, bytes, clean, count, digits};
use super::grid::placed;
use super::view::sampled_windows;
use farreach_types::counts::{AdviceResult, AdviceRow, Interval, Served, TodayPrices, Verification};
use serde_json::Map;

fn text(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A number of percent with its sign.
pub(super) fn percent(x: f64) -> String {
    match x {
        x if x.abs() < 0.05 => "0".into(),
        x if x.abs() < 9.95 => format!("{x:.1}"),
        x => format!("{x:.0}"),
    }
}

pub(super) fn range(interval: &Interval, show: impl Fn(f64) -> String) -> String {
    let (low, high) = (show(interval.low), show(interval.high));
    if low == high { low } else { format!("{low} to {high}") }
}

fn cycles(x: f64) -> String {
    if x < 0.0 { format!("-{}", count(-x as u64)) } else { count(x as u64) }
}

fn more(bytes_now: u64, before: u64) -> String {
    match bytes_now {
        now if now == before => "0".into(),
        now if now > before => format!("+{}", bytes(now - before)),
        now => format!("-{}", bytes(before - now)),
    }
}

/// Columns of running text.
const WIDTH: usize = 120;

/// A text in lines; those after the first are indented by as much as `hang`.
fn wrapped(text: &str, hang: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let wide = word.chars().count();
        if used > 0 && used + 1 + wide > WIDTH {
            out += &format!("\n{:hang$}", "");
            used = hang;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out += word;
        used += wide;
    }
    out.push('\n');
    out
}

/// The text.
pub fn table(result: &AdviceResult, width: usize) -> String {
    let mut out = wrapped(&format!("{} on {}", clean(&result.source), clean(&result.about)), 0);
    let settings = result.settings.iter().map(|s| format!("{}: {}", clean(&s.name), clean(&s.value)));
    out += &wrapped(&settings.collect::<Vec<_>>().join("; "), 0);
    if let Some(native) = &result.native {
        let (runs, noise) = match native.runs {
            1 => ("1 native run".to_owned(), "unknown of one run".to_owned()),
            runs => (format!("{runs} native runs"), format!("{} %", percent(native.noise_percent))),
        };
        let seconds = digits(native.median_seconds);
        let most =
            native.resident_bytes.map_or("memory not seen".into(), |most| format!("{} at the peak", bytes(most)));
        out += &format!("{runs}: {seconds} s of processor time, noise {noise}, {most}\n");
    } else {
        out += "No native run: costs are in cycles, not in percent of run time.\n";
    }
    if let Some(stopped) = &result.stopped {
        out += &format!("Stopped early ({}): costs are of that part, in cycles.\n", clean(stopped));
    }
    if let Some(windows) = &result.windows {
        out += &format!(
            "{} Misses are estimates; --exact simulates all.\n",
            sampled_windows(windows, result.instructions)
        );
    }
    out.push('\n');
    out += &grid(result, width);
    let p = &result.prices;
    let cycles = format!(
        "Cycles: a second-level hit {}, a walk {}, to a superpage {}; a fault {}, 4 KB of zeros {}.",
        range(&p.second_level, digits),
        range(&p.base_walk, digits),
        range(&p.huge_walk, digits),
        digits(p.fault),
        digits(p.zero)
    );
    out.push('\n');
    out += &wrapped(&cycles, 0);
    out += &wrapped(&format!("Prices {}.", clean(&p.source)), 0);
    for note in notes(p) {
        out += &wrapped(&note, 0);
    }
    if let Some(share) = result.serial_share {
        let how = format!(
            "Saved: from all walks overlapped to all one after the other; likely, in parentheses, {} % of the way, by \
             the time of the run for each walk.",
            percent(100.0 * share)
        );
        out += &wrapped(&how, 0);
    }
    if !result.left_out.is_empty() {
        out += "\nNot in the table\n";
        for left in &result.left_out {
            out += "  ";
            out += &wrapped(&format!("{}: {}", clean(&left.change), clean(&left.why)), 4);
        }
    }
    out += &advice(result);
    result.verifications.iter().for_each(|verification| out += &verified(verification, result));
    out
}

/// What of the machine makes huge pages worth less than their misses say.
fn notes(prices: &TodayPrices) -> Vec<String> {
    let mut notes = Vec::new();
    if prices.huge_in_pieces == Some(true) {
        notes.push(
            "The TLB holds huge pages in pieces here, since the hypervisor maps its memory by smaller pages. So they \
             make walks shorter and spare none: the misses of the table count a TLB that holds them whole."
                .into(),
        );
    }
    if let Some(cycles) = prices.returned_touch {
        // Nothing: none had gone back when it was measured.
        let wait = if cycles < 1.0 { "may take".into() } else { format!("takes {} cycles", count(cycles as u64)) };
        notes.push(format!(
            "Free memory goes back to the hypervisor here: the first touch of 2 MB of it {wait} more, in none of the \
             rows. The program's memory was touched before each native run, so those did not wait for it."
        ));
    }
    notes
}

fn grid(result: &AdviceResult, width: usize) -> String {
    let unit = if result.rows.iter().any(|row| row.saved_percent.is_some()) { "%" } else { "cycles" };
    let heads = [
        text(&["", "", "TLB", "cycles of", "saved", "memory", "never", ""]),
        text(&["row", "change", "misses", "translation", unit, "at peak", "used", "may cost"]),
    ];
    let before = result.rows.first().map_or(0, |row| row.resident_bytes);
    let line = |(at, row): (usize, &AdviceRow)| {
        let saved = match (&row.saved_percent, at) {
            (_, 0) => NONE.to_owned(),
            (Some(_), _) if row.within_noise => "within noise".into(),
            (Some(percents), _) => {
                let likely = row.likely_percent.map_or(String::new(), |likely| format!(" ({})", percent(likely)));
                range(percents, percent) + &likely
            }
            (None, _) => range(&row.saved_cycles, cycles),
        };
        vec![
            row.name.clone(),
            row.change.clone(),
            count(row.walks),
            range(&row.walk_cycles, cycles),
            saved,
            if at == 0 { bytes(row.resident_bytes) } else { more(row.resident_bytes, before) },
            bytes(row.wasted_bytes),
            row.risk.clone(),
        ]
    };
    let lines: Vec<Vec<String>> = result.rows.iter().enumerate().map(line).collect();
    placed(&heads, &lines, |column| column == 1 || column == 7, |_| false, width)
}

fn advice(result: &AdviceResult) -> String {
    let advice = &result.recommendation;
    let row = result.rows.iter().find(|row| row.name == advice.row);
    let what = match row {
        Some(row) if result.rows.first().is_some_and(|first| first.name != row.name) => row.change.clone(),
        _ => "leave it as it is".into(),
    };
    let mut words = format!("Recommended: {what}.");
    advice.why.iter().for_each(|why| words += &format!(" {why}"));
    let mut out = "\n".to_owned() + &wrapped(&words, 0);
    for (title, lines) in [("Now", &advice.now), ("To keep it", &advice.lasting), ("To undo it", &advice.undo)] {
        if !lines.is_empty() {
            out += &format!("{title}\n");
            lines.iter().for_each(|line| out += &format!("  {}\n", clean(line)));
        }
    }
    out
}

fn verified(v: &Verification, result: &AdviceResult) -> String {
    let median = |times: &[f64]| {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let show = |at: usize| sorted.get(at).copied().map_or_else(|| NONE.to_owned(), digits);
        format!("{} s ({} to {})", show(sorted.len() / 2), show(0), show(sorted.len().saturating_sub(1)))
    };
    let most = |seen: Option<u64>| seen.map_or("not seen".into(), bytes);
    let what = result.rows.iter().find(|row| row.name == v.row).map_or(v.row.as_str(), |row| row.change.as_str());
    let mut out = format!(
        "\nVerified by {} runs each way, in turns: {}\n  processor time  {} as it is, {} changed\n  saved           \
         predicted {} %{}, measured {} % with a noise of {} %: {}\n  memory          {} as it is, {} changed ({} \
         predicted); in huge pages {} and {}\n",
        v.rounds,
        clean(what),
        median(&v.today_seconds),
        median(&v.changed_seconds),
        range(&v.predicted, percent),
        v.likely.map_or(String::new(), |likely| format!(", likely {} %", percent(likely))),
        percent(v.measured),
        percent(v.noise),
        v.verdict,
        most(v.resident_bytes[0]),
        most(v.resident_bytes[1]),
        if v.predicted_bytes < 0 {
            format!("-{}", bytes(v.predicted_bytes.unsigned_abs()))
        } else {
            format!("+{}", bytes(v.predicted_bytes as u64))
        },
        bytes(v.huge_bytes[0]),
        bytes(v.huge_bytes[1])
    );
    if let Some([today, changed]) = &v.served {
        out +=
            &format!("  the load took   {} as it is, {} changed\n", median(&today.seconds), median(&changed.seconds));
        if !today.per_second.is_empty() && !changed.per_second.is_empty() {
            let show = |served: &Served| median(&served.per_second).replace(" s (", " (");
            out += &format!("  requests a s    {} as it is, {} changed\n", show(today), show(changed));
        }
        for (one, other) in today.latencies.iter().zip(&changed.latencies) {
            let name = format!("{} % within", one.percentile);
            let times = [one, other].map(|latency| digits(latency.milliseconds));
            out += &format!("  {name:<15} {} ms as it is, {} ms changed\n", times[0], times[1]);
        }
    }
    out
}

/// One row per change (RFC 4180).
pub fn csv(result: &AdviceResult) -> String {
    let row = |row: &AdviceRow| {
        let mut fields = Map::new();
        fields.extend(rows::flat("", rows::json(row)));
        fields
    };
    rows::table(&result.rows.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use farreach_types::counts::{NativeRuns, Recommendation};

    pub fn example() -> AdviceResult {
        let interval = |low, high| Interval { low, high };
        let today = AdviceRow {
            name: "today".into(),
            change: "as it is".into(),
            walks: 1_000_000,
            walk_cycles: interval(2e7, 1.2e8),
            saved_percent: Some(interval(0.0, 0.0)),
            resident_bytes: 100 << 20,
            risk: "–".into(),
            ..AdviceRow::default()
        };
        let always = AdviceRow {
            name: "thp-always".into(),
            change: "THP always".into(),
            walks: 10,
            saved_percent: Some(interval(4.0, 24.0)),
            resident_bytes: 108 << 20,
            wasted_bytes: 8 << 20,
            risk: "all programs: more memory".into(),
            ..today.clone()
        };
        let nothing = AdviceRow { name: "x".into(), within_noise: true, ..today.clone() };
        AdviceResult {
            source: "a <program>".into(),
            about: "this processor".into(),
            native: Some(NativeRuns { runs: 3, median_seconds: 1.25, noise_percent: 2.0, ..NativeRuns::default() }),
            rows: vec![today, always, nothing],
            recommendation: Recommendation {
                row: "thp-always".into(),
                why: vec!["It saves.".into()],
                now: vec!["echo always".into()],
                ..Recommendation::default()
            },
            ..AdviceResult::default()
        }
    }

    #[test]
    fn people_see_rows_and_what_to_do() {
        let text = table(&example(), 120);
        for words in ["4.0 to 24", "+8 MiB", "within noise", "Recommended: THP always. It saves.\nNow\n  echo always\n"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        assert!(text.contains("noise 2.0 %, memory not seen\n"), "{text}");
        let seen = NativeRuns { resident_bytes: Some(3 << 20), ..example().native.unwrap() };
        let text = table(&AdviceResult { native: Some(seen), ..example() }, 120);
        assert!(text.contains("noise 2.0 %, 3 MiB at the peak\n"), "{text}");
        let mut given = TodayPrices { returned_touch: Some(1_500_000.0), ..TodayPrices::default() };
        assert!(notes(&given)[0].contains("2 MB of it takes 1.50M cycles more, in none"), "{:?}", notes(&given));
        given = TodayPrices { returned_touch: Some(0.0), huge_in_pieces: Some(true), ..given };
        assert!(notes(&given)[1].contains("may take more") && notes(&given)[0].contains("in pieces"));
        assert!(notes(&TodayPrices::default()).is_empty());
        assert!(csv(&example()).starts_with("name,change,machine,walks,"), "{}", csv(&example()));
    }
}
