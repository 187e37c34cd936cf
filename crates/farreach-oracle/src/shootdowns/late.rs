//! Drops that wait for a tick (OS-SHD-10), as lists of records.
//!
//! * OL-10 A record is of one request that is an unmap: its range, whether it drops the whole process, and the cores
//!   that still have to. These are the cores that OS-SHD-2 would interrupt, but lazy ones. A lazy core is interrupted
//!   if tables were freed, as without records. If only lazy cores have the process there is no record.
//! * OL-11 A core that is in a record has reached the generation of the request: the record is all that it lacks.
//! * OL-12 A ring has as many records as it may have while each has a core left. Then a request is refused, and
//!   interrupts, as any other request. So it does not fill the ring of another core.
//! * OL-13 A core serves at a tick, and at a switch from one process to another, before that. It drops each record by
//!   itself, also if an interrupt has dropped all of the process since. Another thread of the process is no switch.
//! * OL-14 Ticks are at whole multiples of `latr_tick`. One that comes late stands for all before it.
//! * OL-15 Pages of a record that are mapped anew force it: all its cores drop all of it. Each is interrupted once for
//!   each record, but the running core not. Other pages of the process force nothing, also if the whole process is to
//!   be dropped.
//! * OL-16 The end of a process takes its records, at no price.
//! * OL-17 What a record still keeps is no entry for others: its range alone. If the whole process is to be dropped,
//!   the rest of it is correct until then.

use super::{Entry, Request, Shootdowns};
use std::collections::BTreeSet;

pub(super) struct Record {
    request: Request,
    /// Whether the whole process is dropped.
    whole: bool,
    /// Whose ring it is in.
    ring: usize,
    cores: BTreeSet<usize>,
}

impl Record {
    fn is_stale(&self, (of, page, size): Entry) -> bool {
        of == self.request.asid && self.request.hits(page, size)
    }

    fn drops(&self, entry: Entry) -> bool {
        if self.whole { entry.0 == self.request.asid } else { self.is_stale(entry) }
    }
}

impl Shootdowns {
    /// The cores that need not know of this request at once, if there is room for a record of it.
    pub(super) fn later(&mut self, request: Request, whole: bool) -> BTreeSet<usize> {
        let none = BTreeSet::new();
        let Some(most) = self.config.latr_records.filter(|_| request.unmapped && !self.config.idle) else {
            return none;
        };
        let others = (0..self.cores.len()).filter(|&at| at != self.now);
        let cores: BTreeSet<usize> = others.filter(|&at| self.cores[at].loaded == Some(request.asid)).collect();
        if cores.is_empty() {
            return none;
        }
        if self.records.iter().filter(|record| record.ring == self.now).count() >= most {
            self.count("records_refused", 1);
            return none;
        }
        self.count("records", 1);
        self.records.push(Record { request, whole, ring: self.now, cores: cores.clone() });
        cores
    }

    /// OL-13.
    pub(super) fn serve_records(&mut self, core: usize) {
        let mut records = std::mem::take(&mut self.records);
        for record in &mut records {
            if record.cores.remove(&core) {
                self.drop_late(core, record);
            }
        }
        records.retain(|record| !record.cores.is_empty());
        self.records = records;
    }

    fn drop_late(&mut self, core: usize, record: &Record) {
        let strides = record.request.strides();
        let (name, n) = if record.whole { ("local_inval_all", 1) } else { ("local_inval_entry", strides) };
        self.count_tags(name, n);
        self.cores[core].entries.retain(|&entry| !record.drops(entry));
    }

    /// When the next tick is, if there are any.
    pub fn due(&self) -> Option<u64> {
        self.config.latr_records.map(|_| self.next_tick)
    }

    /// OL-14.
    pub fn advance(&mut self, now: u64) {
        (0..self.cores.len()).for_each(|core| self.serve_records(core));
        self.next_tick = (now / self.config.latr_tick + 1) * self.config.latr_tick;
    }

    /// These pages are mapped now, and were not (OL-15).
    pub fn mapped(&mut self, asid: u32, first: u64, pages: u64) {
        let is_forced = |request: Request| {
            request.asid == asid && first < request.first + request.pages && request.first < first + pages
        };
        let (forced, others) =
            std::mem::take(&mut self.records).into_iter().partition(|record| is_forced(record.request));
        self.records = others;
        for record in &forced {
            self.count("records_forced", 1);
            for &core in &record.cores {
                self.count("ipis", u64::from(core != self.now));
                self.drop_late(core, record);
            }
        }
    }

    pub(super) fn forget_records(&mut self, asid: u32) {
        self.records.retain(|record| record.request.asid != asid);
    }

    /// OL-17.
    pub fn is_late(&self, core: usize, entry: Entry) -> bool {
        self.records.iter().any(|record| record.cores.contains(&core) && record.is_stale(entry))
    }
}
