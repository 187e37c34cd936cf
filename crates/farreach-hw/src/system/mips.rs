//! A software-managed TLB beside virtual caches, as in MIPS (SV97-30), to compare softvm with. Same caches, same page
//! table, same global space; the TLB is looked up beside the first level, and a TLB miss is served even where the
//! caches hit (AMB-40).

use super::caches::Caches;
use super::global::{id_of, kernel, upte};
use super::random_tlb::{self, RandomTlb};
use super::softvm::{Code, fetch_code, load_physical};
use super::{Item, NONE, System, SystemKind, family, keys};
use farreach_types::addr::{Asid, BASE_SHIFT, Pfn, VpnRange};
use farreach_types::counts::SystemCounts;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Translation};

/// See the module.
pub const MIPS: SystemKind = SystemKind {
    kind: "mips",
    about: "software-managed TLB beside virtual caches, page table entries in the caches (SV97-30)",
    keys: &[
        &random_tlb::ENTRIES,
        &random_tlb::RESERVED,
        &random_tlb::SPLIT,
        &keys::L1_SIZE,
        &keys::L2_SIZE,
        &keys::CACHE_LINE,
        &keys::L2_LINE,
        &keys::L1_WAYS,
        &keys::L2_WAYS,
        &keys::ID_BITS,
        &keys::HANDLER_AT,
        &keys::HANDLER_INSTRUCTIONS,
        &keys::ON_REMAP,
        &keys::LAZY_RAISE,
        &keys::SYNONYMS,
        &keys::SEED,
    ],
    build: |family, plain| Ok(Box::new(Mips::new(family, plain)?)),
    alike: family::alike,
    reach: |params| {
        let ordinary = params.int(random_tlb::ENTRIES.name) - params.int(random_tlb::RESERVED.name);
        (ordinary << BASE_SHIFT) * if params.flag(random_tlb::SPLIT.name) { 2 } else { 1 }
    },
    parts: &[],
};

struct Mips {
    caches: Caches,
    /// Data side or both; fetches, if split.
    tlbs: Vec<RandomTlb>,
    /// By side: a page that its TLB translates.
    page: [u64; 2],
    code: Vec<u64>,
    root_code: Vec<u64>,
}

impl Mips {
    fn new(family: &[&Params], plain: bool) -> Result<Mips, String> {
        let (params, caches) = (family[0], Caches::new(family, plain)?);
        let code = Code::of(params)?;
        let tlb = || RandomTlb::new(params, params.int(random_tlb::RESERVED.name));
        let mut tlbs = vec![tlb()?];
        if params.flag(random_tlb::SPLIT.name) {
            tlbs.push(tlb()?);
        }
        Ok(Mips {
            tlbs,
            page: [NONE; 2],
            code: code.lines(&caches, 0),
            root_code: code.lines(&caches, kernel::ROOT_HANDLER),
            caches,
        })
    }

    fn tlb(&mut self, side: usize) -> &mut RandomTlb {
        let fetches = side == 0 && self.tlbs.len() > 1;
        &mut self.tlbs[usize::from(fetches)]
    }

    /// Whether the TLB had to be filled for this reference.
    #[inline(never)]
    fn look_up(&mut self, item: Item, page: u64, table: &dyn PageTableView) -> bool {
        let side = item.side();
        let found = self.tlb(side).find(page);
        self.page[side] = page;
        if let Some(found) = found {
            if cfg!(debug_assertions) {
                let truth = table.pte(self.caches.asid, item.vpn()).map(|pte| pte.pfn);
                assert_eq!(Some(found.pfn), truth, "XC-3: the TLB translates {item:?} otherwise than the page table");
            }
            return false;
        }
        self.refill(item, page, table);
        // The fill may have evicted the entry of the other side, and the handler's lines are in the caches now.
        self.page[1 - side] = NONE;
        self.caches.forget_last();
        true
    }

    /// The handler loads the user entry at its virtual address; for that the page of the page table may have to be
    /// mapped first.
    fn refill(&mut self, item: Item, page: u64, table: &dyn PageTableView) {
        let side = item.side();
        self.caches.misses.push(item);
        self.caches.counts.tlb_misses += 1;
        let rows = &mut self.caches.counts.handler;
        *(if side == 0 { &mut rows.fetch_runs } else { &mut rows.data_runs }) += 1;
        self.code.iter().for_each(|&line| fetch_code(&mut self.caches, line, false));
        let entry = upte(page << BASE_SHIFT);
        let table_page = entry >> BASE_SHIFT;
        if self.tlb(1).find(table_page).is_none() {
            self.caches.counts.tlb_root_misses += 1;
            self.caches.counts.handler.data_runs += 1;
            self.root_code.iter().for_each(|&line| fetch_code(&mut self.caches, line, false));
            let root = self.caches.root(page);
            load_physical(&mut self.caches, root, false);
            // The frame of the page does not matter: kernel memory is no part of the simulated memory.
            self.tlb(1).fill_reserved(table_page, Translation { pfn: Pfn(0), attr: Attr(Attr::READ | Attr::WRITE) });
        }
        let line = entry >> self.caches.line_shift();
        self.caches.counts.handler.loads += 1;
        if self.caches.kernel(1, line, false) {
            self.caches.counts.handler.l2d_misses += 1;
            self.caches.insert_kernel(1, line);
        }
        let pte = table.pte(self.caches.asid, item.vpn()).expect("the operating system has served the fault");
        self.tlb(side).fill(page, Translation { pfn: pte.pfn, attr: pte.attr });
        self.write_back();
    }

    /// A reference that missed the first level. Its translation is known.
    #[inline(never)]
    fn miss(&mut self, item: Item, global: u64, filled: bool, table: &dyn PageTableView) {
        let (side, store) = (item.side(), item.kind_index() == 2);
        if !self.caches.beyond(item, global, filled) {
            return;
        }
        let pte = table.pte(self.caches.asid, item.vpn()).expect("the operating system has served the fault");
        self.caches.bring(item, global, pte);
        let attr = self.caches.attr_of(global, pte);
        self.caches.insert(side, global, attr, store);
        self.write_back();
    }

    /// Modified lines go to memory; their translation is kept beside them.
    fn write_back(&mut self) {
        self.caches.counts.dirty_victims += self.caches.pending.drain(..).count() as u64;
    }

    fn drop_entries(&mut self, which: impl Fn(u64) -> bool) {
        self.page = [NONE; 2];
        self.tlbs.iter_mut().for_each(|tlb| self.caches.counts.tlb_invalidations += tlb.remove(&which));
    }
}

impl System for Mips {
    fn run(&mut self, asid: Asid, span: &[Item], table: &dyn PageTableView) {
        debug_assert_eq!(asid, self.caches.asid);
        for &item in span {
            let Some(line) = self.caches.unfiltered_line(item) else { continue };
            let global = self.caches.global_line(item);
            let page = self.caches.page_of(global);
            if !self.caches.freed.is_empty() {
                self.forget_freed();
            }
            let filled = page != self.page[item.side()] && self.look_up(item, page, table);
            if !self.caches.hit(item, line, global, table) {
                self.miss(item, global, filled, table);
            } else if filled {
                self.caches.l1_misses.program[item.side()][1].add(0);
            }
        }
    }

    fn changed(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        self.caches.changed(asid, pages, table, |_| {});
        self.flushed(asid, pages);
    }

    fn flushed(&mut self, asid: Asid, pages: VpnRange) {
        let space = &self.caches.space;
        let stale = |page: &u64| space.lies_in(*page, asid, pages);
        let stale: Vec<u64> = self.tlbs.iter().flat_map(|tlb| tlb.pages().concat()).filter(stale).collect();
        if !stale.is_empty() {
            self.drop_entries(|page| stale.contains(&page));
        }
    }

    fn gone(&mut self, asid: Asid) {
        self.caches.gone(asid);
        self.forget_freed();
    }

    fn switch(&mut self, to: Asid) {
        self.caches.switch(to);
        self.page = [NONE; 2];
    }

    fn misses(&mut self) -> &mut Vec<Item> {
        &mut self.caches.misses
    }

    fn line_shift(&self) -> u32 {
        self.caches.line_shift()
    }

    fn counts(&self, member: usize, accesses: [u64; 2]) -> SystemCounts {
        self.caches.counted(member, accesses)
    }
}

impl Mips {
    /// Drops the entries of identifiers that are free now.
    fn forget_freed(&mut self) {
        let freed = std::mem::take(&mut self.caches.freed);
        self.drop_entries(|page| id_of(page << BASE_SHIFT).is_some_and(|id| freed.contains(&id)));
    }
}
