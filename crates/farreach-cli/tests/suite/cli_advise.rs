//! Are the rows, the recommendation and its lines right, on a described machine with described settings; and are
//! settings restored also after a kill?

use crate::cli::{Dir, Ran, command, farreach, line};
use crate::common::{program, tool};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const THP: &str = "sys/kernel/mm/transparent_hugepage";

/// A folder that stands for `/`.
fn system(dir: &Dir, mode: &str, sizes: &[(u64, &str)]) -> PathBuf {
    let root = PathBuf::from(dir.path("root"));
    let thp = root.join(THP);
    fs::create_dir_all(&thp).unwrap();
    fs::write(thp.join("enabled"), mode).unwrap();
    for (kilobytes, mode) in sizes {
        let folder = thp.join(format!("hugepages-{kilobytes}kB"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("enabled"), mode).unwrap();
    }
    root
}

fn row<'a>(advice: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let rows = advice["rows"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name}: {advice}"))
}

/// GUPS on a Zen 3 of which nothing is measured: the same everywhere.
#[test]
fn random_updates_want_huge_pages() {
    let dir = Dir::new();
    let root = system(
        &dir,
        "always [madvise] never",
        &[(64, "always inherit madvise [never]"), (2048, "always [inherit] madvise never")],
    );
    let root = root.to_str().unwrap();
    let words = ["advise", "-m", "today/zen3", "workload:gups:size=64M,references=2M", "--system-root", root];
    let advice = farreach([&words[..], &["--json"]].concat()).good().json();
    assert_eq!(advice["schema"], "farreach.advice/1");
    let names: Vec<&str> = advice["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["today", "thp-always", "mthp-64k", "thp-always-64k"]);
    // 64 MB are 16384 pages of 4 KB and 32 of 2 MB. A Zen 3 has 2048 entries, which join four pages each at best.
    let walks = |name: &str| row(&advice, name)["walks"].as_u64().unwrap();
    assert!(walks("today") > 400_000 && walks("thp-always") < 1_000, "{advice}");
    assert!(walks("mthp-64k") < walks("today"));
    // Each page is touched and zeroed once, or each huge page.
    let zeroed = |name: &str| row(&advice, name)["zeroed_bytes"].as_u64().unwrap();
    assert!(zeroed("today") >= 64 << 20 && zeroed("thp-always") >= zeroed("today"));
    let low = |name: &str| row(&advice, name)["saved_cycles"]["low"].as_f64().unwrap();
    assert!(low("thp-always") > low("mthp-64k") && low("mthp-64k") > 0.0);
    assert!(row(&advice, "thp-always")["saved_percent"].is_null() && advice["native"].is_null());
    assert_eq!(advice["recommendation"]["row"], "thp-always");
    let now = advice["recommendation"]["now"].to_string();
    assert!(now.contains("echo always | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"), "{now}");
    let undo = advice["recommendation"]["undo"].to_string();
    assert!(undo.contains("echo madvise | sudo tee"), "{undo}");
    let text = farreach(words).good().out;
    assert!(text.contains("Recommended: THP always.") && text.contains("No native run"), "{text}");
    assert!(text.contains("THP by the allocator") || text.contains("pool of 2M"), "{text}");
}

/// A program of few pages: nothing to gain.
#[test]
fn small_programs_are_left_as_they_are() {
    let dir = Dir::new();
    let root = system(&dir, "[always] madvise never", &[]);
    let root = root.to_str().unwrap();
    let kernel = "workload:gups:size=256K,references=1M";
    let advice = farreach(["advise", "-m", "today/zen3", kernel, "--system-root", root, "--json"]).good().json();
    assert_eq!(advice["recommendation"]["row"], "today", "{advice}");
    assert_eq!(advice["recommendation"]["now"].as_array().unwrap().len(), 0);
}

/// Each size of the kernel has its own mode (LNX-1): 64 KB for all memory, 2 MB for memory that asks.
#[test]
fn sizes_may_have_different_modes() {
    let dir = Dir::new();
    let advice = |mode: &str| {
        let root = system(&dir, "always [madvise] never", &[(64, mode), (2048, "always [inherit]")]);
        let kernel = "workload:gups:size=16M,references=1M";
        let words = ["advise", "-m", "today/zen3", kernel, "--system-root", root.to_str().unwrap(), "--json"];
        row(&farreach(words).good().json(), "today")["page_faults"].as_u64().unwrap()
    };
    let faults = [advice("always [never]"), advice("[always] inherit")];
    assert!(faults[0] > 4096 && (256..300).contains(&faults[1]), "{faults:?}");
}

/// The same on Arm: a kernel with larger pages is a row, which cannot be tried.
#[test]
fn arm_may_have_a_kernel_with_larger_pages() {
    let dir = Dir::new();
    let root = dir.path("without-thp");
    fs::create_dir(&root).unwrap();
    let words = ["advise", "-m", "today/neoverse-n1", "--system-root", &root, "workload:gups:size=64M,references=2M"];
    let advice = farreach([&words[..], &["--json"]].concat()).good().json();
    let (today, large) = (row(&advice, "today"), row(&advice, "kernel-64k"));
    let count = |row: &serde_json::Value, key: &str| row[key].as_u64().unwrap();
    // 16384 pages, of which 1280 entries hold a thirteenth; 1024 of 64 KB, which fit.
    assert!(count(today, "walks") > 400_000 && count(large, "walks") < 5_000, "{advice}");
    assert!(count(today, "page_faults") > 16_384 && (1_024..1_040).contains(&count(large, "page_faults")), "{advice}");
    // As many bytes are zeroed, but for rests of pages.
    assert!(count(large, "zeroed_bytes") - count(today, "zeroed_bytes") < 1 << 20, "{advice}");
    let more = count(large, "resident_bytes") - count(today, "resident_bytes");
    assert!(more < 1 << 20, "{more} bytes more");
    let advised = &advice["recommendation"];
    assert_eq!(advised["row"], "kernel-64k", "{advised}");
    assert!(
        advised["lasting"].to_string().contains("dnf install kernel-64k") && advised["now"] == serde_json::json!([])
    );
    let tried = ["advise", "-m", "today/neoverse-n1", "--verify", "1", "--change", "kernel-64k", "--runs", "1"];
    let ran = farreach([&tried[..], &["--system-root", &root, "--", "true"]].concat());
    ran.bad(1, &["'kernel-64k' cannot be tried here", "another kernel"]);
}

/// Text on huge pages, as the preloaded library puts it there: natively, and under the recorder.
#[test]
fn text_on_huge_pages() {
    let found = Command::new("gcc").arg("-print-prog-name=cc1").output().unwrap();
    let cc1 = String::from_utf8(found.stdout).unwrap().trim().to_owned();
    let library = tool().join("farreach-text.so");
    let start = |preloaded: bool| {
        let mut cc1 = Command::new(&cc1);
        if preloaded {
            cc1.env("LD_PRELOAD", &library);
        }
        cc1.args(["-quiet", "-O1", "-", "-o", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let compiled = |mut child: std::process::Child, seen: &mut dyn FnMut(u32)| {
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"int f(int x) { return x * 7; }\n").unwrap();
        seen(child.id());
        drop(input);
        let out = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(out.status, 0, "{}", out.err);
        out.out
    };
    let mut replaced = 0;
    let mut look = |pid: u32| {
        let began = Instant::now();
        // Text without a file: 16 MB of cc1's 20.
        while replaced < 4 << 20 && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            let text = maps.lines().filter(|line| line.contains(" r-xp 00000000 00:00 0") && !line.contains('['));
            let bytes = text.filter_map(|line| {
                let (start, end) = line.split_once(' ')?.0.split_once('-')?;
                Some(u64::from_str_radix(end, 16).ok()? - u64::from_str_radix(start, 16).ok()?)
            });
            replaced = bytes.sum();
        }
    };
    let with = compiled(start(true), &mut look);
    assert!(replaced >= 4 << 20 && replaced.is_multiple_of(2 << 20), "{replaced} bytes");
    assert_eq!(with, compiled(start(false), &mut |_| ()));

    let counted = |preloaded: &str| {
        let mut run = command();
        run.env("LD_PRELOAD", preloaded).args(["run", "--json", "-m", "ds13/4k:placement=thp,thp=madvise", "--limit"]);
        let result = Ran::of(run.args(["60M", "--", &cc1, "--version"]).output().unwrap()).good().json();
        result["machines"][0]["counts"]["superpage_faults"].as_u64().unwrap()
    };
    assert_eq!(counted(""), 0);
    assert_eq!(counted(library.to_str().unwrap()), replaced >> 21);
}

/// All changes in one run, against the same native runs; the pool is as large as what the program maps from it.
#[test]
fn all_changes_are_tried_with_one_base() {
    let dir = Dir::new();
    let root = system(&dir, "[always] madvise never", &[]);
    let pool = root.join("sys/kernel/mm/hugepages/hugepages-2048kB");
    fs::create_dir_all(&pool).unwrap();
    fs::write(pool.join("nr_hugepages"), "0").unwrap();
    let program = ["--", "perl", "-e", "my $a = 'a' x (4 << 20); select undef, undef, undef, 0.1; exit 0"];
    let words = ["advise", "-m", "today/zen3", "--runs", "1", "--verify", "2", "--change", "all", "--json"];
    let root = root.to_str().unwrap();
    let all = |more: &[&str]| farreach([&words[..], &["--system-root", root], more, &program].concat());
    all(&[]).bad(1, &["changes settings of the kernel", "--apply"]);
    let advice = all(&["--apply"]).good().json();
    let names = |list: &serde_json::Value, key: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
    };
    let tried = names(&advice["verifications"], "row");
    assert_eq!(tried, names(&advice["rows"], "name")[1..]);
    assert!(tried.iter().any(|name| name == "thp-madvise"), "{tried:?}");
    let base = &advice["verifications"][0]["today_seconds"];
    assert!(advice["verifications"].as_array().unwrap().iter().all(|tried| tried["today_seconds"] == *base));
    // 4 MB of a string, and what perl has besides.
    let words = row(&advice, "hugetlb-2m")["change"].as_str().unwrap().to_owned();
    let pages: u64 = words.strip_prefix("pool of 2M pages: ").unwrap().parse().unwrap();
    assert!((3..20).contains(&pages), "{words}");
    assert_eq!(fs::read_to_string(pool.join("nr_hugepages")).unwrap(), "0");
}

/// A row with which the program fails does not end the others.
#[test]
fn a_change_that_breaks_the_program_is_said() {
    let dir = Dir::new();
    let root = system(&dir, "always [madvise] never", &[]);
    let words = ["advise", "-m", "today/zen3", "--runs", "1", "--verify", "2", "--apply", "--json", "--system-root"];
    let script = "sleep 0.1; test -z \"$GLIBC_TUNABLES\"";
    let all = |changes: &[&str]| {
        let program = ["--", "sh", "-c", script];
        farreach([&words[..], &[root.to_str().unwrap()], changes, &program].concat())
    };
    let advice = all(&["--change", "thp-always", "--change", "allocator"]).good().json();
    let tried = advice["verifications"].as_array().unwrap();
    assert_eq!(tried.iter().map(|one| one["row"].as_str().unwrap()).collect::<Vec<_>>(), ["thp-always"]);
    let left_out = advice["left_out"].to_string();
    assert!(left_out.contains("allocator under --verify") && left_out.contains("exit status 1"), "{left_out}");
    // Also where it is the only one.
    let ran = all(&["--change", "allocator"]);
    assert!(
        ran.status == 1 && ran.err.contains("with THP by glibc") && ran.err.contains("exit status 1"),
        "{}",
        ran.err
    );
    let advice = ran.json();
    assert!(
        advice["rows"].as_array().unwrap().len() > 2 && advice["verifications"] == serde_json::json!([]),
        "{advice}"
    );
    assert!(advice["left_out"].to_string().contains("allocator under --verify"), "{advice}");
}

/// What was simulated is shown, also where the row that is recommended may not be tried.
#[test]
fn rows_that_may_not_be_tried_say_so_and_the_table_comes() {
    let dir = Dir::new();
    let root = system(&dir, "always madvise [never]", &[]);
    let scatter = program("scatter", &["-O2"]);
    let mut advise = command();
    advise.args(["advise", "-m", "today/zen3", "--runs", "1", "--verify", "1", "--json", "--system-root"]).arg(root);
    let ran = Ran::of(advise.arg("--").arg(scatter).args(["64", "1500000"]).output().unwrap());
    let words = ["without --apply", "'thp-always' changes settings of the kernel", "--apply does that"];
    assert!(ran.status == 1 && words.iter().all(|word| ran.err.contains(word)), "{}", ran.err);
    let advice = ran.json();
    assert_eq!(
        (&advice["recommendation"]["row"], &advice["verifications"]),
        (&"thp-always".into(), &serde_json::json!([]))
    );
    assert!(advice["recommendation"]["why"].to_string().contains("Not tried here: --verify: 'thp-always'"), "{advice}");
    assert!(advice["left_out"].to_string().contains("thp-always under --verify"), "{advice}");
    // 64 MB, whatever else.
    assert!((64 << 20..80 << 20).contains(&advice["native"]["resident_bytes"].as_u64().unwrap()), "{advice}");
}

/// Before the program runs for the first time.
#[test]
fn what_will_not_do_for_any_program_is_refused_at_once() {
    let dir = Dir::new();
    let root = system(&dir, "always [madvise] never", &[]);
    let begun = dir.path("begun");
    let advise = |words: &[&str]| {
        let mut advise = command();
        advise.args(["advise", "-m", "today/zen3", "--runs", "1"]).args(words);
        if !words.contains(&"--system-root") {
            advise.arg("--system-root").arg(&root);
        }
        advise.args(["--", "touch", &begun]);
        advise
    };
    let missing = dir.path("missing");
    for (words, says) in [
        (&["--stdin", &missing][..], &["--stdin", &missing, "No such file"][..]),
        (&["--stdin", &dir.path("")], &["--stdin", "it is a folder"]),
        (&["--system-root", &missing], &["--system-root", "there is no such folder"]),
        (&["--verify", "1", "--change", "thp-alway"], &["--change thp-alway: one of thp-always, "]),
        (&["--verify", "1", "--change", "thp-always"], &["'thp-always' changes settings of the kernel", "--apply"]),
        (&["--html", &dir.path("no/page")], &["no/page", "No such file"]),
    ] {
        Ran::of(advise(words).output().unwrap()).bad(1, says);
    }
    // Settings that this user may not write; root, who may write all, is nobody here.
    let file = root.join(THP).join("enabled");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let mut nobody = advise(&["--verify", "1", "--apply"]);
    // SAFETY: it only returns a number.
    if unsafe { libc::geteuid() } == 0 {
        nobody.uid(65534);
    }
    match nobody.output() {
        Ok(out) => Ran::of(out).bad(1, &["--apply: ", "transparent_hugepage/enabled cannot be written", "denied"]),
        Err(error) => eprintln!("skipped: another user may not run this: {error}"),
    }
    assert!(!Path::new(&begun).exists(), "the program ran");
}

/// Of a program that is over before it can be looked at, nothing is made up.
#[test]
fn what_was_not_seen_is_not_shown() {
    let dir = Dir::new();
    let root = system(&dir, "always [madvise] never", &[]);
    let words = ["advise", "-m", "today/zen3", "--system-root", root.to_str().unwrap(), "--json", "--", "true"];
    let advice = farreach(words).good().json();
    let native = &advice["native"];
    match native["resident_bytes"].as_u64() {
        // It takes 1 MB at the end.
        Some(bytes) => assert!(bytes > 512 << 10, "{native}"),
        None if native["allocator"] == "not seen" => {
            assert!(advice["settings"].to_string().contains("not seen"), "{advice}");
            assert!(advice["left_out"].to_string().contains("ended before its memory could be looked at"), "{advice}");
        }
        None => assert!(!native["allocator"].as_str().unwrap().is_empty(), "{native}"),
    }
}

#[test]
fn arguments() {
    for (status, words, says) in [
        (2, "advise", "COMMAND"),
        (2, "advise t.frt --verify 3", "--verify"),
        (2, "advise t.frt --apply", "--apply"),
        (2, "advise --runs 0 -- true", "from 1"),
        (2, "advise t.frt -- true", "COMMAND"),
        (1, "advise no-such-file.frt -m today/zen3", "no-such-file.frt"),
        (1, "advise -m today/zen33 -- true", "today/zen3"),
        (2, "advise --load x -- true", "--port"),
        (127, "advise -- /no/such/program", "/no/such/program"),
    ] {
        line(words).bad(status, &[says]);
    }
}

/// A program that fails has no time to speak of.
#[test]
fn a_failing_program_is_refused() {
    line("advise -- false").bad(1, &["false: it ended with exit status 1"]);
}

/// The advice is about what was seen until then. Alone, the program ends at once; the second time it stays.
#[test]
fn an_interrupt_ends_with_advice() {
    let dir = Dir::new();
    let root = system(&dir, "always [madvise] never", &[]);
    let [before, again] = ["before", "again"].map(|name| dir.path(name));
    let script = format!("if test -e {before}; then touch {again}; sleep 1000; fi; touch {before}");
    let start = |script: &str| {
        let mut advise = command();
        advise.args(["advise", "-m", "today/zen3", "--runs", "1", "--verify", "1", "--json", "--system-root"]);
        advise.arg(&root).args(["--", "sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        advise.spawn().unwrap()
    };
    let interrupt = |child: std::process::Child, file: &str| {
        let began = Instant::now();
        while !Path::new(file).exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "{file} is not made");
            std::thread::sleep(Duration::from_millis(10));
        }
        // SAFETY: a child that is not waited for yet.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        Ran::of(child.wait_with_output().unwrap())
    };
    let ran = interrupt(start(&script), &again);
    assert_eq!(ran.status, 130, "{}", ran.err);
    assert!(ran.err.contains("--verify: interrupted before"), "{}", ran.err);
    let advice = ran.json();
    assert_eq!(advice["stopped"], "interrupted");
    assert!(advice["native"].is_object() && row(&advice, "today")["saved_percent"].is_null(), "{advice}");
    assert!(advice["instructions"].as_u64().unwrap() > 100_000, "{advice}");
    // While this processor is measured, which takes half a minute: what is known is said.
    let mut advise = command();
    let it = dir.path("measured");
    advise.env("XDG_CACHE_HOME", dir.path("cache"));
    advise.args(["advise", "--runs", "1", "--json", "--measure", "--", "sh", "-c"]).arg(format!("touch {it}"));
    let ran = interrupt(advise.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), &it);
    if !ran.err.contains("interrupted while it ran by itself") {
        assert_eq!(ran.status, 130, "{}", ran.err);
        let advice = ran.json();
        assert!(advice["native"].is_object() && advice["stopped"] == "interrupted", "{advice}");
        let source = advice["prices"]["source"].as_str().unwrap();
        assert!(source.contains("could not be measured: interrupted"), "{source}");
    }
    // What cannot be read is refused before.
    line("advise nosuch.frt").bad(1, &["nosuch.frt: No such file"]);
    line("advise /dev/null").bad(1, &["the trace is empty"]);
    // Alone, already: then there is nothing to say.
    let ran = interrupt(start(&format!("touch {again}-alone; exec sleep 1000")), &format!("{again}-alone"));
    ran.bad(1, &["interrupted while it ran by itself", "--load and --port"]);
}

fn contents(root: &Path) -> String {
    fs::read_to_string(root.join(THP).join("enabled")).unwrap()
}

/// Settings are those of before after any end, SIGKILL too.
#[test]
fn settings_are_restored_after_kill_9() {
    use farreach_live::settings::{Change, Changed, Lock};
    let dir = Dir::new();
    let root = system(&dir, "madvise", &[]);
    let file = root.join(THP).join("enabled");
    if let Some(file) = std::env::var_os("FARREACH_TEST_HOLD_SETTING") {
        // The child of this test: it holds a changed setting until it is killed.
        let mut lock = Lock::take(&PathBuf::from(&file).with_extension("lock")).unwrap();
        let _changed = Changed::make(&mut lock, &[Change { file: file.into(), value: "always".into() }]).unwrap();
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    for round in 0..5u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cli_advise::settings_are_restored_after_kill_9"])
            .env("FARREACH_TEST_HOLD_SETTING", &file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let wait = |wanted: &str| {
            let began = Instant::now();
            while contents(&root) != wanted {
                assert!(began.elapsed() < Duration::from_secs(60), "round {round}: not {wanted}: {}", contents(&root));
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        wait("always");
        std::thread::sleep(Duration::from_millis(round));
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        wait("madvise");
    }
}

#[test]
fn a_process_is_watched() {
    let none = farreach(["advise", "-p", "2147483647"]);
    assert!(none.status != 0 && none.err.contains("process 2147483647: there is none"), "{}", none.err);
    let both = farreach(["advise", "-p", "1", "--verify", "3"]);
    assert!(both.status == 2 && both.err.contains("--verify"), "{}", both.err);
}
