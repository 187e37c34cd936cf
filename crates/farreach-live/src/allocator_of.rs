//! Which allocator a program has, by its mappings and by texts in its file.

use std::fs;
use std::path::{Path, PathBuf};

/// An allocator, as far as they take advice about huge pages in different ways.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllocatorKind {
    /// The C library of GNU, with its version.
    Glibc(Option<(u32, u32)>),
    /// jemalloc under its own name or linked into the program.
    Jemalloc,
    /// gperftools or Google's own.
    Tcmalloc,
    /// Microsoft's.
    Mimalloc,
    /// The runtime of Go.
    Go,
    /// A Java virtual machine.
    Jvm,
    /// The engine of Node.js and Chrome.
    V8,
    /// None of these.
    Unknown,
}

impl std::fmt::Display for AllocatorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AllocatorKind::Glibc(Some((major, minor))) => write!(f, "glibc {major}.{minor}"),
            AllocatorKind::Glibc(None) => f.write_str("glibc"),
            AllocatorKind::Jemalloc => f.write_str("jemalloc"),
            AllocatorKind::Tcmalloc => f.write_str("tcmalloc"),
            AllocatorKind::Mimalloc => f.write_str("mimalloc"),
            AllocatorKind::Go => f.write_str("the runtime of Go"),
            AllocatorKind::Jvm => f.write_str("a Java virtual machine"),
            AllocatorKind::V8 => f.write_str("V8"),
            AllocatorKind::Unknown => f.write_str("unknown"),
        }
    }
}

/// Libraries by the beginning of their file names.
const LIBRARIES: [(&str, AllocatorKind); 4] = [
    ("libjvm.so", AllocatorKind::Jvm),
    ("libjemalloc", AllocatorKind::Jemalloc),
    ("libtcmalloc", AllocatorKind::Tcmalloc),
    ("libmimalloc", AllocatorKind::Mimalloc),
];

/// Texts in a program that has the allocator inside. The first three are the beginnings of its messages.
const TEXTS: [(&str, AllocatorKind); 5] = [
    ("<jemalloc>: ", AllocatorKind::Jemalloc),
    ("tcmalloc: large alloc", AllocatorKind::Tcmalloc),
    ("mimalloc: ", AllocatorKind::Mimalloc),
    ("\u{20}Go buildinf:", AllocatorKind::Go),
    ("_ZN2v88internal", AllocatorKind::V8),
];

const GLIBC: &str = "GNU C Library";

/// The allocator of a program with these mapped files: a library by its name; else one inside the program; else that of
/// the C library.
pub fn allocator_of(program: &Path, files: &[PathBuf]) -> AllocatorKind {
    let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for (start, kind) in &LIBRARIES {
        if files.iter().any(|file| name(file).starts_with(start)) {
            return kind.clone();
        }
    }
    let bytes = fs::read(program).unwrap_or_default();
    if let Some((_, kind)) = TEXTS.iter().find(|(text, _)| find(&bytes, text.as_bytes()).is_some()) {
        return kind.clone();
    }
    if let Some(library) = files.iter().find(|file| name(file) == "libc.so.6" || name(file).starts_with("libc-2.")) {
        return AllocatorKind::Glibc(version(&fs::read(library).unwrap_or_default()));
    }
    if find(&bytes, GLIBC.as_bytes()).is_some() {
        AllocatorKind::Glibc(version(&bytes))
    } else {
        AllocatorKind::Unknown
    }
}

/// The version in `GNU C Library (...) stable release version 2.36.`
fn version(bytes: &[u8]) -> Option<(u32, u32)> {
    let from = find(bytes, GLIBC.as_bytes())?;
    let text = String::from_utf8_lossy(&bytes[from..bytes.len().min(from + 120)]).into_owned();
    let number = text.split_once("release version ")?.1;
    let (major, rest) = number.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    let first = text[0];
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|b| *b == first) {
        let at = from + at;
        if bytes[at..].starts_with(text) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(program: &str, files: &[&str]) -> Option<AllocatorKind> {
        let there = Path::new(program).is_file();
        if !there {
            eprintln!("skipped: {program} is not installed");
        }
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        there.then(|| allocator_of(Path::new(program), &files))
    }

    #[test]
    fn libraries_come_first() {
        let files =
            ["/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"].map(PathBuf::from);
        assert_eq!(allocator_of(Path::new("/bin/true"), &files), AllocatorKind::Jemalloc);
    }

    #[test]
    fn one_inside_the_program_is_found_by_its_messages() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::write(&file, format!("\x7fELF\0\0{text}\0")).unwrap();
            allocator_of(&file, &[])
        };
        assert_eq!(kind("a", "<<jemalloc>: Error in"), AllocatorKind::Jemalloc);
        assert_eq!(kind("b", "uses jemalloc_bg_thd"), AllocatorKind::Unknown);
        assert_eq!(
            kind("c", "GNU C Library (Debian) stable release version 2.36.\n"),
            AllocatorKind::Glibc(Some((2, 36)))
        );
    }

    #[test]
    fn installed_programs() {
        let libc = "/lib/x86_64-linux-gnu/libc.so.6";
        if let Some(kind) = installed("/bin/ls", &[libc]) {
            assert!(matches!(kind, AllocatorKind::Glibc(Some(_))) || !Path::new(libc).is_file(), "{kind}");
        }
        for (program, expected) in [("/usr/local/go/bin/go", AllocatorKind::Go), ("/usr/bin/node", AllocatorKind::V8)] {
            if let Some(kind) = installed(program, &[libc]) {
                assert_eq!(kind, expected, "{program}");
            }
        }
    }
}
