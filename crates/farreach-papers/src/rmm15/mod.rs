//! RMM15: redundant memory mappings.

pub(super) mod fig6;
pub(super) mod fig7;
pub(super) mod options;
pub(super) mod table1;
pub(super) mod table2;
pub(super) mod table6;
pub(super) mod table7;
pub(super) mod worked_examples;

use super::large::{self, Stand, stands};
use super::{Cell, Origin, Program, Request, Results, Section, Set, Study, Table, printed};
