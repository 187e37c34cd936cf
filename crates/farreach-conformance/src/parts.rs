//! The rules of parts that count by themselves: additions behind the second level, and page tables (HW-1).
//!
//! * HW-L1: what the machine without additions misses, this one misses too, or an addition answers alone. Lookup by
//!   lookup.
//! * HW-3: an addition that answers fills the TLBs as a walk does, so that their entries are those of the machine
//!   without it.
//! * PT-1: a page table changes no miss, in neither dimension. Nor do walk caches (WC), nor a host with a merged table
//!   (SHD, AGI).
//! * The laws that each part declares, such as PB-10.

use crate::subject::{Subject, capacity};
use crate::table::{Table, Told};
use crate::tally::need;
use crate::watch::{apply, ask};
use crate::world::Event;
use farreach_hw::tlb::additions::{self, ListedAddition};
use farreach_hw::tlb::{
    Answer, EntryView, Lookup, Outcome, Tlb, Unfiltered, counting, host, keys_of, tables, walk_caches,
};
use farreach_types::counts::TlbCounts;
use farreach_types::params::Params;
use farreach_types::translation::Pte;

/// The parts of a design, and the same design without them.
pub struct Parts {
    params: Params,
    additions: Vec<&'static ListedAddition>,
    baseline: Option<Baseline>,
}

struct Baseline {
    tlb: Box<dyn Tlb>,
    told: Told,
    slots: usize,
    unfiltered: Unfiltered,
}

/// The additions that a machine names.
fn named(params: &Params) -> Vec<&'static ListedAddition> {
    let names = if params.has(additions::BEHIND.name) { params.texts(additions::BEHIND.name) } else { Vec::new() };
    names.iter().filter_map(|name| additions::listed(name)).collect()
}

impl Parts {
    pub fn of(subject: &Subject) -> Parts {
        let params = &subject.params;
        let additions = named(params);
        let (table, host) = (tables::chosen(params), host::chosen(params));
        let comparable = additions.iter().all(|listed| (listed.keeps_tlbs)(params));
        let has_default = |name: &str, default: &str| !params.has(name) || params.text(name) == default;
        let has_parts = !additions.is_empty()
            || table.is_some()
            || !has_default(tables::HOST_TABLE.name, tables::HOST_TABLE.default)
            || !has_default(walk_caches::PWC_KIND.name, walk_caches::PWC_KIND.default)
            || host.is_some_and(|host| host.follows);
        let baseline = (has_parts && comparable).then(|| {
            let (tlb, slots) = without(subject);
            Baseline { tlb, told: Told::default(), slots, unfiltered: Unfiltered::default() }
        });
        Parts { params: params.clone(), additions, baseline }
    }

    /// Misses that an addition answered alone.
    fn answered(&self, counts: &TlbCounts) -> u64 {
        let of = |listed: &&ListedAddition| listed.answers.map_or(0, |name| counts.parts.count(listed.name, name));
        self.additions.iter().map(of).sum()
    }

    /// The lookup ended so, with these counts before and behind it. Returns whether an addition answered it alone.
    pub fn lookup(
        &mut self,
        (at, pte, table): (Lookup, Pte, &Table),
        answer: Answer,
        before: &TlbCounts,
        now: &TlbCounts,
    ) -> Result<bool, String> {
        let answered = self.answered(now) - self.answered(before);
        let miss = u64::from(answer.outcome != Outcome::Hit);
        need(answered + miss <= 1, || format!("{at:?} was answered by an addition, and missed"))?;
        let Some(Baseline { tlb, told, unfiltered, .. }) = &mut self.baseline else { return Ok(answered > 0) };
        unfiltered.clear();
        let plain = ask(&mut **tlb, told, (at, pte, table), unfiltered);
        let missed = u64::from(plain.outcome != Outcome::Hit);
        need(missed == miss + answered, || {
            format!(
                "HW-L1: {at:?} ends as {:?} without additions; with them as {:?}, and they answered {answered}",
                plain.outcome, answer.outcome
            )
        })?;
        Ok(answered > 0)
    }

    /// Entries of the TLBs, without those of additions, which count what happens to theirs themselves.
    pub fn of_tlbs(&self, mut entries: Vec<EntryView>) -> Vec<EntryView> {
        if let Some(Baseline { slots, .. }) = &self.baseline {
            entries.retain(|entry| entry.slot < *slots);
        }
        entries
    }

    /// An event that is no lookup.
    pub fn apply(&mut self, event: Event, table: &Table) {
        if let Some(Baseline { tlb, unfiltered, .. }) = &mut self.baseline {
            unfiltered.clear();
            apply(event, &mut **tlb, table, unfiltered);
        }
    }

    /// The entries of the TLBs, and the laws of the counts.
    pub fn check(&self, entries: &[EntryView], counts: &TlbCounts) -> Result<(), String> {
        for (name, part) in counts.parts.iter() {
            let counting = counting(name, &self.params).ok_or_else(|| format!("no part is called {name}"))?;
            for (law, (left, right)) in counting.laws(part, counts) {
                need(left == right, || format!("{law}: {left} and {right} should be equal: {name} {part:?}"))?;
            }
        }
        let Some(Baseline { tlb, slots, .. }) = &self.baseline else { return Ok(()) };
        let plain = tlb.entries();
        let own: Vec<&EntryView> = entries.iter().filter(|entry| entry.slot < *slots).collect();
        need(own.iter().copied().eq(plain.iter()), || {
            let differs = own.iter().zip(&plain).find(|(a, b)| **a != *b);
            format!("HW-3: the TLBs have other entries than without additions: {differs:?}, {own:?} and {plain:?}")
        })?;
        let of = |c: &TlbCounts| (c.evictions, c.covered_drops, c.second_level_fetch_hits, c.second_level_data_hits);
        need(of(counts) == of(tlb.counts()), || {
            format!("HW-3: evictions and hits of the second level: {:?}, without {:?}", of(counts), of(tlb.counts()))
        })
    }
}

/// The design without its additions, with a radix tree, split walk caches and a host that walks; and its slots, which
/// come before those of the additions.
fn without(subject: &Subject) -> (Box<dyn Tlb>, usize) {
    let mut given = subject.params.as_json().clone();
    let host = subject.params.has(host::HOST.name).then_some(&host::HOST);
    let host = host.filter(|_| host::chosen(&subject.params).is_some_and(|host| host.follows));
    let of_host = subject.params.has(tables::HOST_TABLE.name).then_some(&tables::HOST_TABLE);
    let parts = [&additions::BEHIND, &tables::TABLE, &walk_caches::PWC_KIND];
    for key in parts.into_iter().chain(host).chain(of_host) {
        given.insert(key.name.to_owned(), key.default.into());
    }
    let keys = keys_of(subject.design, &given);
    given.retain(|name, _| keys.iter().any(|key| key.name == name));
    let params = Params::resolve(&keys, &given).expect("they were resolved before");
    let tlb = (subject.design.build)(&params).unwrap_or_else(|why| panic!("{} without its parts: {why}", subject.name));
    // Of predictors and walk caches, nothing is listed.
    let unlisted = ["predictor_entries", "pwc_entries"].iter().filter(|key| params.has(key));
    let slots = capacity(&params) - unlisted.map(|key| params.int(key) as usize).sum::<usize>();
    (tlb, slots)
}
