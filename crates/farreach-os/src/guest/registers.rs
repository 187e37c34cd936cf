//! The registers of the guest's processors, and which address spaces run there.

use farreach_types::addr::Asid;
use farreach_types::event::{Arch, Register};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Registers that decide about translation, as far as they are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Registers {
    /// CR3, TTBR0_EL1, satp.
    pub root0: Option<u64>,
    /// TTBR1_EL1.
    pub root1: Option<u64>,
    /// CR4, TCR_EL1.
    pub control: Option<u64>,
}

impl Registers {
    pub fn of(&mut self, register: Register) -> &mut Option<u64> {
        match register {
            Register::Root0 => &mut self.root0,
            Register::Root1 => &mut self.root1,
            Register::Control => &mut self.control,
        }
    }

    /// The tag that entries of the running address space get: PCID, ASID.
    pub fn tag(&self, arch: Arch) -> u16 {
        let (root0, control) = (self.root0.unwrap_or(0), self.control.unwrap_or(0));
        match arch {
            Arch::X86 if control & super::format::PCIDE != 0 => (root0 & 0xfff) as u16,
            Arch::X86 => 0,
            // TCR_EL1.A1 says which of the roots has it.
            Arch::Aarch64 if control >> 22 & 1 == 1 => (self.root1.unwrap_or(0) >> 48) as u16,
            Arch::Aarch64 => (root0 >> 48) as u16,
            Arch::Riscv64 => (root0 >> 44) as u16,
        }
    }
}

/// Dynamic process identifiers of a processor (SHD-4).
const SLOTS: usize = 6;

/// A virtual processor.
#[derive(Clone, Debug, Default)]
pub(super) struct Processor {
    pub registers: Registers,
    /// The address space of user pages that runs, once there was one.
    pub running: Option<Asid>,
    /// No register was written since.
    pub settled: bool,
    /// The address space that each tag stood for last.
    pub by_tag: HashMap<u16, Asid, FixedState>,
    slots: [Option<Asid>; SLOTS],
    next: usize,
}

impl Processor {
    /// An address space runs next, as Linux deals out identifiers: it has a slot, or gets the next one in turn. Returns
    /// the space that loses it (SHD-4).
    pub fn take_slot(&mut self, asid: Asid) -> Option<Asid> {
        if self.slots.contains(&Some(asid)) {
            return None;
        }
        let lost = self.slots[self.next].replace(asid);
        self.next = (self.next + 1) % SLOTS;
        lost
    }

    /// An address space is gone.
    pub fn forget(&mut self, asid: Asid) {
        self.by_tag.retain(|_, of| *of != asid);
        self.slots.iter_mut().filter(|slot| **slot == Some(asid)).for_each(|slot| *slot = None);
        self.running = self.running.filter(|of| *of != asid);
    }
}
