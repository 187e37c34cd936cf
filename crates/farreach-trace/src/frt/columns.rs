//! The columns of a chunk while it is written.

use super::COLUMNS;

/// A vector of bytes that is enlarged before it is written.
#[derive(Default)]
pub(crate) struct Column {
    bytes: Vec<u8>,
    used: usize,
}

impl Column {
    /// The next `most` bytes, with undefined contents.
    #[inline(always)]
    pub fn room(&mut self, most: usize) -> &mut [u8] {
        let end = self.used + most;
        if end > self.bytes.len() {
            self.grow(end);
        }
        &mut self.bytes[self.used..end]
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.resize(2 * end.max(1 << 12), 0);
    }

    /// Keeps the first `n` bytes of the room.
    #[inline(always)]
    pub fn advance(&mut self, n: usize) {
        self.used += n;
    }

    fn written(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    #[inline(always)]
    pub fn push(&mut self, byte: u8) {
        self.room(1)[0] = byte;
        self.advance(1);
    }
}

/// `docs/book/src/reference/trace-format.md` describes each.
#[derive(Default)]
pub(crate) struct Columns {
    pub ops: Vec<u8>,
    pub steps: Column,
    pub targets: Vec<u8>,
    pub codes: Column,
    pub data: Column,
}

impl Columns {
    /// Empties them; they keep their memory.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.targets.clear();
        for column in [&mut self.steps, &mut self.codes, &mut self.data] {
            column.used = 0;
        }
    }

    /// Their bytes, in file order.
    pub fn bytes(&self) -> [&[u8]; COLUMNS] {
        [&self.ops, self.steps.written(), &self.targets, self.codes.written(), self.data.written()]
    }
}
