//! Signatures of open banking: the sections of the gateway's routes, and the argument of the programs.

use serde_json::{Value, json};

use super::Keys;

const GATEWAY: &str = "https://bank.example/\"1\"";
const PEER: &str = "0014H00001lFE7dQAG";
const ANCHOR: &str = "openbanking.org.uk";

/// Returns the keys that sign and verify, as entries of the configuration.
pub(super) fn keys(keys: &Keys) -> String {
    let path = |name, extension| keys.folder.path().join(format!("{name}.{extension}.pem")).display().to_string();
    format!(
        "  gateway-sign: {{ file: '{}', alg: PS256, kid: gateway-sign }}\n  peer-sign: {{ certificate: '{}', alg: PS256, kid: peer-sign }}\n",
        path("gateway-sign", "key"),
        path("peer-sign", "cert"),
    )
}

/// Returns the sections of a route, which follow others.
pub(super) fn sections(form: &str) -> String {
    match form {
        "nested" => format!(
            ", sign: {{ jws_nested: {{ key: gateway-sign, issuer: '{GATEWAY}', audience: {PEER} }} }}, \
             verify: [{{ keys: [peer-sign], jws_nested: {{ issuer: {PEER}, audience: '{GATEWAY}' }} }}]"
        ),
        _ => format!(
            ", sign: {{ jws_detached: {{ key: gateway-sign, issuer: '{GATEWAY}', trust_anchor: {ANCHOR} }} }}, \
             verify: [{{ keys: [peer-sign], jws_detached: {{ issuer: {PEER}, trust_anchor: {ANCHOR} }} }}]"
        ),
    }
}

/// Returns the member `signature` of a program's argument.
pub(super) fn spec(form: &str, keys: &Keys) -> Value {
    let folder = keys.folder.path();
    json!({
        "form": form,
        "key": folder.join("peer-sign.key.pem"),
        "kid": "peer-sign",
        "certificate": folder.join("gateway-sign.cert.pem"),
        "peer_kid": "gateway-sign",
        "issuer": PEER,
        "audience": GATEWAY,
        "trust_anchor": ANCHOR,
    })
}
