//! Claims about translation behind caches.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, reached, tally, worst};
use crate::number_text::percent;
use crate::since::few;
use crate::since::midgard::{ALL, LARGE, MIDGARD, PAGES, SIZES, SMALL, of_access_time};
use farreach_types::papers::Finding;
use farreach_types::papers::Kind::Main;

/// Bytes below which a program lies in the caches that the claim calls small.
const SMALL_BYTES: u64 = 16 << 20;

pub(super) const CLAIMS: &[Hypothesis] = &[Hypothesis {
    id: "H-HW-49",
    kind: Main,
    claim: "Translation behind the caches costs within 5 % of TLBs with 16 MB of cache, and as little as TLBs with \
            pages of 2 MB with 256 MB; tested as the share of translation in the time of all references, on programs \
            of more than 16 MB",
    studies: &["since-midgard"],
    judge: |results, set| {
        let each = |size, rivals: &'static [&'static str; 5], more: f64| {
            tally(few(set), |p| {
                let of = |machines, size| of_access_time(results, &p.name, machines, size);
                let (midgard, rival) = (of(&MIDGARD, size)?, of(rivals, size)?);
                let touched = results.measured(&p.name, MIDGARD[0])?.workload.touched_bytes;
                // In its direction: a larger last level helps, and more than it helps the other.
                let falls = of(&MIDGARD, SIZES[0])? - midgard > of(rivals, SIZES[0])? - rival;
                let outcome = reached(midgard <= rival + more, falls);
                let outcome = if touched > SMALL_BYTES { outcome } else { Outcome::Silent };
                Some((outcome, format!("{} against {}", percent(midgard), percent(rival))))
            })
            .all()
        };
        let small = each(SMALL, &PAGES, 5.0);
        let all = each(ALL, &LARGE, 0.0);
        let verdict = worst([small.verdict, all.verdict]);
        Finding {
            verdict,
            why: format!(
                "With 16 MB, against pages of 4 KB: {} With 256 MB, against huge pages: {}",
                small.why, all.why
            ),
        }
    },
}];
