//! What a study is.

use crate::results::{Request, Results, Set};
use farreach_types::papers::Section;

/// One table or figure of a paper.
pub struct Study {
    /// What `farreach papers` takes.
    pub id: &'static str,
    /// One line for people.
    pub title: &'static str,
    /// Rules it rests on.
    pub rules: &'static str,
    /// What it wants to be run and has not got yet.
    pub plan: fn(&Results, &Set) -> Vec<Request>,
    /// What it shows.
    pub section: fn(&Results, &Set, &mut Section),
}
