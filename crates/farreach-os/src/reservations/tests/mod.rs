//! The worked examples of NAV and FBR, each named by its rule, and laws on random programs (OSC-5).

mod compare;
mod freebsd;
mod laws;
mod navarro;

use crate::testing::*;
use crate::{Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Backing, Kind, Op, Prot};
use farreach_types::translation::{PageTableView, Pte};
