//! Liberty files, as far as area, function, load and energy of cells go.

use std::collections::HashMap;

/// A library of cells. Times are in ns, capacitances in pF, energies in pJ.
#[derive(Clone, Debug)]
pub struct Library {
    /// Its own name.
    pub name: String,
    /// Supply, in V.
    pub voltage: f64,
    /// Temperature in degrees Celsius, and the process corner's name: what the figures are for.
    pub corner: String,
    /// Cells by name.
    pub cells: HashMap<String, Cell>,
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// In square micrometres.
    pub area: f64,
    /// Leakage, in nW.
    pub leakage: f64,
    /// A flip-flop that takes its next state at the rising edge of the clock.
    pub flip_flop: bool,
    /// Pins by name, inputs in the order in which functions count them.
    pub pins: Vec<Pin>,
}

/// A pin.
#[derive(Clone, Debug, Default)]
pub struct Pin {
    /// Its name.
    pub name: String,
    /// An output; otherwise an input.
    pub output: bool,
    /// The clock of a flip-flop.
    pub clock: bool,
    /// Load that an input is.
    pub capacitance: f64,
    /// An output of a gate: bit `i` is its value when the inputs, the first lowest, make `i`.
    pub function: Option<u64>,
    /// Energy inside the cell for a transition of the pin, by the pin that caused it.
    pub energy: Vec<Energy>,
    /// Transition times of an output, by the pin that caused it: rise, fall.
    pub transitions: Vec<(String, Table, Table)>,
}

/// Energy of a rise and of a fall.
#[derive(Clone, Debug, Default)]
pub struct Energy {
    /// The pin that causes it; empty for an input.
    pub related: String,
    /// Of a rise.
    pub rise: Table,
    /// Of a fall.
    pub fall: Table,
}

/// Values by load and input transition, or by input transition alone.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<f64>,
    columns: Vec<f64>,
    values: Vec<f64>,
}

impl Table {
    /// At this load and input transition. Outside the table the nearest edge counts.
    pub fn at(&self, load: f64, transition: f64) -> f64 {
        let (row, down) = place(&self.rows, load);
        let (column, right) = place(&self.columns, transition);
        let width = self.columns.len().max(1);
        let value = |r: usize, c: usize| self.values.get(r * width + c).copied().unwrap_or(0.0);
        let along = |r: usize| {
            let left = value(r, column);
            if right == 0.0 { left } else { left + right * (value(r, column + 1) - left) }
        };
        if down == 0.0 { along(row) } else { along(row) + down * (along(row + 1) - along(row)) }
    }

    /// From the values as they are written; the first index counts rows if there are two.
    fn new(body: &[Statement]) -> Option<Table> {
        let list = |name: &str| {
            let found = body.iter().find_map(|s| match s {
                Statement::Complex(n, args) if n == name => Some(args),
                _ => None,
            });
            let words = found?.iter().flat_map(|arg| arg.split([',', ' '])).filter(|word| !word.is_empty());
            words.map(|word| word.parse().ok()).collect::<Option<Vec<f64>>>()
        };
        let (first, second, values) = (list("index_1")?, list("index_2"), list("values")?);
        Some(match second {
            Some(second) => Table { rows: first, columns: second, values },
            None => Table { rows: Vec::new(), columns: first, values },
        })
    }
}

/// Where a number lies in an ascending list: the entry before it, and how far it is to the next.
fn place(list: &[f64], x: f64) -> (usize, f64) {
    if list.len() < 2 || x <= list[0] {
        return (0, 0.0);
    }
    if x >= list[list.len() - 1] {
        return (list.len() - 1, 0.0);
    }
    let i = list.partition_point(|&edge| edge <= x) - 1;
    (i, (x - list[i]) / (list[i + 1] - list[i]))
}

/// Part of a Liberty file.
enum Statement {
    Group(String, Vec<String>, Vec<Statement>),
    Attribute(String, String),
    Complex(String, Vec<String>),
}

/// Words of a Liberty file. Strings are one word.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c.is_whitespace() || c == '\\' {
            rest = &rest[c.len_utf8()..];
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").ok_or("a comment without an end")?.1;
        } else if let Some(string) = rest.strip_prefix('"') {
            let (inside, after) = string.split_once('"').ok_or("a string without an end")?;
            words.push(inside.replace(['\\', '\n'], " "));
            rest = after;
        } else if "(){};:,".contains(c) {
            words.push(c.to_string());
            rest = &rest[1..];
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || "(){};:,\"\\".contains(c)).unwrap_or(rest.len());
            words.push(rest[..end].to_owned());
            rest = &rest[end..];
        }
    }
    Ok(words)
}

/// The statements up to the end, or to the brace that closes their group.
fn statements(words: &mut std::iter::Peekable<std::vec::IntoIter<String>>) -> Result<Vec<Statement>, String> {
    let mut all = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "}" => return Ok(all),
            ";" => continue,
            _ => {}
        }
        match words.next().as_deref() {
            Some(":") => {
                let value = words.next().ok_or_else(|| format!("{word} has no value"))?;
                all.push(Statement::Attribute(word, value));
            }
            Some("(") => {
                let mut args = Vec::new();
                loop {
                    match words.next().ok_or_else(|| format!("{word} is not closed"))? {
                        end if end == ")" => break,
                        comma if comma == "," => {}
                        arg => args.push(arg),
                    }
                }
                if words.next_if(|next| next == "{").is_some() {
                    all.push(Statement::Group(word, args, statements(words)?));
                } else {
                    all.push(Statement::Complex(word, args));
                }
            }
            other => return Err(format!("{word} is followed by {other:?}")),
        }
    }
    Ok(all)
}

fn attribute<'a>(body: &'a [Statement], name: &str) -> Option<&'a str> {
    body.iter().find_map(|s| match s {
        Statement::Attribute(n, value) if n == name => Some(value.as_str()),
        _ => None,
    })
}

fn groups<'a>(body: &'a [Statement], name: &'a str) -> impl Iterator<Item = (&'a [String], &'a [Statement])> {
    body.iter().filter_map(move |s| match s {
        Statement::Group(n, args, inner) if n == name => Some((&args[..], &inner[..])),
        _ => None,
    })
}

fn table(body: &[Statement], name: &str) -> Table {
    groups(body, name).next().and_then(|(_, inner)| Table::new(inner)).unwrap_or_default()
}

impl Library {
    /// Reads a Liberty file.
    ///
    /// # Errors
    /// It is none, or in other units than ns, pF and nW.
    pub fn read(text: &str) -> Result<Library, String> {
        let top = statements(&mut words(text)?.into_iter().peekable())?;
        let (args, body) = groups(&top, "library").next().ok_or("no library")?;
        let unit = |name: &str, is: &str| match attribute(body, name) {
            Some(unit) if unit == is => Ok(()),
            other => Err(format!("{name} is {other:?}, and not {is}")),
        };
        unit("time_unit", "1ns")?;
        unit("leakage_power_unit", "1nW")?;
        let load = |s: &Statement| match s {
            Statement::Complex(n, args) => n == "capacitive_load_unit" && args[..] == ["1", "pf"],
            _ => false,
        };
        if !body.iter().any(load) {
            return Err("capacitive_load_unit is not (1, pf)".into());
        }
        let number = |name: &str| attribute(body, name).and_then(|text| text.parse::<f64>().ok());
        let voltage = number("nom_voltage").ok_or("no nom_voltage")?;
        let conditions = attribute(body, "default_operating_conditions").unwrap_or("nominal");
        let degrees = number("nom_temperature").unwrap_or(25.0);
        let cells = groups(body, "cell").map(|(args, body)| Ok((args[0].clone(), Cell::read(body)?)));
        Ok(Library {
            name: args.first().cloned().unwrap_or_default(),
            voltage,
            corner: format!("{conditions} {voltage} V {degrees} C"),
            cells: cells.collect::<Result<_, String>>()?,
        })
    }
}

impl Cell {
    fn read(body: &[Statement]) -> Result<Cell, String> {
        let number = |body: &[Statement], name: &str| {
            attribute(body, name).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0)
        };
        let flip_flop = groups(body, "ff").next();
        let rising = flip_flop.is_some_and(|(_, ff)| {
            attribute(ff, "clocked_on") == Some("CLK")
                && attribute(ff, "clear").is_none()
                && attribute(ff, "preset").is_none()
                && attribute(ff, "next_state") == Some("D")
        });
        let mut pins: Vec<Pin> = groups(body, "pin")
            .map(|(args, pin)| {
                let energy = groups(pin, "internal_power").map(|(_, of)| Energy {
                    related: attribute(of, "related_pin").unwrap_or("").to_owned(),
                    rise: table(of, "rise_power"),
                    fall: table(of, "fall_power"),
                });
                let transitions =
                    groups(pin, "timing").filter(|(_, of)| groups(of, "rise_transition").next().is_some());
                let transitions = transitions.map(|(_, of)| {
                    let related = attribute(of, "related_pin").unwrap_or("").to_owned();
                    (related, table(of, "rise_transition"), table(of, "fall_transition"))
                });
                Pin {
                    name: args[0].clone(),
                    output: attribute(pin, "direction") == Some("output"),
                    clock: attribute(pin, "clock") == Some("true"),
                    capacitance: number(pin, "capacitance"),
                    function: None,
                    energy: energy.collect(),
                    transitions: transitions.collect(),
                }
            })
            .collect();
        let inputs: Vec<String> = pins.iter().filter(|pin| !pin.output).map(|pin| pin.name.clone()).collect();
        // What has a state is no function of its inputs.
        let has_state = flip_flop.is_some() || groups(body, "latch").next().is_some();
        if !has_state && inputs.len() <= 6 {
            for (args, pin) in groups(body, "pin") {
                let Some(text) = attribute(pin, "function").filter(|_| attribute(pin, "three_state").is_none()) else {
                    continue;
                };
                let function = super::function::truth_table(text, &inputs)?;
                pins.iter_mut().filter(|pin| pin.name == args[0]).for_each(|pin| pin.function = Some(function));
            }
        }
        let (area, leakage) = (number(body, "area"), number(body, "cell_leakage_power"));
        Ok(Cell { area, leakage, flip_flop: rising, pins })
    }

    /// Inputs, in the order in which functions count them.
    pub fn inputs(&self) -> impl Iterator<Item = &Pin> {
        self.pins.iter().filter(|pin| !pin.output)
    }
    /// Outputs.
    pub fn outputs(&self) -> impl Iterator<Item = &Pin> {
        self.pins.iter().filter(|pin| pin.output)
    }
    /// A pin by its name.
    pub fn pin(&self, name: &str) -> Option<&Pin> {
        self.pins.iter().find(|pin| pin.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        /* a comment */
        library(tiny) {
          time_unit : "1ns"; leakage_power_unit : "1nW"; capacitive_load_unit (1,pf);
          nom_voltage : 2; nom_temperature : 25; default_operating_conditions : typical;
          cell (NAND2) {
            area : 8; cell_leakage_power : 0.5;
            pin(A) { direction : input; capacitance : 0.01; }
            pin(B) { direction : input; capacitance : 0.02; }
            pin(Y) {
              direction : output; function : "(!(A B))";
              internal_power() {
                related_pin : "A";
                rise_power(t) { index_1 ("0.1, 0.3"); index_2 ("0, 1"); values ("1, 2", \
                  "3, 4"); }
                fall_power(t) { index_1 ("0.1, 0.3"); index_2 ("0, 1"); values ("0, 0", "0, 0"); }
              }
            }
          }
          cell (DFF) {
            area : 16;
            ff (S, N) { next_state : "D"; clocked_on : "CLK"; }
            pin(CLK) { direction : input; clock : true; capacitance : 0.03; }
            pin(D) { direction : input; }
            pin(Q) { direction : output; function : "S"; }
          }
        }"#;

    #[test]
    fn a_library_is_what_is_written() {
        let library = Library::read(TEXT).unwrap();
        assert_eq!((library.name.as_str(), library.voltage), ("tiny", 2.0));
        assert_eq!(library.corner, "typical 2 V 25 C");
        let nand = &library.cells["NAND2"];
        assert_eq!((nand.area, nand.leakage, nand.flip_flop), (8.0, 0.5, false));
        assert_eq!(nand.pin("Y").unwrap().function, Some(0b0111));
        assert_eq!(nand.inputs().map(|pin| pin.capacitance).collect::<Vec<_>>(), [0.01, 0.02]);
        let rise = &nand.pin("Y").unwrap().energy[0].rise;
        // In the middle, at an edge, and outside.
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(rise.at(0.2, 0.5), 2.5);
        close(rise.at(0.1, 0.5), 1.5);
        close(rise.at(9.0, 9.0), 4.0);
        let dff = &library.cells["DFF"];
        assert!(dff.flip_flop && dff.pin("CLK").unwrap().clock && dff.pin("Q").unwrap().function.is_none());
    }

    #[test]
    fn other_units_are_refused() {
        let why = |text: &str| Library::read(text).unwrap_err();
        assert!(why(&TEXT.replace("1ns", "1ps")).contains("time_unit"));
        assert!(why(&TEXT.replace("(1,pf)", "(1,ff)")).contains("capacitive_load_unit"));
        assert!(why("library(x) { /* ").contains("comment"));
    }
}
