//! Claims about page policies since 2002. Their numbers are those of `papers/os_claims.csv`.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, reached, tally};
use crate::number_text::percent;
use crate::policies::{COLLAPSING, machine, policy, time};
use crate::results::Results;
use crate::since::{few, share};
use farreach_types::counts::OsCounts;
use farreach_types::papers::Kind::{Main, Side};

const STUDY: &[&str] = &["policies"];

fn os<'a>(results: &'a Results, program: &str, name: &str) -> Option<&'a OsCounts> {
    Some(&results.machine(program, &machine(policy(name), 0))?.counts.os)
}

/// Bytes in fresh memory.
fn resident(results: &Results, program: &str, name: &str) -> Option<f64> {
    Some(results.machine(program, &machine(policy(name), 0))?.memory.resident_bytes as f64)
}

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-OS-2",
        kind: Main,
        claim: "With reservations that are promoted (Navarro), TLB misses fall by more than 95 % for most programs",
        studies: STUDY,
        judge: |results, set| {
            tally(few(set), |p| {
                let misses = |name| results.misses(&p.name, &machine(policy(name), 0));
                let left = share(misses("navarro")?, misses("demand")?);
                let made = os(results, &p.name, "navarro")?.policy.get("promotions_512");
                let text = format!("{} of the misses, {made} promotions", percent(left));
                Some((reached(left < 5.0, left < 100.0), text))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-OS-7",
        kind: Side,
        claim: "FreeBSD makes superpages only of groups that are wholly populated and modified alike",
        studies: STUDY,
        judge: |results, set| {
            tally(few(set), |p| {
                let own = |name| Some(os(results, &p.name, "freebsd")?.policy.get(name));
                let (made, refused) = (own("promotions")?, own("promotion_failures")?);
                let outcome = if made + refused == 0 { Outcome::Silent } else { (refused > 0).into() };
                Some((outcome, format!("{made} promotions, {refused} refused as not alike")))
            })
            .some()
        },
    },
    Hypothesis {
        id: "H-OS-8",
        kind: Main,
        claim: "With preparation from 64 pages on, a program has the misses of huge pages without their waste; tested \
                as a quarter more misses, and a quarter of the memory that 2 MB at faults add",
        studies: STUDY,
        judge: |results, set| {
            tally(few(set), |p| {
                let misses = |name| results.misses(&p.name, &machine(policy(name), 0));
                let resident = |name| resident(results, &p.name, name);
                let [base, own, huge] = [resident("linux never")?, resident("quicksilver")?, resident("linux 2M")?];
                let (ours, theirs, all) = (misses("quicksilver")?, misses("linux 2M")?, misses("linux never")?);
                let text = format!(
                    "{} of the misses of base pages, 2 MB at faults {}; {} of their memory, 2 MB {}",
                    percent(share(ours, all)),
                    percent(share(theirs, all)),
                    percent(100.0 * own / base.max(1.0)),
                    percent(100.0 * huge / base.max(1.0))
                );
                let (few, small) = (4 * ours <= 5 * theirs, own - base <= 0.25 * (huge - base));
                Some((reached(few && small, ours < all && own < huge), text))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-OS-9",
        kind: Side,
        claim: "khugepaged collapses at most 8 groups in 10 s",
        studies: STUDY,
        judge: |results, set| {
            tally(few(set), |p| {
                let os = &results.machine(&p.name, &machine(policy("linux 2M"), 1))?.counts.os;
                let wakes = os.policy.get("khugepaged_wakes");
                let outcome = if os.collapses == 0 { Outcome::Silent } else { (os.collapses <= 8 * wakes).into() };
                Some((outcome, format!("{} groups in {wakes} wakes", os.collapses)))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-10",
        kind: Main,
        claim: "Pages of 64 KB cut faults by up to 16, each much shorter than one of 2 MB; tested as at least 12, and \
                a tenth of the pages in the longest",
        studies: STUDY,
        judge: |results, set| {
            tally(few(set), |p| {
                let of = |name| os(results, &p.name, name);
                let (never, small, large) = (of("linux never")?, of("linux 64K")?, of("linux 2M")?);
                let fewer = never.page_faults as f64 / small.page_faults.max(1) as f64;
                let pages = [small, large].map(|os| os.largest_fault_pages);
                let text = format!("{fewer:.1} times fewer; {} pages in the longest, of 2 MB {}", pages[0], pages[1]);
                Some((reached(fewer >= 12.0 && 10 * pages[0] <= pages[1], fewer > 1.0), text))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-OS-11",
        kind: Side,
        claim: "Collapse raises memory where 511 pages of a group may be missing, and never where none may",
        studies: STUDY,
        judge: |results, set| {
            tally(few(set), |p| {
                let of = |machine: &str| results.machine(&p.name, machine);
                let base = of(&machine(policy("linux never"), 1))?.memory.resident_bytes;
                let [none, all] = COLLAPSING.map(of);
                let (none, all) = (none?, all?);
                let more = [none, all].map(|machine| machine.memory.resident_bytes.saturating_sub(base) >> 12);
                let silent = all.counts.os.collapses == 0;
                let outcome = if silent { Outcome::Silent } else { reached(more[0] == 0 && more[1] > 0, more[0] == 0) };
                let collapses = [none, all].map(|machine| machine.counts.os.collapses);
                Some((outcome, format!("{more:?} pages more by {collapses:?} collapses, at 0 and at 511")))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-OS-16",
        kind: Main,
        claim: "Ingens at a threshold of 90 % takes the memory of base pages and has most of the gain of huge ones; \
                tested as 2 % more memory, and half of the gain",
        studies: STUDY,
        judge: |results, set| {
            tally(few(set), |p| {
                let resident = |name| resident(results, &p.name, name);
                let more = resident("ingens")? / resident("linux never")?.max(1.0);
                let of = |name| time(results, &p.name, name).map(|time| time as f64);
                let (base, all, some) = (of("linux never")?, of("linux 2M")?, of("ingens")?);
                let text = format!(
                    "{} of the memory of base pages, {} of their time; 2 MB {}",
                    percent(100.0 * more),
                    percent(100.0 * some / base),
                    percent(100.0 * all / base)
                );
                let gains = base - some >= 0.5 * (base - all);
                Some((reached(more <= 1.02 && gains, more <= 1.02 && some < base), text))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-OS-17",
        kind: Side,
        claim: "With Ingens no fault fills or copies the pages of a superpage",
        studies: STUDY,
        judge: |results, set| {
            tally(few(set), |p| {
                let [longest, huge] = [os(results, &p.name, "ingens")?, os(results, &p.name, "linux 2M")?]
                    .map(|os| os.largest_fault_pages);
                Some((longest <= 1, format!("{longest} pages in the longest fault, with 2 MB {huge}")))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-25",
        kind: Main,
        claim: "Trident is 18 % faster than THP of 2 MB; tested as 15 %, on programs of a gigabyte or more",
        studies: STUDY,
        judge: |results, set| {
            tally(few(set), |p| {
                let of = |name| time(results, &p.name, name).map(|time| time as f64);
                let left = of("trident")? / of("thp of 2015")?;
                let megabytes = (resident(results, &p.name, "trident")? / 2.0_f64.powi(20)).floor();
                // No page of 1 GB fits.
                let is_small = megabytes < 1024.0;
                let outcome = if is_small { Outcome::Silent } else { reached(left <= 0.85, left < 1.0) };
                Some((outcome, format!("{} of the time, {megabytes} MB", percent(100.0 * left))))
            })
            .most()
        },
    },
];
