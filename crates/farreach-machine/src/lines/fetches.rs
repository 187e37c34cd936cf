//! The latest fetch of the running thread for the machines of the loop of lines that need it (HW-6). Then all blocks
//! are taken reference by reference.

use super::super::threads::{LatestFetch, never_fetched};
use super::SystemInstance;
use farreach_hw::system::Fetched;
use farreach_types::Error;
use farreach_types::addr::Asid;
use farreach_types::event::{Kind, Op};

/// See the module. Nothing is noted if no machine needs it.
pub(super) struct Fetches {
    wanted: bool,
    latest: LatestFetch,
    /// Instructions fetched so far.
    instructions: u64,
    /// The latest fetches of the span that is collected; none before the first fetch of the thread.
    of_span: Vec<Fetched>,
}

impl Fetches {
    pub fn new(instances: &mut [SystemInstance]) -> Fetches {
        Fetches {
            wanted: instances.iter_mut().any(|instance| instance.system.needs_fetches().is_some()),
            latest: LatestFetch::default(),
            instructions: 0,
            of_span: Vec::new(),
        }
    }

    /// Whether a machine needs it.
    pub fn wanted(&self) -> bool {
        self.wanted
    }

    /// For [`farreach_hw::system::System::fetched`].
    pub fn of_span(&self) -> &[Fetched] {
        &self.of_span
    }

    /// An instruction is fetched, by the item of the span that comes next.
    pub fn fetch(&mut self, from: usize, pc: u64, instructions: u64) {
        if self.wanted {
            self.latest.address = Some(pc);
            self.instructions = instructions;
            self.of_span.push(Fetched { from, pc, instructions });
        }
    }

    /// The span was passed on. The latest fetch is that of the next one, too.
    pub fn next_span(&mut self) {
        if self.wanted {
            self.of_span.clear();
            let latest = self.latest.address.map(|pc| Fetched { from: 0, pc, instructions: self.instructions });
            self.of_span.extend(latest);
        }
    }

    /// Refuses a load or store before the first fetch of its thread.
    pub fn check(&self, instances: &mut [SystemInstance], at: (Asid, u64, Kind)) -> Result<(), Error> {
        if !self.wanted || self.latest.address.is_some() {
            return Ok(());
        }
        let needs = |instance: &mut SystemInstance| Some((instance.name.clone(), instance.system.needs_fetches()?));
        let (machine, because) = instances.iter_mut().find_map(needs).expect("a machine needs it");
        Err(never_fetched(&machine, &because, at))
    }

    /// See [`LatestFetch::go_on`]; between two spans.
    pub fn go_on(&mut self, from: (Asid, Option<u32>), to: (Asid, Option<u32>)) {
        if self.wanted {
            self.latest.go_on(from, to);
            self.next_span();
        }
    }

    /// See [`LatestFetch::follow`]; between two spans.
    pub fn follow(&mut self, asid: Asid, thread: Option<u32>, op: &Op) {
        if self.wanted {
            self.latest.follow(asid, thread, op);
            self.next_span();
        }
    }
}
