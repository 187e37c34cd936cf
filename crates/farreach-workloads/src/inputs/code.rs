//! Programs for compilers and interpreters.

use std::io::{self, Write};

use farreach_kernels::Rng;

use super::Counted;

/// An expression over the variables of a function.
fn expression(rng: &mut Rng, depth: u32) -> String {
    if depth == 0 || rng.below(5) == 0 {
        return match rng.below(4) {
            0 => (1 + rng.below(1000)).to_string(),
            1 => format!("table[(v{} + {}) & 255]", rng.below(6), rng.below(256)),
            _ => format!("v{}", rng.below(6)),
        };
    }
    let operator = ["+", "-", "*", "^", "&", "|", "<", ">"][rng.below(8)];
    format!("({} {operator} {})", expression(rng, depth - 1), expression(rng, depth - 1))
}

fn statement(out: &mut dyn Write, rng: &mut Rng, function: usize, depth: usize, indent: usize) -> io::Result<()> {
    let pad = " ".repeat(4 * indent);
    let target = rng.below(6);
    match rng.below(if depth == 0 { 3 } else { 6 }) {
        3 => {
            writeln!(out, "{pad}if ({}) {{", expression(rng, 2))?;
            statement(out, rng, function, depth - 1, indent + 1)?;
            writeln!(out, "{pad}}} else {{")?;
            statement(out, rng, function, depth - 1, indent + 1)?;
        }
        4 => {
            // Each depth has a counter of its own.
            let counter = format!("i{depth}");
            writeln!(out, "{pad}for (unsigned {counter} = 0; {counter} < {}; {counter}++) {{", 1 + rng.below(64))?;
            writeln!(out, "{pad}    v{target} += {counter} * {};", expression(rng, 2))?;
            statement(out, rng, function, depth - 1, indent + 1)?;
        }
        5 => {
            writeln!(out, "{pad}switch (v{target} & 7) {{")?;
            for case in 0..7 {
                writeln!(out, "{pad}case {case}: v{} = {}; break;", rng.below(6), expression(rng, 2))?;
            }
            writeln!(out, "{pad}default: v{target}++;")?;
        }
        0 => return writeln!(out, "{pad}table[v{target} & 255] = {};", expression(rng, 3)),
        1 if function > 0 => {
            let callee = rng.below(function);
            return writeln!(out, "{pad}v{target} ^= f{callee}({}, v{});", expression(rng, 2), rng.below(6));
        }
        _ => return writeln!(out, "{pad}v{target} = {};", expression(rng, 4)),
    }
    writeln!(out, "{pad}}}")
}

/// Functions that call earlier ones. It compiles without a warning that matters and without headers.
pub fn c(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    let mut out = Counted::new(out);
    writeln!(out, "static unsigned table[256];")?;
    let mut functions = 0;
    while out.written < size {
        writeln!(out, "unsigned f{functions}(unsigned v0, unsigned v1)\n{{")?;
        writeln!(out, "    unsigned v2 = v0 + {}, v3 = v1 ^ v0, v4 = {}, v5 = v1;", rng.below(1000), rng.below(1000))?;
        for _ in 0..3 + rng.below(8) {
            statement(&mut out, rng, functions, 3, 1)?;
        }
        writeln!(out, "    return v0 ^ v1 ^ v2 ^ v3 ^ v4 ^ v5;\n}}")?;
        functions += 1;
    }
    writeln!(out, "int main(void)\n{{\n    return (int)f{}(1, 2) & 1;\n}}", functions - 1)
}

/// Life as a functional program: generations are sorted lists of cells, every step makes new ones.
pub fn sml(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    let side = (2 * size.max(16) as usize).isqrt();
    writeln!(out, "{}", include_str!("life.sml").trim_end())?;
    writeln!(
        out,
        "val () = print (Int.toString (population (generations ({}, {side}, {}))) ^ \"\\n\");",
        rng.below(1 << 30),
        60
    )
}
