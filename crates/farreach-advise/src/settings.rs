//! What is asked, what is answered, and what is told meanwhile.

use farreach_live::early::Early;
use farreach_machine::Progress;
use farreach_native::this;
use farreach_types::Error;
use farreach_types::counts::AdviceResult;
use std::ffi::OsString;
use std::path::PathBuf;

/// About what advice is wanted, and how. By default nothing: either `command` or `file` must be given.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Instead of a program: a trace, or a kernel of the catalogue, `workload:NAME`.
    pub file: Option<String>,
    /// The format of that file, where its content does not tell.
    pub format: Option<String>,
    /// The processor: a preset or a file, with overrides; `this` is the one at hand, with prices measured here.
    pub machine: String,
    /// Whether prices are measured now, even if those of the last day are kept.
    pub measure: bool,
    /// Runs of the program by itself, at least one.
    pub runs: u64,
    /// Runs each way, to compare with the prediction.
    pub verify: Option<u64>,
    /// The rows that are tried then, or [`ALL`](crate::ALL); none: the recommended one.
    pub change: Vec<String>,
    /// Whether settings of the kernel may be written for that.
    pub apply: bool,
    /// If the program is a server: its load.
    pub load: Option<ServerLoad>,
    /// File that is the standard input of the program in every run.
    pub stdin: Option<PathBuf>,
    /// Whether all of the program is simulated. Otherwise a sample is, if it runs for more than half a second by
    /// itself: the other rows are as good, and much sooner.
    pub exact: bool,
    /// Instructions that are simulated, if not all.
    pub limit: Option<u64>,
    /// The folder that settings of the kernel are read from and written to.
    pub system_root: PathBuf,
    /// On which is simulated.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            command: Vec::new(),
            file: None,
            format: None,
            machine: this::NAME.into(),
            measure: false,
            runs: 3,
            verify: None,
            change: Vec::new(),
            apply: false,
            load: None,
            stdin: None,
            exact: false,
            limit: None,
            system_root: "/".into(),
            threads: 1,
        }
    }
}

/// The load of a server.
#[derive(Clone, Debug)]
pub struct ServerLoad {
    /// For a shell. It runs when the server answers.
    pub command: String,
    /// Where the server answers, on 127.0.0.1.
    pub port: u16,
}

/// What came of it.
#[derive(Debug)]
pub struct Advice {
    /// The advice.
    pub result: AdviceResult,
    /// What ended a recording before its program had ended: the advice is from what was seen until then.
    pub early: Option<Early>,
    /// Why nothing could be tried, or what ended the trials before their time.
    pub unproved: Option<Error>,
}

/// What happens meanwhile: recordings, and lines for people.
pub type Event = farreach_workloads::feed::Event<Progress>;

/// Who hears of it.
pub type Listen<'a> = &'a mut dyn FnMut(Event);
