//! Section `verify:` of a route's `mle:`: the signers whose messages are taken.

use std::collections::{BTreeMap, BTreeSet};

use sealway_proto::mle::JwsAlg;
use sealway_proto::mle::sign::jws::Signer;
use sealway_runtime::config::Problems;
use serde::{Deserialize, Serialize};

use super::sign::{check_text, parties};
use super::{Accept, ProfileName, RawMle, RawMleKey};
use crate::mle::{Direction, Evidence, Scheme, SignPolicy, VerifyPolicy};

/// An entry of `verify:` of a route's `mle:` as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawVerifier {
    /// Subject of the caller's certificate, as RFC 4514 writes it: `CN=acme,O=Acme`.
    /// - default: every caller
    caller: Option<String>,
    /// Names of the keys that verify: those with `certificate` alone and `alg: PS256` or `alg: ES256`. A signature names one by its `kid`.
    keys: Vec<String>,
    /// The signature in `x-jws-signature`, over the body as it comes. It is verified before a private key is used.
    /// - default: none
    jws_detached: Option<RawSigner>,
    /// The signature inside of each token.
    /// - default: none
    jws_nested: Option<RawParties>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawSigner {
    /// The signer: the subject of its certificate, or its organisation's id, as the directory writes it.
    issuer: String,
    /// Domain of the directory that vouches for the key.
    trust_anchor: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawParties {
    /// The signer as it names itself, `iss`.
    issuer: String,
    /// The name of this side in `aud`.
    audience: String,
    /// The subject of the tokens, `sub`.
    /// - default: any
    subject: Option<String>,
}

/// Checks the section; `at` is the path of `mle`.
pub(super) fn resolve(
    at: &str,
    raw: &RawMle,
    keys: &BTreeMap<String, RawMleKey>,
    problems: &mut Problems,
) -> Vec<VerifyPolicy> {
    let mut callers = BTreeSet::new();
    let mut found = Vec::new();
    for (index, verifier) in raw.verify.iter().flatten().enumerate() {
        let at = format!("{at}.verify[{index}]");
        if verifier.keys.is_empty() {
            problems.add(format!("{at}.keys"), "expected at least one key");
        }
        for (index, name) in verifier.keys.iter().enumerate() {
            let at = format!("{at}.keys[{index}]");
            if verifier.keys.iter().take(index).any(|other| other == name) {
                problems.add(&at, "it stands twice");
            }
            check_key(&at, name, keys, problems);
        }
        if !callers.insert(&verifier.caller) {
            problems.add(format!("{at}.caller"), "it stands twice");
        }
        if verifier.caller.is_some() && raw.direction == Direction::Outbound {
            problems.add(format!("{at}.caller"), "an outbound route has one signer, without a caller");
        }
        let expected = match (&verifier.jws_detached, &verifier.jws_nested) {
            (Some(raw), None) => {
                let at = format!("{at}.jws_detached");
                check_text(&format!("{at}.issuer"), &raw.issuer, problems);
                check_text(&format!("{at}.trust_anchor"), &raw.trust_anchor, problems);
                Evidence::Detached(Signer { issuer: raw.issuer.clone(), trust_anchor: raw.trust_anchor.clone() })
            }
            (None, Some(names)) => {
                let at = format!("{at}.jws_nested");
                if raw.accept == Some(Accept::Optional) {
                    problems.add(&at, "a request in clear has no such signature: expected accept: required");
                }
                let subject = names.subject.as_deref();
                Evidence::Nested(parties(&at, &names.issuer, &names.audience, subject, problems))
            }
            _ => {
                problems.add(&at, "expected one of: jws_detached, jws_nested");
                continue;
            }
        };
        found.push(VerifyPolicy { caller: verifier.caller.clone(), keys: verifier.keys.clone(), expected });
    }
    found
}

fn check_key(at: &str, name: &str, keys: &BTreeMap<String, RawMleKey>, problems: &mut Problems) {
    match keys.get(name) {
        None => problems.add(at, format!("no key of mle_keys is named \"{name}\"")),
        Some(key) if !key.is_private() && matches!(key.signature_alg(), Some(JwsAlg::Ps256 | JwsAlg::Es256)) => {}
        Some(_) => {
            let why = format!("\"{name}\" is of another kind: expected a certificate with alg: PS256 or alg: ES256");
            problems.add(at, why);
        }
    }
}

/// Checks that a route of open banking signs what it seals and verifies what it opens, and that another one does neither.
pub(super) fn check_signatures(at: &str, raw: &RawMle, sign: Option<&SignPolicy>, problems: &mut Problems) {
    let is_nested = sign.is_some_and(|sign| matches!(sign.scheme, Scheme::JwsNested { .. }));
    let is_detached = sign.is_some_and(|sign| matches!(sign.scheme, Scheme::JwsDetached { .. }));
    if raw.profile != ProfileName::OpenBanking {
        if raw.verify.is_some() {
            problems.add(format!("{at}.verify"), "only the profile open-banking takes this");
        }
        if is_nested {
            problems.add(format!("{at}.sign.jws_nested"), "only the profile open-banking takes this");
        }
        return;
    }
    if raw.seal.as_ref().is_some_and(|seal| !seal.is_empty()) && raw.sign.is_none() {
        problems.add(format!("{at}.sign"), "messages of open-banking are signed: expected jws_detached or jws_nested");
    }
    if sign.is_some() && !is_nested && !is_detached {
        problems.add(format!("{at}.sign"), "messages of open-banking are signed with jws_detached or jws_nested");
    }
    if raw.open.as_ref().is_some_and(|open| !open.is_empty()) && raw.verify.as_ref().is_none_or(Vec::is_empty) {
        problems.add(format!("{at}.verify"), "messages of open-banking are signed: expected the keys of their signers");
    }
}
