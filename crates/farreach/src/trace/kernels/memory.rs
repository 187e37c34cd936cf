//! What a kernel is written over: arrays, and places in the program.

/// What an array may hold. The default value is all zero bits.
pub trait Element: Copy + Default + Send + 'static {}
impl<T: Copy + Default + Send + 'static> Element for T {}

/// A place in the program: a few instructions with at most one data reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site(pub(super) u32);

/// Places per page of text.
pub(super) const STEPS: u32 = 128;

/// Place `step` of phase `phase`. Each phase has a page of text for its 128 places. A place belongs to one call: it must always
/// be used for the same kind of reference of the same size.
pub const fn site(phase: u32, step: u32) -> Site {
    assert!(step < STEPS);
    Site(phase * STEPS + step)
}

/// Memory as a program sees it. References are made in the order of the calls.
pub trait Memory {
    /// An array in memory.
    type Array<T: Element>;

    /// A new array on the heap, all zero: fresh memory from the system, not touched yet.
    fn array<T: Element>(&mut self, len: usize) -> Self::Array<T>;
    /// A new array like [`Memory::array`] of values that steer nothing: no address and no decision depends on them. A tracing
    /// memory does not keep them, loads give zero there.
    fn opaque<T: Element>(&mut self, len: usize) -> Self::Array<T>;
    /// A new array on the stack.
    fn stack<T: Element>(&mut self, len: usize) -> Self::Array<T>;
    /// The system fills elements from 0 on, like read(2): the program itself makes no references.
    fn read<T: Element>(&mut self, into: &mut Self::Array<T>, values: impl Iterator<Item = T>);
    /// A new array with what the system read into it.
    fn input<T: Element>(&mut self, values: impl ExactSizeIterator<Item = T>) -> Self::Array<T> {
        let mut array = self.array(values.len());
        self.read(&mut array, values);
        array
    }

    /// Loads element `i`.
    fn load<T: Element>(&mut self, at: Site, from: &Self::Array<T>, i: usize) -> T;
    /// Stores element `i`.
    fn store<T: Element>(&mut self, at: Site, to: &mut Self::Array<T>, i: usize, value: T);
    /// Loads element `i` and stores what `f` makes of it; what was stored.
    fn update<T: Element>(&mut self, at: Site, of: &mut Self::Array<T>, i: usize, f: impl FnOnce(T) -> T) -> T;
    /// Eight instructions without data references: arithmetic, branches.
    fn work(&mut self, at: Site);

    /// Whether data references are left to make. To be asked at points where the kernel can end.
    fn more(&self) -> bool;
}

/// Real memory.
#[derive(Debug)]
pub struct Native {
    left: i64,
}

impl Native {
    /// Memory for so many data references.
    pub fn new(references: u64) -> Native {
        Native { left: references.try_into().unwrap_or(i64::MAX) }
    }
}

impl Memory for Native {
    type Array<T: Element> = Vec<T>;

    fn array<T: Element>(&mut self, len: usize) -> Vec<T> {
        vec![T::default(); len]
    }
    fn opaque<T: Element>(&mut self, len: usize) -> Vec<T> {
        self.array(len)
    }
    fn stack<T: Element>(&mut self, len: usize) -> Vec<T> {
        self.array(len)
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
    fn more(&self) -> bool {
        self.left > 0
    }
}
