//! Section `mle_keys:` of the configuration, and `mle:` of a route.

mod broker;
mod fle;
mod keys;
mod sign;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sealway_proto::mle::{Alg, Enc, FieldRule, IatUnit, Message, Profile, Scalars, Side, Wrapper};
use sealway_runtime::config::{Flag, Problems};
use serde::{Deserialize, Serialize};

use crate::mle::{Caller, Direction, KeyAlg, KeyFiles, MlePolicy, PlainAnswers};

pub use self::keys::RawMleKey;
pub(super) use self::keys::resolve as resolve_keys;
pub(super) use self::sign::origin_of;

/// `mle:` of a route as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMle {
    /// `inbound`: clients send tokens, and the service gets their plaintext. `outbound`: the service's requests are sealed to the
    /// upstream, and its answers opened.
    direction: Direction,
    /// The form of messages: `mastercard-jwe`, `mastercard-field-level`, `visa`, `visa-acceptance`, `generic-jwe` or
    /// `open-banking`.
    profile: ProfileName,
    /// `required`: a request in clear that has a body is rejected. `optional`: it passes in clear.
    /// - default: `required`
    accept: Option<Accept>,
    /// Senders whose tokens are opened, checked before a private key is used: `client_certificate`, verified by the listener; or `anybody`, for
    /// a token says who can read it and never who wrote it.
    /// - default: `client_certificate`
    caller: Option<Caller>,
    /// `accept`: consents to messages of `mastercard-field-level` that can be changed on the way, which `caller: anybody` needs
    /// there.
    /// - default: none
    unauthenticated: Option<fle::Consent>,
    /// Names of the keys that open messages, all of them live.
    /// - default: none
    open: Option<Vec<String>>,
    /// Keys of the recipients of sealed messages, by the subject of their certificates.
    /// - default: none
    seal: Option<Vec<RawRecipient>>,
    /// Places of tokens in requests. A request that has a value at none of them is rejected.
    /// - default: the whole body is one token, in the member of the profile
    request: Option<Vec<RawFieldRule>>,
    /// Places of tokens in answers. An answer that has a value at none of them is rejected, unless `plain_answers` allows it.
    /// - default: the whole body is one token, in the member of the profile
    answer: Option<Vec<RawFieldRule>>,
    /// Values at places that are neither objects nor arrays: `refuse`, `raw` (strings without quotes, as Java, Node and Python
    /// have them) or `json` (strings with quotes, as Go has them).
    /// - default: `refuse`
    scalars: Option<RawScalars>,
    /// Answers that pass in clear: `none`, `errors` (a status of 400 and more) or `all`.
    plain_answers: Option<PlainAnswers>,
    /// Rejects a token that came before. A token without a time is remembered as long as a nonce (`replay.nonce_ttl_ms`, ten minutes by
    /// default), and is accepted again after that. An outbound route with `verify` rejects a signed answer that came before.
    refuse_replays: Flag<true>,
    /// The signature of messages that are sealed: an outbound route's requests, and with `open-banking`, which needs it, an inbound route's
    /// answers. It is made over the body as it is sent, or with `jws_nested` over the plaintext. A header of its name that the service set is
    /// replaced.
    /// - default: none
    sign: Option<sign::RawSign>,
    /// Signers of the messages that are opened, by the subject of their certificates: for `open-banking`, which needs it.
    /// - default: none
    verify: Option<Vec<verify::RawVerifier>>,
    /// Names of algorithms for `generic-jwe` and `open-banking`.
    /// - default: `RSA-OAEP-256` with `A256GCM`
    generic: Option<RawGeneric>,
    /// Names and spelling of `mastercard-field-level`, which needs it. `from` in rules that open, and `to` in those that seal, is the
    /// object that holds the value.
    /// - default: none
    fle: Option<fle::RawFle>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum ProfileName {
    #[serde(rename = "mastercard-jwe")]
    MastercardJwe,
    #[serde(rename = "mastercard-field-level")]
    MastercardFieldLevel,
    #[serde(rename = "visa")]
    Visa,
    #[serde(rename = "visa-acceptance")]
    VisaAcceptance,
    #[serde(rename = "generic-jwe")]
    GenericJwe,
    #[serde(rename = "open-banking")]
    OpenBanking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Accept {
    Required,
    Optional,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum RawScalars {
    Refuse,
    Raw,
    Json,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawRecipient {
    /// Subject of the caller's certificate, as RFC 4514 writes it: `CN=acme,O=Acme`.
    /// - default: every caller
    caller: Option<String>,
    /// Names of the keys that seal to it.
    keys: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawFieldRule {
    /// Path of what is taken: the token where messages are opened, the value where they are sealed. `$` is the whole body; `$.a.b`,
    /// and one `[*]` for the elements of an array.
    from: String,
    /// Path of what takes its place.
    to: String,
    /// Member of `to` that becomes the token, where messages are sealed.
    /// - default: the token is `to` itself
    field: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawGeneric {
    /// Names of `alg`: `RSA-OAEP-256`, `RSA-OAEP`, `RSA-OAEP-512`, `ECDH-ES`, `A128KW`, `A256KW`, `dir`.
    /// - default: `[RSA-OAEP-256]`
    algs: Option<Vec<String>>,
    /// Names of `enc`: `A256GCM`, `A192GCM`, `A128GCM`, `A128CBC-HS256`, `A192CBC-HS384`, `A256CBC-HS512`.
    /// - default: `[A256GCM]`
    encs: Option<Vec<String>>,
    /// Unit of the header parameter `iat`, which requests then must have: `seconds` or `milliseconds`. Not for `open-banking`, whose
    /// signatures have a time.
    /// - default: tokens have no time
    iat: Option<RawIat>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum RawIat {
    Seconds,
    Milliseconds,
}

fn alg(at: &str, name: Option<&str>, also: &str, problems: &mut Problems) -> Option<Alg> {
    let Some(name) = name else { return Some(Alg::RsaOaep256) };
    let names = || Alg::ALL.iter().map(|alg| alg.as_str()).collect::<Vec<_>>().join(", ");
    problems.take(at, Alg::parse(name).ok_or_else(|| format!("\"{name}\" is none of {}{also}", names())))
}

fn enc(at: &str, name: Option<&str>, problems: &mut Problems) -> Option<Enc> {
    let Some(name) = name else { return Some(Enc::A256Gcm) };
    let names = || Enc::ALL.iter().map(|enc| enc.as_str()).collect::<Vec<_>>().join(", ");
    problems.take(at, Enc::parse(name).ok_or_else(|| format!("\"{name}\" is none of {}", names())))
}

/// Checks `mle:` of a route; `at` is its path.
pub(super) fn resolve(
    at: &str,
    raw: &RawMle,
    keys: &BTreeMap<String, RawMleKey>,
    file: Option<&Path>,
    problems: &mut Problems,
) -> Option<MlePolicy> {
    let is_inbound = raw.direction == Direction::Inbound;
    let profile = profile(at, raw, problems);
    let open = raw.open.clone().unwrap_or_default();
    check_names(&format!("{at}.open"), &open, keys, true, problems);
    let mut callers = BTreeSet::new();
    let mut seal = Vec::new();
    for (index, recipient) in raw.seal.iter().flatten().enumerate() {
        let path = format!("{at}.seal[{index}]");
        check_names(&format!("{path}.keys"), &recipient.keys, keys, false, problems);
        if recipient.keys.is_empty() {
            problems.add(format!("{path}.keys"), "expected at least one key");
        }
        if !callers.insert(&recipient.caller) {
            problems.add(format!("{path}.caller"), "it stands twice");
        }
        seal.push((recipient.caller.clone(), recipient.keys.clone()));
    }
    check_side(at, raw, is_inbound, problems);
    let sign = raw.sign.as_ref().and_then(|sign| sign::resolve(&format!("{at}.sign"), sign, keys, file, problems));
    let verify = verify::resolve(at, raw, keys, problems);
    verify::check_signatures(at, raw, sign.as_ref(), problems);
    let seals = if is_inbound { "answer" } else { "request" };
    let mut rules = |name: &str, raw: &Option<Vec<RawFieldRule>>| {
        let seals_here = name == seals;
        let rules = raw.iter().flatten().enumerate().filter_map(|(index, rule)| {
            let path = format!("{at}.{name}[{index}]");
            if !seals_here && rule.field.is_some() {
                problems.add(format!("{path}.field"), format!("only where messages are sealed: in {seals}"));
            }
            let checked = match profile.as_ref().and_then(Profile::fle) {
                Some(fle) if seals_here => fle.sealing_rule(&rule.from, &rule.to),
                Some(fle) => fle.opening_rule(&rule.from, &rule.to),
                None => FieldRule::new(&rule.from, &rule.to, rule.field.as_deref()),
            };
            problems.take(path, checked.map_err(|err| err.to_string()))
        });
        rules.collect::<Vec<_>>()
    };
    let (request, answer) = (rules("request", &raw.request), rules("answer", &raw.answer));
    Some(MlePolicy {
        direction: raw.direction,
        profile: profile?,
        is_required: raw.accept != Some(Accept::Optional),
        caller: raw.caller.unwrap_or(Caller::ClientCertificate),
        open,
        seal,
        request,
        answer,
        scalars: match raw.scalars.unwrap_or(RawScalars::Refuse) {
            RawScalars::Refuse => Scalars::Refuse,
            RawScalars::Raw => Scalars::Raw,
            RawScalars::Json => Scalars::Json,
        },
        plain_answers: raw.plain_answers.unwrap_or_default(),
        refuses_replays: raw.refuse_replays.get(),
        sign,
        verify,
    })
}

/// Checks that a route has what its direction needs, and nothing that has no effect.
fn check_side(at: &str, raw: &RawMle, is_inbound: bool, problems: &mut Problems) {
    let has_seal = raw.seal.as_ref().is_some_and(|seal| !seal.is_empty());
    let has_open = raw.open.as_ref().is_some_and(|open| !open.is_empty());
    let leaves_answers = raw.plain_answers == Some(PlainAnswers::All);
    if is_inbound {
        if raw.sign.is_some() && raw.profile != ProfileName::OpenBanking {
            problems.add(format!("{at}.sign"), "only an outbound route takes this, or one of open-banking");
        }
        if !has_open {
            problems.add(format!("{at}.open"), "expected at least one key that opens requests");
        }
        if !has_seal && !leaves_answers {
            problems
                .add(format!("{at}.seal"), "expected keys for answers; or plain_answers: all, to leave them in clear");
        }
        return;
    }
    if !has_seal {
        problems.add(format!("{at}.seal"), "expected the keys of the upstream");
    }
    if raw.seal.iter().flatten().any(|recipient| recipient.caller.is_some()) {
        problems.add(format!("{at}.seal"), "an outbound route has one recipient, without a caller");
    }
    if !has_open && !leaves_answers {
        problems.add(format!("{at}.open"), "expected keys for answers; or plain_answers: all, if they come in clear");
    }
    for (name, is_given) in [
        ("accept", raw.accept.is_some()),
        ("caller", raw.caller.is_some()),
        ("refuse_replays", raw.refuse_replays.given().is_some() && raw.verify.is_none()),
    ] {
        if is_given {
            problems.add(format!("{at}.{name}"), "only an inbound route takes this");
        }
    }
}

/// Checks that keys exist and are of the kind that is due.
fn check_names(at: &str, names: &[String], keys: &BTreeMap<String, RawMleKey>, opens: bool, problems: &mut Problems) {
    for (index, name) in names.iter().enumerate() {
        let path = format!("{at}[{index}]");
        match keys.get(name) {
            None => problems.add(path, format!("no key of mle_keys is named \"{name}\"")),
            Some(key) if key.signature_alg().is_some() => {
                problems.add(
                    path,
                    format!("\"{name}\" is of another kind: it signs or verifies, and neither opens nor seals"),
                );
            }
            Some(key) if key.secret_file.is_none() && key.is_private() != opens => {
                let due = if opens {
                    "a key that opens has a file or a broker"
                } else {
                    "a key that seals has no private key"
                };
                problems.add(path, format!("\"{name}\" is of the other kind: {due}"));
            }
            Some(_) if names.iter().take(index).any(|other| other == name) => problems.add(path, "it stands twice"),
            Some(_) => {}
        }
    }
}

fn profile(at: &str, raw: &RawMle, problems: &mut Problems) -> Option<Profile> {
    let is_open_banking = raw.profile == ProfileName::OpenBanking;
    if raw.generic.is_some() && raw.profile != ProfileName::GenericJwe && !is_open_banking {
        problems.add(format!("{at}.generic"), "only the profiles generic-jwe and open-banking take this");
    }
    let fle = fle::resolve(at, raw, problems);
    match raw.profile {
        ProfileName::MastercardJwe => Some(Profile::mastercard_jwe()),
        ProfileName::MastercardFieldLevel => fle.map(Profile::mastercard_field_level),
        ProfileName::Visa => Some(Profile::visa()),
        ProfileName::VisaAcceptance => Some(Profile::visa_acceptance()),
        ProfileName::GenericJwe | ProfileName::OpenBanking => {
            let generic = raw.generic.clone().unwrap_or_default();
            let of = |names: Option<Vec<String>>, default: &str| names.unwrap_or_else(|| vec![default.to_owned()]);
            let algs = of(generic.algs, "RSA-OAEP-256");
            let encs = of(generic.encs, "A256GCM");
            if algs.is_empty() || encs.is_empty() {
                problems.add(format!("{at}.generic"), "an empty list allows nothing");
            }
            let algs: Vec<Alg> =
                algs.iter().filter_map(|name| alg(&format!("{at}.generic.algs"), Some(name), "", problems)).collect();
            let encs: Vec<Enc> =
                encs.iter().filter_map(|name| enc(&format!("{at}.generic.encs"), Some(name), problems)).collect();
            let side = Side::new(&algs, &encs, Wrapper::Bare);
            if is_open_banking {
                if generic.iat.is_some() {
                    problems.add(format!("{at}.generic.iat"), "the signatures of open-banking have a time");
                }
                return Some(Profile::open_banking(side));
            }
            let iat = generic.iat.map(|unit| match unit {
                RawIat::Seconds => IatUnit::Seconds,
                RawIat::Milliseconds => IatUnit::Milliseconds,
            });
            let request = if iat.is_some() { side.clone().with_iat() } else { side.clone() };
            Some(Profile::generic(request, side, iat))
        }
    }
}

/// Checks that the keys of a route seal with algorithms that its profile allows.
pub(super) fn check_algorithms(
    at: &str,
    policy: &MlePolicy,
    keys: &BTreeMap<String, KeyFiles>,
    problems: &mut Problems,
) {
    let message = if policy.direction == Direction::Inbound { Message::Answer } else { Message::Request };
    for (index, (_, names)) in policy.seal.iter().enumerate() {
        for key in names.iter().filter_map(|name| keys.get(name)) {
            let KeyAlg::Encryption(alg) = key.alg else { continue };
            if !policy.profile.allows(message, alg, key.enc) {
                let profile = policy.profile.name();
                let with = if policy.profile.fle().is_some() { String::new() } else { format!(" with {}", key.enc) };
                problems.add(
                    format!("{at}.seal[{index}].keys"),
                    format!("the profile {profile} does not allow {alg}{with}"),
                );
            }
        }
    }
}
