//! The field-level form of Mastercard's libraries: metadata beside the values, or in headers.

use serde_json::{Value, json};

use super::cells::{Cell, Language};
use super::{Keys, run};
use crate::BINARY;
use sealway_testkit::process::{Launch, Server};

/// The settings that both sides of a cell have.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldForm {
    /// Place of the metadata, `body` or `headers`.
    place: &'static str,
    encoding: &'static str,
    /// The digest of RSA-OAEP, as the libraries' settings have it.
    digest: &'static str,
    language: Language,
}

impl FieldForm {
    /// Returns the names by what they name, as the configuration of the gateway has it and as the programs have it.
    fn names(&self) -> Vec<(&'static str, &'static str, &'static str)> {
        let [iv, key, digest, print, certificate] = match (self.place, self.language) {
            ("headers", _) => [
                "x-iv",
                "x-encrypted-key",
                "x-oaep-hashing-algorithm",
                "x-encryption-key-fingerprint",
                "x-encryption-certificate-fingerprint",
            ],
            (_, Language::Node) => ["iv", "encryptedKey", "oaepHashingAlgorithm", "publicKeyFingerprint", ""],
            // The library for Go reads these two by their names, whatever is set.
            (_, Language::Go) => ["iv", "encryptedKey", "digest", "keyFingerprint", "certificateFingerprint"],
            _ => ["myIv", "myKey", "oaepPaddingDigestAlgorithm", "encryptionKeyFingerprint", "certificateFingerprint"],
        };
        let mut names = vec![
            ("value", "value", "encryptedData"),
            ("iv", "iv", iv),
            ("encrypted_key", "encryptedKey", key),
            ("digest", "digest", digest),
            ("key_fingerprint", "keyFingerprint", print),
        ];
        // The library for Node has one fingerprint.
        if self.language != Language::Node {
            names.push(("certificate_fingerprint", "certificateFingerprint", certificate));
        }
        names
    }

    pub(super) fn spec(&self) -> Value {
        let names: serde_json::Map<_, _> =
            self.names().into_iter().map(|(_, member, name)| (member.to_owned(), name.into())).collect();
        json!({ "place": self.place, "encoding": self.encoding, "digest": self.digest, "names": names })
    }

    /// Starts a gateway with inbound routes to the service, and an outbound route to the double.
    pub(super) fn gateway(&self, cell: &Cell, keys: &Keys, service: &str, double: &str) -> Server {
        let pairs = [("$.secret", "$.card"), ("$.hidden", "$.customer.address")];
        let pairs = match (cell.shape, self.language) {
            ("whole", _) => &[("$", "$")][..],
            (_, Language::Go) => &pairs[..1],
            _ => &pairs,
        };
        let rules = |list: Vec<(&str, &str)>| {
            let rules: Vec<_> = list.iter().map(|(from, to)| format!("{{ from: '{from}', to: '{to}' }}")).collect();
            rules.join(", ")
        };
        let opened = rules(pairs.to_vec());
        let sealed = rules(pairs.iter().map(|(sealed, plain)| (*plain, *sealed)).collect());
        let names: Vec<_> = self.names().iter().map(|(what, _, name)| format!("{what}: {name}")).collect();
        let fle =
            format!("fle: {{ in: {}, encoding: {}, names: {{ {} }} }}", self.place, self.encoding, names.join(", "));
        let inbound = format!(
            "direction: inbound, caller: anybody, unauthenticated: accept, request: [{opened}], answer: [{sealed}]"
        );
        let outbound = format!("direction: outbound, plain_answers: errors, request: [{sealed}], answer: [{opened}]");
        // An error has a value at none of the paths.
        let kept = if cell.shape == "fields" { "errors" } else { "none" };
        let routes = [
            ("/sealed/", "service", format!("{inbound}, plain_answers: {kept}")),
            ("/clear/", "service", format!("{inbound}, plain_answers: errors")),
            ("/out/", "double", outbound),
        ];
        let routes = routes.map(|(prefix, upstream, mle)| {
            format!(
                "  - {{ match: {{ path_prefix: {prefix} }}, upstream: {upstream}, mle: {{ profile: mastercard-field-level, open: [gateway], seal: [{{ keys: [peer] }}], {mle}, {fle} }} }}\n"
            )
        });
        let (key, peer) = (keys.path("gateway", "key"), keys.path("peer", "pem"));
        let (key, peer, alg) = (key.display(), peer.display(), cell.alg);
        let config = format!(
            "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
mle_keys:
  gateway: {{ file: '{key}', alg: {alg}, kid_from: spki_sha256_hex }}
  peer: {{ certificate: '{peer}', alg: {alg}, kid_from: spki_sha256_hex }}
routes:
{}
upstreams: {{ service: {{ servers: ['http://{service}'] }}, double: {{ servers: ['http://{double}'] }} }}
sessions: {{ store: 'memory:' }}
",
            routes.concat()
        );
        Launch::new(BINARY, &config).start().unwrap()
    }
}

fn run_fields(
    language: Language,
    shape: &'static str,
    (place, encoding, digest): (&'static str, &'static str, &'static str),
) {
    let alg = if digest == "SHA-512" { "RSA-OAEP-512" } else { "RSA-OAEP-256" };
    let fle = Some(FieldForm { place, encoding, digest, language });
    run(Cell { profile: "mastercard-field-level", alg, fle, ..Cell::mastercard(language, shape) });
}

#[test]
fn mastercards_node_library_both_ways_field_by_field() {
    run_fields(Language::Node, "fields", ("body", "hex", "SHA-256"));
    // This library puts one value into a message with headers.
    run_fields(Language::Node, "whole", ("headers", "base64", "SHA-512"));
}

#[test]
fn mastercards_python_library_both_ways_field_by_field() {
    run_fields(Language::Python, "fields", ("body", "base64", "SHA-512"));
    run_fields(Language::Python, "whole", ("body", "hex", "SHA-256"));
    run_fields(Language::Python, "fields", ("headers", "hex", "SHA-256"));
}

#[test]
fn mastercards_java_library_both_ways_field_by_field() {
    run_fields(Language::Java, "fields", ("body", "hex", "SHA-512"));
    run_fields(Language::Java, "fields", ("headers", "base64", "SHA-256"));
}

#[test]
fn mastercards_go_library_both_ways_field_by_field() {
    run_fields(Language::Go, "fields", ("body", "hex", "SHA-256"));
    run_fields(Language::Go, "fields", ("body", "base64url", "SHA-512"));
}
