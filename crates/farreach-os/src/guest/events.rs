//! The events of a guest, and the state that is about address spaces as a whole.

use super::Guest;
use super::registers::Processor;
use super::walk::top;
use crate::contract::What;
use crate::labels;
use crate::os::Os;
use crate::placement::guest::Tags;
use farreach_types::addr::{Asid, BASE_SHIFT, Bytes, KERNEL};
use farreach_types::counts::GuestOsCounts;
use farreach_types::event::{Arch, Guest as Event, Op};

/// Processors that a recording may name.
const PROCESSORS: u32 = 1 << 12;

impl Os {
    /// An event of a recording of a whole system, or one that makes it none.
    pub(crate) fn guest_apply(&mut self, asid: Asid, op: &Op) {
        self.space(asid);
        if let Err(why) = self.with_guest(|guest, os| guest.apply(os, asid, op)) {
            self.refusal.get_or_insert(why);
        }
    }

    /// What it counted of a guest, if it follows one.
    pub fn guest_counts(&self) -> Option<GuestOsCounts> {
        self.guest.as_ref().map(|guest| guest.counts())
    }

    /// Whether its page tables are those of a recorded system: it serves no faults, and all it maps was mapped before.
    pub fn follows_guest(&self) -> bool {
        self.guest.is_some()
    }

    /// Most bytes of the guest's own page tables, as far as pages below them were touched; `None` of a system that
    /// makes its own.
    pub fn guest_table_bytes(&self) -> Option<u64> {
        self.guest.as_ref().map(|guest| guest.table_bytes())
    }
}

impl Guest {
    fn apply(&mut self, os: &mut Os, asid: Asid, op: &Op) -> Result<(), String> {
        match op {
            Op::Guest(event) => self.follow(os, asid, event)?,
            Op::Switch { thread } => {
                self.forget_restored(os);
                let known = self.processors.len() as u32;
                if *thread >= known {
                    return Err(format!("processor {thread} goes on, and the recorded system has {known}"));
                }
                self.current = *thread as usize;
                self.follow_kernel_root(os);
            }
            Op::End(_) => self.end(os, asid),
            Op::Start { program, .. } if !program.is_empty() => {
                self.names.insert(asid, os.labels.intern(program));
            }
            Op::Start { .. }
            | Op::Define { .. }
            | Op::Code { .. }
            | Op::Pages
            | Op::Samples
            | Op::Boundary(_)
            | Op::ThreadStart { .. }
            | Op::ThreadExit { .. } => {}
            Op::Fork { .. }
            | Op::Map(_)
            | Op::Unmap { .. }
            | Op::Remap { .. }
            | Op::Protect { .. }
            | Op::Advise { .. }
            | Op::KernelStore { .. }
            | Op::Thp(_) => {
                return Err("placement = guest follows the page tables of a whole system, and this stream has the \
                            mappings of a program instead: give it another placement, such as demand"
                    .into());
            }
        }
        Ok(())
    }

    fn follow(&mut self, os: &mut Os, asid: Asid, event: &Event) -> Result<(), String> {
        if self.arch.is_none() && !matches!(event, Event::Machine { .. }) {
            return Err("the recording of a whole system does not begin with what it runs on".into());
        }
        if matches!(event, Event::Register { .. } | Event::Entries { .. } | Event::Invalidate(_)) {
            self.forget_restored(os);
        }
        match event {
            Event::Machine { arch, processors, .. } => return self.begin(os, *arch, *processors),
            Event::Register { register, value } => self.write(os, *register, *value),
            Event::Entries { address, values } => {
                let first = address >> 3 & 511;
                if address % 8 != 0 || first + values.len() as u64 > 512 {
                    return Err(format!("{} words of a table at {address:#x} are not in one frame", values.len()));
                }
                self.entries(os, *address, values);
            }
            Event::Invalidate(what) => self.invalidate(os, asid, *what),
            Event::Exception { vector } => {
                let counts = &mut self.counts;
                *match (self.arch, *vector) {
                    (Some(Arch::X86), 14) => &mut counts.page_faults,
                    (Some(Arch::X86), 0..32) => &mut counts.exceptions,
                    // Of four entries in the table of vectors, the first is for exceptions.
                    (Some(Arch::Aarch64), vector) if vector & 0x180 == 0 => &mut counts.exceptions,
                    // Page faults of a fetch, a load, a store.
                    (Some(Arch::Riscv64), 12 | 13 | 15) => &mut counts.page_faults,
                    (Some(Arch::Riscv64), vector) if vector >> 31 == 0 => &mut counts.exceptions,
                    _ => &mut counts.interrupts,
                } += 1;
            }
            Event::Name(name) => _ = self.names.insert(asid, os.labels.intern(name)),
            Event::Privilege { .. } => {}
            Event::Stale { page, address } => self.restore(os, asid, *page, *address)?,
        }
        Ok(())
    }

    fn begin(&mut self, os: &mut Os, arch: Arch, processors: u32) -> Result<(), String> {
        if self.arch.is_some() {
            return Err("the recording says twice what the system runs on".into());
        }
        if !(1..=PROCESSORS).contains(&processors) {
            return Err(format!("a recorded system of {processors} processors: 1 to {PROCESSORS} are allowed"));
        }
        if arch != Arch::X86 && self.policy.tags == Tags::Pcid {
            let arch = arch.name();
            return Err(format!(
                "tags = pcid is not allowed for a recording of {arch}: PCIDs are those of x86-64 (SHD-4); tags must be \
                 guest or all"
            ));
        }
        if arch != Arch::Aarch64 && os.shift != BASE_SHIFT {
            let (arch, size) = (arch.name(), Bytes(1 << os.shift));
            return Err(format!("page_size = {size} is not allowed for a recording of {arch}: it must be 4K"));
        }
        self.arch = Some(arch);
        self.tags_local &= arch == Arch::X86;
        self.processors.resize(processors as usize, Processor::default());
        Ok(())
    }

    /// An address space is gone.
    fn end(&mut self, os: &mut Os, asid: Asid) {
        if let Some(root) = self.roots.remove(&asid) {
            self.unlink(top(asid, root));
        }
        self.remove(os, asid, os.half(false));
        self.processors.iter_mut().for_each(|processor| processor.forget(asid));
        os.space(asid).ended = true;
        if asid != KERNEL {
            os.change(asid, os.all_pages(), What::Gone);
        }
    }

    /// The name of an address space, as a label.
    pub(super) fn label(&mut self, os: &mut Os, asid: Asid) -> u32 {
        let unknown = if asid == KERNEL { labels::GUEST_KERNEL } else { labels::GUEST_PROGRAM };
        *self.names.entry(asid).or_insert_with(|| os.labels.intern(unknown))
    }

    /// Pages came or went.
    pub(super) fn changed(&mut self, asid: Asid) {
        if asid == KERNEL {
            self.kernel.changed();
        }
        if self.changed.last() != Some(&asid) {
            self.changed.push(asid);
        }
    }

    /// The address spaces of which pages came or went since the last call.
    pub(super) fn changed_spaces(&mut self) -> Vec<Asid> {
        std::mem::take(&mut self.changed)
    }

    /// Panics unless every linked table is where the one above it says.
    pub(super) fn check_links(&self) {
        for (frame, link) in self.links.all() {
            assert!(!link.words.is_empty() && link.words.end <= 512, "a link without words: {frame:#x} {link:?}");
        }
    }
}
