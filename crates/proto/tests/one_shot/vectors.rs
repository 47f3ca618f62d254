//! Every scenario of `vectors/one-shot` that has a server's half or a key document, listed by folder. The client's half of answers is
//! played by the SDKs, and by the tests of the Rust client with a real gateway.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealway_proto::crypto::Provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::exchange::{Exchange, readmit};
use sealway_proto::hpke::{Kem, PrivateKey};
use sealway_proto::one_shot::{ClientPsk, KeyConfig, KeyDocument, seal};
use sealway_proto::session::native::{KeySetFault, RequestLine};
use sealway_proto::wire::{ReplayPolicy, base64};
use sealway_testkit::native_vectors::{HashedBytes, LongBytes};
use sealway_testkit::one_shot_vectors::{
    DerivedPsk, OneShotDocument, OneShotDocumentRefused, OneShotRequest, OneShotRequestRefused, OneShotScenario,
    TimedKey, load_one_shot,
};
use sealway_testkit::vectors::Hex;

use super::{Headers, InnerHeaders, Key, open, provider, release, write};

fn kem(name: &str) -> Kem {
    match name {
        "X-Wing" => Kem::XWing,
        "MLKEM768-P256" => Kem::MlKem768P256,
        "X25519" => Kem::X25519,
        "P-256" => Kem::P256,
        other => panic!("no KEM is called {other}"),
    }
}

/// Returns a server's key, whose public half has to be the one of its configuration.
fn key(name: &str, config: &Hex, private: &Hex, not_after_ms: u64) -> Arc<Key> {
    let private = PrivateKey::from_bytes(provider(), kem(name), &private.0).unwrap();
    let config = KeyConfig::decode(provider(), &config.0).unwrap();
    assert_eq!(private.public_key().as_bytes(), config.public_key().as_bytes(), "{name}");
    let hash = config.hash(provider());
    Arc::new(Key { private, config, hash, not_after_ms })
}

fn policy(window_ms: u64) -> ReplayPolicy {
    ReplayPolicy::new(window_ms, 0)
}

fn headers_of(list: &[(String, String)]) -> Headers {
    list.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect()
}

fn inner_of(list: &[(String, LongBytes)]) -> InnerHeaders {
    let mut inner = InnerHeaders::new();
    for (name, value) in list {
        inner.push(name, &value.to_vec()).unwrap();
    }
    inner
}

fn request(v: &OneShotRequest) {
    let key = key(&v.key.kem, &v.key.config_hex, &v.key.private_hex, u64::MAX);
    let line = RequestLine { method: &v.method, target: &v.path };
    let psk = v.psk.as_ref().map(|psk| (psk.id.clone(), psk.psk_hex.array::<32>()));
    let headers = headers_of(&v.sealed.headers);
    let (inner, frames) = (inner_of(&v.inner), v.frames.iter().map(LongBytes::to_vec).collect::<Vec<_>>());
    // A hybrid takes the randomness of the scenario; a curve makes its ephemeral key of other input, so it is only opened.
    let mut made = None;
    if matches!(kem(&v.key.kem), Kem::XWing | Kem::MlKem768P256) {
        let client = psk.as_ref().map(|(id, key)| ClientPsk { id, key });
        let stamp = (v.stamp.as_str(), v.nonce.as_str());
        let content_type = v.content_type.as_deref().unwrap_or_default();
        let randomness = Some(v.randomness_hex.0.as_slice());
        let mut call = seal(provider(), &key.config, client, line, content_type, stamp, randomness).unwrap();
        assert!(call.prefix.ends_with(&v.enc_hex.0));
        let mut stream = call.prefix.clone();
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        write(&mut call.sealer, &inner, &frames, &mut stream);
        made = Some(stream);
    }
    let in_header = headers.iter().find(|(name, _)| name == "x-sealed").map(|(_, value)| value.clone());
    let body = match (&v.sealed.body, made) {
        (HashedBytes::Hashed { sha256_hex, count }, Some(stream)) => {
            assert_eq!((Provider::sha256(provider(), &[&stream]), stream.len()), (sha256_hex.array(), *count));
            stream
        }
        // Too long to stand in the scenario, and only a client that takes its randomness makes it.
        (HashedBytes::Hashed { .. }, None) => return,
        (HashedBytes::Bytes(bytes), made) => {
            let stream =
                in_header.as_ref().map_or_else(|| bytes.to_vec(), |text| base64::decode(text.as_bytes()).unwrap());
            assert!(made.is_none_or(|made| made == stream), "another stream");
            bytes.to_vec()
        }
    };
    let secret = psk.as_ref().map_or([0; 32], |(_, key)| *key);
    for chunk in [1, 7, 1 << 20] {
        let (opened, rest, error) = open(&key, secret, line, (&headers, &body), chunk).unwrap();
        assert_eq!(error, None);
        let session = opened.problem_seal();
        assert!(session.is_some());
        let (claim, sealed) = (opened.claim().key(), opened.claim().is_sealed());
        assert_eq!((claim.0, sealed), (v.claim.key_hex.array(), v.claim.sealed));
        let stamp_ms = opened.claim().stamp_ms();
        assert_eq!(stamp_ms, v.claim.stamp_ms);
        let claim = *opened.claim();
        let plain = release(opened);
        let readmitted = readmit(Some(plain.reply.session()), &claim, v.now_ms, &policy(v.window_ms)).unwrap();
        assert_eq!(readmitted.expires_ms(), v.claim.expires_ms);
        assert_eq!(plain.inner.as_ref(), Some(&inner));
        assert_eq!([plain.first.as_slice(), &rest].concat(), frames.concat());
    }
}

fn served(key: &TimedKey, kid: &str, now_ms: u64) -> Option<Arc<Key>> {
    let config = KeyConfig::decode(provider(), &key.config_hex.0).unwrap();
    let is_accepted = config.kid(provider()) == kid && (key.not_before_ms..key.not_after_ms).contains(&now_ms);
    is_accepted.then(|| self::key(&key.kem, &key.config_hex, &key.private_hex, key.not_after_ms))
}

/// Returns the code with which a server rejects the request.
fn request_refused(v: &OneShotRequestRefused) -> &'static str {
    let (headers, body) = (headers_of(&v.headers), v.body.to_vec());
    let line = RequestLine { method: &v.method, target: &v.path };
    let begun = Exchange::begin(&headers, line, v.now_ms, &policy(v.window_ms), |_| Ok(()));
    let name = match &begun {
        Err(refusal) => return refusal.class(),
        // X-Seal names another wire.
        Ok(exchange) => match exchange.key_name() {
            None => return "header_invalid",
            Some(name) => format!("hpke:{name}"),
        },
    };
    let Some(key) = v.server.keys.iter().find_map(|key| served(key, &name, v.now_ms)) else { return "key_retired" };
    // The driver of HTTP looks at the body.
    if headers.iter().any(|(name, _)| name == "x-sealed") && !body.is_empty() {
        return "header_invalid";
    }
    let named = v.server.psks.iter().find(|psk| {
        let at = body.get(2..).unwrap_or_default();
        at.starts_with(psk.id.as_bytes())
    });
    let psk = named.map_or([0x55; 32], |psk| psk.psk_hex.array());
    let (opened, _, error) = match open(&key, psk, line, (&headers, &body), 1 << 20) {
        Ok(opened) => opened,
        Err(rejection) => return rejection.refusal.class(),
    };
    let claim = *opened.claim();
    let plain = release(opened);
    match readmit(Some(plain.reply.session()), &claim, v.now_ms, &policy(v.window_ms)) {
        Err(error) => error.code(),
        Ok(_) => error.map_or("accepted", |error| error.code()),
    }
}

fn take(
    root: &Hex,
    accepted: Option<&[String]>,
    body: &str,
    now_ms: u64,
    taken: Option<u64>,
) -> Result<KeyDocument, &'static str> {
    let document = KeyDocument::parse(provider(), body.as_bytes()).map_err(|error| error.code())?;
    let last = taken.unwrap_or_default();
    // The caller, who has pinned the root, rejects such a one before.
    let named = SignatureAlgorithm::of_public(&root.0).map(SignatureAlgorithm::name);
    if document.root.is_some() && accepted.is_some_and(|names| names.iter().all(|name| Some(name.as_str()) != named)) {
        return Err("key_untrusted");
    }
    document.verify(provider(), default_identity_library(), &root.0, now_ms, last).map_err(|fault| match fault {
        KeySetFault::SignatureInvalid => "signature_invalid",
        KeySetFault::Unsigned
        | KeySetFault::OtherRoot
        | KeySetFault::Expired
        | KeySetFault::RolledBack
        | KeySetFault::RootInvalid => "key_untrusted",
    })?;
    Ok(document)
}

fn document(v: &OneShotDocument) {
    let document =
        take(&v.root_public_hex, v.signature_algorithms.as_deref(), &v.body, v.now_ms, v.taken_issued_ms).unwrap();
    assert_eq!((document.issued_ms, document.keys.len()), (v.issued_ms, v.keys.len()));
    for (key, want) in document.keys.iter().zip(&v.keys) {
        assert_eq!(key.config, want.config_hex.0);
        let known = KeyConfig::decode(provider(), &key.config).ok();
        assert_eq!(known.is_some(), want.kem.is_some());
        assert!(known.is_none_or(|config| config.kid(provider()) == want.kid));
    }
    for choice in &v.choices {
        let kems: Vec<Kem> = choice.kems.iter().map(|name| kem(name)).collect();
        let usable = document.keys.iter().filter(|key| key.is_in_use(choice.now_ms));
        let configs = usable.filter_map(|key| KeyConfig::decode(provider(), &key.config).ok());
        let chosen = configs.into_iter().find(|config| kems.contains(&config.public_key().kem()));
        assert_eq!(chosen.map(|config| config.kid(provider())), choice.kid, "{choice:?}");
    }
    // The document is accepted once more after it is encoded again.
    let accepted = v.signature_algorithms.as_deref();
    assert_eq!(take(&v.root_public_hex, accepted, &document.encode(), v.now_ms, v.taken_issued_ms), Ok(document));
}

fn document_refused(v: &OneShotDocumentRefused) -> &'static str {
    take(&v.root_public_hex, v.signature_algorithms.as_deref(), &v.body, v.now_ms, v.taken_issued_ms)
        .map_or_else(|code| code, |_| "accepted")
}

fn derived(v: &DerivedPsk) {
    let key = provider().hkdf_sha256(v.psk_id.as_bytes(), &v.master_hex.0, &[b"sealway/4 psk"]).unwrap();
    assert_eq!(*key, v.psk_hex.array());
}

#[test]
fn every_vector_of_a_server_has_its_outcome() {
    let mut ran: BTreeMap<&str, usize> = BTreeMap::new();
    for vector in load_one_shot().unwrap() {
        let name = vector.name.as_str();
        let kind = match &vector.scenario {
            OneShotScenario::Request(v) => {
                request(v);
                "request4"
            }
            OneShotScenario::RequestRefused(v) => {
                assert_eq!(request_refused(v), v.code, "{name}");
                "request4-refused"
            }
            OneShotScenario::Document(v) => {
                document(v);
                "key-document4"
            }
            OneShotScenario::DocumentRefused(v) => {
                assert_eq!(document_refused(v), v.code, "{name}");
                "key-document4-refused"
            }
            OneShotScenario::Psk(v) => {
                derived(v);
                "psk4"
            }
            OneShotScenario::Answer(_) | OneShotScenario::AnswerRefused(_) | OneShotScenario::Problem(_) => "client",
        };
        *ran.entry(kind).or_default() += 1;
    }
    let counts: Vec<(&str, usize)> = ran.into_iter().collect();
    assert_eq!(
        counts,
        [
            ("client", 93),
            ("key-document4", 17),
            ("key-document4-refused", 57),
            ("psk4", 3),
            ("request4", 33),
            ("request4-refused", 142)
        ]
    );
}
