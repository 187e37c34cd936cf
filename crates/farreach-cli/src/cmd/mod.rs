//! One file per subcommand.

pub mod area;
