//! The set of a page in each way of a skewed TLB (OT-19), piece by piece.

use super::*;

impl PlainTlb {
    pub(super) fn skewed_set(&self, page: u64, sets: u64, way: usize) -> u64 {
        if sets == 1 {
            return 0;
        }
        let (lowest, mut rest, mut fold) = (page % sets, page / sets, 0);
        while rest != 0 {
            fold ^= rest % sets;
            rest /= sets;
            if self.wrong(Mutation::SkewSecondPieceOnly) {
                break;
            }
        }
        for _ in 0..way {
            fold = self.image(fold, sets);
        }
        lowest ^ fold
    }

    fn image(&self, x: u64, sets: u64) -> u64 {
        if sets == 2 || self.wrong(Mutation::SkewImageForgotten) {
            return x;
        }
        let (highest, lowest) = (x / (sets / 2), x % 2);
        let sets_highest = if self.wrong(Mutation::SkewImageRotates) { lowest == 1 } else { highest != lowest };
        x / 2 + if sets_highest { sets / 2 } else { 0 }
    }
}
