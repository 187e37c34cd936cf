//! The mapping of a live process as text, which `farreach contiguity --dump` writes and the placement `mapping` reads.
//!
//! ```text
//! # farreach mapping 2
//! # process 4711 (cc1 -O2 big.c)
//! mapping 55d0c0a00 21 rw-p 0 heap
//! 55d0c0a00 3 1a2b3 4K
//! mapping 7f0000000 400 rw-p 0 anonymous
//! 7f0000000 200 40200 2M
//! ```
//!
//! A line `mapping` is a mapping of the process: first page, pages, protection and `p`rivate or `s`hared, page of the
//! file at its start (0 if there is none), and the file, `heap`, `stack` or `anonymous`. The lines that follow are its
//! present pages, in runs: first page, pages, first frame (`-` where it was not visible) and the size of the page table
//! leaf. Numbers are hexadecimal. Everything is in ascending order. `#` begins a comment. `foreign` and [`pagemap`]
//! have what else is read.

mod foreign;
pub mod pagemap;

use farreach_types::event::Prot;
use std::fmt::{self, Display, Formatter};

/// The first line; the number changes with the format.
const HEAD: &str = "# farreach mapping 2";
/// Virtual addresses have 64 bits, pages are 4 KB.
const PAGES: u64 = 1 << 52;
/// Frames that a dump may name: 64 TB of memory.
pub const FRAMES: u64 = 1 << 34;
/// Base pages of a 2 MB leaf.
pub const HUGE: u64 = 512;

/// A mapping of a whole process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dump {
    /// A comment that names the process.
    pub source: String,
    /// Its mappings, ascending.
    pub areas: Vec<Area>,
}

/// One mapping. A page is 4 KB.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Area {
    /// First page.
    pub start: u64,
    /// Pages.
    pub pages: u64,
    /// Protection.
    pub prot: Prot,
    /// Stores are seen by every mapper of the file.
    pub shared: bool,
    /// Page of the file at the start.
    pub offset: u64,
    /// A path, `heap`, `stack`, `anonymous`, or the kernel's name for it.
    pub name: String,
    /// Its present pages, ascending.
    pub runs: Vec<Present>,
}

/// Pages that follow each other in virtual memory, and in physical memory if frames are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Present {
    /// First page.
    pub vpn: u64,
    /// Pages.
    pub pages: u64,
    /// First frame; `None` where it was not visible.
    pub pfn: Option<u64>,
    /// Mapped by 2 MB leaves.
    pub huge: bool,
}

impl Area {
    /// One past the last page.
    pub fn end(&self) -> u64 {
        self.start + self.pages
    }

    /// The run a page lies in.
    pub fn find(&self, vpn: u64) -> Option<&Present> {
        let after = self.runs.partition_point(|run| run.vpn <= vpn);
        self.runs.get(after.checked_sub(1)?).filter(|run| vpn - run.vpn < run.pages)
    }
}

impl Dump {
    /// Reads a dump. The error names line, value and what is allowed.
    pub fn parse(text: &str) -> Result<Dump, String> {
        if let Some(foreign) = foreign::read(text) {
            return foreign;
        }
        let mut dump = Dump::default();
        if text.lines().next() != Some(HEAD) {
            let first: String = text.lines().next().unwrap_or_default().chars().take(60).collect();
            return Err(format!(
                "line 1: '{first}': a mapping of this version begins with '{HEAD}'; v2p.textproto of drmemtrace and \
                 lists of page-types -l are read, too"
            ));
        }
        for (number, line) in text.lines().enumerate().skip(1) {
            let shown = || line.chars().take(60).collect::<String>();
            if let Some(comment) = line.strip_prefix('#') {
                if number == 1 {
                    dump.source = comment.trim().to_owned();
                }
            } else if let Some(rest) = line.strip_prefix("mapping ") {
                let end = dump.areas.last().map_or(0, Area::end);
                let area = area(rest, end).map_err(|what| format!("line {}: '{}': {what}", number + 1, shown()))?;
                dump.areas.push(area);
            } else if !line.trim().is_empty() {
                let run = present(line, dump.areas.last());
                let run = run.map_err(|what| format!("line {}: '{}': {what}", number + 1, shown()))?;
                dump.areas.last_mut().expect("a run without its mapping was refused").runs.push(run);
            }
        }
        Ok(dump)
    }

    /// Whether the frames of all present pages are known.
    pub fn has_frames(&self) -> bool {
        self.areas.iter().flat_map(|area| &area.runs).all(|run| run.pfn.is_some())
    }
}

fn hex(word: &str, most: u64, what: &str) -> Result<u64, String> {
    let number = u64::from_str_radix(word, 16).ok().filter(|n| *n <= most && !word.starts_with('+'));
    number.ok_or_else(|| format!("{what} '{word}' is not a hexadecimal number up to {most:x}"))
}

/// Checks that `pages` pages from `first` on lie behind `from` and inside `to`.
fn within(first: u64, pages: u64, from: u64, to: u64) -> Result<(), String> {
    match (first >= from, pages > 0 && pages <= to.saturating_sub(first)) {
        (true, true) => Ok(()),
        (false, _) => {
            Err(format!("it begins before page {from:x}, where what stands before it ends: pages must ascend"))
        }
        _ => Err(format!("{pages:x} pages do not fit between page {first:x} and page {to:x}")),
    }
}

fn area(rest: &str, end: u64) -> Result<Area, String> {
    let words: Vec<&str> = rest.splitn(5, ' ').collect();
    let [start, pages, prot, offset, name] = words[..] else {
        return Err("a mapping reads 'mapping START PAGES rwxp OFFSET NAME'".to_owned());
    };
    let (start, pages) = (hex(start, PAGES - 1, "the page")?, hex(pages, PAGES, "the number")?);
    within(start, pages, end, PAGES)?;
    let valid = |(at, c): (usize, &u8)| [[b'r', b'-'], [b'w', b'-'], [b'x', b'-'], [b's', b'p']][at].contains(c);
    let bits = prot.as_bytes();
    if bits.len() != 4 || !bits.iter().enumerate().all(valid) {
        return Err(format!("the protection '{prot}' is not like 'rw-p' or 'r-xs'"));
    }
    if name.is_empty() {
        return Err("there is no name".to_owned());
    }
    let offset = hex(offset, PAGES - 1, "the page of the file")?;
    let on = |at: usize| b"rwxs"[at] == bits[at];
    let prot = Prot { read: on(0), write: on(1), exec: on(2) };
    Ok(Area { start, pages, prot, shared: on(3), offset, name: name.to_owned(), runs: Vec::new() })
}

fn present(line: &str, area: Option<&Area>) -> Result<Present, String> {
    let area = area.ok_or("present pages stand behind the line 'mapping' of their mapping")?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let [first, pages, frame, size] = words[..] else {
        return Err("present pages read 'PAGE PAGES FRAME 4K', or 2M".to_owned());
    };
    let (vpn, pages) = (hex(first, PAGES - 1, "the page")?, hex(pages, PAGES, "the number")?);
    within(vpn, pages, area.runs.last().map_or(area.start, |run| run.vpn + run.pages), area.end())?;
    let pfn = match frame {
        "-" => None,
        frame => Some(hex(frame, FRAMES - 1, "the frame")?),
    };
    if pfn.is_some_and(|pfn| pages > FRAMES - pfn) {
        return Err(format!("its frames reach beyond frame {:x}, the last that is possible", FRAMES - 1));
    }
    let huge = match size {
        "4K" => false,
        "2M" if vpn % HUGE == 0 && pages % HUGE == 0 && pfn.unwrap_or(0) % HUGE == 0 => true,
        "2M" => return Err(format!("page, pages and frame of 2M leaves are multiples of {HUGE:x}")),
        _ => return Err(format!("the size '{size}' is not 4K or 2M")),
    };
    Ok(Present { vpn, pages, pfn, huge })
}

impl Display for Dump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\n# {}", self.source.escape_default())?;
        for area in &self.areas {
            let bit = |on: bool, letter: char| if on { letter } else { '-' };
            let Prot { read, write, exec } = area.prot;
            let kind = if area.shared { 's' } else { 'p' };
            let prot: String = [bit(read, 'r'), bit(write, 'w'), bit(exec, 'x'), kind].iter().collect();
            // The kernel writes a line feed in a name as \012.
            let name = area.name.replace('\n', "\\012");
            writeln!(f, "mapping {:x} {:x} {prot} {:x} {name}", area.start, area.pages, area.offset)?;
            for run in &area.runs {
                let frame = run.pfn.map_or_else(|| "-".to_owned(), |pfn| format!("{pfn:x}"));
                writeln!(f, "{:x} {:x} {frame} {}", run.vpn, run.pages, if run.huge { "2M" } else { "4K" })?;
            }
        }
        Ok(())
    }
}

/// For the fuzzer: a text is refused, or it is a dump that survives being written and read again.
#[doc(hidden)]
pub fn fuzz(text: &str) {
    if let Ok(dump) = Dump::parse(text) {
        let again = Dump::parse(&dump.to_string()).expect("its own text");
        assert_eq!(again.areas, dump.areas);
        let mut end = 0;
        for area in &dump.areas {
            assert!(area.start >= end && area.pages > 0);
            end = area.end();
            assert!(area.runs.iter().all(|run| area.find(run.vpn + run.pages - 1) == Some(run)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# farreach mapping 2
# test
mapping 10 20 rw-p 0 heap
10 3 1a2b3 4K
20 10 5 4K
mapping 400 400 r-xs 7 /a file (deleted)
400 200 200 2M
";

    #[test]
    fn a_dump_is_read_as_it_is_written() {
        let dump = Dump::parse(GOOD).unwrap();
        assert_eq!(dump.to_string(), GOOD);
        assert_eq!(
            (dump.areas[0].end(), dump.areas[1].name.as_str(), dump.has_frames()),
            (0x30, "/a file (deleted)", true)
        );
        assert_eq!(dump.areas[0].find(0x12).unwrap().pfn, Some(0x1a2b3));
        assert_eq!((dump.areas[0].find(0x13), dump.areas[0].find(0x9)), (None, None));
        assert!(!Dump::parse(&GOOD.replace("1a2b3", "-")).unwrap().has_frames());
    }

    #[test]
    fn hostile_dumps_are_refused_with_line_and_reason() {
        for (from, to, words) in [
            ("mapping 2\n", "mapping 1\n", &["line 1", "mapping 1", HEAD][..]),
            ("20 10 5 4K", "12 10 5 4K", &["line 5", "12 10 5 4K", "must ascend"]),
            ("20 10 5 4K", "20 11 5 4K", &["line 5", "11 pages", "page 30"]),
            ("20 10 5 4K", "20 0 5 4K", &["line 5", "0 pages"]),
            ("20 10 5 4K", "8 1 5 4K", &["line 5", "must ascend"]),
            ("20 10 5 4K", "20 ffffffffffffffff 5 4K", &["line 5", "not a hexadecimal number up to"]),
            ("20 10 5 4K", "20 10 3fffffff8 4K", &["line 5", "beyond frame 3ffffffff"]),
            ("20 10 5 4K", "20 10 5 1G", &["line 5", "'1G' is not 4K or 2M"]),
            ("20 10 5 4K", "20 10 5 2M", &["line 5", "multiples of 200"]),
            ("20 10 5 4K", "20 10 5", &["line 5", "PAGE PAGES FRAME"]),
            ("20 10 5 4K", "garbage", &["line 5", "garbage", "PAGE PAGES FRAME"]),
            ("mapping 400", "mapping 2f", &["line 6", "must ascend"]),
            ("mapping 400 400", "mapping 400 fffffffffffff", &["line 6", "do not fit"]),
            ("r-xs", "xwrs", &["line 6", "'xwrs'", "rw-p"]),
            ("r-xs", "r-x", &["line 6", "'r-x'"]),
            ("mapping 10 20 rw-p 0 heap\n", "", &["line 3", "behind the line 'mapping'"]),
            ("/a file (deleted)", "", &["line 6", "no name"]),
        ] {
            let text = GOOD.replacen(from, to, 1);
            let error = Dump::parse(&text).expect_err(&text);
            assert!(words.iter().all(|word| error.contains(word)), "{error}: {words:?}");
        }
        assert!(Dump::parse("").unwrap_err().contains("line 1: ''"));
    }
}
