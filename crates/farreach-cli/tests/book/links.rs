//! Links of the book and of the pages at the root, followed within the repository.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The anchors and the links of a page.
#[derive(Default)]
struct Page {
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

/// The anchor of a heading, as mdBook and GitHub make it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    kept.chars()
        .filter_map(|c| {
            if c.is_whitespace() { Some('-') } else { (c.is_alphanumeric() || c == '-' || c == '_').then_some(c) }
        })
        .collect()
}

fn read(path: &Path) -> Page {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { level, .. }) if level <= HeadingLevel::H6 => heading = Some(String::new()),
            Event::Text(t) | Event::Code(t) if heading.is_some() => {
                heading.as_mut().expect("in a heading").push_str(&t)
            }
            Event::End(TagEnd::Heading(_)) => {
                let name = anchor(&heading.take().expect("in a heading"));
                // A second heading of the same text gets a number.
                let numbered =
                    (1..).map(|n| format!("{name}-{n}")).find(|n| !page.anchors.contains(n)).expect("numbers go on");
                let free = if page.anchors.contains(&name) { numbered } else { name };
                page.anchors.insert(free);
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.into_string())
            }
            _ => {}
        }
    }
    page
}

fn pages_below(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()) {
        if entry.is_dir() {
            pages_below(&entry, into);
        } else if entry.extension().is_some_and(|e| e == "md") {
            into.push(entry);
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    let root = super::root();
    let book = root.join("docs/book/src");
    let mut files: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|f| root.join(f)).into();
    pages_below(&book, &mut files);
    let pages: BTreeMap<PathBuf, Page> =
        files.into_iter().map(|f| (f.canonicalize().expect("it exists"), read(&f))).collect();
    let (mut broken, mut followed) = (Vec::new(), 0);
    for (file, page) in &pages {
        for link in &page.links {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (path, fragment) = link.split_once('#').map_or((link.as_str(), None), |(p, f)| (p, Some(f)));
            let target =
                if path.is_empty() { Ok(file.clone()) } else { file.with_file_name("").join(path).canonicalize() };
            let Ok(target) = target else {
                broken.push(format!("{}: {link}: no such file", file.display()));
                continue;
            };
            if file.starts_with(&book) && !target.starts_with(&book) {
                broken.push(format!("{}: {link}: outside the book", file.display()));
            }
            let known = |f| pages.get(&target).is_some_and(|p| p.anchors.contains(f));
            if let Some(fragment) = fragment.filter(|f| !known(*f)) {
                broken.push(format!("{}: {link}: no heading '{fragment}'", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(followed > 100, "{followed} links were found");
}

#[test]
fn every_page_is_in_the_summary() {
    let book = super::root().join("docs/book/src");
    let listed: BTreeSet<PathBuf> = read(&book.join("SUMMARY.md")).links.iter().map(|l| book.join(l)).collect();
    let mut files = Vec::new();
    pages_below(&book, &mut files);
    let lost: Vec<_> = files
        .iter()
        .filter(|f| !listed.contains(*f) && !f.ends_with("SUMMARY.md") && !f.starts_with(book.join("generated")))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}
