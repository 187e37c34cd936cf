//! Are machine descriptions understood, and wrong ones refused with key, value and what is allowed?

use crate::cli::{DEFAULTS, Dir, each, farreach, fed, line, sweep};
use serde_json::Value;

fn presets() -> Vec<String> {
    let list = line("machines --json").good().json();
    list.as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn wrong_descriptions() {
    let dir = Dir::new();
    let trace = dir.write("t", sweep(3, 1));
    let toml = |name: &str, text: &str| dir.write(name, text);
    let missing = dir.path("missing.toml");
    let syntax = toml("syntax.toml", "kind = \"single\"\nentries = = 3\n");
    let twice = toml("twice.toml", "kind = \"single\"\n\nentries = 1\nentries = 2\n");
    let unknown = toml("unknown.toml", "kind = \"single\"\nentires = 3\n");
    let about = toml("about.toml", "kind = \"single\"\nabout = 3\n");
    let number = toml("number.toml", "kind = 3\n");
    let none = toml("none.toml", "");
    let other = dir.write("other.toml", b"about = \"\xe9\"\n");
    let large = toml("large.toml", &format!("kind = \"single\"\n{}", "# padding\n".repeat(120_000)));
    let long = toml("long.toml", &format!("about = {}", "[".repeat(500_000)));
    let nan = toml("nan.toml", "kind = \"single\"\ncpi = nan\n");
    let date = toml("date.toml", "kind = \"single\"\ncpi = 1979-05-27\n");
    for (machine, words) in [
        ("t94/nosuch", &["no preset 't94/nosuch'; `farreach machines` lists", "FILE.toml"][..]),
        ("t94/patrial", &["no preset 't94/patrial'; did you mean 't94/partial'? `farreach machines` lists"]),
        ("single", &["no preset 'single'; did you mean 't94/single'?"]),
        ("rmm15/2m", &["did you mean 'ps/2m', 'ds13/2m' or 'rmm15/4k'?"]),
        ("", &["no preset '';", "(t94, ps, "]),
        ("t94/single:entrys=3", &["unknown key 'entrys'; did you mean 'entries'? `farreach machines --keys single` "]),
        (
            "t94/partial:size=4K",
            &["unknown key 'size'; did you mean", "'page_size'", "--keys partial:placement=reservation` "],
        ),
        ("t94/single:xyzzy=4K", &["unknown key 'xyzzy'; `farreach machines --keys single` explains all"]),
        (
            "today/skylake:dpp_threshold=3",
            &["unknown key 'dpp_threshold': it comes with behind = dppred; `farreach machines --keys hierarchy"],
        ),
        ("t94/single:entries=0", &["entries = 0", "1 to 65536"]),
        ("t94/single:entries=65537", &["entries = 65537", "1 to 65536"]),
        ("t94/single:entries=many", &["entries = many", "1 to 65536"]),
        ("t94/single:entries=18446744073709551616", &["18446744073709551616", "1 to 65536"]),
        ("t94/single:entries=1,entries=2", &["'entries' is given twice"]),
        ("t94/single:entries", &["'entries'", "key=value"]),
        ("t94/single:kind=other", &["kind = 'other'", "single, superpage"]),
        ("t94/single:kind=cluster", &["kind = 'cluster'", "single, superpage", "; did you mean 'clustered'?"]),
        (
            "t94/single:placement=segmnet",
            &["placement = 'segmnet'", "demand, reservation", "; did you mean 'segment'?"],
        ),
        ("sv97/softvm:table=radiks", &["table = radiks", "linear, radix", "; did you mean 'radix'?"]),
        ("t94/single:replacement=clock", &["replacement = clock", "used-bit, lru, plru, fifo, random, lfsr"]),
        (
            "t94/single:replacement=fifi",
            &["replacement = fifi", "used-bit, lru, plru, fifo, random, lfsr; did you mean 'fifo'?"],
        ),
        ("t94/single:cpi=inf", &["cpi = inf", "number"]),
        ("t94/partial:factor=3", &["factor = 3", "power of two from 1 to 64"]),
        ("t94/partial:factor=128", &["factor = 128", "power of two from 1 to 64"]),
        ("t94/single:entries=10,ways=3", &["ways = 3", "multiple of ways"]),
        ("t94/single:entries=12,ways=4", &["ways = 4", "3 sets", "power of two"]),
        ("t94/superpage:ways=4", &["ways = 4", "sizes"]),
        ("t94/superpage:sizes=64K+4K", &["sizes = 64K+4K", "ascending"]),
        ("t94/superpage:sizes=3K", &["sizes = 3K", "powers of two"]),
        ("t94/single:memory=4097", &["memory = 4097", "base pages of 4K"]),
        ("t94/single:memory=1", &["memory = 1", "at least 4K"]),
        ("t94/single:memory=9999999999T", &["memory"]),
        ("t94/single:fragmentation=0.5", &["fragmentation = 0.5", "memory=1G"]),
        ("t94/single:fragmentation=1.5,memory=1G", &["fragmentation = 1.5", "0 to 0.99"]),
        ("t94/single:memory=1G,pattern=/nonexistent/p", &["/nonexistent/p", "No such file"]),
        (&missing, &["missing.toml", "No such file"]),
        (&syntax, &["syntax.toml", "line 2", "column 11"]),
        (&twice, &["twice.toml", "line 4", "duplicate key"]),
        (&unknown, &["unknown.toml", "unknown key 'entires'", "entries"]),
        (&about, &["about.toml", "about = 3", "text"]),
        (&number, &["number.toml", "kind = '3'", "single, superpage"]),
        (&none, &["none.toml", "'kind' is missing", "single, superpage"]),
        (&other, &["other.toml", "byte 9", "UTF-8"]),
        (&large, &["large.toml", "larger than 1M"]),
        (&long, &["long.toml", "line 1", "[[[..."]),
        ("t94/single:kind=", &["kind = ''", "single, superpage"]),
        (&nan, &["nan.toml", "cpi = nan", "a number from"]),
        (&date, &["date.toml", "cpi = 1979-05-27 is not allowed"]),
    ] {
        farreach(["sim", &trace, "-m", machine]).bad(1, words);
        farreach(["sim", &trace, "-m", "t94/single", "-m", machine, "--csv"]).bad(1, &[]);
    }
    let ran = farreach(["sim", &trace, "-m", &missing]);
    assert_eq!(ran.err.matches("No such file").count(), 1, "{}", ran.err);
    line("machines nosuch").bad(1, &["no preset 'nosuch'", "group of them (t94, ps, ", ", all)"]);
    // A group has no keys of its own, and an override that one of its machines refuses is refused.
    line("machines --keys ds13").bad(1, &["no preset 'ds13'; did you mean 'ds13/4k', 'ds13/2m' or 'ds13/1g'?"]);
    farreach(["sim", &trace, "-m", "ds13:segments=2"])
        .bad(1, &["machine 'ds13/4k:segments=2'", "unknown key 'segments'"]);
    line("machines --keys").bad(2, &["NAME"]);
    line("machines t94/single --keys --json").bad(2, &["--keys", "--json"]);
}

#[test]
fn a_group_means_all_its_presets() {
    let dir = Dir::new();
    // Some presets need fetches.
    let trace = dir.write("t", format!("I  00001000,4\n{}", sweep(3, 1)));
    let names = |args: &str| {
        let result = line(&format!("sim {trace} --json {args}")).good().json();
        let machines = result["machines"].as_array().unwrap();
        machines.iter().map(|m| m["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let ds13 = ["ds13/4k", "ds13/2m", "ds13/1g", "ds13/segment"];
    assert_eq!(names("-m ds13"), ds13);
    assert_eq!(names("-m t94/single -m ds13:walk_levels=5")[1..], ds13.map(|m| format!("{m}:walk_levels=5")));
    let by_name_alone = ["ds13/kernel", "since/opt"];
    let in_groups = presets().into_iter().filter(|name| !by_name_alone.contains(&name.as_str()));
    assert_eq!(names("-m all"), in_groups.collect::<Vec<_>>());
    let listed = |group: &str| line(&format!("machines {group} --json")).good().json().as_array().unwrap().len();
    assert_eq!((listed("ds13"), listed("all")), (5, presets().len()));
    let text = line("machines ds13").good().out;
    assert!(text.contains("ds13/segment") && !text.contains("t94/single"), "{text}");
}

#[test]
fn every_preset_survives_being_printed_and_read() {
    let dir = Dir::new();
    let all = presets();
    assert!(DEFAULTS.iter().all(|d| all.iter().any(|p| p == d)));
    let trace = dir.write("t", format!("I  00001000,4\n{}", sweep(300, 2)));
    for preset in &all {
        let toml = dir.write("mine.toml", line(&format!("machines {preset}")).good().out);
        let config = |name: &str| farreach(["machines", name, "--json"]).good().json();
        assert_eq!(config(preset), config(&toml), "{preset}");
        if config(preset)["placement"] == "guest" {
            // This trace has no page tables of its own.
            farreach(["sim", &trace, "-m", preset]).bad(1, &["placement", "guest"]);
        } else {
            let result = farreach(["sim", &trace, "--json", "-m", preset, "-m", &toml]).good().json();
            let (a, b) = (&result["machines"][0], &result["machines"][1]);
            assert_eq!((&a["config"], &a["counts"], &a["cost"]), (&b["config"], &b["counts"], &b["cost"]), "{preset}");
            assert_eq!((a["name"].as_str(), b["name"].as_str()), (Some(preset.as_str()), Some(toml.as_str())));
        }
        // Overrides work on both.
        let keys = ["entries", "l1_entries", "pwc_pd", "id_bits", "mlb_entries"];
        let key = keys.into_iter().find(|key| config(preset).get(key).is_some()).expect("a number that every kind has");
        let small = |name: &str| config(&format!("{name}:{key}=8"))[key].as_u64();
        assert_eq!((small(preset), small(&toml)), (Some(8), Some(8)));
    }
}

/// A seed in the description is part of it; without one, `--seed` decides.
#[test]
fn a_seed_survives_being_printed() {
    let dir = Dir::new();
    // TOML has no whole numbers beyond 2^63 - 1; seeds go to 2^64 - 1.
    let largest = format!(":seed={}", u64::MAX);
    for (seed, printed) in [
        ("", "\n# seed = 0\n"),
        (":seed=0", "\nseed = 0\n"),
        (":seed=7", "\nseed = 7\n"),
        (&largest, "\nseed = \"18446744073709551615\"\n"),
    ] {
        let toml = line(&format!("machines t94/set-associative{seed}")).good().out;
        assert!(toml.contains(printed), "{seed}: {toml}");
        let again = farreach(["machines", &dir.write("again.toml", &toml)]).good().out;
        assert_eq!(toml, again, "{seed}");
    }
}

/// A colon in the path is no end of the path.
#[test]
fn a_file_may_lie_anywhere() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("a:b")).unwrap();
    let entries = |name: &str| farreach(["machines", name, "--json"]).good().json()["entries"].as_u64();
    let file = dir.write("a:b/m.toml", "kind = \"single\"\nentries = 3\n");
    assert_eq!((entries(&file), entries(&format!("{file}:entries=5"))), (Some(3), Some(5)));
    // A file name behind a key is not the name of a machine.
    for name in ["t94/single:pattern=x.toml", &format!("{file}:pattern=x.toml")] {
        assert_eq!(farreach(["machines", name, "--json"]).good().json()["pattern"], "x.toml");
    }
    farreach(["machines", &dir.path("a:b/none.toml")]).bad(1, &["a:b/none.toml", "No such file"]);
}

/// There is one zero, also if it is written with a sign.
#[test]
fn zero_has_no_sign() {
    let ran = fed(["sim", "-", "-m", "t94/single:penalty=-0"], sweep(3, 1).as_bytes()).good();
    assert!(ran.out.contains("a penalty in cycles of 0."), "{}", ran.out);
}

#[test]
fn keys_are_explained() {
    for preset in presets() {
        let text = line(&format!("machines {preset} --keys")).good().out;
        let config = line(&format!("machines {preset} --json")).good().json();
        for key in config.as_object().unwrap().keys() {
            assert!(text.contains(&format!("\n{key} = ")), "{preset}: {key} in {text}");
        }
    }
}

/// More machines than one pass of the loop takes: the results are those of each alone.
#[test]
fn forty_machines_at_once() {
    let mut text = sweep(100, 3);
    (0..2000u64).for_each(|i| {
        text += &format!("I  {:x},4\n S {:x},8\n", 4096 + i * 52, 0x5000_0000 + (i * i * 7919) % 2_000_000)
    });
    let kinds = ["single", "superpage", "partial", "complete"];
    let machines: Vec<String> = (0..40).map(|i| format!("t94/{}:entries={}", kinds[i % 4], 2 + i)).collect();
    let run = |machines: &[String]| {
        let args = machines.iter().flat_map(|m| ["-m", m.as_str()]);
        fed(["sim", "-", "--json"].into_iter().chain(args), text.as_bytes()).good().json()
    };
    let without_ledger = |m: &Value| {
        // Its lines compare with the first machine of the run.
        let mut m = m.clone();
        m.as_object_mut().unwrap().remove("ledger");
        m
    };
    let all = run(&machines);
    assert_eq!(all["machines"].as_array().unwrap().len(), 40);
    for i in [0, 1, 13, 31, 32, 33, 39] {
        let alone = run(&machines[i..=i]);
        assert_eq!(without_ledger(&all["machines"][i]), without_ledger(&alone["machines"][0]), "{}", machines[i]);
        assert_eq!(all["workload"], alone["workload"]);
    }
    // The same machine twice is two rows.
    let same = run(&["t94/single".to_owned(), "t94/single".to_owned()]);
    assert_eq!(same["machines"][0]["counts"], same["machines"][1]["counts"]);
}

/// Machines of both families in one run: the same JSON, with blocks of their own for those with caches.
#[test]
fn machines_with_caches_stand_beside_tlbs() {
    let mut text = sweep(60, 3);
    (0..3000u64).for_each(|i| {
        text += &format!("I  {:x},4\n S {:x},8\n", 4096 + i * 52, 0x5000_0000 + (i * i * 7919) % 2_000_000)
    });
    let all = ["-m", "sv97/softvm:l2_size=64K", "-m", "t94/single", "-m", "sv97/mips:entries=16", "-m", "sv97/x86"];
    let run = |form: &'static str| {
        let args = ["sim", "-", form].into_iter().filter(|a| !a.is_empty()).chain(all);
        fed(args, text.as_bytes()).good()
    };
    let result = run("--json").json();
    let instructions = result["workload"]["instructions"].as_u64().unwrap();
    for (i, name) in ["sv97/softvm:l2_size=64K", "t94/single", "sv97/mips:entries=16", "sv97/x86"].iter().enumerate() {
        let m = &result["machines"][i];
        assert_eq!(m["name"].as_str(), Some(*name));
        assert_eq!(m["counts"]["page_faults"], result["machines"][1]["counts"]["page_faults"], "{name}");
        let n = |part: &str, key: &str| m[part][key].as_u64().unwrap();
        assert_eq!(n("counts", "misses"), n("counts", "fetch_misses") + n("counts", "data_misses"));
        assert!(n("counts", "misses") > 0 && n("cost", "cycles") > 0, "{name}");
        if *name == "t94/single" {
            assert!(m.get("system").is_none() && m.get("overhead").is_none());
            continue;
        }
        assert!(m["system"]["fetch"]["accesses"].as_u64().unwrap() >= instructions, "{name}");
        let cpi: f64 = m["overhead"].as_array().unwrap().iter().map(|row| row["cpi"].as_f64().unwrap()).sum();
        let of_cost = m["cost"]["cycles_per_instruction"].as_f64().unwrap();
        assert!(
            (cpi - of_cost).abs() < 1e-9 * of_cost.max(1.0) + 1.0 / instructions as f64,
            "{name}: {cpi} and {of_cost}"
        );
        assert!(m["config"].get("penalty").is_none(), "a TLB miss has no one price here");
    }
    let table = run("").out;
    assert!(table.contains("What translation costs") && table.contains("sv97/mips:entries=16 data"), "{table}");
    let csv = run("--csv").out;
    assert!(csv.contains("system.handler.upte_loads") && csv.contains("system.data.events"), "{csv}");
    farreach(["sim", "-", "-m", "sv97/softvm:penalty=3"]).bad(1, &["unknown key 'penalty'", "--keys softvm` explains"]);
}

/// A kind of hardware stands for a machine of it with every key at its default: the command that a message about
/// unknown keys names works.
#[test]
fn a_kind_is_explained_and_printed() {
    let dir = Dir::new();
    for (kind, key) in
        [("single", "entries = 64\n"), ("softvm", "handler_cycles = "), ("single:placement=reservation", "region = ")]
    {
        let text = line(&format!("machines --keys {kind}")).good().out;
        assert!(text.starts_with(&format!("{kind}: ")) && text.contains(key), "{text}");
        let toml = dir.write("mine.toml", line(&format!("machines {kind}")).good().out);
        let config = |name: &str| farreach(["machines", name, "--json"]).good().json();
        assert_eq!(config(kind), config(&toml));
    }
    line("machines single:entires=3").bad(1, &["unknown key 'entires'; did you mean 'entries'?"]);
}

/// The reference of all keys names every key that a machine of any kind, on any policy, can have; and the book has this
/// very text.
#[test]
fn the_reference_has_every_key() {
    use farreach_machine::{Hardware, MachineSpec};
    let text = line("machines --keys --markdown").good().out;
    let row = |key: &str| format!("| `{key}` | ");
    let section = |key: &str, name: &str| {
        let heading = format!("\n### `{key} = \"{name}\"`\n");
        let (_, rest) = text.split_once(&heading).unwrap_or_else(|| panic!("no section {heading}"));
        rest.split("\n##").next().unwrap()
    };
    let (designs, systems) = (farreach_hw::tlb::DESIGNS.iter(), farreach_hw::system::SYSTEMS.iter());
    let hardware: Vec<Hardware> =
        designs.map(|d| Hardware::Tlb(d)).chain(systems.map(|s| Hardware::System(s))).collect();
    for part in &hardware {
        let (kind, keys) = match part {
            Hardware::Tlb(design) => (design.kind, design.keys),
            Hardware::System(system) => (system.kind, system.keys),
        };
        let section = section("kind", kind);
        keys.iter().for_each(|key| assert!(section.contains(&row(key.name)), "{} of {kind}", key.name));
        for policy in farreach_os::placement::PLACEMENTS {
            let given = [("placement".to_owned(), policy.name.into())].into_iter().collect();
            for key in MachineSpec::keys(*part, &given) {
                assert!(text.contains(&row(key.name)), "{} of {kind} with {}", key.name, policy.name);
            }
        }
    }
    for policy in farreach_os::placement::PLACEMENTS {
        let section = section("placement", policy.name);
        policy.keys.iter().for_each(|key| assert!(section.contains(&row(key.name)), "{} of {}", key.name, policy.name));
    }
    // Every row has the same number of cells: a `|` in a cell is escaped.
    text.lines()
        .filter(|line| line.starts_with("| "))
        .for_each(|line| assert_eq!(line.matches(" | ").count(), 3, "{line}"));
    let book = crate::common::root().join("docs/book/src/generated/keys.md");
    let printed = std::fs::read_to_string(&book).unwrap();
    assert!(printed == text, "{}: the keys are others now; `make book` takes them over", book.display());
    line("machines --keys --markdown t94/single").bad(2, &["--markdown"]);
    line("machines --markdown").bad(2, &["--keys"]);
}

/// The choices of a key are listed with it, also where they are a registry.
#[test]
fn keys_of_registries_name_what_is_in_them() {
    for (machine, names) in [
        ("t94/single", "    one of single, superpage, "),
        (
            "t94/single",
            "    one of demand, reservation, navarro, freebsd, quicksilver, tps, two-size, thp, linux, ingens, ",
        ),
        ("sv97/softvm", "    one of linear, radix, hashed, clustered, guarded\n"),
    ] {
        let text = farreach(["machines", "--keys", machine]).good().out;
        assert!(text.contains(names), "{text}");
    }
}

#[test]
fn the_seed_changes_random_replacement_only() {
    let text: String =
        (0..6000u64).map(|i| format!(" L {:x},8\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55 << 12)).collect();
    let run = |seed: &str| fed(["sim", "-", "--json", "--seed", seed], text.as_bytes()).good();
    let (a, b, c) = (run("1"), run("1"), run("2"));
    assert_eq!(a.out, b.out, "the same input and seed give the same bytes");
    let (a, c) = (a.json(), c.json());
    assert_eq!((a["workload"]["seed"].as_u64(), c["workload"]["seed"].as_u64()), (Some(1), Some(2)));
    let (ma, mc) = (each(&a, "misses"), each(&c, "misses"));
    assert_eq!(ma[..4], mc[..4]);
    assert_ne!(ma[4], mc[4], "random replacement");
    for i in 0..4 {
        assert_eq!(a["machines"][i]["counts"], c["machines"][i]["counts"]);
        assert_eq!(a["machines"][i]["config"]["seed"], 1);
    }
    // A seed in the machine's own description decides.
    let own =
        fed(["sim", "-", "--json", "--seed", "9", "-m", "t94/set-associative:seed=2"], text.as_bytes()).good().json();
    assert_eq!(own["machines"][0]["counts"], c["machines"][4]["counts"]);
}

/// What is printed of this processor is a machine like any other, and `this` is a name for it.
#[test]
fn this_processor_is_a_machine() {
    let dir = Dir::new();
    let toml = line("machines --this").good().out;
    let file = dir.write("this.toml", &toml);
    let config = |name: &str| farreach(["machines", name, "--json"]).good().json();
    assert_eq!(config(&file), config("this"));
    assert_eq!(config("this:placement=thp")["placement"], "thp");
    let ran = fed(["sim", "-", "-m", "this", "-m", &file, "--json"], sweep(3, 100).as_bytes()).good().json();
    assert_eq!(ran["machines"][0]["counts"], ran["machines"][1]["counts"]);
    line("machines --this t94/single").bad(2, &["--this", "cannot be used with"]);
    line("machines --measure").bad(2, &["--this"]);
}

/// A short measurement has curves with medians between quartiles, and prints a machine.
#[test]
fn this_processor_is_measured() {
    let dir = Dir::new();
    let page = dir.path("tlbs.html");
    let words = ["machines", "--this", "--measure", "--repetitions", "2", "--memory", "64M", "--html", &page];
    let ran = farreach(words);
    assert!(ran.status == 0 && ran.err == format!("farreach: report in {page}\n"), "{}", ran.err);
    let toml = ran.out;
    assert!(toml.starts_with("# this processor") || toml.starts_with("# a processor"), "{toml}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("Pages of 4K"));
    farreach(["machines", &dir.write("this.toml", &toml)]).good();
    let found = line("machines --this --measure --repetitions 1 --memory 64M --json").good().json();
    assert_eq!(found["schema"], "farreach.tlbs/1");
    for curve in found["curves"].as_array().unwrap() {
        for point in curve["points"].as_array().unwrap() {
            let [low, middle, high] = ["low", "cycles", "high"].map(|key| point[key].as_f64().unwrap());
            assert!(low <= middle && middle <= high && point["load_cycles"].as_f64().unwrap() > 0.0, "{point}");
        }
    }
    line("machines --this --measure --memory 1M").bad(1, &["--memory 1M", "64M or more"]);
}
