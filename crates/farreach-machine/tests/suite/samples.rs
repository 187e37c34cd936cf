//! Samples: does everything that counts what follows what refuse them?

use crate::common::lab;
use farreach_machine::{Options, PAGE_SIZES, PageLab, Preset};
use farreach_types::event::{Batch, Op};

#[test]
fn machines_and_the_page_size_study_refuse_them() {
    let mut batch = Batch::default();
    batch.push_op(Op::Samples);
    for preset in Preset::all_of("all") {
        let why = lab(&[preset.name], false, 1).feed(batch.clone()).expect_err(preset.name).to_string();
        assert!(why.contains("these are samples"), "{}: {why}", preset.name);
    }
    let why = PageLab::new(&PAGE_SIZES, 64, Options::default()).unwrap().feed(&batch).expect_err("samples").to_string();
    assert!(why.contains("these are samples"), "{why}");
}
