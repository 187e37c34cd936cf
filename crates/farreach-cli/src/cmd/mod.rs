//! One file per subcommand.

pub mod trace;
