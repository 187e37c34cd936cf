//! Mappings as other tools write them: pages and frames by address, without names of what is mapped.
//!
//! * `v2p.textproto` of drmemtrace: `page_size`, then a `virtual_address` and a `physical_address` for each page.
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
    let (mut size, mut runs, mut at, mut count) = (None, Vec::new(), None, None);
    for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line.trim())) {
        let wrong = |what: String| format!("line {number}: '{}': {what}", shown(line));
        if line.is_empty()
            || line.starts_with('#')
            || line == "}"
            || (line.starts_with("address_mapping") && line.ends_with('{'))
        {
            continue;
        }
        let (key, value) = line.split_once(':').ok_or_else(|| wrong("a line reads 'KEY: NUMBER'".into()))?;
        let value = value.trim();
        let digits = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
        let value = digits.map_or_else(|| value.parse(), |digits| u64::from_str_radix(digits, 16));
        let value = value.map_err(|_| wrong("it is no number, decimal or hexadecimal with 0x".into()))?;
        match key.trim() {
            "page_size" => match value {
                4096 => size = Some(1),
                0x20_0000 => size = Some(HUGE),
                other => return Err(wrong(format!("page_size = {other} is not allowed: 4096 and 2097152 are"))),
            },
            "page_count" => count = Some((value, number)),
            "bytes_mapped" => {}
            "virtual_address" if at.is_some() => return Err(wrong("the address before it has no frame".into())),
            "virtual_address" => at = Some(value),
            "physical_address" => {
                let pages = size.ok_or_else(|| wrong("page_size stands before all addresses".into()))?;
                let at = at.take().ok_or_else(|| wrong("there is no virtual_address before it".into()))?;
                if (at | value) % (pages << BASE_SHIFT) != 0 {
                    return Err(wrong(format!("the addresses of a page are multiples of {}", pages << BASE_SHIFT)));
                }
                let huge = pages == HUGE;
                runs.push(Run { vpn: at >> BASE_SHIFT, pages, pfn: value >> BASE_SHIFT, huge, line: number });
            }
            other => return Err(wrong(format!("'{}' is not known", shown(other)))),
        }
    }
    if at.is_some() {
        return Err("the last virtual_address has no physical_address: the file is cut".into());
    }
    if let Some((count, number)) = count.filter(|(count, _)| *count != runs.len() as u64) {
        return Err(format!("line {number}: page_count is {count}, and {} pages are mapped", runs.len()));
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
            ("page_size: 4096", "# none", &["line 7", "page_size stands before"]),
            ("page_count: 4", "page_count: 5", &["line 3", "page_count is 5, and 4 pages"]),
            ("0x8000", "0x8001", &["line 11", "multiples of 4096"]),
            ("0x8000", "eight", &["line 10", "no number"]),
            ("  virtual_address: 0x8000\n", "", &["line 10", "no virtual_address"]),
            ("0x1000\n  physical", "0x7000\n  physical", &["page 0x7 is mapped twice"]),
            ("bytes_mapped", "bytes", &["line 4", "'bytes' is not known"]),
            ("  physical_address: 0x1000\n}\n", "", &["is cut"]),
        ] {
            let error = Dump::parse(&V2P.replacen(from, to, 1)).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{error}: {words:?}");
        }
    }
}
