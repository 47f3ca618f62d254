//! JSON as the relay's messages have it: members that are absent or null have the zero of their type, unknown ones are
//! ignored, and a wrong type refuses the whole.

use alloc::string::String;
use core::fmt::Write as _;

use serde_json::Value;

/// A text, empty where it is absent; none for another type.
pub(super) fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    match object.get(name) {
        None | Some(Value::Null) => Some(""),
        Some(Value::String(text)) => Some(text),
        Some(_) => None,
    }
}

/// A whole number, 0 where it is absent; none for another type.
pub(super) fn whole(object: &Value, name: &str) -> Option<i64> {
    match object.get(name) {
        None | Some(Value::Null) => Some(0),
        Some(Value::Number(number)) => number.as_i64(),
        Some(_) => None,
    }
}

/// Reads an object.
pub(super) fn object(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok().filter(Value::is_object)
}

/// Appends a string with its quotes. What could end a script on a page is escaped too, as the issuers of v1 do.
pub(super) fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Appends `,"name":` (without the comma after an opening brace).
pub(super) fn push_name(out: &mut String, name: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    push_text(out, name);
    out.push(':');
}

/// Appends a member that is a text.
pub(super) fn push_member(out: &mut String, name: &str, value: &str) {
    push_name(out, name);
    push_text(out, value);
}

/// Appends a member that is a number.
pub(super) fn push_number(out: &mut String, name: &str, value: i64) {
    push_name(out, name);
    let _ = write!(out, "{value}");
}
