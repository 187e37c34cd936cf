//! Hostile streams: events and references that aim at existing mappings.

use super::*;

/// Where mappings lie: first pages of windows of 64 pages and a bit.
pub(super) const WINDOWS: [u64; 5] = [0x40, 0x400, 0x1000, 0x7_fff0_0000, (1 << 52) - 128];
pub(super) const PATHS: [&str; 4] = ["/bin/prog", "/lib/x.so", "/nfs/data", "/nfs/bin/tool"];

/// An approximate view of a space, to aim at its mappings.
#[derive(Clone, Default)]
pub(super) struct Sketch {
    pub(super) maps: Vec<(u64, u64)>,
    pub(super) heap_end: u64,
    pub(super) stack_low: u64,
    pub(super) protected: Vec<(u64, u64)>,
}

pub(super) struct Generator {
    pub(super) dice: Dice,
    pub(super) blocks: Vec<Arc<Block>>,
    pub(super) steps: Vec<Step>,
    pub(super) live: BTreeMap<Asid, Sketch>,
    pub(super) current: Asid,
    pub(super) next: u32,
    /// Whether the stream says what is mapped.
    pub(super) maps: bool,
}

/// A stream of this number of actions.
pub(super) fn stream(seed: u64, actions: u64, maps: bool) -> Stream {
    let mut dice = Dice::new(seed);
    let blocks = blocks(&mut dice);
    let first = Asid(dice.pick(&[0, 0, 3]));
    let mut g =
        Generator { dice, blocks, steps: Vec::new(), live: BTreeMap::new(), current: first, next: first.0 + 1, maps };
    g.begin(None);
    for _ in 0..actions {
        g.act();
    }
    Stream { blocks: g.blocks, steps: g.steps }
}

pub(super) fn blocks(dice: &mut Dice) -> Vec<Arc<Block>> {
    let data = |word, kind, size| DataRef::new(0, kind, size, word);
    let mut all = vec![
        Block { instrs: [].into(), refs: [data(0, Kind::Load, 8)].into() },
        Block { instrs: [].into(), refs: [data(0, Kind::Store, 8)].into() },
        Block { instrs: [].into(), refs: [data(0, Kind::Load, 4), data(1, Kind::Store, 4)].into() },
    ];
    for _ in 0..6 + dice.below(8) {
        let mut pc = (WINDOWS[0] + dice.below(48)) << 12 | dice.pick(&[0, 0x7f0, 0xff8, 0xffe]);
        let mut instrs = Vec::new();
        for _ in 0..dice.below(7) {
            let len = 1 + dice.below(15) as u32;
            instrs.push(Instr { pc, len });
            pc += u64::from(len);
            if dice.percent(20) {
                pc = (pc + (dice.below(4) << 12)) | dice.below(4096);
            }
        }
        let refs = dice.below(6) + u64::from(instrs.is_empty());
        let mut after: Vec<u32> = (0..refs).map(|_| dice.below(instrs.len() as u64 + 1) as u32).collect();
        after.sort_unstable();
        let sizes = [1, 8, 8, 8, 16, 64, 4096, 5000, 12_300];
        let refs = (0..).zip(after).map(|(word, after)| {
            let kind = dice.pick(&[Kind::Load, Kind::Load, Kind::Store]);
            DataRef::new(after, kind, dice.pick(&sizes), word)
        });
        all.push(Block { refs: refs.collect(), instrs: instrs.into() });
    }
    all.into_iter().map(Arc::new).collect()
}

impl Generator {
    pub(super) fn op(&mut self, op: Op) {
        self.steps.push(Step { asid: self.current, act: Act::Op(op) });
    }
    pub(super) fn sketch(&mut self) -> &mut Sketch {
        self.live.get_mut(&self.current).expect("it lives")
    }

    /// A new space, which runs from here on.
    pub(super) fn begin(&mut self, parent: Option<Asid>) {
        let heap_end = WINDOWS[1] + self.dice.below(20);
        let stack_low = WINDOWS[3] + 60 - self.dice.below(20);
        self.live.insert(self.current, Sketch { heap_end, stack_low, ..Sketch::default() });
        if self.dice.percent(90) {
            self.op(Op::Start { pid: 7, parent, program: "/bin/prog".into() });
        }
        if self.maps {
            let len = 24 + self.dice.below(24);
            let offset = self.dice.below(4) << 12;
            let prot = Prot { read: true, write: false, exec: true };
            let start = WINDOWS[0] + self.dice.below(2) * 3;
            self.map(start, len, prot, false, Backing::File { path: PATHS[0].into(), offset });
        }
    }

    pub(super) fn range(&mut self) -> (u64, u64) {
        let odd = 1 + self.dice.below(40);
        let len = self.dice.pick(&[1, 2, 3, 4, 15, 16, 16, 32, odd, odd]);
        let start = self.dice.pick(&WINDOWS) + self.dice.below(64);
        (if self.dice.percent(50) { start & !15 } else { start }, len)
    }

    /// Mostly something that is mapped.
    pub(super) fn known(&mut self) -> (u64, u64) {
        let maps = self.sketch().maps.clone();
        if maps.is_empty() || self.dice.percent(8) { self.range() } else { self.dice.pick(&maps) }
    }

    /// A part of it.
    pub(super) fn part(&mut self) -> (u64, u64) {
        let (start, len) = self.known();
        match self.dice.below(4) {
            0 => (start, len),
            1 => (start, 1 + self.dice.below(len)),
            2 => {
                let cut = self.dice.below(len);
                (start + cut, len - cut)
            }
            _ => {
                let cut = self.dice.below(len);
                (start + cut, 1 + self.dice.below(len - cut))
            }
        }
    }

    pub(super) fn prot(&mut self) -> Prot {
        let read = Prot { read: true, ..Prot::NONE };
        let code = Prot { exec: true, ..read };
        self.dice.pick(&[Prot::RW, Prot::RW, Prot::RW, Prot::RW, Prot::RWX, Prot::RWX, read, read, code, Prot::NONE])
    }

    pub(super) fn map(&mut self, start: u64, len: u64, prot: Prot, shared: bool, backing: Backing) {
        self.op(Op::Map(Mapping { start: start << 12, len: len << 12, prot, shared, backing }));
        self.sketch().maps.push((start, len));
    }

    pub(super) fn map_something(&mut self) {
        let (start, len) = self.range();
        let prot = self.prot();
        match self.dice.below(20) {
            0..=4 => self.map(start, len, prot, false, Backing::Anonymous),
            5..=6 => self.map(start, len, prot, true, Backing::Anonymous),
            7 => self.map(start, len, prot, false, Backing::Kernel),
            8..=10 => {
                let at = self.sketch().heap_end;
                self.map(at, len, Prot::RW, false, Backing::Heap);
                self.sketch().heap_end = if at > WINDOWS[1] + 64 { WINDOWS[1] + len } else { at + len };
            }
            11 => self.map(start, len, prot, false, Backing::Heap),
            12..=13 => {
                let low = self.sketch().stack_low.saturating_sub(len).max(WINDOWS[3] - 64);
                let top = self.sketch().stack_low;
                if low < top {
                    self.map(low, top - low, Prot::RW, false, Backing::Stack);
                    self.sketch().stack_low = low;
                }
            }
            14 => self.map(start, len, prot, false, Backing::Stack),
            _ => {
                let path = self.dice.pick(&PATHS).into();
                let offset = match self.dice.below(3) {
                    0 => 0,
                    1 => (start & 31) << 12,
                    _ => self.dice.below(24) << 12,
                };
                let shared = self.dice.percent(40);
                self.map(start, len, prot, shared, Backing::File { path, offset });
            }
        }
    }

    pub(super) fn unmap(&mut self) {
        let (start, len) = if self.dice.percent(20) {
            let (end, len) = (self.sketch().heap_end, 1 + self.dice.below(12));
            self.sketch().heap_end = (end - len).max(WINDOWS[1]);
            (end - len, len)
        } else {
            self.part()
        };
        self.op(Op::Unmap { start: start << 12, len: len << 12 });
        if self.dice.percent(70) {
            self.sketch().maps.retain(|m| m.0 + m.1 <= start || start + len <= m.0);
        }
    }

    pub(super) fn remap(&mut self) {
        let (old, old_len) = if self.dice.percent(60) { self.known() } else { self.part() };
        let old_len = if self.dice.percent(4) { 0 } else { old_len };
        let len = 1 + self.dice.pick(&[self.live.len() as u64, old_len / 2, old_len, old_len + 5, 20]);
        let new = if self.dice.percent(40) { old } else { self.range().0 };
        self.op(Op::Remap { old_start: old << 12, old_len: old_len << 12, new_start: new << 12, new_len: len << 12 });
        self.sketch().maps.push((new, len));
    }

    pub(super) fn protect(&mut self) {
        let before = self.sketch().protected.clone();
        let (range, prot) = if !before.is_empty() && self.dice.percent(40) {
            (self.dice.pick(&before), self.dice.pick(&[Prot::RW, Prot::RWX]))
        } else {
            (self.part(), self.prot())
        };
        self.sketch().protected.push(range);
        self.op(Op::Protect { start: range.0 << 12, len: range.1 << 12, prot });
    }

    pub(super) fn fork(&mut self) {
        if self.live.len() < 4 {
            let child = Asid(self.next);
            self.next += 1;
            self.op(Op::Fork { child });
            let copy = self.sketch().clone();
            self.live.insert(child, copy);
        }
    }

    /// Other events: advice, start and end of processes, threads.
    pub(super) fn life(&mut self) {
        match self.dice.below(10) {
            0 if self.live.len() > 1 => {
                let end = self.dice.pick(&[End::Exit(0), End::Signal(9), End::Lost]);
                self.op(Op::End(end));
                self.live.remove(&self.current);
                self.switch();
            }
            1 => {
                self.op(Op::End(End::Exec));
                self.live.remove(&self.current);
                let parent = self.current;
                self.current = Asid(self.next);
                self.next += 1;
                self.begin(Some(parent));
            }
            2 => self.op(Op::ThreadStart { thread: 1 }),
            3 => self.op(Op::Switch { thread: 1 }),
            4 => self.steps.push(Step { asid: self.current, act: Act::Cut }),
            5 => {
                let spaces: Vec<Asid> = self.live.keys().copied().collect();
                let asid = self.dice.pick(&spaces);
                self.steps.push(Step { asid, act: Act::Empty });
            }
            _ => {
                let (start, len) = self.part();
                let advice = self.dice.pick(&[Advice::DontNeed, Advice::DontNeed, Advice::DontNeed, Advice::WillNeed]);
                self.op(match advice {
                    Advice::WillNeed => Op::KernelStore { start: (start << 12) + 4000, len: (len << 12) - 3000 },
                    advice => Op::Advise { start: start << 12, len: len << 12, advice },
                });
            }
        }
    }

    pub(super) fn switch(&mut self) {
        let spaces: Vec<Asid> = self.live.keys().copied().collect();
        self.current = self.dice.pick(&spaces);
    }

    pub(super) fn offset(&mut self) -> u64 {
        if self.dice.percent(15) { 4095 - self.dice.below(9) } else { self.dice.below(4088) }
    }

    /// One page of references.
    pub(super) fn reference(&mut self, page: u64, block: usize) {
        let refs = self.blocks[block].refs.len();
        let mut addrs = Vec::new();
        for _ in 0..refs {
            let (start, len) = self.known();
            let at = if self.dice.percent(70) { page } else { start + self.dice.below(len) };
            let addr = at << 12 | self.offset();
            addrs.push(if self.dice.percent(8) { NOT_EXECUTED } else { addr });
        }
        self.steps.push(Step { asid: self.current, act: Act::Run(block, addrs) });
    }

    pub(super) fn sweep(&mut self) {
        let (start, len) = self.part();
        let usual = self.dice.pick(&[0, 0, 1, 1, 2]);
        let (backwards, twice) = (self.dice.percent(15), self.dice.percent(25));
        for i in (0..len).chain((0..len).filter(|_| twice)) {
            let page = start + if backwards { len - 1 - i } else { i };
            let any = self.dice.below(self.blocks.len() as u64) as usize;
            let block = if self.dice.percent(75) { usual } else { any };
            if block < 3 {
                let addr = page << 12 | self.offset();
                let addrs = vec![addr; self.blocks[block].refs.len()];
                self.steps.push(Step { asid: self.current, act: Act::Run(block, addrs) });
            } else {
                self.reference(page, block);
            }
        }
    }

    /// The same few blocks again and again, which the filter serves.
    pub(super) fn work(&mut self) {
        let (start, len) = self.part();
        let first = self.steps.len();
        for _ in 0..1 + self.dice.below(4) {
            let block = self.dice.below(self.blocks.len() as u64) as usize;
            let page = start + self.dice.below(len);
            self.reference(page, block);
        }
        let loop_body = self.steps[first..].to_vec();
        for _ in 0..self.dice.below(5) {
            self.steps.extend(loop_body.clone());
        }
    }

    pub(super) fn act(&mut self) {
        if !self.maps {
            return match self.dice.below(40) {
                0..=19 => self.sweep_anywhere(),
                20..=30 => self.work(),
                31 => self.unmap(),
                32 => self.protect(),
                33 => self.remap(),
                34 => self.fork(),
                35..=36 => self.life(),
                _ => self.switch(),
            };
        }
        match self.dice.below(100) {
            0..=29 => self.sweep(),
            30..=44 => self.work(),
            45..=62 => self.map_something(),
            63..=67 => self.unmap(),
            68..=71 => self.remap(),
            72..=78 => self.protect(),
            79..=82 => self.fork(),
            83..=89 => self.life(),
            _ => self.switch(),
        }
    }

    pub(super) fn sweep_anywhere(&mut self) {
        let range = self.range();
        self.sketch().maps.push(range);
        self.sweep();
    }
}
