//! The designs again, as plainly as the rules can be written: a list of entries, every search a scan. Slow on purpose; shares no
//! code with the product.

use farreach::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach::counts::TlbCounts;
use farreach::event::Kind;
use farreach::hw::tlb::{EntryView, Lookup, Outcome, PageTableView, Pte, Translation};
use farreach::params::Params;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

struct Entry {
    view: EntryView,
    accessed: u64,
    begun: u64,
}

/// Slots that are replaced together, of all orders or of one.
struct Array {
    start: usize,
    entries: usize,
    ways: usize,
    order: Option<u8>,
    rng: Pcg64Mcg,
}

pub struct Reference {
    kind: String,
    slots: Vec<Option<Entry>>,
    arrays: Vec<Array>,
    factor: u64,
    orders: Vec<u8>,
    replacement: String,
    fill_sets_used: bool,
    preload: String,
    assisted: bool,
    all_valid: bool,
    process_ids: bool,
    clock: u64,
    pub counts: TlbCounts,
}

fn text(p: &Params, key: &str) -> Option<String> {
    p.as_json().get(key).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
}

impl Reference {
    pub fn new(kind: &str, p: &Params) -> Reference {
        let entries = p.int("entries") as usize;
        let ways = |n: usize| if p.int("ways") == 0 { n } else { p.int("ways") as usize };
        let orders: Vec<u8> = match text(p, "sizes") {
            Some(_) => p.sizes("sizes").iter().map(|s| (s / 4096).ilog2() as u8).collect(),
            None => vec![0],
        };
        let rng = |i: u64| Pcg64Mcg::seed_from_u64(p.int("seed") + i);
        let arrays: Vec<Array> = if text(p, "lookup").as_deref() == Some("per-size") {
            let sizes: Vec<usize> = match p.texts("size_entries") {
                none if none.is_empty() => vec![entries; orders.len()],
                some => some.iter().map(|n| n.parse().unwrap()).collect(),
            };
            let start = |i: usize| sizes[..i].iter().sum();
            let array = |(i, &n): (usize, &usize)| Array {
                start: start(i),
                entries: n,
                ways: ways(n),
                order: Some(orders[i]),
                rng: rng(i as u64),
            };
            sizes.iter().enumerate().map(array).collect()
        } else {
            vec![Array { start: 0, entries, ways: ways(entries), order: None, rng: rng(0) }]
        };
        let flag = |key| text(p, key).as_deref() == Some("true");
        Reference {
            kind: kind.to_owned(),
            slots: (0..arrays.iter().map(|a| a.entries).sum()).map(|_| None).collect(),
            arrays,
            factor: if text(p, "factor").is_some() { p.int("factor") } else { 1 },
            orders,
            replacement: p.text("replacement").to_owned(),
            fill_sets_used: p.flag("fill_sets_used"),
            preload: text(p, "preload").unwrap_or_else(|| "none".into()),
            assisted: flag("assisted_check"),
            all_valid: flag("all_valid"),
            process_ids: p.flag("process_ids"),
            clock: 0,
            counts: TlbCounts::default(),
        }
    }

    pub fn entries(&self) -> Vec<EntryView> {
        self.slots.iter().flatten().map(|e| e.view.clone()).collect()
    }

    fn region_order(&self) -> u8 {
        self.factor.ilog2() as u8
    }

    /// Whether entries of this order translate everything their tag covers.
    fn whole(&self, order: u8) -> bool {
        match self.kind.as_str() {
            "single" | "superpage" => true,
            "integrated" => order > self.region_order(),
            _ => false,
        }
    }

    fn covers(&self, e: &EntryView, asid: Asid, vpn: u64) -> bool {
        e.asid == asid && e.base.0 >> e.order == vpn >> e.order
    }

    fn translates(&self, e: &EntryView, asid: Asid, vpn: u64) -> bool {
        self.covers(e, asid, vpn) && (self.whole(e.order) || e.pages.iter().any(|p| e.base.0 + p.0 == vpn))
    }

    fn find(&self, asid: Asid, vpn: u64) -> Option<usize> {
        let hits: Vec<usize> = (0..self.slots.len())
            .filter(|&i| self.slots[i].as_ref().is_some_and(|e| self.translates(&e.view, asid, vpn)))
            .collect();
        assert!(hits.len() <= 1, "T94-17");
        hits.first().copied()
    }

    fn has_used(&self) -> bool {
        self.replacement == "used-bit"
    }

    fn touch(&mut self, slot: usize) {
        self.clock += 1;
        let used = self.has_used().then_some(true);
        let e = self.slots[slot].as_mut().unwrap();
        e.accessed = self.clock;
        e.view.used = used;
    }

    fn modify(&mut self, slot: usize, vpn: u64) {
        let e = &mut self.slots[slot].as_mut().unwrap().view;
        let whole = e.pages.len() == 1 && e.pages[0].0 == 0 && e.base.0 != vpn;
        let offset = vpn - e.base.0;
        for page in &mut e.pages {
            if page.0 == offset || whole {
                page.2 = true;
            }
        }
    }

    fn place(&mut self, asid: Asid, vpn: u64, order: u8, keep: Option<usize>) -> Option<usize> {
        let (replacement, group) = (self.replacement.clone(), vpn >> order);
        let array = self.arrays.iter_mut().find(|a| a.order.is_none_or(|o| o == order)).unwrap();
        let sets = (array.entries / array.ways) as u64;
        let first = array.start + (group % sets) as usize * array.ways;
        let slots = first..first + array.ways;
        let stamp = |s: &[Option<Entry>], i: usize| s[i].as_ref().map(|e| (e.accessed, e.begun)).unwrap();
        let victim = match slots.clone().find(|&i| self.slots[i].is_none()) {
            Some(i) => i,
            None => match replacement.as_str() {
                "lru" => slots.min_by_key(|&i| stamp(&self.slots, i).0).unwrap(),
                "fifo" => slots.min_by_key(|&i| stamp(&self.slots, i).1).unwrap(),
                "random" => first + ((u64::from(array.rng.next_u32()) * array.ways as u64) >> 32) as usize,
                _ => {
                    let clear = |i: &usize| self.slots[*i].as_ref().unwrap().view.used == Some(false);
                    match slots.clone().find(clear) {
                        Some(i) => i,
                        None => {
                            slots.for_each(|i| self.slots[i].as_mut().unwrap().view.used = Some(false));
                            first
                        }
                    }
                }
            },
        };
        if keep == Some(victim) {
            return None;
        }
        self.counts.evictions += u64::from(self.slots[victim].is_some());
        self.clock += 1;
        let view = EntryView {
            slot: victim,
            asid,
            base: Vpn(group << order),
            order,
            pages: Vec::new(),
            sb_enabled: None,
            used: self.has_used().then_some(false),
        };
        self.slots[victim] = Some(Entry { view, accessed: self.clock, begun: self.clock });
        Some(victim)
    }

    fn put(&mut self, slot: usize, offset: u64, t: Translation, store: bool) {
        let pages = &mut self.slots[slot].as_mut().unwrap().view.pages;
        let old = pages.iter().position(|p| p.0 == offset).map(|i| pages.remove(i));
        pages.push((offset, t, store || old.is_some_and(|o| o.2)));
        pages.sort_by_key(|p| p.0);
    }

    /// Removes whole entries that share a page with `[from, to)`.
    fn drop_covered(&mut self, asid: Asid, from: u64, to: u64, keep: Option<usize>) {
        for i in 0..self.slots.len() {
            let hit = self.slots[i].as_ref().is_some_and(|e| {
                let base = e.view.base.0;
                e.view.asid == asid && base < to && from < base + (1 << e.view.order)
            });
            if hit && Some(i) != keep {
                self.slots[i] = None;
                self.counts.covered_drops += 1;
            }
        }
    }

    fn joinable(&self, asid: Asid, vpn: u64, pte: Pte) -> Option<usize> {
        let n = self.factor;
        (0..self.slots.len()).find(|&i| {
            self.slots[i].as_ref().is_some_and(|e| {
                let v = &e.view;
                v.order == self.region_order()
                    && self.covers(v, asid, vpn)
                    && v.sb_enabled == Some(true)
                    && v.pages[0].1.pfn.0 / n == pte.pfn.0 / n
                    && v.pages[0].1.attr == pte.attr
                    && vpn % n == pte.pfn.0 % n
            })
        })
    }

    /// T94-13. `None`: the victim would have been `keep`.
    fn fill_partial(&mut self, asid: Asid, vpn: u64, pte: Pte, store: bool, keep: Option<usize>) -> Option<(usize, bool)> {
        let n = self.factor;
        let t = Translation { pfn: pte.pfn, attr: pte.attr };
        if let Some(slot) = self.joinable(asid, vpn, pte) {
            self.put(slot, vpn % n, t, store);
            return Some((slot, true));
        }
        let aligned = vpn % n == pte.pfn.0 % n;
        let order = self.region_order();
        let same: Vec<(bool, u64)> = self
            .slots
            .iter()
            .flatten()
            .filter(|e| e.view.order == order && self.covers(&e.view, asid, vpn))
            .map(|e| (e.view.sb_enabled == Some(true), e.view.pages[0].1.pfn.0 / n))
            .collect();
        let slot = self.place(asid, vpn, order, keep)?;
        if !same.is_empty() {
            if !aligned || same.iter().all(|s| !s.0) {
                self.counts.split_unaligned += 1;
            } else if same.contains(&(true, pte.pfn.0 / n)) {
                self.counts.split_attributes += 1;
            } else {
                self.counts.split_frames += 1;
            }
        }
        self.put(slot, vpn % n, t, store);
        self.slots[slot].as_mut().unwrap().view.sb_enabled = Some(aligned);
        Some((slot, false))
    }

    pub fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView) -> Outcome {
        let (asid, vpn, store) = (at.asid, at.vpn.0, at.kind == Kind::Store);
        if let Some(slot) = self.find(asid, vpn) {
            self.touch(slot);
            if store {
                self.modify(slot, vpn);
            }
            return Outcome::Hit;
        }
        let region = self.region_order();
        let tagged = !matches!(self.kind.as_str(), "single" | "superpage")
            && self.slots.iter().flatten().any(|e| e.view.order == region && self.covers(&e.view, asid, vpn));
        let c = &mut self.counts;
        c.misses += 1;
        c.fills += 1;
        match at.kind {
            Kind::Fetch => c.fetch_misses += 1,
            Kind::Load => c.load_misses += 1,
            Kind::Store => c.store_misses += 1,
        }
        c.data_misses = c.load_misses + c.store_misses;
        c.superpage_misses += u64::from(pte.order > 0);
        c.subblock_misses += u64::from(tagged);
        c.tag_misses += u64::from(!tagged);
        let slot = match self.kind.as_str() {
            "single" | "superpage" => self.miss_whole(asid, vpn, pte, store),
            "complete" => self.miss_complete(asid, vpn, pte, store, table),
            "partial" if self.all_valid => self.miss_all_valid(asid, vpn, pte, store, table),
            "partial" => self.miss_partial(asid, vpn, pte, store, table),
            _ => {
                let order = self.fitting(pte);
                if order > region {
                    self.miss_whole(asid, vpn, pte, store)
                } else if order == 0 {
                    self.miss_partial(asid, vpn, pte, store, table)
                } else {
                    self.miss_medium(asid, vpn, pte, store)
                }
            }
        };
        if !self.has_used() || self.fill_sets_used {
            self.touch(slot);
        }
        if tagged { Outcome::SubblockMiss } else { Outcome::TagMiss }
    }

    fn fitting(&self, pte: Pte) -> u8 {
        *self.orders.iter().rev().find(|&&o| o <= pte.order).unwrap()
    }

    fn miss_whole(&mut self, asid: Asid, vpn: u64, pte: Pte, store: bool) -> usize {
        let order = self.fitting(pte);
        let base = vpn >> order << order;
        if order > 0 {
            self.drop_covered(asid, base, base + (1 << order), None);
        }
        let slot = self.place(asid, vpn, order, None).unwrap();
        self.put(slot, 0, Translation { pfn: Pfn(pte.pfn.0 - (vpn - base)), attr: pte.attr }, store);
        slot
    }

    fn miss_medium(&mut self, asid: Asid, vpn: u64, pte: Pte, store: bool) -> usize {
        let n = self.factor;
        let joined = self.joinable(asid, vpn, pte);
        self.drop_covered(asid, vpn / n * n, vpn / n * n + n, joined);
        let slot = match joined {
            Some(slot) => {
                self.counts.merges += 1;
                slot
            }
            None => self.place(asid, vpn, self.region_order(), None).unwrap(),
        };
        for o in 0..n {
            let t = Translation { pfn: Pfn(pte.pfn.0 / n * n + o), attr: pte.attr };
            self.put(slot, o, t, store && o == vpn % n);
        }
        self.slots[slot].as_mut().unwrap().view.sb_enabled = Some(true);
        slot
    }

    fn reads(&mut self) {
        self.counts.extra_pte_reads += if self.assisted { 1.min(self.factor - 1) } else { self.factor - 1 };
    }

    fn miss_complete(&mut self, asid: Asid, vpn: u64, pte: Pte, store: bool, table: &dyn PageTableView) -> usize {
        let n = self.factor;
        let found = (0..self.slots.len()).find(|&i| self.slots[i].as_ref().is_some_and(|e| self.covers(&e.view, asid, vpn)));
        self.counts.merges += u64::from(found.is_some());
        let slot = found.unwrap_or_else(|| self.place(asid, vpn, self.region_order(), None).unwrap());
        self.put(slot, vpn % n, Translation { pfn: pte.pfn, attr: pte.attr }, store);
        if self.preload != "none" {
            self.reads();
            for v in vpn / n * n..vpn / n * n + n {
                if let (None, Some(other)) = (self.find(asid, v), table.pte(asid, Vpn(v))) {
                    self.put(slot, v % n, Translation { pfn: other.pfn, attr: other.attr }, false);
                    self.counts.preloaded += 1;
                }
            }
        }
        slot
    }

    fn miss_partial(&mut self, asid: Asid, vpn: u64, pte: Pte, store: bool, table: &dyn PageTableView) -> usize {
        let n = self.factor;
        let (slot, joined) = self.fill_partial(asid, vpn, pte, store, None).unwrap();
        self.counts.merges += u64::from(joined);
        let aligned = vpn % n == pte.pfn.0 % n;
        if self.preload == "none" || self.preload == "same-entry" && !aligned {
            return slot;
        }
        self.reads();
        let used = self.slots[slot].as_ref().unwrap().view.used;
        if self.has_used() {
            self.slots[slot].as_mut().unwrap().view.used = Some(true);
        }
        for v in vpn / n * n..vpn / n * n + n {
            let (None, Some(other)) = (self.find(asid, v), table.pte(asid, Vpn(v))) else { continue };
            let shares = aligned && v % n == other.pfn.0 % n && other.pfn.0 / n == pte.pfn.0 / n && other.attr == pte.attr;
            if self.preload == "same-entry" && !shares {
                continue;
            }
            let Some((_, joined)) = self.fill_partial(asid, v, other, false, Some(slot)) else { break };
            self.counts.preloaded += 1;
            self.counts.fills += u64::from(!joined);
        }
        if used == Some(false) {
            self.slots[slot].as_mut().unwrap().view.used = used;
        }
        slot
    }

    fn miss_all_valid(&mut self, asid: Asid, vpn: u64, pte: Pte, store: bool, table: &dyn PageTableView) -> usize {
        let n = self.factor;
        let base = vpn / n * n;
        let aligned = vpn % n == pte.pfn.0 % n;
        self.counts.extra_pte_reads += if aligned { n - 1 } else { 0 };
        let all: Option<Vec<Pte>> = (base..base + n).map(|v| table.pte(asid, Vpn(v))).collect();
        let whole = all.filter(|p| aligned && (0..n).all(|o| p[o as usize].pfn.0 == pte.pfn.0 / n * n + o));
        if let Some(ptes) = whole {
            self.drop_covered(asid, base, base + n, None);
            self.counts.preloaded += n - 1;
            let slot = self.place(asid, vpn, self.region_order(), None).unwrap();
            for (o, p) in ptes.iter().enumerate() {
                self.put(slot, o as u64, Translation { pfn: p.pfn, attr: p.attr }, store && o as u64 == vpn % n);
            }
            self.slots[slot].as_mut().unwrap().view.sb_enabled = Some(true);
            return slot;
        }
        let slot = self.place(asid, vpn, self.region_order(), None).unwrap();
        self.put(slot, vpn % n, Translation { pfn: pte.pfn, attr: pte.attr }, store);
        self.slots[slot].as_mut().unwrap().view.sb_enabled = Some(false);
        slot
    }

    pub fn invalidate(&mut self, asid: Asid, range: VpnRange) {
        for i in 0..self.slots.len() {
            let Some(e) = self.slots[i].as_mut().filter(|e| e.view.asid == asid) else { continue };
            let (base, order, pages) = (e.view.base.0, e.view.order, e.view.pages.clone());
            let size = 1 << order;
            if range.pages == 0 || base >= range.end().0 || base + size <= range.start.0 {
                continue;
            }
            if self.whole(order) {
                self.slots[i] = None;
                self.counts.invalidations += 1;
                continue;
            }
            let mut rest = pages.clone();
            rest.retain(|p| !range.contains(Vpn(base + p.0)));
            if self.all_valid && rest.len() < pages.len() {
                rest.clear();
            }
            self.counts.invalidations += (pages.len() - rest.len()) as u64;
            match rest.is_empty() {
                true => self.slots[i] = None,
                false => self.slots[i].as_mut().unwrap().view.pages = rest,
            }
        }
    }

    fn drop_entries(&mut self, goes: impl Fn(Asid) -> bool) {
        for i in 0..self.slots.len() {
            if let Some(e) = self.slots[i].as_ref().filter(|e| goes(e.view.asid)) {
                self.counts.invalidations += if self.whole(e.view.order) { 1 } else { e.view.pages.len() as u64 };
                self.slots[i] = None;
            }
        }
    }

    pub fn invalidate_space(&mut self, asid: Asid) {
        self.drop_entries(|of| of == asid);
    }

    pub fn switch(&mut self, to: Asid) {
        if !self.process_ids {
            self.drop_entries(|of| of != to);
        }
    }
}
