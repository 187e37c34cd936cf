//! The hash of tables and segments that hardware and the operating system must agree on (HW-11).

/// Mixes the bits of a number, `seed` being the number of the hash.
#[inline]
pub fn mix(x: u64, seed: u64) -> u64 {
    let mut z = x.wrapping_add(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
