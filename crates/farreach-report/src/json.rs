//! The result as JSON: the contract for programs.

use erased_serde::Serialize;

/// Pretty-printed, fields in the order of the types, a line feed at the end. For results, which have only text keys.
pub fn render<T: Serialize + ?Sized>(result: &T) -> String {
    let mut text = Vec::new();
    erased_serde::serialize(result, &mut serde_json::Serializer::pretty(&mut text))
        .expect("a result has only text keys, so it is always JSON");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON is UTF-8")
}
