//! Claims about the page cache: readahead and folios of files. Their words are those of `papers/os_claims.csv`.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, reached, tally};
use super::os_memory::program;
use crate::micro::FILE_IN_ORDER;
use crate::policies::files::{ORDERS, READING, TEXT, fetch_misses, folios};
use crate::since::{LEAST_WALKS, compilers};
use farreach_types::papers::Kind::{Main, Side};

const STUDY: &[&str] = &["os-memory"];

/// Folios by order before those as large as the window, 32 pages: a window each of orders 0, 2 and 4.
const BY_TWO: [u64; ORDERS - 1] = [32, 0, 8, 0, 2];
/// If pages are read one by one (PGC-A).
const ONE_BY_ONE: [u64; ORDERS - 1] = [4, 0, 3, 2, 2];

/// Folios by order as numbers.
fn list(folios: &[u64]) -> String {
    folios.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-OS-14",
        kind: Side,
        claim: "Folios of a file that is read in order grow by two orders a window, up to the window; tested as one \
                window each of pages, of folios of 4 and of 16 pages before those as large as the window, at faults of \
                a mapping; and at reads of a page each, whose windows grow, too, as 4, 0, 3, 2 and 2 folios of 1 to 16 \
                pages before these",
        studies: STUDY,
        judge: |results, _| {
            tally([program(FILE_IN_ORDER)].iter(), |p| {
                let of = |machine| Some(folios(results.machine(&p.name, machine)?));
                let (faults, reads) = (of(READING[0])?, of(READING[1])?);
                let [largest_at_faults, largest_at_reads] = [faults, reads].map(|folios| folios[ORDERS - 1]);
                let holds = faults[..ORDERS - 1] == BY_TWO && reads[..ORDERS - 1] == ONE_BY_ONE;
                let text = format!("{} folios by order at faults, {} at reads", list(&faults), list(&reads));
                let grows = largest_at_faults > 0 && largest_at_reads > 0;
                Some((reached(holds && grows, grows), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-15",
        kind: Main,
        claim: "Text in folios of 64 KB takes fewer misses of the TLB for instructions on arm64; tested on the \
                compiler, whose text is the largest, and TLBs of Neoverse N1",
        studies: STUDY,
        judge: |results, set| {
            tally(compilers(set), |p| {
                let of = |machine| Some(fetch_misses(results.machine(&p.name, machine)?));
                let (base, own) = (of(TEXT[0])?, of(TEXT[1])?);
                let outcome = match Outcome::from(own < base) {
                    Outcome::Yes if base < LEAST_WALKS => Outcome::Silent,
                    outcome => outcome,
                };
                Some((outcome, format!("{own} misses, in single pages {base}")))
            })
            .all()
        },
    },
];

#[cfg(test)]
mod tests;
