//! How full the 2 MB blocks are that transparent huge pages could map, and what they would add.

use super::page_set::{BLOCK, PageSet};
use farreach_types::counts::{BlockFill, HugePages};
use std::ops::Range;

const PAGES: u64 = 1 << BLOCK;
const PAGE_BYTES: u64 = 4096;
/// Classes of fullness: eighths that are not full, and full.
const CLASSES: usize = 9;

/// Blocks by how many of their pages are present, and what huge pages would do. `mappings`: those that transparent huge
/// pages can serve. `used`: pages used while watched, if it is known which. `huge_bytes`: what is in huge pages now.
pub fn fullness(
    present: &PageSet,
    used: Option<&PageSet>,
    mappings: &[Range<u64>],
    huge_bytes: u64,
) -> (Vec<BlockFill>, HugePages) {
    let mut classes: Vec<BlockFill> = (0..CLASSES as u64)
        .map(|class| BlockFill {
            from_pages: if class == 8 { PAGES } else { class * 64 + 1 },
            to_pages: if class == 8 { PAGES } else { (class * 64 + 64).min(PAGES - 1) },
            blocks: 0,
            present_bytes: 0,
            used_bytes: used.map(|_| 0),
        })
        .collect();
    let mut huge = HugePages { now_bytes: huge_bytes, ..HugePages::default() };
    for mapping in mappings {
        // A huge page fits only where a whole aligned block lies in one mapping.
        let inside = mapping.start.next_multiple_of(PAGES)..mapping.end / PAGES * PAGES;
        let inside = inside.start..inside.end.max(inside.start);
        for (block, pages) in present.blocks_in(&inside) {
            let class = &mut classes[(pages as usize - 1) / 64 + usize::from(pages == PAGES)];
            class.blocks += 1;
            class.present_bytes += pages * PAGE_BYTES;
            if let (Some(sum), Some(used)) = (&mut class.used_bytes, used) {
                *sum += used.count(&(block * PAGES..(block + 1) * PAGES)) * PAGE_BYTES;
            }
            huge.possible_blocks += 1;
            huge.possible_present_bytes += pages * PAGE_BYTES;
            huge.would_add_bytes += (PAGES - pages) * PAGE_BYTES;
        }
        huge.too_small_bytes += (present.count(mapping) - present.count(&inside)) * PAGE_BYTES;
    }
    (classes, huge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_by_hand() {
        // A mapping from the middle of block 0 to the middle of block 4: blocks 1, 2 and 3 are whole. Block 1 is full,
        // block 2 has 64 pages, block 3 none; 6 present pages are at the edges. Another mapping is smaller than a
        // block.
        let mapping = 256..4 * 512 + 256;
        let present: PageSet = [510..512, 512..1024, 1024..1088, 2048..2052, 9000..9100].into_iter().collect();
        let used: PageSet = [600..700, 1024..1025].into_iter().collect();
        let (classes, huge) = fullness(&present, Some(&used), &[mapping.clone(), 9000..9100], 7);
        let some: Vec<_> =
            classes.iter().filter(|c| c.blocks > 0).map(|c| (c.from_pages, c.to_pages, c.blocks)).collect();
        assert_eq!(some, [(1, 64, 1), (512, 512, 1)]);
        assert_eq!((classes[0].present_bytes, classes[0].used_bytes), (64 * 4096, Some(4096)));
        assert_eq!((classes[8].present_bytes, classes[8].used_bytes), (512 * 4096, Some(100 * 4096)));
        assert_eq!((huge.now_bytes, huge.possible_blocks, huge.too_small_bytes), (7, 2, 106 * 4096));
        assert_eq!((huge.possible_present_bytes, huge.would_add_bytes), (576 * 4096, 448 * 4096));
        assert_eq!(fullness(&present, None, &[mapping], 0).0[0].used_bytes, None);
    }

    #[test]
    fn the_classes_are_every_number_of_pages_once() {
        let (classes, _) = fullness(&PageSet::default(), None, &[], 0);
        let numbers: Vec<u64> = classes.iter().flat_map(|c| c.from_pages..=c.to_pages).collect();
        assert_eq!(numbers, (1..=512).collect::<Vec<_>>());
        for pages in 1..=512 {
            let set: PageSet = [0..pages].into_iter().collect();
            let (classes, _) = fullness(&set, None, &[0..512], 0);
            let of: Vec<_> = classes.iter().filter(|c| c.blocks == 1).collect();
            assert!(of.len() == 1 && (of[0].from_pages..=of[0].to_pages).contains(&pages), "{pages}: {of:?}");
        }
    }
}
