//! What can be changed on this machine for this program.

use super::change::{Change, Program, TODAY};
use super::thp::left;
use super::{pool, thp};
use farreach_live::system::System;
use farreach_native::this::policy::policy;
use farreach_types::counts::LeftOut;

const M2: u64 = 2 << 20;
const G1: u64 = 1 << 30;

/// Today first, then the changes that are possible, and those that are not.
///
/// # Errors
/// The kernel's settings of today cannot be simulated.
pub fn changes(system: &System, program: &Program) -> Result<(Vec<Change>, Vec<LeftOut>), String> {
    let thp = system.thp.as_ref();
    let today = policy(thp.filter(|_| !program.thp_disabled));
    let mut all = vec![Change {
        name: TODAY.into(),
        words: "as it is".into(),
        keys: today.clone(),
        risk: "–".into(),
        ..Change::default()
    }];
    let mut left_out = Vec::new();
    match thp {
        None => left_out.push(left("transparent huge pages", "this kernel has none")),
        Some(thp) => all.extend(thp::changes(thp, program, &mut left_out)?),
    }
    for page in [M2, G1] {
        match pool::change(system, program, page) {
            Ok(change) => all.push(change),
            Err(why) => left_out.push(left(&pool::words(page), &why)),
        }
    }
    if !program.takes_arguments {
        all.retain(|change| {
            let reached = change.arguments.is_empty();
            if !reached {
                let words = change.arguments.join(" ");
                let name = &program.name;
                let why = format!(
                    "'{words}' at the end of the command would not reach {name}; end it so that it does, as in sh -c \
                     'exec {name} \"$@\"' {name}"
                );
                left_out.push(left(&change.words, &why));
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
    use super::super::proof::ROWS;
    use super::*;
    use farreach_live::system::{Pool, Thp, ThpSize};
    use farreach_live::{AllocatorKind, Text};

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

    /// Others are refused before anything runs.
    #[test]
    fn all_rows_have_known_names() {
        let mut all = Vec::new();
        for mode in ["always", "madvise", "never"] {
            for name in ["program", "memcached", "postgres", "redis-server"] {
                let shares = Program { shares: true, text: Text::HugePages(3), ..program(Some(GLIBC)) };
                all.extend(names(&system(mode), &Program { name: name.into(), ..shares }));
            }
        }
        assert!(all.iter().filter(|name| *name != TODAY).all(|name| ROWS.contains(&name.as_str())), "{all:?}");
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
