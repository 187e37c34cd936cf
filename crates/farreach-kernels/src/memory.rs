//! The memory that kernels are written for: arrays, and places in the program.

use std::ops::Range;

/// Types of array elements. The default value is all zero bits.
pub trait Element: Copy + Default + Send + 'static {}
impl<T: Copy + Default + Send + 'static> Element for T {}

/// A place in the program: a few instructions with at most one data reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site(pub(super) u32);

/// Places per page of text.
pub(super) const STEPS: u32 = 128;

/// Place `step` of phase `phase`. Each phase has a page of text for its 128 places. A place belongs to one call, so it
/// is always used for the same kind of reference of the same size.
pub const fn site(phase: u32, step: u32) -> Site {
    assert!(step < STEPS);
    Site(phase * STEPS + step)
}

/// Memory of an operating system's kernel, shared by all processes. No address and no decision depends on its contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// All physical memory, in one piece ([`DIRECT_MAP`](farreach_types::addr::DIRECT_MAP)).
    DirectMap,
    /// Memory that it maps page by page ([`VARIABLE_MAPPINGS`](farreach_types::addr::VARIABLE_MAPPINGS)).
    Variable,
}

/// Memory as a program sees it. References are made in the order of the calls.
pub trait Memory {
    /// An array in memory.
    type Array<T: Element>;

    /// A new array on the heap, all zero: fresh memory from the system, not touched yet.
    fn array<T: Element>(&mut self, len: usize) -> Self::Array<T>;
    /// A new array like [`Memory::array`], of opaque values: no address and no decision depends on them. A tracing
    /// memory does not keep them; there a load gives zero.
    fn opaque<T: Element>(&mut self, len: usize) -> Self::Array<T>;
    /// The one array of a kind of kernel memory, mapped and zero. Its values are opaque, as with [`Memory::opaque`].
    fn system<T: Element>(&mut self, of: System, len: usize) -> Self::Array<T>;
    /// A new array on the stack.
    fn stack<T: Element>(&mut self, len: usize) -> Self::Array<T>;
    /// The system fills elements from 0 on, like read(2). The program itself makes no references.
    fn read<T: Element>(&mut self, into: &mut Self::Array<T>, values: impl Iterator<Item = T>);
    /// A new array that the system fills with values.
    fn input<T: Element>(&mut self, values: impl ExactSizeIterator<Item = T>) -> Self::Array<T> {
        let mut array = self.array(values.len());
        self.read(&mut array, values);
        array
    }

    /// Loads element `i`.
    fn load<T: Element>(&mut self, at: Site, from: &Self::Array<T>, i: usize) -> T;
    /// Stores element `i`.
    fn store<T: Element>(&mut self, at: Site, to: &mut Self::Array<T>, i: usize, value: T);
    /// Loads element `i`, stores `f` of it, and returns the stored value.
    fn update<T: Element>(&mut self, at: Site, of: &mut Self::Array<T>, i: usize, f: impl FnOnce(T) -> T) -> T;
    /// Eight instructions without data references: arithmetic, branches.
    fn work(&mut self, at: Site);

    /// Whether the reference budget is not used up. A kernel asks this where it can end, for the first time when its
    /// input is complete and the algorithm begins.
    fn budget_left(&mut self) -> bool;
}

/// An observer of a kernel on real memory. It is not called at references, so the kernel runs as fast as without it.
pub trait Watch {
    /// A new array has these addresses. If it is large, nothing of it was touched yet.
    fn made(&mut self, _at: Range<usize>) {}
    /// The input is complete and the algorithm begins.
    fn begins(&mut self) {}
    /// The budget is used up after `references` references of the algorithm. All arrays still exist.
    fn ends(&mut self, references: u64) {
        let _ = references;
    }
}

impl Watch for () {}

/// Real memory.
pub struct Native {
    /// References until [`Native::turn`]; below 0 while the input is made.
    left: i64,
    references: i64,
    /// References made before the algorithm began, once it has.
    before: Option<i64>,
    ended: bool,
    watch: Box<dyn Watch>,
}

impl Native {
    /// Memory with a budget of data references.
    pub fn new(references: u64) -> Native {
        Native::watched(references, Box::new(()))
    }

    /// As [`Native::new`], with an observer.
    pub fn watched(references: u64, watch: Box<dyn Watch>) -> Native {
        Native { left: 0, references: references.try_into().unwrap_or(i64::MAX), before: None, ended: false, watch }
    }

    /// The algorithm begins, or the budget is used up.
    #[cold]
    fn turn(&mut self) -> bool {
        if self.before.is_none() {
            self.before = Some(-self.left);
            self.left += self.references;
            self.watch.begins();
        }
        if self.left <= 0 && !self.ended {
            self.ended = true;
            let since = self.references - self.left - self.before.unwrap_or(0);
            self.watch.ends(since.unsigned_abs());
        }
        self.left > 0
    }

    /// A new array of zeros.
    fn fresh<T: Element>(&mut self, len: usize) -> Vec<T> {
        let array = vec![T::default(); len];
        let start = array.as_ptr().addr();
        self.watch.made(start..start + size_of_val(&array[..]));
        array
    }
}

impl Memory for Native {
    type Array<T: Element> = Vec<T>;

    fn array<T: Element>(&mut self, len: usize) -> Vec<T> {
        self.fresh(len)
    }
    fn opaque<T: Element>(&mut self, len: usize) -> Vec<T> {
        self.array(len)
    }
    fn system<T: Element>(&mut self, _: System, len: usize) -> Vec<T> {
        self.array(len)
    }
    fn stack<T: Element>(&mut self, len: usize) -> Vec<T> {
        self.fresh(len)
    }
    fn read<T: Element>(&mut self, into: &mut Vec<T>, values: impl Iterator<Item = T>) {
        into.iter_mut().zip(values).for_each(|(to, value)| *to = value);
    }
    #[inline(always)]
    fn load<T: Element>(&mut self, _: Site, from: &Vec<T>, i: usize) -> T {
        self.left -= 1;
        from[i]
    }
    #[inline(always)]
    fn store<T: Element>(&mut self, _: Site, to: &mut Vec<T>, i: usize, value: T) {
        self.left -= 1;
        to[i] = value;
    }
    #[inline(always)]
    fn update<T: Element>(&mut self, _: Site, of: &mut Vec<T>, i: usize, f: impl FnOnce(T) -> T) -> T {
        self.left -= 2;
        let slot = &mut of[i];
        *slot = f(*slot);
        *slot
    }
    #[inline(always)]
    fn work(&mut self, _: Site) {}
    #[inline(always)]
    fn budget_left(&mut self) -> bool {
        self.left > 0 || self.turn()
    }
}
