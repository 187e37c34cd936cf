//! A server and its load: both run, both end, and errors are reported. The server is `fixtures/programs/server.c`, the
//! load bash.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::{command, options, program, scratch};
use farreach_live::{Exit, Options, Recorder};
use farreach_types::event::Source;
use farreach_workloads::{Last, Load, Output, Prepared, Recording, RunningLoad, Stage};

/// Makes ten requests.
const TEN: &str = "for i in {1..10}; do read -r n < /dev/tcp/127.0.0.1/$0; (( n > 0 )) || exit 4; done";

struct Case {
    directory: PathBuf,
    port: u16,
    server: PathBuf,
}

impl Case {
    fn new(name: &str) -> Case {
        let directory = scratch().join(format!("server-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Case { directory, port, server: program("server", &[]) }
    }

    fn stdout(&self) -> PathBuf {
        self.directory.join("stdout")
    }

    /// What bash runs, `$0` being the port.
    fn load(&self, scripts: &[&str]) -> Load {
        let port = self.port.to_string();
        let commands = scripts.iter().map(|script| command(Path::new("/bin/bash"), &["-c", script, &port])).collect();
        Load {
            commands,
            port: self.port,
            directory: self.directory.clone(),
            output: Output::Named(self.directory.join("load")),
        }
    }

    fn record(&self, server: &Path, scripts: &[&str]) -> Recording {
        let options = Options { stdout: Some(self.stdout()), ..options() };
        let recorder = Recorder::start(&command(server, &[&self.port.to_string()]), &options).unwrap();
        Recording::server(recorder, self.load(scripts))
    }

    fn prepared(&self, scripts: &[&str]) -> Prepared {
        let command = command(&self.server, &[&self.port.to_string()]);
        let (directory, stdout, load) = (self.directory.clone(), self.stdout(), Some(self.load(scripts)));
        Prepared { command, directory, stdin: None, stdout, load }
    }

    fn run(&self, scripts: &[&str]) -> farreach_types::Result<farreach_workloads::Usage> {
        self.prepared(scripts).run()
    }

    /// Asserts that the server has ended; returns its output at SIGTERM, which it does not print when it is killed.
    fn connections(&self) -> u32 {
        assert!(TcpStream::connect(("127.0.0.1", self.port)).is_err(), "the server still runs");
        let said = fs::read_to_string(self.stdout()).unwrap();
        said.strip_suffix(" connections\n").unwrap_or_else(|| panic!("the server said '{said}'")).parse().unwrap()
    }

    fn processes_in_directory(&self) -> usize {
        let cwd = |entry: fs::DirEntry| fs::read_link(entry.path().join("cwd")).ok();
        fs::read_dir("/proc").unwrap().filter_map(|entry| cwd(entry.ok()?)).filter(|cwd| *cwd == self.directory).count()
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn drain(recording: &mut Recording) {
    while recording.next_batch().unwrap().is_some() {}
}

#[test]
fn a_server_is_recorded_until_its_load_ends() {
    let case = Case::new("whole");
    let mut recording = case.record(&case.server, &[TEN, TEN]);
    drain(&mut recording);
    let report = recording.finish().unwrap();
    assert_eq!((report.exit, report.verified, report.lost), (Exit::Code(0), 1, 0));
    // One more connection tested whether it is ready.
    assert_eq!(case.connections(), 21);
}

#[test]
fn a_limit_ends_both_in_their_regular_way() {
    let case = Case::new("limit");
    let mut recording =
        case.record(&case.server, &["while read -r n < /dev/tcp/127.0.0.1/$0; do :; done; exec sleep 600"]);
    let output = case.directory.join("load");
    let since = Instant::now();
    while !output.exists() {
        recording.next_batch().unwrap().expect("it goes on");
        assert!(since.elapsed() < Duration::from_secs(60), "no load is started");
    }
    // Long enough for the server to wait for its reader, which is of another user.
    std::thread::sleep(Duration::from_secs(1));
    let report = recording.finish().unwrap();
    assert_eq!((report.exit, report.verified, report.lost), (Exit::Code(0), 1, 0));
    case.connections();
    assert_eq!(case.processes_in_directory(), 0, "the load still runs");
}

#[test]
fn a_load_that_fails_is_reported_and_the_server_ended() {
    let case = Case::new("failing");
    let mut recording = case.record(&case.server, &["exit 9", TEN]);
    drain(&mut recording);
    let error = format!("{:#}", recording.finish().expect_err("refused"));
    assert!(error.contains("/bin/bash") && error.contains("exit status: 9") && error.contains("/load"), "{error}");
    assert_eq!(case.connections(), 1);
    let error = format!("{:#}", case.run(&["exit 9", TEN]).expect_err("refused"));
    assert!(error.contains("exit status: 9"), "{error}");
    assert_eq!(case.connections(), 1);
}

#[test]
fn a_server_that_ends_too_early_is_reported() {
    let case = Case::new("early");
    let mut recording = case.record(Path::new("/bin/true"), &[TEN]);
    drain(&mut recording);
    let error = format!("{:#}", recording.finish().expect_err("refused"));
    assert!(error.contains("ended before it answered") && error.contains(&case.port.to_string()), "{error}");
    // Killed under its load, which would go on for long.
    let mut recording =
        case.record(&case.server, &["until [ -s pid ]; do sleep 0.1; done; kill -KILL $(cat pid); exec sleep 600"]);
    fs::write(case.directory.join("pid"), recording.pid().to_string()).unwrap();
    drain(&mut recording);
    let error = format!("{:#}", recording.finish().expect_err("refused"));
    assert!(error.contains("its server ended before it did"), "{error}");
    assert_eq!(case.processes_in_directory(), 0, "the load still runs");
}

#[test]
fn dropping_a_recording_leaves_nothing() {
    let case = Case::new("dropped");
    let mut recording = case.record(&case.server, &["exec sleep 600"]);
    recording.next_batch().unwrap();
    drop(recording);
    assert!(TcpStream::connect(("127.0.0.1", case.port)).is_err(), "the server still runs");
    assert_eq!(case.processes_in_directory(), 0, "the load still runs");
}

#[test]
fn a_server_runs_as_it_is() {
    let case = Case::new("native");
    let usage = case.run(&[TEN]).unwrap();
    assert!(usage.status.success() && usage.peak_bytes > 100_000, "{usage:?}");
    assert_eq!(case.connections(), 11);
}

#[test]
fn the_last_command_of_a_load_is_repeated_to_be_timed() {
    let case = Case::new("timed");
    let time = case.prepared(&[TEN, TEN]).time_last(Duration::from_millis(300)).unwrap();
    assert!(time < Duration::from_secs(60), "{time:?}");
    let connections = case.connections();
    assert!(connections > 31 && connections % 10 == 1, "{connections}");
    let mut alone = case.prepared(&[TEN]);
    (alone.load, alone.command) = (None, command(Path::new("/bin/true"), &[]));
    let error = alone.time_last(Duration::from_millis(1)).expect_err("refused").to_string();
    assert_eq!(error, "it is no server");
}

#[test]
fn the_last_command_of_a_load_can_be_held_back_and_so_can_the_end() {
    let case = Case::new("held");
    let said = std::fs::File::create(case.stdout()).unwrap();
    let mut server = std::process::Command::new(&case.server).arg(case.port.to_string()).stdout(said).spawn().unwrap();
    let served = case.directory.join("served");
    let script = format!("touch {}", served.display());
    let load = RunningLoad::start(case.load(&[TEN, &script]), server.id(), Last::Held);
    let reach = |stage: Stage| {
        let since = Instant::now();
        while load.stage() < stage {
            assert!(since.elapsed() < Duration::from_secs(60), "{stage:?} is not reached");
            std::thread::sleep(Duration::from_millis(5));
        }
        // Long enough for it to go on if it were not held.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(load.stage(), stage);
    };
    reach(Stage::Filled);
    assert!(!served.exists() && load.user_time().is_none());
    load.go_on();
    reach(Stage::Served);
    assert!(served.exists() && load.user_time().is_some() && server.try_wait().unwrap().is_none());
    load.go_on();
    load.join().unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!(case.connections(), 11);
}
