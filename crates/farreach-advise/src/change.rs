//! A change of the machine or of how the program is started, and what is known of the program.

use super::kernel::Write;
use farreach_live::{AllocatorKind, Text};

/// The name of the row without a change.
pub const TODAY: &str = "today";

/// Why nothing is known of a program that ran.
pub const ENDED_TOO_SOON: &str = "the program ended before its memory could be looked at";

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
    /// It ran, but ended before anything was seen of it but its time.
    pub unseen: bool,
    /// Most memory in use, if it ran.
    pub resident_bytes: Option<u64>,
    /// Whether arguments at the end of the command reach it.
    pub takes_arguments: bool,
    /// It has anonymous memory that its processes share.
    pub shares: bool,
    /// What of its text could lie on huge pages.
    pub text: Text,
}
