//! `broker-transit`: the body of a request of the broker's transit API.

use sealway_broker::Refusal;
use sealway_broker::wire::transit::Fields;

/// Fields of requests, and how each is taken.
const TEXTS: [&str; 4] = ["ciphertext", "signature", "type", "reference"];
const BYTES: [&str; 3] = ["plaintext", "input", "associated_data"];
const NUMBERS: [&str; 3] = ["key_version", "bits", "min_decryption_version"];

/// Checks that an error is a short line that begins with the name of a field.
fn told(refusal: &Refusal) {
    assert!(refusal.text.len() < 200 && !refusal.text.contains(['\n', '\u{1}']), "{:?}", refusal.text);
    let (name, _) = refusal.text.split_once(": ").unwrap_or_else(|| panic!("no field in {:?}", refusal.text));
    assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'), "{name:?}");
}

/// The fuzz target for a body.
pub fn body(data: &[u8]) {
    let batch = match Fields::parse(data).and_then(Fields::batch) {
        Ok(batch) => batch,
        Err(refusal) => return told(&refusal),
    };
    assert!((1..=1024).contains(&batch.entries.len()));
    assert!(batch.partial.is_none_or(|code| (200..=599).contains(&code)));
    for mut fields in batch.entries {
        let mut refusals = Vec::new();
        refusals.extend(TEXTS.iter().filter_map(|name| fields.text(name).err()));
        refusals.extend(BYTES.iter().filter_map(|name| fields.bytes(name).err()));
        refusals.extend(NUMBERS.iter().filter_map(|name| fields.number(name).err()));
        refusals.extend(fields.switch("deletion_allowed").err());
        refusals.extend(fields.without(&["context", "nonce"], "not here").err());
        refusals.extend(fields.end().err());
        refusals.iter().for_each(told);
    }
}
