//! Pointer chases: memory in pages of one size, chains of loads in it, and the time they take.

use std::io;
use std::ops::Range;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::scan::huge_pages;

const BASE: usize = 4 << 10;
/// The alignment of what is handed out, and a transparent huge page.
const HUGE: usize = 2 << 20;

/// The pages that memory is asked for in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// 4 KB, also where transparent huge pages are always on.
    Base,
    /// Transparent huge pages, by madvise.
    Transparent,
    /// Pages of 2 MB of the pool of hugetlbfs.
    Pooled,
    /// Pages of 1 GB of the pool of hugetlbfs.
    Gigabyte,
}

/// Private memory for chains, unmapped when this value is dropped.
pub struct Ground {
    start: *mut libc::c_void,
    mapped: usize,
    /// Offset of the first aligned byte.
    first: usize,
    bytes: usize,
}

impl Ground {
    /// `bytes` of memory, aligned to 2 MB, not touched yet.
    ///
    /// # Errors
    /// There is not enough memory, there are no such pages, or the kernel refuses the advice.
    pub fn new(backing: Backing, bytes: usize) -> io::Result<Ground> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let (mapped, flags) = match backing {
            Backing::Pooled => (bytes, MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB),
            Backing::Gigabyte => (bytes, MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_1GB),
            _ => (bytes + HUGE, MapFlags::PRIVATE | MapFlags::NORESERVE),
        };
        // SAFETY: a new mapping at a place that is free.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, protection, flags)? };
        let first = start.addr().next_multiple_of(HUGE) - start.addr();
        let ground = Ground { start, mapped, first, bytes };
        let advice = match backing {
            Backing::Base => Advice::LinuxNoHugepage,
            Backing::Transparent => Advice::LinuxHugepage,
            Backing::Pooled | Backing::Gigabyte => return Ok(ground),
        };
        // SAFETY: its own mapping, and the advice changes no contents.
        match unsafe { madvise(ground.start, mapped, advice) } {
            // A kernel without transparent huge pages has base pages anyway.
            Err(rustix::io::Errno::INVAL) if backing == Backing::Base => Ok(ground),
            result => result.map(|()| ground).map_err(Into::into),
        }
    }

    fn addresses(&self) -> Range<usize> {
        let start = self.start.addr() + self.first;
        start..start + self.bytes
    }

    /// The share of this memory that huge pages map, of what is mapped: from 0 to 1.
    ///
    /// # Errors
    /// The kernel is older than Linux 6.7 and cannot say.
    pub fn huge_share(&self) -> io::Result<f64> {
        let Range { start, end } = self.addresses();
        let pages = (start / BASE) as u64..(end / BASE) as u64;
        let huge: u64 =
            huge_pages(std::process::id() as i32, pages).map(|found| found.iter().map(|r| r.end - r.start).sum())?;
        Ok(huge as f64 / (self.bytes / BASE) as f64)
    }

    /// Maps transparent huge pages by base pages. Their frames stay where they are, side by side.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn split(&mut self) -> io::Result<()> {
        let Range { start, end } = self.addresses();
        for huge in (start..end).step_by(HUGE) {
            // A page with other rights cannot share an entry of the page directory.
            for rights in [MprotectFlags::READ, MprotectFlags::READ | MprotectFlags::WRITE] {
                let page = self.start.with_addr(huge);
                // SAFETY: a page of its own mapping, which nothing reads or writes meanwhile.
                unsafe { mprotect(page, BASE, rights)? };
            }
        }
        Ok(())
    }

    /// Stores into each of these offsets the address of the next one, and into the last that of the first.
    ///
    /// # Panics
    /// An offset is not in the memory, or no multiple of 8; there is none.
    pub fn chain(&mut self, offsets: &[usize]) -> Chain<'_> {
        assert!(offsets.iter().all(|o| o % 8 == 0 && o + 8 <= self.bytes), "offsets lie in the memory");
        let place = |offset: usize| self.start.wrapping_byte_add(self.first + offset).cast::<*const usize>();
        let mut at = *offsets.last().expect("a chain has a link");
        for &next in offsets {
            // SAFETY: both offsets were checked, the memory is writable, and this value is borrowed for writing.
            unsafe { place(at).write(place(next).cast()) };
            at = next;
        }
        Chain { first: place(offsets[0]).cast(), links: offsets.len(), ground: std::marker::PhantomData }
    }

    /// Nanoseconds of processor time that a load takes when these offsets are loaded from again and again, at least
    /// `loads` times, none of which waits for another: the least of `times`, after a round that is not timed.
    ///
    /// # Panics
    /// An offset is not in the memory, or no multiple of 8; there is none.
    pub fn time_per_gathered_load(&self, offsets: &[usize], loads: usize, times: usize) -> f64 {
        assert!(!offsets.is_empty(), "there is an offset");
        let rounds = loads.div_ceil(offsets.len()).max(1);
        self.gather(offsets);
        let mut least = u64::MAX;
        for _ in 0..times.max(1) {
            let began = processor_time();
            (0..rounds).for_each(|_| self.gather(offsets));
            least = least.min(processor_time() - began);
        }
        least as f64 / (rounds * offsets.len()) as f64
    }

    /// Loads from each of these offsets; no load waits for another.
    ///
    /// # Panics
    /// An offset is not in the memory, or no multiple of 8.
    pub fn gather(&self, offsets: &[usize]) {
        assert!(offsets.iter().all(|o| o % 8 == 0 && o + 8 <= self.bytes), "offsets lie in the memory");
        let start = self.start.wrapping_byte_add(self.first);
        let mut sum = 0usize;
        for &offset in offsets {
            // SAFETY: the offset was checked, and the memory is mapped as long as this value is.
            sum = sum.wrapping_add(unsafe { start.wrapping_byte_add(offset).cast::<usize>().read_volatile() });
        }
        std::hint::black_box(sum);
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // SAFETY: its own mapping; chains borrow this value.
        let _ = unsafe { munmap(self.start, self.mapped) };
    }
}

/// A circular chain of addresses.
pub struct Chain<'a> {
    first: *const usize,
    links: usize,
    ground: std::marker::PhantomData<&'a Ground>,
}

impl Chain<'_> {
    /// Ticks of [`ticks`] that a load takes, when the chain is followed for whole rounds of at least `loads` loads: the
    /// least of `times`, after a round that is not timed.
    pub fn ticks_per_load(&self, loads: usize, times: usize) -> f64 {
        let loads = loads.max(1).next_multiple_of(self.links);
        let mut at = self.follow(self.first, self.links);
        let mut least = u64::MAX;
        for _ in 0..times.max(1) {
            let began = ticks();
            at = self.follow(at, loads);
            least = least.min(ticks().wrapping_sub(began));
        }
        std::hint::black_box(at);
        least as f64 / loads as f64
    }

    /// As [`Chain::ticks_per_load`], in nanoseconds of processor time: for machines that do other work as well.
    pub fn time_per_load(&self, loads: usize, times: usize) -> f64 {
        let loads = loads.max(1).next_multiple_of(self.links);
        let mut at = self.follow(self.first, self.links);
        let mut least = u64::MAX;
        for _ in 0..times.max(1) {
            let began = processor_time();
            at = self.follow(at, loads);
            least = least.min(processor_time() - began);
        }
        std::hint::black_box(at);
        least as f64 / loads as f64
    }

    #[inline(never)]
    fn follow(&self, mut at: *const usize, loads: usize) -> *const usize {
        for _ in 0..loads {
            // SAFETY: every link of the chain holds the address of another one, and the memory is borrowed.
            at = unsafe { at.cast::<*const usize>().read_volatile() };
        }
        at
    }
}

/// From now on this thread stays on the processor that it is on: another has other TLBs, which are empty at first.
///
/// # Errors
/// The system refuses the call.
pub fn stay() -> io::Result<()> {
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here).map_err(Into::into)
}

/// Nanoseconds that this thread has run, in the kernel too.
pub fn processor_time() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is valid for the kernel to write, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A clock that counts evenly: the timestamp counter, or the counter of the generic timer on Arm.
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: both instructions exist on every x86-64 processor.
        unsafe {
            std::arch::x86_64::_mm_lfence();
            let now = std::arch::x86_64::_rdtsc();
            std::arch::x86_64::_mm_lfence();
            now
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let now: u64;
        // SAFETY: the virtual counter may be read by programs, and reading changes nothing.
        unsafe { std::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) now, options(nomem, nostack)) };
        now
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }
}

/// Ticks of [`ticks`] in a cycle of the core, from a chain of additions, which take a cycle each: the least of several.
pub fn ticks_per_cycle() -> f64 {
    const ROUNDS: u64 = 20_000;
    const TIMES: usize = 9;
    let mut least = u64::MAX;
    for _ in 0..TIMES {
        let began = ticks();
        let mut x = began;
        for _ in 0..ROUNDS {
            ten_additions(&mut x);
        }
        std::hint::black_box(x);
        least = least.min(ticks().wrapping_sub(began));
    }
    least as f64 / (10 * ROUNDS) as f64
}

#[inline(always)]
fn ten_additions(x: &mut u64) {
    macro_rules! ten {
        ($one:literal) => {
            // SAFETY: arithmetic on one register. The constant is none that a processor folds.
            unsafe {
                std::arch::asm!($one, $one, $one, $one, $one, $one, $one, $one, $one, $one, x = inout(reg) *x,
                    y = in(reg) 0x5555_u64, options(nomem, nostack))
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    ten!("add {x}, {y}");
    #[cfg(target_arch = "aarch64")]
    ten!("add {x}, {x}, {y}");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    (0..10).for_each(|_| *x = std::hint::black_box(x.wrapping_add(0x5555)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_goes_through_all_its_links() {
        let mut ground = Ground::new(Backing::Base, 64 * BASE).unwrap();
        let offsets: Vec<usize> = (0..64).map(|i| (i * 37 % 64) * BASE + 8 * i).collect();
        let chain = ground.chain(&offsets);
        let mut seen = std::collections::HashSet::new();
        let mut at = chain.first;
        for _ in 0..64 {
            assert!(seen.insert(at));
            at = chain.follow(at, 1);
        }
        assert_eq!((seen.len(), at), (64, chain.first));
        assert!(chain.ticks_per_load(1000, 2) > 0.0);
    }

    #[test]
    fn memory_is_in_base_pages_if_asked_for() {
        let mut ground = Ground::new(Backing::Base, 2 * HUGE).unwrap();
        let offsets: Vec<usize> = (0..2 * HUGE / BASE).map(|i| i * BASE).collect();
        ground.chain(&offsets);
        assert_eq!(ground.addresses().start % HUGE, 0);
        if let Ok(share) = ground.huge_share() {
            assert_eq!(share, 0.0);
        }
    }

    /// Where the kernel gives huge pages.
    #[test]
    fn split_pages_keep_their_contents() {
        let mut ground = Ground::new(Backing::Transparent, 2 * HUGE).unwrap();
        let offsets: Vec<usize> = (0..2 * HUGE / BASE).map(|i| i * BASE).collect();
        ground.chain(&offsets);
        if !ground.huge_share().is_ok_and(|share| share == 1.0) {
            return;
        }
        let first = ground.chain(&offsets).first;
        ground.split().unwrap();
        assert_eq!(ground.huge_share().unwrap(), 0.0);
        let chain = Chain { first, links: offsets.len(), ground: std::marker::PhantomData };
        assert_eq!(chain.follow(first, offsets.len()), first);
    }

    #[test]
    fn a_thread_stays() {
        std::thread::spawn(|| {
            stay().unwrap();
            let here = sched_getcpu();
            (0..100).for_each(|_| {
                std::thread::yield_now();
                assert_eq!(sched_getcpu(), here);
            });
        })
        .join()
        .unwrap();
    }

    #[test]
    #[should_panic(expected = "offsets lie in the memory")]
    fn no_link_lies_outside() {
        Ground::new(Backing::Base, BASE).unwrap().chain(&[0, BASE]);
    }

    #[test]
    fn a_cycle_is_some_ticks() {
        assert!((0.001..1000.0).contains(&ticks_per_cycle()), "{}", ticks_per_cycle());
    }
}
