//! The laws of the stream of a whole system.

use farreach_types::addr::{Asid, GUEST_ADDRESS_BITS, KERNEL};
use farreach_types::event::{Arch, Block, Guest, Invalidate, MOST_PROCESSORS, Op, Register};
use hashbrown::HashSet;
use serde::Serialize;

use super::PAGE;

/// Where addresses of a whole system end.
pub(super) const END: u64 = 1 << GUEST_ADDRESS_BITS;

/// A whole system, as its trace describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SystemInfo {
    /// Its instruction set.
    pub arch: Arch,
    /// Its virtual processors.
    pub processors: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Words of page tables that were told.
    pub table_words: u64,
    /// Frames that held them.
    pub table_frames: u64,
}

/// Where the instructions of a block lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Half {
    /// There are none.
    Nowhere,
    /// The lower half.
    Lower,
    /// The upper half.
    Upper,
    /// In both, or beyond all addresses of a guest.
    Both,
}

impl Half {
    pub fn of(block: &Block) -> Half {
        let mut all = block.instrs.iter().map(|i| match i.pc >> (GUEST_ADDRESS_BITS - 1) {
            0 => Half::Lower,
            1 => Half::Upper,
            _ => Half::Both,
        });
        let Some(first) = all.next() else { return Half::Nowhere };
        if all.all(|half| half == first) { first } else { Half::Both }
    }
}

/// A virtual processor.
#[derive(Clone, Copy, Default)]
struct Processor {
    /// Whether the kernel runs; that is not known before it was told.
    kernel: Option<bool>,
    told: [bool; Register::ALL.len()],
}

/// What is known of the system.
pub(super) struct System {
    pub info: SystemInfo,
    running: usize,
    processors: Vec<Processor>,
    frames: HashSet<u64, foldhash::fast::FixedState>,
}

impl System {
    /// Of the first event. `first`: nothing but the start of its address space precedes it.
    pub fn begin(asid: Asid, guest: &Guest, first: bool) -> Result<System, String> {
        let Guest::Machine { arch, processors, memory } = *guest else {
            return Err("an event of a whole system stands before its Machine".into());
        };
        if !first || asid != KERNEL {
            return Err(format!("the Machine of a whole system is not the first event of address space {}", KERNEL.0));
        }
        if processors == 0 || processors > MOST_PROCESSORS || memory == 0 || !memory.is_multiple_of(PAGE) {
            return Err(format!(
                "a Machine of {processors} processors and {memory:#x} bytes (1 to {MOST_PROCESSORS}, and a multiple \
                 of {PAGE} above 0 allowed)"
            ));
        }
        let info = SystemInfo { arch, processors, memory, table_words: 0, table_frames: 0 };
        let processors = vec![Processor::default(); processors as usize];
        Ok(System { info, running: 0, processors, frames: HashSet::default() })
    }

    /// An event behind the first. Those that are no guest's are looked at as well.
    pub fn see(&mut self, op: &Op) -> Result<(), String> {
        match op {
            Op::Guest(guest) => self.guest(guest),
            Op::Switch { thread } => {
                if *thread >= self.info.processors {
                    return Err(format!("a switch to processor {thread} of {}", self.info.processors));
                }
                // Until it is told, it does what the one before did.
                let before = self.processors[self.running].kernel;
                self.running = *thread as usize;
                let now = &mut self.processors[self.running].kernel;
                *now = now.or(before);
                Ok(())
            }
            Op::Define { .. }
            | Op::Code { .. }
            | Op::Pages
            | Op::Samples
            | Op::Boundary(_)
            | Op::Start { parent: None, .. }
            | Op::End(_) => Ok(()),
            other => Err(format!("an event '{}' of a program in the stream of a whole system", super::name(other))),
        }
    }

    fn guest(&mut self, guest: &Guest) -> Result<(), String> {
        let arch = self.info.arch;
        let processor = &mut self.processors[self.running];
        match guest {
            Guest::Machine { .. } => return Err("a second Machine".into()),
            Guest::Privilege { kernel } => processor.kernel = Some(*kernel),
            Guest::Register { register, .. } => {
                let number = Register::ALL.iter().position(|known| known == register).expect("all are listed");
                if !needed(arch).contains(register) {
                    return Err(format!("a register {register:?}, which {} does not have", arch.name()));
                }
                processor.told[number] = true;
            }
            Guest::Entries { address, values } => {
                let bytes = 8 * values.len() as u64;
                if !address.is_multiple_of(8) || values.is_empty() || address % PAGE + bytes > PAGE {
                    return Err(format!("{bytes} bytes of a table at {address:#x}: not aligned, or not in one frame"));
                }
                self.info.table_words += values.len() as u64;
                self.frames.insert(address / PAGE);
                self.info.table_frames = self.frames.len() as u64;
            }
            Guest::Invalidate(Invalidate { tag, bytes, .. }) => {
                let tags = if arch == Arch::X86 { 1 << 12 } else { 1 << 16 };
                if let Some(tag) = tag.filter(|&tag| u32::from(tag) >= tags) {
                    return Err(format!("an invalidation of tag {tag}; {} has {tags}", arch.name()));
                }
                if let Some((start, len)) = *bytes {
                    super::range("an invalidation", start, len, false)?;
                }
            }
            Guest::Exception { vector } => {
                let (end, step) = if arch == Arch::Aarch64 { (0x800, 0x80) } else { (u32::MAX, 1) };
                let end = if arch == Arch::X86 { 256 } else { end };
                if *vector >= end || vector % step != 0 {
                    return Err(format!("an exception {vector:#x}, which {} does not have", arch.name()));
                }
            }
            Guest::Name(_) => {}
            Guest::Stale { page, address } => {
                if !page.is_multiple_of(PAGE) || *page >= END || !address.is_multiple_of(PAGE) {
                    return Err(format!(
                        "a stale translation of {page:#x} to {address:#x}: both are multiples of {PAGE}, and the first \
                         is below {END:#x}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// A block whose instructions lie there is about to run.
    #[inline]
    pub fn runs(&self, half: Half) -> Result<(), String> {
        let processor = &self.processors[self.running];
        let told = needed(self.info.arch).iter().all(|register| processor.told[*register as usize]);
        let right = match half {
            Half::Nowhere => true,
            Half::Lower => processor.kernel == Some(false),
            Half::Upper => processor.kernel == Some(true),
            Half::Both => false,
        };
        if told && right { Ok(()) } else { Err(self.wrong(half)) }
    }

    #[cold]
    fn wrong(&self, half: Half) -> String {
        let (running, processor) = (self.running, &self.processors[self.running]);
        let untold = needed(self.info.arch).iter().find(|register| !processor.told[**register as usize]);
        match (untold, processor.kernel) {
            (Some(register), _) => {
                format!("processor {running} runs before its register {register:?} was told")
            }
            (None, None) => format!("processor {running} runs before its privilege was told"),
            (None, Some(_)) if half == Half::Both => {
                "a block has instructions in both halves of the addresses, or beyond them".into()
            }
            (None, Some(kernel)) => {
                let (who, half) = if kernel { ("the kernel", "lower") } else { ("a program", "upper") };
                format!("processor {running} runs {who}, but a block in the {half} half of the addresses")
            }
        }
    }
}

/// Registers that decide how an instruction set translates.
fn needed(arch: Arch) -> &'static [Register] {
    match arch {
        Arch::X86 => &[Register::Root0, Register::Control],
        Arch::Aarch64 => &[Register::Root0, Register::Root1, Register::Control],
        Arch::Riscv64 => &[Register::Root0],
    }
}
