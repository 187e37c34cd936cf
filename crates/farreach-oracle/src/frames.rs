//! Frames handed out from plain lists.
//!
//! * OH-1 A list: the first frame is allocated, freed frames are appended. A block is the lowest aligned group of
//!   which every frame is in the list; the other frames keep their places.
//! * OH-2 Blocks of powers of two (RMM15-25): a list of free blocks for each order. A request takes the first block of
//!   the lowest order that has one, and keeps the lower half as often as that must be split; the upper halves become
//!   the first of their lists. A freed block joins its buddy as long as that is free, and becomes the first of its
//!   list. At the start the lists are ascending. In address order all lists stay so.
//! * OH-3 The frames that an event frees are freed one by one, in ascending order.

/// Which frames are free.
#[derive(Clone, Debug)]
pub enum Frames {
    /// OH-1.
    List(Vec<u64>),
    /// OH-2.
    Blocks(Lists),
}

/// The allocator as RMM15-25 tells it: lists, all written out.
#[derive(Clone, Debug)]
pub struct Lists {
    /// First frames of free blocks, by order, in the order in which they are taken.
    pub free: Vec<Vec<u64>>,
    /// Lists are ascending.
    pub by_address: bool,
}

/// Free blocks for each order when free frames are joined as far as they go: the definition of RMM15-25.
pub fn joined(free: &[bool], orders: u32) -> Vec<Vec<u64>> {
    let mut lists = vec![Vec::new(); orders as usize];
    let whole = |b: usize, o: u32| free.get(b..b + (1 << o)).is_some_and(|g| g.iter().all(|&f| f));
    for order in 0..orders {
        for base in (0..free.len()).step_by(1 << order) {
            if whole(base, order) && (order + 1 == orders || !whole(base >> (order + 1) << (order + 1), order + 1)) {
                lists[order as usize].push(base as u64);
            }
        }
    }
    lists
}

impl Lists {
    fn push(&mut self, order: u32, block: u64) {
        let list = &mut self.free[order as usize];
        list.insert(0, block);
        if self.by_address {
            list.sort_unstable();
        }
    }

    /// A block of `2^order` frames.
    pub fn alloc(&mut self, order: u32) -> Option<u64> {
        let mut from = (order..self.free.len() as u32).find(|&o| !self.free[o as usize].is_empty())?;
        let block = self.free[from as usize].remove(0);
        while from > order {
            from -= 1;
            self.push(from, block + (1 << from));
        }
        Some(block)
    }

    /// Frees a block.
    pub fn release(&mut self, mut block: u64, mut order: u32) {
        while order + 1 < self.free.len() as u32 {
            let Some(at) = self.free[order as usize].iter().position(|&b| b == block ^ (1 << order)) else { break };
            self.free[order as usize].remove(at);
            block &= !(1 << order);
            order += 1;
        }
        self.push(order, block);
    }

    /// Takes these very frames, the largest aligned pieces first to last, each out of the block that it lies in.
    pub fn take(&mut self, mut first: u64, mut frames: u64) {
        while frames > 0 {
            let order = first.trailing_zeros().min(frames.ilog2()).min(self.free.len() as u32 - 1);
            let holds = |o: &u32| self.free[*o as usize].contains(&(first >> o << o));
            let from = (order..self.free.len() as u32).find(holds).expect("free frames are in a block");
            self.free[from as usize].retain(|&b| b != first >> from << from);
            (order..from).rev().for_each(|half| self.push(half, (first >> half ^ 1) << half));
            (first, frames) = (first + (1 << order), frames - (1 << order));
        }
    }
}

impl Frames {
    /// The frames for which `open` holds, of `frames`, in a list.
    pub fn list(frames: u64, open: impl Fn(u64) -> bool) -> Frames {
        Frames::List((0..frames).filter(|frame| open(*frame)).collect())
    }

    /// The same in blocks of `orders` orders.
    pub fn blocks(frames: u64, open: impl Fn(u64) -> bool, orders: u32, by_address: bool) -> Frames {
        let open: Vec<bool> = (0..frames).map(open).collect();
        Frames::Blocks(Lists { free: joined(&open, orders), by_address })
    }

    /// Free frames.
    pub fn free(&self) -> u64 {
        match self {
            Frames::List(list) => list.len() as u64,
            Frames::Blocks(lists) => {
                lists.free.iter().enumerate().map(|(order, list)| (list.len() << order) as u64).sum()
            }
        }
    }

    /// The fragmentation index for blocks of an order (OE-2): the part of what is free that is in smaller ones.
    pub fn fragmentation(&self, order: u32) -> f64 {
        let Frames::Blocks(lists) = self else { panic!("an index of fragmentation needs blocks") };
        let order = (order as usize).min(lists.free.len() - 1);
        let in_blocks = |from: usize| {
            let lists = lists.free.iter().enumerate().skip(from);
            lists.map(|(order, list)| (list.len() << order) as f64).sum::<f64>()
        };
        let all = in_blocks(0);
        if all == 0.0 { 1.0 } else { 1.0 - in_blocks(order) / all }
    }

    /// A wholly free aligned block of `2^order` frames.
    pub fn block(&mut self, order: u32) -> Option<u64> {
        match self {
            Frames::List(list) => {
                let whole = |base: &u64| (*base..base + (1 << order)).all(|frame| list.contains(&frame));
                let bases = list.iter().copied().filter(|frame| frame.is_multiple_of(1 << order));
                let base = bases.filter(whole).min()?;
                list.retain(|frame| frame >> order != base >> order);
                Some(base)
            }
            Frames::Blocks(lists) => lists.alloc(order),
        }
    }

    /// Whether a frame is free.
    pub fn holds(&self, frame: u64) -> bool {
        match self {
            Frames::List(list) => list.contains(&frame),
            Frames::Blocks(lists) => {
                let mut all = (0..).zip(&lists.free);
                all.any(|(order, list)| list.contains(&(frame >> order << order)))
            }
        }
    }

    /// Aligned groups of `2^order` frames that are free.
    pub fn free_blocks(&self, order: u32) -> u64 {
        let Frames::Blocks(lists) = self else { panic!("there are blocks") };
        let larger = lists.free.iter().skip(order as usize).enumerate();
        larger.map(|(more, list)| (list.len() << more) as u64).sum()
    }

    /// Takes these very frames, which are free.
    pub fn take(&mut self, first: u64, frames: u64) {
        match self {
            Frames::List(list) => list.retain(|frame| !(first..first + frames).contains(frame)),
            Frames::Blocks(lists) => lists.take(first, frames),
        }
    }

    /// One frame.
    pub fn one(&mut self) -> Option<u64> {
        match self {
            Frames::List(list) => (!list.is_empty()).then(|| list.remove(0)),
            Frames::Blocks(lists) => lists.alloc(0),
        }
    }

    /// OH-3.
    pub fn give_back(&mut self, frames: impl IntoIterator<Item = u64>) {
        let mut frames: Vec<u64> = frames.into_iter().collect();
        frames.sort_unstable();
        for frame in frames {
            match self {
                Frames::List(list) => list.push(frame),
                Frames::Blocks(lists) => lists.release(frame, 0),
            }
        }
    }
}
