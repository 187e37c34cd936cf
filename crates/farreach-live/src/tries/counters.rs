//! Counters of the processor.

use std::hint::black_box;

use perf_event::Builder;
use perf_event::events::Hardware;

use super::{Failure, Tried, setting};

/// Instructions of this process in user mode, counted by the processor.
pub fn instructions() -> Tried {
    const ROUNDS: u64 = 10_000;
    let counted = || {
        let mut counter = Builder::new().kind(Hardware::INSTRUCTIONS).build()?;
        counter.enable()?;
        (0..ROUNDS).for_each(|round| _ = black_box(round));
        counter.disable()?;
        counter.read()
    };
    match counted() {
        Ok(count) if count >= ROUNDS => Ok(format!("{count} instructions were counted")),
        Ok(count) => Err(Failure::new(format!("{count} instructions were counted in {ROUNDS} rounds of a loop"))),
        Err(error) => {
            let refused = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
            let level = setting("/proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|| "not there".into());
            let failure = Failure::of("perf_event_open for instructions", error);
            Err(match refused {
                true => failure.or_turn_on(format!("sudo sysctl kernel.perf_event_paranoid=2 (it is {level})")),
                false => {
                    failure.or_turn_on("in a virtual machine, a host that passes counters on (QEMU: -cpu host,pmu=on)")
                }
            })
        }
    }
}
