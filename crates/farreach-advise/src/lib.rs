//! What to change on this machine for a program: kinds of huge pages, what each would save and cost, and proof.
//!
//! [`advise`] runs the program by itself for its time (`trial`, `subject`), makes changes of what the system and the
//! program are (`changes`, `thp`, `pool`, `text`, `base_page`), simulates a machine for each (`simulate`), measures
//! prices (`prices`, `loads`), and makes rows of what the machines counted (`rows`) and a recommendation of the rows
//! (`recommend`). Then it may try rows (`verify`, `proof`).
//!
//! Owns changes, their rows and their trials, as data. Must not know terminals: what happens meanwhile it tells as
//! [`Event`]s. Messages call settings by the names that the options of `farreach advise` have.
#![forbid(unsafe_code)]

mod base_page;
mod change;
mod changes;
mod kept;
mod kernel;
mod loads;
mod pool;
mod prices;
mod proof;
mod recommend;
mod rows;
mod served;
mod settings;
mod simulate;
mod subject;
mod text;
mod thp;
mod trial;
mod verify;

pub use proof::ROWS;
pub use settings::{Advice, Event, Listen, ServerLoad, Settings};
pub use trial::NotStarted;

use change::{Change, TODAY};
use farreach_live::Watch;
use farreach_live::system::System;
use farreach_machine::MachineSpec;
use farreach_native::this;
use farreach_types::counts::{ADVICE_SCHEMA, AdviceResult, TodayPrices};
use farreach_types::{Error, Result, bail, ensure};
use farreach_workloads::{Load, Output, feed};
use kept::Kept;
use rows::Run;
use simulate::simulate;

/// Advice for a program. It may take minutes; signals end it, as they end a command.
///
/// # Errors
/// The machine, the program or a row is refused; the program or its load fails; there is no lock for settings.
pub fn advise(settings: &Settings, listen: Listen) -> Result<Advice> {
    let of_program = !settings.command.is_empty();
    ensure!(of_program != settings.file.is_some(), "advice is for a program or for a trace: give one of them");
    ensure!(settings.runs > 0, "a program must run at least once by itself");
    let signals = Watch::begin();
    let base = this::parse(&settings.machine, 0)?;
    let here = settings.system_root.as_os_str() == "/";
    let system = if here { System::here() } else { System::read(&settings.system_root) };
    proof::refuse(settings, &system, &base, listen)?;
    if let Some(file) = &settings.file {
        feed::check(file, settings.format.as_deref())?;
    }
    let mut lock = settings.apply.then(|| verify::lock(&settings.system_root, listen)).transpose()?;
    let load = load(settings)?;
    let native = subject::native_runs(settings, load.as_ref(), &signals, &system)?;
    let about = subject::about(settings, native.as_deref());
    let (mut all, mut left_out) = changes::changes(&system, &about).map_err(Error::Failed)?;
    all.extend(
        base_page::change(&system, &about, &base)
            .map_err(|why| Error::Failed(format!("{}: {why}", settings.machine)))?,
    );
    // Before the recordings, which take minutes.
    for name in &settings.change {
        match name.as_str() {
            ALL => all.iter().filter(|c| c.untried.is_none()).try_for_each(|c| verify::check(c, settings.apply))?,
            name => verify::check(find(&all, name)?, settings.apply)?,
        }
    }
    let is_this = settings.machine.split(':').next() == Some(this::NAME);
    let mut kept = Kept::open(settings.measure);
    let coalesces = is_this && base.params.has(COALESCE) && loads::coalesces(&base, &mut kept, &signals)?;
    let keys = if is_this { more_keys(&base, coalesces) } else { String::new() };
    let all = all.into_iter().map(|change| Change { keys: change.keys + &keys, ..change }).collect();
    let seconds = native.as_ref().and_then(|runs| verify::median(runs.iter().map(verify::seconds)));
    let sample = simulate::sample(settings, seconds);
    let work = simulate::Work { settings, load: load.as_ref(), system: &system, sample };
    let (mut simulated, result, early) = simulate(work, all, &mut left_out, listen)?;
    // Nothing asked for huge pages.
    let counts = simulated[0].result.counts.clone();
    simulated.retain(|s| s.change.name == TODAY || !s.change.no_huge_pages || s.result.counts != counts);
    let prices = if is_this {
        let program = prices::Footprint {
            touched_bytes: result.workload.touched_bytes,
            walks: &simulated[0].result.counts.tlb.walk_distances,
        };
        let machine = prices::Machine {
            coalesces,
            available_bytes: system.available_bytes.unwrap_or(1 << 30),
            reports_free_pages: system.reports_free_pages == Some(true),
        };
        // What was simulated took minutes.
        loads::pinned(|| prices::measured(&base, &machine, &program, &mut kept, &signals)).unwrap_or_else(|error| {
            let described = prices::described_prices(&base, &simulated[0].result);
            let source = format!("{}, since they could not be measured: {error}", described.source);
            TodayPrices { source, ..described }
        })
    } else {
        prices::described_prices(&base, &simulated[0].result)
    };
    if let Err(why) = kept.save() {
        listen(Event::Says(format!("prices are not kept: {why}")));
    }
    let native = native.map(|runs| subject::summary(&runs, &about));
    let whole = result.workload.stopped.is_none();
    let run = native.as_ref().filter(|_| whole).map(|native| Run {
        cycles: native.median_seconds * native.gigahertz * 1e9,
        user_cycles: native.user_seconds * native.gigahertz * 1e9,
        noise: native.noise_percent,
    });
    let serial_share = rows::serial_share(&simulated[0].result, &prices, run);
    let rows = rows::rows(&simulated, &prices, run);
    let changes: Vec<Change> = simulated.into_iter().map(|s| s.change).collect();
    let (noise, instructions) = (run.map_or(0.0, |run| run.noise), result.workload.instructions);
    let recommendation = recommend::recommendation(&rows, &changes, noise, instructions, &settings.command);
    let mut advice = AdviceResult {
        schema: ADVICE_SCHEMA.into(),
        source: result.workload.source,
        machine: settings.machine.clone(),
        about: base.about.clone(),
        settings: subject::in_force(&system, &about),
        instructions,
        stopped: result.workload.stopped,
        windows: result.workload.windows,
        native,
        prices,
        serial_share,
        rows,
        left_out,
        recommendation,
        verifications: Vec::new(),
    };
    let mut unproved = None;
    if let Some(rounds) = settings.verify {
        let program = verify::Tried {
            command: &settings.command,
            stdin: settings.stdin.as_ref(),
            load: load.as_ref(),
            root: &settings.system_root,
            signals: &signals,
            system: &system,
        };
        match &early {
            Some(early) => {
                listen(Event::Says(format!("--verify: {} before, so nothing is compared", early.words())));
            }
            None => unproved = proof::prove(settings, &changes, &mut advice, &program, rounds, &mut lock, listen),
        }
    }
    Ok(Advice { result: advice, early, unproved })
}

/// Every row, for `--change`.
pub const ALL: &str = "all";
/// The key of pages that share an entry.
const COALESCE: &str = "coalesce";
/// The key of walks by reuse distance.
const WALK_DISTANCES: &str = "walk_distances";

/// Keys of all machines of the processor at hand: entries hold one page each unless they were seen to hold more, and
/// walks are counted by distance.
fn more_keys(base: &MachineSpec, coalesces: bool) -> String {
    let mut keys = String::new();
    if base.params.has(COALESCE) && !coalesces {
        keys += &format!(",{COALESCE}=4K");
    }
    if base.params.has(WALK_DISTANCES) {
        keys += &format!(",{WALK_DISTANCES}=true");
    }
    keys
}

/// The row of this name.
fn find<'a>(all: &'a [Change], name: &str) -> Result<&'a Change> {
    let names = || all.iter().skip(1).map(|change| change.name.as_str()).collect::<Vec<_>>().join(", ");
    match all.iter().skip(1).find(|change| change.name == name) {
        Some(change) => Ok(change),
        None if all.len() == 1 => bail!("--change {name}: there is nothing to change here"),
        None => bail!("--change {name}: one of {} is allowed", names()),
    }
}

/// The load of a server.
fn load(settings: &Settings) -> Result<Option<Load>> {
    let Some(ServerLoad { command, port }) = &settings.load else { return Ok(None) };
    let shell = farreach_live::tool::find("sh").map_err(Error::System)?;
    let commands = vec![vec![shell.into(), "-c".into(), command.into()]];
    let directory = std::env::current_dir().map_err(Error::System)?;
    Ok(Some(Load { commands, port: *port, directory, output: Output::unnamed()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that are not there are left out, so their names must be right.
    #[test]
    fn keys_of_the_processor_at_hand() {
        let base = MachineSpec::parse("today/zen3", 0).unwrap();
        assert_eq!(more_keys(&base, false), ",coalesce=4K,walk_distances=true");
        assert_eq!(more_keys(&base, true), ",walk_distances=true");
        assert_eq!(more_keys(&MachineSpec::parse("t94/single", 0).unwrap(), false), "");
    }

    fn gups(change: &[&str], verify: Option<u64>) -> Settings {
        Settings {
            file: Some("workload:gups:size=64M,references=200000".into()),
            machine: "today/zen3".into(),
            change: change.iter().map(|name| (*name).to_owned()).collect(),
            verify,
            ..Settings::default()
        }
    }

    /// The kernel's settings of another machine, below a folder.
    fn root(mode: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let thp = root.path().join(kernel::THP);
        std::fs::create_dir_all(&thp).unwrap();
        std::fs::write(thp.join("enabled"), mode).unwrap();
        std::fs::write(thp.join("hpage_pmd_size"), "2097152\n").unwrap();
        root
    }

    #[test]
    fn advice_is_data() {
        let root = root("always [madvise] never\n");
        let settings = Settings { system_root: root.path().into(), ..gups(&[], None) };
        let mut events = [0; 4];
        let advice = advise(&settings, &mut |event| match event {
            Event::Begins { .. } => events[0] += 1,
            Event::Progress(_) => events[1] += 1,
            Event::Ends => events[2] += 1,
            Event::Says(_) => events[3] += 1,
        });
        let Advice { result, early, unproved } = advice.unwrap();
        assert!(early.is_none() && unproved.is_none());
        let names: Vec<&str> = result.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["today", "thp-always"]);
        assert!(result.rows[1].walks < result.rows[0].walks, "huge pages need fewer walks");
        assert_eq!(result.recommendation.row, "thp-always");
        assert!(events[0] == 1 && events[1] > 0 && events[2] == 1 && events[3] == 0, "{events:?}");
    }

    #[test]
    fn what_cannot_be_asked_is_refused_before_anything_runs() {
        let root = root("[always] madvise never\n");
        let refused = |settings: Settings| {
            let settings = Settings { system_root: root.path().into(), ..settings };
            advise(&settings, &mut |event| assert!(matches!(event, Event::Says(_)))).unwrap_err().to_string()
        };
        assert!(refused(Settings::default()).contains("a program or for a trace"));
        assert!(refused(gups(&["no-row"], Some(1))).contains("--change no-row: one of thp-always"));
        let error = refused(gups(&["thp-madvise"], Some(1)));
        assert!(error.contains("changes settings of the kernel") && error.contains("--apply"), "{error}");
        assert!(refused(Settings { file: Some("/no/such/file".into()), ..gups(&[], None) }).contains("/no/such/file"));
    }
}
