//! Runs the studies of the papers on this machine.
//!
//! [`Programs`] finds or records the programs that studies are about. [`Runner`] asks the studies what they want, takes
//! from the cache what is there, runs the rest in passes on all processors, and asks again, until they want nothing
//! more: [`Runner::answer`] has all results, [`Runner::round`] only says what is missing. Servers in their steady state
//! ([`Steady`]) are observed by their traps, in a process of their own.
//!
//! Owns the set of programs and the schedule of passes. Must not know what a study is about (`farreach-papers`), how a
//! pass runs (`farreach-sweep`), or terminals: what happens meanwhile it tells as [`Event`]s.
#![forbid(unsafe_code)]

mod programs;
mod runner;
mod spoken;
mod steady;

pub use programs::{Programs, Sources};
pub use runner::{Round, Runner};
pub use steady::{Steady, check_steady, servers};

use farreach_machine::Progress;

/// What happens while programs are recorded and passes run. Those that are called often are as cheap as can be.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A line for people.
    Says(String),
    /// A program begins to be recorded.
    RecordingBegins {
        /// Instructions after which it is enough.
        limit: u64,
    },
    /// So much of it is recorded; often.
    Recorded(Progress),
    /// It was recorded.
    RecordingEnds,
    /// Passes begin.
    PassesBegin,
    /// How far they are; ten times a second.
    Passes {
        /// The round, from 1.
        round: u32,
        /// Passes that are done.
        done: u64,
        /// All passes of the round.
        total: u64,
        /// References simulated, times machines.
        work: u64,
    },
    /// They have ended.
    PassesEnd,
}

/// Who hears of events.
pub type Listen<'a> = &'a mut dyn FnMut(Event);
