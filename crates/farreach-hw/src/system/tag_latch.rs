//! The two privileged instructions (SV97-5 to SV97-7).

use farreach_types::translation::Attr;

/// What SPECIFYVTAG latches: the tag and attributes of the next datum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// Line number of the virtual address: everything above the line offset.
    pub tag: u64,
    /// Protection bits from the page table entry.
    pub attr: Attr,
}

/// An invalid sequence of the two instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TagLatchError {
    /// The datum came before any tag.
    NoTag,
    /// A second tag came before the datum of the first.
    Interrupted,
}

/// The latch between SPECIFYVTAG and LOAD&MAP. The tag must arrive before the datum, and no pair may come inside
/// another, unless the inner one saves and restores the latch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagLatch {
    label: Option<Label>,
    armed: bool,
    guarded: bool,
}

impl TagLatch {
    /// Hardware that refuses wrong sequences.
    pub const GUARDED: TagLatch = TagLatch { label: None, armed: false, guarded: true };
    /// Hardware without the check: the last tag counts, even if it is of another pair.
    pub const NAIVE: TagLatch = TagLatch { label: None, armed: false, guarded: false };

    /// SPECIFYVTAG (SV97-5).
    pub fn specify(&mut self, tag: u64, attr: Attr) -> Result<(), TagLatchError> {
        if self.guarded && self.armed {
            return Err(TagLatchError::Interrupted);
        }
        (self.label, self.armed) = (Some(Label { tag, attr }), true);
        Ok(())
    }

    /// LOAD&MAP (SV97-6): the label that the datum gets.
    pub fn load_and_map(&mut self) -> Result<Label, TagLatchError> {
        if self.guarded && !self.armed {
            return Err(TagLatchError::NoTag);
        }
        self.armed = false;
        self.label.ok_or(TagLatchError::NoTag)
    }

    /// Saves the latch for an interrupt handler with a pair of its own; the latch is empty then.
    pub fn save(&mut self) -> TagLatch {
        let saved = *self;
        (self.label, self.armed) = (None, false);
        saved
    }

    /// Restores the latch at the end of the handler.
    pub fn restore(&mut self, saved: TagLatch) {
        *self = saved;
    }
}
