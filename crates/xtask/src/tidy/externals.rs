//! External crates: those that proto may use, those that no crate may use, and those with one version.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;

use super::Finding;
use super::graph::Graph;

const PROTO: &str = "sealway-proto";

/// proto's direct dependencies: no I/O, no clock, no runtime.
const PROTO_MAY_USE: &[&str] = &[
    "aes-gcm",
    "aws-lc-rs",
    "base64",
    "chacha20poly1305",
    "getrandom",
    "hmac",
    "ml-dsa",
    "ml-kem",
    "p256",
    "p384",
    "prost",
    "ring",
    "serde_json",
    "sha2",
    "sha3",
    "shake",
    "snow",
    "subtle",
    "thiserror",
    "x25519-dalek",
    "zeroize",
];

/// Crates that proto may not reach even indirectly.
const PROTO_MAY_NOT_REACH: &[&str] =
    &["tokio", "hyper", "http", "mio", "rustls", "socket2", "rustix", "async-std", "chrono", "time", "tracing"];

/// Banned from the lock file, with the reason.
const NOWHERE: &[(&str, &str)] = &[
    ("openssl-sys", "it is a second TLS and crypto stack: rustls with aws-lc-rs is ours"),
    ("native-tls", "it is a second TLS stack: rustls with aws-lc-rs is ours"),
    ("serde_yaml", "it is unmaintained: serde-saphyr reads YAML, through the one load_yaml"),
];

/// Crates whose types cross crate borders, or whose globals must be unique.
const ONE_VERSION: &[&str] = &["rustls", "hyper", "tokio", "tracing", "http", "tonic"];

/// Locked versions of crates by name.
pub(super) type Lock = BTreeMap<String, BTreeSet<String>>;

/// Reads Cargo.lock, which names the crates of every platform and feature.
pub(super) fn read_lock(root: &Path) -> anyhow::Result<Lock> {
    let text = std::fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock: it is tracked")?;
    parse_lock(&text)
}

fn parse_lock(text: &str) -> anyhow::Result<Lock> {
    let table: toml::Table = text.parse().context("Cargo.lock is not TOML")?;
    let packages = table.get("package").and_then(toml::Value::as_array).context("Cargo.lock lists no package")?;
    let mut lock = Lock::new();
    for package in packages {
        let field = |name| package.get(name).and_then(toml::Value::as_str).unwrap_or_default().to_owned();
        lock.entry(field("name")).or_default().insert(field("version"));
    }
    Ok(lock)
}

pub(super) fn check(graph: &Graph, lock: &Lock) -> Vec<Finding> {
    let mut findings = Vec::new();
    match graph.crates.get(PROTO) {
        None => findings.push(Finding::new(PROTO, "this crate is missing, so its firewall cannot be checked")),
        Some(proto) => {
            for name in proto.direct.iter().filter(|name| !PROTO_MAY_USE.contains(&name.as_str())) {
                let message = format!(
                    "depends on {name}. The protocol cores may use only {}: time, randomness and bytes are arguments. A new \
                     one needs an ADR that says why it does no I/O",
                    PROTO_MAY_USE.join(", ")
                );
                findings.push(Finding::new(PROTO, message));
            }
            for name in proto.reached.iter().filter(|name| PROTO_MAY_NOT_REACH.contains(&name.as_str())) {
                let message = format!(
                    "reaches {name} through a dependency: turn off the feature that brings it (`cargo tree -i {name}`)"
                );
                findings.push(Finding::new(PROTO, message));
            }
        }
    }
    for (name, reason) in NOWHERE {
        if lock.contains_key(*name) {
            let message =
                format!("{name} is banned: {reason}. `cargo tree --target all -i {name}` shows who brings it");
            findings.push(Finding::new("Cargo.lock", message));
        }
    }
    for name in ONE_VERSION {
        let versions = lock.get(*name).map(|versions| versions.iter().map(String::as_str).collect::<Vec<_>>());
        if let Some(versions) = versions.filter(|versions| versions.len() > 1) {
            let message = format!(
                "{name} is there in versions {}: there must be one, or its types and globals are two. Move the crate that asks \
                 for the other (`cargo tree -d`)",
                versions.join(" and ")
            );
            findings.push(Finding::new("Cargo.lock", message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(packages: &[(&str, &str)]) -> Lock {
        let text: String = packages
            .iter()
            .map(|(name, version)| format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n"))
            .collect();
        parse_lock(&text).unwrap()
    }

    fn good_graph() -> Graph {
        Graph::sample(&[(PROTO, &["aws-lc-rs", "zeroize"])])
    }

    #[test]
    fn the_picks_in_one_version_pass() {
        assert_eq!(check(&good_graph(), &lock(&[("tokio", "1.0.0"), ("base64", "0.22.0"), ("base64", "0.23.0")])), []);
    }

    #[test]
    fn proto_may_not_use_a_crate_off_its_list() {
        let findings = check(&Graph::sample(&[(PROTO, &["rand"])]), &lock(&[("rand", "1.0.0")]));
        assert!(findings[0].message.starts_with("depends on rand."), "{findings:?}");
    }

    #[test]
    fn proto_may_not_reach_a_runtime_through_another_crate() {
        let mut graph = good_graph();
        graph.crates.get_mut(PROTO).unwrap().reached.insert("tokio".to_owned());
        let findings = check(&graph, &lock(&[("tokio", "1.0.0")]));
        assert!(findings[0].message.starts_with("reaches tokio"), "{findings:?}");
    }

    #[test]
    fn a_workspace_without_proto_is_found() {
        assert_eq!(check(&Graph::default(), &lock(&[("tokio", "1.0.0")])).len(), 1);
    }

    #[test]
    fn a_banned_crate_is_found_wherever_it_comes_from() {
        for (name, _) in NOWHERE {
            let findings = check(&good_graph(), &lock(&[(name, "0.9.0")]));
            assert!(findings[0].message.starts_with(name), "{findings:?}");
        }
    }

    #[test]
    fn two_versions_of_a_shared_crate_are_found() {
        for name in ONE_VERSION {
            let findings = check(&good_graph(), &lock(&[(name, "0.2.1"), (name, "1.0.0")]));
            assert!(findings[0].message.contains("0.2.1 and 1.0.0"), "{findings:?}");
        }
    }

    #[test]
    fn a_lock_file_without_packages_is_an_error() {
        assert!(parse_lock("version = 4").is_err());
    }
}
