//! What can be changed on this machine for this program.

use super::kernel::{Write, after};
use super::{pool, text};
use crate::cmd::this::policy::{mode, policy};
use farreach_live::system::System;
use farreach_live::{AllocatorKind, Text};
use farreach_types::counts::LeftOut;

const K64: u64 = 64 << 10;
const M2: u64 = 2 << 20;
const G1: u64 = 1 << 30;
/// The row of text, in words.
const TEXT: &str = "text on huge pages";
/// The name of the row without a change.
pub const TODAY: &str = "today";

/// A change, or none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// For `--change`.
    pub name: String,
    /// In words.
    pub words: String,
    /// Keys of the machine that simulate it.
    pub keys: String,
    /// Variables of the program's environment.
    pub environment: Vec<(String, String)>,
    /// Arguments that follow the program's.
    pub arguments: Vec<String>,
    /// `prctl(PR_SET_THP_DISABLE)` for the program.
    pub no_huge_pages: bool,
    /// Settings of the kernel.
    pub writes: Vec<Write>,
    /// What it may break or cost.
    pub risk: String,
    /// Whether the program makes other system calls then, so that it must be recorded with the change.
    pub recorded_apart: bool,
    /// A pool: bytes of a page, and pages. While the program is recorded it finds one that never ends.
    pub pool: Option<(u64, u64)>,
    /// Why it cannot be tried here, if so.
    pub untried: Option<String>,
    /// What is to be done for it beside the other fields, and what undoes that.
    pub by_hand: Vec<String>,
    pub undo_by_hand: Vec<String>,
    /// How much it touches: 0 this program alone, then more of the system.
    pub reach: u32,
}

/// What is known of the program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its allocator; `None` for a trace.
    pub allocator: Option<AllocatorKind>,
    /// It switched transparent huge pages off for itself.
    pub thp_disabled: bool,
    /// The name of its file.
    pub name: String,
    /// Most memory in use, if it ran.
    pub resident_bytes: Option<u64>,
    /// Whether arguments at the end of the command reach it.
    pub takes_arguments: bool,
    /// It has anonymous memory that its processes share.
    pub shares: bool,
    /// What of its text could lie on huge pages.
    pub text: Text,
}

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

/// Today first, then the changes that are possible, and those that are not.
///
/// # Errors
/// The kernel's settings of today cannot be simulated.
pub fn changes(system: &System, program: &Program) -> Result<(Vec<Change>, Vec<LeftOut>), String> {
    let thp = system.thp.as_ref();
    let never = policy(None)?;
    let today = if program.thp_disabled { never.clone() } else { policy(thp)? };
    let mut all = vec![Change {
        name: TODAY.into(),
        words: "as it is".into(),
        keys: today.clone(),
        risk: "–".into(),
        ..Change::default()
    }];
    let mut left_out = Vec::new();
    let mut leave = |change: &str, why: &str| left_out.push(LeftOut { change: change.into(), why: why.into() });
    match thp {
        None => leave("transparent huge pages", "this kernel has none"),
        Some(thp) => {
            let arguments = if program.thp_disabled { own_switch(&program.name) } else { Some(Vec::new()) };
            if program.thp_disabled {
                match &arguments {
                    Some(words) => leave(
                        "the kernel's mode alone",
                        &format!(
                            "{} switches transparent huge pages off for itself (prctl); rows with them have '{}'",
                            program.name,
                            words.join(" ")
                        ),
                    ),
                    None => leave(
                        "transparent huge pages",
                        "the program switches them off for itself (prctl), and no option of it against that is known",
                    ),
                }
            }
            if let Some(arguments) = arguments {
                let with = |name: &str, words: &str, writes: Vec<Write>, risk: &str, reach| -> Result<Change, String> {
                    Ok(Change {
                        name: name.into(),
                        words: words.into(),
                        keys: policy(Some(&after(thp, &writes)))?,
                        arguments: arguments.clone(),
                        writes,
                        risk: risk.into(),
                        reach,
                        ..Change::default()
                    })
                };
                let bloat = "all: memory, long faults";
                let now = thp.enabled.as_deref().unwrap_or("never");
                if now != "always" {
                    all.push(with("thp-always", "THP always", vec![Write::mode(thp, "always")], bloat, 2)?);
                }
                if now == "always" {
                    all.push(with(
                        "thp-madvise",
                        "THP for memory that asks",
                        vec![Write::mode(thp, "madvise")],
                        "all that do not ask",
                        2,
                    )?);
                }
                let by_variable = |name: &str, words: &str, variable, risk: &str| {
                    let writes = if now == "never" { vec![Write::mode(thp, "madvise")] } else { Vec::new() };
                    let reach = 2 * u32::from(!writes.is_empty());
                    let change = with(name, words, writes, risk, reach)?;
                    Ok::<_, String>(Change { environment: vec![variable], recorded_apart: true, ..change })
                };
                if let Some(allocator) = &program.allocator {
                    match asks(allocator) {
                        Err(why) => leave("THP by the allocator", &why),
                        Ok(_) if mode(Some(thp)) == "always" => {
                            leave("THP by the allocator", "the kernel gives THP to all memory already");
                        }
                        Ok(variable) => {
                            let words = format!("THP by {allocator}");
                            all.push(by_variable("allocator", &words, variable, "memory, long faults")?);
                        }
                    }
                }
                let preloaded = std::env::var("LD_PRELOAD").ok();
                match text::variable(program, text::library().as_deref(), preloaded.as_deref()) {
                    Err(why) => leave(TEXT, &why),
                    Ok(variable) => all.push(by_variable("text", TEXT, variable, "profilers see no file")?),
                }
                if let Some(own) = asks_itself(&program.name).filter(|_| ["madvise", "always"].contains(&now)) {
                    let words = format!("THP by {} {}", program.name, own.join(" "));
                    let mut change = with("own-switch", &words, Vec::new(), "memory, long faults", 0)?;
                    change.arguments.extend(own);
                    change.recorded_apart = true;
                    all.push(change);
                }
                let shared = thp.shmem_enabled.as_deref().unwrap_or("deny");
                if program.shares && ["never", "advise"].contains(&shared) {
                    let words = "THP for shared memory";
                    all.push(with("shmem-always", words, vec![Write::shared(thp, "always")], "all: memory", 2)?);
                }
                let sizes: Vec<u64> = thp.sizes.iter().map(|size| size.bytes).collect();
                if sizes.contains(&K64) && sizes.contains(&M2) {
                    let only = vec![Write::size(thp, K64, "always"), Write::size(thp, M2, "never")];
                    all.push(with("mthp-64k", "THP of 64K alone", only, "all: no pages of 2M", 3)?);
                    let both = vec![Write::mode(thp, "always"), Write::size(thp, K64, "inherit")];
                    all.push(with("thp-always-64k", "THP always, 64K too", both, bloat, 3)?);
                } else {
                    leave("multi-size THP", "this kernel has no size of 64K (Linux 6.8 or newer)");
                }
            }
            if !program.thp_disabled && mode(Some(thp)) != "never" {
                all.push(Change {
                    name: "no-thp".into(),
                    words: "no THP for this program".into(),
                    keys: never.clone(),
                    no_huge_pages: true,
                    risk: "none".into(),
                    ..Change::default()
                });
            }
        }
    }
    for page in [M2, G1] {
        match pool::change(system, program, page) {
            Ok(change) => all.push(change),
            Err(why) => leave(&pool::words(page), &why),
        }
    }
    leave(
        "khugepaged",
        "not simulated: it collapses pages by the clock; programs that run for minutes gain more by THP",
    );
    if !program.takes_arguments {
        all.retain(|change| {
            let reached = change.arguments.is_empty();
            if !reached {
                let words = change.arguments.join(" ");
                left_out.push(LeftOut {
                    change: change.words.clone(),
                    why: format!(
                        "'{words}' at the end of the command would not reach {}; end it so that it does, as in \
                         sh -c 'exec {} \"$@\"' {}",
                        program.name, program.name, program.name
                    ),
                });
            }
            reached
        });
    }
    // What leaves everything as it is, is no change.
    let same = |change: &Change| change.keys == today && change.name != TODAY && !change.recorded_apart;
    all.retain(|change| !same(change));
    Ok((all, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_live::system::{Pool, Thp, ThpSize};

    fn system(mode: &str) -> System {
        let size = |kilobytes: u64, enabled: &str| ThpSize { bytes: kilobytes << 10, enabled: enabled.into() };
        System {
            thp: Some(Thp {
                enabled: Some(mode.into()),
                pmd_bytes: Some(M2),
                shmem_enabled: Some("never".into()),
                sizes: vec![size(64, "never"), size(2048, "inherit")],
                ..Thp::default()
            }),
            hugetlb: vec![Pool { bytes: M2, pages: 0, free: 0, reserved: 0, overcommit: 0 }],
            available_bytes: Some(8 << 30),
            ..System::default()
        }
    }

    fn program(allocator: Option<AllocatorKind>) -> Program {
        let resident_bytes = Some(64 << 20);
        Program { allocator, name: "program".into(), resident_bytes, takes_arguments: true, ..Program::default() }
    }

    fn names(system: &System, program: &Program) -> Vec<String> {
        changes(system, program).unwrap().0.into_iter().map(|change| change.name).collect()
    }

    const GLIBC: AllocatorKind = AllocatorKind::Glibc(Some((2, 36)));

    #[test]
    fn rows_follow_the_kernel_and_the_allocator() {
        let all = ["today", "thp-always", "allocator", "mthp-64k", "thp-always-64k", "no-thp", "hugetlb-2m"];
        assert_eq!(names(&system("madvise"), &program(Some(GLIBC))), all);
        let always = ["today", "thp-madvise", "mthp-64k", "thp-always-64k", "no-thp", "hugetlb-2m"];
        assert_eq!(names(&system("always"), &program(Some(GLIBC))), always);
        let go = ["today", "thp-always", "mthp-64k", "thp-always-64k", "no-thp"];
        assert_eq!(names(&system("madvise"), &program(Some(AllocatorKind::Go))), go);
        assert_eq!(names(&System::default(), &program(None)), ["today"]);
    }

    #[test]
    fn a_program_that_refuses_needs_its_own_switch() {
        let mut redis =
            Program { thp_disabled: true, name: "redis-check-rdb".into(), ..program(Some(AllocatorKind::Jemalloc)) };
        let (all, _) = changes(&system("madvise"), &redis).unwrap();
        let always = all.iter().find(|change| change.name == "thp-always").unwrap();
        assert_eq!(always.arguments, ["--disable-thp", "no"]);
        assert!(all[0].keys.ends_with("thp=never"));
        redis.name = "other".into();
        assert_eq!(names(&system("madvise"), &redis), ["today"]);
    }

    #[test]
    fn servers_with_switches_of_their_own() {
        let named = |name: &str| Program { name: name.into(), ..program(Some(GLIBC)) };
        let change = |program: &Program, name: &str| {
            let (all, left_out) = changes(&system("madvise"), program).unwrap();
            (all.into_iter().find(|change| change.name == name), left_out)
        };
        let mut memcached = named("memcached");
        assert_eq!(change(&memcached, "own-switch").0.unwrap().arguments, ["-L"]);
        memcached.takes_arguments = false;
        let (none, left_out) = change(&memcached, "own-switch");
        assert!(none.is_none() && left_out.iter().any(|left| left.why.contains("'-L' at the end")), "{left_out:?}");
        let pool = change(&named("mariadbd"), "hugetlb-2m").0.unwrap();
        assert!(
            pool.environment.is_empty()
                && pool.arguments == ["--large-pages"]
                && pool.pool.is_some_and(|(page, _)| page == M2)
        );
        assert!(change(&named("mariadbd"), "own-switch").0.is_none());
        let mut postgres = Program { shares: true, ..named("postgres") };
        assert_eq!(change(&postgres, "hugetlb-2m").0.unwrap().arguments, ["-c", "huge_pages=on"]);
        let shared = change(&postgres, "shmem-always").0.unwrap();
        assert!(shared.keys.ends_with(",shmem_enabled=always") && shared.writes[0].before == "never", "{shared:?}");
        postgres.shares = false;
        assert!(change(&postgres, "shmem-always").0.is_none());
        let java = Program { allocator: Some(AllocatorKind::Jvm), ..named("java") };
        let pool = change(&java, "hugetlb-2m").0.unwrap();
        assert!(pool.environment[0].1.starts_with("-XX:+UseLargePages"), "{pool:?}");
    }

    #[test]
    fn the_allocator_asks_where_the_kernel_listens() {
        let (all, _) = changes(&system("never"), &program(Some(GLIBC))).unwrap();
        let allocator = all.iter().find(|change| change.name == "allocator").unwrap();
        assert_eq!((allocator.writes[0].value.as_str(), allocator.reach), ("madvise", 2));
        assert!(allocator.keys.contains("thp=madvise"));
    }
}
