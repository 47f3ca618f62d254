//! Compares the codes of channels and calls in this crate with `spec/registry.toml`, apart from those of other SDKs.

use std::collections::BTreeSet;
use std::time::Duration;

use sealway_client::channel::Error;
use sealway_client::channel::rpc::{CallError, RpcError};
use toml::{Table, Value};

fn table(name: &str) -> Table {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/registry.toml");
    let registry: Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    registry[name].as_table().unwrap().clone()
}

/// Codes that the registry lists for this SDK.
fn of_rust(table: &Table) -> BTreeSet<&str> {
    let is_ours = |entry: &Value| match entry.get("sdks") {
        Some(sdks) => sdks.as_array().unwrap().iter().any(|sdk| sdk.as_str() == Some("rust")),
        None => true,
    };
    table.iter().filter(|(_, entry)| is_ours(entry)).map(|(code, _)| code.as_str()).collect()
}

fn says(table: &Table, fields: &[&str]) {
    for (code, entry) in table {
        for field in fields {
            assert!(entry[*field].as_str().is_some_and(|text| !text.is_empty()), "{code}.{field}");
        }
    }
}

#[test]
fn the_registry_has_every_code_and_no_other() {
    let table = table("channel_client_errors");
    assert_eq!(of_rust(&table), Error::CODES.iter().copied().collect::<BTreeSet<_>>());
    says(&table, &["stage", "blame", "meaning"]);
}

#[test]
fn the_registry_has_every_code_of_a_call_and_no_other() {
    let table = table("rpc_errors");
    assert_eq!(of_rust(&table), CallError::CODES.iter().copied().collect::<BTreeSet<_>>());
    says(&table, &["blame", "meaning"]);
    for err in [
        CallError::Refused(RpcError::new(RpcError::HANDLER_NOT_FOUND, "")),
        CallError::Refused(RpcError::new(RpcError::INTERNAL, "")),
        CallError::TimedOut(Duration::ZERO),
        CallError::TooLong(1),
    ] {
        assert!(CallError::CODES.contains(&err.code()), "{err}");
    }
}
