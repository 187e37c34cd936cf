//! A hashed page table: an array of buckets, each the head of a chain of entries with tag, translation and link.

use super::{Arena, Organisation, bucket, id_of};

const HEAD: u64 = 4;
const NODE: u64 = 16;

/// See the module. New entries go to the front of their chain.
pub struct Hashed {
    buckets: Vec<Vec<(u64, u64)>>,
    memory: Arena,
}

impl Hashed {
    /// `buckets`: a power of two.
    pub fn new(buckets: u64) -> Hashed {
        Hashed { buckets: vec![Vec::new(); buckets as usize], memory: Arena::new(buckets * HEAD, NODE) }
    }
}

impl Organisation for Hashed {
    fn path(&mut self, page: u64, _: u64, _: u8, loads: &mut Vec<u64>) {
        let at = bucket(page, self.buckets.len() as u64);
        loads.push(super::super::global::kernel::TABLES + at * HEAD);
        let chain = &mut self.buckets[at as usize];
        // The last of the vector is the front of the chain.
        if !chain.iter().any(|&(p, _)| p == page) {
            chain.push((page, self.memory.take()));
        }
        let behind = chain.iter().rposition(|&(p, _)| p == page).expect("just put in");
        loads.extend(chain[behind..].iter().rev().map(|&(_, node)| node));
    }

    fn unmap(&mut self, page: u64) {
        let at = bucket(page, self.buckets.len() as u64);
        let chain = &mut self.buckets[at as usize];
        if let Some(i) = chain.iter().position(|&(p, _)| p == page) {
            self.memory.free_node(chain.remove(i).1);
        }
    }

    fn gone(&mut self, id: u32) {
        let memory = &mut self.memory;
        for chain in &mut self.buckets {
            chain.retain(|&(page, node)| {
                let stays = id_of(page) != id;
                if !stays {
                    memory.free_node(node);
                }
                stays
            });
        }
    }
}
