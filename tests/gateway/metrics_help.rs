//! Every metric has a description: in its HELP line, and in a document.

use std::collections::BTreeSet;
use std::path::Path;

use sealway_testkit::broker::Broker;
use sealway_testkit::daemon::{free_port, root};
use sealway_testkit::raw_http::Request;
use sealway_testkit::relay::{Issuer, Relay};

use crate::BINARY;

fn is_name(text: &str) -> bool {
    text.starts_with("sealway_") && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Names that a crate's sources pass to the macros of metrics.
fn recorded(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            recorded(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for call in ["counter!(", "gauge!(", "histogram!("] {
                for (at, _) in text.match_indices(call).filter(|(at, _)| !text[..*at].ends_with("describe_")) {
                    let argument = text[at + call.len()..].trim_start();
                    match argument.strip_prefix('"').and_then(|rest| rest.split('"').next()) {
                        Some(name) => drop(names.insert(name.to_owned())),
                        // The names are elsewhere in the same file.
                        None => names.extend(text.split('"').filter(|text| is_name(text)).map(str::to_owned)),
                    }
                }
            }
        }
    }
}

#[test]
fn every_metric_that_is_recorded_has_a_help_text_and_is_documented() {
    let described = [
        sealway_runtime::http::METRICS,
        sealway_gateway::METRICS,
        sealway_sessions::METRICS,
        sealway_broker::METRICS,
        sealway_relay::METRICS,
    ];
    let described: BTreeSet<_> = described.concat().iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut names = BTreeSet::new();
    for name in ["broker", "cli", "gateway", "proto", "relay", "runtime", "sessions", "tower"] {
        recorded(&root().join("crates").join(name).join("src"), &mut names);
    }
    assert!(names.len() > 60, "{names:?}");
    // `set_process_metrics` and `set_build_info` describe these themselves.
    names.retain(|name| !name.starts_with("process_") && name != "sealway_build_info");
    let without: Vec<_> = names.difference(&described).collect();
    assert!(without.is_empty(), "without a help text: {without:?}");
    let unused: Vec<_> = described.difference(&names).collect();
    assert!(unused.is_empty(), "described and not recorded: {unused:?}");
    let page = std::fs::read_to_string(root().join("docs/reference/metrics.md")).unwrap();
    let undocumented: Vec<_> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(undocumented.is_empty(), "not in docs/reference/metrics.md: {undocumented:?}");
}

/// Asserts that each metric of a page has HELP and TYPE.
fn check(page: &str) {
    let types: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    for name in types.iter().map(|line| line.split(' ').next().unwrap()) {
        assert!(page.contains(&format!("# HELP {name} ")), "{name} has no HELP:\n{page}");
    }
    for line in page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let series = line.split(['{', ' ']).next().unwrap();
        let is_typed = |line: &&str| line.split(' ').next().is_some_and(|name| series.starts_with(name));
        assert!(types.iter().any(is_typed), "{series} has no TYPE:\n{page}");
    }
}

#[test]
fn every_metric_that_the_broker_and_the_relay_serve_has_help_and_type() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let broker = Broker::start_with(BINARY, folder.path(), &["--metrics".as_ref(), address.as_ref()]).unwrap();
    let socket = broker.socket();
    let mut hash = std::process::Command::new(BINARY);
    hash.args(["broker", "hash", "--socket"]).arg(socket).args(["--profile", "Sha256", "x"]);
    assert!(hash.output().unwrap().status.success());
    let page = Request::get("/metrics").send(address.parse().unwrap()).unwrap().text();
    assert!(page.contains("crypto_request_duration_seconds_bucket{"), "{page}");
    check(&page);

    let _issuer = Issuer::new(folder.path()).unwrap();
    let relay = Relay::start(BINARY, folder.path(), &["--metrics-compat"]).unwrap();
    // With v1's names the page is shown once it is asked for.
    relay.signal(rustix::process::Signal::USR1).unwrap();
    let begun = std::time::Instant::now();
    let page = loop {
        let page = Request::get("/metrics").send(relay.address).unwrap().text();
        if page.contains("sealway_relay_channels ") && page.contains("flowersec_tunnel_channels ") {
            break page;
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{page}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    check(&page);
}
