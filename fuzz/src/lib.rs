//! Fuzz targets as plain functions over bytes, so that their corpora replay in every test run without a fuzzer.
//!
//! Inputs are text as far as possible (lines, then a body), so that a person can read and write a corpus file. The crypto
//! provider is the one without security: a tag is a checksum, so inputs reach the code after the tag check. A target panics when
//! a property of the code under it does not hold; README.md lists the properties.

pub mod answer;
pub mod bhttp;
pub mod broker_csr;
pub mod broker_files;
pub mod broker_key;
pub mod broker_keys;
pub mod broker_transit;
pub mod broker_wires;
pub mod certificate;
pub mod channel;
pub mod config;
pub mod conversation;
pub mod ehbp;
pub mod h2;
pub mod hpack;
pub mod http1;
pub mod init;
mod input;
mod json;
pub mod jws;
pub mod kek;
pub mod mle;
pub mod native;
pub mod ohttp;
pub mod one_shot;
mod party;
pub mod pkcs11;
pub mod relay;
pub mod route;
pub mod sealed;
pub mod wire;

/// A fuzz target, which takes the bytes of an input.
pub type Target = fn(&[u8]);

/// Every target by name. The file in `src/bin` and the folder in `corpus` have the same name.
pub const TARGETS: &[(&str, Target)] = &[
    ("answer-open", answer::answer_open),
    ("bhttp", bhttp::bhttp),
    ("broker-callers", broker_files::callers),
    ("broker-key-file", broker_keys::key_file),
    ("broker-key-import", broker_keys::key_import),
    ("broker-profiles", broker_files::profiles),
    ("broker-csr", broker_csr::broker_csr),
    ("broker-key", broker_key::broker_key),
    ("broker-transit", broker_transit::body),
    ("broker-wires", broker_wires::broker_wires),
    ("certificate", certificate::certificate),
    ("channel-frames", channel::frames),
    ("channel-handshake", channel::handshake),
    ("channel-records", channel::records),
    ("config", config::config),
    ("ehbp-frames", ehbp::frames),
    ("h2-client", h2::h2_client),
    ("h2-server", h2::h2_server),
    ("hpack-decode", hpack::hpack_decode),
    ("hpack-round-trip", hpack::hpack_round_trip),
    ("http1", http1::http1),
    ("init-json", init::init_json),
    ("kek-file", kek::kek_file),
    ("key-configs", one_shot::key_configs),
    ("mle-body", mle::body),
    ("mle-fields", mle::fields),
    ("mle-jws", jws::jws),
    ("mle-token", mle::token),
    ("ohttp", ohttp::ohttp),
    ("pkcs11-uri", pkcs11::pkcs11_uri),
    ("relay-attach", relay::relay_attach),
    ("routes", route::routes),
    ("wire-parse", wire::wire_parse),
    ("wire1-open", sealed::wire1_open),
    ("wire2-open", sealed::wire2_open),
    ("wire3-conversation", conversation::wire3_conversation),
    ("wire3-json", native::wire3_json),
    ("wire3-open", native::wire3_open),
    ("wire4-open", one_shot::wire4_open),
];
