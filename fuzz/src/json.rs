//! JSON as another reader reads it: serde_json, which differs from ours in numbers.

use serde_json::Value;

/// Parses JSON that ours has accepted. `None` if a number is out of the range of serde_json; ours reads only the numbers that it uses.
///
/// # Panics
/// serde_json rejects it for anything else.
pub(crate) fn read(text: &[u8]) -> Option<Value> {
    match serde_json::from_slice(text) {
        Ok(value) => Some(value),
        Err(err) if err.to_string().contains("number out of range") => None,
        Err(err) => panic!("what is accepted is JSON for another reader: {err}"),
    }
}

/// Replaces floating-point numbers by null: some are read as a neighbour of the nearest one, so that their text changes.
pub(crate) fn without_floats(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => Value::Null,
        Value::Array(values) => values.into_iter().map(without_floats).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, without_floats(value))).collect(),
        other => other,
    }
}
