//! What the headers of a program file say.

use object::elf::{ET_DYN, ET_EXEC, FileHeader64, NT_GNU_BUILD_ID, PF_X, PT_INTERP, PT_LOAD, ProgramHeader64};
use object::read::elf::{FileHeader, Note, ProgramHeader};
use object::{LittleEndian, ReadCache};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Longest path of the system.
const PATH_MAX: u64 = 4096;
/// Bytes of a huge page.
const HUGE: u64 = 2 << 20;
const LE: LittleEndian = LittleEndian;

/// What of a program's text could lie on huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Text {
    /// The program is not known, or its file cannot be read.
    #[default]
    Unknown,
    /// It is linked statically, so that no library can be preloaded.
    Static,
    /// Huge pages of 2 MB that lie in it as a whole, wherever it is loaded.
    HugePages(u64),
}

/// The segments of a program, if they can be read whole, and whether addresses are chosen when it is loaded.
fn segments<T>(
    file: &File,
    of: impl FnOnce(bool, &[ProgramHeader64<LittleEndian>], &ReadCache<&File>) -> T,
) -> Option<T> {
    let cache = ReadCache::new(file);
    let header = FileHeader64::<LittleEndian>::parse(&cache).ok()?;
    let kind = header.e_type(LE);
    let segments = header.program_headers(LE, &cache).ok()?;
    (matches!(kind, ET_EXEC | ET_DYN) && !segments.is_empty()).then(|| of(kind == ET_DYN, segments, &cache))
}

/// The dynamic linker that an ELF file names, if any; nothing if the file is cut or no program.
pub fn linker_of(file: &File) -> Option<Option<PathBuf>> {
    segments(file, |_, segments, cache| {
        let Some(named) = segments.iter().find(|segment| segment.p_type(LE) == PT_INTERP) else { return Some(None) };
        let name = named.data(LE, cache).ok().filter(|name| (2..=PATH_MAX).contains(&(name.len() as u64)))?;
        let name = name.strip_suffix(&[0])?;
        Some(Some(OsString::from_vec(name.to_vec()).into()))
    })?
}

/// The build id that its linker gave a program or library, hexadecimal; `None` if it has none, or is no such file.
pub fn build_id(file: &File) -> Option<String> {
    segments(file, |_, segments, cache| {
        let id = segments.iter().find_map(|segment| {
            let mut notes = segment.notes(LE, cache).ok()??;
            let is_id =
                |note: &Note<FileHeader64<LittleEndian>>| note.name() == b"GNU" && note.n_type(LE) == NT_GNU_BUILD_ID;
            std::iter::from_fn(|| notes.next().ok()?).find(is_id)
        });
        Some(id?.desc().iter().map(|byte| format!("{byte:02x}")).collect())
    })?
}

/// The libraries that a program is started with, as its dynamic linker finds them in this environment, the linker
/// itself included; none of a program that has no linker, or if the linker does not say.
pub fn libraries_of(program: &Path) -> Vec<PathBuf> {
    let linker = File::open(program).ok().and_then(|file| linker_of(&file)).flatten();
    let Some(linker) = linker else { return Vec::new() };
    let listed = Command::new(&linker).arg("--list").arg(program).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let listed = listed.ok().filter(|done| done.status.success()).map(|done| done.stdout).unwrap_or_default();
    // `name => path (address)`, or `path (address)`; what the kernel provides has no path.
    let path = |line: &str| {
        let place = line.split_once(" => ").map_or(line, |(_, place)| place).trim();
        let path = place.rsplit_once(" (").map_or(place, |(path, _)| path);
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    let mut found: Vec<PathBuf> = String::from_utf8_lossy(&listed).lines().filter_map(path).collect();
    if !found.contains(&linker) {
        found.push(linker);
    }
    found
}

/// What of the text of a program could lie on huge pages.
pub fn text_of(program: &Path) -> Text {
    let pages = |movable: bool, segment: &ProgramHeader64<LittleEndian>| {
        let (first, bytes) = (segment.p_vaddr(LE), segment.p_filesz(LE));
        let (end, whole) = (first.saturating_add(bytes), first.next_multiple_of(HUGE));
        if movable { (bytes / HUGE).saturating_sub(1) } else { end.saturating_sub(whole) / HUGE }
    };
    let text = |movable: bool, all: &[ProgramHeader64<LittleEndian>], _: &ReadCache<&File>| {
        let text = all.iter().filter(|segment| segment.p_type(LE) == PT_LOAD && segment.p_flags(LE).contains(PF_X));
        match all.iter().any(|segment| segment.p_type(LE) == PT_INTERP) {
            true => Text::HugePages(text.map(|segment| pages(movable, segment)).sum()),
            false => Text::Static,
        }
    };
    File::open(program).ok().and_then(|file| segments(&file, text)).unwrap_or_default()
}
