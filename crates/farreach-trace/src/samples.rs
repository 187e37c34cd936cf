//! What samples say of a program: which pages it uses, and how often.

use hashbrown::HashMap;
use serde::Serialize;

use farreach_types::addr::Asid;
use farreach_types::error::Result;
use farreach_types::event::{Batch, Blocks, Item, Op, Source};

/// A base page.
const PAGE_SHIFT: u32 = 12;
/// From a base page to one of 2 MB.
const LARGE_SHIFT: u32 = 21 - PAGE_SHIFT;
/// Pages that are named.
const MOST: usize = 5;

/// The pages of samples.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Sampled {
    /// Pages of 4 KB with a sample, of all address spaces.
    pub pages: u64,
    /// Pages of 2 MB with a sample.
    pub pages_2m: u64,
    /// The pages of 4 KB with most samples, those first.
    pub most: Vec<Hot>,
}

/// A page of 4 KB, and its samples.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Hot {
    /// Address space.
    pub space: u32,
    /// Its first address.
    pub start: u64,
    /// How many samples are in it.
    pub samples: u64,
}

/// A source that is passed on, with the pages counted if it is one of samples.
pub(crate) struct Counted<S> {
    source: S,
    blocks: Blocks,
    /// `None` until the mark of samples was seen.
    pages: Option<HashMap<(Asid, u64), u64>>,
}

impl<S: Source> Counted<S> {
    pub fn new(source: S) -> Counted<S> {
        Counted { source, blocks: Blocks::default(), pages: None }
    }

    /// What was counted; `None` for what is no stream of samples.
    pub fn pages(self) -> Option<Sampled> {
        let mut all: Vec<_> = self.pages?.into_iter().collect();
        let pages = all.len() as u64;
        let mut large: Vec<_> = all.iter().map(|&((space, page), _)| (space, page >> LARGE_SHIFT)).collect();
        large.sort_unstable();
        large.dedup();
        all.sort_unstable_by_key(|&(page, samples)| (std::cmp::Reverse(samples), page));
        let hot =
            |&((space, page), samples): &((Asid, u64), u64)| Hot { space: space.0, start: page << PAGE_SHIFT, samples };
        Some(Sampled { pages, pages_2m: large.len() as u64, most: all.iter().take(MOST).map(hot).collect() })
    }
}

impl<S: Source> Source for Counted<S> {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        let batch = self.source.next_batch()?;
        let Some(batch) = batch else { return Ok(None) };
        if self.pages.is_none() && batch.ops.contains(&Op::Samples) {
            self.pages = Some(HashMap::new());
        }
        if let Some(pages) = &mut self.pages {
            // What is wrong with it is found by who gets it.
            let _ = self.blocks.expand(&batch, |item| {
                if let Item::Access(access) = item {
                    *pages.entry((batch.asid, access.addr >> PAGE_SHIFT)).or_default() += 1;
                }
                true
            });
        }
        Ok(Some(batch))
    }
}
