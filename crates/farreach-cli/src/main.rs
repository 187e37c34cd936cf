//! The command `farreach`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: farreach_live::Allocator = farreach_live::Allocator;

fn main() -> ExitCode {
    farreach_cli::main()
}
