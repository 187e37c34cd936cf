//! The part of a block that ran when one of its instructions faulted.

use farreach_types::event::{Block, DataRef};

/// The part of a block that ran when its instruction at `ip` faulted, for an execution with these address words: the
/// instructions and references before it, and their address words. Empty if it was the first.
pub fn before(block: &Block, words: &[u64], ip: u64) -> (Block, Vec<u64>) {
    let ran = instructions_before(block, words, ip);
    let refs: Vec<DataRef> = block.refs.iter().take_while(|r| ran > 0 && r.after as usize <= ran).copied().collect();
    let mut short = Block { instrs: block.instrs[..ran].into(), refs: refs.into() };
    let mut words = words[..short.words()].to_vec();
    // The lowest address of a word may have been that of a reference that did not happen.
    let mut lowest = vec![u32::MAX; words.len()];
    for r in &short.refs {
        lowest[r.word as usize] = lowest[r.word as usize].min(r.offset);
    }
    for (word, &low) in words.iter_mut().zip(&lowest) {
        *word = word.wrapping_add(low.into());
    }
    for r in &mut short.refs {
        r.offset -= lowest[r.word as usize];
    }
    (short, words)
}

/// Number of instructions that ran: those before the one at `ip`, or all up to the one that ends there, where `ip` is a
/// place that cannot be read. Code can have the same instruction several times in one block (an unrolled loop),
/// if none of its words is shared. A word is written just before its first reference and is 0 until then, so the
/// instruction is that of the last word written, or a later one.
fn instructions_before(block: &Block, words: &[u64], ip: u64) -> usize {
    let written = words.iter().position(|&word| word == 0).unwrap_or(words.len());
    let last = written.checked_sub(1).and_then(|last| block.refs.iter().find(|r| r.word as usize == last));
    let first = last.map_or(0, |r| r.after.saturating_sub(1) as usize);
    let is_it = |n: &usize| block.instrs[*n].pc == ip;
    let begins = (first..block.instrs.len()).find(is_it).or_else(|| (0..first).rev().find(is_it));
    let ends = || block.instrs.iter().rposition(|i| i.pc.wrapping_add(i.len.into()) == ip).map(|last| last + 1);
    begins.or_else(ends).unwrap_or(0)
}
