//! Which memory of which process may lie in a direct segment (DS13-10 to DS13-14).

use crate::Os;
use crate::region::Region;
use farreach_types::addr::{Asid, VpnRange};
use farreach_types::event::Prot;
use std::sync::Arc;

/// What fork does to a segment (AMB-64).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFork {
    /// Back to pages, shared until the first store; no segment until the child has ended.
    Revert,
    /// The segment stays, the child gets copies of its pages.
    Copy,
}

/// Which memory of which programs segments are for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Primary {
    /// Holes between regions belong to the primary region, up to the size of the memory set aside (DS13-11).
    pub eager: bool,
    /// Only the heap is eligible; otherwise all private anonymous read-write memory but stacks (DS13-12).
    pub heap_only: bool,
    /// Pages that an eligible region has at least.
    pub least: u64,
    /// Paths or file names of programs that get one; none: whoever has `admit` pages (DS13-14).
    pub programs: Vec<String>,
    /// Pages of a primary region from which it gets a segment.
    pub admit: u64,
    /// Faults map the pages that the registers would give (DS13-25).
    pub emulation: bool,
    /// On fork.
    pub on_fork: OnFork,
    /// Unused memory of segments serves others when memory is full.
    pub lend: bool,
}

/// A piece of address space that may be a primary region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// Where.
    pub range: VpnRange,
    /// Pages of its regions.
    pub pages: u64,
    /// It begins with the heap, which grows upwards; other memory mostly grows downwards.
    pub heap: bool,
}

impl Os {
    /// DS13-12.
    fn eligible(&self, region: &Region, primary: &Primary) -> bool {
        let object = self.memory.objects.get(region.object);
        let label = &*self.labels.names[region.label as usize];
        let stack = ["stack", "kernel-provided"].contains(&label);
        let memory = !object.kind.is_file() && object.private && region.prot == Prot::RW && !stack;
        memory && (!primary.heap_only || label == "heap") && region.range.pages >= primary.least
    }

    /// Pieces of address space that hold eligible regions only. Address space reserved ahead is as large as the memory set aside
    /// (DS13-11): regions that lie further apart are in no piece together.
    pub(super) fn spans(&self, asid: Asid, primary: &Primary) -> Vec<Span> {
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
                    let heap = &*self.labels.names[region.label as usize] == "heap";
                    spans.push(Span { range: region.range, pages: region.range.pages, heap });
                }
            }
            open = true;
        }
        spans
    }

    /// DS13-14.
    pub(super) fn admitted(&self, asid: Asid, span: &Span, primary: &Primary) -> bool {
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
        wanted && space.paged_for.is_empty()
    }

    /// The protection statistic (DS13-34).
    pub(super) fn sample(&mut self, asid: Asid, primary: &Primary) {
        let all = Primary { heap_only: false, least: 0, ..primary.clone() };
        let regions = &self.spaces[asid.0 as usize].regions;
        let eligible = regions.iter().filter(|r| self.eligible(r, &all)).map(|r| r.range.pages).sum::<u64>();
        self.segments.used.mapped_page_samples += regions.pages();
        self.segments.used.read_write_page_samples += eligible;
    }
}
