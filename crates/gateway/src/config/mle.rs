//! Section `mle_keys:` of the configuration, and `mle:` of a route.

mod broker;
mod fle;
mod sign;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sealway_proto::mle::{Alg, Enc, FieldRule, IatUnit, JwsAlg, KidSource, Message, Profile, Scalars, Side, Wrapper};
use sealway_runtime::config::{FilePath, Flag, Problems};
use serde::{Deserialize, Serialize};

use crate::mle::{Caller, Direction, KeyAlg, KeyFiles, MlePolicy, PlainAnswers};

pub(super) use self::sign::origin_of;

/// An entry of `mle_keys:` as written: a key with `file` or `broker` opens tokens, or with `file` signs by its `alg`; one with `certificate`
/// alone seals them, and one with `secret_file` does both.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawMleKey {
    /// The private key that opens or signs: RSA of 2048 to 8192 bits, PKCS#8 or PKCS#1; or EC on P-256 for `ECDH-ES`, PKCS#8 or SEC 1; PEM
    /// or DER.
    file: Option<FilePath>,
    /// The broker that holds the private key that opens; `certificate` is then the certificate or public key of it.
    broker: Option<broker::RawMleBroker>,
    /// Beside `file` the certificate of the key, for names that are derived from one. Alone the certificate or public key of the
    /// recipient: a key that seals. Among several keys the one whose certificate began last, of those that are valid, is used.
    certificate: Option<FilePath>,
    /// A key that both sides have, in base64: 16 bytes for `A128KW`, 32 for `A256KW`, and as many as `enc` needs for `dir`. Replace one of
    /// `dir` before it has sealed 2³² messages.
    secret_file: Option<FilePath>,
    /// `RSA-OAEP-256`, `RSA-OAEP`, `RSA-OAEP-512` or `ECDH-ES` of a key that opens or seals, with `secret_file` one of `A128KW`, `A256KW` and
    /// `dir`; `RS256` or `PS256` of a key that signs, see `sign` of a route. A key has one algorithm, and a private key does not stand in
    /// two entries of which one signs and one opens.
    /// - type: an algorithm
    /// - default: `RSA-OAEP-256`
    alg: Option<String>,
    /// Content encryption of tokens that are sealed: `A256GCM`, `A192GCM`, `A128GCM`, `A128CBC-HS256`, `A192CBC-HS384`,
    /// `A256CBC-HS512`, as the profile allows.
    /// - type: an algorithm
    /// - default: `A256GCM`
    enc: Option<String>,
    /// Name of the key in tokens.
    /// - default: derived by `kid_from`
    kid: Option<String>,
    /// Derivation of the name: `spki_sha256_hex`, `certificate_sha256_hex`, `certificate_sha256_base64`, `x5t_s256`,
    /// `subject_serial_number` or `jwk_thumbprint`.
    /// - default: none
    kid_from: Option<KidFrom>,
}

impl RawMleKey {
    /// Returns the algorithm of a key that signs.
    pub(super) fn signature_alg(&self) -> Option<JwsAlg> {
        // ES256 is none that a scheme's requests are signed with.
        self.alg.as_deref().and_then(JwsAlg::parse).filter(|alg| *alg != JwsAlg::Es256)
    }

    /// Returns true if it has a private half.
    fn is_private(&self) -> bool {
        self.file.is_some() || self.broker.is_some()
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum KidFrom {
    SpkiSha256Hex,
    CertificateSha256Hex,
    CertificateSha256Base64,
    #[serde(rename = "x5t_s256")]
    X5tS256,
    SubjectSerialNumber,
    JwkThumbprint,
}

/// `mle:` of a route as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMle {
    /// `inbound`: clients send tokens, and the service gets their plaintext. `outbound`: the service's requests are sealed to the
    /// upstream, and its answers opened.
    direction: Direction,
    /// The form of messages: `mastercard-jwe`, `mastercard-field-level`, `visa`, `visa-acceptance` or `generic-jwe`.
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
    /// default), and is accepted again after that.
    refuse_replays: Flag<true>,
    /// The signature of an outbound route's requests, made over the body as it is sent. A header of its name that the service set is
    /// replaced.
    /// - default: none
    sign: Option<sign::RawSign>,
    /// Names of algorithms for `generic-jwe`.
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
    /// Unit of the header parameter `iat`, which requests then must have: `seconds` or `milliseconds`.
    /// - default: tokens have no time
    iat: Option<RawIat>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum RawIat {
    Seconds,
    Milliseconds,
}

/// Checks the section `mle_keys:`, without its files.
pub(super) fn resolve_keys(
    raw: &BTreeMap<String, RawMleKey>,
    file: Option<&Path>,
    problems: &mut Problems,
) -> BTreeMap<String, KeyFiles> {
    let keys = raw.iter().map(|(name, key)| (name.clone(), resolve_key(name, key, file, problems)));
    keys.filter_map(|(name, key)| Some((name, key?))).collect()
}

fn resolve_key(name: &str, raw: &RawMleKey, file: Option<&Path>, problems: &mut Problems) -> Option<KeyFiles> {
    let at = format!("mle_keys.{name}");
    let is_shared = raw.secret_file.is_some();
    if is_shared && (raw.file.is_some() || raw.broker.is_some() || raw.certificate.is_some()) {
        problems.add(&at, "expected secret_file alone, or file or broker and certificate");
        return None;
    }
    if raw.file.is_none() && raw.certificate.is_none() && !is_shared {
        let text = match raw.broker {
            None => {
                "expected file, for a key that opens or signs, certificate, for one that seals, or secret_file, for one that \
                 opens and seals"
            }
            Some(_) => "expected certificate: the public half of the key in the broker",
        };
        problems.add(&at, text);
        return None;
    }
    if raw.file.is_some() && raw.broker.is_some() {
        problems.add(&at, "expected one of: file, broker");
    }
    let mut path = |setting: &str, text: &Option<FilePath>| {
        text.as_ref().map(|text| problems.file(&format!("{at}.{setting}"), file, text))
    };
    let (private, certificate) = (path("file", &raw.file), path("certificate", &raw.certificate));
    let secret = path("secret_file", &raw.secret_file);
    let alg = match raw.signature_alg() {
        Some(alg) => KeyAlg::Signature(alg),
        None => KeyAlg::Encryption(alg(&format!("{at}.alg"), raw.alg.as_deref(), ", RS256, PS256", problems)?),
    };
    let due = match alg {
        KeyAlg::Encryption(Alg::A128Kw | Alg::A256Kw | Alg::Dir) if !is_shared => Some("it needs a secret_file"),
        KeyAlg::Encryption(Alg::A128Kw | Alg::A256Kw | Alg::Dir) => None,
        _ if is_shared => Some("expected A128KW, A256KW or dir"),
        KeyAlg::Encryption(Alg::RsaOaep256 | Alg::RsaOaep) => None,
        KeyAlg::Encryption(_) if raw.broker.is_some() => Some("a broker has RSA-OAEP-256 and RSA-OAEP"),
        _ => None,
    };
    if let Some(due) = due {
        let alg = raw.alg.as_deref().unwrap_or(Alg::RsaOaep256.as_str());
        problems.add(format!("{at}.alg"), format!("{alg} is not an algorithm of this kind of key: {due}"));
        return None;
    }
    let broker = raw.broker.as_ref();
    let broker = broker.map(|broker| broker::resolve(&format!("{at}.broker"), name, broker, file, problems));
    let enc = enc(&format!("{at}.enc"), raw.enc.as_deref(), problems)?;
    match alg {
        KeyAlg::Signature(alg) if raw.file.is_none() => {
            problems.add(format!("{at}.file"), format!("expected the private key that signs with {alg}"));
        }
        KeyAlg::Signature(_) if raw.enc.is_some() => problems.add(format!("{at}.enc"), "a key that signs has none"),
        KeyAlg::Encryption(_) if raw.enc.is_some() && raw.is_private() => {
            problems.add(format!("{at}.enc"), "a key that opens takes what its route's profile allows");
        }
        _ => {}
    }
    let kid = match (&raw.kid, raw.kid_from) {
        (Some(kid), None) if !kid.is_empty() && kid.len() <= 256 => KidSource::Fixed(kid.clone()),
        (Some(_), None) => {
            problems.add(format!("{at}.kid"), "expected 1 to 256 bytes");
            return None;
        }
        (None, Some(_)) if is_shared => {
            problems.add(format!("{at}.kid_from"), "a shared key has no certificate: expected kid");
            return None;
        }
        (None, Some(from)) => source(from),
        _ => {
            problems.add(&at, "expected one of: kid, kid_from");
            return None;
        }
    };
    let secret = secret.zip(raw.kid.clone());
    Some(KeyFiles { file: private, broker, secret, certificate, alg, enc, kid })
}

fn source(from: KidFrom) -> KidSource {
    match from {
        KidFrom::SpkiSha256Hex => KidSource::SpkiSha256Hex,
        KidFrom::CertificateSha256Hex => KidSource::CertificateSha256Hex,
        KidFrom::CertificateSha256Base64 => KidSource::CertificateSha256Base64,
        KidFrom::X5tS256 => KidSource::X5tS256,
        KidFrom::SubjectSerialNumber => KidSource::SubjectSerialNumber,
        KidFrom::JwkThumbprint => KidSource::JwkThumbprint,
    }
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
    })
}

/// Checks that a route has what its direction needs, and nothing that has no effect.
fn check_side(at: &str, raw: &RawMle, is_inbound: bool, problems: &mut Problems) {
    let has_seal = raw.seal.as_ref().is_some_and(|seal| !seal.is_empty());
    let has_open = raw.open.as_ref().is_some_and(|open| !open.is_empty());
    let leaves_answers = raw.plain_answers == Some(PlainAnswers::All);
    if is_inbound {
        if raw.sign.is_some() {
            problems.add(format!("{at}.sign"), "only an outbound route takes this");
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
        ("refuse_replays", raw.refuse_replays.given().is_some()),
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
                problems.add(path, format!("\"{name}\" is of another kind: it signs, and neither opens nor seals"));
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
    if raw.generic.is_some() && raw.profile != ProfileName::GenericJwe {
        problems.add(format!("{at}.generic"), "only the profile generic-jwe takes this");
    }
    let fle = fle::resolve(at, raw, problems);
    match raw.profile {
        ProfileName::MastercardJwe => Some(Profile::mastercard_jwe()),
        ProfileName::MastercardFieldLevel => fle.map(Profile::mastercard_field_level),
        ProfileName::Visa => Some(Profile::visa()),
        ProfileName::VisaAcceptance => Some(Profile::visa_acceptance()),
        ProfileName::GenericJwe => {
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
