//! A touch. A page that the page table of the designs does not have is looked for in the mirror, as hardware would
//! walk; the tables on the way are linked, with all their leaves.

use super::Guest;
use super::format::{Reading, Rights, Root, WORDS};
use super::links::{Link, Table};
use crate::contract::{Touched, Unserved, What};
use crate::fault::{needs, touched};
use crate::os::Os;
use farreach_types::addr::{Asid, Bytes, GUEST_ADDRESS_BITS, KERNEL, Vpn, VpnRange};
use farreach_types::event::Kind;

/// An entry of a linked table: frame of 4 KB, link there, number of the word.
pub(super) type Place = (u64, Link, usize);

impl Os {
    /// A reference to a page of a guest, which succeeded when it was recorded.
    pub(crate) fn guest_touch(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Result<Touched, Unserved> {
        self.with_guest(|guest, os| guest.touch(os, asid, vpn, kind)).map_err(Unserved::Guest)
    }

    /// Calls the part that knows the guest; ranges follow at the end.
    pub(super) fn with_guest<R>(&mut self, call: impl FnOnce(&mut Guest, &mut Os) -> R) -> R {
        let mut guest = self.guest.take().expect("the placement is guest");
        let before = self.changes.len();
        let result = call(&mut guest, self);
        guest.tell_tags(&mut self.changes, before);
        let before = self.changes.len();
        for asid in guest.changed_spaces() {
            self.sync_ranges(asid);
        }
        guest.tell_tags(&mut self.changes, before);
        if let Some(pages) = guest.direct_map.changes() {
            self.change(KERNEL, pages, What::Segment);
        }
        self.guest = Some(guest);
        result
    }

    /// Whether a 4 KB page, or one of this system, is in the half of the kernel.
    pub(super) fn is_upper(&self, vpn: Vpn) -> bool {
        vpn.0 >> (GUEST_ADDRESS_BITS - 1 - self.shift) != 0
    }

    /// The pages that programs of a guest may have.
    pub fn programs_half(&self) -> VpnRange {
        self.half(false)
    }

    /// The pages of one half of the addresses.
    pub(super) fn half(&self, upper: bool) -> VpnRange {
        let pages = 1 << (GUEST_ADDRESS_BITS - 1 - self.shift);
        VpnRange { start: Vpn(if upper { pages } else { 0 }), pages }
    }
}

impl Guest {
    fn touch(&mut self, os: &mut Os, asid: Asid, vpn: Vpn, kind: Kind) -> Result<Touched, String> {
        let upper = os.is_upper(vpn);
        os.space(asid);
        if !upper {
            self.enter(os, asid);
        }
        if os.spaces[asid.0 as usize].table.get(vpn).is_none() {
            self.bring_in(os, asid, vpn, upper)?;
        }
        if !self.stale.is_empty() {
            self.use_stale(os, asid, vpn, kind)?;
        }
        let label = self.label(os, asid);
        let table = &mut os.spaces[asid.0 as usize].table;
        let entry = table.get(vpn).expect("it was brought in");
        let permitted = entry.attr.0 & needs(kind) != 0;
        if !entry.touched || !permitted && !entry.forbidden {
            table.update(vpn, |entry| {
                entry.touched = true;
                entry.forbidden |= !permitted;
            });
            if !entry.touched {
                os.touched_pages += 1;
                self.touch_first(os, asid, vpn, &entry);
            }
            if !permitted && !entry.forbidden {
                os.memory.counts.forbidden_accesses += 1;
            }
        }
        if kind == Kind::Store && !entry.dirty {
            os.mark_dirty(asid, vpn, entry.order);
        }
        Ok(Touched { label, ..touched(&entry) })
    }

    /// Fills the page table around a page that it does not have.
    pub(super) fn bring_in(&mut self, os: &mut Os, asid: Asid, vpn: Vpn, upper: bool) -> Result<(), String> {
        let arch = self.arch.ok_or(
            "placement = guest follows the page tables of a whole system, and this stream does not begin with what the \
             system runs on: it is not a recording of one (`farreach record --system`), or its beginning is cut off",
        )?;
        if upper != (asid == KERNEL) && upper {
            return Err(format!("page {:#x} of the kernel is looked up in address space {}", vpn.0, asid.0));
        }
        let root = Root::of(arch, &self.processor().registers, upper)?;
        let (ours, guests) = (1 << os.shift, 1 << root.format.page_shift());
        if ours != guests {
            let (ours, guests) = (Bytes(ours), Bytes(guests));
            return Err(format!(
                "the recorded system has pages of {guests}, and this machine of {ours}: give it page_size = {guests}"
            ));
        }
        if upper {
            self.follow_kernel_root(os);
        } else {
            self.follow_root(os, asid, root);
        }
        let place = self.descend(os, asid, root, vpn.0)?;
        self.refresh_run(os, &place);
        let place = self.mirror.frame(place.0)[place.2];
        if os.spaces[asid.0 as usize].table.get(vpn).is_none() {
            return Err(format!("the entry {place:#x} of page {:#x} does not map it", vpn.0));
        }
        Ok(())
    }

    /// Walks to the leaf of a page, and links the tables on the way.
    pub(super) fn descend(&mut self, os: &mut Os, asid: Asid, root: Root, page: u64) -> Result<Place, String> {
        let (format, mut table) = (root.format, top(asid, root));
        loop {
            let each = 1u64 << format.order(table.height);
            let at = page.checked_sub(table.first).map_or(u64::MAX, |pages| pages / each);
            let missing = |why: &str| {
                let (shift, level) = (format.page_shift(), root.height - table.height + 1);
                format!(
                    "a reference to page {:#x} of address space {}, which the guest's page table does not map ({why} \
                     at level {level} below the root at {:#x}): the recording is incomplete",
                    page << shift,
                    asid.0,
                    root.address
                )
            };
            if at >= table.words {
                return Err(missing("no such address"));
            }
            let address = table.address + 8 * at;
            let (frame, number) = (address >> 12, (address >> 3) as usize % WORDS);
            let word = self.mirror.word(address);
            self.link(os, table);
            let first = table.first + at * each;
            match format.read(word, number, table.height, table.rights) {
                Reading::Absent => return Err(missing(&format!("entry {word:#x}"))),
                Reading::Table(below, rights) => {
                    if asid == KERNEL && table.height == root.height && os.is_upper(Vpn(page)) {
                        self.kernel.note(at, word);
                    }
                    table = table.below(below, first, rights);
                }
                Reading::Leaf(_) => {
                    let links = self.links.of(frame).iter();
                    let mut link =
                        links.filter(|l| l.asid == asid && l.height == table.height && l.words.contains(&number));
                    let link = link.find(|link| link.page(number) == first).expect("it was just linked").clone();
                    return Ok((frame, link, number));
                }
            }
        }
    }

    /// Links a table, with all its leaves where nothing is mapped yet.
    fn link(&mut self, os: &mut Os, table: Table) {
        for (frame, link) in table.parts() {
            if !self.links.add(frame, &link) {
                continue;
            }
            let words = *self.mirror.frame(frame);
            for at in link.words.clone().filter(|&at| words[at] != 0) {
                let Some(leaf) = link.format.leaf(&words, at, link.height, link.rights) else { continue };
                let pages = VpnRange { start: Vpn(link.page(at)), pages: link.each() };
                if !os.spaces[link.asid.0 as usize].table.any_in(pages) {
                    self.insert(os, link.asid, pages, leaf);
                }
            }
        }
    }

    /// The root of an address space of user pages is this now.
    pub(super) fn follow_root(&mut self, os: &mut Os, asid: Asid, root: Root) {
        let before = self.roots.insert(asid, root);
        if let Some(old) = before.filter(|old| *old != root) {
            self.unlink(top(asid, old));
            self.remove(os, asid, os.half(false));
        }
    }
}

/// The table at a root.
pub(super) fn top(asid: Asid, root: Root) -> Table {
    let Root { address, words, first, height, format } = root;
    Table { asid, address, words, first, height, rights: Rights::ALL, format }
}
