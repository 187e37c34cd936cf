//! Genomes and proteins.

use std::io::{self, Write};

use farreach_kernels::Rng;

use super::Counted;

const BASES: &[u8; 4] = b"ACGT";
const AMINO: &[u8; 20] = b"LAGVESIKRDTPNQFYMHCW";

/// Random bases; one stretch of eight is a copy of an earlier one.
fn genome(size: u64, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut bases: Vec<u8> = Vec::with_capacity(size as usize + 1024);
    while (bases.len() as u64) < size {
        let len = 64 + rng.below(960);
        if bases.len() > 4096 && rng.below(8) == 0 {
            let from = rng.below(bases.len() - len);
            bases.extend_from_within(from..from + len);
        } else {
            bases.extend((0..len).map(|_| BASES[rng.below(4)]));
        }
    }
    bases.truncate(size as usize);
    bases
}

fn fasta(out: &mut dyn Write, name: &str, sequence: &[u8]) -> io::Result<()> {
    writeln!(out, ">{name}")?;
    sequence.chunks(60).try_for_each(|line| out.write_all(line).and_then(|()| out.write_all(b"\n")))
}

pub fn dna(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    fasta(out, "genome", &genome(size, rng.bits()))
}

/// Substitutions, insertions and deletions, and long stretches in another place. The original is the genome that
/// [`dna`] makes from the same numbers.
pub fn dna_mutated(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    let original = genome(size, rng.bits());
    let half = original.len() / 2;
    let mut mutated = Vec::with_capacity(original.len() + 1024);
    for &base in original[half..].iter().chain(&original[..half]) {
        match rng.below(60) {
            0 => mutated.push(BASES[rng.below(4)]),
            1 => mutated.extend([base, BASES[rng.below(4)]]),
            2 => {}
            _ => mutated.push(base),
        }
    }
    fasta(out, "relative", &mutated)
}

pub fn proteins(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    let mut out = Counted::new(out);
    let mut family = 0;
    while out.written < size {
        family += 1;
        let ancestor: Vec<u8> = (0..120 + rng.below(200)).map(|_| AMINO[rng.zipf(AMINO.len())]).collect();
        for member in 0..3 + rng.below(4) {
            let mut sequence = ancestor.clone();
            for place in &mut sequence {
                if rng.below(5) == 0 {
                    *place = AMINO[rng.below(AMINO.len())];
                }
            }
            fasta(&mut out, &format!("p{family}_{member}"), &sequence)?;
        }
    }
    Ok(())
}
