//! The one recommendation.

use super::change::{Change, TODAY};
use super::kernel::Write;
use farreach_report::format::{bytes, rate, shown};
use farreach_types::counts::{AdviceRow, Interval, Recommendation};
use std::ffi::OsString;

/// Percent of run time below which a change is not worth its trouble.
const WORTH: f64 = 1.0;
/// Rows this close to the best, in percent of run time, are as good: then the one that touches less counts.
const CLOSE: f64 = 1.0;
/// A change that takes more memory than this part of today's is not recommended.
const MEMORY: f64 = 0.25;
/// Without a native run: cycles per instruction that are worth it.
const WORTH_CPI: f64 = 0.02;

/// What each row is judged by: its likely saving, or the one in the middle of its interval, and what it must exceed.
fn judged(row: &AdviceRow, noise: f64, instructions: u64) -> (f64, f64) {
    match &row.saved_percent {
        Some(percent) => (likely(row, percent), noise.max(WORTH)),
        None => (100.0 * row.saved_cycles.middle() / instructions.max(1) as f64, 100.0 * WORTH_CPI),
    }
}

fn likely(row: &AdviceRow, percent: &Interval) -> f64 {
    row.likely_percent.unwrap_or_else(|| percent.middle())
}

/// The index of the row to choose. `reach`: how much of the system each row touches.
pub fn choose(rows: &[AdviceRow], reach: &[u32], noise: f64, instructions: u64) -> usize {
    let Some(today) = rows.first() else { return 0 };
    let allowed = today.resident_bytes as f64 * (1.0 + MEMORY);
    let good: Vec<(usize, f64)> = rows
        .iter()
        .enumerate()
        .skip(1)
        .map(|(at, row)| (at, row, judged(row, noise, instructions)))
        .filter(|(_, row, (gain, least))| {
            gain > least && row.saved_cycles.low >= 0.0 && row.resident_bytes as f64 <= allowed
        })
        .map(|(at, _, (gain, _))| (at, gain))
        .collect();
    let best = good.iter().map(|(_, gain)| *gain).fold(0.0, f64::max);
    let close = good.iter().filter(|(_, gain)| *gain >= best - CLOSE);
    close.min_by(|a, b| reach[a.0].cmp(&reach[b.0]).then(b.1.total_cmp(&a.1))).map_or(0, |(at, _)| *at)
}

/// `3.2 to 20 % of run time, likely 12 %`.
fn saving(row: &AdviceRow, percent: &Interval) -> String {
    let show = |x: f64| if x < 0.05 { format!("{x:.1}") } else { rate(x) };
    let likely = row.likely_percent.map_or(String::new(), |likely| format!(", likely {} %", show(likely)));
    format!("{} to {} % of run time{likely}", show(percent.low), show(percent.high))
}

/// What to do. `command`: the program, if it is one.
pub fn recommendation(
    rows: &[AdviceRow],
    changes: &[Change],
    noise: f64,
    instructions: u64,
    command: &[OsString],
) -> Recommendation {
    let reach: Vec<u32> = changes.iter().map(|change| change.reach).collect();
    let at = choose(rows, &reach, noise, instructions);
    let (row, change) = (&rows[at], &changes[at]);
    let mut advice = Recommendation { row: row.name.clone(), ..Recommendation::default() };
    if row.name == TODAY {
        advice.why = nothing(rows, noise, instructions);
        return advice;
    }
    advice.why.push(match &row.saved_percent {
        Some(percent) => {
            // Several runs are never equal.
            let noise = if noise > 0.0 { format!("is {} %", rate(noise)) } else { "cannot be told from one".into() };
            format!("It saves {}; the noise of the native runs {noise}.", saving(row, percent))
        }
        None => format!(
            "It saves {} to {} cycles per 1000 instructions; what share of the run that is, only a run can tell.",
            rate(1000.0 * row.saved_cycles.low / instructions.max(1) as f64),
            rate(1000.0 * row.saved_cycles.high / instructions.max(1) as f64)
        ),
    });
    let today = &rows[0];
    advice.why.push(match row.resident_bytes.checked_sub(today.resident_bytes) {
        Some(more) => format!("It takes {} more memory at the peak.", bytes(more)),
        None => format!("It takes {} less memory at the peak.", bytes(today.resident_bytes - row.resident_bytes)),
    });
    if rows.iter().zip(&reach).skip(1).any(|(other, far)| {
        *far > reach[at] && judged(other, noise, instructions).0 > judged(row, noise, instructions).0
    }) {
        advice.why.push("Rows that save little more touch more of the system.".into());
    }
    lines(&mut advice, change, command);
    advice
}

/// Why nothing is to be changed.
fn nothing(rows: &[AdviceRow], noise: f64, instructions: u64) -> Vec<String> {
    let gain = |row: &&AdviceRow| judged(row, noise, instructions).0;
    let Some(best) = rows.iter().skip(1).max_by(|a, b| gain(a).total_cmp(&gain(b))) else {
        return vec!["Nothing can be changed here.".into()];
    };
    let name = &best.change;
    vec![match &best.saved_percent {
        Some(percent) if likely(best, percent) <= 0.0 => "No change saves time.".into(),
        Some(percent) if likely(best, percent) <= noise => format!(
            "The best change ({name}) saves {}, which is less than the noise of the native runs, {} %.",
            saving(best, percent),
            rate(noise)
        ),
        Some(percent) if likely(best, percent) <= WORTH => {
            format!("The best change ({name}) saves {}: not worth the trouble.", saving(best, percent))
        }
        Some(percent) => format!(
            "The best change ({name}) saves {}, but it may cost time, or takes more than a quarter more memory.",
            saving(best, percent)
        ),
        None => "No change saves as much as two cycles per 100 instructions without a quarter more memory.".into(),
    }]
}

/// Lines to type, files, and what undoes them.
fn lines(advice: &mut Recommendation, change: &Change, command: &[OsString]) {
    let root = |value: &str, write: &Write| format!("echo {value} | sudo tee {}", write.path().display());
    for write in &change.writes {
        advice.now.push(root(&write.value, write));
        advice.undo.push(root(&write.before, write));
    }
    if !change.writes.is_empty() {
        let file = "/etc/tmpfiles.d/huge-pages.conf";
        let kept =
            change.writes.iter().map(|write| format!("{file}: w {} - - - - {}", write.path().display(), write.value));
        advice.lasting.extend(kept);
        advice.undo.push(format!("sudo rm {file}"));
    }
    advice.lasting.extend(change.by_hand.iter().cloned());
    advice.undo.extend(change.undo_by_hand.iter().cloned());
    let mut words: Vec<OsString> = Vec::new();
    if change.no_huge_pages {
        let call = "import ctypes,os,sys; ctypes.CDLL(None).prctl(41,1,0,0,0); os.execvp(sys.argv[1],sys.argv[1:])";
        words.extend(["python3".into(), "-c".into(), call.into()]);
    }
    words.extend(if command.is_empty() { vec!["PROGRAM".into()] } else { command.to_vec() });
    words.extend(change.arguments.iter().map(OsString::from));
    let set: Vec<String> = change.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if !set.is_empty() || change.no_huge_pages || !change.arguments.is_empty() {
        let set = set.iter().map(|pair| pair.clone() + " ").collect::<String>();
        advice.now.push(set + &shown(&words));
        advice.undo.push("start the program as before".into());
    }
    for pair in set {
        advice.lasting.push(format!("sudo systemctl edit SERVICE: [Service] Environment={pair}"));
        advice.undo.push("sudo systemctl revert SERVICE".into());
    }
    if !change.arguments.is_empty() {
        advice
            .lasting
            .push(format!("the program's own configuration: {}", change.arguments.join(" ").trim_start_matches('-')));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, percent: (f64, f64), resident: u64) -> AdviceRow {
        let interval = Interval { low: percent.0, high: percent.1 };
        AdviceRow {
            name: name.into(),
            saved_percent: Some(interval),
            saved_cycles: interval,
            resident_bytes: resident,
            ..AdviceRow::default()
        }
    }

    fn chosen(rows: &[AdviceRow], reach: &[u32], noise: f64) -> String {
        rows[choose(rows, reach, noise, 0)].name.clone()
    }

    #[test]
    fn of_rows_that_are_close_the_one_that_touches_less() {
        let mut rows =
            vec![row(TODAY, (0.0, 0.0), 100), row("wide", (8.0, 12.0), 110), row("narrow", (7.0, 11.6), 110)];
        assert_eq!(chosen(&rows, &[0, 2, 0], 2.0), "narrow");
        assert_eq!(chosen(&rows, &[0, 2, 0], 11.0), TODAY, "within the noise");
        rows[1].saved_percent = Some(Interval { low: 12.0, high: 20.0 });
        assert_eq!(chosen(&rows, &[0, 2, 0], 2.0), "wide");
        rows[1].resident_bytes = 126;
        assert_eq!(chosen(&rows, &[0, 2, 0], 2.0), "narrow", "the other takes too much memory");
    }

    #[test]
    fn one_run_tells_no_noise() {
        let rows = vec![row(TODAY, (0.0, 0.0), 100), row("good", (10.0, 20.0), 100)];
        let changes = ["today", "good"].map(|name| Change { name: name.into(), ..Change::default() });
        let why = |noise| recommendation(&rows, &changes, noise, 0, &[]).why[0].clone();
        assert!(why(0.0).ends_with("the noise of the native runs cannot be told from one."), "{}", why(0.0));
        assert!(why(2.0).ends_with("the noise of the native runs is 2.00 %."), "{}", why(2.0));
    }

    #[test]
    fn what_may_cost_time_is_not_chosen() {
        let rows = vec![row(TODAY, (0.0, 0.0), 100), row("risky", (-1.0, 20.0), 100)];
        assert_eq!(chosen(&rows, &[0, 0], 0.5), TODAY);
        assert_eq!(chosen(&rows[..1], &[0], 0.5), TODAY);
        assert!(nothing(&rows[..1], 0.5, 0)[0].contains("Nothing can be changed"));
    }

    #[test]
    fn lines_and_what_undoes_them() {
        let write = Write { file: "sys/a".into(), value: "always".into(), before: "madvise".into() };
        let change = Change {
            writes: vec![write],
            environment: vec![("A".into(), "b".into())],
            arguments: vec!["--c".into()],
            ..Change::default()
        };
        let mut advice = Recommendation::default();
        lines(&mut advice, &change, &["prog".into(), "x y".into()]);
        assert_eq!(advice.now, ["echo always | sudo tee /sys/a", "A=b prog 'x y' --c"]);
        assert!(advice.undo.contains(&"echo madvise | sudo tee /sys/a".to_owned()));
        assert!(advice.lasting[0].ends_with("w /sys/a - - - - always"));
    }
}
