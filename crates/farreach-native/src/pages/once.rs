//! One run of a kernel on pages of one size, in a process of its own: measured there, from the point where its input is
//! ready.

use super::PageSize;
use super::probe::probe;
use farreach_kernels::{Kernel, Settings, Watch};
use farreach_live::guarded::Start;
use farreach_live::{huge_pages_for, no_huge_pages, own_user, populate};
use farreach_report::format::count;
use farreach_types::{Context, Error, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::rc::Rc;

/// Least user time of a run that can be measured: the kernel counts it in ticks.
const LEAST: f64 = 0.1;

/// The measurement of one run.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Checksum of the kernel.
    pub checksum: u64,
    /// User seconds before the algorithm began: the making of its input.
    pub setup: f64,
    /// User seconds of the algorithm.
    pub seconds: f64,
    /// Data references in these.
    pub references: u64,
    /// Bytes of arrays of at least a page.
    pub bytes: u64,
    /// Of them in pages of the size.
    pub held: u64,
    /// The result of [`probe`].
    pub probe: f64,
    /// What went wrong.
    pub failure: Option<String>,
}

/// Observes the kernel, and advises the system about page sizes.
struct MeasuredRun {
    size: PageSize,
    larger: Option<u64>,
    held_before: u64,
    seen: Rc<RefCell<Measured>>,
}

impl Watch for MeasuredRun {
    fn made(&mut self, at: Range<usize>) {
        let mut seen = self.seen.borrow_mut();
        if at.len() as u64 >= self.size.bytes {
            seen.bytes += at.len() as u64;
        }
        let asked = if self.size == PageSize::BASE { Ok(()) } else { huge_pages_for(&at, self.larger) };
        if let Err(e) = asked.and_then(|()| populate(&at)) {
            seen.failure = Some(format!("madvise: {e}"));
        }
    }
    fn begins(&mut self) {
        self.seen.borrow_mut().setup = own_user().as_secs_f64();
    }
    fn ends(&mut self, references: u64) {
        let mut seen = self.seen.borrow_mut();
        // The time first, since the other questions take time.
        seen.seconds = own_user().as_secs_f64() - seen.setup;
        seen.references = references;
        seen.held = self.size.held().saturating_sub(self.held_before);
    }
}

/// Runs a kernel here, on such pages.
///
/// # Errors
/// The kernel cannot run so, or the system refuses what it is asked.
pub fn once(kernel: &Kernel, settings: &Settings, size: PageSize) -> Result<Measured> {
    if size == PageSize::BASE {
        no_huge_pages().context("prctl(PR_SET_THP_DISABLE)")?;
    }
    let probe = probe(size)?;
    let seen = Rc::new(RefCell::new(Measured::default()));
    let measured_run = MeasuredRun { size, larger: size.larger(), held_before: size.held(), seen: seen.clone() };
    let checksum = kernel.run_watched(settings, Box::new(measured_run))?;
    Ok(Measured { checksum, probe, ..seen.take() })
}

/// Number of references for a run of four times the least time, since larger pages are faster, from a run of
/// `references` in `seconds`; in tens of millions.
fn enough(references: u64, seconds: f64) -> u64 {
    let wanted = references as f64 * 4.0 * LEAST / seconds.max(0.001);
    (wanted / 1e7).ceil() as u64 * 10_000_000
}

/// Runs a kernel in a process of its own, on such pages: by the command `farreach`.
///
/// # Errors
/// It fails, or takes too little time to be measured.
pub fn apart(kernel: &Kernel, settings: &Settings, size: PageSize, farreach: &Path) -> Result<Measured> {
    let mut start = Start::new(farreach, None, None).map_err(Error::System)?;
    let command = start.command().stdin(Stdio::null());
    command.args(["workloads", &format!("kernel/{}", kernel.name), "--native", "--once", "--pages", &size.name()]);
    for (option, value) in [("--size", settings.size), ("--references", settings.references), ("--seed", settings.seed)]
    {
        command.args([option, &value.to_string()]);
    }
    let name = format!("kernel/{} on pages of {}", kernel.name, size.name());
    let (ended, [output, _]) = start.output().with_context(|| name.clone())?;
    ensure!(ended.status.success(), "{name}: {}", ended.status);
    let measured: Measured = serde_json::from_slice(&output).with_context(|| format!("{name}: its measure"))?;
    if let Some(failure) = &measured.failure {
        bail!("{name}: {failure}");
    }
    ensure!(
        measured.seconds >= LEAST,
        "kernel/{}: {} references take {:.3} s, which is too few to measure; give --references {} or more",
        kernel.name,
        count(settings.references),
        measured.seconds,
        enough(settings.references, measured.seconds)
    );
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_short_is_told_how_long_it_must_be() {
        assert_eq!(enough(10_000_000, 0.044), 100_000_000);
        assert_eq!(enough(1000, 0.0), 10_000_000);
        assert!(enough(60_000_000, LEAST - 0.001) > 60_000_000);
    }
}
