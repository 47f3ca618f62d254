//! `spec/registry.toml` and this crate name the same errors and suites of channels.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use sealway_proto::Blame;
use sealway_proto::channel::{ChannelError, Suite};
use toml::Table;

fn registry(section: &str) -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/registry.toml");
    fs::read_to_string(path).unwrap().parse::<Table>().unwrap()[section].as_table().unwrap().clone()
}

#[test]
fn the_registry_lists_every_channel_error_with_its_stage_and_blame() {
    let listed = registry("channel_errors");
    let codes: BTreeSet<&str> = ChannelError::ALL.iter().map(ChannelError::code).collect();
    assert_eq!(codes.len(), ChannelError::ALL.len(), "a code twice");
    assert_eq!(listed.keys().map(String::as_str).collect::<BTreeSet<_>>(), codes);
    for error in ChannelError::ALL {
        let entry = &listed[error.code()];
        let blame = match error.blame() {
            Blame::Peer => "peer",
            Blame::Caller => "caller",
            Blame::Limit => "limit",
            Blame::Expiry => "expiry",
            Blame::Crypto => "crypto",
        };
        assert_eq!(entry["blame"].as_str(), Some(blame), "{}", error.code());
        assert_eq!(entry["stage"].as_str(), Some(error.stage().name()), "{}", error.code());
        assert!(entry["meaning"].as_str().unwrap().ends_with('.'), "{}", error.code());
    }
}

#[test]
fn the_registry_lists_every_suite_by_name_and_number() {
    let listed: BTreeSet<(String, i64)> =
        registry("channel_suites").into_iter().map(|(name, id)| (name, id.as_integer().unwrap())).collect();
    assert_eq!(listed, Suite::all().map(|suite| (suite.name(), i64::from(suite.id()))).collect());
}
