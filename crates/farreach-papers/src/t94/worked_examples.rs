//! Examples that the paper works out by hand: small programs that show one mechanism each.

use crate::expected_rows::{Row, What, plan, table};
use crate::machines::{PARTIAL, SINGLE, SUPERPAGE};
use crate::micro;
use crate::study::Study;

pub(crate) const STUDY: Study = Study {
    id: "t94-by-hand",
    title: "Regions of a few pages: half used, small, with holes, with other attributes, modified in one page",
    rules: "T94-19, T94-20, T94-50, T94-54, CA-12, CA-13",
    plan: |_, _| plan(ROWS),
    section: |results, _, section| section.tables.push(table(ROWS, results)),
};

/// Superpages of 16 and 32 KB, and subblocks of 32 KB, as `superpage_of` and `partial_of` give them.
const SUPERPAGE_4: &str = "t94/superpage:sizes=4K+16K,region=16K,promote=16K";
const SUPERPAGE_8: &str = "t94/superpage:sizes=4K+32K,region=32K,promote=32K";
const PARTIAL_8: &str = "t94/partial:factor=8,region=32K";

/// All rows.
pub(crate) const ROWS: &[Row] = &[
    Row::exactly(micro::ANOMALY, SUPERPAGE_4, MISSES, 72),
    Row::exactly(micro::ANOMALY, SUPERPAGE_8, MISSES, 72),
    Row::exactly(micro::ANOMALY, SUPERPAGE, MISSES, 720),
    Row::exactly(micro::ANOMALY, PARTIAL_8, MISSES, 72),
    Row::exactly(micro::ANOMALY, PARTIAL, MISSES, 72),
    Row::exactly(micro::OBJECT_60K, SUPERPAGE, ENTRIES, 15),
    Row::exactly(micro::OBJECT_60K, PARTIAL, ENTRIES, 1),
    Row::exactly(micro::OBJECT_64K, SUPERPAGE, ENTRIES, 1),
    Row::exactly(micro::OBJECT_64K, PARTIAL, ENTRIES, 1),
    Row::exactly(micro::HOLE, SUPERPAGE, ENTRIES, 15),
    Row::exactly(micro::HOLE, PARTIAL, ENTRIES, 1),
    Row::exactly(micro::UNALIGNED, SUPERPAGE, ENTRIES, 15),
    Row::exactly(micro::UNALIGNED, PARTIAL, ENTRIES, 1),
    Row::exactly(micro::ATTRIBUTE, SUPERPAGE, ENTRIES, 16),
    Row::exactly(micro::ATTRIBUTE, PARTIAL, ENTRIES, 2),
    Row::exactly(micro::ONE_DIRTY, SINGLE, DIRTY, 64),
    Row::exactly(micro::ONE_DIRTY, PARTIAL, DIRTY, 64),
    Row::exactly(micro::ONE_DIRTY, SUPERPAGE, DIRTY, 64 * 16),
    Row::exactly(micro::HALF_FILE, SUPERPAGE, NEVER_USED, 64 * 8),
    Row::exactly(micro::HALF_FILE, PARTIAL, NEVER_USED, 0),
];

const MISSES: What = ("misses", |m| m.counts.tlb.misses);
/// Entries in use before the program ends, which drops all of them; nothing is invalidated before that.
const ENTRIES: What = ("entries in use", |m| {
    let tlb = &m.counts.tlb;
    tlb.fills - tlb.merges - tlb.covered_drops - tlb.evictions
});
const DIRTY: What = ("pages to write back", |m| m.counts.os.dirty_pages);
const NEVER_USED: What = ("pages populated, never used", |m| m.counts.os.populated_never_used);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::{partial_of, superpage_of};

    #[test]
    fn machines_are_those_of_the_figures() {
        assert_eq!([SUPERPAGE_4, SUPERPAGE_8, PARTIAL_8], [superpage_of(4), superpage_of(8), partial_of(8)]);
    }
}
