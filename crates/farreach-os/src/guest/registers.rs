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
    /// A program has the root, and not the kernel alone.
    pub has_program: bool,
    /// No register was written since.
    pub settled: bool,
    /// The address space that each tag stood for last.
    pub by_tag: HashMap<u16, Asid, FixedState>,
    /// By dynamic process identifier, the address spaces that have it: one, or with isolated page tables the two of a
    /// process (SHD-5).
    slots: [[Option<Asid>; 2]; SLOTS],
    next: usize,
}

impl Processor {
    /// Whether an address space has a slot.
    pub fn has_slot(&self, asid: Asid) -> bool {
        self.slots.as_flattened().contains(&Some(asid))
    }

    /// An address space without a slot runs next, as Linux deals out identifiers: it shares that of its other root, if
    /// that has one, or gets the next one in turn. Returns the spaces that lose theirs (SHD-4).
    pub fn take_slot(&mut self, asid: Asid, other: Option<Asid>) -> impl Iterator<Item = Asid> + use<> {
        let shared = self.slots.iter_mut().find(|slot| other.is_some() && slot.contains(&other));
        let lost = match shared {
            Some(slot) => {
                let of_another = usize::from(slot[0] == other);
                [slot[of_another].replace(asid), None]
            }
            None => {
                let slot = &mut self.slots[self.next];
                self.next = (self.next + 1) % SLOTS;
                std::mem::replace(slot, [Some(asid), None])
            }
        };
        lost.into_iter().flatten()
    }

    /// The address spaces that share a slot with this one, itself first.
    pub fn slot_of(&self, asid: Asid) -> Vec<Asid> {
        let slot = self.slots.iter().find(|slot| slot.contains(&Some(asid)));
        let others = slot.into_iter().flatten().flatten().copied().filter(|of| *of != asid);
        std::iter::once(asid).chain(others).collect()
    }

    /// All address spaces with slots.
    pub fn in_slots(&self) -> impl Iterator<Item = Asid> {
        self.slots.as_flattened().iter().flatten().copied()
    }

    /// Whether processes have two roots here.
    pub fn is_isolated(&self) -> bool {
        self.slots.iter().any(|slot| slot.iter().all(Option::is_some))
    }

    /// An address space is gone.
    pub fn forget(&mut self, asid: Asid) {
        self.by_tag.retain(|_, of| *of != asid);
        let slots = self.slots.as_flattened_mut().iter_mut();
        slots.filter(|slot| **slot == Some(asid)).for_each(|slot| *slot = None);
        self.running = self.running.filter(|of| *of != asid);
    }
}
