//! Addresses, page numbers and page sizes.
//!
//! Virtual and physical numbers are different types, so that mixing them up is a compile error; the raw integer comes
//! out only by an explicit `.0`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// log2 of the page size of the stream, 4 KB (T94-1): recorded mappings are multiples of it, and it is the base page of
/// most machines. Page numbers of a machine with a larger base page ([`crate::params::PAGE_SIZE`]) count its own pages.
pub const BASE_SHIFT: u32 = 12;

/// The addresses at which Linux on x86-64 maps all physical memory in one piece, in every address space (F-2, DS13-43).
pub const DIRECT_MAP: std::ops::Range<u64> = 0xffff_8880_0000_0000..0xffff_c880_0000_0000;

/// First byte of the area in which the same kernel maps memory page by page (vmalloc).
pub const VARIABLE_MAPPINGS: u64 = 0xffff_c900_0000_0000;

/// A virtual page number: virtual address div base page size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Vpn(pub u64);

/// A physical page (frame) number: physical address div base page size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Pfn(pub u64);

/// The number of an address space, dense in the order in which the trace starts them. An exec begins a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Asid(pub u32);

/// The address space of the upper half of all address spaces of a whole system ([`kernel_half`]).
pub const KERNEL: Asid = Asid(0);

/// Bits of a virtual address in the stream of a whole system. Those above are copies of the last one, and left out.
pub const GUEST_ADDRESS_BITS: u32 = 57;

/// Whether a 4 KB page is in the upper half of the addresses of a whole system, which belongs to its kernel. No page of
/// another stream is.
#[inline(always)]
pub const fn kernel_half(vpn: u64) -> bool {
    vpn >> (GUEST_ADDRESS_BITS - 1 - BASE_SHIFT) == 1
}

/// The address space that has a 4 KB page, where `asid` runs.
#[inline(always)]
pub const fn owner(asid: Asid, vpn: u64) -> Asid {
    if kernel_half(vpn) { KERNEL } else { asid }
}

impl Vpn {
    /// The aligned group of `2^order` pages this page lies in.
    #[inline]
    pub fn group(self, order: u32) -> u64 {
        self.0 >> order
    }
    /// First page of the aligned group of `2^order` pages.
    #[inline]
    pub fn align_down(self, order: u32) -> Vpn {
        Vpn(self.0 >> order << order)
    }
    /// Position inside the aligned group of `2^order` pages.
    #[inline]
    pub fn offset_in(self, order: u32) -> u64 {
        self.0 & ((1 << order) - 1)
    }
}

impl Pfn {
    /// First frame of the aligned group of `2^order` frames.
    #[inline]
    pub fn align_down(self, order: u32) -> Pfn {
        Pfn(self.0 >> order << order)
    }
    /// Position inside the aligned group of `2^order` frames.
    #[inline]
    pub fn offset_in(self, order: u32) -> u64 {
        self.0 & ((1 << order) - 1)
    }
}

/// `pages` virtual pages beginning at `start`. Half open; may be empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct VpnRange {
    /// First page.
    pub start: Vpn,
    /// Number of pages.
    pub pages: u64,
}

impl VpnRange {
    /// Every page of an address space.
    pub const ALL: VpnRange = VpnRange { start: Vpn(0), pages: 1 << (64 - BASE_SHIFT) };

    /// The range from `start` (inclusive) to `end` (exclusive); empty when `end <= start`.
    pub fn between(start: Vpn, end: Vpn) -> VpnRange {
        VpnRange { start, pages: end.0.saturating_sub(start.0) }
    }
    /// A single page.
    pub fn one(vpn: Vpn) -> VpnRange {
        VpnRange { start: vpn, pages: 1 }
    }
    /// The pages that the bytes `[addr, addr+len)` touch, for base pages of `2^shift` bytes.
    pub fn of_bytes(addr: u64, len: u64, shift: u32) -> VpnRange {
        if len == 0 {
            return VpnRange { start: Vpn(addr >> shift), pages: 0 };
        }
        let last = addr.saturating_add(len - 1) >> shift;
        VpnRange { start: Vpn(addr >> shift), pages: last - (addr >> shift) + 1 }
    }
    /// One past the last page.
    #[inline]
    pub fn end(&self) -> Vpn {
        Vpn(self.start.0 + self.pages)
    }
    /// Whether `vpn` lies inside.
    #[inline]
    pub fn contains(&self, vpn: Vpn) -> bool {
        vpn.0.wrapping_sub(self.start.0) < self.pages
    }
    /// The pages in both.
    pub fn and(&self, other: VpnRange) -> VpnRange {
        VpnRange::between(self.start.max(other.start), self.end().min(other.end()))
    }
    /// Whether the two ranges share a page.
    pub fn overlaps(&self, other: &VpnRange) -> bool {
        self.start.max(other.start) < self.end().min(other.end())
    }
    /// The same in pages `2^k` times smaller.
    #[inline]
    pub fn finer(&self, k: u32) -> VpnRange {
        VpnRange { start: Vpn(self.start.0 << k), pages: self.pages << k }
    }
    /// All pages in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Vpn> + use<> {
        (self.start.0..self.start.0 + self.pages).map(Vpn)
    }
}

/// A number of bytes, written `4K`, `64K`, `2M`, `1G` (binary units) or as a plain integer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        for (unit, shift) in [("T", 40), ("G", 30), ("M", 20), ("K", 10)] {
            if n >= 1 << shift && n.is_multiple_of(1 << shift) {
                return write!(f, "{}{unit}", n >> shift);
            }
        }
        write!(f, "{n}")
    }
}

impl FromStr for Bytes {
    type Err = String;
    fn from_str(text: &str) -> Result<Bytes, String> {
        let t = text.trim();
        let t = t.strip_suffix("iB").or_else(|| t.strip_suffix(['B', 'b'])).unwrap_or(t);
        let (digits, shift) = match t.chars().last() {
            Some('k' | 'K') => (&t[..t.len() - 1], 10),
            Some('m' | 'M') => (&t[..t.len() - 1], 20),
            Some('g' | 'G') => (&t[..t.len() - 1], 30),
            Some('t' | 'T') => (&t[..t.len() - 1], 40),
            _ => (t, 0),
        };
        let n: u64 = digits.trim().parse().map_err(|_| {
            format!("'{text}' is not a size; write bytes or a binary unit, such as 4096, 4K, 64K, 2M, 1G")
        })?;
        n.checked_mul(1 << shift).map(Bytes).ok_or_else(|| format!("'{text}' does not fit in 64 bits"))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(u64),
            Text(String),
        }
        match Raw::deserialize(d)? {
            Raw::Number(n) => Ok(Bytes(n)),
            Raw::Text(t) => t.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_print_alike() {
        for (text, n) in [("4K", 4096), ("64k", 65536), ("2M", 2 << 20), ("1G", 1 << 30), ("4097", 4097), ("0", 0)] {
            assert_eq!(text.parse::<Bytes>(), Ok(Bytes(n)), "{text}");
            assert_eq!(Bytes(n).to_string().parse::<Bytes>(), Ok(Bytes(n)));
        }
        for bad in ["", "K", "4X", "-1", "99999999999T", "4 4K"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn pages_of_a_byte_range() {
        assert_eq!(VpnRange::of_bytes(0x1ffc, 8, 12), VpnRange { start: Vpn(1), pages: 2 });
        assert_eq!(VpnRange::of_bytes(0x1000, 4096, 12).pages, 1);
        assert_eq!(VpnRange::of_bytes(0x1000, 0, 12).pages, 0);
        assert_eq!(VpnRange::of_bytes(u64::MAX, 8, 12).pages, 1);
    }

    #[test]
    fn an_empty_range_overlaps_nothing() {
        let range = |start, pages| VpnRange { start: Vpn(start), pages };
        assert!(range(2, 4).overlaps(&range(5, 1)) && !range(2, 4).overlaps(&range(6, 1)));
        assert!(!range(2, 4).overlaps(&range(3, 0)) && !range(3, 0).overlaps(&range(2, 4)));
    }
}
