//! Translation in software (SV97-1 to SV97-25), and two variants that serve the same misses in other ways (SV97-31,
//! SV97-32).
//!
//! There is no TLB: a reference that hits either cache level needs no translation, and any other is served by a handler
//! whose code and page table entries go through the same caches.

use super::caches::Caches;
use super::global::{kernel, upte};
use super::tables::{Organisation, table};
use super::{Build, Item, System, SystemKind, TagLatch, family, keys};
use crate::cache::{Found, Line};
use farreach_types::addr::{Asid, BASE_SHIFT, VpnRange};
use farreach_types::counts::{HandlerCounts, SystemCounts};
use farreach_types::params::{Key, Params};
use farreach_types::translation::{Attr, PageTableView};

/// The machine of the paper.
pub const SOFTVM: SystemKind =
    kind("softvm", "no TLB: a software handler serves the misses of virtual caches (SV97-1)", KEYS, build);
/// SV97-31.
pub const SPUR: SystemKind = kind(
    "spur",
    "no TLB: hardware finds page table entries in the caches, as in SPUR (SV97-31)",
    WITHOUT_CODE,
    build_spur,
);
/// SV97-32.
pub const VMP: SystemKind = kind(
    "vmp",
    "no TLB: handler and root tables lie in a local memory of the processor, as in VMP (SV97-32)",
    WITHOUT_CODE,
    build_vmp,
);

const fn kind(kind: &'static str, about: &'static str, keys: &'static [&'static Key], build: Build) -> SystemKind {
    SystemKind { kind, about, keys, build, alike: family::alike, reach: |_| 0, parts: &[] }
}

const KEYS: &[&Key] = &[
    &keys::L1_SIZE,
    &keys::L2_SIZE,
    &keys::CACHE_LINE,
    &keys::L2_LINE,
    &keys::L1_WAYS,
    &keys::L2_WAYS,
    &keys::ID_BITS,
    &keys::TABLE,
    &keys::BUCKETS,
    &keys::WRITE_BACK,
    &keys::ON_REMAP,
    &keys::LAZY_RAISE,
    &keys::SYNONYMS,
    // The last two are of handlers whose code goes through the caches.
    &keys::HANDLER_AT,
    &keys::HANDLER_INSTRUCTIONS,
];
const WITHOUT_CODE: &[&Key] = KEYS.split_at(KEYS.len() - 2).0;

fn build(family: &[&Params], plain: bool) -> Result<Box<dyn System>, String> {
    Ok(Box::new(Softvm::new(family, plain, Some(Code::of(family[0])?), Home::Memory)?))
}

fn build_spur(family: &[&Params], plain: bool) -> Result<Box<dyn System>, String> {
    Ok(Box::new(Softvm::new(family, plain, None, Home::Memory)?))
}

fn build_vmp(family: &[&Params], plain: bool) -> Result<Box<dyn System>, String> {
    Ok(Box::new(Softvm::new(family, plain, None, Home::Local)?))
}

/// The memory of root tables, and of code if there is any.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    /// Physical memory, through the caches.
    Memory,
    /// A memory of the processor's own, as fast as the first level.
    Local,
}

/// Why a handler runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Miss,
    WriteBack,
}

/// See the module.
pub struct Softvm {
    caches: Caches,
    /// Lines of the handler's code.
    code: Vec<u64>,
    home: Home,
    tag_latch: TagLatch,
    /// `None`: the linear table in the global space, looked up from the leaf.
    table: Option<Box<dyn Organisation>>,
    path: Vec<u64>,
    keep: bool,
}

impl Softvm {
    fn new(family: &[&Params], plain: bool, code: Option<Code>, home: Home) -> Result<Softvm, String> {
        let (params, caches) = (family[0], Caches::new(family, plain)?);
        Ok(Softvm {
            code: code.map_or_else(Vec::new, |code| code.lines(&caches, 0)),
            home,
            tag_latch: TagLatch::GUARDED,
            table: table(params)?,
            path: Vec::with_capacity(16),
            keep: params.text(keys::WRITE_BACK.name) == "keep",
            caches,
        })
    }

    /// From a description of kind `softvm`.
    pub fn from_params(params: &Params) -> Result<Softvm, String> {
        Softvm::new(&[params], false, Some(Code::of(params)?), Home::Memory)
    }

    fn rows(&mut self, cause: Cause) -> &mut HandlerCounts {
        match cause {
            Cause::Miss => &mut self.caches.counts.handler,
            Cause::WriteBack => &mut self.caches.counts.write_back,
        }
    }

    /// A reference that missed the first level, or the smallest.
    #[inline(never)]
    fn miss(&mut self, item: Item, global: u64, table: &dyn PageTableView) {
        let (side, store) = (item.side(), item.kind_index() == 2);
        if !self.caches.beyond(item, global, false) {
            return;
        }
        self.caches.misses.push(item);
        if self.caches.barred(item) {
            return;
        }
        // The program retries until it hits: writing back can have displaced the line that was just brought in.
        let mut write_backs = 0;
        while self.caches.sides[side].reference(global, store) == Found::Memory {
            self.cachemiss(item, global, table);
            write_backs += self.write_back(table);
        }
        self.caches.counts.most_write_backs = self.caches.counts.most_write_backs.max(write_backs);
    }

    /// CACHEMISS for a line of the program (SV97-15).
    fn cachemiss(&mut self, item: Item, global: u64, table: &dyn PageTableView) {
        let (side, store) = (item.side(), item.kind_index() == 2);
        let pte = table.pte(self.caches.asid, item.vpn()).expect("the operating system has served the fault");
        self.handle(Cause::Miss, side == 0, self.caches.page_of(global), pte.order);
        self.caches.bring(item, global, pte);
        // Step 4. Fetching the datum itself is no overhead (AMB-45); it goes to the side that missed (AMB-41).
        let attr = self.caches.attr_of(global, pte);
        let label = map(&mut self.tag_latch, global, attr);
        self.caches.insert(side, label.0, label.1, store);
    }

    /// One run of the handler up to the point where it knows the translation of `page`.
    fn handle(&mut self, cause: Cause, fetch: bool, page: u64, order: u8) {
        self.begin(cause, fetch);
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        match &mut self.table {
            None => self.linear(cause, page),
            Some(table) => {
                self.caches.freed.drain(..).for_each(|id| table.gone(id));
                table.path(page, self.caches.root(page), order, &mut path);
                path.iter().for_each(|&physical| self.load_physical(cause, physical));
            }
        }
        self.path = path;
    }

    /// Steps 1 to 3: the entry is loaded at its virtual address, which may itself miss. Depth never exceeds two.
    fn linear(&mut self, cause: Cause, page: u64) {
        let entry = upte(page << BASE_SHIFT) >> self.caches.line_shift();
        self.rows(cause).loads += 1;
        if !self.caches.kernel(1, entry, cause == Cause::WriteBack) {
            return;
        }
        self.begin(cause, false);
        match self.home {
            Home::Local => self.rows(cause).loads += 1,
            Home::Memory => self.load_physical(cause, self.caches.root(page)),
        }
        self.rows(cause).upte_loads += 1;
        let (tag, _) = map(&mut self.tag_latch, entry, Attr(Attr::READ | Attr::WRITE));
        self.caches.insert_kernel(1, tag);
    }

    /// Exception, and the handler's code.
    fn begin(&mut self, cause: Cause, fetch: bool) {
        let rows = self.rows(cause);
        *(if fetch { &mut rows.fetch_runs } else { &mut rows.data_runs }) += 1;
        for i in 0..self.code.len() {
            fetch_code(&mut self.caches, self.code[i], cause == Cause::WriteBack);
        }
    }

    /// A load at a physical, cached address: never excepts (SV97-4).
    fn load_physical(&mut self, cause: Cause, physical: u64) {
        load_physical(&mut self.caches, physical, cause == Cause::WriteBack);
    }

    /// Writes back modified lines that left the second level, and those that this displaces in turn; returns their
    /// number. It ends, because each run of the handler brings in unmodified lines in the place of modified ones
    /// (SV97-20).
    fn write_back(&mut self, table: &dyn PageTableView) -> u64 {
        let mut lines = 0;
        while let Some(line) = self.caches.pending.pop() {
            lines += 1;
            self.caches.counts.dirty_victims += 1;
            let page = self.caches.page_of(line);
            let known = *self.caches.pages.get(page).expect("a modified line is of a page that was brought in");
            let now = table.pte(known.asid, known.vpn);
            if self.keep {
                self.caches.counts.stale_write_backs += u64::from(now.map(|pte| pte.pfn) != Some(known.pfn));
            } else {
                self.handle(Cause::WriteBack, false, page, now.map_or(0, |pte| pte.order));
            }
        }
        lines
    }

    /// Gives the line around `addr` a protection of its own, finer than its page's (SV97-23); `None`: no longer. False
    /// if nothing of its segment was ever touched.
    pub fn protect_line(&mut self, asid: Asid, addr: u64, attr: Option<Attr>) -> bool {
        self.caches.protect_line(asid, addr, attr)
    }

    /// What the segment register of `addr`'s chunk allows, besides what each line allows (F-18).
    pub fn protect_segment(&mut self, asid: Asid, addr: u64, attr: Attr) -> bool {
        self.caches.protect_segment(asid, addr, attr)
    }

    /// Lets two address spaces share a segment by sharing its identifier (SV97-9, SV97-17). False if the other chunk
    /// was never touched or this one was.
    pub fn share(&mut self, asid: Asid, addr: u64, with: (Asid, u64)) -> bool {
        let chunk = super::Space::chunk;
        self.caches.space.share(asid, chunk(addr), (with.0, chunk(with.1))).is_some()
    }

    /// A device is going to transfer these pages: they are flushed, and references to them wait (SV97-19).
    pub fn dma_begin(&mut self, asid: Asid, pages: VpnRange) {
        self.caches.dma_begin(asid, pages);
    }

    /// The transfer has ended.
    pub fn dma_end(&mut self, asid: Asid, pages: VpnRange) {
        self.caches.dma_end(asid, pages);
    }

    /// The lines of the first and second level in which a byte is cached; `side` 0: instructions, 1: data.
    pub fn cached_lines(&self, side: usize, asid: Asid, addr: u64) -> [Option<Line>; 2] {
        self.caches.cached_lines(side, asid, addr)
    }
}

/// SPECIFYVTAG and LOAD&MAP, one after the other: where the datum goes, and its protection.
fn map(tag_latch: &mut TagLatch, tag: u64, attr: Attr) -> (u64, Attr) {
    tag_latch.specify(tag, attr).expect("no pair begins inside another");
    let label = tag_latch.load_and_map().expect("the tag was just given");
    (label.tag, label.attr)
}

/// A handler's code.
#[derive(Clone, Copy)]
pub(super) struct Code {
    /// Physical address.
    at: u64,
    bytes: u64,
}

impl Code {
    /// From the keys.
    pub fn of(params: &Params) -> Result<Code, String> {
        let offset = params.int(keys::HANDLER_AT.name);
        if !offset.is_multiple_of(4) {
            return Err(format!("handler_at = {offset} is not allowed: instructions begin at multiples of 4"));
        }
        Ok(Code { at: kernel::HANDLERS + offset, bytes: 4 * params.int(keys::HANDLER_INSTRUCTIONS.name) })
    }

    /// Its lines, if it is moved by this many bytes.
    pub fn lines(self, caches: &Caches, further: u64) -> Vec<u64> {
        let at = self.at + further;
        let end = caches.physical_line(at + self.bytes.max(1) - 1) + u64::from(self.bytes > 0);
        (caches.physical_line(at)..end).collect()
    }
}

fn handler_rows(caches: &mut Caches, write_back: bool) -> &mut HandlerCounts {
    if write_back { &mut caches.counts.write_back } else { &mut caches.counts.handler }
}

/// Fetches a line of handler code.
pub(super) fn fetch_code(caches: &mut Caches, line: u64, write_back: bool) {
    if caches.kernel(0, line, write_back) {
        handler_rows(caches, write_back).l2i_misses += 1;
        caches.insert_kernel(0, line);
    }
}

/// Loads a page table entry at a physical address.
pub(super) fn load_physical(caches: &mut Caches, physical: u64, write_back: bool) {
    let line = caches.physical_line(physical);
    handler_rows(caches, write_back).loads += 1;
    if caches.kernel(1, line, write_back) {
        handler_rows(caches, write_back).l2d_misses += 1;
        caches.insert_kernel(1, line);
    }
}

impl System for Softvm {
    fn run(&mut self, asid: Asid, span: &[Item], table: &dyn PageTableView) {
        debug_assert_eq!(asid, self.caches.asid);
        for &item in span {
            let Some(line) = self.caches.unfiltered_line(item) else { continue };
            let global = self.caches.global_line(item);
            if !self.caches.hit(item, line, global, table) {
                self.miss(item, global, table);
            }
        }
    }

    fn changed(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        let organisation = &mut self.table;
        self.caches.changed(asid, pages, table, |page| {
            if let Some(organisation) = organisation {
                organisation.unmap(page);
            }
        });
    }

    fn gone(&mut self, asid: Asid) {
        self.caches.gone(asid);
    }

    fn switch(&mut self, to: Asid) {
        self.caches.switch(to);
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
