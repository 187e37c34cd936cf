//! Events of programs of which Linux makes more than others (LNX-11, LNX-20).

use super::PlainLinux;
use crate::superpages::group;
use std::ops::Range;

impl PlainLinux {
    /// LNX-20, for all sizes: what moves as a whole to an aligned place stays.
    pub(super) fn move_whole(&mut self, process: u32, from: Range<u64>, to: u64) {
        for page in from.clone() {
            let order = self.entry(process, page).map_or(0, |entry| entry.order);
            let whole = group(page, order);
            let aligned = to.wrapping_sub(from.start).is_multiple_of(1 << order);
            if !aligned || whole.start < from.start || whole.end > from.end {
                self.paging.split(process, page);
            } else if order > 0 && page == whole.start {
                self.own.moved += 1;
            }
        }
    }
}
