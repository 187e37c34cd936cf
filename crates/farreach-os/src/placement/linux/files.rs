//! Keys of Linux for files and shared memory: readahead, folios, and what faults map of them (PGC).

use super::super::thp::{SHMEM, SHMEM_SIZE, order};
use crate::page_cache::{Entries, Files, Limits, PageCache, SharedSize, SharedSizes};
use farreach_types::addr::Bytes;
use farreach_types::params::{Allowed, Key, PAGE_SIZE, Params};

pub(super) const AROUND: Key = Key {
    name: "fault_around",
    default: "64K",
    allowed: Allowed::PageSize { min: 4096, max: 2 << 20 },
    about: "what a fault of a load or fetch in a file maps around it: what is in memory (PGC-6); 4K: one page",
};
pub(super) const READAHEAD: Key = Key {
    name: "readahead",
    default: "off",
    allowed: Allowed::Size { min: 4096, or: "off" },
    about: "the largest window in which a file is read (read_ahead_kb, PGC-1); off: files are in memory, and a page \
            gets a frame when it is mapped",
};
pub(super) const FOLIOS: Key = Key {
    name: "file_folios",
    default: "2M",
    allowed: Allowed::PageSize { min: 4096, max: 2 << 20 },
    about: "with readahead: the largest folio of the file system (PGC-4); 2M as ext4, XFS and Btrfs; 4K: it has none",
};
pub(super) const EXEC: Key = Key {
    name: "exec_folio",
    default: "4K",
    allowed: Allowed::PageSize { min: 4096, max: 2 << 20 },
    about: "with readahead: the folios of executable mappings (PGC-5); 64K on arm64; 4K: they are read as others",
};
pub(super) const MISS: Key = Key {
    name: "file_miss",
    default: "around",
    allowed: Allowed::OneOf(&["around", "ahead"]),
    about: "with readahead: a miss reads the window around it, as a fault does (PGC-5), or from it on, as a read of a \
            page does (PGC-2)",
};

const SIZES: Allowed = Allowed::PageSizesOrNone { min: 8192, max: 1 << 29 };
pub(super) const SHARED_ALWAYS: Key = Key {
    name: "shmem_always",
    default: "none",
    allowed: SIZES,
    about: "folios of all shared anonymous memory that does not refuse, aligned in that memory (PGC-7); what \
            shmem_enabled says of shmem_size is then one of these sizes",
};
pub(super) const SHARED_WITHIN: Key = Key {
    name: "shmem_within_size",
    default: "none",
    allowed: SIZES,
    about: "as shmem_always, folios that end inside the shared memory",
};
pub(super) const SHARED_ADVISE: Key = Key {
    name: "shmem_advise",
    default: "none",
    allowed: SIZES,
    about: "as shmem_always, folios of shared memory that asked by madvise",
};

/// The page cache that the keys describe. `leaf`: log2 of the pages of `thp_size`; `contpte`: of the contiguous bit.
pub(super) fn page_cache(params: &Params, leaf: u8, contpte: u32) -> Result<PageCache, String> {
    let around = (params.int(AROUND.name) / params.int(PAGE_SIZE.name)).max(1).ilog2();
    let entries = Entries { leaf: leaf.into(), contpte, around };
    Ok(PageCache::new(files(params, leaf)?, shared(params)?, entries))
}

fn files(params: &Params, leaf: u8) -> Result<Option<Files>, String> {
    let Some(window) = params.size(READAHEAD.name) else {
        let exec = Bytes(params.int(EXEC.name)).to_string();
        for (key, given) in [(&EXEC, exec.as_str()), (&MISS, params.text(MISS.name))] {
            if given != key.default {
                return Err(format!(
                    "{} = {given} is not allowed with {1} = off: {1} must be a size such as 128K",
                    key.name, READAHEAD.name
                ));
            }
        }
        return Ok(None);
    };
    let page = params.int(PAGE_SIZE.name);
    let order = |key: &Key| (params.int(key.name) / page).max(1).ilog2();
    let limits = Limits {
        pages: (window / page).max(1),
        max_order: order(&FOLIOS),
        huge_order: leaf.into(),
        exec_order: order(&EXEC),
    };
    Ok(Some(Files { limits, ahead: params.text(MISS.name) == "ahead" }))
}

/// PGC-7. Without a list the two older keys say all, and superpages of shared memory are those of faults.
fn shared(params: &Params) -> Result<SharedSizes, String> {
    let mut sizes: Vec<(u32, SharedSize)> = Vec::new();
    let mut add = |key: &Key, size: u64, mode: SharedSize| {
        let order = u32::from(order(params, key, size)?);
        if sizes.iter().any(|(other, _)| *other == order) {
            return Err(format!("{} is not allowed: a size has one mode, and one of these has two", key.name));
        }
        sizes.push((order, mode));
        Ok(())
    };
    let lists = [
        (&SHARED_ALWAYS, SharedSize::Always),
        (&SHARED_WITHIN, SharedSize::WithinSize),
        (&SHARED_ADVISE, SharedSize::Advise),
    ];
    for (key, mode) in lists {
        params.sizes(key.name).into_iter().try_for_each(|size| add(key, size, mode))?;
    }
    if lists.iter().any(|(key, _)| !params.sizes(key.name).is_empty()) {
        let mode = match params.text(SHMEM.name) {
            "always" => Some(SharedSize::Always),
            "advise" => Some(SharedSize::Advise),
            _ => None,
        };
        mode.map_or(Ok(()), |mode| add(&SHMEM_SIZE, params.int(SHMEM_SIZE.name), mode))?;
    }
    Ok(SharedSizes::new(sizes))
}
