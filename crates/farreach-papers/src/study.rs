//! The contract of a study.

use crate::results::{Request, Results, Set};
use farreach_types::papers::Section;

/// One table or figure of a paper.
pub struct Study {
    /// Its name for `farreach papers`.
    pub id: &'static str,
    /// One line for display.
    pub title: &'static str,
    /// Rules it rests on.
    pub rules: &'static str,
    /// The requests whose results it still needs.
    pub plan: fn(&Results, &Set) -> Vec<Request>,
    /// Fills its section of the report.
    pub section: fn(&Results, &Set, &mut Section),
}
