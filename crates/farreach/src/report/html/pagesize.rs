//! The page of the page-size study.

use crate::counts::PageSizeResult;

/// The page.
pub fn render(result: &PageSizeResult) -> String {
    String::from(&result.schema)
}
