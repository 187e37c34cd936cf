//! The contiguity of a process as text tables and as CSV.

use super::csv as rows;
use super::format::{NONE, bytes, clean, count, digits, rate};
use super::grid::lines;
use farreach_types::counts::{ContiguityResult, ContiguitySample, Ranges, RegionContiguity};
use serde_json::{Map, Value as Json};

/// Regions in the text table; the other reports have all.
const REGIONS: usize = 12;
const PAGE: u64 = 4096;

/// The text tables.
pub fn table(result: &ContiguityResult, width: usize) -> String {
    let peak = &result.peak;
    let mut out = format!("{}\n", clean(&result.source));
    out += &format!("{} present, {} of it in huge pages", bytes(peak.pages * PAGE), bytes(peak.huge_pages * PAGE));
    if result.samples.len() > 1 {
        out += &format!(
            "; the sample with the most memory, after {} s, of {}",
            digits(peak.seconds),
            result.samples.len()
        );
    }
    out += "\n\n";
    let kinds = [("virtual (ideal)", Some(&peak.virtual_ranges)), ("physical (actual)", peak.physical_ranges.as_ref())];
    let known: Vec<(&str, &Ranges)> = kinds.into_iter().filter_map(|(name, ranges)| Some((name, ranges?))).collect();
    out += &statistics(&known, width);
    if !result.frames_visible {
        out += "  Frames are not visible to this user (that takes CAP_SYS_ADMIN): this is the virtual half, and below \
what would be
  needed if memory were placed ideally.\n";
    }
    out.push('\n');
    out += &histogram(&known, width);
    out.push('\n');
    out += &needs(peak, width);
    out.push('\n');
    out += &regions(&result.regions, width);
    if result.samples.len() > 1 {
        out.push('\n');
        out += &over_time(&result.samples, width);
    }
    out
}

fn statistics(known: &[(&str, &Ranges)], width: usize) -> String {
    let heads = [
        ["", "", "for", "for", "for", "largest", "median", "mean", "of 8 pages", "their"],
        ["ranges", "all", "50 %", "90 %", "99 %", "%", "pages", "pages", "and more", "%"],
    ]
    .map(|line| line.map(str::to_owned).to_vec());
    let row = |(name, r): &(&str, &Ranges)| {
        let [half, most, nearly] = r.cover.map(count);
        let (largest, mean, share) = (rate(r.largest_percent), digits(r.mean_pages), rate(r.percent_in_8));
        vec![
            (*name).to_owned(),
            count(r.count),
            half,
            most,
            nearly,
            largest,
            count(r.median_pages),
            mean,
            count(r.count_8),
            share,
        ]
    };
    lines(&heads, &known.iter().map(row).collect::<Vec<_>>(), width)
}

fn histogram(known: &[(&str, &Ranges)], width: usize) -> String {
    let longest = known.iter().map(|(_, r)| r.histogram.len()).max().unwrap_or(0);
    let mut heads = [vec![String::new()], vec!["pages of a range".to_owned()]];
    for (name, _) in known {
        let (first, _) = name.split_once(' ').unwrap_or((name, ""));
        heads[0].extend([first.to_owned(), first.to_owned()]);
        heads[1].extend(["ranges".to_owned(), "memory".to_owned()]);
    }
    let cells = |i: usize| {
        let (from, to) = (1u64 << i, (1u64 << (i + 1)) - 1);
        let mut row = vec![if from == to { from.to_string() } else { format!("{from} to {to}") }];
        for (_, ranges) in known {
            let [ranges, pages] = ranges.histogram.get(i).copied().unwrap_or_default();
            row.extend(if ranges == 0 {
                [NONE.to_owned(), NONE.to_owned()]
            } else {
                [count(ranges), bytes(pages * PAGE)]
            });
        }
        row
    };
    let some = |i: &usize| known.iter().any(|(_, r)| r.histogram.get(*i).is_some_and(|[n, _]| *n > 0));
    lines(&heads, &(0..longest).filter(some).map(cells).collect::<Vec<_>>(), width)
}

fn needs(peak: &ContiguitySample, width: usize) -> String {
    let heads = [["", "entries", "entries"], ["to reach everything", "for all", "for 99 %"]]
        .map(|line| line.map(str::to_owned).to_vec());
    let row =
        |need: &farreach_types::counts::Need| vec![need.hardware.clone(), count(need.entries), count(need.entries_99)];
    lines(&heads, &peak.needs.iter().map(row).collect::<Vec<_>>(), width)
}

fn regions(regions: &[RegionContiguity], width: usize) -> String {
    let heads = [["", "", "in huge", "virtual", "physical"], ["region", "present", "pages", "ranges", "ranges"]]
        .map(|line| line.map(str::to_owned).to_vec());
    let row = |r: &RegionContiguity| {
        let physical = r.physical_ranges.map_or_else(|| NONE.to_owned(), count);
        vec![clean(&r.region), bytes(r.pages * PAGE), bytes(r.huge_pages * PAGE), count(r.virtual_ranges), physical]
    };
    let text = lines(&heads, &regions.iter().take(REGIONS).map(row).collect::<Vec<_>>(), width);
    match regions.len().saturating_sub(REGIONS) {
        0 => text,
        more => format!("{text}  and {more} more\n"),
    }
}

fn over_time(samples: &[ContiguitySample], width: usize) -> String {
    let heads = [
        ["", "", "in huge", "virtual", "for", "physical", "for"],
        ["seconds", "present", "pages", "ranges", "99 %", "ranges", "99 %"],
    ]
    .map(|line| line.map(str::to_owned).to_vec());
    let row = |s: &ContiguitySample| {
        let physical = s.physical_ranges.as_ref();
        let mut cells = vec![digits(s.seconds), bytes(s.pages * PAGE), bytes(s.huge_pages * PAGE)];
        cells.extend([count(s.virtual_ranges.count), count(s.virtual_ranges.cover[2])]);
        cells.extend(
            [physical.map(|r| r.count), physical.map(|r| r.cover[2])].map(|n| n.map_or_else(|| NONE.to_owned(), count)),
        );
        cells
    };
    lines(&heads, &samples.iter().map(row).collect::<Vec<_>>(), width)
}

/// One row per sample (RFC 4180), the fields under the names they have in the JSON.
pub fn csv(result: &ContiguityResult) -> String {
    let row = |sample: &ContiguitySample| {
        let mut fields = Map::new();
        fields.insert("source".into(), Json::from(result.source.as_str()));
        let mut flat = rows::flat("", rows::json(sample));
        // Lists get no columns, except the needs of hardware, one column each.
        flat.retain(|name, value| !value.is_array() && name != "needs");
        fields.extend(flat);
        for (name, ranges) in
            [("virtual_ranges", Some(&sample.virtual_ranges)), ("physical_ranges", sample.physical_ranges.as_ref())]
        {
            for (percent, n) in [50, 90, 99].iter().zip(ranges.map_or([0; 3], |r| r.cover)) {
                fields.insert(format!("{name}.cover_{percent}"), ranges.map_or(Json::Null, |_| n.into()));
            }
        }
        for need in &sample.needs {
            fields.insert(format!("entries.{}", need.hardware), need.entries.into());
        }
        fields
    };
    rows::table(&result.samples.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_cost::contiguity::{Run, sample};

    fn result(pfn: Option<u64>) -> ContiguityResult {
        let runs = [
            Run { vpn: 16, pages: 40, pfn, permission: 3 },
            Run { vpn: 100, pages: 1, pfn: pfn.map(|f| f + 100), permission: 1 },
        ];
        let peak = sample(&runs, 0.0, 0);
        let heap = RegionContiguity { region: "heap".into(), pages: 40, virtual_ranges: 1, ..Default::default() };
        let samples = vec![peak.clone(), ContiguitySample { seconds: 2.0, ..peak.clone() }];
        ContiguityResult {
            source: "x".into(),
            frames_visible: pfn.is_some(),
            peak,
            regions: vec![heap],
            samples,
            ..Default::default()
        }
    }

    #[test]
    fn people_see_both_halves_or_why_not() {
        let both = table(&result(Some(16)), usize::MAX);
        for words in
            ["164 KiB present", "virtual (ideal)", "physical (actual)", "32 to 63", "range TLB", "heap", "2.00"]
        {
            assert!(both.contains(words), "{words}: {both}");
        }
        let half = table(&result(None), usize::MAX);
        assert!(half.contains("Frames are not visible") && !half.contains("physical (actual)"), "{half}");
    }

    #[test]
    fn csv_has_a_row_per_sample() {
        let text = csv(&result(Some(16)));
        let mut lines = text.lines();
        let heads = lines.next().unwrap();
        for name in ["seconds", "pages", "virtual_ranges.count", "physical_ranges.cover_99", "entries.range TLB"] {
            assert!(heads.split(',').any(|head| head == name), "{name}: {heads}");
        }
        assert_eq!(lines.count(), 2);
    }
}
