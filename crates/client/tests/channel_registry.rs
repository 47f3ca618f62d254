//! The codes of channels in this crate are those of `spec/registry.toml`.
#![cfg(feature = "channel")]
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::collections::BTreeSet;

use sealway_client::channel::Error;

#[test]
fn the_registry_has_every_code_and_no_other() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/registry.toml");
    let registry: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let table = registry["channel_client_errors"].as_table().unwrap();
    let listed: BTreeSet<&str> = table.keys().map(String::as_str).collect();
    assert_eq!(listed, Error::CODES.iter().copied().collect::<BTreeSet<_>>());
    for (code, entry) in table {
        for field in ["stage", "blame", "meaning"] {
            assert!(entry[field].as_str().is_some_and(|text| !text.is_empty()), "{code}.{field}");
        }
    }
}
