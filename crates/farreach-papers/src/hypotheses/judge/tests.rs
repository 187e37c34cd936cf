use super::*;

fn program(name: &str, like: &str) -> Program {
    Program { name: name.into(), stands_for: like.into(), ..Program::default() }
}

/// The outcome of a program is the first letter of its name.
fn by_name(p: &Program) -> Option<(Outcome, String)> {
    let outcome = match p.name.as_bytes()[0] {
        b'y' => Outcome::Yes,
        b'+' => Outcome::Stronger,
        b'-' => Outcome::Short,
        b'n' => Outcome::No,
        b's' => Outcome::Silent,
        _ => return None,
    };
    Some((outcome, p.name.len().to_string()))
}

fn of(names: &str) -> Tally {
    let programs: Vec<Program> = names.split_whitespace().map(|name| program(name, "")).collect();
    tally(programs.iter(), by_name)
}

fn text(finding: Finding) -> String {
    format!("{}: {}", finding.verdict, finding.why)
}

#[test]
fn every_verdict_says_on_how_many_programs_and_on_which_not() {
    assert_eq!(
        text(of("y1 n1 y2 absent").all()),
        "fails: on 2 of 3 programs; not on n1 (2); it holds on y1 (2) and y2 (2)."
    );
    assert_eq!(text(of("y1 n1 y2").most()), "holds: on 2 of 3 programs; not on n1 (2).");
    assert_eq!(text(of("y1 n1").most()), "fails: on 1 of 2 programs; not on n1 (2).");
    assert_eq!(text(of("y1").all()), "holds: on 1 of 1 program: y1 (2).");
    assert_eq!(
        text(of("y1 -1").all()),
        "not shown on these programs: on 1 of 2 programs; less than claimed on -1 (2); it holds on y1 (2)."
    );
    assert_eq!(text(of("+1").all()), "stronger than claimed: on 1 of 1 program; more than claimed on +1 (2).");
    assert_eq!(text(of("s1").all()), "not shown on these programs: not counted: s1 (2).");
    assert_eq!(text(of("absent").most()), "not testable here: no program it speaks of was run.");
}

/// A claim about all programs: an opposite refutes it, a smaller effect leaves it open, a silent one is not counted.
#[test]
fn claims_about_all_programs() {
    for (names, verdict) in [
        ("y1 y2", Verdict::Holds),
        ("y1 s1", Verdict::Holds),
        ("y1 +1", Verdict::Holds),
        ("+1 +2", Verdict::Stronger),
        ("y1 -1", Verdict::NotShown),
        ("s1 s2", Verdict::NotShown),
        ("y1 -1 n1", Verdict::Fails),
        ("absent", Verdict::NotTestable),
    ] {
        assert_eq!(of(names).all().verdict, verdict, "{names}");
    }
}

/// A claim about most programs: more than half for it, at least half of opposites against it.
#[test]
fn claims_about_most_programs() {
    for (names, verdict) in [
        ("y1 y2 n1", Verdict::Holds),
        ("y1 n1 s1 s2", Verdict::Fails),
        ("y1 -1 -2", Verdict::NotShown),
        ("y1 -1 n1", Verdict::NotShown),
        ("-1 n1", Verdict::Fails),
        ("+1 +2 y1", Verdict::Stronger),
        ("s1", Verdict::NotShown),
        ("absent", Verdict::NotTestable),
    ] {
        assert_eq!(of(names).most().verdict, verdict, "{names}");
    }
}

/// That something can happen is refuted by no program on which it does not.
#[test]
fn claims_that_there_are_programs() {
    for (names, verdict) in [
        ("y1 n1 n2", Verdict::Holds),
        ("n1 n2", Verdict::NotShown),
        ("s1", Verdict::NotShown),
        ("absent", Verdict::NotTestable),
    ] {
        assert_eq!(of(names).some().verdict, verdict, "{names}");
    }
}

#[test]
fn a_claim_of_several_parts_is_as_good_as_the_worst() {
    use Verdict::{Fails, Holds, NotShown, NotTestable, Stronger};
    assert_eq!(worst([Holds, NotShown, Fails]), Fails);
    assert_eq!(worst([Holds, NotShown, NotTestable]), NotShown);
    assert_eq!(worst([Stronger, Holds]), Holds);
    assert_eq!(worst([Stronger, Stronger]), Stronger);
}

#[test]
fn too_little_stress_shows_nothing_but_a_broken_limit() {
    let stress = |measured| Some(Stress { of: "mcf".into(), measured, printed: 40.0, unit: " %" });
    let judge = |stress, outcome| if_stressed(stress, (outcome, "x".into()));
    assert_eq!(judge(stress(1.0), Outcome::Yes), (Outcome::Silent, "1.0 % where mcf has 40 %; x".into()));
    assert_eq!(judge(stress(1.0), Outcome::No), (Outcome::No, "x".into()));
    assert_eq!(judge(stress(30.0), Outcome::Yes).0, Outcome::Yes);
    assert_eq!(judge(None, Outcome::Short).0, Outcome::Short);
}

#[test]
fn a_size_is_reached_or_missed_or_the_effect_is_the_opposite() {
    assert_eq!(reached(true, true), Outcome::Yes);
    assert_eq!(reached(false, true), Outcome::Short);
    assert_eq!(reached(false, false), Outcome::No);
}

#[test]
fn a_claim_that_names_programs_is_judged_on_their_stand_ins() {
    let judged = |programs: &[Program]| text(can(tally_named(programs.iter(), &["spice", "gcc"], by_name)));
    let (mine, other) = (program("n-lu", "spice, ML"), program("y-x", "coral"));
    assert_eq!(
        judged(&[mine.clone(), other.clone()]),
        "not shown on these programs: on 0 of 1 program; not on n-lu (spice: 4). Of the other programs: on 1 of 1 \
         program: y-x (3)."
    );
    assert_eq!(
        judged(&[mine, program("y-cc", "gcc")]),
        "holds: on 1 of 2 programs; not on n-lu (spice: 4); it holds on y-cc (gcc: 4)."
    );
    assert_eq!(judged(&[other]), "holds: no stand-in for a program it names was run; on 1 of 1 program: y-x (3).");
    assert!(judged(&[]).starts_with("not testable here"));
}
