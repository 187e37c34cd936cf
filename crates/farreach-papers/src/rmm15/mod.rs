//! RMM15: redundant memory mappings.

pub(super) mod fig6;
pub(super) mod fig7;
pub(super) mod hardware;
pub(super) mod options;
pub(super) mod table1;
pub(super) mod table2;
pub(super) mod table6;
pub(super) mod table7;
pub(super) mod worked_examples;

use super::large::{self, Stand, stands};
use super::printed;
use crate::results::{Request, Results, Set};
use crate::study::Study;
use farreach_types::papers::{Cell, Origin, Program, Section, Table};
