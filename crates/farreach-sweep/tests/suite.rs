//! Points, passes and the cache.

use farreach_machine::{Lab, MachineSpec, Options, Sample};
use farreach_sweep::{Answer, Cache, Estimate, Extent, Pass, Point, Program, Wanted, Work, plan};
use farreach_trace::{Cut, Interleaved, Piece};
use std::path::PathBuf;

const GUPS: &str = "workload:gups:size=1M,references=20K";

fn program(text: &str) -> Program {
    Program::kernel(text).expect("a kernel").expect("a kernel")
}

fn spec(machine: &str) -> MachineSpec {
    MachineSpec::parse(machine, 0).expect(machine)
}

fn point(machine: &str, seed: u64, program: &Program, extent: &Extent) -> Point {
    Point::new(&MachineSpec::parse(machine, seed).expect(machine), seed, program, extent).expect(machine)
}

fn wanted(machine: &str, program: &Program) -> Wanted {
    let has_caches = Wanted::has_caches(&spec(machine));
    let point = point(machine, 0, program, &Extent::default());
    Wanted { program: program.clone(), label: "gups".into(), extent: Extent::default(), has_caches, point }
}

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let made = tempfile::Builder::new().prefix(&format!("farreach-sweep-{name}-")).tempdir();
        Dir(made.expect("a temporary folder").keep())
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_key_is_of_all_that_counts_and_nothing_else() {
    let gups = program(GUPS);
    let key = |machine, seed, program: &Program, limit| point(machine, seed, program, &Extent::up_to(limit)).key;
    let sampled =
        |one_in| point("t94/single:entries=32", 0, &program(GUPS), &Extent { sample: one_in, ..Extent::default() }).key;
    let one = key("t94/single:entries=32", 0, &gups, None);
    let other = program("workload:gups:size=1M,references=20K,seed=1");
    let trace =
        |hash: &str, file: &str| Program::Trace { file: file.into(), format: None, hash: hash.into(), bytes: 1 };
    for (same, different) in [
        (key("t94/single:entries=32,ways=0", 0, &gups, None), key("t94/single:entries=33", 0, &gups, None)),
        (key("t94/single:entries=32,seed=0", 5, &gups, None), key("t94/single:entries=32", 5, &gups, None)),
        (key("t94/single:entries=32", 0, &gups, None), key("t94/single:entries=32", 0, &gups, Some(7))),
        (key("t94/single:entries=32", 0, &program(GUPS), None), key("t94/single:entries=32", 0, &other, None)),
    ] {
        assert_eq!(same, one);
        assert_ne!(different, one);
    }
    assert_eq!(sampled(None), one);
    assert!(sampled(Some(8)) != one && sampled(Some(8)) != sampled(Some(16)), "an estimate is another result");
    let moved = ["a", "b"].map(|file| key("t94/single", 0, &trace("h", file), None));
    assert_eq!(moved[0], moved[1], "a trace is its content");
    assert_ne!(moved[0], key("t94/single", 0, &trace("i", "a"), None));
}

#[test]
fn a_piece_of_a_program_is_what_the_machines_see() {
    let machine = "t94/single:entries=8";
    let piece = Piece { skip: 5_000, warmup: 3_000, ..Piece::default() };
    let extent = Extent { limit: Some(7_000), piece: piece.clone(), ..Extent::default() };
    let gups = program(GUPS);
    let wanted = |extent: &Extent| {
        let point = point(machine, 0, &gups, extent);
        Wanted { program: gups.clone(), label: "gups".into(), extent: extent.clone(), has_caches: false, point }
    };
    let passes = plan(vec![wanted(&extent), wanted(&Extent::default())], 8, 1);
    assert_eq!(passes.len(), 2, "another piece is another pass");
    let with_piece = passes.iter().find(|pass| pass.extent == extent).expect("it is one of them");
    let text = serde_json::to_string(with_piece).expect("plain");
    assert_eq!(serde_json::from_str::<Pass>(&text).expect("as written"), *with_piece);
    let answers = with_piece.run(1, |_| true).expect("a kernel").expect("not stopped");
    let [(key, Answer::Machine(measured))] = &answers[..] else { panic!("{answers:?}") };
    assert_ne!(*key, wanted(&Extent::up_to(Some(7_000))).point.key);
    let options = Options { limit: Some(7_000), warmup: Some(3_000), ..Options::default() };
    let mut lab = Lab::new(vec![spec(machine)], options).expect("a preset");
    lab.run(&mut Cut::new(gups.open().expect("a kernel"), piece)).expect("a kernel");
    let expected = lab.result("gups", None);
    assert_eq!(measured.machine.counts, expected.machines[0].counts);
    assert_eq!(measured.workload.instructions, 7_000);
    assert_eq!(measured.workload.piece.as_ref().expect("it was cut").skipped_instructions, 5_000);
    let too_far = Extent { piece: Piece { skip: 1 << 40, ..Piece::default() }, ..Extent::default() };
    let pass = plan(vec![wanted(&too_far)], 8, 1).remove(0);
    let why = pass.run(1, |_| true).expect_err("it is shorter").to_string();
    assert!(why.contains("gups") && why.contains("--skip 1099511627776: the run ended after"), "{why}");
}

#[test]
fn programs_in_turn_and_phases_are_those_of_a_single_run() {
    let parts = [program(GUPS), program("workload:join:references=20K")];
    let both = Program::Interleaved(parts.to_vec(), 3_000);
    let piece = Piece { skip: 2_000, warmup: 1_000, every: Some(4_000), ..Piece::default() };
    let extent = Extent { limit: Some(30_000), piece: piece.clone(), ..Extent::default() };
    let machines = ["t94/single:entries=8", "since-os/linux"];
    let wanted = |program: &Program, extent: &Extent, machine| Wanted {
        program: program.clone(),
        label: "both".into(),
        extent: extent.clone(),
        has_caches: false,
        point: point(machine, 0, program, extent),
    };
    let passes = plan(machines.map(|machine| wanted(&both, &extent, machine)).into(), 32, 1);
    assert_eq!(passes.len(), 1);
    let text = serde_json::to_string(&passes[0]).expect("plain");
    let pass: Pass = serde_json::from_str(&text).expect("as written");
    assert_eq!(pass, passes[0]);
    let answers = pass.run(1, |_| true).expect("kernels").expect("not stopped");
    let options = Options { limit: extent.limit, warmup: Some(1_000), ..Options::default() };
    let mut lab = Lab::new(machines.map(spec).into(), options).expect("machines");
    let sources = parts.iter().map(|part| part.open().expect("a kernel")).collect();
    lab.run(&mut Cut::new(Interleaved::new(sources, 3_000), piece)).expect("kernels");
    let alone = lab.result("both", None);
    for ((_, answer), expected) in answers.iter().zip(&alone.machines) {
        let Answer::Machine(measured) = answer else { panic!("a machine") };
        assert_eq!((&measured.machine.counts, &measured.machine.phases), (&expected.counts, &expected.phases));
        assert_eq!(expected.phases.len(), 8, "30000 instructions in phases of 4000");
        assert_eq!(measured.workload.processes, 2);
    }
    // Each of these is another result.
    let whole = Extent::default();
    let phases = |every| Extent { piece: Piece { every: Some(every), ..Piece::default() }, ..Extent::default() };
    let in_turn = |slice| Program::Interleaved(parts.to_vec(), slice);
    let reversed = Program::Interleaved(parts.iter().rev().cloned().collect(), 3_000);
    let keys = [
        (&both, &whole),
        (&in_turn(3_001), &whole),
        (&reversed, &whole),
        (&Program::Chain(parts.to_vec()), &whole),
        (&both, &phases(4_000)),
        (&both, &phases(4_001)),
    ];
    let keys = keys.map(|(program, extent)| wanted(program, extent, machines[0]).point.key);
    assert_eq!(std::collections::BTreeSet::from(keys.clone()).len(), keys.len());
}

#[test]
fn a_file_that_a_machine_names_counts_by_its_content() {
    let dir = Dir::new("mapping");
    let file = dir.0.join("nodes");
    let machine = format!("rmm15/4k:memory=64M,buddyinfo={}", file.display());
    let key = |text: &str| {
        std::fs::write(&file, text).expect("room");
        point(&machine, 0, &program(GUPS), &Extent::default()).key
    };
    let one = key("Node 0, zone Normal 1 1 1 1 1 1 1 1 1 1 1");
    assert_ne!(key("Node 0, zone Normal 2 1 1 1 1 1 1 1 1 1 1"), one);
    assert_eq!(key("Node 0, zone Normal 1 1 1 1 1 1 1 1 1 1 1"), one);
}

#[test]
fn a_pass_finds_what_single_runs_find() {
    let gups = program(GUPS);
    let machines = ["t94/single", "t94/partial:entries=16", "rmm15/range", "t94/single:replacement=random"];
    let points = machines.map(|machine| wanted(machine, &gups));
    let passes = plan(points.into(), 32, 1);
    assert_eq!(passes.len(), 1);
    // What is written down is the same pass.
    let text = serde_json::to_string(&passes[0]).expect("JSON");
    let pass: Pass = serde_json::from_str(&text).expect("JSON");
    assert_eq!(pass, passes[0]);
    let answers = pass.run(1, |_| true).expect("sound").expect("whole");
    for (machine, (key, answer)) in machines.iter().zip(&answers) {
        let Answer::Machine(measured) = answer else { panic!("a machine") };
        let mut lab = Lab::new(vec![spec(machine)], Options::default()).expect("a machine");
        lab.run(&mut gups.open().expect("a kernel")).expect("sound");
        let mut alone = lab.result("gups", None);
        alone.machines[0].ledger.clear();
        alone.machines[0].timeline = Default::default();
        assert_eq!((&measured.machine, &measured.workload), (&alone.machines[0], &alone.workload), "{machine}");
        assert_eq!(*key, point(machine, 0, &gups, &Extent::default()).key);
    }
}

#[test]
fn a_sampled_pass_estimates_as_a_run_does() {
    let long = program("workload:gups:size=8M,references=20M");
    let machines = ["t94/single", "today/zen2"];
    let extent = Extent { limit: Some(40_000_000), sample: Some(4), ..Extent::default() };
    let points = machines.map(|machine| Wanted {
        extent: extent.clone(),
        point: point(machine, 0, &long, &extent),
        ..wanted(machine, &long)
    });
    let passes = plan(points.into_iter().chain([wanted("t94/single", &long)]).collect(), 32, 1);
    assert_eq!(passes.len(), 2, "one of all, one of windows");
    let pass = passes.iter().find(|pass| pass.extent == extent).expect("that of windows");
    let text = serde_json::to_string(pass).expect("JSON");
    assert_eq!(serde_json::from_str::<Pass>(&text).expect("JSON"), *pass);
    let answers = pass.run(1, |_| true).expect("sound").expect("whole");
    let options = Options { limit: extent.limit, sample: Some(Sample::one_in(4)), ..Options::default() };
    let mut lab = Lab::new(machines.map(spec).into(), options).expect("machines");
    lab.run(&mut long.open().expect("a kernel")).expect("sound");
    let alone = lab.result("gups", None);
    for ((_, answer), machine) in answers.iter().zip(alone.machines) {
        let Answer::Machine(measured) = answer else { panic!("a machine") };
        assert!(measured.machine.estimate.is_some() && measured.workload.windows.is_some());
        assert_eq!((&measured.machine.estimate, &measured.machine.counts), (&machine.estimate, &machine.counts));
    }
}

#[test]
fn a_pass_can_be_stopped_and_names_the_point_that_cannot_go_on() {
    let gups = program(GUPS);
    let pass = |machine| plan(vec![wanted(machine, &gups), wanted("t94/single", &gups)], 32, 1).remove(0);
    assert!(pass("t94/partial").run(1, |_| false).expect("sound").is_none());
    let error = pass("t94/single:memory=64K").run(1, |_| true).expect_err("full");
    let farreach_types::Error::Simulation { machine, .. } = error else { panic!("{error}") };
    assert_eq!(machine, point("t94/single:memory=64K", 0, &gups, &Extent::default()).key);
}

#[test]
fn passes_are_as_wide_as_there_is_work() {
    let (gups, join) = (program(GUPS), program("workload:join:references=20K"));
    let sized = |n: u64, program: &Program| wanted(&format!("t94/single:entries={n}"), program);
    let points = || -> Vec<Wanted> { (1..=64).map(|n| sized(n, &gups)).chain([sized(1, &join)]).collect() };
    let widths = |passes: &[Pass]| passes.iter().map(Pass::width).collect::<Vec<_>>();
    assert_eq!(widths(&plan(points(), 32, 1)), [32, 32, 1]);
    assert_eq!(widths(&plan(points(), 32, 5)), [16, 16, 16, 16, 1]);
    assert_eq!(widths(&plan(points(), 32, 1000)), [8, 8, 8, 8, 8, 8, 8, 8, 1], "no narrower");
    assert_eq!(widths(&plan(points(), 5, 1)).iter().sum::<u64>(), 65);
    let mixed = plan(vec![wanted("sv97/softvm", &gups), wanted("t94/single", &gups)], 32, 1);
    assert_eq!(widths(&mixed), [1, 1], "caches are no company for others");
    assert!(plan(Vec::new(), 32, 4).is_empty());
}

#[test]
fn the_cache_keeps_whole_results_only() {
    let dir = Dir::new("cache");
    let cache = Cache::open(&dir.0).expect("a folder");
    let wanted = ["t94/single", "t94/partial"].map(|machine| wanted(machine, &program(GUPS)));
    let pass = plan(wanted.into(), 32, 1).remove(0);
    let answers = pass.run(1, |_| true).expect("sound").expect("whole");
    let [(key, answer), (other, another)] = <[_; 2]>::try_from(answers).expect("two machines");
    let silent = |said: String| panic!("{said}");
    assert_eq!(cache.get(&key, silent), None);
    cache.put(&key, &answer).expect("room");
    cache.put(&other, &another).expect("room");
    assert_eq!(cache.get(&key, silent), Some(answer.clone()));

    let unfit = || {
        let mut said = None;
        assert_eq!(cache.get(&key, |why| said = Some(why)), None);
        said.expect("it is said")
    };
    let file = |key: &str| dir.0.join(format!("{key}.json"));
    let text = std::fs::read_to_string(file(&key)).expect("it is there");
    std::fs::write(file(&key), &text[..text.len() / 2]).expect("room");
    assert!(unfit().contains("its checksum is another"), "what is cut is as good as none");
    // A digit: it is still JSON of the right form.
    let Answer::Machine(measured) = &answer else { panic!("a machine") };
    let misses = measured.machine.counts.tlb.misses;
    let (right, wrong) = (format!("\"misses\":{misses}"), format!("\"misses\":{}", misses + 1));
    assert!(text.contains(&right), "{text}");
    std::fs::write(file(&key), text.replacen(&right, &wrong, 1)).expect("room");
    assert!(unfit().contains("its checksum is another"));
    std::fs::copy(file(&other), file(&key)).expect("room");
    assert!(unfit().contains("under another key"));
    std::fs::write(file(&key), "null").expect("room");
    assert!(unfit().contains("no file that farreach kept"));
    // A pipe is not waited for, and does not stay.
    std::fs::remove_file(file(&key)).expect("ours");
    assert!(std::process::Command::new("mkfifo").arg(file(&key)).status().expect("mkfifo").success());
    assert!(unfit().contains("is not a regular file"));
    assert!(farreach_sweep::hash_file(&file(&key)).is_err());
    cache.put(&key, &answer).expect("room");
    assert_eq!(cache.get(&key, silent), Some(answer.clone()));

    std::fs::remove_dir_all(&dir.0).expect("ours");
    let error = cache.put(&key, &answer).expect_err("no folder").to_string();
    assert!(error.contains(&key), "{error}");
}

#[test]
fn estimates_are_for_each_pass() {
    let gups = program("workload:gups:size=1M,references=3M");
    let passes = plan((1..=40).map(|n| wanted(&format!("t94/single:entries={n}"), &gups)).collect(), 32, 1);
    let estimate = Estimate::of(&passes, 2).expect("sound");
    assert_eq!(estimate.seconds.len(), 2);
    assert!(estimate.seconds.iter().all(|s| *s > 0.0) && estimate.wall(2) <= estimate.wall(1));
    let Work::Machines(points) = &passes[0].work else { panic!("machines") };
    assert_eq!(points.len(), 20);
    // What is skipped is not simulated: here all of it.
    let mut pass = passes[0].clone();
    pass.extent.piece.skip = u64::MAX;
    assert_eq!(Estimate::of(&[pass], 1).expect("sound").seconds, [0.0]);
}
