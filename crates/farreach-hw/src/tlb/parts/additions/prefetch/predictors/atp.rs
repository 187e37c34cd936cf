//! ATP: one of three prefetchers, or none, whichever would have been right of late (ATP-1 to ATP-6).
//!
//! Each child has a queue of the pages that it would have prefetched, whether it was chosen or not. A miss that is in
//! queues moves three counters, and their top bits choose.

use super::super::free::{Free, LINE};
use super::h2p::H2p;
use super::masp::Masp;
use super::stp::Stp;
use super::{CHOSEN, Listed, Predictor, Trigger};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params};

/// ATP-1.
pub const ATP_INITIAL: Key = Key {
    name: "atp_initial",
    default: "128+0+0",
    allowed: Allowed::Texts,
    about: "prefetcher = atp: its three counters at the start, up to 255, 63 and 3, joined by +: whether to prefetch, \
            h2p or another, stp or masp",
};
/// ATP-4.
pub const ATP_FPQ_FREE: Key = Key {
    name: "atp_fpq_free",
    default: "true",
    allowed: Allowed::Flag,
    about: "prefetcher = atp with prefetch_free = sbfp: queues of children have the neighbours, too, that would be \
            brought in with a page",
};

/// The prefetcher as the registry knows it.
pub const LISTED: Listed = Listed {
    name: "atp",
    keys: &[&ATP_INITIAL, &ATP_FPQ_FREE],
    needs_pc: true,
    build: |params| Ok(Box::new(Atp::new(params)?)),
    ..Listed::NEW
};

/// The most that each counter holds.
const MOST: [u8; 3] = [255, 63, 3];

/// The last pages that a child predicted, first in, first out.
#[derive(Clone, Copy, Default)]
struct Queue {
    pages: [i64; Queue::MOST],
    many: usize,
    next: usize,
}

impl Queue {
    const MOST: usize = 16;

    fn contains(&self, page: i64) -> bool {
        self.pages[..self.many].contains(&page)
    }

    /// A page that is there is not added again.
    fn add(&mut self, page: i64) {
        if !self.contains(page) {
            self.pages[self.next] = page;
            self.next = (self.next + 1) % Queue::MOST;
            self.many = Queue::MOST.min(self.many + 1);
        }
    }

    /// Adds a predicted page, and then the neighbours that would be brought in with it, if they are wanted.
    fn add_predicted(&mut self, page: i64, order: u8, free: Option<&Free>) {
        self.add(page);
        let Some(free) = free else { return };
        let slot = page.rem_euclid(LINE);
        for distance in (-slot..LINE - slot).filter(|distance| *distance != 0) {
            if free.is_counted_useful(order, distance as i8) {
                self.add(page + distance);
            }
        }
    }
}

struct Atp {
    h2p: H2p,
    masp: Masp,
    stp: Stp,
    queues: [Queue; 3],
    /// What each child predicts at this miss.
    made: [Vec<i64>; 3],
    counters: [u8; 3],
    initial: [u8; 3],
    with_free: bool,
}

impl Atp {
    fn new(params: &Params) -> Result<Atp, String> {
        let initial = initial(params)?;
        Ok(Atp {
            h2p: H2p::new(params),
            masp: Masp::new(params)?,
            stp: Stp,
            queues: [Queue::default(); 3],
            made: std::array::from_fn(|_| Vec::with_capacity(8)),
            counters: initial,
            initial,
            with_free: params.flag(ATP_FPQ_FREE.name),
        })
    }

    /// ATP-2.
    fn update(&mut self, page: i64) {
        let [first, second, third] = [0, 1, 2].map(|child| self.queues[child].contains(page));
        let changes: [i8; 3] = match (first, second, third) {
            (false, false, false) => [-1, 0, 0],
            (false, false, true) => [1, -1, 1],
            (false, true, false) => [1, -1, -1],
            (false, true, true) => [1, -1, 0],
            (true, false, false) => [1, 1, 0],
            (true, false, true) => [1, 0, 1],
            (true, true, false) => [1, 0, -1],
            (true, true, true) => [1, 0, 0],
        };
        for ((counter, change), most) in self.counters.iter_mut().zip(changes).zip(MOST) {
            *counter = counter.saturating_add_signed(change).min(most);
        }
    }

    /// ATP-3.
    fn choice(&self) -> Option<usize> {
        let [on, first, third] = self.counters;
        match on {
            0..128 => None,
            _ if first >= 32 => Some(0),
            _ if third >= 2 => Some(2),
            _ => Some(1),
        }
    }
}

/// The counters at the start.
fn initial(params: &Params) -> Result<[u8; 3], String> {
    let (key, texts) = (ATP_INITIAL.name, params.texts(ATP_INITIAL.name));
    let refuse = || {
        let all = texts.join("+");
        format!("{key} = {all} is not allowed: {key} must be three numbers up to 255, 63 and 3, joined by +")
    };
    let mut counters = [0; 3];
    if texts.len() != counters.len() {
        return Err(refuse());
    }
    for ((counter, text), most) in counters.iter_mut().zip(&texts).zip(MOST) {
        *counter = text.parse().ok().filter(|n| *n <= most).ok_or_else(refuse)?;
    }
    Ok(counters)
}

impl Predictor for Atp {
    fn predict(&mut self, at: &Trigger, into: &mut Vec<i64>, own: &mut OwnCounts) {
        self.update(at.page);
        let choice = self.choice();
        *own.at(CHOSEN + choice.map_or(0, |child| 1 + child)) += 1;
        let children: [&mut dyn Predictor; 3] = [&mut self.h2p, &mut self.masp, &mut self.stp];
        for (child, made) in children.into_iter().zip(&mut self.made) {
            made.clear();
            child.predict(at, made, own);
        }
        if let Some(child) = choice {
            into.extend_from_slice(&self.made[child]);
        }
    }

    /// ATP-4.
    fn train(&mut self, at: &Trigger, own: &mut OwnCounts) {
        let free = Some(at.free).filter(|_| self.with_free);
        for (queue, made) in self.queues.iter_mut().zip(&self.made) {
            made.iter().for_each(|page| queue.add_predicted(*page, at.order, free));
        }
        self.h2p.train(at, own);
        self.masp.train(at, own);
        self.stp.train(at, own);
    }

    fn forget(&mut self) {
        self.h2p.forget();
        self.masp.forget();
        self.stp.forget();
        self.queues = [Queue::default(); 3];
        self.counters = self.initial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ATP-2 to ATP-4: the counters of the table of section 2.4.
    #[test]
    fn atp_2_counters_by_hand() {
        let (params, mut own) = super::super::defaults();
        let mut atp = Atp::new(&params).unwrap();
        let mut counters = |page| {
            let made = super::super::drive(&mut atp, &[(page, None)], &mut own);
            (atp.counters, made[0].clone())
        };
        assert_eq!(counters(0), ([127, 0, 0], vec![]));
        assert_eq!(counters(1), ([128, 0, 1], vec![2]));
        assert_eq!(counters(2), ([129, 0, 1], vec![3]));
        let more: Vec<_> = (3..6).map(counters).collect();
        assert_eq!(more.last(), Some(&([132, 0, 1], vec![6])));
    }

    /// ATP-3.
    #[test]
    fn atp_3_top_bits_choose() {
        let (params, _) = super::super::defaults();
        let mut atp = Atp::new(&params).unwrap();
        let mut choice = |counters| {
            atp.counters = counters;
            atp.choice()
        };
        assert_eq!(
            [[127, 63, 3], [128, 32, 3], [255, 31, 2], [128, 31, 1]].map(&mut choice),
            [None, Some(0), Some(2), Some(1)]
        );
    }

    /// ATP-2: every row of the table, and that counters saturate.
    #[test]
    fn atp_2_every_case() {
        let (params, _) = super::super::defaults();
        let mut atp = Atp::new(&params).unwrap();
        let mut after = |hits: u8, before| {
            atp.counters = before;
            for (child, queue) in atp.queues.iter_mut().enumerate() {
                *queue = Queue::default();
                queue.add(if hits >> (2 - child) & 1 != 0 { 7 } else { 8 });
            }
            atp.update(7);
            atp.counters
        };
        let all: Vec<_> = (0..8).map(|hits| after(hits, [100, 30, 1])).collect();
        let expected: [[u8; 3]; 8] = [
            [99, 30, 1],
            [101, 29, 2],
            [101, 29, 0],
            [101, 29, 1],
            [101, 31, 1],
            [101, 30, 2],
            [101, 30, 0],
            [101, 30, 1],
        ];
        assert_eq!(all, expected);
        assert_eq!(
            [after(0, [0; 3]), after(4, MOST), after(5, MOST), after(2, [9, 0, 0])],
            [[0, 0, 0], MOST, MOST, [10, 0, 0]]
        );
    }

    /// ATP-1, ATP-4: sixteen pages, first in, first out; one that is there keeps its place.
    #[test]
    fn atp_4_queues() {
        let mut queue = Queue::default();
        (0..16).chain([0, 16]).for_each(|page| queue.add(page));
        assert!(!queue.contains(0) && queue.contains(1) && queue.contains(16));
        queue.add(17);
        assert!(!queue.contains(1) && queue.contains(2));
    }
}
