//! A clustered page table: hashed by groups of 16 pages. A node has tag, link and 16 entries; where the group is (part
//! of) one superpage, its first entry stands for all (SV97-18, SV97-23).

use super::{Arena, Organisation, bucket, id_of};

const HEAD: u64 = 4;
/// Tag and link, 16 bytes; then the entries of 4 bytes.
const ENTRIES: u64 = 16;
const NODE: u64 = 128;
/// log2 of the pages of a group.
const GROUP_SHIFT: u32 = 4;

struct Node {
    group: u64,
    at: u64,
    /// Pages that were looked up and are mapped, a bit each.
    mapped: u16,
}

/// See the module. New nodes go to the front of their chain; a node is removed with its last page.
pub struct Clustered {
    buckets: Vec<Vec<Node>>,
    memory: Arena,
}

impl Clustered {
    /// `buckets`: a power of two.
    pub fn new(buckets: u64) -> Clustered {
        Clustered { buckets: (0..buckets).map(|_| Vec::new()).collect(), memory: Arena::new(buckets * HEAD, NODE) }
    }
}

impl Organisation for Clustered {
    fn path(&mut self, page: u64, _: u64, order: u8, loads: &mut Vec<u64>) {
        let (group, offset) = (page >> GROUP_SHIFT, page & ((1 << GROUP_SHIFT) - 1));
        let at = bucket(group, self.buckets.len() as u64);
        loads.push(super::super::global::kernel::TABLES + at * HEAD);
        let chain = &mut self.buckets[at as usize];
        if !chain.iter().any(|node| node.group == group) {
            chain.push(Node { group, at: self.memory.take(), mapped: 0 });
        }
        let behind = chain.iter().rposition(|node| node.group == group).expect("just put in");
        loads.extend(chain[behind..].iter().rev().map(|node| node.at));
        let node = &mut chain[behind];
        node.mapped |= 1 << offset;
        let entry = if u32::from(order) >= GROUP_SHIFT { 0 } else { offset };
        loads.push(node.at + ENTRIES + entry * 4);
    }

    fn unmap(&mut self, page: u64) {
        let (group, offset) = (page >> GROUP_SHIFT, page & ((1 << GROUP_SHIFT) - 1));
        let at = bucket(group, self.buckets.len() as u64);
        let chain = &mut self.buckets[at as usize];
        if let Some(i) = chain.iter().position(|node| node.group == group) {
            chain[i].mapped &= !(1 << offset);
            if chain[i].mapped == 0 {
                self.memory.free_node(chain.remove(i).at);
            }
        }
    }

    fn gone(&mut self, id: u32) {
        let memory = &mut self.memory;
        for chain in &mut self.buckets {
            chain.retain(|node| {
                let stays = id_of(node.group << GROUP_SHIFT) != id;
                if !stays {
                    memory.free_node(node.at);
                }
                stays
            });
        }
    }
}
