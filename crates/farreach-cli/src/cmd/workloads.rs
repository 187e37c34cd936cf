//! `farreach workloads`: the catalogue.

use super::common::{needs_file, note, own_path, print, whole};
use super::progress::{Display, Goal};
use super::record::TraceArgs;
use anyhow::{Result, ensure};
use clap::Args;
use farreach_live::Watch;
use farreach_machine::Progress;
use farreach_native::pages::{PageSize, once, page_size};
use farreach_report::format::{bytes, count, counted, shown};
use farreach_trace::frt::{Header, TraceWriter};
use farreach_trace::{Cut, Piece};
use farreach_types::addr::Bytes;
use farreach_types::count::parse_count;
use farreach_types::event::Source;
use farreach_workloads::{self as workloads, KernelSpec, Listed, Prepared, REFERENCES, Workload};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

/// List the catalogue of workloads, show one, make it ready, run it, or store its trace
///
/// Kernels are seeded algorithms that come with farreach: streams without a program, the same on every machine.
/// Programs are Debian packages with inputs made from a seed; a server runs with a load beside it. Both stand in for
/// benchmarks of the papers; none of them is such a benchmark.
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach workloads                                          the catalogue
  farreach workloads kernel/gups --trace -o gups.frt --size 256M --references 50000000
  farreach workloads ngspice --prepare --install              as root: packages, then inputs
  farreach workloads ngspice --run                            user time and peak memory
  farreach workloads ngspice --trace -o ngspice.frt --limit 100M
  farreach workloads memcached --trace -o memcached.frt       a server, until its load ends
  farreach workloads redis --trap --size 1G -- --sample auto  a server in its steady state, at a few times its own speed
  farreach sim workload:gups:size=256M                        a kernel, simulated as it runs
  farreach run -- farreach workloads kernel/gups --native     the same kernel as a real program
  farreach workloads gups --native --pages 4k,2m --size 1G --work 100000000    how much faster with huge pages: \
measured and predicted")]
pub struct WorkloadsArgs {
    /// A workload: KERNEL, kernel/KERNEL or PROGRAM.
    name: Option<String>,
    /// Print JSON (schema farreach.workloads/1).
    #[arg(long, conflicts_with_all = ["prepare", "run", "trace", "trap", "native"])]
    json: bool,
    /// Check that the packages are installed and make the inputs.
    #[arg(long, group = "act", requires = "name")]
    prepare: bool,
    /// Install what is missing with apt-get (as root).
    #[arg(long, requires = "prepare")]
    install: bool,
    /// Run it as it is; print user seconds and peak memory.
    #[arg(long, group = "act", requires = "name")]
    run: bool,
    /// Store its trace: a program is recorded, a kernel generates it.
    #[arg(long, group = "act", requires = "name", requires = "output")]
    trace: bool,
    /// Run it as `farreach trap` does, a server until its load has ended; misses of a server count once it is filled.
    /// The options of `farreach trap` come after `--`.
    #[arg(long, group = "act", requires = "name")]
    trap: bool,
    /// Run a kernel in this process on real memory; print what it computed.
    #[arg(long, group = "act", requires = "name")]
    native: bool,
    /// Run it again and again, on pages of each of these sizes, such as 4k,64k,2m: how many times as fast as on 4 KB
    /// pages, beside what the hierarchies of today predict.
    #[arg(long, value_name = "SIZES", requires = "native")]
    #[arg(value_delimiter = ',', value_parser = page_size)]
    pages: Vec<PageSize>,
    /// Rounds of that.
    #[arg(long, value_name = "N", requires = "pages")]
    #[arg(default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// With one size in --pages: run once, in this process, and print what was measured as JSON.
    #[arg(long, requires = "pages", conflicts_with = "rounds")]
    once: bool,
    /// The trace file.
    #[arg(long, short, value_name = "FILE", requires = "trace")]
    output: Option<PathBuf>,
    /// Stop the trace after N instructions, such as 20M.
    #[arg(long, value_name = "N", requires = "trace", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    limit: Option<u64>,
    /// Footprint of a kernel, or size of a program's first made input.
    #[arg(long, value_name = "SIZE", requires = "act")]
    size: Option<Bytes>,
    /// Data references of a kernel [default: 10M].
    #[arg(long, visible_alias = "work", value_name = "N", requires = "act")]
    #[arg(value_parser = parse_count::<1>, allow_negative_numbers = true)]
    references: Option<u64>,
    /// Seed of a kernel, or of a program's inputs [default: 0].
    #[arg(long, value_name = "N", requires = "act", value_parser = whole::<0>, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// With --trap: its options.
    #[arg(last = true, value_name = "TRAP OPTIONS", requires = "trap")]
    options: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: WorkloadsArgs) -> Result<ExitCode> {
    let size = args.size.map(|size| size.0);
    let kernel_spec = KernelSpec { size, references: args.references, seed: args.seed, ..KernelSpec::default() };
    let Some(name) = &args.name else {
        print(&if args.json { format!("{:#}\n", as_json(&workloads::catalogue())) } else { table() })?;
        return Ok(ExitCode::SUCCESS);
    };
    let workload = workloads::find(name)?;
    if args.native {
        return native(workload, &kernel_spec, &args);
    }
    if args.prepare {
        return prepare(name, workload, &kernel_spec, args.install);
    }
    if args.trap {
        return super::trap::run_prepared(&workloads::steady(name, &kernel_spec, &own_path()?)?, &args.options);
    }
    if args.run {
        return measure(name, &workloads::command(name, &kernel_spec, &own_path()?)?);
    }
    match (args.output, workload) {
        (Some(output), Workload::Kernel(kernel)) => {
            let source = kernel.source(&kernel_spec.settings(kernel))?;
            let settings = kernel_spec.settings(kernel);
            let more = [("size", settings.size), ("references", settings.references), ("seed", settings.seed)];
            let header = Header {
                program: format!("kernel/{}", kernel.name),
                recorder: format!("farreach {} (kernel)", env!("CARGO_PKG_VERSION")),
                environment: more.map(|(key, value)| (key.to_owned(), value.to_string())).into_iter().collect(),
                ..Header::default()
            };
            store(source, &output, header, args.limit)
        }
        (Some(output), Workload::Program(_)) => {
            let prepared = workloads::command(name, &kernel_spec, &own_path()?)?;
            super::program::check(&prepared.command)?;
            let header = farreach_workloads::header(&prepared.command)?;
            let to = TraceArgs { output, skip: None, limit: args.limit, pages_only: false };
            let report = super::record::store(&to, None, header, || Ok(prepared.record()?))?;
            Ok(super::record::status(&report, super::program::exit_code))
        }
        (None, _) => {
            print(&if args.json { format!("{:#}\n", as_json(&[Listed::of(workload)])) } else { details(workload)? })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn native(workload: Workload, kernel_spec: &KernelSpec, args: &WorkloadsArgs) -> Result<ExitCode> {
    match workload {
        Workload::Kernel(kernel) if args.once => {
            let [size] = args.pages[..] else { anyhow::bail!("--once: --pages must have one size") };
            let measured = once(kernel, &kernel_spec.settings(kernel), size)?;
            print(&(serde_json::to_string(&measured)? + "\n"))?;
        }
        Workload::Kernel(kernel) if !args.pages.is_empty() => {
            super::native::compare(kernel, &kernel_spec.settings(kernel), &args.pages, args.rounds)?;
        }
        Workload::Kernel(kernel) => print(&format!("{:016x}\n", kernel.run_native(&kernel_spec.settings(kernel))?))?,
        Workload::Program(program) => {
            anyhow::bail!("--native is for kernels; {} is a program: --run runs it", program.name)
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn prepare(name: &str, workload: Workload, kernel_spec: &KernelSpec, install: bool) -> Result<ExitCode> {
    if let (Workload::Program(program), true) = (workload, install) {
        workloads::install(program, [std::io::stderr().into(), Stdio::inherit()])?;
    }
    let ready = workloads::command(name, kernel_spec, &own_path()?)?;
    let stdin = ready.stdin.as_ref().map_or(String::new(), |path| format!(" < {}", path.display()));
    let mut lines = format!("cd {}\n{}{stdin}", ready.directory.display(), shown(&ready.command));
    if let Some(load) = &ready.load {
        lines += " &";
        lines.extend(load.commands.iter().map(|words| format!("\n{}", shown(words))));
        lines += "\nkill $!";
    }
    print(&(lines + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn measure(name: &str, ready: &Prepared) -> Result<ExitCode> {
    let usage = ready.run()?;
    ensure!(usage.status.success(), "{name}: {}; its output is in {}", usage.status, ready.stdout.display());
    print(&format!("{name}: {:.2} user seconds, {} peak\n", usage.user.as_secs_f64(), bytes(usage.peak_bytes)))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a kernel's stream, up to the limit.
fn store(
    source: Box<dyn Source + Send>,
    output: &std::path::Path,
    header: Header,
    limit: Option<u64>,
) -> Result<ExitCode> {
    needs_file(output, "--output")?;
    let mut writer = TraceWriter::create(output, header)?;
    let mut display = Display::new(Goal { instructions: limit, references: None });
    let signals = Watch::begin();
    let mut source = Cut::new(source, Piece { limit, ..Piece::default() });
    while let Some(batch) = source.next_batch()? {
        writer.write(&batch)?;
        let totals = writer.totals();
        display.update(Progress { instructions: totals.instructions, references: totals.references() });
        ensure!(signals.take().0 == 0, "interrupted; {} was not written", output.display());
    }
    let totals = writer.finish()?;
    display.finish();
    let (instructions, references) = (totals.instructions, totals.references());
    let totals = format!("{}, {}", counted(instructions, "instruction"), counted(references, "reference"));
    note(format_args!("{}: {totals}", output.display()));
    Ok(ExitCode::SUCCESS)
}

fn table() -> String {
    let row = |listed: &Listed| match listed.workload {
        Workload::Kernel(k) => [
            format!("kernel/{}", k.name),
            k.stands_for.into(),
            "built in".into(),
            bytes(k.default_size),
            k.about.into(),
        ],
        Workload::Program(p) => {
            let state = if listed.is_installed() { "installed" } else { "missing" };
            [p.name.clone(), p.stands_for.clone(), state.into(), bytes(p.footprint), p.about.clone()]
        }
    };
    let mut rows: Vec<[String; 5]> = workloads::catalogue().iter().map(row).collect();
    rows.insert(0, ["name", "stands for", "package", "footprint", "about"].map(str::to_owned));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    let mut out = String::new();
    for [name, stands_for, state, footprint, about] in &rows {
        let [a, b, c, d] = widths;
        out += &format!("{name:a$}  {stands_for:b$}  {state:c$}  {footprint:>d$}  {about}\n");
    }
    out + "\nA workload stands for a benchmark of the papers; it is not that benchmark. `farreach workloads NAME` \
           tells more.\n"
}

fn as_json(listed: &[Listed]) -> Value {
    let rows: Vec<Value> = listed.iter().map(Listed::json).collect();
    json!({ "schema": "farreach.workloads/1", "workloads": rows })
}

fn details(workload: Workload) -> Result<String> {
    let mut out = String::new();
    match workload {
        Workload::Kernel(k) => {
            writeln!(out, "kernel/{}: {}\n", k.name, k.about)?;
            writeln!(out, "stands for  {}", k.stands_for)?;
            writeln!(out, "class       {}", k.class)?;
            let range = format!("from {} to {}, small {}", bytes(k.smallest), bytes(k.largest), bytes(k.small_size));
            writeln!(out, "size        {} by default, {range}", bytes(k.default_size))?;
            writeln!(out, "references  {} by default", count(REFERENCES))?;
            writeln!(out, "text        {}", counted(k.text_pages.into(), "page"))?;
            writeln!(
                out,
                "\nfarreach sim workload:{}\nfarreach workloads kernel/{} --trace -o {}.frt",
                k.name, k.name, k.name
            )?;
        }
        Workload::Program(p) => {
            let missing = Listed::of(workload).missing;
            writeln!(out, "{}: {}\n", p.name, p.about)?;
            writeln!(out, "stands for  {}", p.stands_for)?;
            writeln!(out, "kind        {}", p.kind)?;
            let state = |package: &String| {
                format!("{package} ({})", if missing.contains(package) { "missing" } else { "installed" })
            };
            writeln!(out, "packages    {}", p.packages.iter().map(state).collect::<Vec<_>>().join(", "))?;
            writeln!(out, "footprint   about {}", bytes(p.footprint))?;
            for input in &p.inputs {
                let made = match &input.maker {
                    Some(maker) => format!("made by {maker}, {}, seed {}", bytes(input.size), input.seed),
                    None => "part of the catalogue".to_owned(),
                };
                writeln!(out, "input       {}: {made}", input.file)?;
            }
            for step in &p.steps {
                writeln!(out, "prepared by {}", step.join(" "))?;
            }
            let stdin = p.stdin.as_ref().map_or(String::new(), |file| format!(" < {{{file}}}"));
            writeln!(out, "command     {}{stdin}", p.command.join(" "))?;
            if !p.steady_arguments.is_empty() {
                writeln!(out, "filled      {}", p.steady_arguments.join(" "))?;
            }
            for (what, commands) in [("load", &p.load), ("steady", &p.steady)] {
                for words in commands {
                    writeln!(out, "{what:12}{}", words.join(" "))?;
                }
            }
            writeln!(
                out,
                "\nfarreach workloads {} --prepare --install\nfarreach workloads {} --trace -o {}.frt",
                p.name, p.name, p.name
            )?;
        }
    }
    Ok(out)
}
