//! Random numbers for replacement: from a good generator, or from the shift register that hardware has.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A source of them. One draw per victim and none besides, so that an oracle can follow.
pub(in crate::tlb) enum Numbers {
    /// Uniform: `(next_u32 * n) >> 32`.
    Generator(Pcg64Mcg),
    /// See [`Lfsr`].
    Lfsr(Lfsr),
}

impl Numbers {
    /// By the name of the policy, `random` or `lfsr`.
    pub fn new(name: &str, seed: u64) -> Option<Numbers> {
        match name {
            "random" => Some(Numbers::Generator(Pcg64Mcg::seed_from_u64(seed))),
            "lfsr" => Some(Numbers::Lfsr(Lfsr(lfsr_state(seed)))),
            _ => None,
        }
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        match self {
            Numbers::Generator(rng) => ((u64::from(rng.next_u32()) * u64::from(n)) >> 32) as u32,
            Numbers::Lfsr(register) => ((u64::from(register.draw()) * u64::from(n)) >> 16) as u32,
        }
    }
}

/// A shift register of 16 bits with linear feedback, `x^16 + x^14 + x^13 + x^11 + 1`, never 0. It steps sixteen times
/// after each number, so that nothing of the last number is left in the next. `rtl/lfsr.sv` is the same register.
pub(in crate::tlb) struct Lfsr(u16);

impl Lfsr {
    fn draw(&mut self) -> u16 {
        let number = self.0;
        for _ in 0..u16::BITS {
            let feedback = if self.0 & 1 != 0 { 0xb400 } else { 0 };
            self.0 = self.0 >> 1 ^ feedback;
        }
        number
    }
}

/// What the register of an array with this seed holds at first.
pub fn lfsr_state(seed: u64) -> u16 {
    match 0xace1 ^ seed as u16 {
        0 => 0xace1,
        state => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The polynomial is primitive: all states but 0, each once. Sixteen steps at a time they still are, for 16 and
    /// 2^16 - 1 have no common divisor.
    #[test]
    fn the_register_goes_through_all_states() {
        let mut register = Lfsr(lfsr_state(0));
        let mut seen = vec![false; 1 << 16];
        for _ in 0..u16::MAX {
            let number = register.draw();
            assert!(number != 0 && !std::mem::replace(&mut seen[usize::from(number)], true), "{number}");
        }
        assert_eq!(register.0, lfsr_state(0));
        assert_eq!(lfsr_state(0xace1), 0xace1, "never 0");
    }
}
