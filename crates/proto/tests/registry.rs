//! `spec/registry.toml` and this crate name the same things, and every section of the spec that the code or a vector refers to
//! exists.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sealway_proto::exchange::{Form, Rejection};
use sealway_proto::session::native::problem::{PROBLEM_URN, PROBLEMS};
use sealway_proto::wire::header::{SEALING, X_KID};
use sealway_proto::wire::stripped::{CLAIMED_PREFIXES, ORIGIN, ORIGIN_PREFIXES, WAY};
use sealway_proto::{Blame, Error};
use sealway_testkit::vectors;
use toml::{Table, Value};

/// One of each error, for checks that a list of codes does not allow. The first test finds missing ones.
const ALL: &[Error] = &[
    Error::HeaderMissing(X_KID),
    Error::HeaderInvalid(X_KID),
    Error::IdempotencyKeyShape,
    Error::NonceInvalid,
    Error::NonceReserved,
    Error::TimestampInvalid,
    Error::TimestampOutsideWindow,
    Error::KidPrefix,
    Error::SessionUnknown,
    Error::SessionExpired,
    Error::ClientMismatch,
    Error::WireMismatch,
    Error::BodyTooShort,
    Error::BodyTooLarge,
    Error::Base64Invalid,
    Error::AadMismatch,
    Error::Unsealable,
    Error::Replayed,
    Error::JsonInvalid,
    Error::FieldInvalid("ttlSec"),
    Error::PublicKeyInvalid,
    Error::AnswerMismatch,
    Error::ReservationMismatch,
    Error::SuiteRequired,
    Error::SuiteDowngraded,
    Error::KeyRetired,
    Error::KeyUntrusted,
    Error::SignatureInvalid,
    Error::Unconfirmed,
    Error::StreamTruncated,
    Error::FrameInvalid,
    Error::InnerHeadersInvalid,
    Error::Unsealed,
    Error::Policy,
    Error::Unauthenticated,
    Error::Provider,
];

/// The endpoints at which a peer receives an error.
const PLACES: [&str; 5] = ["init", "v1", "sealed", "init3", "sealed3"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn registry(section: &str) -> Table {
    let text = fs::read_to_string(root().join("spec/registry.toml")).unwrap();
    text.parse::<Table>().unwrap()[section].as_table().unwrap().clone()
}

fn set<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    names.map(str::to_owned).collect()
}

#[test]
fn the_registry_lists_every_code_and_no_other() {
    let codes = set(Error::ALL.iter().map(Error::code));
    assert_eq!(codes.len(), Error::ALL.len(), "a code twice");
    assert_eq!(set(ALL.iter().map(Error::code)), codes);
    assert_eq!(set(registry("errors").keys().map(String::as_str)), codes);
}

#[test]
fn the_registry_and_the_crate_blame_the_same_party() {
    let errors = registry("errors");
    for error in ALL {
        let blame = match error.blame() {
            Blame::Peer => "peer",
            Blame::Caller => "caller",
            Blame::Limit => "limit",
            Blame::Expiry => "expiry",
            Blame::Crypto => "crypto",
        };
        assert_eq!(errors[error.code()]["blame"].as_str(), Some(blame), "{}", error.code());
    }
}

#[test]
fn every_code_has_a_meaning_and_a_text_for_the_peer() {
    let (public, problems) = (registry("public"), registry("problems"));
    for (code, entry) in registry("errors") {
        let entry = entry.as_table().unwrap();
        assert!(entry["meaning"].as_str().unwrap().ends_with('.'), "{code}: meaning");
        let told: Vec<&String> = entry.keys().filter(|key| PLACES.contains(&key.as_str())).collect();
        let client = entry.get("client").and_then(Value::as_bool).unwrap_or(false);
        assert_ne!(told.is_empty(), !client, "{code}: a code without an answer, or a client's error with one");
        for place in told {
            let (status, error) = (&entry[place]["status"], entry[place]["error"].as_str().unwrap());
            if place.ends_with('3') {
                assert_eq!(problems[error]["status"], *status, "{code}: {error}");
            } else if place == "v1" {
                assert!(!public.contains_key(error), "{code}: /v1 names the status");
            } else {
                assert!(
                    public[error]["statuses"].as_array().unwrap().contains(status),
                    "{code}: {error} with {status}"
                );
                assert!(!entry[place].as_table().unwrap().contains_key("message"), "{code}: {place} has no message");
            }
        }
        let known = ["blame", "meaning", "remedy", "client"];
        assert!(
            entry.keys().all(|key| known.iter().chain(&PLACES).any(|known| key == known)),
            "{code}: an unknown member"
        );
    }
}

#[test]
fn a_server_answers_each_error_as_the_registry_says() {
    let (errors, mut wrong) = (registry("errors"), Vec::new());
    for error in ALL {
        let entry = errors[error.code()].as_table().unwrap();
        for (place, told) in entry.iter().filter(|(place, _)| PLACES.contains(&place.as_str())) {
            let form = match place.as_str() {
                "init" | "sealed" => Form::Plain,
                "v1" => Form::V1,
                _ => Form::Problem,
            };
            let answer = Rejection::from(*error).answer(form);
            let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
            let (name, shown) = match form {
                Form::Problem => (PROBLEM_URN.to_owned() + told["error"].as_str().unwrap(), &body["type"]),
                _ => (told["error"].as_str().unwrap().to_owned(), &body["error"]),
            };
            let is_status = Some(i64::from(answer.status)) == told["status"].as_integer();
            if !is_status || shown.as_str() != Some(name.as_str()) {
                wrong.push(format!("{}, {place}: {} {shown}", error.code(), answer.status));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_code_and_every_public_error_has_a_remedy() {
    for section in
        ["errors", "public", "problems", "client_errors", "channel_errors", "channel_client_errors", "rpc_errors"]
    {
        for (code, entry) in registry(section) {
            let remedy = entry.get("remedy").and_then(Value::as_str).unwrap_or_default();
            assert!(remedy.ends_with('.'), "{section}.{code}: remedy");
        }
    }
}

#[test]
fn the_registry_lists_every_stripped_header_and_no_other() {
    let listed = registry("stripped_headers");
    let names = [
        ("origin", ORIGIN),
        ("origin_prefixes", ORIGIN_PREFIXES),
        ("way", WAY),
        ("claimed_prefixes", CLAIMED_PREFIXES),
    ];
    assert_eq!(set(listed.keys().map(String::as_str)), set(names.iter().map(|(kind, _)| *kind)));
    for (kind, names) in names {
        assert_eq!(
            set(listed[kind].as_array().unwrap().iter().map(|name| name.as_str().unwrap())),
            set(names.iter().copied())
        );
    }
}

#[test]
fn all_that_fails_to_open_looks_alike_from_outside() {
    let errors = registry("errors");
    for code in [
        "unsealable",
        "aad_mismatch",
        "base64_invalid",
        "body_too_short",
        "client_mismatch",
        "wire_mismatch",
        "replayed",
        "nonce_reserved",
        "timestamp_outside_window",
    ] {
        assert_eq!(errors[code]["sealed"], errors["unsealable"]["sealed"], "{code}");
    }
}

#[test]
fn the_registry_lists_every_problem_and_no_other() {
    let problems = registry("problems");
    assert_eq!(set(problems.keys().map(String::as_str)), set(PROBLEMS.iter().map(|(code, ..)| *code)));
    for (code, status, title) in PROBLEMS {
        assert_eq!(problems[*code]["status"].as_integer(), Some((*status).into()), "{code}");
        assert_eq!(problems[*code]["title"].as_str(), Some(*title), "{code}");
    }
}

#[test]
fn the_registry_lists_every_header_of_the_wires_and_no_other() {
    let headers = registry("headers");
    let listed: BTreeSet<String> = headers.keys().map(|name| name.to_ascii_lowercase()).collect();
    assert_eq!(listed, set(SEALING.iter().copied()));
}

#[test]
fn every_section_that_code_or_vectors_point_to_is_in_the_spec() {
    for page in ["session", "session-3", "channel"] {
        let spec = fs::read_to_string(root().join(format!("spec/{page}.md"))).unwrap();
        let anchors: BTreeSet<String> = spec.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
        let mut files = Vec::new();
        for folder in [root().join("crates/proto/src"), vectors::folder().join(page.replace("-3", "3"))] {
            collect(&folder, &mut files);
        }
        let mut found = 0;
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for (at, pointer) in text.match_indices(&format!("{page}.md#")) {
                let name: String =
                    text[at + pointer.len()..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
                assert!(anchors.contains(&name), "{}: no section {name}", file.display());
                found += 1;
            }
        }
        assert!(found > 0);
    }
}

/// Returns the anchor of a heading, as forges make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    text.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}
