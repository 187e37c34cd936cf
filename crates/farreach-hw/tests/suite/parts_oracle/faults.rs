//! Faults.

use super::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    None,
}

impl Fault {
    pub fn around(self, tlb: Box<dyn Tlb>, _part: &'static str) -> Box<dyn Tlb> {
        tlb
    }
    pub fn tell(self, step: &Step, plain: &mut dyn Plain, world: &World) {
        match *step {
            Step::Change(asid, pages) => plain.change(asid, pages, false, world),
            Step::Split(asid, pages) => plain.change(asid, pages, true, world),
            Step::Mapped(asid, pages) => plain.mapped(asid, pages, world),
            Step::Gone(asid) => plain.gone(asid),
            Step::Switch(to) => plain.switch(to),
            Step::Look(_) => {}
        }
    }
    pub fn miss(self, miss: Miss) -> Miss {
        miss
    }
}
