//! The columns of a line of text.

use crate::lines::Wrong;
use std::ops::Range;

/// Columns with blanks between them. A colon, comma or semicolon at the end of one is no part of it.
pub(super) fn blanks(line: &[u8], into: &mut Vec<Range<usize>>) {
    let bare = |column: Range<usize>| match line[column.clone()] {
        [_, .., b':' | b',' | b';'] => column.start..column.end - 1,
        _ => column,
    };
    let mut from = None;
    for (at, byte) in line.iter().enumerate() {
        match (matches!(byte, b' ' | b'\t'), from) {
            (false, None) => from = Some(at),
            (true, Some(first)) => {
                into.push(bare(first..at));
                from = None;
            }
            _ => {}
        }
    }
    into.extend(from.map(|first| bare(first..line.len())));
}

/// Columns with a sign between them.
pub(super) fn split(line: &[u8], separator: u8, into: &mut Vec<Range<usize>>) -> Result<(), Wrong> {
    let mut at = 0;
    loop {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t') && *byte != separator;
        let first = at + line[at..].iter().take_while(|b| blank(b)).count();
        let quoted = line.get(first) == Some(&b'"');
        let text = first + usize::from(quoted);
        let end = if quoted { b'"' } else { separator };
        let length = line[text..].iter().position(|&b| b == end);
        let stop = match length {
            Some(length) => text + length,
            None if quoted => return Err(Wrong::at(into.len() + 1, "the quotes are not closed")),
            None => line.len(),
        };
        let kept = line[text..stop].iter().rev().take_while(|b| !quoted && blank(b)).count();
        into.push(text..stop - kept);
        let behind = stop + usize::from(quoted);
        let next = behind + line[behind..].iter().take_while(|b| blank(b)).count();
        match line.get(next) {
            None => return Ok(()),
            Some(&byte) if byte == separator => at = next + 1,
            Some(_) => return Err(Wrong::at(into.len(), "something stands behind the closing quotes")),
        }
    }
}
