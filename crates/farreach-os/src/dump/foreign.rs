//! Mappings as other tools write them: pages and frames by address, without names of what is mapped.
//!
//! * `v2p.textproto` of drmemtrace: groups of pages of one `page_size`, with a `virtual_address` and a
//!   `physical_address` for each page. Numbers of pages, which stand behind them, must be right.
//! * The list of `page-types -p PID -l`, a tool of Linux that reads `/proc/PID/pagemap`: page, frame and number of
//!   pages in hexadecimal, and flags.
//!
//! Pages that follow each other are one mapping, which is anonymous and allows everything. So they are found by their
//! addresses in a trace that says nothing of mappings.

use super::{Area, Dump, FRAMES, HUGE, PAGES, Present};
use farreach_types::addr::BASE_SHIFT;
use farreach_types::event::Prot;

/// The first line of a list of page-types.
const PAGE_TYPES: &str = "voffset\toffset\tlen\tflags";

/// The dump, if the text is of one of these tools.
pub(super) fn read(text: &str) -> Option<Result<Dump, String>> {
    if text.lines().next().is_some_and(|line| line.trim_end() == PAGE_TYPES) {
        return Some(page_types(text));
    }
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let first = lines.next()?.trim();
    ["page_size", "page_count", "bytes_mapped", "address_mapping"]
        .iter()
        .any(|key| first.starts_with(key))
        .then(|| v2p(text))
}

/// A page or several, and the line that says so.
struct Run {
    vpn: u64,
    pages: u64,
    pfn: u64,
    huge: bool,
    line: usize,
}

fn v2p(text: &str) -> Result<Dump, String> {
    let mut runs: Vec<Run> = Vec::new();
    // Blocks that are open, each with the number of pages before it.
    let mut open: Vec<(&str, usize)> = Vec::new();
    let (mut size, mut at, mut frame, mut count) = (None, None, None, None);
    let check = |count: u64, pages: usize, number: usize| match count == pages as u64 {
        true => Ok(()),
        false => Err(format!("line {number}: page_count is {count}, and {pages} pages are mapped")),
    };
    for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line.trim())) {
        let wrong = |what: String| format!("line {number}: '{}': {what}", shown(line));
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(block) = line.strip_suffix('{').map(str::trim) {
            if !["address_mapping_group", "address_mapping", "information"].contains(&block) {
                return Err(wrong(format!("'{}' is not known", shown(block))));
            }
            open.push((block, runs.len()));
            continue;
        }
        if line == "}" {
            let (block, _) = open.pop().ok_or_else(|| wrong("no block is open".into()))?;
            if block == "address_mapping" {
                let pages: u64 = size.ok_or_else(|| wrong("page_size stands before all addresses".into()))?;
                // The format leaves out what is 0, as drcachesim reads it, too.
                let at: u64 = at.take().unwrap_or(0);
                let frame: u64 = frame.take().ok_or_else(|| wrong("there is no physical_address".into()))?;
                if !(at | frame).is_multiple_of(pages << BASE_SHIFT) {
                    return Err(wrong(format!("the addresses of a page are multiples of {}", pages << BASE_SHIFT)));
                }
                let huge = pages == HUGE;
                runs.push(Run { vpn: at >> BASE_SHIFT, pages, pfn: frame >> BASE_SHIFT, huge, line: number });
            }
            continue;
        }
        let (key, value) = line.split_once(':').ok_or_else(|| wrong("a line reads 'KEY: NUMBER'".into()))?;
        let value = value.trim();
        let digits = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
        let value = digits.map_or_else(|| value.parse(), |digits| u64::from_str_radix(digits, 16));
        let value = value.map_err(|_| wrong("it is no number, decimal or hexadecimal with 0x".into()))?;
        let in_mapping = open.last().is_some_and(|(block, _)| *block == "address_mapping");
        let place = match key.trim() {
            "page_size" => {
                size = Some(match value {
                    4096 => 1,
                    0x20_0000 => HUGE,
                    other => return Err(wrong(format!("page_size = {other} is not allowed: 4096 and 2097152 are"))),
                });
                continue;
            }
            // Of the group that it stands in, or of all.
            "page_count" => {
                let group = open.iter().find(|(block, _)| *block == "address_mapping_group");
                match group {
                    Some((_, before)) => check(value, runs.len() - before, number)?,
                    None => count = Some((value, number)),
                }
                continue;
            }
            "bytes_mapped" => continue,
            "virtual_address" => &mut at,
            "physical_address" => &mut frame,
            other => return Err(wrong(format!("'{}' is not known", shown(other)))),
        };
        if !in_mapping || place.replace(value).is_some() {
            return Err(wrong("it stands once in each address_mapping".into()));
        }
    }
    if let Some((block, _)) = open.pop() {
        return Err(format!("the last block, {block}, does not end: the file is cut"));
    }
    if let Some((count, number)) = count {
        check(count, runs.len(), number)?;
    }
    dump("v2p.textproto", runs)
}

fn page_types(text: &str) -> Result<Dump, String> {
    let mut runs = Vec::new();
    // The summary stands behind an empty line.
    for (i, line) in text.lines().enumerate().skip(1).take_while(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: &str| format!("line {}: '{}': {what}", i + 1, shown(line));
        let words: Vec<&str> = line.split_whitespace().collect();
        let [page, frame, pages, _] = words[..] else {
            return Err(wrong("a line reads 'PAGE FRAME PAGES FLAGS', as page-types -l prints it"));
        };
        let number = |word: &str| u64::from_str_radix(word, 16).ok().filter(|_| !word.starts_with('+'));
        let [vpn, pfn, pages] = [page, frame, pages].map(number);
        let (Some(vpn), Some(pfn), Some(pages)) = (vpn, pfn, pages) else {
            return Err(wrong("page, frame and number of pages are hexadecimal"));
        };
        runs.push(Run { vpn, pages, pfn, huge: false, line: i + 1 });
    }
    dump("page-types", runs)
}

fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Mappings of these runs, which may be in any order.
fn dump(source: &str, mut runs: Vec<Run>) -> Result<Dump, String> {
    runs.sort_by_key(|run| run.vpn);
    let mut areas: Vec<Area> = Vec::new();
    for run in runs {
        let Run { vpn, pages, pfn, huge, line } = run;
        let wrong = |what: String| Err(format!("line {line}: {what}"));
        if pages == 0 || pages > PAGES.saturating_sub(vpn) {
            return wrong(format!("{pages:#x} pages from page {vpn:#x} on do not fit below page {PAGES:#x}"));
        }
        if pages > FRAMES.saturating_sub(pfn) {
            return wrong(format!("{pages:#x} frames from {pfn:#x} on do not fit below frame {FRAMES:#x}"));
        }
        let end = areas.last().map_or(0, Area::end);
        if vpn < end {
            return wrong(format!("page {vpn:#x} is mapped twice"));
        }
        if areas.is_empty() || vpn > end {
            let prot = Prot::RWX;
            let name = crate::labels::ANONYMOUS.to_owned();
            areas.push(Area { start: vpn, pages: 0, prot, shared: false, offset: 0, name, runs: Vec::new() });
        }
        let area = areas.last_mut().expect("it was just pushed");
        area.pages += pages;
        match area.runs.last_mut() {
            Some(last) if last.huge == huge && last.pfn == pfn.checked_sub(last.pages) => last.pages += pages,
            _ => area.runs.push(Present { vpn, pages, pfn: Some(pfn), huge }),
        }
    }
    Ok(Dump { source: source.to_owned(), areas })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2P: &str = "# a comment
page_size: 4096
page_count: 4
bytes_mapped: 16384
address_mapping {
  virtual_address: 0x7000
  physical_address: 0x3000
}
address_mapping {
  virtual_address: 0x8000
  physical_address: 0x4000
}
address_mapping {
  virtual_address: 0x1000
  physical_address: 36864
}
address_mapping {
  virtual_address: 0x9000
  physical_address: 0x1000
}
";

    #[test]
    fn pages_of_drmemtrace_are_mappings() {
        let dump = Dump::parse(V2P).unwrap();
        let text = "mapping 1 1 rwxp 0 anonymous\n1 1 9 4K\nmapping 7 3 rwxp 0 anonymous\n7 2 3 4K\n9 1 1 4K\n";
        assert!(dump.to_string().ends_with(text), "{dump}");
        assert_eq!(Dump::parse(&dump.to_string()).unwrap().areas, dump.areas, "it can be kept as farreach's own");
        // As in a trace of DynamoRIO's own tests: groups, and a page at address 0, which the format leaves out.
        let groups = "# VirtualToPhysical
address_mapping_group    {
  page_size: 4096
  address_mapping {
    physical_address: 8192
  }
  information {
    page_count: 1
    bytes_mapped: 4096
  }
}
address_mapping_group {
  page_size: 2097152
  address_mapping {
    virtual_address: 4194304
    physical_address: 2097152
  }
  information {
    page_count: 1
    bytes_mapped: 2097152
  }
}
information {
  page_count: 2
  bytes_mapped: 2101248
}
";
        let text = "mapping 0 1 rwxp 0 anonymous\n0 1 2 4K\nmapping 400 200 rwxp 0 anonymous\n400 200 200 2M\n";
        assert!(Dump::parse(groups).unwrap().to_string().ends_with(text));
        for wrong in [groups.replacen("page_count: 1", "page_count: 2", 1), groups.replace("count: 2", "count: 3")] {
            assert!(Dump::parse(&wrong).unwrap_err().contains("page_count is "));
        }
        let large =
            "page_size: 0x200000\naddress_mapping {\nvirtual_address: 0x400000\nphysical_address: 0x600000\n}\n";
        assert!(Dump::parse(large).unwrap().to_string().ends_with("400 200 600 2M\n"));
    }

    #[test]
    fn lists_of_page_types_are_mappings() {
        let text =
            "voffset\toffset\tlen\tflags\n400\t1a2b3\t2\t__RU_l_____M______\n402\t77\t1\t___U\n\n flags\tpage-count\n";
        let dump = Dump::parse(text).unwrap();
        assert!(dump.to_string().ends_with("mapping 400 3 rwxp 0 anonymous\n400 2 1a2b3 4K\n402 1 77 4K\n"), "{dump}");
        for (from, to, words) in [
            ("1a2b3", "xyz", &["line 2", "hexadecimal"][..]),
            ("402\t", "401\t", &["line 3", "page 0x401 is mapped twice"]),
            ("\t2\t", "\t0\t", &["line 2", "0x0 pages"]),
            ("1a2b3", "ffffffffff", &["line 2", "do not fit below frame"]),
            ("\t2\t__RU_l_____M______", "\t2", &["line 2", "'PAGE FRAME PAGES FLAGS'"]),
        ] {
            let error = Dump::parse(&text.replacen(from, to, 1)).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{error}: {words:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (from, to, words) in [
            ("page_size: 4096", "page_size: 65536", &["line 2", "65536", "4096 and 2097152"][..]),
            ("page_size: 4096", "# none", &["line 8", "page_size stands before"]),
            ("page_count: 4", "page_count: 5", &["line 3", "page_count is 5, and 4 pages"]),
            ("0x8000", "0x8001", &["line 12", "multiples of 4096"]),
            ("0x8000", "eight", &["line 10", "no number"]),
            ("  physical_address: 0x4000\n", "", &["line 11", "there is no physical_address"]),
            ("  virtual_address: 0x8000\n", "  physical_address: 0x8000\n", &["line 11", "it stands once"]),
            ("address_mapping {\n  virtual_address: 0x8000", "mapping {", &["line 9", "'mapping' is not known"]),
            ("# a comment\n", "}\n", &["line 1"]),
            ("0x1000\n  physical", "0x7000\n  physical", &["page 0x7 is mapped twice"]),
            ("bytes_mapped", "bytes", &["line 4", "'bytes' is not known"]),
            ("  physical_address: 0x1000\n}\n", "", &["is cut"]),
        ] {
            let error = Dump::parse(&V2P.replacen(from, to, 1)).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{error}: {words:?}");
        }
    }
}
