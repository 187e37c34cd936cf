//! Text, sentences, documents.

use std::io::{self, Write};

use farreach_kernels::{Rng, Text};

use super::Counted;

pub fn text(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    let mut column = 0;
    for c in Text::new(rng.bits()).take(size as usize) {
        column += 1;
        let c = if c == b' ' && column > 70 { b'\n' } else { c };
        if c == b'\n' {
            column = 0;
        }
        out.write_all(&[c])?;
    }
    Ok(())
}

const NOUNS: [&str; 16] = [
    "dog", "cat", "house", "child", "river", "teacher", "book", "garden", "letter", "city", "farmer", "bird", "window",
    "doctor", "ship", "table",
];
const VERBS: [&str; 8] = ["sees", "likes", "finds", "carries", "remembers", "follows", "builds", "visits"];
const ADJECTIVES: [&str; 12] =
    ["red", "old", "small", "quiet", "young", "green", "strange", "heavy", "happy", "cold", "famous", "dark"];
const ADVERBS: [&str; 6] = ["slowly", "often", "never", "quickly", "always", "sometimes"];
const PREPOSITIONS: [&str; 6] = ["in", "near", "behind", "with", "under", "from"];

fn pick<'a>(words: &[&'a str], rng: &mut Rng) -> &'a str {
    words[rng.below(words.len())]
}

fn phrase(rng: &mut Rng) -> String {
    let mut words = vec!["the"];
    if rng.below(2) == 0 {
        words.push(pick(&ADJECTIVES, rng));
    }
    words.push(pick(&NOUNS, rng));
    words.join(" ")
}

pub fn sentences(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    let mut out = Counted::new(out);
    while out.written < size {
        let mut clause = format!("{} {} {} {}", phrase(rng), pick(&ADVERBS, rng), pick(&VERBS, rng), phrase(rng));
        for _ in 0..rng.below(3) {
            clause += &format!(" {} {}", pick(&PREPOSITIONS, rng), phrase(rng));
        }
        match rng.below(3) {
            0 => clause += &format!(" and {} {} {}", phrase(rng), pick(&VERBS, rng), phrase(rng)),
            1 => clause += &format!(" that {} {}", pick(&VERBS, rng), phrase(rng)),
            _ => {}
        }
        writeln!(out, "T{}.", &clause[1..])?;
    }
    Ok(())
}

pub fn xml(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    let mut out = Counted::new(out);
    writeln!(out, "<?xml version=\"1.0\"?>\n<orders>")?;
    let mut id = 0;
    while out.written < size {
        id += 1;
        writeln!(out, "<order id=\"{id}\"><customer>{} {}</customer>", pick(&ADJECTIVES, rng), pick(&NOUNS, rng))?;
        for _ in 0..=rng.below(6) {
            let (price, count) = (rng.below(10_000), 1 + rng.below(9));
            writeln!(out, "<item price=\"{price}\" count=\"{count}\">{}</item>", pick(&NOUNS, rng))?;
        }
        writeln!(out, "</order>")?;
    }
    writeln!(out, "</orders>")
}
