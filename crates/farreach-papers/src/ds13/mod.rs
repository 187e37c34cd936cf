//! DS13: direct segments for big memory.

pub(super) mod fig1;
pub(super) mod fig5;
pub(super) mod machine;
pub(super) mod table3;
pub(super) mod table4;
pub(super) mod table5;
pub(super) mod worked_examples;

use super::large::{self, Stand, of_ds13, stands};
use super::printed;
use crate::results::{Request, Results, Set};
use crate::study::Study;
use farreach_types::papers::{Cell, Origin, Section, Table};
