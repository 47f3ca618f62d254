//! Section `fle:` of a route's `mle:`: Mastercard's field-level form.

use http::header::{self, HeaderName};
use sealway_proto::mle::{Encoding, Fle, FleNames, Place};
use sealway_runtime::config::Problems;
use serde::{Deserialize, Serialize};

use super::{ProfileName, RawMle};
use crate::mle::{Caller, Direction, PlainAnswers};

/// `fle:` of a route's `mle:` as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFle {
    /// Spelling of bytes: `hex`, `base64` (with padding) or `base64url` (without; `BASE64` of Mastercard's library for Go).
    encoding: RawEncoding,
    /// Place of the metadata: `body`, in members beside each value, or `headers`, where one key and one IV serve all values.
    /// - default: `body`
    #[serde(rename = "in")]
    place: Option<RawPlace>,
    /// Names of members, and of headers where the metadata is there.
    /// - default: those below
    names: Option<RawNames>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum RawEncoding {
    Hex,
    Base64,
    Base64url,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum RawPlace {
    Body,
    Headers,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawNames {
    /// Member with the encrypted value, in the body always.
    /// - default: `encryptedValue`
    value: Option<String>,
    /// Name of the initialisation vector.
    /// - default: `iv`; `x-iv` among headers
    iv: Option<String>,
    /// Name of the content key in its encrypted form.
    /// - default: `encryptedKey`; `x-encrypted-key` among headers
    encrypted_key: Option<String>,
    /// Digest of RSA-OAEP, which is that of the key: `SHA256` with `RSA-OAEP-256`, `SHA512` with `RSA-OAEP-512`.
    /// - default: messages do not have it
    digest: Option<String>,
    /// Name of the recipient's key, which is its `kid`: a key's fingerprint, or a certificate's if `kid_from` says so.
    /// - default: messages do not have it
    key_fingerprint: Option<String>,
    /// SHA-256 of the recipient's certificate in hexadecimal digits: written if the key came in a certificate, and never read.
    /// - default: messages do not have it
    certificate_fingerprint: Option<String>,
}

/// The consent to messages that can have been changed on the way.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Consent {
    /// Takes messages of unknown senders.
    Accept,
}

/// Checks what a route has for the field-level form, or has without it.
pub(super) fn resolve(at: &str, raw: &RawMle, problems: &mut Problems) -> Option<Fle> {
    let is_inbound = raw.direction == Direction::Inbound;
    let is_fle = raw.profile == ProfileName::MastercardFieldLevel;
    let is_open_to_all = is_fle && is_inbound && matches!(raw.caller, Some(Caller::Anybody));
    match raw.unauthenticated {
        None if is_open_to_all => problems.add(
            format!("{at}.caller"),
            "messages of this profile can be changed on the way: expected client_certificate; or, beside caller: anybody, \
             unauthenticated: accept",
        ),
        Some(_) if !is_open_to_all => problems.add(
            format!("{at}.unauthenticated"),
            "only an inbound route of mastercard-field-level with caller: anybody takes this",
        ),
        _ => {}
    }
    if !is_fle {
        if raw.fle.is_some() {
            problems.add(format!("{at}.fle"), "only the profile mastercard-field-level takes this");
        }
        return None;
    }
    if is_inbound && !raw.refuse_replays.get() {
        problems.add(
            format!("{at}.refuse_replays"),
            "this profile needs it: an encrypted key that comes again would answer questions about paddings",
        );
    }
    let leaves_answers = raw.plain_answers == Some(PlainAnswers::All);
    for (name, rules, is_due) in [("request", &raw.request, true), ("answer", &raw.answer, !leaves_answers)] {
        if is_due && rules.as_ref().is_none_or(Vec::is_empty) {
            problems.add(format!("{at}.{name}"), "expected the places of values; from: $ and to: $ for a whole body");
        }
        for (index, rule) in rules.iter().flatten().enumerate() {
            if rule.field.is_some() {
                problems.add(format!("{at}.{name}[{index}].field"), "the name is fle.names.value in this profile");
            }
        }
    }
    let Some(raw) = &raw.fle else {
        problems.add(format!("{at}.fle"), "expected encoding, and the names of members");
        return None;
    };
    settings(&format!("{at}.fle"), raw, problems)
}

fn settings(at: &str, raw: &RawFle, problems: &mut Problems) -> Option<Fle> {
    let place = match raw.place {
        None | Some(RawPlace::Body) => Place::Body,
        Some(RawPlace::Headers) => Place::Headers,
    };
    let encoding = match raw.encoding {
        RawEncoding::Hex => Encoding::Hex,
        RawEncoding::Base64 => Encoding::Base64,
        RawEncoding::Base64url => Encoding::Base64Url,
    };
    let given = raw.names.clone().unwrap_or_default();
    let default = |member: &str, header: &str| match place {
        Place::Body => member.to_owned(),
        Place::Headers => header.to_owned(),
    };
    let names = FleNames {
        value: given.value.unwrap_or_else(|| "encryptedValue".to_owned()),
        iv: given.iv.unwrap_or_else(|| default("iv", "x-iv")),
        encrypted_key: given.encrypted_key.unwrap_or_else(|| default("encryptedKey", "x-encrypted-key")),
        digest: given.digest,
        key_fingerprint: given.key_fingerprint,
        certificate_fingerprint: given.certificate_fingerprint,
    };
    if place == Place::Headers {
        for name in names.metadata().filter(|name| !is_free(name)) {
            problems.add(format!("{at}.names"), format!("\"{name}\" is not the name of a header of one's own"));
        }
    }
    problems.take(format!("{at}.names"), Fle::new(place, encoding, names).map_err(|err| err.to_string()))
}

/// Returns whether a header has no meaning to HTTP or to the gateway, so that a message may bring it and the gateway remove it.
fn is_free(name: &str) -> bool {
    const TAKEN: [HeaderName; 14] = [
        header::ACCEPT_ENCODING,
        header::AUTHORIZATION,
        header::CONNECTION,
        header::CONTENT_ENCODING,
        header::CONTENT_LENGTH,
        header::CONTENT_TYPE,
        header::COOKIE,
        header::EXPECT,
        header::HOST,
        header::SET_COOKIE,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    HeaderName::try_from(name).is_ok_and(|name| {
        !TAKEN.contains(&name) && !name.as_str().starts_with("x-sealway-") && !name.as_str().starts_with("x-forwarded-")
    })
}
