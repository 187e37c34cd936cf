//! Where a referenced byte lies now.

use super::*;

impl Space {
    pub(super) fn find(&self, addr: u64) -> Option<&Piece> {
        self.pieces.range(..=addr).next_back().map(|(_, p)| p).filter(|p| addr < p.end)
    }

    pub(super) fn delta(&self, piece: &Piece) -> u64 {
        self.clusters[piece.cluster].expect("mapped clusters live").delta
    }

    /// The new address of a byte.
    pub(super) fn byte(&self, addr: u64) -> std::result::Result<u64, String> {
        match self.find(addr) {
            Some(piece) => Ok(addr.wrapping_add(self.delta(piece))),
            None => self.unmoved(addr),
        }
    }

    /// An address outside all mappings is unchanged; an error if a relocated mapping lies there.
    pub(super) fn unmoved(&self, addr: u64) -> std::result::Result<u64, String> {
        let hit = |p: &Slot| p.taken && (p.start..p.end).contains(&addr);
        if addr >= AREA && (self.places.iter().any(hit) || self.stacked.has(addr)) {
            return Err(format!("the address {addr:#x} is not mapped, and lies where a mapping was moved to"));
        }
        Ok(addr)
    }

    /// The new address of a reference.
    #[inline]
    pub(super) fn reference(&mut self, r: DataRef, addr: u64) -> std::result::Result<u64, String> {
        if addr == NOT_EXECUTED {
            return Ok(addr);
        }
        let page = addr >> BASE_SHIFT;
        let slot = (page ^ page >> 10) as usize % RECENT;
        match self.recent.0.get(slot) {
            Some(&(p, generation, delta))
                if p == page && generation == self.generation && (addr & (PAGE - 1)) + u64::from(r.size) <= PAGE =>
            {
                Ok(addr.wrapping_add(delta))
            }
            _ => {
                let new = self.moved(addr, r.size, "reference")?;
                if self.recent.0.is_empty() {
                    self.recent.0 = vec![(u64::MAX, 0, 0); RECENT].into();
                }
                self.recent.0[slot] = (page, self.generation, new.wrapping_sub(addr));
                Ok(new)
            }
        }
    }

    /// The new address of `size` bytes that are referenced.
    pub(super) fn moved(&mut self, addr: u64, size: u32, what: &str) -> std::result::Result<u64, String> {
        let last = addr
            .checked_add(u64::from(size) - 1)
            .ok_or_else(|| format!("{size} bytes at {addr:#x} reach past 2^64"))?;
        let new = self.byte(addr)?;
        for page in addr >> BASE_SHIFT..=last >> BASE_SHIFT {
            let byte = addr.max(page << BASE_SHIFT);
            if self.find(byte).is_none() {
                self.wild.insert(page);
            }
            if self.byte(byte)? != new.wrapping_add(byte - addr) {
                return Err(format!(
                    "the {what} of {size} bytes at {addr:#x} begins in one mapping and ends in another"
                ));
            }
        }
        Ok(new)
    }
}
