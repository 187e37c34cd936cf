//! `farreach area`: the area model on its own.

use clap::Args;
use clap::builder::PossibleValuesParser;
use farreach_cost::area::area_rbe;
use farreach_hw::tlb::{DESIGNS, Design, EntryBits, design, keys};
use farreach_types::params::{Key, Params};
use farreach_types::plural::with_noun;
use serde_json::{Map, Value, json};

/// Chip area of a fully associative TLB, in register-bit equivalents (rbe)
///
/// One bit of a register is 1 rbe, a RAM bit 0.6, a bit that is compared in parallel 1.2; drivers, sense amplifiers and
/// control logic come on top. Virtual addresses have 64 bits, physical ones 48, pages are 4 KB, process ids have 12
/// bits.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  farreach area partial
  farreach area complete --entries 45 --factor 4 --json")]
pub struct AreaArgs {
    /// Kind of TLB
    #[arg(value_parser = PossibleValuesParser::new(kinds()))]
    kind: String,
    /// Number of entries, from 1 to 65536
    #[arg(long, value_name = "N", default_value_t = 64, allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number(&keys::ENTRIES, text))]
    entries: u64,
    /// Base pages per tag of subblock entries: a power of two from 1 to 64. The other kinds have none
    #[arg(long, value_name = "F", default_value_t = 16, allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number(&keys::FACTOR, text))]
    factor: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Parses a value of a key with the limits that the designs have.
fn number(key: &Key, text: &str) -> Result<u64, String> {
    let value = key.check(&text.into())?;
    value.as_u64().ok_or_else(|| format!("{value} is not a number"))
}

/// The designs that the area model covers.
fn kinds() -> impl Iterator<Item = &'static str> {
    DESIGNS.iter().filter(|design| bits_of(design, &Map::new()).is_some()).map(|design| design.kind)
}

fn bits_of(design: &Design, given: &Map<String, Value>) -> Option<EntryBits> {
    (design.bits)(&Params::resolve(design.keys, given).ok()?)
}

fn has_subblocks(design: &Design) -> bool {
    design.keys.iter().any(|key| key.name == keys::FACTOR.name)
}

/// The design of this kind and the bits of its entries.
fn known(kind: &str, entries: u64, factor: u64) -> anyhow::Result<(&'static Design, EntryBits)> {
    let design = design(kind).ok_or_else(|| anyhow::anyhow!("there is no TLB of kind '{kind}'"))?;
    let mut given = Map::from_iter([(keys::ENTRIES.name.to_owned(), json!(entries))]);
    if has_subblocks(design) {
        given.insert(keys::FACTOR.name.to_owned(), json!(factor));
    }
    let bits = bits_of(design, &given).ok_or_else(|| anyhow::anyhow!("the area model does not cover '{kind}'"))?;
    Ok((design, bits))
}

/// Prints the area.
pub fn run(args: AreaArgs) -> anyhow::Result<()> {
    let text = if args.json { as_json(&args)? } else { for_people(&args)? };
    super::common::print(&text)
}

fn as_json(args: &AreaArgs) -> anyhow::Result<String> {
    let (design, bits) = known(&args.kind, args.entries, args.factor)?;
    let rbe = area_rbe(args.entries, bits);
    let value = json!({"kind": design.kind, "entries": args.entries, "factor": args.factor, "rbe": rbe});
    Ok(format!("{value}\n"))
}

fn for_people(args: &AreaArgs) -> anyhow::Result<String> {
    let (design, bits) = known(&args.kind, args.entries, args.factor)?;
    let pages = if has_subblocks(design) { format!(" of {}", with_noun(args.factor, "page")) } else { String::new() };
    let rbe = area_rbe(args.entries, bits);
    let reference = area_rbe(64, known("superpage", 64, 1)?.1);
    Ok(format!(
        "{kind}, {entries}{pages}\n  \
           bits per entry  {tag} tag, {data} data, {status} status\n  \
           area            {rbe:.1} rbe\n  \
           relative        {ratio:.3} x the 64-entry superpage TLB ({reference:.1} rbe)\n",
        kind = design.kind,
        entries = with_noun(args.entries, "entry"),
        tag = bits.tag,
        data = bits.data,
        status = bits.status,
        ratio = rbe / reference,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        area: AreaArgs,
    }

    fn args(line: &str) -> Result<AreaArgs, String> {
        Cli::try_parse_from(std::iter::once("area").chain(line.split_whitespace()))
            .map(|c| c.area)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn json_has_the_fields_of_the_contract() {
        let text = as_json(&args("complete --entries 45 --factor 4 --json").unwrap()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["kind"], &value["entries"], &value["factor"]), (&json!("complete"), &json!(45), &json!(4)));
        assert_eq!(format!("{:.1}", value["rbe"].as_f64().unwrap()), "9889.0");
    }

    #[test]
    fn people_get_bits_and_a_ratio() {
        let text = for_people(&args("partial").unwrap()).unwrap();
        for words in ["partial, 64 entries of 16 pages", "76 tag, 61 data, 1 status", "9557.2 rbe", "1.155 x"] {
            assert!(text.contains(words), "{text}");
        }
        assert!(for_people(&args("single --entries 1").unwrap()).unwrap().starts_with("single, 1 entry\n"));
    }

    #[test]
    fn bad_values_are_refused_with_what_is_allowed() {
        for (line, words) in [
            ("sbngle", ["sbngle", "single, superpage, complete, partial"]),
            ("single --entries 0", ["entries = 0", "from 1 to 65536"]),
            ("single --entries 65537", ["entries = 65537", "from 1 to 65536"]),
            ("partial --factor 3", ["3", "a power of two from 1 to 64"]),
            ("partial --factor 128", ["128", "a power of two from 1 to 64"]),
        ] {
            let error = args(line).unwrap_err();
            assert!(words.iter().all(|w| error.contains(w)), "{error}");
        }
    }
}
