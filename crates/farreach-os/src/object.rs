//! Memory objects and page identity (T94-43): which frame holds which page of which object, reserved or busy.

use super::page_cache::FileCache;
use super::page_index::PageIndex;
use super::placement::cap::Offsets;
use farreach_types::addr::Pfn;
use farreach_types::params::Params;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// An object: a file, an anonymous mapping, a heap, a stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ObjectId(pub u32);

/// Kinds that the policies of T94-54 tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ObjectKind {
    /// Heap, anonymous memory, stack: zero-filled.
    Anonymous,
    /// A file on a local disk.
    Disk,
    /// A file on a remote file system.
    Nfs,
}

impl ObjectKind {
    /// Whether its pages are read from a file.
    pub fn is_file(self) -> bool {
        self != ObjectKind::Anonymous
    }

    /// The kinds that the words of a key name.
    pub fn named_by(params: &Params, key: &str) -> Result<Vec<ObjectKind>, String> {
        let kind = |word: &String| match word.as_str() {
            "file" => Ok(ObjectKind::Disk),
            "nfs" => Ok(ObjectKind::Nfs),
            "heap" => Ok(ObjectKind::Anonymous),
            _ => Err(format!("{key} = {word} is not allowed: {key} must be a list of file, nfs, heap, joined by +")),
        };
        params.texts(key).iter().map(kind).collect()
    }
}

/// In which direction an object grows (NAV-2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Growth {
    /// Not by itself.
    #[default]
    None,
    /// A heap.
    Up,
    /// A stack.
    Down,
}

/// A file as an object. Where base pages are larger than 4 KB, a file that is mapped at two offsets within them is two
/// objects.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct File {
    /// Path.
    pub path: Arc<str>,
    /// 4 KB pages of the file before its first whole base page.
    pub skew: u64,
}

/// One object.
#[derive(Debug)]
pub struct Object {
    /// Unique among all objects of the run. Identifiers are reused, this number is not.
    pub generation: u64,
    /// Kind.
    pub kind: ObjectKind,
    /// Name in the file index; `None` for anonymous memory.
    pub file: Option<File>,
    /// Private anonymous memory: its pages are freed with their mapping. Those of other objects stay until the last
    /// region is gone.
    pub private: bool,
    /// In which direction it grows.
    pub grows: Growth,
    /// The pages that were placed since a fork, where it made the object a new one (FBR-10). Those that left the page
    /// index may still be here. `None`: all of the page index.
    pub own: Option<BTreeSet<u64>>,
    /// Identity index: object page to frame.
    pub page_index: PageIndex,
    /// Difference of the first mapper's virtual page numbers and the object's page numbers (AMB-7): virtual = object +
    /// shift, wrapping.
    pub shift: u64,
    /// Superpage-sized virtual groups that had their first fault; no second reservation as long as the object exists
    /// (AMB-9).
    pub faulted_groups: HashSet<u64>,
    /// By virtual group of 512 pages: the first frame of the reservation that was made for it (SPT-3).
    pub reservations: HashMap<u64, Pfn>,
    /// Virtual groups of pages whose frames were allocated as one large page (PS-5).
    pub large_groups: HashSet<u64>,
    /// Distances of its pages and their frames (CAP-1).
    pub offsets: Offsets,
    /// Superpages that faults brought into shared memory: their first pages, and log2 of their pages.
    pub superpages: BTreeMap<u64, u8>,
    /// Its folios and its readahead, if it is in a page cache with any.
    pub cache: FileCache,
    /// By page, the change of the number of regions that map the object, over all address spaces. A page is inside the
    /// object if some region maps it (T94-50 clips to this).
    coverage: BTreeMap<u64, i64>,
    /// Regions, of all address spaces, that map it.
    pub mappers: u32,
}

impl Object {
    /// `by` more regions (less, if negative) map the object pages `first..first + pages`.
    pub fn cover(&mut self, first: u64, pages: u64, by: i64) {
        for (page, by) in [(first, by), (first.saturating_add(pages), -by)] {
            let change = self.coverage.entry(page).or_insert(0);
            *change += by;
            if *change == 0 {
                self.coverage.remove(&page);
            }
        }
    }

    /// The first frame of the reservation of 512 pages that was made for this page, and its place in it.
    pub fn reservation(&self, page: u64) -> Option<(Pfn, u64)> {
        let at = page.wrapping_add(self.shift);
        self.reservations.get(&(at >> 9)).map(|first| (*first, at & 511))
    }

    /// Whether some region maps the page.
    pub fn contains(&self, page: u64) -> bool {
        self.coverage.range(..=page).map(|(_, change)| change).sum::<i64>() > 0
    }

    /// Whether some of the pages `first..first + pages` have frames. Those that a fork shares have not.
    pub fn has_any(&self, first: u64, pages: u64) -> bool {
        match &self.own {
            None => self.page_index.any_in(first..first + pages),
            Some(own) => own.range(first..first + pages).any(|page| self.page_index.get(*page).is_some()),
        }
    }

    /// The lowest page that some region maps, and the page after the highest.
    pub fn ends(&self) -> (u64, u64) {
        let (first, last) = (self.coverage.first_key_value(), self.coverage.last_key_value());
        first.zip(last).map_or((0, 0), |((first, _), (end, _))| (*first, *end))
    }

    /// Pages of it that some region maps.
    pub fn pages(&self) -> u64 {
        let (mut pages, mut mapped, mut from) = (0, 0, 0);
        for (&page, by) in &self.coverage {
            pages += if mapped > 0 { page - from } else { 0 };
            (mapped, from) = (mapped + by, page);
        }
        pages
    }

    /// Whether some region maps one of the pages `first..first + pages`.
    pub fn contains_any(&self, first: u64, pages: u64) -> bool {
        pages > 0
            && (self.contains(first) || self.coverage.range(first..first.saturating_add(pages)).any(|(_, by)| *by > 0))
    }
}

/// All objects. Identifiers are reused.
#[derive(Debug, Default)]
pub struct Objects {
    all: Vec<Option<Object>>,
    free: Vec<ObjectId>,
    files: hashbrown::HashMap<File, ObjectId, foldhash::fast::FixedState>,
    generation: u64,
}

impl Objects {
    /// A new object without mappers. `shift`: virtual page number minus object page number of its first mapper.
    pub fn create(&mut self, kind: ObjectKind, file: Option<File>, private: bool, shift: u64) -> ObjectId {
        self.generation += 1;
        let object = Object {
            generation: self.generation,
            kind,
            file: file.clone(),
            private,
            grows: Growth::None,
            own: None,
            page_index: PageIndex::default(),
            shift,
            faulted_groups: HashSet::new(),
            reservations: HashMap::new(),
            large_groups: HashSet::new(),
            offsets: Offsets::default(),
            superpages: BTreeMap::new(),
            cache: FileCache::default(),
            coverage: BTreeMap::new(),
            mappers: 0,
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            ObjectId(self.all.len() as u32 - 1)
        });
        self.all[id.0 as usize] = Some(object);
        if let Some(file) = file {
            self.files.insert(file, id);
        }
        id
    }

    /// The object of a file that is mapped somewhere.
    pub fn file(&self, file: &File) -> Option<ObjectId> {
        self.files.get(file).copied()
    }

    /// An object, unless it is gone.
    pub fn try_get(&self, id: ObjectId) -> Option<&Object> {
        self.all.get(id.0 as usize)?.as_ref()
    }

    /// An object that exists.
    pub fn get(&self, id: ObjectId) -> &Object {
        self.all[id.0 as usize].as_ref().expect("a region names an object that is gone")
    }

    /// An object that exists.
    pub fn get_mut(&mut self, id: ObjectId) -> &mut Object {
        self.all[id.0 as usize].as_mut().expect("a region names an object that is gone")
    }

    /// A child's copy of a private object: it has the same first faults and large pages, and no frames.
    pub fn copy_for_fork(&mut self, id: ObjectId) -> ObjectId {
        let old = self.get(id);
        let (kind, shift, begun, large) = (old.kind, old.shift, old.faulted_groups.clone(), old.large_groups.clone());
        let grows = old.grows;
        let new = self.create(kind, None, true, shift);
        self.get_mut(new).grows = grows;
        (self.get_mut(new).faulted_groups, self.get_mut(new).large_groups) = (begun, large);
        new
    }

    /// Removes an object.
    pub fn destroy(&mut self, id: ObjectId) -> Object {
        let object = self.all[id.0 as usize].take().expect("destroyed twice");
        if let Some(file) = &object.file {
            self.files.remove(file);
        }
        self.free.push(id);
        object
    }
}
