//! Claims about where policies place memory: runs of frames, large blocks, few places, holes. Their numbers are those
//! of `papers/os_claims.csv`.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, reached, tally, untestable, worst};
use super::os_memory::{if_missing, program};
use crate::micro::{FILL, GIGABYTE, HALVES, MANY, WIDE};
use crate::number_text::percent;
use crate::policies::memory::{
    COMPACTING, CONTIGUOUS, HASHED, HOLES, NESTED, ON_NODES, PROGRAMS, RESTRICTED, SEEDS, SIZES, TAKEN, USED,
    compacted, local_walks, own, runs, time,
};
use crate::since::share;
use farreach_types::papers::Kind::Main;
use farreach_types::papers::{Finding, Verdict};

const STUDY: &[&str] = &["os-memory"];

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-OS-22",
        kind: Main,
        claim: "Predicted frames with contiguity-aware paging cut the overhead of nested walks from 16.5 to 0.9 %; \
                tested as what they hide: at least 94.5 % of the references",
        studies: STUDY,
        judge: |results, _| {
            tally(PROGRAMS.map(program).iter(), |p| {
                let tlb = &results.machine(&p.name, NESTED)?.counts.tlb;
                let hidden = share(tlb.parts.get("spot")?.memory.hidden_references, tlb.table_references());
                let outcome = if_missing(tlb.misses, reached(hidden >= 94.5, hidden > 0.0));
                Some((outcome, format!("{} hidden", percent(hidden))))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-23",
        kind: Main,
        claim: "With contiguity-aware paging a few tens of runs of frames hold 99 % of a program; tested as at most 50 \
                in fresh memory",
        studies: STUDY,
        judge: |results, _| {
            tally(PROGRAMS.map(program).iter(), |p| {
                let of = |machine| runs(results, &p.name, machine);
                let (linux, own) = (of(CONTIGUOUS[0])?, of(CONTIGUOUS[1])?);
                Some((reached(own <= 50, own < linux), format!("{own} runs, Linux {linux}")))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-OS-24",
        kind: Main,
        claim: "Translation Ranger makes runs of frames 40 times larger than Linux, at most 128 of them, for less than \
                2 % of the time; tested without the time, as these programs end before a period of five seconds, in \
                memory of which others have three frames of ten",
        studies: STUDY,
        judge: |results, _| {
            tally(PROGRAMS.map(program).iter(), |p| {
                let of = |machine| runs(results, &p.name, machine);
                let (linux, own) = (of(USED[0])?, of(USED[1])?);
                let larger = linux as f64 / own.max(1) as f64;
                Some((reached(larger >= 40.0 && own <= 128, larger > 1.0), format!("{own} runs for {linux}")))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-OS-26",
        kind: Main,
        claim: "The compaction of Trident copies up to 85 % less for a block of 1 GB than one that goes by address; \
                tested as half",
        studies: STUDY,
        judge: |results, _| {
            tally([program(GIGABYTE)].iter(), |p| {
                let of = |machine: &str| compacted(results.machine(&p.name, machine)?);
                let ([all, whole], [few, own]) = (of(COMPACTING[0])?, of(COMPACTING[1])?);
                let each = |pages: u64, blocks: u64| pages as f64 / blocks.max(1) as f64;
                let (by_address, smart) = (each(all, whole), each(few, own));
                let text = format!("{few} pages for {own} blocks, by address {all} for {whole}");
                Some((reached(own > 0 && 2.0 * smart <= by_address, own > 0 && smart < by_address), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-30",
        kind: Main,
        claim: "Restricted places for pages (Utopia) make programs 24 % faster on one core; tested as time by the \
                model",
        studies: STUDY,
        judge: |results, _| {
            tally(PROGRAMS.map(program).iter(), |p| {
                let of = |machine| time(results, &p.name, machine);
                let times = of(RESTRICTED[0])? as f64 / of(RESTRICTED[1])?.max(1) as f64;
                Some((reached(times >= 1.24, times > 1.0), format!("{times:.2} times as fast")))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-OS-31",
        kind: Main,
        claim: "With few places for each page (Mosaic) 6 to 81 % fewer lookups miss, and no page conflicts below 98 % \
                of memory; tested with four pages an entry, and three fills at random",
        studies: STUDY,
        judge: |results, _| {
            let conflicts: Option<Vec<u64>> =
                SEEDS.iter().map(|m| Some(own(results.machine(FILL, m)?, "first_conflict_ppm"))).collect();
            let Some(conflicts) = conflicts else { return untestable("it was not run.") };
            let full = conflicts.iter().copied().min().unwrap_or_default();
            let found = tally(PROGRAMS.map(program).iter(), |p| {
                let fewer = 100.0 - results.percent(&p.name, HASHED[1], HASHED[0])?;
                let outcome = if fewer > 81.0 { Outcome::Stronger } else { reached(fewer >= 6.0, fewer >= 0.0) };
                let base = results.misses(&p.name, HASHED[0])?;
                Some((if_missing(base, outcome), format!("{} fewer", percent(fewer))))
            })
            .most();
            let first = format!("The first conflict came at {} of memory.", percent(full as f64 / 10_000.0));
            let place = if full >= 980_000 { Verdict::Holds } else { Verdict::Fails };
            Finding { verdict: worst([found.verdict, place]), why: format!("{first} Misses: {}", found.why) }
        },
    },
    Hypothesis {
        id: "H-OS-32",
        kind: Main,
        claim: "Large pages can slow programs on nodes of memory, as several nodes use parts of one, and splitting \
                mends that; tested without the time, as what local walks lose against base pages on superpages of two \
                nodes: at least 15 points, of which Carrefour-LP has nine tenths back in the last period",
        studies: STUDY,
        judge: |results, _| {
            tally([program(HALVES)].iter(), |p| {
                let of = |machine: &str| results.machine(&p.name, machine);
                let (base, large) = (local_walks(of(ON_NODES[0])?), local_walks(of(ON_NODES[1])?));
                let mended = of(ON_NODES[2])?;
                let last = own(mended, "last_local_ppm_at_end") as f64 / 10_000.0;
                let text = format!(
                    "{} local with base pages, {} with superpages, {} after {} were split",
                    percent(base),
                    percent(large),
                    percent(last),
                    own(mended, "carrefour_splits") + own(mended, "carrefour_hot_splits")
                );
                let holds = base - large >= 15.0 && last - large >= 0.9 * (base - large);
                Some((reached(holds, base > large && last > large), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-37",
        kind: Main,
        claim: "Superpages with a few percent of holes keep most of the reach of whole ones; tested as at least half \
                of the walks that these save, where others have 2 and 5 % of the frames",
        studies: STUDY,
        judge: |results, _| {
            tally(PROGRAMS.map(program).iter(), |p| {
                let of = |machine| results.misses(&p.name, machine);
                let whole = of(HOLES[0][0])?;
                let mut texts = Vec::new();
                let (mut least, mut saved) = (f64::INFINITY, u64::MAX);
                for (taken, [none, some]) in TAKEN.into_iter().zip(HOLES).skip(1) {
                    let (none, some) = (of(none)?, of(some)?);
                    saved = saved.min(none.saturating_sub(whole));
                    let kept = share(none.saturating_sub(some), none.saturating_sub(whole));
                    least = least.min(kept);
                    texts.push(format!("{} with {taken} % taken", percent(kept)));
                }
                let text = format!("{} of {saved} walks saved", texts.join(", "));
                Some((if_missing(saved, reached(least >= 50.0, least > 0.0)), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-38",
        kind: Main,
        claim: "Pages of every power of two remove most misses that pages of 2 MB and 1 GB leave; tested as more than \
                half, on these programs and on 4 GB and more in one mapping and in sixteen",
        studies: STUDY,
        judge: |results, _| {
            let programs = PROGRAMS.into_iter().chain([WIDE, MANY]).map(program).collect::<Vec<_>>();
            tally(programs.iter(), |p| {
                let of = |machine| results.misses(&p.name, machine);
                let (large, own) = (of(SIZES[0])?.min(of(SIZES[1])?), of(SIZES[2])?);
                let text = format!("{own} walks, with 2 MB and 1 GB {large}");
                Some((if_missing(large, reached(2 * own < large, own < large)), text))
            })
            .most()
        },
    },
];
