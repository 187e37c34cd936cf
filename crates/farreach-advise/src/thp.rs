//! Changes by transparent huge pages: modes, sizes, and what asks for them.

use super::change::{Change, ENDED_TOO_SOON, Program};
use super::kernel::{Write, after};
use super::text;
use farreach_live::AllocatorKind;
use farreach_live::system::Thp;
use farreach_native::this::policy::{mode, policy};
use farreach_types::counts::LeftOut;

const K64: u64 = 64 << 10;
const M2: u64 = 2 << 20;
/// The row of text, in words.
const TEXT: &str = "text on huge pages";
/// What they cost all programs.
const BLOAT: &str = "all: memory, long faults";

/// An option by which a program stops to switch transparent huge pages off for itself.
fn own_switch(program: &str) -> Option<Vec<String>> {
    program.starts_with("redis-").then(|| vec!["--disable-thp".into(), "no".into()])
}

/// Arguments by which a program asks for transparent huge pages itself.
fn asks_itself(program: &str) -> Option<Vec<String>> {
    (program == "memcached").then(|| vec!["-L".into()])
}

/// By which variable an allocator asks for transparent huge pages.
fn asks(allocator: &AllocatorKind) -> Result<(String, String), String> {
    let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
    match allocator {
        AllocatorKind::Glibc(Some(version)) if *version >= (2, 35) => pair("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),
        AllocatorKind::Jemalloc => pair("MALLOC_CONF", "thp:always"),
        AllocatorKind::Jvm => pair("JAVA_TOOL_OPTIONS", "-XX:+UseTransparentHugePages"),
        AllocatorKind::Go => Err(
            "Go has no setting that asks for them; GODEBUG=disablethp=1 refuses them, where the kernel's mode is always"
                .into(),
        ),
        AllocatorKind::Glibc(_) => Err("glibc before 2.35 has no tunable for it".into()),
        other => Err(format!("no switch is known for its allocator ({other}) that was tried here")),
    }
}

/// What decides about rows.
struct Rows<'a> {
    thp: &'a Thp,
    program: &'a Program,
    /// Without which the program gets none.
    arguments: Vec<String>,
}

impl Rows<'_> {
    /// The mode.
    fn now(&self) -> &str {
        self.thp.enabled.as_deref().unwrap_or("never")
    }

    /// A row of settings.
    fn row(&self, name: &str, words: &str, writes: Vec<Write>, risk: &str, reach: u32) -> Result<Change, String> {
        Ok(Change {
            name: name.into(),
            words: words.into(),
            keys: policy(Some(&after(self.thp, &writes))),
            arguments: self.arguments.clone(),
            writes,
            risk: risk.into(),
            reach,
            ..Change::default()
        })
    }

    /// A row of a variable, by which memory asks; the kernel must listen.
    fn by_variable(&self, name: &str, words: &str, set: (String, String), risk: &str) -> Result<Change, String> {
        let writes = if self.now() == "never" { vec![Write::mode(self.thp, "madvise")] } else { Vec::new() };
        let reach = 2 * u32::from(!writes.is_empty());
        let row = self.row(name, words, writes, risk, reach)?;
        Ok(Change { environment: vec![set], recorded_apart: true, ..row })
    }

    fn mode(&self) -> Result<Change, String> {
        let to = |value| vec![Write::mode(self.thp, value)];
        match self.now() {
            "always" => self.row("thp-madvise", "THP for memory that asks", to("madvise"), "all that do not ask", 2),
            _ => self.row("thp-always", "THP always", to("always"), BLOAT, 2),
        }
    }

    fn allocator(&self) -> Option<Result<Change, LeftOut>> {
        let leave = |why: String| Err(left("THP by the allocator", &why));
        if self.program.unseen {
            return Some(leave(ENDED_TOO_SOON.into()));
        }
        let allocator = self.program.allocator.as_ref()?;
        Some(match asks(allocator) {
            Err(why) => leave(why),
            Ok(_) if mode(Some(self.thp)) == "always" => leave("the kernel gives THP to all memory already".into()),
            Ok(set) => self
                .by_variable("allocator", &format!("THP by {allocator}"), set, "memory, long faults")
                .map_err(|why| left("THP by the allocator", &why)),
        })
    }

    fn text(&self) -> Result<Change, LeftOut> {
        let preloaded = std::env::var("LD_PRELOAD").ok();
        text::variable(self.program, text::library().as_deref(), preloaded.as_deref())
            .and_then(|set| self.by_variable("text", TEXT, set, "profilers see no file"))
            .map_err(|why| left(TEXT, &why))
    }

    fn own_switch(&self) -> Result<Option<Change>, String> {
        let listens = ["madvise", "always"].contains(&self.now());
        let Some(own) = asks_itself(&self.program.name).filter(|_| listens) else { return Ok(None) };
        let words = format!("THP by {} {}", self.program.name, own.join(" "));
        let row = self.row("own-switch", &words, Vec::new(), "memory, long faults", 0)?;
        let arguments = [&row.arguments[..], &own].concat();
        Ok(Some(Change { arguments, recorded_apart: true, ..row }))
    }

    fn shared(&self) -> Result<Option<Change>, String> {
        let now = self.thp.shmem_enabled.as_deref().unwrap_or("deny");
        if !self.program.shares || !["never", "advise"].contains(&now) {
            return Ok(None);
        }
        let writes = vec![Write::shared(self.thp, "always")];
        self.row("shmem-always", "THP for shared memory", writes, "all: memory", 2).map(Some)
    }

    fn sizes(&self) -> Result<Vec<Change>, String> {
        if ![K64, M2].iter().all(|wanted| self.thp.sizes.iter().any(|size| size.bytes == *wanted)) {
            return Ok(Vec::new());
        }
        let only = vec![Write::size(self.thp, K64, "always"), Write::size(self.thp, M2, "never")];
        let both = vec![Write::mode(self.thp, "always"), Write::size(self.thp, K64, "inherit")];
        Ok(vec![
            self.row("mthp-64k", "THP of 64K alone", only, "all: no pages of 2M", 3)?,
            self.row("thp-always-64k", "THP always, 64K too", both, BLOAT, 3)?,
        ])
    }
}

/// A change that is not in the table.
pub fn left(change: &str, why: &str) -> LeftOut {
    LeftOut { change: change.into(), why: why.into() }
}

/// Puts a row where it belongs.
fn sort(row: Result<Change, LeftOut>, all: &mut Vec<Change>, left_out: &mut Vec<LeftOut>) {
    match row {
        Ok(row) => all.push(row),
        Err(why) => left_out.push(why),
    }
}

/// The changes that are possible, and those that are not.
///
/// # Errors
/// Settings after a change cannot be simulated.
pub fn changes(thp: &Thp, program: &Program, left_out: &mut Vec<LeftOut>) -> Result<Vec<Change>, String> {
    let arguments = if program.thp_disabled { own_switch(&program.name) } else { Some(Vec::new()) };
    if program.thp_disabled {
        left_out.push(match &arguments {
            Some(words) => left(
                "the kernel's mode alone",
                &format!(
                    "{} switches transparent huge pages off for itself (prctl); rows with them have '{}'",
                    program.name,
                    words.join(" ")
                ),
            ),
            None => left(
                "transparent huge pages",
                "the program switches them off for itself (prctl), and no option of it against that is known",
            ),
        });
    }
    let mut all = Vec::new();
    if let Some(arguments) = arguments {
        let rows = Rows { thp, program, arguments };
        all.push(rows.mode()?);
        rows.allocator().into_iter().for_each(|row| sort(row, &mut all, left_out));
        all.extend(rows.own_switch()?);
        all.extend(rows.shared()?);
        let sizes = rows.sizes()?;
        if sizes.is_empty() {
            left_out.push(left("multi-size THP", "this kernel has no size of 64K (Linux 6.8 or newer)"));
        }
        all.extend(sizes);
    }
    // It asks before the program begins, and so before that can switch anything off.
    sort(Rows { thp, program, arguments: Vec::new() }.text(), &mut all, left_out);
    if !program.thp_disabled && mode(Some(thp)) != "never" {
        all.push(Change {
            name: "no-thp".into(),
            words: "no THP for this program".into(),
            keys: policy(None),
            no_huge_pages: true,
            risk: "none".into(),
            ..Change::default()
        });
    }
    Ok(all)
}
