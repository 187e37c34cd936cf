//! Calls that stop but change no mapping, and may take long: other tasks of the address space need not wait for them.

use super::{Decision, What};
use crate::filter::OTHER_CHILDREN;
use crate::monitor::{Failure, Monitor};
use crate::sys::Registers;
use farreach_types::addr::Asid;

/// Futex operations with a second word.
const WITH_ANOTHER: [i32; 3] = [libc::FUTEX_WAKE_OP, libc::FUTEX_WAIT_REQUEUE_PI, libc::FUTEX_CMP_REQUEUE_PI];
const FLAGS: i32 = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;

impl Monitor<'_> {
    /// What becomes of such a call; none if it is another one.
    pub(super) fn decide_apart(
        &mut self,
        asid: Asid,
        task: i32,
        registers: Registers,
    ) -> Result<Option<Decision>, Failure> {
        let Registers { rdi, rsi, rdx, r10, r8, .. } = registers;
        let apart = |changed| Ok(Some(Decision::Do(What::Apart, Box::new(changed))));
        let others = u64::from(OTHER_CHILDREN);
        match registers.orig_rax as i64 {
            // The kernel changes the words without a trap.
            libc::SYS_futex => {
                self.hold(asid, task, rdi, true)?;
                if WITH_ANOTHER.contains(&(rsi as i32 & !FLAGS)) {
                    self.hold(asid, task, r8, true)?;
                }
                apart(registers)
            }
            libc::SYS_sched_yield => Ok(Some(if self.yields(task)? { Decision::Stay } else { Decision::Pass })),
            libc::SYS_wait4 | libc::SYS_waitid if self.parents_of_others.contains(&self.tasks[&task].process) => {
                Ok(Some(Decision::Pass))
            }
            // The only child that these flags would add is the agent.
            libc::SYS_wait4 if rdx & libc::__WALL as u64 == 0 => only_others(),
            libc::SYS_wait4 => apart(Registers { rdx: rdx & !others, ..registers }),
            libc::SYS_waitid if r10 & libc::__WALL as u64 == 0 => only_others(),
            libc::SYS_waitid => apart(Registers { r10: r10 & !others, ..registers }),
            _ => Ok(None),
        }
    }
}

/// There are no children of that kind.
fn only_others() -> Result<Option<Decision>, Failure> {
    Ok(Some(Decision::Answer(-i64::from(libc::ECHILD))))
}
