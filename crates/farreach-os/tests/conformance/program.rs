//! Random programs: processes that map, share, move, protect and drop memory, fork and end; and the identity of each of
//! their pages.

use farreach_types::addr::Asid;
use farreach_types::event::{Advice, Backing, End, Mapping, Op, Prot};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

/// First page of the memory of each process, and pages of it.
pub const FIRST: u64 = 0x1_0000;
pub const PAGES: u64 = 2048;
/// Processes at a time.
const MOST: usize = 4;

/// The identity of a page: its object, page number and protection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    pub object: u64,
    pub page: u64,
    pub shared: bool,
    pub file: bool,
    pub prot: Prot,
}

pub struct Program {
    rng: Pcg64Mcg,
    /// Whether it maps files and shared memory.
    pub shares: bool,
    /// log2 of the bytes of a page.
    shift: u32,
    pub spaces: BTreeMap<Asid, BTreeMap<u64, Page>>,
    born: u32,
    objects: u64,
    /// What a process does next.
    next: Option<(Asid, Op)>,
}

impl Program {
    pub fn new(seed: u64, shares: bool, shift: u32) -> Program {
        let rng = Pcg64Mcg::seed_from_u64(seed ^ 0x0070_726f_6772);
        Program { rng, shares, shift, spaces: BTreeMap::new(), born: 0, objects: 100, next: None }
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }

    /// The next event, already noted here.
    pub fn event(&mut self) -> (Asid, Op) {
        if let Some(next) = self.next.take() {
            return next;
        }
        if self.spaces.is_empty() {
            let asid = Asid(self.born);
            self.born += 1;
            self.spaces.insert(asid, BTreeMap::new());
            return (asid, Op::Start { pid: 1, parent: None, program: "/bin/program".into() });
        }
        let all: Vec<Asid> = self.spaces.keys().copied().collect();
        let asid = self.pick(&all);
        let op = match self.below(100) {
            0..=39 => self.map(asid),
            40..=54 => self.unmap(asid),
            55..=64 => self.remap(asid),
            65..=79 => self.protect(asid),
            80..=91 => self.advise(asid),
            92..=96 if all.len() < MOST => {
                let child = Asid(self.born);
                self.born += 1;
                let copy = self.spaces[&asid].clone();
                self.spaces.insert(child, copy);
                Op::Fork { child }
            }
            97..=99 => self.end(asid),
            _ => self.map(asid),
        };
        (asid, op)
    }

    pub fn end(&mut self, asid: Asid) -> Op {
        self.spaces.remove(&asid);
        Op::End(End::Exit(0))
    }

    /// Some pages; often aligned ones.
    fn range(&mut self) -> (u64, u64) {
        let n = self.pick(&[1, 3, 4, 16, 16, 40, 128, 512]);
        let align = self.pick(&[1, 4, 16, 16, 64]);
        let first = self.below(PAGES - n) / align * align;
        (FIRST + first, n)
    }

    fn map(&mut self, asid: Asid) -> Op {
        let (first, n) = self.range();
        let prot =
            self.pick(&[Prot::RW, Prot::RW, Prot::RWX, Prot { read: true, write: false, exec: true }, Prot::NONE]);
        let file = self.shares && self.below(3) == 0;
        let shared = self.shares && self.below(3) == 0;
        self.objects += 1;
        let (object, page, backing) = if file {
            let (number, page) = (self.below(3), self.below(4) * 16 + self.below(2));
            (number, page, Backing::File { path: format!("/lib/{number}").into(), offset: page << self.shift })
        } else {
            let private = [Backing::Anonymous, Backing::Anonymous, Backing::Heap, Backing::Stack];
            (self.objects, first, if shared { Backing::Anonymous } else { self.pick(&private) })
        };
        let pages = self.spaces.get_mut(&asid).expect("it runs");
        for i in 0..n {
            pages.insert(first + i, Page { object, page: page + i, shared, file, prot });
        }
        let (start, len) = (first << self.shift, n << self.shift);
        // Programs that ask for huge pages do so before they touch their memory, and some policies wait for that.
        if self.below(3) == 0 {
            self.next = Some((asid, Op::Advise { start, len, advice: Advice::HugePage }));
        }
        Op::Map(Mapping { start, len, prot, shared, backing })
    }

    fn unmap(&mut self, asid: Asid) -> Op {
        let (first, n) = self.range();
        let pages = self.spaces.get_mut(&asid).expect("it runs");
        (first..first + n).for_each(|vpn| _ = pages.remove(&vpn));
        Op::Unmap { start: first << self.shift, len: n << self.shift }
    }

    /// A whole run of pages of one mapping moves, shrinks or grows.
    fn remap(&mut self, asid: Asid) -> Op {
        let pages = &self.spaces[&asid];
        let at = self.rng.next_u64() % PAGES + FIRST;
        let Some((&first, of)) = pages.range(at..).next() else { return self.map(asid) };
        let same = |i: &u64| {
            pages.get(&(first + i)).is_some_and(|p| {
                p.object == of.object && p.page == of.page + i && p.prot == of.prot && p.shared == of.shared
            })
        };
        let most = self.rng.next_u64() % 40 + 1;
        let n = (0..most).take_while(same).count() as u64;
        let more = self.pick(&[0, 0, 0, 8]);
        let less = if n > 2 { self.pick(&[0, 0, 1]) } else { 0 };
        let new_n = n + more - less;
        let to = if self.below(4) == 0 { first } else { FIRST + self.below(PAGES - new_n) };
        let overlaps = to != first && to < first + n && first < to + new_n;
        if overlaps || first + new_n > FIRST + PAGES {
            return self.unmap(asid);
        }
        self.objects += 1;
        let fresh = self.objects;
        let pages = self.spaces.get_mut(&asid).expect("it runs");
        let moved: Vec<Page> = (first..first + n).filter_map(|vpn| pages.remove(&vpn)).collect();
        let last = *moved.last().expect("there is one at least");
        (to..to + new_n).for_each(|vpn| _ = pages.remove(&vpn));
        for i in 0..new_n {
            let grown = || {
                let page = last.page + 1 + i - n;
                // Growth of private memory is a new object.
                Page { page, object: if last.file || last.shared { last.object } else { fresh }, ..last }
            };
            let page = moved.get(i as usize).copied().unwrap_or_else(grown);
            pages.insert(to + i, page);
        }
        Op::Remap {
            old_start: first << self.shift,
            old_len: n << self.shift,
            new_start: to << self.shift,
            new_len: new_n << self.shift,
        }
    }

    fn protect(&mut self, asid: Asid) -> Op {
        let (first, n) = self.range();
        let prot = self.pick(&[Prot::RW, Prot::RWX, Prot { write: false, ..Prot::RW }, Prot::NONE]);
        let pages = self.spaces.get_mut(&asid).expect("it runs");
        pages.range_mut(first..first + n).for_each(|(_, page)| page.prot = prot);
        Op::Protect { start: first << self.shift, len: n << self.shift, prot }
    }

    fn advise(&mut self, asid: Asid) -> Op {
        let (first, n) = self.range();
        let all = [Advice::DontNeed, Advice::HugePage, Advice::NoHugePage, Advice::WillNeed, Advice::Collapse];
        let advice = self.pick(&all);
        let writable = self.spaces[&asid].range(first..).find(|(_, page)| page.prot.write);
        if let (Advice::WillNeed, Some((&page, _))) = (advice, writable) {
            return Op::KernelStore { start: (page << self.shift) + 8, len: 16 };
        }
        Op::Advise { start: first << self.shift, len: n << self.shift, advice }
    }
}
