//! The ring of processes whose memory a thread of the system looks at (LNX-11): in the order in which they entered, and
//! from a cursor on.

/// Processes from the first on, and where the next wake begins.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    processes: Vec<u32>,
    /// At this place of it, and this page.
    next: Option<(usize, u64)>,
}

impl Ring {
    /// The processes, the first one first.
    pub fn processes(&self) -> &[u32] {
        &self.processes
    }

    /// A process joins at the tail. False if it is there.
    pub fn enter(&mut self, process: u32) -> bool {
        let new = !self.processes.contains(&process);
        if new {
            self.processes.push(process);
        }
        new
    }

    /// A process ended. The cursor is at the beginning of the one behind it, or at the end of the ring.
    pub fn leave(&mut self, process: u32) {
        let Some(place) = self.processes.iter().position(|of| *of == process) else { return };
        self.processes.remove(place);
        self.next = match self.next {
            Some((turn, page)) if place < turn => Some((turn - 1, page)),
            Some((turn, _)) if place == turn => (turn < self.processes.len()).then_some((turn, 0)),
            next => next,
        };
    }

    /// The next group to look at, the first of a process from a page on that `find` finds. None: a wake came to the end
    /// of the ring a second time, or once from the first process on, as `from_first` remembers (OK-5).
    pub fn turn(&mut self, from_first: &mut bool, find: impl Fn(u32, u64) -> Option<u64>) -> Option<(u32, u64)> {
        loop {
            if self.next.is_none() && (*from_first || self.processes.is_empty()) {
                return None;
            }
            *from_first |= self.next.is_none();
            let (turn, cursor) = self.next.unwrap_or((0, 0));
            let process = self.processes[turn];
            if let Some(first) = find(process, cursor) {
                return Some((process, first));
            }
            self.next = (turn + 1 < self.processes.len()).then_some((turn + 1, 0));
        }
    }

    /// What [`Ring::turn`] found was looked at, up to this page.
    pub fn behind(&mut self, page: u64) {
        self.next = Some((self.next.map_or(0, |(turn, _)| turn), page));
    }
}
