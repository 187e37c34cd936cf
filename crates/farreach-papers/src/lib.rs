//! The papers' tables and figures, measured again: what each needs to be run, and what it shows when that is there.
//!
//! A [`Study`] is one table or figure. Its `plan` names [`Request`]s, one machine on one program each, and is asked again whenever
//! results have come in, until it wants nothing more: equal-performance sizing goes on from what it found. Its `section` shows the
//! results beside the printed numbers. A [`Hypothesis`] is a claim of a paper with a judge. All of it is pure: whoever runs the
//! requests, and keeps what came of them, is elsewhere.
//!
//! | owns | must not know |
//! |---|---|
//! | which machines a table or figure needs on which programs | how a program becomes a stream, threads, caches of results |
//! | the printed numbers beside the measured ones ([`printed`]) | how a section becomes text or a page |
//! | claims and the rules that judge them ([`hypotheses`]) | how a machine works |
//! | which command finds a row again (`commands`) | which programs are installed |

mod commands;
mod ds13;
mod expected_rows;
pub mod hypotheses;
mod large;
pub mod machines;
pub mod micro;
pub mod micro_memory;
mod number_text;
pub mod printed;
mod ps;
mod results;
mod rmm15;
mod snapshots;
mod sv97;
mod t94;

pub use farreach_types::papers::{
    Bars, Cell, Chart, Column, Finding, Judged, Origin, PAPERS_SCHEMA, Papers, Program, Row, Section, Series, Table, Verdict,
};
pub use hypotheses::{HYPOTHESES, Hypothesis};
pub use results::{ALIGNED, Answer, Measured, PAGE_SIZES, Request, Results, Set, THEN, What};

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

/// All studies, in the order in which a report shows them. A further one is one file and one line here.
pub const STUDIES: &[&Study] = &[
    &t94::table1::STUDY,
    &t94::table5::STUDY,
    &t94::table6::STUDY,
    &t94::table7::STUDY,
    &t94::table8::STUDY,
    &t94::table9::STUDY,
    &t94::table10::STUDY,
    &t94::figures::FIGURE_1,
    &t94::figures::FIGURE_2,
    &t94::figures::FIGURE_3,
    &t94::sweeps::FIGURE_4,
    &t94::sweeps::FIGURE_5,
    &t94::worked_examples::STUDY,
    &t94::options::MECHANISMS,
    &t94::options::PRELOAD,
    &t94::options::THRESHOLDS,
    &t94::pressure::PRESSURE,
    &t94::pressure::FRAGMENTATION,
    &t94::ledger::STUDY,
    &ps::ITLB,
    &ps::DTLB,
    &ps::MEMORY,
    &ps::ADVICE,
    &sv97::table1::STUDY,
    &sv97::table2::STUDY,
    &sv97::table3::STUDY,
    &sv97::table4::STUDY,
    &sv97::table5::STUDY,
    &sv97::figure8::STUDY,
    &ds13::machine::TABLE_1,
    &ds13::machine::TABLE_2,
    &ds13::table3::STUDY,
    &ds13::table4::TABLE_4,
    &ds13::table5::STUDY,
    &ds13::fig1::STUDY,
    &ds13::table4::FIGURE_4,
    &ds13::fig5::STUDY,
    &ds13::worked_examples::STUDY,
    &rmm15::table1::TABLE_1,
    &rmm15::table2::STUDY,
    &rmm15::table1::TABLE_3,
    &rmm15::table1::TABLE_4,
    &rmm15::table1::TABLE_5,
    &rmm15::table6::STUDY,
    &rmm15::table7::STUDY,
    &rmm15::fig6::STUDY,
    &rmm15::fig7::STUDY,
    &rmm15::options::STUDY,
    &rmm15::worked_examples::STUDY,
];

/// The study with this id.
pub fn study(id: &str) -> Option<&'static Study> {
    STUDIES.iter().copied().find(|s| s.id == id)
}

/// These studies, and those that the claims shown with them also rest on.
pub fn with_claims(studies: &[&'static Study]) -> Vec<&'static Study> {
    let mut all = studies.to_vec();
    for h in HYPOTHESES.iter().filter(|h| studies.iter().any(|s| h.studies.first() == Some(&s.id))) {
        for other in h.studies.iter().filter_map(|id| study(id)) {
            if !all.iter().any(|s| s.id == other.id) {
                all.push(other);
            }
        }
    }
    all
}

impl Study {
    /// The section of this study, with the verdicts on the claims that belong to it.
    pub fn show(&self, results: &Results, set: &Set) -> Section {
        let mut section = Section::new(self.id, self.title, self.rules);
        (self.section)(results, set, &mut section);
        commands::add(self, results, set, &mut section);
        let mine = HYPOTHESES.iter().filter(|h| h.studies.first() == Some(&self.id));
        section.verdicts = mine.map(|h| h.judged(results, set)).collect();
        section
    }
}

/// Shows these studies.
pub fn show(studies: &[&Study], results: &Results, set: &Set) -> Papers {
    let requests: Vec<Request> = studies.iter().flat_map(|s| (s.plan)(results, set)).collect();
    let run: std::collections::BTreeSet<&str> = commands::names(&requests).collect();
    Papers {
        schema: PAPERS_SCHEMA.into(),
        set: set.name.clone(),
        programs: set.all().filter(|p| run.contains(p.name.as_str())).cloned().collect(),
        sections: studies.iter().map(|s| s.show(results, set)).collect(),
    }
}
