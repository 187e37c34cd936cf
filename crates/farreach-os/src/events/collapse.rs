//! MADV_COLLAPSE (LNX-14).
//!
//! Where the rule is silent: a group without any page is left alone, and so are shared memory and files. What a group
//! frees is free for the next.

use crate::background::collapse::{Collapse, Work};
use crate::os::Os;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::ThpRule;

impl Os {
    /// Groups of base pages that lie in the range become superpages at once. Modes of sizes and limits of the daemon do
    /// not matter, and memory is compacted for them.
    pub(super) fn collapse_asked(&mut self, asid: Asid, range: VpnRange) {
        let Some(order) = self.placement.collapses_when_asked() else { return };
        if self.space(asid).thp == ThpRule::Never {
            return;
        }
        let rule = Collapse { order, compacts: true, missing: u64::MAX, shared: u64::MAX, accessed: false };
        for region in self.space(asid).regions.within(range) {
            if !self.may_be_asked(&region) {
                continue;
            }
            let first = region.range.start.0.next_multiple_of(rule.pages());
            let end = region.range.end();
            let groups = (first..end.0).step_by(rule.pages() as usize).map(|first| rule.group(Vpn(first)));
            for group in groups.filter(|group| group.end() <= end) {
                rule.attempt(self, asid, group, &region, &mut Work::default());
                self.memory.release_freed();
            }
        }
    }

    fn may_be_asked(&self, region: &Region) -> bool {
        let object = self.memory.objects.get(region.object);
        object.private && !object.kind.is_file() && matches!(region.advice, HugeAdvice::None | HugeAdvice::Huge)
    }
}
