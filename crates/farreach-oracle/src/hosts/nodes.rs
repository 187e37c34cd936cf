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
        self.now - last <= self.config.epoch + longer || self.wrong(Mistake::EpochNeverEnds)
    }

    /// Whether this node is nested, not whether one above it is.
    pub(super) fn nested(&self, node: Node) -> bool {
        match self.config.kind {
            HostKind::Walk => true,
            HostKind::Shadow => false,
            HostKind::Top(levels) => node.1 <= self.config.levels - levels,
            HostKind::Agile => self.written.get(&node).is_some_and(|written| written.nested),
        }
    }

    /// The first nested node on the way to a page.
    pub(super) fn first_nested(&self, asid: u32, vpn: u64) -> Option<Node> {
        let order = self.guest.pages.order(asid, vpn);
        self.nodes(asid, vpn, order).into_iter().find(|node| self.nested(*node))
    }

    /// A walk begins (OI-9).
    pub(super) fn sides(&mut self, asid: u32, vpn: u64, order: u8) {
        for node in std::mem::take(&mut self.pending) {
            let before = self.written.get(&node).copied().unwrap_or_default();
            let again = self.written.contains_key(&node) && self.within(before.last);
            let close = if again { before.close + 1 } else { 1 };
            let often = match self.config.mistake {
                Some(Mistake::OneWriteIsEnough) => 1,
                Some(Mistake::ThreeWritesNeeded) => 3,
                _ => 2,
            };
            let late = self.wrong(Mistake::LateWriteKeepsNested) && before.nested;
            self.set(node, Written { last: self.now, nested: close >= often || late, close });
        }
        for node in self.nodes(asid, vpn, Some(order)) {
            let Some(written) = self.written.get(&node).copied() else { continue };
            self.set(node, Written { nested: written.nested && self.within(written.last), ..written });
        }
    }

    /// OI-10.
    fn set(&mut self, node: Node, written: Written) {
        let before = self.written.insert(node, written).is_some_and(|before| before.nested);
        if before == written.nested {
            return;
        }
        *(if before { &mut self.traps.went_back } else { &mut self.traps.went_nested }) += 1;
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
        if self.config.kind == HostKind::Agile {
            self.pending.push(node);
        }
    }

    /// A node is in the tree no more.
    pub(super) fn node_goes(&mut self, node: Node) {
        if !self.wrong(Mistake::NodeThatWentIsKnown) {
            self.written.remove(&node);
            self.pending.retain(|written| *written != node);
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

    /// A page went, and nodes with it: the entry in the lowest node that is still there is cleared.
    pub(super) fn clear_path(&mut self, asid: u32, first: u64, before: &[Node]) {
        let now = self.nodes(asid, first, None);
        let (stay, go): (Vec<Node>, Vec<Node>) = before.iter().partition(|node| now.contains(node));
        if go.is_empty() || !self.wrong(Mistake::UpperWritesForgotten) {
            self.write(*stay.last().expect("the root stays"));
        }
        go.into_iter().for_each(|node| self.node_goes(node));
    }
}
