//! Problems of optimisation, pictures, tables.

use std::io::{self, Write};

use farreach_kernels::Rng;

use super::Counted;

/// A grid of nodes with arcs to neighbours and, now and then, far away; supplies on one side, demands on the other.
pub fn network(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    // An arc takes about 24 characters, a node has four.
    let side = ((size / 96).max(16) as usize).isqrt();
    let (nodes, node) = (side * side, |x: usize, y: usize| y * side + x + 1);
    let mut arcs = Vec::new();
    for y in 0..side {
        for x in 0..side {
            let mut arc = |to: usize, cost: usize| arcs.push((node(x, y), to, cost));
            if x + 1 < side {
                arc(node(x + 1, y), 1 + rng.below(100));
            }
            if y + 1 < side {
                arc(node(x, y + 1), 1 + rng.below(100));
            }
            if y > 0 {
                arc(node(x, y - 1), 1 + rng.below(100));
            }
            let far = node(rng.below(side), rng.below(side));
            if far != node(x, y) {
                arc(far, 100 + rng.below(1000));
            }
        }
    }
    writeln!(out, "c grid of {side} by {side}\np min {nodes} {}", arcs.len())?;
    for y in 0..side {
        let supply = 1 + rng.below(20);
        writeln!(out, "n {} {supply}\nn {} -{supply}", node(0, y), node(side - 1, y))?;
    }
    // Every row can send all it has along itself.
    arcs.iter().try_for_each(|(from, to, cost)| writeln!(out, "a {from} {to} 0 {} {cost}", 20 + cost % 7 * 10))
}

/// Transport from plants to markets at the least cost.
pub fn lp(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    // A variable stands in the objective and in two constraints: about 36 characters.
    let plants = ((size / 36 / 2).max(4) as usize).isqrt();
    let markets = 2 * plants;
    writeln!(out, "Minimize\n cost:")?;
    for p in 0..plants {
        for m in 0..markets {
            writeln!(out, " + {} x{p}_{m}", 1 + rng.below(999))?;
        }
    }
    writeln!(out, "Subject To")?;
    for p in 0..plants {
        write!(out, " s{p}:")?;
        for m in 0..markets {
            write!(out, " + x{p}_{m}{}", if m % 8 == 7 { "\n" } else { "" })?;
        }
        writeln!(out, " <= {}", 400 + rng.below(100))?;
    }
    for m in 0..markets {
        write!(out, " d{m}:")?;
        for p in 0..plants {
            write!(out, " + x{p}_{m}{}", if p % 8 == 7 { "\n" } else { "" })?;
        }
        // All plants together have more than all markets want.
        writeln!(out, " >= {}", 50 + rng.below(100))?;
    }
    writeln!(out, "End")
}

/// Binary PPM, a third wider than high.
pub fn picture(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    let height = ((size / 4).max(16) as usize).isqrt();
    let width = (size as usize / 3 / height).max(1);
    writeln!(out, "P6\n{width} {height}\n255")?;
    let circles: Vec<[i64; 4]> = (0..200)
        .map(|_| {
            let at = |n: usize, rng: &mut Rng| rng.below(n) as i64;
            [at(width, rng), at(height, rng), 1 + at(height / 8 + 1, rng), at(1 << 24, rng)]
        })
        .collect();
    let mut row = Vec::with_capacity(3 * width);
    for y in 0..height as i64 {
        row.clear();
        let near: Vec<&[i64; 4]> = circles.iter().filter(|c| (y - c[1]).abs() < c[2]).collect();
        for x in 0..width as i64 {
            let inside = near.iter().find(|c| (x - c[0]).pow(2) + (y - c[1]).pow(2) < c[2] * c[2]);
            let shade = [x * 255 / width as i64, y * 255 / height as i64, ((x + y) * 127 / height as i64) & 255];
            let colour = inside.map_or(shade, |c| [c[3] & 255, c[3] >> 8 & 255, c[3] >> 16]);
            let noise = rng.below(16) as i64;
            row.extend(colour.map(|c| (c + noise).min(255) as u8));
        }
        out.write_all(&row)?;
    }
    Ok(())
}

pub fn sql(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    let mut out = Counted::new(out);
    writeln!(out, "CREATE TABLE part(id INTEGER PRIMARY KEY, name TEXT, price INT, weight INT);")?;
    writeln!(out, "CREATE TABLE link(a INT, b INT, kind INT);\nCREATE INDEX by_price ON part(price);\nBEGIN;")?;
    let mut parts = 0;
    while out.written < size {
        parts += 1;
        let (price, weight, name) = (rng.below(100_000), rng.below(1000), rng.bits());
        writeln!(out, "INSERT INTO part VALUES({parts},'part {name:x}',{price},{weight});")?;
        for _ in 0..3 {
            let other = 1 + rng.below(parts);
            writeln!(out, "INSERT INTO link VALUES({parts},{other},{});", rng.below(8))?;
        }
        if parts % 50 == 0 {
            let (low, some) = (rng.below(100_000), 1 + rng.below(parts));
            writeln!(out, "SELECT count(*), sum(weight) FROM part WHERE price BETWEEN {low} AND {};", low + 500)?;
            writeln!(out, "UPDATE part SET price = price + 1 WHERE id BETWEEN {some} AND {};", some + 20)?;
        }
    }
    writeln!(out, "COMMIT;\nCREATE INDEX by_a ON link(a);\nCREATE INDEX by_b ON link(b);")?;
    for _ in 0..200 {
        let some = 1 + rng.below(parts);
        writeln!(
            out,
            "SELECT count(*) FROM link x JOIN link y ON x.b = y.a JOIN part ON part.id = y.b WHERE x.a = {some};"
        )?;
    }
    writeln!(out, "SELECT kind, count(*), avg(price) FROM link JOIN part ON id = b GROUP BY kind ORDER BY 2;")
}
