//! How to cite a trace or a result: as plain text, and as entries of BibTeX.

use super::format::{clean, counted};

/// A paper whose machines are a group of presets.
struct Paper {
    group: &'static str,
    key: &'static str,
    authors: &'static str,
    title: &'static str,
    venue: &'static str,
    year: u16,
}

const PAPERS: [Paper; 4] = [
    Paper {
        group: "t94",
        key: "talluri1994surpassing",
        authors: "Madhusudhan Talluri and Mark D. Hill",
        title: "Surpassing the TLB Performance of Superpages with Less Operating System Support",
        venue: "ASPLOS",
        year: 1994,
    },
    Paper {
        group: "sv97",
        key: "jacob1997software",
        authors: "Bruce Jacob and Trevor Mudge",
        title: "Software-Managed Address Translation",
        venue: "HPCA",
        year: 1997,
    },
    Paper {
        group: "ds13",
        key: "basu2013efficient",
        authors: "Arkaprava Basu and Jayneel Gandhi and Jichuan Chang and Mark D. Hill and Michael M. Swift",
        title: "Efficient Virtual Memory for Big Memory Servers",
        venue: "ISCA",
        year: 2013,
    },
    Paper {
        group: "rmm15",
        key: "karakostas2015redundant",
        authors: "Vasileios Karakostas and others",
        title: "Redundant Memory Mappings for Fast Access to Large Memories",
        venue: "ISCA",
        year: 2015,
    },
];

/// What is cited.
pub struct Cited {
    /// `Trace`, or `Result`.
    pub kind: &'static str,
    /// What ran.
    pub of: String,
    /// Name and value of what else is known, most important first.
    pub facts: Vec<(String, String)>,
    /// RFC 3339, or empty.
    pub date: String,
    /// BLAKE3 of the file, hexadecimal.
    pub hash: String,
    /// Instructions, if any were counted.
    pub instructions: u64,
    /// Names of machines, of a result.
    pub machines: Vec<String>,
}

impl Cited {
    fn papers(&self) -> impl Iterator<Item = &'static Paper> {
        let used = |paper: &&Paper| self.machines.iter().any(|name| name.split('/').next() == Some(paper.group));
        PAPERS.iter().filter(used)
    }

    fn note(&self) -> String {
        let mut parts = Vec::new();
        if self.instructions > 0 {
            parts.push(counted(self.instructions, "instruction"));
        }
        parts.extend(self.facts.iter().map(|(name, value)| format!("{name} {value}")));
        if !self.machines.is_empty() {
            parts.push(format!("machines {}", self.machines.join(", ")));
        }
        parts.push(format!("BLAKE3 {}", self.hash));
        clean(&parts.join("; "))
    }

    /// Sentences for a list of references, then BibTeX.
    pub fn text(&self, version: &str) -> String {
        let of = clean(&self.of);
        let when = if self.date.is_empty() { String::new() } else { format!(", {}", clean(&self.date)) };
        let mut out = format!("{} of {of}{when}. {}.\n", self.kind, self.note());
        out += &format!(
            "The farreach developers: farreach, a laboratory for virtual-memory address translation, version \
             {version}.\n"
        );
        for paper in self.papers() {
            let Paper { authors, title, venue, year, .. } = paper;
            out += &format!("{}: {title}. {venue} {year}.\n", authors.replace(" and ", ", "));
        }
        let short = &self.hash[..self.hash.len().min(8)];
        let year = self.date.get(..4).filter(|year| year.bytes().all(|b| b.is_ascii_digit()));
        out += &format!("\n@misc{{farreach-{}-{short},\n", self.kind.to_lowercase());
        out += &format!("  title = {{{} of {}}},\n", self.kind, escaped(&of));
        out += &year.map_or(String::new(), |year| format!("  year = {{{year}}},\n"));
        out += &format!("  note = {{{}}},\n}}\n", escaped(&self.note()));
        out += &format!(
            "\n@software{{farreach,\n  author = {{{{The farreach developers}}}},\n  title = {{farreach: a laboratory \
             for virtual-memory address translation}},\n  version = {{{version}}},\n}}\n"
        );
        for paper in self.papers() {
            let Paper { key, authors, title, venue, year, .. } = paper;
            out += &format!(
                "\n@inproceedings{{{key},\n  author = {{{authors}}},\n  title = {{{{{title}}}}},\n  booktitle = \
                 {{{venue}}},\n  year = {{{year}}},\n}}\n"
            );
        }
        out
    }
}

/// As TeX takes it.
fn escaped(text: &str) -> String {
    let sign = |c: char| match c {
        '\\' => r"\textbackslash{}".to_owned(),
        '~' => r"\textasciitilde{}".to_owned(),
        '^' => r"\textasciicircum{}".to_owned(),
        '&' | '%' | '$' | '#' | '_' | '{' | '}' => format!("\\{c}"),
        other => other.to_string(),
    };
    text.chars().map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_names_its_machines_and_their_papers() {
        let cited = Cited {
            kind: "Result",
            of: "gcc -O2 -c big_file.c".into(),
            facts: vec![("seed".into(), "7".into())],
            date: String::new(),
            hash: "0123456789abcdef".into(),
            instructions: 1_200_000,
            machines: vec!["t94/partial:entries=32".into(), "rmm15/range".into(), "today/skylake".into()],
        };
        let text = cited.text("0.1.0");
        for part in [
            "Result of gcc -O2 -c big_file.c. 1.20M instructions; seed 7; machines t94/partial:entries=32, rmm15/range",
            "@misc{farreach-result-01234567,\n  title = {Result of gcc -O2 -c big\\_file.c},\n  note",
            "BLAKE3 0123456789abcdef",
            "@inproceedings{talluri1994surpassing,",
            "@inproceedings{karakostas2015redundant,",
            "version = {0.1.0}",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("jacob1997") && !text.contains("year = {},"), "{text}");
        let trace = Cited { kind: "Trace", date: "2026-11-28T16:00:00Z".into(), machines: Vec::new(), ..cited };
        let text = trace.text("0.1.0");
        assert!(text.contains("Trace of gcc") && text.contains("year = {2026}") && !text.contains("talluri"), "{text}");
    }

    #[test]
    fn tex_gets_no_commands() {
        assert_eq!(escaped(r"a_b\c{d}~50%"), r"a\_b\textbackslash{}c\{d\}\textasciitilde{}50\%");
    }
}
