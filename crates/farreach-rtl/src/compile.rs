//! Modules as programs: Verilator makes C++ of them, which is compiled together with `rtl/harness.cpp`.

use crate::modules::{Extra, Module, Parameters};
use crate::sources::{SOURCES, needed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where programs are kept. Each is named by everything it depends on; a changed module gives another name.
#[derive(Clone, Debug)]
pub struct Compiler {
    dir: PathBuf,
    verilator: String,
    sources: Vec<(&'static str, String)>,
    say: fn(&str),
}

impl Compiler {
    /// Programs go into this folder.
    ///
    /// # Errors
    /// A tool is missing: it says which Debian package has it. Or the folder cannot be made, or others can write into
    /// it.
    pub fn new(dir: PathBuf) -> Result<Compiler, String> {
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        // What lies there is run.
        if let Some(how) = farreach_live::tool::changed_by_others(&dir) {
            return Err(format!(
                "{}, which {how}: programs are kept there and run; another folder is needed",
                dir.display()
            ));
        }
        let verilator = version("verilator", "--version", None, "verilator")?;
        version("make", "--version", None, "make")?;
        version("g++", "--version", None, "g++")?;
        let sources = SOURCES.iter().map(|s| (s.name, s.text.to_owned())).collect();
        Ok(Compiler { dir, verilator, sources, say: |_| {} })
    }

    /// The same, with something that is told what is being compiled.
    pub fn saying(self, say: fn(&str)) -> Compiler {
        Compiler { say, ..self }
    }

    /// The same for sources that differ in one place: to see that a mistake is found.
    ///
    /// # Errors
    /// There is no such file, or what is replaced is not there exactly once.
    pub fn edited(mut self, file: &str, from: &str, to: &str) -> Result<Compiler, String> {
        let source = self.sources.iter_mut().find(|(name, _)| *name == file);
        let (_, text) = source.ok_or_else(|| format!("{file}: there is no such file in rtl/"))?;
        match text.matches(from).count() {
            1 => *text = text.replacen(from, to, 1),
            n => return Err(format!("{file}: '{from}' is there {n} times, and not once")),
        }
        Ok(self)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The program of a module with these parameters.
    ///
    /// # Errors
    /// It cannot be compiled; all that the tools said is in the message.
    pub fn program(&self, module: &Module, parameters: &Parameters) -> Result<PathBuf, String> {
        let sources = needed(module.name, &self.sources);
        let options = options(module, parameters);
        let mut hasher = blake3::Hasher::new();
        let parts = sources.iter().flat_map(|(name, text)| [*name, text.as_str()]);
        let parts = parts.chain([self.verilator.as_str(), module.name]);
        for part in parts.chain(options.iter().map(String::as_str)) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let name = format!("{}-{}", module.name, &hasher.finalize().to_hex()[..16]);
        let program = self.dir.join(&name);
        if program.exists() {
            return Ok(program);
        }
        let size = parameters.get("ENTRIES").map_or(String::new(), |entries| format!(", {entries} entries"));
        (self.say)(&format!("compiling {}.sv{size}", module.name));
        let runtime = self.runtime()?;
        let work = self.work(&name);
        let built = build(&work, module, &options, &sources, &runtime);
        let done = built.and_then(|built| {
            fs::rename(&built, &program).map_err(|e| format!("{}: {e}", program.display()))?;
            Ok(program)
        });
        // A later attempt makes the folder again.
        let _ = fs::remove_dir_all(&work);
        done
    }

    /// A folder to build something in.
    fn work(&self, name: &str) -> PathBuf {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        self.dir.join(format!("{name}.{}.{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)))
    }

    /// The folder with Verilator's own part of every program, which takes longer to compile than most modules do.
    fn runtime(&self) -> Result<PathBuf, String> {
        let done = self.dir.join(format!("runtime-{}", &blake3::hash(self.verilator.as_bytes()).to_hex()[..16]));
        if done.exists() {
            return Ok(done);
        }
        let root = version("verilator", "--getenv", Some("VERILATOR_ROOT"), "verilator")?;
        let include = Path::new(&root).join("include");
        let work = self.work("runtime");
        fs::create_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
        for file in RUNTIME {
            let mut command = start("g++", "g++")?;
            command.arg("-I").arg(&include).arg("-I").arg(include.join("vltstd"));
            command.args(["-std=c++17", "-O1", "-DVM_TRACE=1", "-DVM_TRACE_FST=1", "-c"]);
            command.arg(include.join(format!("{file}.cpp"))).arg("-o").arg(work.join(format!("{file}.o")));
            run(&mut command, "Verilator's runtime")?;
        }
        // Another process may have been faster, with the same content.
        match fs::rename(&work, &done) {
            Err(e) if !done.exists() => Err(format!("{}: {e}", done.display())),
            _ => {
                let _ = fs::remove_dir_all(&work);
                Ok(done)
            }
        }
    }
}

/// The parts of it that a program with waveforms needs.
const RUNTIME: [&str; 3] = ["verilated", "verilated_fst_c", "verilated_threads"];

/// Runs a tool, which has to end well.
pub(crate) fn run(command: &mut Command, what: &str) -> Result<(), String> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let said = command.output().map_err(|e| format!("{tool}: {e}"))?;
    if said.status.success() {
        return Ok(());
    }
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    Err(format!("{what}: {tool} failed:\n{out}{err}"))
}

/// What a tool says of itself.
pub(crate) fn version(tool: &str, ask: &str, what: Option<&str>, package: &str) -> Result<String, String> {
    let said = start(tool, package)?.arg(ask).args(what).output().map_err(|e| format!("{tool}: {e}"))?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// A tool that is to be run.
pub(crate) fn start(tool: &str, package: &str) -> Result<Command, String> {
    farreach_live::tool::command(tool)
        .map_err(|why| format!("{why}; the Debian package {package} has it, `make rtl` installs what is missing"))
}

fn options(module: &Module, parameters: &Parameters) -> Vec<String> {
    let get = |name: &str, default: u64| parameters.get(name).unwrap_or(default);
    let mut flags = format!("-std=c++17 -DPFN_W={} -DATTR_W={}", get("PFN_W", 36), get("ATTR_W", 8));
    for extra in module.extra {
        flags += match extra {
            Extra::Line => " -DHAS_LINE",
            Extra::Memory => " -DHAS_ROOT -DHAS_MEMORY",
            Extra::Range => " -DHAS_RANGE",
        };
    }
    let mut all: Vec<String> = [
        "--cc --exe --trace-fst --prefix Vrtl -O3 --x-initial unique --x-assign fast",
        "--unroll-count 4096 --unroll-stmts 1000000",
    ]
    .iter()
    .flat_map(|line| line.split(' '))
    .map(str::to_owned)
    .collect();
    all.extend(["-CFLAGS".into(), flags]);
    all.extend(["--top-module".into(), module.name.into()]);
    all.extend(parameters.iter().map(|(name, value)| format!("-G{name}={value}")));
    all
}

fn build(
    work: &Path,
    module: &Module,
    options: &[String],
    sources: &[&(&'static str, String)],
    runtime: &Path,
) -> Result<PathBuf, String> {
    let io = |what: &Path| {
        let what = what.display().to_string();
        move |e: std::io::Error| format!("{what}: {e}")
    };
    fs::create_dir_all(work).map_err(io(work))?;
    for (name, text) in sources.iter().copied() {
        let file = work.join(name);
        fs::write(&file, text).map_err(io(&file))?;
    }
    let runtime = std::path::absolute(runtime).map_err(io(runtime))?;
    let harness = std::path::absolute(work.join("harness.cpp")).map_err(io(work))?;
    let mut command = start("verilator", "verilator")?;
    command.current_dir(work).args(options).args(["-Mdir", "made", "-I.", "-y", ".", "lint.vlt", "tlb_pkg.sv"]);
    run(command.arg(format!("{}.sv", module.name)).arg(&harness), module.name)?;
    let made = work.join("made");
    let objects = RUNTIME.map(|file| runtime.join(format!("{file}.o")).display().to_string()).join(" ");
    let mut command = start("make", "make")?;
    command.current_dir(&made).args(["-f", "Vrtl.mk", "OPT_FAST=-O2", "OPT_SLOW=-O0"]);
    run(command.arg("VK_GLOBAL_OBJS=").arg(format!("LIBS={objects} -lz -lpthread")).arg("Vrtl"), module.name)?;
    Ok(made.join("Vrtl"))
}
