//! The parts of a hierarchy since 2000, additions and page tables, against their plain models, on random streams with
//! superpages, several processes, changes, splits, promotions and ends of processes. See `faults` for what this finds.
//!
//! An addition stands in a real machine; its model hears of the misses of the same machine without the addition, which
//! are the same (HW-3). After each lookup they agree on who answered; at intervals and at the end on all counters, all
//! references, nodes of walks, and entries. Covers HW-2, HW-3, HW-6 to HW-11, HW-L1; PB-1 to PB-11, the predictors of
//! section 2.2, SBFP-1 to SBFP-6, ATP-1 to ATP-5, MOR-1 to MOR-5; POM-1 to POM-5; VIC-1 to VIC-6; SPT-1 to SPT-4,
//! SPO-1 to SPO-3, ASA-1 to ASA-4; UTO-1 to UTO-4, UTO-7; PT-1 to PT-4 and the rules of each table; SHD-1, SHD-2; AGI-1
//! to AGI-3.

mod drive;
mod faults;
mod faulty;
mod hosts;
mod machine;
mod pom;
mod prefetch;
mod speculation;
mod stream;
mod tabled;
mod tables;
mod utopia;
mod victima;
mod walks;
mod world;

use drive::{Miss, Plain, References, all};
use farreach_hw::cache::Levels;
use farreach_hw::tlb::{EntryView, Lookup, Outcome, Tlb, Unfiltered, design, keys_of};
use farreach_oracle::dice::{Dice, seeds};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::restseg::{RestSeg, RestSegView, Way};
use farreach_types::translation::{Attr, PageTableView, Pte, Translation};
use faults::Fault;
use machine::{Machine, Setting, data_line};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use stream::Stream;
use walks::Walks;
use world::{Look, Step, World};

/// Streams of each test.
const STREAMS: u64 = 1000;
