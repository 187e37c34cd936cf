//! The keys of a prefetcher.

/// Everything that can be chosen (PB-1 to PB-8). [`Config::new`] has the defaults of the rules.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// PB-1: entries of the buffer; with none everything is off (HW-4).
    pub pb_entries: usize,
    /// PB-1, `pb_replacement=lru`. No difference (OB-1).
    pub pb_lru: bool,
    /// PB-3, `prefetch_into=l2`.
    pub into_l2: bool,
    /// PB-4, `prefetch_on=walk`.
    pub on_walk: bool,
    /// PB-6.
    pub filter: Filter,
    /// PB-8, `predict_unit=base`.
    pub base_unit: bool,
    /// HW-8: positions of the stream until an entry is usable.
    pub delay: u64,
    /// HW-9, `predictors_on_switch=keep`.
    pub keep_at_switch: bool,
    /// MOR-1, `pb_for=fetch`: only fetches look the buffer up, and cause anything.
    pub for_fetch: bool,
    /// Who predicts.
    pub predictor: Kind,
    /// SBFP-5.
    pub free: Free,
}

/// Which TLBs drop a candidate that they hold (PB-6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    L2,
    /// Both levels.
    L1,
    None,
}

/// A predictor with its keys. `rows` are all rows of a table, `ways` those of a set.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// Free entries only.
    None,
    /// SP-1.
    Sp { degree: i64 },
    /// ASP-1, ASP-2.
    Asp { threshold: u64, rows: usize, ways: usize },
    /// MP-1.
    Mp { rows: usize, ways: usize, slots: usize },
    /// DP-1 to DP-4: `dp_train=first`, `dp_allocate=lookup`.
    Dp { rows: usize, ways: usize, slots: usize, train_first: bool, allocate_at_lookup: bool },
    /// RP-1 to RP-6: `rp_prefetch` is 2 or 3; `rp_reference=walk`; `rp_leave`.
    Rp { prefetch: usize, walk: bool, leave: bool },
    /// H2P-1: `h2p_signs=both`.
    H2p { both_signs: bool },
    /// MASP-1.
    Masp { rows: usize, ways: usize },
    /// STP-1.
    Stp,
    /// ATP-1 to ATP-6.
    Atp(Atp),
    /// MOR-2 to MOR-5: rows of the tables with 1, 2, 4 and 8 slots, and misses between halvings.
    Morrigan { rows: [usize; 4], halve: u64 },
}

/// Keys of ATP.
#[derive(Clone, PartialEq, Debug)]
pub struct Atp {
    /// ATP-1, `atp_initial`: counters of 8, 6 and 2 bits.
    pub initial: [u64; 3],
    /// ATP-1: pages in each fake queue.
    pub fpq: usize,
    /// ATP-4, `atp_fpq_free`.
    pub fpq_free: bool,
    /// ATP-4, `atp_fpq_mapped`.
    pub fpq_mapped: bool,
    /// ATP-6, `children`: the only child (0, 1, 2), which then always issues.
    pub only: Option<usize>,
    /// Of H2P.
    pub both_signs: bool,
    /// Rows and ways of MASP.
    pub masp: (usize, usize),
}

/// Which neighbours in the line of a leaf come along (SBFP-3, SBFP-5).
#[derive(Clone, PartialEq, Debug)]
pub enum Free {
    None,
    All,
    /// These distances.
    Static(Vec<i64>),
    /// SBFP-1, SBFP-2, SBFP-4: `threshold`, entries of the sampler, `sampler_keep`, `fdt_per_size`.
    Sbfp {
        threshold: u64,
        sampler: usize,
        keep: bool,
        per_size: bool,
    },
}

impl Config {
    /// The defaults, with this predictor and buffer.
    pub fn new(predictor: Kind, pb_entries: usize) -> Config {
        Config {
            pb_entries,
            pb_lru: false,
            into_l2: false,
            on_walk: false,
            filter: Filter::L2,
            base_unit: false,
            delay: 0,
            keep_at_switch: false,
            for_fetch: false,
            predictor,
            free: Free::None,
        }
    }
}

impl Atp {
    /// The defaults.
    pub fn new() -> Atp {
        Atp {
            initial: [128, 0, 0],
            fpq: 16,
            fpq_free: true,
            fpq_mapped: false,
            only: None,
            both_signs: false,
            masp: (64, 4),
        }
    }
}

impl Default for Atp {
    fn default() -> Atp {
        Atp::new()
    }
}

impl Free {
    /// SBFP-1 with this threshold.
    pub fn sbfp(threshold: u64) -> Free {
        Free::Sbfp { threshold, sampler: 64, keep: false, per_size: false }
    }
}
