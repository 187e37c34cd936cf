//! The references of a program by single steps: what the recorder is compared with. For tests only.
//!
//! The processor runs the program itself, one instruction at a time (`ptrace`). Before each step the instruction at
//! RIP is decoded, and the addresses of its references are computed from the registers as they are then. So this knows
//! nothing of Valgrind, and shares no code with the recorder. The decoder is `iced-x86`; sizes and order beyond its
//! tables are those of Intel's Software Developer's Manual ([`references_of`]).
//!
//! What is taken as true:
//!
//! * Each step that completes is a fetch of the whole instruction and its loads and stores. A repeated string
//!   instruction traps after each iteration, so each iteration is a step.
//! * Loads come before stores, but where an instruction does several things in turn (`enter`).
//! * A read-modify-write is a load and a store, `cmpxchg` also when the comparison fails: the processor writes the old
//!   value then.
//! * Masked moves and gathers are a reference for each element whose mask bit is set, from the lowest. Prefetches are
//!   none. Instructions that flush a line are a load of one byte: they fault like one.
//! * An instruction that faults is not completed. It is listed as an attempt, with its signal.
//!
//! None of this rests on the decoder alone: a run can be made with [`Options::witness`], which takes the pages away
//! from each instruction first, and compares the place of the fault that follows with the computed address; and tests
//! of this crate find begin, end and kind of each operand in the same way.
//!
//! Programs with one thread and one process, statically linked, whose registers at the start do not matter. Anything
//! else ends with an error.

mod decode;
mod error;
mod run;
mod special;
mod tracee;
mod witness;

pub use decode::references_of;
pub use error::Error;
pub use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic};
pub use run::{Attempt, Options, Run, run};
pub use tracee::{End, Registers, Stop, Tracee};
pub use witness::{find_syscall, protect};
