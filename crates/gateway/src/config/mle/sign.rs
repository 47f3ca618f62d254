//! Section `sign:` of a route's `mle:`.

use std::collections::BTreeMap;
use std::path::Path;

use sealway_proto::mle::JwsAlg;
use sealway_proto::mle::sign::jws::Signer;
use sealway_proto::mle::sign::{Parties, WebOrigin};
use sealway_runtime::config::{FilePath, Problems};
use serde::{Deserialize, Serialize};

use super::RawMleKey;
use crate::mle::{Scheme, SignPolicy};
use crate::upstream::ServerAddress;

/// Longest text that a signature names, in bytes.
const TEXT_LEN_MAX: usize = 256;

/// The signature of the messages that a route seals: one scheme of them.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSign {
    /// Mastercard's OAuth 1.0a, in `Authorization`.
    /// - default: none
    oauth1: Option<RawOAuth1>,
    /// Visa's HMAC, in `x-pay-token`.
    /// - default: none
    x_pay_token: Option<RawXPayToken>,
    /// The JWT of Visa Acceptance (Cybersource), in `Authorization`.
    /// - default: none
    visa_acceptance_jwt: Option<RawAcceptance>,
    /// The detached JWS of open banking, in `x-jws-signature`.
    /// - default: none
    jws_detached: Option<RawOpenBanking>,
    /// A JWT of the plaintext, inside of the token: for the profile `open-banking`. The plaintext is a JSON object, and gets the claims
    /// `iss`, `aud`, `sub`, `iat`, `exp` (five minutes) and `jti`.
    /// - default: none
    jws_nested: Option<RawClaims>,
    /// URL of the scheme's server as the signature names it, without a path: `https://api.example.com`. For `oauth1` and
    /// `visa_acceptance_jwt`.
    /// - default: the server of the upstream
    origin: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawOAuth1 {
    /// The consumer key of the project: a file of one line.
    consumer_key_file: FilePath,
    /// Name of the key that signs, with `alg: RS256` (`RSA-SHA256`) or `alg: PS256` (`RSA-PSS`).
    key: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawXPayToken {
    /// The shared secret that goes with the API key: a file of one line. The service puts the API key into the query.
    shared_secret_file: FilePath,
    /// Start of the path that the token leaves out, such as `/cybersource/`. Visa says for each product which part that is.
    /// - default: `/`
    path_prefix: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawAcceptance {
    /// Id of the merchant, the issuer of the token.
    merchant_id: String,
    /// Name of the key that signs, with `alg: RS256` and `kid_from: subject_serial_number`.
    key: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawOpenBanking {
    /// Name of the key that signs, with `alg: PS256`.
    key: String,
    /// The signer: the subject of its certificate, or its organisation's id, as the directory writes it.
    issuer: String,
    /// Domain of the directory that vouches for the key.
    trust_anchor: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawClaims {
    /// Name of the key that signs, with `alg: PS256`.
    key: String,
    /// The signer, `iss`: its id in the directory.
    issuer: String,
    /// The recipient, `aud`, as it names itself.
    audience: String,
    /// The subject of the tokens, `sub`.
    /// - default: none
    subject: Option<String>,
}

/// Checks the section `sign:`; `at` is its path.
pub(super) fn resolve(
    at: &str,
    raw: &RawSign,
    keys: &BTreeMap<String, RawMleKey>,
    file: Option<&Path>,
    problems: &mut Problems,
) -> Option<SignPolicy> {
    let mut schemes = Vec::new();
    if let Some(raw) = &raw.oauth1 {
        check_key(&format!("{at}.oauth1.key"), &raw.key, &[JwsAlg::Rs256, JwsAlg::Ps256], keys, problems);
        let consumer_key_file = problems.file(&format!("{at}.oauth1.consumer_key_file"), file, &raw.consumer_key_file);
        schemes.push(Scheme::OAuth1 { consumer_key_file, key: raw.key.clone() });
    }
    if let Some(raw) = &raw.x_pay_token {
        let secret = format!("{at}.x_pay_token.shared_secret_file");
        let path_prefix = raw.path_prefix.clone().unwrap_or_else(|| "/".to_owned());
        let is_path = path_prefix.is_empty() || path_prefix.starts_with('/');
        if !is_path || path_prefix.len() > TEXT_LEN_MAX || path_prefix.contains(['?', '#']) {
            let why = format!("expected the start of a path, such as /cybersource/, of at most {TEXT_LEN_MAX} bytes");
            problems.add(format!("{at}.x_pay_token.path_prefix"), why);
        }
        let shared_secret_file = problems.file(&secret, file, &raw.shared_secret_file);
        schemes.push(Scheme::XPayToken { shared_secret_file, path_prefix });
    }
    if let Some(raw) = &raw.visa_acceptance_jwt {
        let at = format!("{at}.visa_acceptance_jwt");
        check_key(&format!("{at}.key"), &raw.key, &[JwsAlg::Rs256], keys, problems);
        check_text(&format!("{at}.merchant_id"), &raw.merchant_id, problems);
        schemes.push(Scheme::VisaAcceptanceJwt { merchant_id: raw.merchant_id.clone(), key: raw.key.clone() });
    }
    if let Some(raw) = &raw.jws_detached {
        let at = format!("{at}.jws_detached");
        check_key(&format!("{at}.key"), &raw.key, &[JwsAlg::Ps256], keys, problems);
        check_text(&format!("{at}.issuer"), &raw.issuer, problems);
        check_text(&format!("{at}.trust_anchor"), &raw.trust_anchor, problems);
        let signer = Signer { issuer: raw.issuer.clone(), trust_anchor: raw.trust_anchor.clone() };
        schemes.push(Scheme::JwsDetached { key: raw.key.clone(), signer });
    }
    if let Some(raw) = &raw.jws_nested {
        let at = format!("{at}.jws_nested");
        check_key(&format!("{at}.key"), &raw.key, &[JwsAlg::Ps256], keys, problems);
        let parties = parties(&at, &raw.issuer, &raw.audience, raw.subject.as_deref(), problems);
        schemes.push(Scheme::JwsNested { key: raw.key.clone(), parties });
    }
    let origin = raw.origin.as_deref().and_then(|text| origin(&format!("{at}.origin"), text, problems));
    let Ok([scheme]) = <[Scheme; 1]>::try_from(schemes) else {
        problems.add(at, "expected one of: oauth1, x_pay_token, visa_acceptance_jwt, jws_detached, jws_nested");
        return None;
    };
    if raw.origin.is_some() && !scheme.covers_host() {
        problems.add(format!("{at}.origin"), format!("the signature of {} does not name the server", scheme.name()));
    }
    Some(SignPolicy { scheme, origin })
}

fn check_key(at: &str, name: &str, due: &[JwsAlg], keys: &BTreeMap<String, RawMleKey>, problems: &mut Problems) {
    match keys.get(name) {
        None => problems.add(at, format!("no key of mle_keys is named \"{name}\"")),
        Some(key) if key.is_private() && key.signature_alg().is_some_and(|alg| due.contains(&alg)) => {}
        Some(_) => {
            let due = due.iter().map(|alg| format!("alg: {alg}")).collect::<Vec<_>>().join(" or ");
            problems.add(at, format!("\"{name}\" is of another kind: this signature needs a private key with {due}"));
        }
    }
}

/// Checks the parties of a nested token; `at` is the path of their section.
pub(super) fn parties(
    at: &str,
    issuer: &str,
    audience: &str,
    subject: Option<&str>,
    problems: &mut Problems,
) -> Parties {
    for (name, text) in [("issuer", Some(issuer)), ("audience", Some(audience)), ("subject", subject)] {
        text.into_iter().for_each(|text| check_text(&format!("{at}.{name}"), text, problems));
    }
    Parties { issuer: issuer.to_owned(), audience: audience.to_owned(), subject: subject.map(str::to_owned) }
}

pub(super) fn check_text(at: &str, text: &str, problems: &mut Problems) {
    if text.is_empty() || text.len() > TEXT_LEN_MAX || text.chars().any(char::is_control) {
        problems.add(at, format!("expected 1 to {TEXT_LEN_MAX} bytes without control characters"));
    }
}

/// Returns the scheme and the host of a server; `None` for a socket, which has none.
pub(in crate::config) fn origin_of(server: &ServerAddress) -> Option<WebOrigin> {
    server.url_authority().map(|authority| WebOrigin::new(server.is_tls(), authority))
}

/// Reads the URL of a server, which has the same form as a server of an upstream.
fn origin(at: &str, text: &str, problems: &mut Problems) -> Option<WebOrigin> {
    let origin = ServerAddress::parse(text).ok().and_then(|address| origin_of(&address));
    let expected = || format!("\"{text}\" is no server, such as https://api.example.com");
    problems.take(at, origin.ok_or_else(expected))
}
