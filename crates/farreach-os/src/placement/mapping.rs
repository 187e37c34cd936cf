//! The contiguity of a real machine: pages get the frames that a live process had, from a dump of
//! `farreach contiguity --dump`.
//!
//! The recorded program has other addresses than the dumped process, so a page is found by its mapping
//! ([`locate`](Mapped::locate)). A page of a file is found by path and page, the heap from its start, the stack from
//! its end, anonymous memory in the order in which the program requests it. The kernel allocates address space from the
//! top down and joins neighbours. So each new mapping takes the highest free place in the anonymous mappings of the
//! dump, preferably at the same distance from a 2 MB boundary. It gives the place back when it is unmapped. If the dump
//! has an anonymous mapping at the same address, that one is taken.

use super::contract::{FrameRequest, Placement, PlacementKind};
use crate::dump::{Dump, HUGE, pagemap};
use crate::frames::numbers;
use crate::frames::pool::Runs;
use crate::labels::{ANONYMOUS, HEAP, STACK, WHOLE_SPACE};
use crate::memory::Memory;
use crate::object::ObjectId;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{BASE_SHIFT, Bytes, Pfn, Vpn, VpnRange};
use farreach_types::params::{Allowed, Key, PAGE_SIZE, Params};
use farreach_types::text_file;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::path::Path;

/// Most bytes of a dump.
const MOST_BYTES: u64 = 1 << 30;

const FILE: Key = Key {
    name: "mapping",
    default: "",
    allowed: Allowed::File,
    about: "file that `farreach contiguity --dump` wrote, as root: the frames of a live process; or v2p.textproto of \
            drmemtrace, or a list of page-types -l; or, with one of the two keys below, a copy of /proc/PID/pagemap",
};

const START: Key = Key {
    name: "mapping_start",
    default: "",
    allowed: Allowed::Text,
    about: "address of the first page in a copy of /proc/PID/pagemap, such as 0x7f1234567000; a sparse copy of all of \
            it begins at 0",
};

const MAPS: Key = Key {
    name: "mapping_maps",
    default: "",
    allowed: Allowed::File,
    about: "copy of /proc/PID/maps of the same moment: pages are then found by what they belong to; without \
            `mapping_start` the copy of pagemap begins at 0",
};

/// Registry entry.
pub const MAPPING: PlacementKind = PlacementKind {
    name: "mapping",
    about: "the frames and 2 MB pages of a live process, from a dump of its mapping; demand paging for pages that are \
            not in it",
    keys: &[&FILE, &START, &MAPS],
    build,
};

/// Where an object lies in the dump.
struct ObjectInDump {
    /// Serial number of the object, since identifiers are reused.
    generation: u64,
    /// Its name in the dump.
    name: &'static str,
    /// First of its pages that has a place in the dump, and the place. `None`: it is not in the dump.
    piece: Option<(u64, VpnRange)>,
}

struct Mapped {
    dump: Dump,
    /// Areas of each file.
    files: HashMap<String, Vec<usize>, FixedState>,
    heap: Option<u64>,
    stack_end: Option<u64>,
    /// Anonymous address space of the dump that no object has.
    free: Runs,
    places: HashMap<ObjectId, ObjectInDump, FixedState>,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let name = params.text(FILE.name);
    if name.is_empty() {
        return Err(
            "placement = mapping needs mapping = FILE, a dump that `farreach contiguity --dump FILE` wrote, or \
             v2p.textproto of drmemtrace, or a list of page-types -l"
                .to_owned(),
        );
    }
    if params.page_shift() != BASE_SHIFT {
        let page = Bytes(params.int(PAGE_SIZE.name));
        return Err(format!("page_size = {page} is not allowed with mapping = {name}: a dump is in pages of 4K"));
    }
    let dump = read(name, params.text(START.name), params.text(MAPS.name))?;
    if !dump.has_frames() {
        return Err(format!(
            "{name}: it has no frames: only root (CAP_SYS_ADMIN) sees them; take the dump again with that right"
        ));
    }
    if dump.areas.iter().all(|area| area.runs.is_empty()) {
        return Err(format!("{name}: nothing is present in it"));
    }
    Ok(Box::new(Mapped::new(dump)))
}

/// Reads a dump, or a copy of pagemap if something is said of it.
fn read(name: &str, start: &str, maps: &str) -> Result<Dump, String> {
    let text = |name: &str| text_file::read(Path::new(name), MOST_BYTES).map_err(|e| format!("{name}: {e}"));
    if start.is_empty() && maps.is_empty() {
        let text = text(name).map_err(|e| {
            format!("{e}; a copy of /proc/PID/pagemap needs the address of its first page, mapping_start, or maps")
        })?;
        return Dump::parse(&text).map_err(|e| format!("{name}: {e}"));
    }
    let digits = start.strip_prefix("0x").or_else(|| start.strip_prefix("0X"));
    let address = match digits {
        _ if start.is_empty() => Some(0),
        Some(digits) => u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')),
        None => start.parse().ok(),
    };
    let address = address.ok_or_else(|| {
        format!("mapping_start = {start} is not allowed: it must be an address, hexadecimal with 0x or decimal")
    })?;
    let maps_text = if maps.is_empty() { None } else { Some(text(maps)?) };
    let of = if maps.is_empty() { name.to_owned() } else { format!("{name} with {maps}") };
    pagemap::read(Path::new(name), address, maps_text.as_deref()).map_err(|e| format!("{of}: {e}"))
}

impl Mapped {
    fn new(dump: Dump) -> Mapped {
        let mut files: HashMap<String, Vec<usize>, FixedState> = HashMap::default();
        let (mut heap, mut stack_end, mut free) = (None, None, Runs::default());
        for (i, area) in dump.areas.iter().enumerate() {
            match area.name.as_str() {
                HEAP => _ = heap.get_or_insert(area.start),
                STACK => stack_end = Some(area.end()),
                ANONYMOUS => free.insert(area.start, area.pages),
                file => files.entry_ref(file).or_default().push(i),
            }
        }
        Mapped { dump, files, heap, stack_end, free, places: HashMap::default() }
    }

    /// The highest free range of this many pages.
    fn take(&mut self, range: VpnRange) -> Option<u64> {
        let (start, pages) = (range.start.0, range.pages);
        let same = self.free.has(start, pages).then_some(start);
        let congruent = || {
            let fits = |(first, n): (u64, u64)| {
                let last = (first + n).checked_sub(pages)?;
                let at = last.checked_sub(last.wrapping_sub(start) % HUGE)?;
                (at >= first && self.any_huge(at, pages)).then_some(at)
            };
            (pages >= HUGE).then(|| self.free.iter().rev().find_map(fits)).flatten()
        };
        let top = || self.free.iter().rev().find_map(|(first, n)| (n >= pages).then(|| first + n - pages));
        let at = same.or_else(congruent).or_else(top)?;
        self.free.remove(at, pages);
        Some(at)
    }

    /// Whether there are 2 MB leaves among these pages of the dump: for base pages the distance from a boundary does
    /// not matter.
    fn any_huge(&self, at: u64, pages: u64) -> bool {
        let first = self.dump.areas.partition_point(|area| area.end() <= at);
        let areas = self.dump.areas[first..].iter().take_while(|area| area.start < at + pages);
        areas.flat_map(|area| &area.runs).any(|run| run.huge && run.vpn < at + pages && at < run.vpn + run.pages)
    }

    /// Frees the places of objects that are gone.
    fn sweep(&mut self, memory: &Memory) {
        let free = &mut self.free;
        self.places.retain(|&id, place| {
            let is_live = memory.objects.try_get(id).is_some_and(|object| object.generation == place.generation);
            if !is_live {
                let returned = place.piece.filter(|_| place.name == ANONYMOUS);
                returned.into_iter().for_each(|(_, range)| free.insert(range.start.0, range.pages));
            }
            is_live
        });
    }

    /// Candidate pages of the dump, best first. A file may have several; a private copy lies in a writable mapping.
    fn locate(&self, memory: &Memory, request: FrameRequest, copy: bool) -> Vec<(usize, u64)> {
        let object = memory.objects.get(request.object);
        if let Some(file) = &object.file {
            let areas = self.files.get(&*file.path).map_or(&[][..], Vec::as_slice);
            let of = |i: &&usize| {
                let area = &self.dump.areas[**i];
                (area.prot.write && !area.shared) == copy
                    && request.page.checked_sub(area.offset).is_some_and(|page| page < area.pages)
            };
            let places = areas
                .iter()
                .filter(of)
                .map(|&i| (i, self.dump.areas[i].start + request.page - self.dump.areas[i].offset));
            return places.filter(|&(i, vpn)| self.dump.areas[i].find(vpn).is_some()).collect();
        }
        let place = self.places.get(&request.object).filter(|place| place.generation == object.generation);
        let found = place.and_then(|place| {
            let (first, range) = place.piece?;
            let page = request.page.checked_sub(first).filter(|page| *page < range.pages)?;
            let vpn = range.start.0 + page;
            let i = self.dump.areas.partition_point(|area| area.start <= vpn).checked_sub(1)?;
            let area = &self.dump.areas[i];
            ([WHOLE_SPACE, &*area.name].contains(&place.name) && area.find(vpn).is_some()).then_some((i, vpn))
        });
        found.into_iter().collect()
    }

    /// The frame of a page of the dump, numbered as here.
    fn frame(&self, (i, vpn): (usize, u64)) -> Option<u64> {
        let run = self.dump.areas[i].find(vpn)?;
        Some(numbers::DUMP + run.pfn? + (vpn - run.vpn))
    }

    /// A frame of the dump for a page, or an ordinary one.
    fn give(&self, memory: &mut Memory, request: FrameRequest, copy: bool) -> Option<Pfn> {
        let found = self.locate(memory, request, copy);
        let frame = found.iter().filter_map(|&at| self.frame(at)).map(Pfn).find(|&pfn| memory.pool.take(pfn));
        if let Some(pfn) = frame {
            memory.counts.mapping_pages += 1;
            return Some(pfn);
        }
        let pfn = memory.alloc_frame(request.vpn)?;
        // A private copy replaces a page of the file, which the dumped process did not map.
        if !found.is_empty() {
            memory.counts.mapping_taken += 1;
        } else if copy || self.locate(memory, request, true).is_empty() {
            memory.counts.mapping_missing += 1;
        }
        Some(pfn)
    }
}

impl Placement for Mapped {
    fn set_up(&mut self, memory: &mut Memory) -> Result<(), String> {
        if memory.alloc.total().is_some_and(|frames| frames > numbers::DUMP) {
            return Err("memory is not allowed to be above 64T with placement = mapping".to_owned());
        }
        // Many pages may share a frame: the zero page, shared files.
        let runs = self.dump.areas.iter().flat_map(|area| &area.runs);
        let mut frames: Vec<(u64, u64)> = runs.filter_map(|run| Some((run.pfn?, run.pages))).collect();
        frames.sort_unstable();
        let mut next = 0;
        for (pfn, pages) in frames {
            let first = pfn.max(next);
            if first < pfn + pages {
                memory.pool.add_foreign(Pfn(numbers::DUMP + first), pfn + pages - first);
                next = pfn + pages;
            }
        }
        Ok(())
    }

    fn region_mapped(&mut self, memory: &Memory, region: &Region, name: &str) {
        let object = memory.objects.get(region.object);
        let known = self.places.get(&region.object).is_some_and(|place| place.generation == object.generation);
        if known || object.file.is_some() {
            return;
        }
        if self.places.contains_key(&region.object) {
            self.sweep(memory);
        }
        let (start, end) = (region.range.start.0, region.range.end().0);
        let (name, piece) = match name {
            // Both continue from their first mapping: the heap upwards, the stack downwards.
            HEAP => {
                let here = self.dump.areas.iter().any(|a| a.name == HEAP && (a.start..a.end()).contains(&start));
                let at = if here { Some(start) } else { self.heap };
                (HEAP, at.map(|at| (region.first_page, VpnRange::between(Vpn(at), Vpn(1 << 52)))))
            }
            STACK => {
                let last = region.first_page + (end - start);
                let below = |top: u64| (last - last.min(top), VpnRange::between(Vpn(top - last.min(top)), Vpn(top)));
                (STACK, self.stack_end.map(below))
            }
            ANONYMOUS => {
                let mut at = self.take(region.range);
                if at.is_none() {
                    self.sweep(memory);
                    at = self.take(region.range);
                }
                (ANONYMOUS, at.map(|at| (region.first_page, VpnRange { start: Vpn(at), ..region.range })))
            }
            WHOLE_SPACE => (WHOLE_SPACE, Some((region.first_page, region.range))),
            _ => return,
        };
        self.places.insert(region.object, ObjectInDump { generation: object.generation, name, piece });
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        self.give(memory, request, false)
    }

    fn allocate_copy(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        match memory.objects.get(request.object).kind.is_file() {
            true => self.give(memory, request, true),
            false => memory.alloc_frame(request.vpn),
        }
    }

    fn reuses_superpages(&self, _: u8) -> bool {
        true
    }

    fn superpage_orders(&self, memory: &Memory, _: &Region, request: FrameRequest, _: HugeAdvice) -> &[u8] {
        const ORDER: [u8; 1] = [HUGE.trailing_zeros() as u8];
        if !memory.objects.get(request.object).private {
            return &[];
        }
        let here = self.locate(memory, request, false).first().copied();
        let huge = here.is_some_and(|(i, vpn)| {
            let run = self.dump.areas[i].find(vpn).expect("it was just located");
            run.huge && vpn % HUGE == request.vpn.0 % HUGE
        });
        if huge { &ORDER } else { &[] }
    }

    fn superpage_block(&mut self, memory: &mut Memory, request: FrameRequest, order: u8) -> Option<Pfn> {
        let frame = self.locate(memory, request, false).first().and_then(|&at| self.frame(at))?;
        let taken = memory.pool.take_run(Pfn(frame), 1 << order);
        if taken {
            memory.counts.mapping_pages += 1 << order;
        }
        taken.then_some(Pfn(frame))
    }
}
