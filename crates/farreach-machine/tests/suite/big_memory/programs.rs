//! Programs at random for the comparisons with plain models: what they map, unmap, move, protect, advise and touch.

use farreach_oracle::dice::Dice;
use farreach_types::addr::Asid;
use farreach_types::event::{Advice, Backing, End, Kind, Mapping, Op, Prot, ThpRule};

const READ_ONLY: Prot = Prot { read: true, write: false, exec: false };
const CODE: Prot = Prot { read: true, write: false, exec: true };
/// Processes at a time.
const MOST: usize = 3;

/// What a program does.
#[derive(Clone, Debug)]
pub enum Act {
    Op(Op),
    Touch(u64, Kind),
}

/// How programs are.
#[derive(Clone, Copy)]
pub struct Shape {
    /// All addresses are below this page.
    pub pages: u64,
    /// Pages of what is mapped, and of other ranges.
    pub lengths: &'static [u64],
    /// Half of all ranges begin at a multiple.
    pub align: u64,
    /// Of a hundred touches, those that go on to the next page.
    pub in_a_row: u64,
    /// Of thirty mappings, those of shared anonymous memory.
    pub shared: u64,
    /// Of thirty mappings, those of code.
    pub code: u64,
    /// Whether memory is asked for at once.
    pub populates: bool,
    /// Of a hundred events, besides those that all have: advice, and memory that is dropped. 0: nor do superpages move.
    pub advises: u64,
    /// One process at a time, with private memory alone.
    pub alone: bool,
}

/// Large pieces.
pub const LARGE: Shape = Shape {
    pages: 640,
    lengths: &[1, 3, 8, 16, 40, 90],
    align: 16,
    in_a_row: 85,
    shared: 1,
    code: 0,
    populates: true,
    advises: 15,
    alone: false,
};
/// Small ones that come one after the other.
pub const SMALL: Shape = Shape { pages: 160, lengths: &[2, 3, 5, 16, 32], align: 1, ..LARGE };

pub struct Programs {
    pub dice: Dice,
    pub live: Vec<Asid>,
    shape: Shape,
    born: u32,
    /// Where the next range may begin, and where the last one did.
    last: u64,
    recent: u64,
}

impl Programs {
    pub fn new(seed: u64, shape: Shape) -> Programs {
        Programs { dice: Dice::new(seed), live: Vec::new(), shape, born: 0, last: 0, recent: 0 }
    }

    /// Processes that there were.
    pub fn born(&self) -> u32 {
        self.born
    }

    fn range(&mut self) -> (u64, u64) {
        let pages = self.dice.pick(self.shape.lengths);
        let most = self.shape.pages - pages;
        // Neighbours are common, as programs have them.
        let near = (self.last + self.dice.pick(&[0, 0, 0, 1, 2, 4])).min(most);
        let mut first = if self.dice.percent(50) { near } else { self.dice.below(most + 1) };
        if self.dice.percent(50) {
            first -= first % self.shape.align;
        }
        self.recent = first;
        self.last = if self.dice.percent(70) { first + pages } else { first.saturating_sub(pages) };
        (first << 12, pages << 12)
    }

    fn map(&mut self) -> Op {
        let (start, len) = self.range();
        let other = self.dice.pick(&[READ_ONLY, Prot::RWX, Prot::NONE]);
        let prot = if self.dice.percent(8) { other } else { Prot::RW };
        let kind = if self.shape.alone { 3 + self.dice.below(27) } else { self.dice.below(30) };
        if kind + self.shape.code >= 30 {
            return self.map_code(start, len);
        }
        let (backing, shared) = match kind {
            0 => (Backing::File { path: "/lib/x".into(), offset: self.dice.below(8) << 12 }, true),
            1 => (Backing::Stack, false),
            2 => (Backing::Kernel, false),
            3.. if kind < 3 + self.shape.shared => (Backing::Anonymous, true),
            3..12 => (Backing::Heap, false),
            _ => (Backing::Anonymous, false),
        };
        Op::Map(Mapping { start, len, prot, shared, backing })
    }

    /// Code of a file. The same pages of it are mapped often, most of them aligned alike.
    fn map_code(&mut self, start: u64, len: u64) -> Op {
        let offset = start + (self.dice.pick(&[0, 0, 0, 16, 1]) << 12);
        let backing = Backing::File { path: "/bin/x".into(), offset };
        Op::Map(Mapping { start, len, prot: CODE, shared: false, backing })
    }

    fn remap(&mut self) -> Op {
        let ((old_start, old_len), (new_start, new_len)) = (self.range(), self.range());
        let all = self.shape.pages << 12;
        if self.dice.percent(40) {
            return Op::Remap { old_start, old_len, new_start: old_start, new_len: new_len.min(all - old_start) };
        }
        let apart = old_start + old_len <= new_start || new_start + new_len <= old_start;
        if apart { Op::Remap { old_start, old_len, new_start, new_len } } else { self.map() }
    }

    /// What was used lately moves to a place that superpages would be aligned in.
    fn move_aligned(&mut self, used: u64) -> Op {
        let old = used & !15;
        let pages = self.dice.pick(&[16, 32]).min(self.shape.pages - old);
        let new = (old + 32 + 16 * self.dice.below(self.shape.pages / 16)) % self.shape.pages;
        if new + pages > self.shape.pages || new < old + pages && old < new + pages {
            return self.map();
        }
        let [old_start, new_start] = [old, new].map(|page| page << 12);
        Op::Remap { old_start, old_len: pages << 12, new_start, new_len: pages << 12 }
    }

    /// A process, with something mapped: before that a reference would take all of its address space.
    fn start(&mut self) -> (Asid, Vec<Act>) {
        let asid = Asid(self.born);
        self.born += 1;
        self.live.push(asid);
        let program = self.dice.pick(&["/bin/a", "/opt/b", "c"]);
        let start = Op::Start { pid: asid.0, parent: None, program: program.into() };
        (asid, vec![Act::Op(start), Act::Op(self.map())])
    }

    /// What some process does next: an event, or some touches, most of them of what is `mapped`.
    pub fn acts(&mut self, mapped: impl Fn(Asid, u64) -> bool) -> (Asid, Vec<Act>) {
        if self.live.is_empty() {
            return self.start();
        }
        let asid = self.dice.pick(&self.live);
        if self.dice.percent(50) {
            return (asid, self.touches(|page| mapped(asid, page)));
        }
        if self.dice.percent(5) {
            return (asid, self.grow());
        }
        let used = self.recent;
        let (start, len) = self.range();
        if self.shape.advises > 0 && self.dice.percent(self.shape.advises) {
            let advice = self.dice.pick(&[Advice::DontNeed, Advice::HugePage, Advice::HugePage, Advice::NoHugePage]);
            return (asid, vec![Act::Op(Op::Advise { start, len, advice })]);
        }
        if self.shape.advises > 0 && self.dice.percent(5) {
            return (asid, vec![Act::Op(self.move_aligned(used))]);
        }
        if self.shape.advises > 0 && self.dice.percent(10) {
            let (start, len) = ((used & !15) << 12, self.dice.pick(&[16, 32, 48]) << 12);
            return (asid, vec![Act::Op(Op::Advise { start, len, advice: Advice::Collapse })]);
        }
        let op = match self.dice.below(100) {
            0..45 => self.map(),
            45..62 => Op::Unmap { start, len },
            62..72 => Op::Protect { start, len, prot: self.dice.pick(&[Prot::RW, Prot::RW, READ_ONLY, Prot::NONE]) },
            72..84 => self.remap(),
            84..86 => Op::Advise { start, len, advice: Advice::DontNeed },
            86 => Op::Thp(self.dice.pick(&[ThpRule::System, ThpRule::Advised, ThpRule::Never])),
            87..89 => {
                let other = if self.shape.populates { Advice::Populate } else { Advice::WillNeed };
                let advice = self.dice.pick(&[Advice::HugePage, Advice::NoHugePage, other]);
                Op::Advise { start, len, advice }
            }
            89..91 if self.live.len() < MOST && !self.shape.alone => {
                let child = Asid(self.born);
                self.born += 1;
                self.live.push(child);
                Op::Fork { child }
            }
            91..95 if self.live.len() < MOST && !self.shape.alone => return self.start(),
            95.. => {
                self.live.retain(|other| *other != asid);
                Op::End(self.dice.pick(&[End::Exit(0), End::Exec]))
            }
            _ => self.map(),
        };
        (asid, vec![Act::Op(op)])
    }

    /// Small requests one after the other, each used at once.
    fn grow(&mut self) -> Vec<Act> {
        let backing = self.dice.pick(&[Backing::Heap, Backing::Anonymous]);
        let mut page = self.range().0 >> 12;
        let mut acts = Vec::new();
        for _ in 0..4 + self.dice.below(16) {
            let pages = 1 + self.dice.below(3);
            if page + pages > self.shape.pages {
                break;
            }
            let (start, len, backing) = (page << 12, pages << 12, backing.clone());
            acts.push(Act::Op(Op::Map(Mapping { start, len, prot: Prot::RW, shared: false, backing })));
            acts.extend((page..page + pages).map(|page| Act::Touch(page, Kind::Store)));
            page += pages;
        }
        acts
    }

    fn touches(&mut self, mapped: impl Fn(u64) -> bool) -> Vec<Act> {
        // The last request is often used first.
        let mut page = if self.dice.percent(50) { self.recent } else { self.dice.below(self.shape.pages) };
        let mut acts = Vec::new();
        for _ in 0..1 + self.dice.below(24) {
            if mapped(page) || self.dice.percent(2) {
                let kind = self.dice.pick(&[Kind::Load, Kind::Store, Kind::Store]);
                // By the page, not by the dice: programs are otherwise what they were.
                acts.push(match kind {
                    Kind::Store if page % 7 == 3 => Act::Op(Op::KernelStore { start: (page << 12) + 100, len: 900 }),
                    kind => Act::Touch(page, kind),
                });
            }
            let next = page + 1 < self.shape.pages && self.dice.percent(self.shape.in_a_row);
            page = if next { page + 1 } else { self.dice.below(self.shape.pages) };
        }
        acts
    }
}
