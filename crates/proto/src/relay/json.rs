//! JSON as the relay's messages use it: members that are absent or null have the zero of their type, unknown ones are ignored,
//! and a wrong type rejects the whole.

use alloc::string::String;
use core::fmt::Write as _;

use serde_json::Value;

/// Returns a text, empty if it is absent; `None` for another type.
pub(super) fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    match object.get(name) {
        None | Some(Value::Null) => Some(""),
        Some(Value::String(text)) => Some(text),
        Some(_) => None,
    }
}

/// Returns a whole number, 0 if it is absent; `None` for another type.
pub(super) fn whole(object: &Value, name: &str) -> Option<i64> {
    match object.get(name) {
        None | Some(Value::Null) => Some(0),
        Some(Value::Number(number)) => number.as_i64(),
        Some(_) => None,
    }
}

/// Parses JSON; `None` if it is not an object.
pub(super) fn object(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok().filter(Value::is_object)
}

/// Appends a string with its quotes. Characters that could end a script on a page are escaped too, as the issuers of v1 do.
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
                // Writing to a string cannot fail.
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
