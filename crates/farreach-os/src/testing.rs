//! Systems and programs by hand, for tests of policies.

use crate::{Change, Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Advice, Backing, Kind, Mapping, Op, Prot};
use farreach_types::params::{Key, Params};
use farreach_types::translation::{PageTableView, Pte};
use serde_json::{Map, json};

/// Keys, joined by commas.
pub fn build(placement: &str, text: &str) -> Result<Os, String> {
    let all: Vec<&Key> = crate::keys(placement);
    let mut given: Map<_, _> = [("placement".to_owned(), json!(placement))].into_iter().collect();
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    given.extend(pairs.map(|(key, value)| (key.to_owned(), json!(value))));
    Os::new(&Params::resolve(&all, &given)?)
}

/// With a process.
pub fn os(placement: &str, text: &str) -> Os {
    let mut os = build(placement, text).unwrap();
    os.apply(Asid(0), &Op::Start { pid: 1, parent: None, program: "/bin/p".into() });
    os
}

pub fn map_as(os: &mut Os, asid: u32, first: u64, pages: u64, shared: bool, backing: Backing) {
    let (start, len) = (first << 12, pages << 12);
    os.apply(Asid(asid), &Op::Map(Mapping { start, len, prot: Prot::RW, shared, backing }));
}

/// Private memory.
pub fn map(os: &mut Os, first: u64, pages: u64) {
    map_as(os, 0, first, pages, false, Backing::Anonymous);
}

/// madvise.
pub fn advise(os: &mut Os, first: u64, pages: u64, advice: Advice) {
    os.apply(Asid(0), &Op::Advise { start: first << 12, len: pages << 12, advice });
    os.check();
}

pub fn file(name: &str, first_page: u64) -> Backing {
    Backing::File { path: name.into(), offset: first_page << 12 }
}

/// A touch; the entry of the page after it.
pub fn touch(os: &mut Os, asid: u32, vpn: u64, kind: Kind) -> Pte {
    let touched = os.touch(Asid(asid), Vpn(vpn), kind).unwrap();
    os.check();
    assert_eq!(os.pte(Asid(asid), Vpn(vpn)), Some(touched.pte));
    touched.pte
}

/// The frame that a load of a page finds.
pub fn load(os: &mut Os, vpn: u64) -> u64 {
    touch(os, 0, vpn, Kind::Load).pfn.0
}

pub fn store(os: &mut Os, vpn: u64) -> u64 {
    touch(os, 0, vpn, Kind::Store).pfn.0
}

pub fn order(os: &Os, asid: u32, vpn: u64) -> u8 {
    os.pte(Asid(asid), Vpn(vpn)).unwrap().order
}

pub fn unmap(os: &mut Os, first: u64, pages: u64) {
    os.apply(Asid(0), &Op::Unmap { start: first << 12, len: pages << 12 });
    os.check();
}

/// What the policy counts itself.
pub fn counts<const N: usize>(os: &Os, names: [&str; N]) -> [u64; N] {
    let counts = os.counts().policy;
    names.map(|name| counts.get(name))
}

/// The changes since the last call that are of this kind.
pub fn changes(os: &mut Os, what: What) -> Vec<(u64, u64)> {
    let mut all: Vec<Change> = Vec::new();
    os.take_changes(&mut all);
    all.iter().filter(|change| change.what == what).map(|change| (change.pages.start.0, change.pages.pages)).collect()
}
