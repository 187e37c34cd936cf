//! A design with its keys, and its expected properties: taken from the keys, or found by trying it on a single page.

use crate::table::{Extent, Table, Told};
use farreach_hw::tlb::{Design, EntryView, Lookup, Tlb, Unfiltered, keys_of, tables};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView};
use serde_json::{Map, Value as Json};

/// Builds a design of resolved keys; the error is its refusal.
pub type Make = Box<dyn Fn(&Params) -> Result<Box<dyn Tlb>, String> + Send>;

/// The design under test.
pub struct Subject {
    /// As the registry has it.
    pub design: &'static Design,
    /// As text: `KIND/key=value,...`.
    pub name: String,
    /// Its keys.
    pub params: Params,
    /// Builds the design; a test of the suite itself puts one with a fault in its place.
    pub make: Make,
    /// What is expected of it; nothing before [`Subject::examined`].
    pub traits: Traits,
}

/// Expected properties.
#[derive(Clone, Debug, Default)]
pub struct Traits {
    /// Whether only the running core answers a probe.
    pub several_cores: bool,
    /// Process ids; without them a switch drops the entries of others.
    pub process_ids: bool,
    /// Whether it has registers that are loaded at a lookup, which a probe cannot predict.
    pub registers: bool,
    /// Whether a part is switched on and off, or a system changes what its entries mean, which a probe cannot predict.
    pub controlled: bool,
    /// Whether it knows superpages with holes.
    pub perforated: bool,
    /// Whether misses are walks.
    pub walks: bool,
    /// Whether victims are random.
    pub random: bool,
    /// Whether a hash is seeded, so that another seed may give another result, or not.
    pub hashed: bool,
    /// Among one candidate, so that every draw is the same.
    pub one_way: bool,
    /// Entries at most.
    pub capacity: usize,
    /// Bytes of a base page, and the most bytes that all entries map together.
    pub page: u64,
    /// See `page`.
    pub reach: u64,
    /// Whether a page has one entry for fetches and data: there is one array.
    pub one_array: bool,
    /// Whether entries have modified bits.
    pub modified_bits: bool,
    /// Whether it neither lists its entries nor need count fills: see [`Capabilities::opaque`].
    ///
    /// [`Capabilities::opaque`]: farreach_hw::tlb::Capabilities::opaque
    pub opaque: bool,
    /// Whether it answers probes.
    pub probes: bool,
}

/// The keys of a text such as `entries=4,factor=4`.
pub fn given(keys: &str) -> Map<String, Json> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or_else(|| panic!("'{pair}' is no key=value"));
        (name.to_owned(), Json::from(value))
    };
    keys.split(',').filter(|text| !text.is_empty()).map(pair).collect()
}

impl Subject {
    /// The error is the refusal of the design.
    pub fn new(design: &'static Design, keys: &str) -> Result<Subject, String> {
        let params = {
            let given = given(keys);
            Params::resolve(&keys_of(design, &given), &given)?
        };
        (design.build)(&params)?;
        let shown = if keys.is_empty() { "defaults" } else { keys };
        let name = format!("{}/{shown}", design.kind);
        Ok(Subject { design, name, params, make: Box::new(design.build), traits: Traits::default() })
    }

    /// Determines its properties.
    pub fn examined(mut self) -> Subject {
        self.traits = Traits::of(&self);
        self
    }

    /// A new one, perhaps with another seed.
    pub fn build(&self, seed: Option<u64>) -> Box<dyn Tlb> {
        let mut params = self.params.clone();
        if let Some(seed) = seed {
            let mut values = params.as_json().clone();
            values.insert("seed".into(), seed.into());
            params = Params::resolve(&keys_of(self.design, &values), &values).expect("they were resolved before");
        }
        (self.make)(&params).unwrap_or_else(|e| panic!("{} was built once, and now: {e}", self.name))
    }
}

impl Traits {
    fn of(subject: &Subject) -> Traits {
        let p = &subject.params;
        let word = |key: &str| if p.has(key) { p.text(key) } else { "" };
        let page = p.int("page_size");
        let mut tlb = (subject.design.build)(p).expect("it was built once");
        let seen = [Kind::Load, Kind::Fetch, Kind::Store].map(|kind| lookup_of_lone_page(&mut *tlb, kind));
        let stored = lookup_of_lone_page(&mut *(subject.design.build)(p).expect("it was built once"), Kind::Store);
        let (opaque, probes) = (tlb.opaque(), tlb.probe(LONE.0, LONE.1, Kind::Store).is_some());
        let entries = capacity(p);
        let is_modified = |view: &EntryView| view.pages.iter().any(|page| page.2);
        Traits {
            several_cores: tlb.on_thread().is_some(),
            process_ids: !p.has("process_ids") || p.flag("process_ids"),
            registers: tlb.on_segment().is_some(),
            controlled: word("range_control") == "counters" || p.has("anchor_epoch") && p.int("anchor_epoch") > 0,
            perforated: word("second_level") == "perforated",
            walks: p.has("walk_levels"),
            random: p.as_json().values().any(|value| value.as_str().is_some_and(|v| ["random", "lfsr"].contains(&v))),
            hashed: tables::chosen(p).is_some() || !["", "radix"].contains(&word(tables::HOST_TABLE.name)),
            one_way: capacity(p) == 1 || p.has("ways") && p.int("ways") == 1,
            capacity: if opaque && entries == 0 { 64 } else { entries },
            page,
            reach: (subject.design.reach)(p),
            one_array: seen.iter().all(|views| views.len() == 1),
            modified_bits: seen[2].iter().chain(&stored).any(is_modified),
            opaque,
            probes: probes || !opaque,
        }
    }
}

/// The only page of a table.
const LONE: (Asid, Vpn) = (Asid(0), Vpn(0x405));

/// The entries after a lookup of the only page.
fn lookup_of_lone_page(tlb: &mut dyn Tlb, kind: Kind) -> Vec<EntryView> {
    let (asid, vpn) = LONE;
    let mut table = Table::default();
    table.insert(Extent { asid, first: vpn.0, pages: 1, pfn: 0x9_0005, attr: Attr(7), order: 0, ranged: false });
    let mut unfiltered = Unfiltered::default();
    tlb.switch(asid, &mut unfiltered);
    let pte = table.pte(asid, vpn).expect("it is mapped");
    crate::watch::ask(tlb, &mut Told::default(), (Lookup { asid, vpn, kind }, pte, &table), &mut unfiltered);
    tlb.entries()
}

/// Most entries: the sum of keys that are called `entries` or `..._entries`, and of keys that list arrays, as
/// `4K:64/4+2M:32`; for each size that may have an array of its own, and for each core.
pub fn capacity(p: &Params) -> usize {
    let mut entries = 0;
    for (key, value) in p.as_json() {
        if key == "entries" || key.ends_with("_entries") {
            let arrays = if key == "entries" && p.has("size_entries") { p.sizes("sizes").len() as u64 } else { 1 };
            entries += value.as_u64().unwrap_or(0) * arrays;
        }
        let arrays = value.as_array().into_iter().flatten().filter_map(|item| item.as_str()?.split_once(':'));
        let of_array =
            |(_, shape): (&str, &str)| shape.split('/').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        entries += arrays.map(of_array).sum::<u64>();
    }
    let cores = if p.has("cores") { p.int("cores") } else { 1 };
    (entries * cores) as usize
}
