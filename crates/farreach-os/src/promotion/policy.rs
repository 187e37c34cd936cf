//! When superpages are promoted (T94-54): the keys and the thresholds.

use crate::object::ObjectKind;
use farreach_types::params::{Allowed, Key, Params};

const PROMOTE: Key = Key {
    name: "promote",
    default: "none",
    allowed: Allowed::PageSizesOrNone { min: 8192, max: 1 << 30 },
    about: "superpage sizes that the system promotes to (T94-54)",
};
const PROMOTE_KINDS: Key = Key {
    name: "promote_kinds",
    default: "file+nfs+heap",
    allowed: Allowed::Texts,
    about: "kinds of object that are promoted: file, nfs, heap (all anonymous memory) (T94-77)",
};
const THRESHOLD: Allowed = Allowed::Number { min: 0.0, max: 1.0 };
const HEAP: Key = Key {
    name: "threshold_heap",
    default: "1.0",
    allowed: THRESHOLD,
    about: "share of a superpage's pages that must be mapped before promotion: anonymous memory",
};
const DISK: Key =
    Key { name: "threshold_file", default: "0.5", allowed: THRESHOLD, about: "as before: files on a local disk" };
const NFS: Key = Key { name: "threshold_nfs", default: "0.75", allowed: THRESHOLD, about: "as before: remote files" };
const STRICT: Key = Key {
    name: "strict_threshold",
    default: "false",
    allowed: Allowed::Flag,
    about: "promote when the share exceeds the threshold instead of reaching it (AMB-2)",
};

/// All keys of promotion.
pub const KEYS: &[&Key] = &[&PROMOTE, &PROMOTE_KINDS, &HEAP, &DISK, &NFS, &STRICT];

/// When to promote.
pub struct Promotion {
    orders: Vec<u32>,
    /// Kinds of object that are promoted.
    pub kinds: Vec<ObjectKind>,
    heap: f64,
    disk: f64,
    nfs: f64,
    strict: bool,
}

impl Promotion {
    /// From the keys.
    pub fn new(params: &Params) -> Result<Promotion, String> {
        let orders: Vec<u32> =
            params.sizes("promote").iter().map(|&s| params.order("promote", s)).collect::<Result<_, _>>()?;
        if orders.first() == Some(&0) {
            return Err(format!(
                "promote = {} is not allowed: that is page_size; promote must be larger",
                params.int("page_size")
            ));
        }
        Ok(Promotion {
            orders,
            kinds: ObjectKind::named_by(params, "promote_kinds")?,
            heap: params.number("threshold_heap"),
            disk: params.number("threshold_file"),
            nfs: params.number("threshold_nfs"),
            strict: params.flag("strict_threshold"),
        })
    }

    /// log2 of the base pages of each superpage size, ascending.
    pub fn orders(&self) -> &[u32] {
        &self.orders
    }

    /// Mapped pages at which a group of `2^order` pages of such an object is promoted.
    pub fn threshold(&self, kind: ObjectKind, order: u32) -> u64 {
        let share = match kind {
            ObjectKind::Anonymous => self.heap,
            ObjectKind::Disk => self.disk,
            ObjectKind::Nfs => self.nfs,
        };
        let pages = share * (1u64 << order) as f64;
        if self.strict { pages.floor() as u64 + 1 } else { pages.ceil() as u64 }
    }
}
