//! The machine at hand, measured: its processor as a machine, kernels on pages of several sizes, what the kernel's
//! interfaces give, the memory of its processes.
//!
//! [`this`] describes the processor and measures its TLBs. [`pages`] runs a kernel again and again on pages of several
//! sizes, and predicts the same by machines. [`interfaces`] lists what farreach may ask of the kernel, and tries it.
//! [`snapshot`] reads which pages of a process are present, and where they lie; [`watch`] sees which of them
//! it uses.
//!
//! Owns what is measured here and now, as data. Must not know commands or terminals: it prints nothing, and hands words
//! about its progress to its caller. System calls and unsafe code are in `farreach-live`.
#![forbid(unsafe_code)]

pub mod interfaces;
pub mod pages;
pub mod snapshot;
mod systems;
pub mod this;
pub mod watch;

/// Words for people while something takes long: a line each, for standard error or wherever the caller wants them.
pub type Say<'a> = &'a mut dyn FnMut(String);
