//! The recorder beside single steps, and single steps beside the processor.

mod build;
mod compare;
mod differences;
mod families;
mod forms;
mod oracle;
mod random;
mod recorded;
mod unknown;
mod writer;
