//! Inputs from a seed: the same bytes on every machine, of about the size that is asked for.

mod biology;
mod circuits;
mod code;
mod language;
mod numbers;

use std::io::{self, Write};

use farreach_kernels::Rng;

/// Writes about this many bytes.
type Make = fn(&mut dyn Write, u64, &mut Rng) -> io::Result<()>;

/// One kind of input.
pub struct Maker {
    /// What the catalogue calls it.
    pub name: &'static str,
    /// One line for display.
    pub about: &'static str,
    /// Raised when its output changes.
    pub version: u32,
    pub(crate) make: Make,
}

const fn new(name: &'static str, about: &'static str, make: Make) -> Maker {
    Maker { name, about, version: 1, make }
}

/// Every maker.
pub const MAKERS: &[Maker] = &[
    new("text", "words by Zipf's law, lines of about 70 characters", language::text),
    new("sentences", "English sentences of simple grammar, one in a line", language::sentences),
    new("xml", "a document of orders with nested items", language::xml),
    new("dna", "a genome in FASTA form, with repeats", biology::dna),
    new(
        "dna-mutated",
        "the genome of the same seed and size, its halves exchanged, one base in twenty changed",
        biology::dna_mutated,
    ),
    new("proteins", "families of related protein sequences in FASTA form", biology::proteins),
    new("network", "a minimum-cost flow problem in DIMACS form", numbers::network),
    new("lp", "a linear program (transport) in CPLEX form", numbers::lp),
    new("ppm", "a picture: smooth shades, shapes and noise", numbers::picture),
    new("sql", "a script that fills, changes and asks two tables", numbers::sql),
    new("ring", "an ngspice deck: a ring of CMOS inverters; a kilobyte each 8 stages", circuits::ring),
    new("verilog", "a circuit of adders and registers", circuits::verilog),
    new("c", "C functions of arithmetic, loops and calls", code::c),
    new("sml", "Conway's life in Standard ML; the size is the number of cells", code::sml),
];

/// The maker of this name.
pub fn maker(name: &str) -> Option<&'static Maker> {
    MAKERS.iter().find(|m| m.name == name)
}

/// Counts the bytes written, so that makers can stop at a size.
struct Counted<'a> {
    out: &'a mut dyn Write,
    written: u64,
}

impl<'a> Counted<'a> {
    fn new(out: &'a mut dyn Write) -> Counted<'a> {
        Counted { out, written: 0 }
    }
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.written += n as u64;
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(maker: &Maker, size: u64, seed: u64) -> Vec<u8> {
        let mut out = Vec::new();
        (maker.make)(&mut out, size, &mut Rng::new(seed)).unwrap();
        out
    }

    #[test]
    fn makers_repeat_and_keep_to_the_size() {
        for maker in MAKERS {
            for size in [20_000, 200_000] {
                let bytes = made(maker, size, 1);
                assert_eq!(bytes, made(maker, size, 1), "{}", maker.name);
                assert_ne!(bytes, made(maker, size, 2), "{}", maker.name);
                // The size of a program does not depend on its input.
                let range = if maker.name == "sml" { 500..u64::MAX } else { size / 2..2 * size };
                assert!(range.contains(&(bytes.len() as u64)), "{}: {} for {size}", maker.name, bytes.len());
            }
        }
    }

    /// Every byte of every maker, at a small size: name, version, hash.
    #[test]
    fn makers_make_what_they_made() {
        let hash = |bytes: Vec<u8>| {
            bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
        };
        let all: Vec<(&str, u32, u64)> = MAKERS.iter().map(|m| (m.name, m.version, hash(made(m, 20_000, 7)))).collect();
        assert_eq!(all, MADE, "raise the version of a maker that changed, then change this");
    }

    const MADE: &[(&str, u32, u64)] = &[
        ("text", 1, 0x9626dc5130815944),
        ("sentences", 1, 0x3d0a5cf57fa88446),
        ("xml", 1, 0x1e475f369a0310c6),
        ("dna", 1, 0x9ebd9286a0761ee7),
        ("dna-mutated", 1, 0x6c6e8a94d1e126c2),
        ("proteins", 1, 0xef5feb105f65dd26),
        ("network", 1, 0x9d6f4d857c54b33d),
        ("lp", 1, 0x71e46c3514950e20),
        ("ppm", 1, 0x4fed6f91c9b07200),
        ("sql", 1, 0x73107bab4b857a5b),
        ("ring", 1, 0x03f673e31c71385e),
        ("verilog", 1, 0x8c8a2e8fecf295bf),
        ("c", 1, 0x19f69d9711873712),
        ("sml", 1, 0xa7bb681be06afadd),
    ];
}
