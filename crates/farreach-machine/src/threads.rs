//! The running threads, and what each of them fetched last.

use farreach_types::Error;
use farreach_types::addr::Asid;
use farreach_types::event::{Kind, Op};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The running thread of each address space, as far as events have named it.
#[derive(Default)]
pub(super) struct Threads(HashMap<Asid, u32, FixedState>);

impl Threads {
    /// Handles an event; returns the thread that runs in the address space from now on, if it changed.
    pub fn follow(&mut self, asid: Asid, op: &Op) -> Option<u32> {
        match *op {
            Op::Switch { thread } => (self.0.insert(asid, thread) != Some(thread)).then_some(thread),
            // The first thread announced is the one that has been running.
            Op::ThreadStart { thread } if !self.0.contains_key(&asid) => {
                self.0.insert(asid, thread);
                Some(thread)
            }
            Op::Fork { child } => {
                if let Some(&thread) = self.0.get(&asid) {
                    self.0.insert(child, thread);
                }
                None
            }
            Op::End(_) => {
                self.0.remove(&asid);
                None
            }
            _ => None,
        }
    }

    /// The thread that runs when this address space does.
    pub fn of(&self, asid: Asid) -> Option<u32> {
        self.0.get(&asid).copied()
    }
}

/// The address of the latest fetch of each thread (HW-6).
#[derive(Default)]
pub(super) struct LatestFetch {
    /// Of the running thread; `None` before its first fetch.
    pub address: Option<u64>,
    /// Of the threads that do not run, by process and number, which no event may have named.
    others: HashMap<(Asid, Option<u32>), u64, FixedState>,
}

impl LatestFetch {
    /// Another thread goes on, perhaps of another process. Its threads are named by process and number.
    pub fn go_on(&mut self, from: (Asid, Option<u32>), to: (Asid, Option<u32>)) {
        if from != to {
            if let Some(address) = self.address.take() {
                self.others.insert(from, address);
            }
            self.address = self.others.remove(&to);
        }
    }

    /// A thread forked, or a program ended.
    pub fn follow(&mut self, asid: Asid, thread: Option<u32>, op: &Op) {
        match (op, self.address) {
            (Op::Fork { child }, Some(address)) => _ = self.others.insert((*child, thread), address),
            (Op::End(_), _) => {
                self.others.retain(|(of, _), _| *of != asid);
                self.address = None;
            }
            _ => {}
        }
    }
}

/// Refuses a lookup before its thread has fetched anything. `because`: the key and value for which the machine needs
/// the program counter.
pub(super) fn never_fetched(machine: &str, because: &str, (asid, vpn, kind): (Asid, u64, Kind)) -> Error {
    let what = format!(
        "{because} needs the program counter (HW-6), and there is a {} of page {vpn:#x} in address space {} before \
         the first fetch of its thread; the stream must have instruction fetches",
        if kind == Kind::Store { "store" } else { "load" },
        asid.0
    );
    Error::Simulation { machine: machine.to_owned(), what }
}
