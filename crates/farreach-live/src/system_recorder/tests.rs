//! The command line of QEMU, and what is refused before it starts.

use super::arguments::{escaped, with_recorder};
use super::*;

fn prepared(line: &str) -> Result<String, String> {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    match with_recorder(&words) {
        Ok(all) => Ok(all.join(" ".as_ref()).into_string().unwrap()),
        Err((option, why)) => Err(format!("{option}: {why}")),
    }
}

fn added(bytes: u64) -> String {
    format!("-object memory-backend-memfd,id=farreach-ram,size={bytes},share=on -machine memory-backend=farreach-ram")
}

#[test]
fn what_the_plugin_needs_is_added() {
    let tcg = "-accel tcg,thread=single";
    for (given, kept, bytes) in [
        ("", "", 128 << 20),
        ("-M virt -m 1G -nographic disk.img", "-M virt -m 1G -nographic disk.img", 1 << 30),
        ("--m 2048 -append -m", "--m 2048 -append -m", 2048 << 20),
        ("-machine q35,accel=tcg -smp 2", "-machine q35 -smp 2", 128 << 20),
        ("-machine accel=tcg -icount shift=0", "-icount shift=0", 128 << 20),
        ("-numa cpu,node-id=0 -object rng-random,id=r", "-numa cpu,node-id=0 -object rng-random,id=r", 128 << 20),
    ] {
        let kept = if kept.is_empty() { String::new() } else { format!("{kept} ") };
        assert_eq!(prepared(given), Ok(format!("{kept}{tcg} {}", added(bytes))), "{given}");
    }
    for (given, kept) in [
        ("-accel tcg", "-accel tcg,thread=single"),
        ("-accel tcg,thread=single", "-accel tcg,thread=single"),
        ("-accel accel=tcg,tb-size=64", "-accel accel=tcg,tb-size=64,thread=single"),
    ] {
        assert_eq!(prepared(given), Ok(format!("{kept} {}", added(128 << 20))), "{given}");
    }
}

#[test]
fn what_cannot_work_is_refused_with_its_option() {
    for (given, option, why) in [
        ("-accel kvm", "-accel kvm: ", "only tcg is allowed"),
        ("-accel tcg,thread=multi", "-accel tcg,thread=multi: ", "only single is allowed"),
        ("-enable-kvm", "-enable-kvm: ", "only tcg is allowed"),
        ("-M virt,accel=hvf:tcg", "-M virt,accel=hvf:tcg: ", "only tcg is allowed"),
        ("-machine pc,memory-backend=a", "-machine pc,memory-backend=a: ", "is not allowed"),
        ("-machine {\"accel\":\"kvm\"}", "-machine {", "not allowed in JSON"),
        ("-m 1G,slots=1,maxmem=2G", "-m 1G,slots=1,maxmem=2G: ", "maxmem is not allowed"),
        ("-m lots", "-m lots: ", "'lots' is no size"),
        ("-object memory-backend-ram,id=a,size=1G -numa node,memdev=a", "-object memory-backend-ram", "not allowed"),
        ("-numa node,memdev=a", "-numa node,memdev=a: ", "one piece"),
        ("-mem-path /dev/hugepages", "-mem-path /dev/hugepages: ", "not allowed"),
        ("-readconfig file", "-readconfig file: ", "not seen"),
        ("-M pc,max-ram-below-4g=1G -m 2G", "-M pc,max-ram-below-4g=1G: ", "by default"),
        ("-loadvm a", "-loadvm a: ", "not seen"),
        ("-incoming tcp:0:4444", "-incoming tcp:0:4444: ", "not seen"),
        ("-daemonize", "-daemonize: ", "not allowed"),
        ("-plugin a/farreach-qemu.so", "-plugin ", "itself"),
    ] {
        let refused = prepared(given).unwrap_err();
        assert!(refused.starts_with(option) && refused.contains(why), "{given}: {refused}");
    }
}

#[test]
fn commas_in_paths_are_doubled() {
    assert_eq!(escaped("/a,b/c".as_ref()), "/a,,b/c");
    let options = SystemOptions { begin: Begin::After(7), compare_all: true, ..SystemOptions::default() };
    let argument = plugin_argument(Path::new("/l,ib/p.so"), Path::new("/dev/shm/x"), &options);
    let expected = "file=/l,,ib/p.so,run-dir=/dev/shm/x,from=7,check=all,status=/dev/shm/x/status";
    assert_eq!(argument, expected);
}

#[test]
fn programs_that_are_no_qemu_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(PLUGIN), "").unwrap();
    let options = SystemOptions { plugin_dir: Some(folder.path().into()), ..SystemOptions::default() };
    let refused = |name: &str| Recorder::start_system(&[name.into()], &options).err().unwrap().to_string();
    assert!(refused("no-such-qemu").contains("no such program"));
    assert!(refused("/bin/true").contains("a QEMU system emulator is needed"));
    let nowhere = SystemOptions { plugin_dir: Some("/nowhere".into()), ..SystemOptions::default() };
    let why = Recorder::start_system(&["/bin/true".into()], &nowhere).err().unwrap().to_string();
    assert!(why.contains("make system") && why.contains(PLUGIN_VARIABLE), "{why}");
}

#[test]
fn the_status_of_the_guest_is_a_number() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(guest_status(folder.path()), Ok(None));
    for (text, status) in [("3\n", Some(3)), ("255", Some(255)), ("-1", Some(-1)), ("x", None)] {
        std::fs::write(folder.path().join(STATUS), text).unwrap();
        assert_eq!(guest_status(folder.path()).ok().flatten(), status, "{text}");
    }
}
