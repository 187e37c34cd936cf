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

/// A pair of instructions that cannot do what it was meant to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LatchError {
    /// The datum came before any tag.
    NoTag,
    /// A second tag came before the datum of the first.
    Interrupted,
}

/// The latch between SPECIFYVTAG and LOAD&MAP. The tag must arrive before the datum, and no pair may come inside another, unless the
/// intruder saves and restores the latch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latch {
    label: Option<Label>,
    armed: bool,
    guarded: bool,
}

impl Latch {
    /// Hardware that refuses wrong sequences.
    pub const GUARDED: Latch = Latch { label: None, armed: false, guarded: true };
    /// Hardware without the check: the last tag counts, whoever set it.
    pub const NAIVE: Latch = Latch { label: None, armed: false, guarded: false };

    /// SPECIFYVTAG (SV97-5).
    pub fn specify(&mut self, tag: u64, attr: Attr) -> Result<(), LatchError> {
        if self.guarded && self.armed {
            return Err(LatchError::Interrupted);
        }
        (self.label, self.armed) = (Some(Label { tag, attr }), true);
        Ok(())
    }

    /// LOAD&MAP (SV97-6): the label that the datum gets.
    pub fn load_and_map(&mut self) -> Result<Label, LatchError> {
        if self.guarded && !self.armed {
            return Err(LatchError::NoTag);
        }
        self.armed = false;
        self.label.ok_or(LatchError::NoTag)
    }

    /// Saves the latch for an interrupt handler with a pair of its own; the latch is empty then.
    pub fn save(&mut self) -> Latch {
        let saved = *self;
        (self.label, self.armed) = (None, false);
        saved
    }

    /// Restores the latch at the end of the handler.
    pub fn restore(&mut self, saved: Latch) {
        *self = saved;
    }
}
