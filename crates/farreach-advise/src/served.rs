//! What the load of a server says about it: requests a second and percentiles of latency, in the words of the usual
//! tools.

use farreach_types::counts::{Latency, Served};

/// Of one run of a load.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Said {
    /// Seconds that the load took.
    pub seconds: f64,
    /// Requests a second: of several figures the harmonic mean, as if each were for as many requests.
    pub per_second: Option<f64>,
    /// Percentile and milliseconds: of several figures the largest.
    pub latencies: Vec<(f64, f64)>,
}

/// The first number in a text that begins with one.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The number behind one of these words.
fn behind(line: &str, words: &[&str]) -> Option<f64> {
    words.iter().find_map(|word| number(line.split_once(word)?.1))
}

/// Requests a second: redis-benchmark, ab, wrk and hey, pgbench, memcaslap, sysbench.
fn rate(line: &str) -> Option<f64> {
    if let Some((before, _)) = line.split_once(" requests per second") {
        return before.split_whitespace().last()?.parse().ok();
    }
    if line.trim_start().starts_with("transactions:") {
        return number(line.split_once('(')?.1);
    }
    behind(line, &["Requests per second:", "Requests/sec:", "tps = ", " TPS: "])
}

/// A time in milliseconds; those without a unit are such.
fn milliseconds(text: &str) -> Option<f64> {
    let text = text.trim().trim_start_matches("in ");
    let value = number(text)?;
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start();
    let unit: String = unit.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
    match unit.as_str() {
        "" | "ms" | "msec" => Some(value),
        "us" => Some(value / 1e3),
        "s" | "secs" => Some(value * 1e3),
        _ => None,
    }
}

/// Percentiles of a line: `p50=0.2 msec`; `99%  3`, `99% in 0.01 secs`; `95th percentile: 7.8`.
fn percentiles(line: &str) -> Vec<(f64, f64)> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("p") {
        if let Some((percent, time)) = line[at + 1..].split_once('=')
            && let (Ok(percent), Some(time)) = (percent.parse(), milliseconds(time))
        {
            found.push((percent, time));
        }
    }
    let pair = |mark: &str| {
        let (percent, time) = line.trim().split_once(mark)?;
        Some((percent.parse().ok()?, milliseconds(time)?))
    };
    found.extend(pair("%").or_else(|| pair("th percentile:")));
    found
}

/// What the output of a load says.
pub fn said(output: &str, seconds: f64) -> Said {
    let lines: Vec<&str> = output.split(['\n', '\r']).collect();
    let rates: Vec<f64> = lines.iter().filter_map(|line| rate(line)).filter(|rate| *rate > 0.0).collect();
    let mut latencies: Vec<(f64, f64)> = lines.iter().flat_map(|line| percentiles(line)).collect();
    // The table of redis-benchmark: names above figures.
    for pair in lines.windows(2) {
        let names: Vec<&str> = pair[0].split_whitespace().collect();
        if names.contains(&"p50") {
            let values = pair[1].split_whitespace().map(|word| word.parse().ok());
            let named = names.iter().zip(values);
            latencies.extend(named.filter_map(|(name, value)| Some((name.strip_prefix('p')?.parse().ok()?, value?))));
        }
    }
    latencies.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    latencies.dedup_by_key(|(percent, _)| *percent);
    let per_second = match rates.as_slice() {
        [] => None,
        [one] => Some(*one),
        several => Some(several.len() as f64 / several.iter().map(|rate| 1.0 / rate).sum::<f64>()),
    };
    Said { seconds, per_second, latencies }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// All runs one way; nothing without a load.
pub fn served(runs: &[Option<Said>]) -> Option<Served> {
    let runs: Vec<&Said> = runs.iter().flatten().collect();
    let first = runs.first()?;
    let at = |percentile: f64| {
        let values = runs.iter().filter_map(|run| run.latencies.iter().find(|(p, _)| *p == percentile));
        Latency { percentile, milliseconds: median(values.map(|(_, time)| *time).collect()) }
    };
    Some(Served {
        seconds: runs.iter().map(|run| run.seconds).collect(),
        per_second: runs.iter().filter_map(|run| run.per_second).collect(),
        latencies: first.latencies.iter().map(|(percentile, _)| at(*percentile)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(output: &str) -> (Option<f64>, Vec<(f64, f64)>) {
        let said = said(output, 1.0);
        (said.per_second, said.latencies)
    }

    #[test]
    fn the_usual_tools_are_understood() {
        let redis = "SET: rps=0.0 (overall: 0.0) avg_msec=nan\rSET: 60000.00 requests per second, p50=0.30 msec\n\n\
                     GET: 120000.00 requests per second, p50=0.20 msec\n";
        assert_eq!(of(redis), (Some(80_000.0), vec![(50.0, 0.3)]));
        let table = "  throughput summary: 91324.20 requests per second\n  latency summary (msec):\n\
                     \x20         avg       min       p50       p95       p99       max\n\
                     \x20       0.297     0.104     0.271     0.4     0.5  9\n";
        assert_eq!(of(table), (Some(91_324.2), vec![(50.0, 0.271), (95.0, 0.4), (99.0, 0.5)]));
        let ab = "Requests per second:    1234.50 [#/sec] (mean)\n  50%      1\n  99%      3\n 100%      9 (longest)\n";
        assert_eq!(of(ab), (Some(1234.5), vec![(50.0, 1.0), (99.0, 3.0), (100.0, 9.0)]));
        assert_eq!(of("latency average = 0.9 ms\ntps = 1014.6 (without initial)"), (Some(1014.6), vec![]));
        let sysbench = "    transactions:     500    (234.5 per sec.)\n    queries: 10000 (4690.1 per sec.)\n\
                        \x20        95th percentile:             7.84\n";
        assert_eq!(of(sysbench), (Some(234.5), vec![(95.0, 7.84)]));
        assert_eq!(of("Run time: 2.6s Ops: 300000 TPS: 113000 Net_rate: 60M/s"), (Some(113_000.0), vec![]));
        assert_eq!(of("Requests/sec:  99.5\n    99%  120.00us\n  50% in 0.002 secs"), {
            (Some(99.5), vec![(50.0, 2.0), (99.0, 0.12)])
        });
        assert_eq!(of("filled 60000 keys, 100% done\n"), (None, vec![]));
    }

    #[test]
    fn medians_of_runs() {
        let run = |rate, time| Some(Said { seconds: 1.0, per_second: Some(rate), latencies: vec![(99.0, time)] });
        let all = served(&[run(10.0, 3.0), run(30.0, 1.0), run(20.0, 2.0)]).unwrap();
        assert_eq!(all.per_second, [10.0, 30.0, 20.0]);
        assert_eq!(all.latencies, [Latency { percentile: 99.0, milliseconds: 2.0 }]);
        assert_eq!(served(&[None]), None);
    }
}
