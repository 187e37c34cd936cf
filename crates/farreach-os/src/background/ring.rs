//! The processes that a daemon looks at, one after the other, each by address (LNX-11).

use super::collapse::Collapse;
use crate::os::Os;
use crate::region::Region;
use farreach_types::addr::{Asid, Vpn, VpnRange};

/// See the module.
#[derive(Default)]
pub(crate) struct Ring {
    /// Processes in the order in which they entered.
    list: Vec<Asid>,
    /// The one whose turn it is, and from which page on; `None`: the first.
    at: Option<(usize, Vpn)>,
}

impl Ring {
    /// Whether there is no process.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The processes in the order in which they entered.
    pub fn processes(&self) -> &[Asid] {
        &self.list
    }

    /// Whether a process is there.
    pub fn has(&self, asid: Asid) -> bool {
        self.list.contains(&asid)
    }

    /// A process enters at the tail. False if it is there.
    pub fn enter(&mut self, asid: Asid) -> bool {
        let new = !self.has(asid);
        if new {
            self.list.push(asid);
        }
        new
    }

    /// A process leaves.
    pub fn leave(&mut self, asid: Asid) {
        let Some(gone) = self.list.iter().position(|&other| other == asid) else { return };
        self.list.remove(gone);
        self.at = match self.at {
            Some((i, from)) if i > gone => Some((i - 1, from)),
            Some((i, _)) if i == gone => (i < self.list.len()).then_some((i, Vpn(0))),
            at => at,
        };
    }

    /// The process whose turn it is goes on from this page.
    pub fn go_on_from(&mut self, page: Vpn) {
        if let Some((_, from)) = &mut self.at {
            *from = page;
        }
    }

    /// The next group; the cursor is behind it then. `None` at the end of the ring if `begun`, which is set when the
    /// first process has its turn: a wake passes the beginning once.
    pub fn next(&mut self, os: &Os, collapse: &Collapse, begun: &mut bool) -> Option<(Asid, VpnRange, Region)> {
        loop {
            let (i, from) = match self.at {
                Some(at) => at,
                None if *begun || self.list.is_empty() => return None,
                None => {
                    *begun = true;
                    (0, Vpn(0))
                }
            };
            let asid = self.list[i];
            match collapse.next_group(os, asid, from) {
                Some((group, region)) => {
                    self.at = Some((i, group.end()));
                    return Some((asid, group, region));
                }
                None => self.at = (i + 1 < self.list.len()).then_some((i + 1, Vpn(0))),
            }
        }
    }
}
