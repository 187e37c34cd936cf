//! All studies, and the report of studies with the claims that rest on them.

use crate::codes;
use crate::commands;
use crate::heads;
use crate::hypotheses::HYPOTHESES;
use crate::results::{Request, Results, Set};
use crate::study::Study;
use crate::{atlas, ds13, policies, ps, rmm15, servers, since, sv97, t94};
use farreach_types::papers::{PAPERS_SCHEMA, Papers, Section};

/// All studies, in the order in which a report shows them. A further one is one file and one line here.
pub const STUDIES: &[&Study] = &[
    &t94::table1::STUDY,
    &t94::table5::STUDY,
    &t94::table6::STUDY,
    &t94::table7::STUDY,
    &t94::hardware::STUDY,
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
    &rmm15::hardware::STUDY,
    &rmm15::worked_examples::STUDY,
    &since::designs::STUDY,
    &since::prefetch::STUDY,
    &since::tables::STUDY,
    &since::walks::STUDY,
    &since::replacement::STUDY,
    &since::reach::STUDY,
    &since::guests::STUDY,
    &since::cores::STUDY,
    &since::midgard::STUDY,
    &since::identities::STUDY,
    &since::open::STUDY,
    &atlas::STUDY,
    &policies::STUDY,
    &policies::cores::STUDY,
    &policies::memory::STUDY,
    &policies::OPEN,
];

/// The study with this id.
pub fn study(id: &str) -> Option<&'static Study> {
    STUDIES.iter().copied().find(|s| s.id == id)
}

/// These studies, and the other studies that their claims rest on.
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

/// The section of a study, with the verdicts on the claims that belong to it.
pub(crate) fn shown(study: &Study, results: &Results, set: &Set) -> Section {
    let mut section = Section::new(study.id, study.title, study.rules);
    (study.section)(results, set, &mut section);
    servers::add_notes(study, results, set, &mut section);
    commands::add(study, results, set, &mut section);
    let claims = HYPOTHESES.iter().filter(|h| h.studies.first() == Some(&study.id));
    section.verdicts = claims.map(|h| h.judged(results, set)).collect();
    section.codes = codes::of(&section);
    section
}

/// Shows these studies.
pub fn show(studies: &[&Study], results: &Results, set: &Set) -> Papers {
    let requests: Vec<Request> = studies.iter().flat_map(|s| (s.plan)(results, set)).collect();
    let run: std::collections::BTreeSet<&str> = commands::names(&requests).collect();
    let mut papers = Papers {
        schema: PAPERS_SCHEMA.into(),
        set: set.name.clone(),
        programs: set.all().filter(|p| run.contains(p.name.as_str())).cloned().collect(),
        heads: Vec::new(),
        sections: studies.iter().map(|s| shown(s, results, set)).collect(),
    };
    papers.heads = heads::of(&papers.verdicts());
    papers
}
