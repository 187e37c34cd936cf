//! The memory of a process that may lie in a direct segment (DS13-10 to DS13-14).

use crate::labels::HEAP;
use crate::os::Os;
use crate::placement::contract::SegmentPolicy;
use crate::region::Region;
use farreach_types::addr::{Asid, VpnRange};
use farreach_types::event::Prot;
use std::sync::Arc;

/// A piece of address space that may be a primary region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// Its pages.
    pub range: VpnRange,
    /// Number of pages in its regions.
    pub pages: u64,
    /// It begins with the heap, which grows upwards; other memory mostly grows downwards.
    pub heap: bool,
}

impl Os {
    /// Whether a region may lie in a segment (DS13-12).
    fn eligible(&self, region: &Region, primary: &SegmentPolicy) -> bool {
        let object = self.memory.objects.get(region.object);
        let stack = self.labels.is_stack_or_kernel(region.label);
        let memory = !object.kind.is_file() && object.private && region.prot == Prot::RW && !stack;
        memory && (!primary.heap_only || self.labels.name(region.label) == HEAP) && region.range.pages >= primary.least
    }

    /// Pieces of address space that hold eligible regions only. With eager provisioning a piece is at most as large as
    /// the memory set aside (DS13-11), so regions further apart are in different pieces.
    pub(super) fn spans(&self, asid: Asid, primary: &SegmentPolicy) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut open = false;
        let reserved = self.memory.pool.frames();
        for region in self.spaces[asid.0 as usize].regions.iter() {
            if !self.eligible(region, primary) {
                open = false;
                continue;
            }
            match spans.last_mut() {
                Some(span)
                    if open
                        && (span.range.end() == region.range.start
                            || primary.eager && region.range.end().0 - span.range.start.0 <= reserved) =>
                {
                    span.range = VpnRange::between(span.range.start, region.range.end());
                    span.pages += region.range.pages;
                }
                _ => {
                    let heap = self.labels.name(region.label) == HEAP;
                    spans.push(Span { range: region.range, pages: region.range.pages, heap });
                }
            }
            open = true;
        }
        spans
    }

    /// Whether the process gets a segment (DS13-14).
    pub(super) fn admitted(&self, asid: Asid, span: &Span, primary: &SegmentPolicy) -> bool {
        let space = &self.spaces[asid.0 as usize];
        let named = |program: &Arc<str>| {
            let name = program.rsplit('/').next().unwrap_or(program);
            primary.programs.iter().any(|p| **p == **program || p == name)
        };
        let wanted = if primary.programs.is_empty() {
            span.pages >= primary.admit.max(1)
        } else {
            space.program.as_ref().is_some_and(named)
        };
        wanted && space.paged_until_exit_of.is_empty()
    }

    /// The protection statistic (DS13-34).
    pub(super) fn sample(&mut self, asid: Asid, primary: &SegmentPolicy) {
        let all = SegmentPolicy { heap_only: false, least: 0, ..primary.clone() };
        let regions = &self.spaces[asid.0 as usize].regions;
        let eligible = regions.iter().filter(|r| self.eligible(r, &all)).map(|r| r.range.pages).sum::<u64>();
        self.segments.used.mapped_page_samples += regions.pages();
        self.segments.used.read_write_page_samples += eligible;
    }
}
