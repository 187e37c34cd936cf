//! Properties that must hold for any words in a chunk. The fuzzer `live` of `fuzz/` calls this; a panic is a finding.

use super::counts::Counts;
use super::decode::Decoder;
use farreach_types::addr::Asid;
use farreach_types::event::{Blocks, End, Item, Kind};

/// Two chunks of a program, then as those of a whole system: each refused, or batches that can be expanded into as many
/// references as were counted. The first byte says where the second begins and whether its writer died.
#[doc(hidden)]
pub fn chunks(data: &[u8]) {
    let Some((&head, data)) = data.split_first() else { return };
    let words: Vec<u64> = data.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("eight"))).collect();
    let (first, second) = words.split_at(usize::from(head >> 1).min(words.len()));
    two(Decoder::default(), head, first, second);
    two(Decoder::of_system(), head, first, second);
}

fn two(mut decoder: Decoder, head: u8, first: &[u64], second: &[u64]) {
    let mut blocks = Blocks::default();
    for (words, torn) in [(first, false), (second, head & 1 != 0)] {
        let Ok(decoded) = decoder.decode(Asid(0), words.to_vec(), torn) else { return };
        let mut seen = Counts::default();
        let mut each = |item: Item<'_>| {
            if let Item::Access(a) = item {
                *match a.kind {
                    Kind::Fetch => &mut seen.instructions,
                    Kind::Load => &mut seen.loads,
                    Kind::Store => &mut seen.stores,
                } += 1;
            }
            true
        };
        let batches = decoded.before.iter().chain([&decoded.batch]);
        batches.for_each(|batch| blocks.expand(batch, &mut each).expect("what was decoded can be expanded"));
        assert_eq!(seen.instructions + decoded.cut.instructions, decoded.counts.instructions);
        // References whose condition was false are counted and do not appear.
        assert!(
            seen.loads + decoded.cut.loads <= decoded.counts.loads
                && seen.stores + decoded.cut.stores <= decoded.counts.stores
        );
    }
    assert!(decoder.ends(Asid(0), End::Lost).iter().all(|batch| batch.ops.len() == 1));
}
