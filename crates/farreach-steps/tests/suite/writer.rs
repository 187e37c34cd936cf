//! Texts of random programs: forms of instructions with random operands, in straight pieces, loops, branches and calls.

use std::fmt::Write;

use farreach_oracle::dice::Dice;

use crate::build::{GUARDED, MEMORY, has};
use crate::differences::READ_IN_PART;
use crate::families::ends_by_rip;
use crate::forms::{Form, Slot, forms, general};

/// Instructions of one program, about.
const LENGTH: usize = 1200;
/// The part of the pool, or of the guarded pages, that is written.
const WRITTEN: u64 = 3 * 4096;
/// A page of numbers that stay what they are: the last of the pool.
const CONSTANTS: u64 = MEMORY.start + 3 * 4096;
/// Bytes that are left free on both sides of it, for what operands reach.
const MARGIN: u64 = 128;

/// Registers that programs use freely: not RSP, not RBX and R14, which are the address of something, nor R15, which
/// counts.
const FREE: [usize; 12] = [0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13];
const RBX: usize = 3;
const R14: usize = 14;

/// What data references may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// All pages are there.
    Plain,
    /// Now and then all pages are taken away, and come back one by one by faults.
    Faults,
}

struct Writer {
    dice: Dice,
    forms: Vec<Form>,
    text: String,
    labels: u32,
    instructions: usize,
    /// Where memory operands may be, and what RBX and R14 point to.
    base: u64,
    pointers: [u64; 2],
    style: Style,
}

impl Writer {
    fn line(&mut self, text: &str) {
        self.instructions += 1;
        let _ = writeln!(self.text, "\t{text}");
    }

    fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    fn free(&mut self) -> usize {
        self.dice.pick(&FREE)
    }

    /// The address of an operand of this size: often one of a few, often at the border of a page.
    fn target(&mut self, bytes: u64, align: u64) -> u64 {
        let offset = match self.dice.below(8) {
            0..3 => MARGIN + 8 * self.dice.below(16),
            3 => 4096 * (1 + self.dice.below(2)) - self.dice.below(bytes + 1),
            4 => MARGIN + self.dice.below(64),
            _ => MARGIN + self.dice.below(WRITTEN - 2 * MARGIN),
        };
        self.base + offset / align * align
    }

    /// An operand in memory in one of the forms of address; may write instructions that prepare its registers.
    fn memory(&mut self, bytes: u64, align: u64) -> String {
        let target = self.target(bytes, align);
        let signed =
            |n: u64| if (n as i64) < 0 { format!("- {}", (n as i64).unsigned_abs()) } else { format!("+ {n}") };
        match self.dice.below(12) {
            0 => format!("ds:[{target:#x}]"),
            1 => {
                let symbol = if self.style == Style::Plain { "pool" } else { "guarded_at" };
                format!("[rip + {symbol} + {}]", target - self.base)
            }
            2..6 => {
                let which = self.dice.below(2) as usize;
                let name = general([RBX, R14][which], 64);
                format!("[{name} {}]", signed(target.wrapping_sub(self.pointers[which])))
            }
            6 => {
                let base = general(self.free(), 64);
                self.line(&format!("mov {base}, {target:#x}"));
                format!("[{base}]")
            }
            7 => {
                let (base, index) = (self.free(), self.free());
                let (scale, at) = (1 << self.dice.below(4), self.dice.below(100).wrapping_sub(50));
                let same = base == index;
                self.line(&format!("mov {}, {}", general(index, 64), at as i64));
                let rest = target.wrapping_sub(at.wrapping_mul(scale));
                if same {
                    let rest = rest.wrapping_sub(at);
                    let (base, index) = (general(base, 64), general(index, 64));
                    return format!("[{base} + {index} * {scale} {}]", signed(rest));
                }
                let displacement = self.dice.below(400).wrapping_sub(200);
                let base = general(base, 64);
                self.line(&format!("mov {base}, {}", rest.wrapping_sub(displacement) as i64));
                format!("[{base} + {} * {scale} {}]", general(index, 64), signed(displacement))
            }
            8 => {
                let index = self.free();
                let (scale, at) = (1 << self.dice.below(4), self.dice.below(100));
                let index = general(index, 64);
                self.line(&format!("mov {index}, {at}"));
                format!("[{index} * {scale} {}]", signed(target - at * scale))
            }
            9 => {
                // 32 bits, and a sum that is cut.
                let (base, index) = (self.free(), self.free());
                let at = self.dice.below(1 << 32);
                let (base, index) = (general(base, 32), general(index, 32));
                if base == index {
                    self.line(&format!("mov {base}, {target:#x}"));
                    return format!("[{base}]");
                }
                self.line(&format!("mov {index}, {at:#x}"));
                self.line(&format!("mov {base}, {:#x}", target.wrapping_sub(at) as u32));
                format!("[{base} + {index}]")
            }
            10 => format!("fs:[{}]", (target - self.base) as i64 - 1024),
            _ => {
                let base = general(self.free(), 64);
                self.line(&format!("mov {base}, {}", (target - self.base) as i64 - 2048));
                format!("gs:[{base}]")
            }
        }
    }

    /// An instruction with an operand in memory.
    fn form(&mut self) {
        let at = self.dice.below(self.forms.len() as u64) as usize;
        let form = self.forms[at].clone();
        let Slot::Memory(bytes, align) = form.memory() else { unreachable!("a form has a memory operand") };
        let offset = self.dice.below(96);
        let name = form.text(|_| String::new());
        let in_part = READ_IN_PART.iter().any(|part| name.starts_with(part));
        // Aligned to its size, it does not cross a page.
        let align = if in_part && self.style == Style::Faults { bytes } else { align };
        let mut operand = self.memory(bytes, align);
        while operand.contains("rip") && ends_by_rip(&form) {
            operand = self.memory(bytes, align);
        }
        // With a bit offset in a register that is not one of the address.
        if name.starts_with("bt") || name.starts_with("lock bt") {
            operand = format!("[rbx + {MARGIN}]");
            self.line(&format!("mov r13d, {offset}"));
        }
        let dice = &mut self.dice;
        let text = form.text(|slot| match slot {
            Slot::Memory(..) => operand.clone(),
            Slot::General(bits) => general(dice.pick(&FREE), bits).to_owned(),
            Slot::Offset(bits) => general(13, bits).to_owned(),
            Slot::Xmm => format!("xmm{}", dice.below(16)),
            Slot::Ymm => format!("ymm{}", dice.below(16)),
            Slot::Mmx => format!("mm{}", dice.below(8)),
            Slot::Number(below) => dice.below(below).to_string(),
        });
        self.line(&text);
    }

    /// An instruction of registers alone.
    fn registers(&mut self) {
        let (a, b) = (general(self.free(), 64), general(self.free(), 64));
        let number = self.dice.below(1 << 31);
        let text = match self.dice.below(8) {
            0 => format!("mov {a}, {b}"),
            1 => format!("xor {a}, {a}"),
            2 => format!("add {a}, {b}"),
            3 => format!("mov {a}, {number}"),
            4 => format!("cmp {a}, {b}"),
            5 => format!("lea {a}, [{b} + {b} * 2 + 7]"),
            6 => "pxor xmm1, xmm1".to_owned(),
            _ => format!("imul {a}, {b}, {number}"),
        };
        self.line(&text);
    }

    fn push_and_pop(&mut self) {
        let pushed: Vec<usize> = (0..1 + self.dice.below(5)).map(|_| self.free()).collect();
        pushed.iter().for_each(|n| self.line(&format!("push {}", general(*n, 64))));
        if self.dice.percent(50) {
            let at = 8 * self.dice.below(pushed.len() as u64);
            let to = general(self.free(), 64);
            self.line(&format!("mov {to}, [rsp + {at}]"));
        }
        for _ in &pushed {
            let to = general(self.free(), 64);
            self.line(&format!("pop {to}"));
        }
    }

    /// A string instruction. Comparisons read numbers that stay, so that they end after as many everywhere.
    fn string(&mut self) {
        let size = self.dice.pick(&["b", "w", "d", "q"]);
        let room = 9 * 8;
        let (from, to) = (self.target(room, 1), self.target(room, 1));
        let constant = CONSTANTS + 512 + self.dice.below(1024);
        let count = self.dice.below(9);
        let down = self.dice.percent(20);
        let (text, from) = match self.dice.below(8) {
            0 => (format!("movs{size}"), from),
            1 => (format!("stos{size}"), from),
            2 => (format!("lods{size}"), from),
            3 => (format!("rep stos{size}"), from),
            4 => (format!("repe cmps{size}"), constant),
            5 => (format!("repne scas{size}"), constant),
            _ => (format!("rep movs{size}"), from),
        };
        let to = if text.contains("cmps") || text.contains("scas") { constant + 64 } else { to };
        self.line(&format!("mov esi, {from:#x}"));
        self.line(&format!("mov edi, {to:#x}"));
        self.line(&format!("mov ecx, {count}"));
        if text.contains("scas") || text.contains("cmps") {
            self.line("mov eax, 0x12345");
        }
        if down {
            self.line("std");
        }
        self.line(&text);
        if down {
            self.line("cld");
        }
    }

    /// A masked move or a gather. Masks and indices are numbers that stay: what vectors hold may differ in the last
    /// digit.
    fn masked(&mut self) {
        let constant = CONSTANTS + 32 * self.dice.below(64);
        self.line(&format!("vmovdqu ymm5, ymmword ptr ds:[{constant:#x}]"));
        let operand = self.memory(32, 1);
        if self.dice.percent(60) {
            let what = self.dice.pick(&["vmaskmovps", "vmaskmovpd", "vpmaskmovd", "vpmaskmovq"]);
            let v = self.dice.pick(&["xmm", "ymm"]);
            let to_memory = self.dice.percent(50);
            let text = match to_memory {
                true => format!("{what} {operand}, {v}5, {v}1"),
                false => format!("{what} {v}1, {v}5, {operand}"),
            };
            self.line(&text);
            return;
        }
        // Indices below 32, from the same numbers.
        let (what, to, by) = self.dice.pick(&[
            ("vpgatherdd", "ymm", "ymm"),
            ("vgatherdps", "xmm", "xmm"),
            ("vpgatherdq", "ymm", "xmm"),
            ("vgatherqps", "xmm", "ymm"),
            ("vpgatherqq", "ymm", "ymm"),
            ("vgatherqpd", "xmm", "xmm"),
        ]);
        let wide = what.contains("rq");
        self.line(&format!("vmovdqu ymm6, ymmword ptr ds:[{:#x}]", constant + 32));
        self.line(&format!("vpsrl{} ymm6, ymm6, {}", if wide { "q" } else { "d" }, if wide { 59 } else { 27 }));
        let (base, scale) = (general(RBX, 64), 1 << self.dice.below(4));
        self.line(&format!("{what} {to}1, [{base} + {by}6 * {scale} + 8], {to}5"));
    }

    /// A branch on a number that stays.
    fn branch(&mut self) {
        let behind = self.label();
        let at = CONSTANTS + self.dice.below(512);
        let bit = self.dice.below(8);
        let jump = self.dice.pick(&["jz", "jnz"]);
        self.line(&format!("test byte ptr ds:[{at:#x}], {}", 1 << bit));
        self.line(&format!("{jump} {behind}f"));
        for _ in 0..1 + self.dice.below(4) {
            self.straight();
        }
        let _ = writeln!(self.text, "{behind}:");
    }

    /// A short loop; the body may walk through memory.
    fn repeat(&mut self) {
        let (begin, times) = (self.label(), 2 + self.dice.below(12));
        self.line(&format!("mov r15d, {times}"));
        let _ = writeln!(self.text, "{begin}:");
        for _ in 0..1 + self.dice.below(4) {
            match self.dice.below(3) {
                0 => {
                    let to = general(self.free(), 64);
                    let at = self.dice.below(512);
                    self.line(&format!("mov {to}, [rbx + r15 * 8 + {at}]"));
                }
                1 => {
                    let from = general(self.free(), 64);
                    let at = self.dice.below(512);
                    self.line(&format!("add [rbx + r15 * 8 + {at}], {from}"));
                }
                _ => self.form(),
            }
        }
        let end = self.dice.pick(&["dec r15d", "sub r15, 1", "sub r15d, 1"]);
        self.line(end);
        self.line(&format!("jnz {begin}b"));
    }

    fn straight(&mut self) {
        match self.dice.below(21) {
            0..12 => self.form(),
            12..17 => self.registers(),
            17 => self.push_and_pop(),
            18 => self.string(),
            19 if has("avx2") && self.style == Style::Plain => self.masked(),
            _ => self.line("call helper"),
        }
    }

    fn any(&mut self) {
        match self.dice.below(20) {
            0..2 => self.branch(),
            2..4 => self.repeat(),
            4 if self.style == Style::Faults => self.line("call take_away"),
            5 => self.line("emms"),
            6 => self.line("fninit"),
            7 => {
                // RBX and R14 move.
                let which = self.dice.below(2) as usize;
                let to = self.base + MARGIN + self.dice.below(WRITTEN - 2048);
                self.pointers[which] = to;
                self.line(&format!("mov {}, {to:#x}", general([RBX, R14][which], 64)));
            }
            _ => self.straight(),
        }
    }
}

const PLAIN: &str = "#include \"begin.h\"
helper:
	push r15
	mov rax, [rsp + 8]
	pop r15
	ret
";

const FAULTS: &str = "#include \"begin.h\"
#include \"faults.h\"
helper:
	push r15
	pop r15
	ret
take_away:
	push rsi
	push rdi
	guard 0
	pop rdi
	pop rsi
	ret
";

/// A program of this seed.
pub fn text(seed: u64, style: Style) -> String {
    let base = if style == Style::Plain { MEMORY.start } else { GUARDED };
    let pointers = [base + 256, base + 4096];
    let text = if style == Style::Plain { PLAIN } else { FAULTS }.to_owned();
    let dice = Dice::new(seed);
    let mut w = Writer { dice, forms: forms(), text, labels: 1000, instructions: 0, base, pointers, style };
    w.text += "main:\n";
    if style == Style::Faults {
        w.text += "\tcatch_faults\n";
    }
    let segment = |w: &mut Writer, which: u32, to: u64| {
        let _ = writeln!(w.text, "\tmov edi, {which:#x}\n\tmov esi, {to:#x}\n\tmov eax, 158\n\tsyscall");
    };
    segment(&mut w, 0x1002, base + 1024);
    segment(&mut w, 0x1001, base + 2048);
    let _ = writeln!(w.text, "\tmov ebx, {:#x}\n\tmov r14d, {:#x}", pointers[0], pointers[1]);
    while w.instructions < LENGTH {
        w.any();
    }
    w.text + "\tret\n"
}
