//! Recording of running programs (Linux, x86-64), and the system calls that it needs.
//!
//! [`Recorder::start`] runs a command under the recorder (`capture/valgrind`, a Valgrind tool) and is the
//! [`Source`](farreach_types::event::Source) of its stream, all its children included. [`Recorder::start_system`] does
//! the same with a QEMU, and the stream is that of the whole system in it (`capture/qemu`, a plugin).
//! `docs/book/src/reference/recorder.md` explains how it works.
//!
//! This crate owns the processes, shared memory, signals, limits and memory of a run. It must not know trace files,
//! machines or commands: it produces batches for any consumer.
//!
//! From the program to the batch: `check` and `launch` start the program, `shared`, `layout` and `process` take chunks
//! out of its rings, `decode` turns words into batches, `recorder` follows the processes, and `log` finds out why a
//! recorder failed. `system_recorder` starts whole systems. Beside it, [`tries`] finds out which interfaces of the
//! kernel work for this user.

mod advice;
mod allocator_of;
pub mod cache;
mod calls;
pub mod chase;
mod check;
mod counts;
mod decode;
pub mod early;
mod elf;
mod fault;
mod folder;
#[doc(hidden)]
pub mod fuzz;
mod guard;
pub mod guarded;
mod instruction;
mod launch;
mod layout;
mod limits;
mod lock;
mod log;
mod memory;
mod met;
pub mod native;
mod process;
mod processor;
mod recorder;
pub mod rights;
pub mod room;
mod scan;
pub mod settings;
mod shared;
mod signals;
pub mod system;
mod system_recorder;
pub mod tool;
pub mod tries;
mod wait;
pub mod watch;

pub use advice::{huge_pages_for, no_huge_pages, populate};
pub use allocator_of::{AllocatorKind, allocator_of};
pub use check::check_program;
pub use counts::Counts;
pub use elf::{Text, build_id, libraries_of, linker_of, text_of};
pub use folder::Folder;
pub use launch::{Options, TEXT_LIBRARY, TOOL, TOOL_VARIABLE, tool_dir};
pub use limits::{check_addresses, check_stack};
pub use memory::{Allocator, stdout_was_closed};
pub use process::has_living_task as is_running;
pub use processor::{CpuidLeaf, cpuid, midr};
pub use recorder::{Exit, Recorder, Report};
pub use scan::huge_pages;
pub use signals::send;
pub use signals::{Watch, end_with_parent, full_files_are_errors};
pub use system_recorder::{Begin, PLUGIN, PLUGIN_VARIABLE, SystemOptions, SystemReport, mark_program, plugin_dir};
pub use wait::{own_cpu, own_user};

#[cfg(test)]
mod tests;
