//! The contract of range tables.

use super::node::Line;
use farreach_types::addr::Vpn;
use farreach_types::translation::{Range, RangeWalk};

/// A process's range table. Ranges in it are disjoint; all tables give the same answers and differ in the nodes a
/// search visits (RMM15-35).
pub trait RangeTable: Send {
    /// Adds a range that overlaps none.
    fn insert(&mut self, range: Range);
    /// Removes the range that begins at this page.
    fn remove(&mut self, first: Vpn) -> Option<Range>;
    /// The walker (RMM15-9).
    fn search(&self, vpn: Vpn) -> RangeWalk;
    /// Byte addresses of the nodes that it visits, in order, if the table has addresses.
    fn path(&self, vpn: Vpn, into: &mut Vec<u64>) {
        let _ = (vpn, into);
    }
    /// The node at such an address, as it lies in memory.
    fn node(&self, _address: u64) -> Option<Line> {
        None
    }
    /// All ranges, ascending.
    fn ranges(&self) -> Vec<Range>;
    /// Nodes it has now.
    fn nodes(&self) -> u64;
}
