//! How the entries of an array are arranged, and which of them may hold a page.

use farreach_types::params::Params;
use std::ops::Range;

/// The function from a page to its set. A page here is the group of pages that a tag covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) enum SetFunction {
    /// The lowest bits of the page number, as many as sets need.
    LowBits,
    /// The XOR of all pieces of the page number, each as long as a set number. Pages at any stride of a power of two
    /// spread.
    Folded,
    /// Another set in each way (Seznec, ISCA 1993): pages that share a set in one way mostly do not in the others. In
    /// way 0 it is the lowest piece XOR the fold of all other pieces, so as [`SetFunction::Folded`]. In each further
    /// way the fold is replaced by its image: shifted to the right by one bit, and the highest bit becomes the XOR of
    /// what were highest and lowest. A single bit is its own image, so with two sets all ways are alike. Images repeat:
    /// with four sets, every third way is alike.
    Skewed,
}

/// Bits that two arrays look at in common.
pub(in crate::tlb) fn common(one: Range<u32>, other: Range<u32>) -> Result<Range<u32>, String> {
    let both = one.start.max(other.start)..one.end.min(other.end);
    if both.is_empty() {
        return Err(format!(
            "two of its arrays choose sets by bits of the page number that have none in common, {} to {} and {} to {}",
            one.start,
            one.end - 1,
            other.start,
            other.end - 1
        ));
    }
    Ok(both)
}

/// All bits of a page number: of a part that has no array.
pub(in crate::tlb) const ALL_BITS: Range<u32> = 0..64;

/// Entries arranged in sets. Slot numbers are `set * ways + way`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) struct Geometry {
    /// Number of sets, a power of two; 1 is fully associative.
    pub sets: usize,
    /// Entries per set.
    pub ways: usize,
    /// The set function.
    pub function: SetFunction,
}

impl Geometry {
    /// Fully associative.
    pub fn one_set(entries: usize) -> Geometry {
        Geometry { sets: 1, ways: entries, function: SetFunction::LowBits }
    }

    /// `ways` 0 stands for full associativity.
    pub fn new(entries: u64, ways: u64) -> Result<Geometry, String> {
        if ways == 0 {
            return Ok(Geometry::one_set(entries as usize));
        }
        if !entries.is_multiple_of(ways) {
            return Err(format!("ways = {ways} is not allowed: entries ({entries}) must be a multiple of ways"));
        }
        let sets = entries / ways;
        if !sets.is_power_of_two() {
            return Err(format!(
                "ways = {ways} is not allowed: entries / ways is {sets} sets, the number of sets must be a power of two"
            ));
        }
        Ok(Geometry { sets: sets as usize, ways: ways as usize, function: SetFunction::LowBits })
    }

    /// From the keys `entries` and `ways`.
    pub fn of(params: &Params) -> Result<Geometry, String> {
        Geometry::new(params.int("entries"), params.int("ways"))
    }

    /// All entries.
    pub fn entries(&self) -> usize {
        self.sets * self.ways
    }
    /// The same with another function.
    pub fn with(self, function: SetFunction) -> Geometry {
        Geometry { function, ..self }
    }

    /// The bits of the base page number that choose the set of an entry for `2^order` pages: see
    /// [`set_bits`](crate::tlb::Capabilities::set_bits).
    pub fn set_bits(&self, order: u8) -> Result<Range<u32>, String> {
        match (self.sets, self.function) {
            (1, _) => Err(format!("its array of {} entries is fully associative", self.entries())),
            (_, SetFunction::LowBits) => Ok(order.into()..u32::from(order) + self.sets.trailing_zeros()),
            _ => Err("its sets are chosen by a hash of the page number".into()),
        }
    }

    /// The set of a page, in all ways.
    #[inline(always)]
    pub fn set(&self, page: u64) -> usize {
        debug_assert_ne!(self.function, SetFunction::Skewed, "each way has a set of its own");
        if self.function == SetFunction::Folded { self.folded(page) } else { page as usize & (self.sets - 1) }
    }

    /// The slots that may hold a page, by way. For skewed sets.
    pub fn skewed_slots(&self, page: u64) -> impl Iterator<Item = u32> + use<> {
        let Geometry { sets, ways, .. } = *self;
        let bits = sets.trailing_zeros();
        let low = page as usize & (sets - 1);
        let image = move |x: &usize| Some(if bits < 2 { *x } else { x >> 1 | (x >> (bits - 1) ^ x & 1) << (bits - 1) });
        let images = std::iter::successors(Some(low ^ self.folded(page)), image);
        images.take(ways).enumerate().map(move |(way, image)| ((low ^ image) * ways + way) as u32)
    }

    /// See [`SetFunction::Folded`].
    fn folded(&self, page: u64) -> usize {
        let bits = self.sets.trailing_zeros();
        if bits == 0 {
            return 0;
        }
        let rest = |piece: &u64| piece.checked_shr(bits).filter(|&rest| rest != 0);
        std::iter::successors(Some(page), rest).fold(0, |fold, piece| fold ^ piece as usize) & (self.sets - 1)
    }
}
