//! The part of a block that ran when one of its instructions faulted.

use farreach_types::event::{Block, DataRef};

/// The part of a block that ran when its instruction at `ip` faulted, for an execution with these address words: the
/// instructions and references before it, and their address words. Empty if it was the first.
pub fn before(block: &Block, words: &[u64], ip: u64) -> (Block, Vec<u64>) {
    let ran = block.instrs.iter().position(|i| i.pc == ip).unwrap_or(0);
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
