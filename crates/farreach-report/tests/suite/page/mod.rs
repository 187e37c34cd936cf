//! Properties of every page: one self-contained file.

/// The page's body as XML: templates close their elements, and text from outside adds none.
pub fn body(page: &str) -> String {
    let from = page.find("<body>").unwrap();
    page[from..page.find("</html>").unwrap()].to_owned()
}

/// Well formed, nothing that loads or runs, no NaN.
pub fn complete(name: &str, page: &str) {
    let body = body(page);
    let xml = roxmltree::Document::parse(&body).unwrap_or_else(|e| panic!("{name}: {e}"));
    for node in xml.descendants().filter(roxmltree::Node::is_element) {
        assert!(
            !["script", "img", "link", "iframe", "object", "a"].contains(&node.tag_name().name()),
            "{name}: {node:?}"
        );
        for attribute in node.attributes() {
            let (key, value) = (attribute.name(), attribute.value());
            assert!(!key.starts_with("on") && !["href", "src", "action"].contains(&key), "{name}: {key}={value}");
            assert!(
                !value.contains("NaN") && !value.contains("inf%") && !value.contains("infpx"),
                "{name}: {key}={value}"
            );
        }
    }
    let head = &page[..page.find("<body>").unwrap()];
    assert!(
        !page.contains("<script") && !page.contains("://") && !head.contains("url(") && !head.contains("@import"),
        "{name}"
    );
}
