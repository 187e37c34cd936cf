//! Paths: blocks that are executed one after the other, as one block.
//!
//! They form a tree. A path is reached from the path without its last block by an *edge*: that block, and for each of
//! its references the address word that it uses, one that the path has already or a new one. So an edge says which
//! references are on the same page, and executions that differ in that follow different edges. An edge becomes part of
//! the tree when executions would have followed it often enough. Otherwise the path ends: it is executed, and another
//! begins.
//!
//! A path fetches from one page, so that the loop of the machines can look at it as a whole.

use farreach_types::addr::BASE_SHIFT;
use farreach_types::event::{Batch, Block, ById, DataRef, Kind, MAX_SPREAD, NOT_EXECUTED, Op};
use hashbrown::HashMap;
use prefetch_index::prefetch_index;
use std::cell::Cell;
use std::sync::Arc;

use super::{PAGE, addresses_alike};

/// Most address words of a path.
const MAX_WORDS: usize = 12;
/// Most instructions of a path, and most loads and stores: the loop of the machines counts so far.
const MAX_COUNT: usize = 255;
/// Most references of a block in a path: so many have a place in an [`Edge`].
const MAX_REFS: usize = 24;

/// Most instructions and references of all paths together, each path counting [`PATH_ITEMS`] more. A definition takes
/// about 20 bytes of memory for each, wherever the trace is read.
const MAX_ITEMS: usize = 1 << 23;
/// See [`MAX_ITEMS`].
const PATH_ITEMS: usize = 8;
/// Executions after which an edge becomes part of the tree: by the eighth of the room that is taken.
const OFTEN: [u16; 8] = [1 << 10, 1 << 10, 1 << 10, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14];
/// Edges that are not part of the tree are counted in a table of fixed size. Edges may share a counter, then they are
/// found often sooner.
const COUNTERS: usize = 1 << 20;

/// A reference of a block that is part of paths.
#[derive(Clone, Copy, Default)]
struct PieceRef {
    word: u8,
    offset: u8,
    /// Bytes less one.
    past: u8,
}

/// References of a piece that are in its first cache line.
const INLINE_REFS: usize = 8;

/// A block of the source. What each execution needs is in one cache line.
#[repr(C, align(64))]
pub(super) struct Piece {
    /// The path that last began with it, with its edge; 0 is none.
    begins: Cell<(Edge, u32)>,
    /// The page that it fetches from.
    page: u64,
    id: u32,
    words: u32,
    /// Its references, if it can be part of a path and they are few.
    first: [PieceRef; INLINE_REFS],
    many: u8,
    /// It can be part of a path.
    fits: bool,
    counts: Counts,
    /// Its references, if they are more.
    all: Box<[PieceRef]>,
    block: Arc<Block>,
    /// Its number in the page trace as a block by itself, plus one; 0 is none.
    alone: Cell<u32>,
}

/// Instructions, loads and stores.
#[derive(Clone, Copy, Default)]
struct Counts([u16; 3]);

impl Counts {
    fn of(block: &Block) -> Counts {
        let most = |n: usize| n.min(MAX_COUNT + 1) as u16;
        let stores = block.refs.iter().filter(|r| r.kind == Kind::Store).count();
        Counts([most(block.instrs.len()), most(block.refs.len() - stores), most(stores)])
    }
    fn and(self, other: Counts) -> Counts {
        Counts(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }
    fn fit(self) -> bool {
        self.0.iter().all(|&n| usize::from(n) <= MAX_COUNT)
    }
    fn items(self) -> usize {
        self.0.iter().map(|&n| usize::from(n)).sum()
    }
}

impl Piece {
    pub fn of(id: u32, block: Arc<Block>) -> Piece {
        let page = block.instrs.first().map_or(0, |i| i.pc >> BASE_SHIFT);
        let on_page = |at: u64| at >> BASE_SHIFT == page;
        let counts = Counts::of(&block);
        let fits = !block.instrs.is_empty()
            && counts.fit()
            && block.refs.len() <= MAX_REFS
            && block.words() <= MAX_WORDS
            && block.instrs.iter().all(|i| on_page(i.pc) && on_page(i.pc + u64::from(i.len) - 1))
            && block.refs.iter().all(|r| r.size <= MAX_SPREAD);
        // All that is shared is within MAX_SPREAD, so it fits.
        let small = |r: &DataRef| PieceRef { word: r.word as u8, offset: r.offset as u8, past: (r.size - 1) as u8 };
        let (mut first, mut all, mut many) = ([PieceRef::default(); INLINE_REFS], Box::default(), 0);
        if fits && block.refs.len() > INLINE_REFS {
            all = block.refs.iter().map(small).collect();
        } else if fits {
            many = block.refs.len() as u8;
            first.iter_mut().zip(&block.refs).for_each(|(to, r)| *to = small(r));
        }
        let words = block.words() as u32;
        let (begins, alone) = (Cell::new((0, ROOT)), Cell::new(0));
        Piece { begins, page, id, words, first, many, fits, counts, all, block, alone }
    }

    /// Address words of an execution.
    #[inline(always)]
    pub fn words(&self) -> usize {
        self.words as usize
    }

    #[inline(always)]
    fn refs(&self) -> &[PieceRef] {
        if self.all.is_empty() { &self.first[..self.many.into()] } else { &self.all }
    }
}

/// What [`Paths::follow`] did.
pub(super) enum Step {
    /// The path goes on with the block.
    Followed,
    /// It does not.
    Ended,
}

/// See the module. The words of a block's references, five bits each: the number of a word of the path, or one of
/// these.
type Edge = u128;
const NEW: u8 = 30;
/// A reference that touches two pages has a word for itself.
const CROSSES: u8 = 31;
const EDGE_BITS: u32 = 5;

/// A node of the tree: a path.
struct Node {
    /// The path without its last block, and that block.
    before: u32,
    piece: u32,
    edge: Edge,
    /// Its number in the page trace plus one; 0 while it was never executed.
    id: u32,
    counts: Counts,
}

/// An edge that was followed, its block, and where it leads.
#[derive(Clone, Copy)]
struct Followed(Edge, u32, u32);

/// The edges of a path that were followed last, newest first.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Recent([Followed; 2]);

impl Recent {
    const NONE: Recent = Recent([Followed(0, u32::MAX, ROOT); 2]);
}

/// The path without blocks.
const ROOT: u32 = 0;

/// The tree, and the path that is followed.
pub(super) struct Paths {
    nodes: Vec<Node>,
    /// Of each of them.
    recent: Vec<Recent>,
    edges: HashMap<(u32, u32, Edge), u32, foldhash::fast::FixedState>,
    counters: Box<[u16]>,
    /// See [`OFTEN`].
    pub often: [u16; 8],
    /// Of all paths, see [`MAX_ITEMS`].
    items: usize,
    /// Numbers of blocks in the page trace.
    ids: u32,
    current: u32,
    /// The page that the path fetches from.
    page: u64,
    /// Its address words.
    words: Vec<u64>,
}

impl Paths {
    pub fn new() -> Paths {
        Paths {
            nodes: vec![Node { before: ROOT, piece: 0, edge: 0, id: 0, counts: Counts::default() }],
            recent: vec![Recent::NONE],
            edges: HashMap::default(),
            counters: vec![0; COUNTERS].into(),
            often: OFTEN,
            items: 0,
            ids: 0,
            current: ROOT,
            page: 0,
            words: Vec::new(),
        }
    }

    /// The path goes on with an execution of this block, if it can.
    #[inline]
    pub fn follow(&mut self, piece: &Piece, addrs: &[u64]) -> Step {
        if !piece.fits || self.current != ROOT && piece.page != self.page {
            return Step::Ended;
        }
        let had = self.words.len();
        let Some(edge) = self.edge(piece.refs(), addrs) else {
            self.words.truncate(had);
            return Step::Ended;
        };
        match self.next(piece, edge) {
            Some(next) => {
                (self.current, self.page) = (next, piece.page);
                prefetch_index(&self.recent, next as usize);
                Step::Followed
            }
            None => {
                self.words.truncate(had);
                Step::Ended
            }
        }
    }

    /// The edge of these references. Adds their new words. `None`: one did not happen, or the words are too many.
    #[inline(always)]
    fn edge(&mut self, refs: &[PieceRef], addrs: &[u64]) -> Option<Edge> {
        let mut edge = 0;
        for r in refs {
            let word = addrs[usize::from(r.word)];
            if word == NOT_EXECUTED {
                return None;
            }
            let addr = word.wrapping_add(r.offset.into());
            let (page, past) = (addr & !(PAGE - 1), u64::from(r.past));
            let code = if addr - page + past >= PAGE {
                self.words.push(page + PAGE - past);
                CROSSES
            } else if let Some(at) = self.words.iter().position(|&word| word == page) {
                at as u8
            } else {
                self.words.push(page);
                NEW
            };
            edge = edge << EDGE_BITS | Edge::from(code);
        }
        (self.words.len() <= MAX_WORDS).then_some(edge)
    }

    /// The path that this edge leads to.
    #[inline(always)]
    fn next(&mut self, piece: &Piece, edge: Edge) -> Option<u32> {
        let begins = self.current == ROOT;
        if begins {
            let (of, node) = piece.begins.get();
            if node != ROOT && of == edge {
                return Some(node);
            }
        } else {
            let Recent([newest, before]) = &mut self.recent[self.current as usize];
            if newest.0 == edge && newest.1 == piece.id {
                return Some(newest.2);
            }
            if before.0 == edge && before.1 == piece.id {
                std::mem::swap(newest, before);
                return Some(newest.2);
            }
        }
        let found = self.edges.get(&(self.current, piece.id, edge)).copied();
        let next = found.or_else(|| self.grow(piece, edge))?;
        if begins {
            piece.begins.set((edge, next));
        } else {
            let Recent([newest, before]) = &mut self.recent[self.current as usize];
            (*newest, *before) = (Followed(edge, piece.id, next), *newest);
        }
        Some(next)
    }

    /// Adds this edge to the tree, if there is room, and if it is found often enough.
    #[inline(never)]
    fn grow(&mut self, piece: &Piece, edge: Edge) -> Option<u32> {
        let counts = self.nodes[self.current as usize].counts.and(piece.counts);
        let items = self.items + counts.items() + PATH_ITEMS;
        if !counts.fit() || items > MAX_ITEMS {
            return None;
        }
        if self.current != ROOT {
            const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
            let mixed = [piece.id.into(), edge as u64, (edge >> 64) as u64]
                .into_iter()
                .fold(u64::from(self.current), |mixed, part| (mixed.rotate_left(23) ^ part).wrapping_mul(ODD));
            let counter = &mut self.counters[(mixed >> 32) as usize % COUNTERS];
            *counter += 1;
            if *counter < self.often[8 * self.items / (MAX_ITEMS + 1)] {
                return None;
            }
            *counter = 0;
        }
        self.items = items;
        let next = self.nodes.len() as u32;
        self.nodes.push(Node { before: self.current, piece: piece.id, edge, id: 0, counts });
        self.recent.push(Recent::NONE);
        self.edges.insert((self.current, piece.id, edge), next);
        Some(next)
    }

    /// Ends the path: appends its execution, if it has a block.
    #[inline]
    pub fn end(&mut self, pieces: &ById<Piece>, out: &mut Batch) {
        if self.current == ROOT {
            return;
        }
        if self.nodes[self.current as usize].id == 0 {
            self.define(pieces, out);
        }
        out.push_block(self.nodes[self.current as usize].id - 1, &self.words);
        self.current = ROOT;
        self.words.clear();
    }

    /// Appends the definition of the path.
    #[inline(never)]
    fn define(&mut self, pieces: &ById<Piece>, out: &mut Batch) {
        let mut nodes = Vec::new();
        let mut node = self.current;
        while node != ROOT {
            nodes.push(node as usize);
            node = self.nodes[node as usize].before;
        }
        let (mut instrs, mut refs, mut words) = (Vec::new(), Vec::new(), 0);
        for node in nodes.into_iter().rev().map(|node| &self.nodes[node]) {
            let block = &pieces.get(node.piece).expect("it is part of a path").block;
            let before = instrs.len() as u32;
            instrs.extend_from_slice(&block.instrs);
            let mut left = EDGE_BITS * block.refs.len() as u32;
            for r in &block.refs {
                left -= EDGE_BITS;
                let code = (node.edge >> left) as u8 & ((1 << EDGE_BITS) - 1);
                let word = if code == NEW || code == CROSSES { words } else { code.into() };
                words = words.max(word + 1);
                refs.push(DataRef { after: before + r.after, word, offset: 0, ..*r });
            }
        }
        debug_assert_eq!(words as usize, self.words.len());
        self.nodes[self.current as usize].id =
            self.new_block(Block { instrs: instrs.into(), refs: refs.into() }, out) + 1;
    }

    /// Appends the definition of a block; returns its number.
    fn new_block(&mut self, block: Block, out: &mut Batch) -> u32 {
        let id = self.ids;
        self.ids += 1;
        out.push_op(Op::Define { id, block: Arc::new(block) });
        id
    }

    /// Appends an execution of a block that can be part of no path. There is no path that is followed.
    #[inline(never)]
    pub fn alone(&mut self, piece: &Piece, addrs: &[u64], out: &mut Batch) {
        if piece.alone.get() == 0 {
            piece.alone.set(self.new_block(piece.block.apart(), out) + 1);
        }
        let words: Vec<u64> = addresses_alike(&piece.block, addrs).collect();
        out.push_block(piece.alone.get() - 1, &words);
    }
}
