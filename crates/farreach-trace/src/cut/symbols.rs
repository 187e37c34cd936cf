//! Where a function lies in the files that programs map.

use farreach_types::event::{Backing, Mapping};
use farreach_types::plural::with_noun;
use farreach_types::suggest::did_you_mean;
use hashbrown::HashMap;
use object::elf::{FileHeader64, PF_X, PT_LOAD, SHT_DYNSYM, SHT_SYMTAB};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::{LittleEndian, ReadCache};
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;

const LE: LittleEndian = LittleEndian;

/// A function by its name, in all files.
pub struct Symbols {
    name: String,
    /// By path: offsets in the file; `None` if it cannot be read.
    files: HashMap<Arc<str>, Option<Vec<u64>>>,
    /// Names of other functions, for a message.
    others: BTreeSet<String>,
}

impl Symbols {
    /// The function of this name.
    pub fn new(name: &str) -> Symbols {
        Symbols { name: name.to_owned(), files: HashMap::new(), others: BTreeSet::new() }
    }

    /// Its address in a mapping of code, if it lies there.
    pub fn in_mapping(&mut self, mapping: &Mapping) -> Option<u64> {
        let Backing::File { path, offset } = &mapping.backing else { return None };
        if !mapping.prot.exec {
            return None;
        }
        if !self.files.contains_key(path) {
            let offsets = self.look_into(path);
            self.files.insert(Arc::clone(path), offsets);
        }
        let offsets = self.files.get(path)?.as_ref()?;
        let inside = |at: &&u64| (*offset..offset.saturating_add(mapping.len)).contains(at);
        offsets.iter().find(inside).map(|at| mapping.start + (at - offset))
    }

    /// Offsets of the function in a file; `None`: the file is no program that can be read.
    fn look_into(&mut self, path: &str) -> Option<Vec<u64>> {
        let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))?;
        let data = ReadCache::new(&file);
        let header = FileHeader64::<LittleEndian>::parse(&data).ok()?;
        let segments = header.program_headers(LE, &data).ok()?;
        let sections = header.sections(LE, &data).ok()?;
        let mut offsets = Vec::new();
        for kind in [SHT_SYMTAB, SHT_DYNSYM] {
            let Ok(table) = sections.symbols(LE, &data, kind) else { continue };
            for symbol in table.iter().filter(|symbol| !symbol.is_undefined(LE)) {
                let Ok(name) = symbol.name(LE, table.strings()) else { continue };
                let address = symbol.st_value(LE);
                let text = segments.iter().find(|segment| {
                    let (first, bytes) = (segment.p_vaddr(LE), segment.p_filesz(LE));
                    let is_text = segment.p_type(LE) == PT_LOAD && segment.p_flags(LE).contains(PF_X);
                    is_text && address.checked_sub(first).is_some_and(|at| at < bytes)
                });
                let Some(text) = text else { continue };
                if name == self.name.as_bytes() {
                    offsets.push(address - text.p_vaddr(LE) + text.p_offset(LE));
                } else if let Ok(name) = std::str::from_utf8(name) {
                    self.others.insert(name.to_owned());
                }
            }
        }
        offsets.sort_unstable();
        offsets.dedup();
        Some(offsets)
    }

    /// Why it was in no mapping.
    pub fn why_missing(&self) -> String {
        if self.files.is_empty() {
            return "the trace does not say which programs and libraries are mapped; name an address, such as 0x401000"
                .into();
        }
        let read = self.files.values().filter(|found| found.is_some()).count();
        let unread = self.files.iter().filter(|(_, found)| found.is_none()).map(|(path, _)| path.as_ref());
        let unread: BTreeSet<&str> = unread.collect();
        let not_read = match unread.first() {
            Some(first) => format!("; {} could not be read ({first})", with_noun(unread.len() as u64, "file")),
            None => String::new(),
        };
        let like = did_you_mean(&self.name, self.others.iter().map(String::as_str));
        format!(
            "no function of this name is in the symbols of {} with code that the run maps{not_read}{like}",
            with_noun(read as u64, "file")
        )
    }
}
