//! Claims about the designs of T94 at 64 entries.

use super::Hypothesis;
use super::judge::{compare, tally};
use crate::study::machines::{COMPLETE, PARTIAL, SET_ASSOCIATIVE, SINGLE, SUPERPAGE, sized};
use crate::study::words::percent;

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-T94-3",
        claim: "Superpages cut misses to a tenth or less on programs of arrays and heaps (nasa7, compress, wave5, mp3d, spice)",
        studies: &["t94-table6"],
        judge: |results, set| {
            let those = ["nasa7", "compress", "wave5", "mp3d", "spice"];
            tally(set.standing_for(&those), |p| {
                let share = results.percent(&p.name, SUPERPAGE, SINGLE)?;
                Some((share <= 10.0, percent(share)))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-4",
        claim: "Programs with sparse references gain little from superpages (fftpde 99.3 %, pthor 95.6 % of the misses remain)",
        studies: &["t94-table6"],
        judge: |results, set| {
            tally(set.standing_for(&["fftpde", "pthor"]), |p| {
                let share = results.percent(&p.name, SUPERPAGE, SINGLE)?;
                Some((share >= 90.0, percent(share)))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-5",
        claim: "At 64 entries, partial subblocks miss no more often than superpages on most programs (8 of 10)",
        studies: &["t94-table6"],
        judge: |results, set| compare(results, set, PARTIAL, SUPERPAGE, |a, b| a <= b).most(),
    },
    Hypothesis {
        id: "H-T94-7",
        claim: "With page reservation, complete subblocks are only a little better than partial ones: at most 8.1 points of the \
                single-page-size misses (ML)",
        studies: &["t94-table6"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let partial = results.percent(&p.name, PARTIAL, SINGLE)?;
                let complete = results.percent(&p.name, COMPLETE, SINGLE)?;
                Some((partial - complete <= 8.1, format!("{} and {}", percent(partial), percent(complete))))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-10",
        claim: "64 partial-subblock entries miss less than 256 single-page-size entries in 4 ways on most programs (9 of 10)",
        studies: &["t94-table6"],
        judge: |results, set| compare(results, set, PARTIAL, SET_ASSOCIATIVE, |a, b| a < b).most(),
    },
    Hypothesis {
        id: "H-T94-11",
        claim: "64 partial-subblock entries often miss less than 256 fully associative single-page-size entries (6 of 10)",
        studies: &["t94-table6", "t94-table9"],
        judge: |results, set| compare(results, set, PARTIAL, &sized(SINGLE, 256), |a, b| a < b).most(),
    },
    Hypothesis {
        id: "H-T94-12",
        claim: "256 entries in 4 ways with random replacement can miss less than 256 fully associative ones with used bits \
                (nasa7, pthor)",
        studies: &["t94-table6", "t94-table9"],
        judge: |results, set| compare(results, set, SET_ASSOCIATIVE, &sized(SINGLE, 256), |a, b| a < b).some(),
    },
];
