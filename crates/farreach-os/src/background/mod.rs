//! Work that a system does by itself, at times of a clock (OSC-1): daemons, each a file here after the contract in
//! [`contract`]. A policy brings its own with it ([`Placement::daemons`](crate::placement::contract::Placement)).
//!
//! Time is that of the program: instructions, of which [`TICKS_PER_MS`] make a millisecond. It stands still in the
//! kernel. Who drives the system asks [`Os::due`] for the time of the next work, and calls [`Os::advance`] at the first
//! moment that is not before it.

pub(crate) mod bins;
pub(crate) mod carrefour;
pub(crate) mod collapse;
pub mod contract;
pub(crate) mod hawkeye;
pub(crate) mod ingens;
pub(crate) mod khugepaged;
pub(crate) mod late_frees;
pub(crate) mod overhead;
pub(crate) mod prezero;
pub(crate) mod recovery;
mod ring;
#[cfg(test)]
mod tests;
pub(crate) mod tracker;

use crate::os::Os;
use crate::region::Region;
use contract::Daemon;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::params::{Allowed, Key};

/// What instructions a millisecond has.
pub(crate) const TICKS_PER_MS: Key = Key {
    name: "ticks_per_ms",
    default: "3000000",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "instructions that take a millisecond, the clock of what the system does by itself (OSC-1)",
};

impl Os {
    /// Whether it does work at times of its own.
    pub fn keeps_time(&self) -> bool {
        !self.daemons.is_empty()
    }

    /// When it next does work by itself, in instructions of all programs together (references, of a trace without
    /// fetches); `u64::MAX`: not before something happens to it.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due
    }

    /// It is this late when the next event happens, or later. Work that is due is not done.
    #[inline]
    pub fn note_time(&mut self, now: u64) {
        self.time_of_event = self.time_of_event.max(now);
    }

    /// The time on its clock when the programs have run for this long.
    pub fn ticks_of(&self, microseconds: u64) -> u64 {
        (u128::from(microseconds) * u128::from(self.ticks_per_ms) / 1000).min(u128::from(u64::MAX)) as u64
    }

    /// It is this late now: does the work that is due. Daemons that are due together run in the order of their times,
    /// then in that of the policy. Changes for the hardware are in [`Os::take_changes`].
    pub fn advance(&mut self, now: u64) {
        self.now = now;
        let mut daemons = std::mem::take(&mut self.daemons);
        while let Some(next) = daemons.iter_mut().min_by_key(|daemon| daemon.due()).filter(|next| next.due() <= now) {
            next.run(self, now);
            self.memory.release_freed();
        }
        self.set_daemons(daemons);
    }

    /// Tells daemons something.
    pub(crate) fn tell_daemons(&mut self, mut tell: impl FnMut(&mut dyn Daemon, &Os)) {
        if self.daemons.is_empty() {
            return;
        }
        let mut daemons = std::mem::take(&mut self.daemons);
        daemons.iter_mut().for_each(|daemon| tell(&mut **daemon, self));
        self.set_daemons(daemons);
    }

    pub(crate) fn set_daemons(&mut self, daemons: Vec<Box<dyn Daemon>>) {
        self.due = daemons.iter().map(|daemon| daemon.due()).min().unwrap_or(u64::MAX);
        self.daemons = daemons;
    }

    /// A fault in a region was served.
    pub(crate) fn daemons_see_fault(&mut self, asid: Asid, vpn: Vpn, region: &Region) {
        self.tell_daemons(|daemon, os| daemon.faulted(os, asid, vpn, region));
    }
    /// An event ended, or a fault or copy took memory.
    pub(crate) fn daemons_see_use(&mut self) {
        self.tell_daemons(|daemon, os| daemon.memory_used(os));
    }

    /// Pages of a range are not mapped there any more, if they were.
    pub(crate) fn daemons_see_unmap(&mut self, asid: Asid, range: VpnRange) {
        self.tell_daemons(|daemon, _| daemon.unmapped(asid, range));
    }

    /// The private anonymous memory of a process, ascending.
    pub(crate) fn private_anonymous(&self, asid: Asid) -> Vec<VpnRange> {
        let is_anonymous = |region: &&Region| {
            let object = self.memory.objects.get(region.object);
            object.private && !object.kind.is_file()
        };
        self.spaces[asid.0 as usize].regions.iter().filter(is_anonymous).map(|region| region.range).collect()
    }

    /// The regions in a range are advised to have superpages now.
    pub(crate) fn daemons_see_advice(&mut self, asid: Asid, range: VpnRange) {
        self.tell_daemons(|daemon, os| {
            let regions = os.spaces[asid.0 as usize].regions.from(range.start);
            let inside = regions.take_while(|region| region.range.start < range.end());
            inside.for_each(|region| daemon.advised(os, asid, region));
        });
    }
}
