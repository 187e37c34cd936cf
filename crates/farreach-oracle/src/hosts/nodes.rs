//! Nodes of the guest's table that are walked themselves (AGI-2).

use super::{HostKind, Hosts, Mistake, Node};
use crate::tables::radix::span;

/// What is known of a node that was written.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Written {
    last: u64,
    nested: bool,
    /// Writes in a row, each within an epoch of the one before.
    close: u64,
}

impl Hosts {
    /// The nodes that lead to a page, or to the first absent entry, from the root down.
    pub(super) fn nodes(&self, asid: u32, vpn: u64, order: Option<u8>) -> Vec<Node> {
        let passed = self.guest.path(asid, vpn, order);
        passed.iter().map(|passed| (asid, passed.top, vpn >> (span(passed.top) + 9))).collect()
    }

    fn within(&self, last: u64) -> bool {
        let longer = u64::from(self.wrong(Mistake::EpochOneLonger));
        self.now - last < self.config.epoch + longer || self.wrong(Mistake::EpochNeverEnds)
    }

    /// Whether this node was written often (not whether one above it was); ends its epoch (OV-9).
    pub(super) fn nested(&mut self, node: Node) -> bool {
        match self.config.kind {
            HostKind::Walk => return true,
            HostKind::Shadow => return false,
            HostKind::Top(levels) => return node.1 <= self.config.levels - levels,
            HostKind::Agile => {}
        }
        let Some(written) = self.written.get(&node).filter(|written| written.nested).copied() else { return false };
        if !self.within(written.last) {
            self.written.remove(&node);
            self.traps.went_back += 1;
            self.other_side(node);
            return false;
        }
        true
    }

    /// The first nested node on the way to a page.
    pub(super) fn first_nested(&mut self, asid: u32, vpn: u64) -> Option<Node> {
        let order = self.guest.pages.order(asid, vpn);
        self.nodes(asid, vpn, order).into_iter().find(|node| self.nested(*node))
    }

    /// OV-10.
    fn other_side(&mut self, node: Node) {
        let (asid, level, index) = node;
        if !self.wrong(Mistake::NestedKeepsMerged) {
            self.drop_merged(asid, index << (span(level) + 9), 1 << (span(level) + 9));
        }
        if !self.wrong(Mistake::NestedKeepsCaches) {
            self.forget(asid);
        }
    }

    /// An entry of this node is written.
    pub(super) fn write(&mut self, node: Node) {
        if self.config.kind != HostKind::Agile {
            return;
        }
        let was = self.nested(node);
        let before = self.written.get(&node).copied().filter(|before| self.within(before.last));
        let close = before.map_or(0, |before| before.close) + 1;
        let often = match self.config.mistake {
            Some(Mistake::OneWriteIsEnough) => 1,
            Some(Mistake::ThreeWritesNeeded) => 3,
            _ => 2,
        };
        let nested = close >= often;
        self.written.insert(node, Written { last: self.now, nested, close });
        if nested && !was {
            self.traps.went_nested += 1;
            self.other_side(node);
        }
    }

    /// The entry of a new page is written, and those of new nodes above it, from the root down.
    pub(super) fn write_path(&mut self, asid: u32, first: u64, order: u8, before: &[Node]) {
        let now = self.nodes(asid, first, Some(order));
        for (above, node) in now.iter().zip(now.iter().skip(1)) {
            if !before.contains(node) && !self.wrong(Mistake::UpperWritesForgotten) {
                self.write(*above);
            }
        }
        self.write(*now.last().expect("there is a root"));
    }

    /// The entry of a page is cleared, and those of the nodes that went with it, from the leaf up.
    pub(super) fn clear_path(&mut self, asid: u32, first: u64, before: &[Node]) {
        let now = self.nodes(asid, first, None);
        for (i, node) in before.iter().enumerate().rev() {
            if now.contains(node) {
                let below_went = before.get(i + 1).is_none_or(|below| !now.contains(below));
                if below_went && (i + 1 == before.len() || !self.wrong(Mistake::UpperWritesForgotten)) {
                    self.write(*node);
                }
            } else if !self.wrong(Mistake::NodeThatWentIsKnown) {
                self.written.remove(node);
            }
        }
    }
}
