//! The options about which piece of a run is looked at.

use anyhow::Result;
use clap::Args;
use farreach_trace::{Cutter, Piece, Place};
use farreach_types::count::parse_count;
use farreach_types::counts::Workload;

/// How much of a run is simulated and counted.
#[derive(Args, Clone)]
pub struct PieceArgs {
    /// Leave out N instructions first, such as 2G. Their events take place (memory is mapped, processes are forked),
    /// and their references do not: what only they touched was never touched.
    #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    skip: Option<u64>,
    /// Simulate N instructions, behind those of --skip, and do not count them. Amounts of memory are those of all that
    /// is simulated. Not for whole systems, nor with --sample.
    #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    warmup: Option<u64>,
    /// Stop after N instructions, such as 300M, behind those of --skip and --warmup. All three are references in a
    /// trace without instruction fetches.
    #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    pub limit: Option<u64>,
}

/// Where it begins.
#[derive(Args, Clone, Debug)]
pub struct FromArgs {
    /// Begin where the program executes a function (a symbol of a program or library that it maps, such as main) or an
    /// address (0x401000) for the first time; or look at the pieces alone that it marks (farreach-mark.h). --skip and
    /// the others count from there on.
    #[arg(long, value_name = "FUNCTION|ADDRESS|mark")]
    pub from: Option<Place>,
}

impl PieceArgs {
    /// Instructions that are not counted.
    pub fn warmup(&self) -> Option<u64> {
        self.warmup
    }

    /// What cuts the stream. The limit is left to what consumes it.
    pub fn cutter(&self, from: Option<&Place>, every: Option<u64>) -> Cutter {
        let (skip, warmup) = (self.skip.unwrap_or(0), self.warmup.unwrap_or(0));
        Cutter::new(Piece { from: from.cloned(), skip, warmup, limit: None, every })
    }
}

/// Says in a result which piece it is of.
///
/// # Errors
/// The run ended by itself, and what was asked for never came.
pub fn describe(cutter: &Cutter, early: bool, workload: &mut Workload) -> Result<()> {
    if !early {
        cutter.end()?;
    }
    workload.piece = cutter.used();
    Ok(())
}
