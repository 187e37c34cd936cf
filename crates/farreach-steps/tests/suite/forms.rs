//! The forms of `fixtures/steps/forms.txt`, and texts of instructions made of them.

use crate::build::{has, sources};

/// A form of an instruction with an operand in memory.
#[derive(Clone, Debug)]
pub struct Form {
    /// Its text with places for operands.
    template: String,
}

/// A place in a form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Memory of this many bytes at a multiple of this.
    Memory(u64, u64),
    /// A general register of this many bits.
    General(u32),
    /// A general register that holds a small offset in bits.
    Offset(u32),
    Xmm,
    Ymm,
    Mmx,
    /// A number below this.
    Number(u64),
}

/// All forms that this processor has.
pub fn forms() -> Vec<Form> {
    let text = std::fs::read_to_string(sources().join("forms.txt")).expect("forms.txt");
    let mut feature = String::new();
    let mut forms = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(name) => feature = name.to_owned(),
            None if has(&feature) => {
                let all = widths(line).into_iter().flat_map(|line| alternatives(&line));
                forms.extend(all.map(|template| Form { template }));
            }
            None => {}
        }
    }
    forms
}

/// `*` and `+` in braces stand for the same width everywhere in the line.
fn widths(line: &str) -> Vec<String> {
    let all: &[&str] = match line {
        _ if line.contains("*}") => &["8", "16", "32", "64"],
        _ if line.contains("+}") => &["16", "32", "64"],
        _ => return vec![line.to_owned()],
    };
    all.iter().map(|width| line.replace("*}", &format!("{width}}}")).replace("+}", &format!("{width}}}"))).collect()
}

/// `<a b>` stands for either word.
fn alternatives(line: &str) -> Vec<String> {
    let Some((before, rest)) = line.split_once('<') else { return vec![line.to_owned()] };
    let (words, after) = rest.split_once('>').expect("a > for each <");
    words.split(' ').flat_map(|word| alternatives(&format!("{before}{word}{after}"))).collect()
}

fn slot(token: &str) -> Slot {
    let (kind, number) = token.split_at(token.len().min(1));
    let bits = || number.parse::<u64>().unwrap_or_else(|_| panic!("{{{token}}} in forms.txt"));
    match (kind, number) {
        ("x", "") => Slot::Xmm,
        ("y", "") => Slot::Ymm,
        ("m", "m") => Slot::Mmx,
        ("m", _) => Slot::Memory(bits() / 8, 1),
        ("a", _) => Slot::Memory(bits() / 8, bits() / 8),
        ("r", _) => Slot::General(bits() as u32),
        ("o", _) => Slot::Offset(bits() as u32),
        ("i", _) => Slot::Number(1 << (bits() - u64::from(bits() == 8))),
        _ => panic!("{{{token}}} in forms.txt"),
    }
}

impl Form {
    /// The instruction with each place filled. An operand in memory is written as what its address is.
    pub fn text(&self, mut fill: impl FnMut(Slot) -> String) -> String {
        let mut text = String::new();
        let mut rest = self.template.as_str();
        while let Some((before, behind)) = rest.split_once('{') {
            let (token, after) = behind.split_once('}').expect("a } for each {");
            let slot = slot(token);
            text += before;
            if let Slot::Memory(bytes, _) = slot {
                text += pointer(bytes);
            }
            text += &fill(slot);
            rest = after;
        }
        text + rest
    }

    /// The operand in memory.
    pub fn memory(&self) -> Slot {
        let mut found = None;
        self.text(|slot| {
            if matches!(slot, Slot::Memory(..)) {
                found = Some(slot);
            }
            String::new()
        });
        found.unwrap_or_else(|| panic!("no operand in memory in forms.txt: {}", self.template))
    }
}

fn pointer(bytes: u64) -> &'static str {
    match bytes {
        1 => "byte ptr ",
        2 => "word ptr ",
        4 => "dword ptr ",
        8 => "qword ptr ",
        10 => "tbyte ptr ",
        16 => "xmmword ptr ",
        32 => "ymmword ptr ",
        other => panic!("no name for {other} bytes"),
    }
}

/// The general registers by number, in four widths.
const GENERAL: [[&str; 4]; 16] = [
    ["al", "ax", "eax", "rax"],
    ["cl", "cx", "ecx", "rcx"],
    ["dl", "dx", "edx", "rdx"],
    ["bl", "bx", "ebx", "rbx"],
    ["spl", "sp", "esp", "rsp"],
    ["bpl", "bp", "ebp", "rbp"],
    ["sil", "si", "esi", "rsi"],
    ["dil", "di", "edi", "rdi"],
    ["r8b", "r8w", "r8d", "r8"],
    ["r9b", "r9w", "r9d", "r9"],
    ["r10b", "r10w", "r10d", "r10"],
    ["r11b", "r11w", "r11d", "r11"],
    ["r12b", "r12w", "r12d", "r12"],
    ["r13b", "r13w", "r13d", "r13"],
    ["r14b", "r14w", "r14d", "r14"],
    ["r15b", "r15w", "r15d", "r15"],
];

/// The name of general register `n` with this many bits.
pub fn general(n: usize, bits: u32) -> &'static str {
    GENERAL[n][bits.ilog2() as usize - 3]
}

/// A form with this operand in memory, and with registers that leave RBX and RSP alone.
pub fn with_operand(form: &Form, operand: &str) -> String {
    form.text(|slot| match slot {
        Slot::Memory(..) => operand.to_owned(),
        Slot::General(bits) => general(9, bits).to_owned(),
        Slot::Offset(bits) => general(10, bits).to_owned(),
        Slot::Xmm => "xmm1".to_owned(),
        Slot::Ymm => "ymm2".to_owned(),
        Slot::Mmx => "mm3".to_owned(),
        Slot::Number(below) => (below - 1).min(3).to_string(),
    })
}
