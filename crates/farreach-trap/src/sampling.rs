//! Runs of which only a sample of sets is simulated: the other pages, and what the traps cost.

use crate::agent::Trouble;
use crate::monitor::{Failure, Monitor};
use crate::regions::Memory;
use crate::space::{PAGE, Space};
use farreach_types::addr::{Asid, Vpn};
use procfs::process::Process;
use std::collections::HashSet;
use std::ops::Range;

/// Pages that are mapped together where nothing is simulated.
const TOGETHER: u64 = 512;

impl Monitor<'_> {
    /// A piece of a region from this page on that may be mapped at once: more than the page if none of them is
    /// simulated.
    pub fn mapped_together(&self, page: u64, end: u64) -> Range<u64> {
        let unseen = |page: &u64| !self.lab.observes(Vpn(page / PAGE));
        let last = end.min(page + TOGETHER * PAGE);
        let pages = (page..last).step_by(PAGE as usize).take_while(unseen).count() as u64;
        page..page + pages.max(1) * PAGE
    }

    /// Unmaps all pages, of which the machines hold none: nothing was simulated so far.
    pub fn unmap_all(&mut self) -> Result<(), Failure> {
        let of =
            |space: &Space| space.regions.iter().filter(|(_, r)| r.memory != Memory::Unseen).map(|(b, _)| b).collect();
        let spaces: Vec<(Asid, Vec<Range<u64>>)> = self.spaces.iter().map(|(asid, space)| (*asid, of(space))).collect();
        let all = spaces.into_iter().flat_map(|(asid, all)| all.into_iter().map(move |bytes| (asid, bytes))).collect();
        for (asid, bytes) in self.without_held(all) {
            match self.spaces[&asid].agent.unmap_pages(bytes) {
                Err(Trouble::Gone) if !self.has_living_task(asid) => {} // its end is reported soon
                done => done.map_err(|trouble| Failure::trouble("unmapping pages of the program", trouble))?,
            }
        }
        Ok(())
    }

    /// Brings the times of the report and of the laboratory up to date.
    pub fn measure(&mut self) {
        let processes: HashSet<i32> = self.tasks.values().map(|task| task.process).collect();
        let (mut user, mut cpu) = (0, 0);
        for times in processes.into_iter().filter_map(|process| cpu_times(process, true)) {
            user += times.user;
            cpu += times.user + times.system;
        }
        // A process that ended and was not waited for takes its time with it.
        self.report.user_microseconds = self.report.user_microseconds.max(user);
        self.report.cpu_microseconds = self.report.cpu_microseconds.max(cpu);
        self.lab.progress(self.report.user_microseconds);
        self.report.monitor_microseconds = self.monitor_time();
        self.report.trap_microseconds = self.trap_time.as_micros() as u64;
        self.report.between_nanoseconds = self.gaps.short();
        self.report.wall_microseconds = self.begun.elapsed().as_micros() as u64;
    }

    /// CPU time of the monitor and its agents, in microseconds.
    pub fn monitor_time(&self) -> u64 {
        let agents = self.spaces.values().filter_map(|space| cpu_times(space.agent.number(), false));
        own_time() - self.own_before + agents.map(|times| times.user + times.system).sum::<u64>()
    }
}

/// CPU time in microseconds.
struct Times {
    user: u64,
    system: u64,
}

/// The CPU time of a process; `children`: with those that it has waited for.
fn cpu_times(process: i32, children: bool) -> Option<Times> {
    let stat = Process::new(process).ok()?.stat().ok()?;
    let micros = |ticks: u64| ticks * 1_000_000 / procfs::ticks_per_second();
    let waited = |ticks: i64| if children { ticks.max(0) as u64 } else { 0 };
    Some(Times { user: micros(stat.utime + waited(stat.cutime)), system: micros(stat.stime + waited(stat.cstime)) })
}

/// CPU time of this process so far.
pub fn own_time() -> u64 {
    cpu_times(std::process::id() as i32, false).map_or(0, |times| times.user + times.system)
}
