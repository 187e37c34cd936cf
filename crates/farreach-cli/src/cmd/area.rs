//! `farreach area`: the area model on its own.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use farreach::cost::area::area_rbe;
use farreach::hw::tlb::bits::{EntryKind, MAX_FACTOR, entry_bits};
use serde_json::json;

/// Largest TLB the command takes; beyond it a fully associative array is fiction anyway.
const MAX_ENTRIES: u64 = 65536;

/// Chip area of a fully associative TLB, in register-bit equivalents (rbe)
///
/// One bit of a register is 1 rbe, a RAM bit 0.6, a bit that is compared in parallel 1.2; drivers, sense amplifiers and control
/// logic come on top. Virtual addresses have 64 bits, physical ones 48, pages are 4 KB, process ids have 12 bits.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  farreach area partial
  farreach area complete --entries 45 --factor 4 --json")]
pub struct AreaArgs {
    /// Kind of entry
    #[arg(value_parser = PossibleValuesParser::new(EntryKind::ALL.map(EntryKind::name)).map(|name| EntryKind::from_name(&name).expect("one of the names")))]
    kind: EntryKind,
    /// Number of entries, from 1 to 65536
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=MAX_ENTRIES))]
    entries: u64,
    /// Base pages per tag of complete and partial entries: a power of two from 1 to 64
    #[arg(long, value_name = "F", default_value_t = 16, value_parser = factor)]
    factor: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn factor(text: &str) -> Result<u64, String> {
    let allowed = |n: &u64| n.is_power_of_two() && *n <= MAX_FACTOR;
    text.parse().ok().filter(allowed).ok_or_else(|| format!("must be a power of two from 1 to {MAX_FACTOR}"))
}

/// Prints the area.
pub fn run(args: AreaArgs) -> anyhow::Result<()> {
    let text = if args.json { as_json(&args) } else { for_people(&args) };
    super::common::print(&text)
}

fn rbe(args: &AreaArgs) -> f64 {
    area_rbe(args.entries, entry_bits(args.kind, args.factor))
}

fn as_json(args: &AreaArgs) -> String {
    let value = json!({"kind": args.kind.name(), "entries": args.entries, "factor": args.factor, "rbe": rbe(args)});
    format!("{value}\n")
}

fn for_people(args: &AreaArgs) -> String {
    let bits = entry_bits(args.kind, args.factor);
    let plural = |n: u64| if n == 1 { "" } else { "s" };
    let pages =
        if args.kind.has_subblocks() { format!(" of {} page{}", args.factor, plural(args.factor)) } else { String::new() };
    let entries = if args.entries == 1 { "entry" } else { "entries" };
    let reference = area_rbe(64, entry_bits(EntryKind::Superpage, 1));
    format!(
        "{kind}, {n} {entries}{pages}\n  \
           bits per entry  {tag} tag, {data} data, {status} status\n  \
           area            {rbe:.1} rbe\n  \
           relative        {ratio:.3} x the 64-entry superpage TLB ({reference:.1} rbe)\n",
        kind = args.kind.name(),
        n = args.entries,
        tag = bits.tag,
        data = bits.data,
        status = bits.status,
        rbe = rbe(args),
        ratio = rbe(args) / reference,
    )
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
        Cli::try_parse_from(std::iter::once("area").chain(line.split_whitespace())).map(|c| c.area).map_err(|e| e.to_string())
    }

    #[test]
    fn json_has_the_fields_of_the_contract() {
        let text = as_json(&args("complete --entries 45 --factor 4 --json").unwrap());
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["kind"], &value["entries"], &value["factor"]), (&json!("complete"), &json!(45), &json!(4)));
        assert_eq!(format!("{:.1}", value["rbe"].as_f64().unwrap()), "9889.0");
    }

    #[test]
    fn people_get_bits_and_a_ratio() {
        let text = for_people(&args("partial").unwrap());
        for words in ["partial, 64 entries of 16 pages", "76 tag, 61 data, 1 status", "9557.2 rbe", "1.155 x"] {
            assert!(text.contains(words), "{text}");
        }
        assert!(for_people(&args("single --entries 1").unwrap()).starts_with("single, 1 entry\n"));
    }

    #[test]
    fn bad_values_are_refused_with_what_is_allowed() {
        for (line, words) in [
            ("sbngle", ["sbngle", "single, superpage, complete, partial"]),
            ("single --entries 0", ["0", "1..=65536"]),
            ("single --entries 65537", ["65537", "1..=65536"]),
            ("partial --factor 3", ["3", "a power of two from 1 to 64"]),
            ("partial --factor 128", ["128", "a power of two from 1 to 64"]),
        ] {
            let error = args(line).unwrap_err();
            assert!(words.iter().all(|w| error.contains(w)), "{error}");
        }
    }
}
