//! Excerpts of programs: what a structure held at one moment, and what was asked of it from there on. Synthesis runs
//! its cells through them (`rtl/excerpts`).

use crate::request::{Op, Request};
use farreach_types::event::Kind;
use std::fmt::Write as _;

/// A piece of a program as one structure sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Excerpt {
    /// Fills that bring what the structure held when the piece began.
    pub contents: Vec<Request>,
    /// Lookups one after the other.
    pub lookups: Vec<Request>,
    /// The fills among them, each for the last lookup before it, and further ones behind them.
    pub fills: Vec<Request>,
}

/// Lookups of an excerpt.
const LOOKUPS: usize = 512;
/// Fills that an excerpt goes on to collect behind its lookups.
const FILLS: usize = 64;
/// Words of lookups in an excerpt: those of walkers bring the memory that they read.
const WORDS: usize = 2048;
/// Characters of a line.
const LINE: usize = 110;

impl Excerpt {
    /// A request was made.
    pub fn see(&mut self, request: &Request) {
        let words = self.lookups.iter().map(|r| r.further.len()).sum::<usize>();
        let full = self.lookups.len() >= LOOKUPS || words >= WORDS;
        match request.op {
            Op::Lookup if !full => self.lookups.push(request.clone()),
            // What is loaded before the first lookup is there when the lookups begin.
            Op::Fill if self.lookups.is_empty() => self.contents.push(request.clone()),
            Op::Fill if !full || self.fills.len() < FILLS => self.fills.push(request.clone()),
            _ => {}
        }
    }

    /// Whether anything was brought in.
    pub fn filled(&self) -> bool {
        !self.contents.is_empty() || !self.fills.is_empty()
    }
}

/// Excerpts as text: `structure NAME`, then `contents`, `lookups` and `fills`, each with a line for each request: kind,
/// address space, page, limit, frame, root, attributes, size, and further words, which go on in lines that are
/// indented. Numbers are hexadecimal.
pub fn write(excerpts: &[(String, Excerpt)]) -> String {
    let mut out = String::new();
    for (structure, excerpt) in excerpts {
        let _ = writeln!(out, "structure {structure}");
        for (name, requests) in
            [("contents", &excerpt.contents), ("lookups", &excerpt.lookups), ("fills", &excerpt.fills)]
        {
            let _ = writeln!(out, "{name}");
            requests.iter().for_each(|request| line(request, &mut out));
        }
    }
    out
}

fn line(r: &Request, out: &mut String) {
    let kind = match r.kind {
        Kind::Fetch => 'f',
        Kind::Load => 'l',
        Kind::Store => 's',
    };
    let numbers = [u64::from(r.asid), r.page, r.limit, r.frame, r.root, u64::from(r.attr), u64::from(r.size)];
    let mut text = kind.to_string();
    for number in numbers.iter().chain(&r.further) {
        let word = format!(" {number:x}");
        if text.len() + word.len() > LINE {
            let _ = writeln!(out, "{text}");
            text = " ".to_owned();
        }
        text += &word;
    }
    let _ = writeln!(out, "{text}");
}

/// Reads them back.
///
/// # Errors
/// A line is none of these; it says which.
pub fn read(text: &str) -> Result<Vec<(String, Excerpt)>, String> {
    let mut all: Vec<(String, Excerpt)> = Vec::new();
    let mut part = 0;
    // Requests begin in the first column; what is indented belongs to the line before.
    let joined = text.replace("\n  ", " ");
    for line in joined.lines() {
        let wrong = || format!("'{line}': a line of an excerpt is expected");
        match line {
            "contents" => part = 0,
            "lookups" => part = 1,
            "fills" => part = 2,
            _ => match line.strip_prefix("structure ") {
                Some(name) => all.push((name.to_owned(), Excerpt::default())),
                None => {
                    let op = if part == 1 { Op::Lookup } else { Op::Fill };
                    let request = request(line, op).ok_or_else(wrong)?;
                    let (_, excerpt) = all.last_mut().ok_or_else(wrong)?;
                    [&mut excerpt.contents, &mut excerpt.lookups, &mut excerpt.fills][part].push(request);
                }
            },
        }
    }
    Ok(all)
}

fn request(line: &str, op: Op) -> Option<Request> {
    let mut words = line.split_whitespace();
    let kind = match words.next()? {
        "f" => Kind::Fetch,
        "l" => Kind::Load,
        "s" => Kind::Store,
        _ => return None,
    };
    let mut numbers = words.map(|word| u64::from_str_radix(word, 16).ok());
    let mut next = || numbers.next()?;
    let (asid, page, limit, frame, root) = (next()?.try_into().ok()?, next()?, next()?, next()?, next()?);
    let (attr, size) = (next()?.try_into().ok()?, next()?.try_into().ok()?);
    let further = numbers.collect::<Option<Vec<_>>>()?;
    Some(Request { op, kind, asid, page, limit, frame, root, attr, size, further })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_read_as_they_were_written() {
        let mut long = Request::new(Op::Lookup, 3, 0x7fff_f123);
        long.further = (0..40).map(|i| 0x1234_5678_9abc << (i % 4)).collect();
        let store =
            Request { kind: Kind::Store, limit: 9, frame: !0, attr: 255, size: 4, ..Request::new(Op::Fill, 0, 1) };
        let excerpt = Excerpt { contents: vec![store.clone()], lookups: vec![long.clone(), long], fills: vec![store] };
        let excerpts = vec![("a".to_owned(), excerpt), ("b".to_owned(), Excerpt::default())];
        let text = write(&excerpts);
        assert!(text.lines().all(|line| line.len() <= 120));
        assert_eq!(read(&text).unwrap(), excerpts);
        assert!(read("contents\nx 1").unwrap_err().contains("'x 1'"));
    }
}
