//! Inits and renewals, both sides.

use sealway_proto::Error;
use sealway_proto::crypto::Provider;
use sealway_proto::crypto::agreement::Curve;
use sealway_proto::crypto::identity::{IdentityPublic, SignatureAlgorithm};
use sealway_proto::session::native::message::transcript;
use sealway_proto::session::native::{
    ClientInit, ClientOffer, ClientSession, Group, IdentityKey, InitAnswer, InitRequest, InitSurroundings, KeyId,
    ServerRandoms, ShareKey, Suite, Terms, agree, choose,
};
use sealway_proto::session::{Auth, Session, SessionKey, SessionRecord};
use sealway_proto::wire::{SessionId, Wire};
use sealway_testkit::native_vectors::{
    ClientKeys, EarlierSession, Identity, NativeClient, NativeInit, NativeInitRefused, NativeInitRequestRefused,
    ServerKeys,
};
use sealway_testkit::vectors::Hex;
use serde_json::Value;

use super::{library, provider};

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Provider::sha256(provider(), &[bytes])
}

fn suites(names: &[String]) -> Vec<Suite> {
    names.iter().map(|name| Suite::from_name(name).unwrap()).collect()
}

fn identity(of: &Identity) -> IdentityKey {
    let public = match &of.public_hex {
        Some(public) => public.0.clone(),
        None => {
            let pair = provider().agreement_from_private(Curve::P256, &of.scalar_hex.array()).unwrap();
            pair.public().to_vec()
        }
    };
    let key = IdentityKey::new(provider(), &public, of.not_before_ms, of.not_after_ms).unwrap();
    assert_eq!(&*key.alg, of.alg.as_deref().unwrap_or("ES256"));
    check_seed(of, &key);
    key
}

/// Checks that the library derives the same public key of an ML-DSA key's seed (RFC 9881 section 6).
fn check_seed(of: &Identity, key: &IdentityKey) {
    let oid_end = match key.algorithm() {
        Some(SignatureAlgorithm::MlDsa65) => 0x12,
        Some(SignatureAlgorithm::MlDsa87) => 0x13,
        _ => return,
    };
    let mut document =
        vec![0x30, 0x34, 2, 1, 0, 0x30, 0x0b, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, oid_end, 4, 0x22, 0x80, 0x20];
    document.extend_from_slice(&of.seed_hex.as_ref().unwrap().0);
    assert_eq!(library().from_pkcs8(&document).unwrap().public(), &*key.public_key);
}

/// Returns the first live key that the client accepts, and all live keys, the latest first.
fn signer(request: &InitRequest, identities: &[Identity], now_ms: u64) -> Result<(KeyId, Vec<KeyId>), Error> {
    let mut live: Vec<IdentityKey> = identities.iter().map(identity).filter(|key| key.is_live(now_ms)).collect();
    live.sort_by_key(|key| core::cmp::Reverse(key.not_before_ms));
    let all: Vec<KeyId> = live.iter().map(|key| key.key_id).collect();
    let first = live.iter().find(|key| request.is_served_by(key)).ok_or(Error::KeyRetired)?;
    Ok((first.key_id, all))
}

/// Returns the identity key of this id, if the client trusts it.
pub(crate) fn trusted(keys: &[Hex], id: &KeyId) -> Option<IdentityPublic> {
    let key = keys.iter().find(|key| KeyId::of(provider(), &key.0) == *id)?;
    Some(library().public(&key.0).unwrap())
}

/// Returns the private key of the suite's group; empty if it has none.
fn point<'v>(suite: Suite, x25519: &'v Hex, p256: &'v Hex, p384: Option<&'v Hex>) -> &'v [u8] {
    match suite.group() {
        None => &[],
        Some(Group::X25519) => &x25519.0,
        Some(Group::P256) => &p256.0,
        Some(Group::P384) => &p384.unwrap().0,
    }
}

/// Creates a client that has sent this body.
fn begun(keys: &ClientKeys, authorization: Option<&str>, body: &[u8], old: Option<&ClientSession>) -> ClientInit {
    let said = InitRequest::parse(body).unwrap();
    let suite = Suite::from_name(&said.suite).unwrap();
    let point = point(suite, &keys.x25519_hex, &keys.p256_scalar_hex, keys.p384_scalar_hex.as_ref());
    let share = ShareKey::from_private(provider(), suite, point, &keys.kem_private_hex.0).unwrap();
    let offer = ClientOffer {
        suites: said.suites.iter().map(|name| Suite::from_name(name).unwrap()).collect(),
        client_id: said.client_id.to_string(),
        ttl_sec: said.ttl_sec,
        pinned_key_ids: said.pinned_key_ids,
        signature_algorithms: said
            .signature_algorithms
            .iter()
            .filter_map(|name| SignatureAlgorithm::from_name(name))
            .collect(),
        credential: authorization.map(|text| sha256(text.as_bytes())),
    };
    let mut init = ClientInit::new(offer, share, old).unwrap();
    if let Some(proof) = &said.proof {
        init.set_proof(proof);
    }
    let sent: Value = serde_json::from_str(&init.body()).unwrap();
    assert_eq!(sent, serde_json::from_slice::<Value>(body).unwrap());
    init
}

fn finish(init: ClientInit, keys: &[Hex], status: u16, answer: &[u8]) -> Result<ClientSession, Error> {
    // The status is HTTP's, and so for the caller to check.
    if status != 201 {
        return Err(Error::AnswerMismatch);
    }
    let claimed = init.claimed(answer)?;
    init.finish(provider(), trusted(keys, &claimed.key_id).as_ref(), answer)
}

/// Creates the client's side of an agreed session.
pub(crate) fn client_session(of: &NativeClient) -> ClientSession {
    let keys = ClientKeys {
        p256_scalar_hex: of.p256_scalar_hex.clone(),
        x25519_hex: Hex(Vec::new()),
        kem_private_hex: Hex(Vec::new()),
        p384_scalar_hex: None,
        kem_seed_hex: None,
    };
    let init = begun(&keys, None, of.body.as_bytes(), None);
    finish(init, std::slice::from_ref(&of.trusted_hex), 201, of.answer.as_bytes()).unwrap()
}

/// Creates the server's side of an agreed session.
pub(crate) fn server_session(id: &str, wire: Wire, prk: &Hex, created_ms: u64, expires_ms: u64) -> Session {
    let record = SessionRecord {
        id: SessionId::parse(id).unwrap(),
        wire,
        client_id: Some("demo-client".into()),
        subject: None,
        tenant: None,
        auth: Auth::None,
        lineage: None,
        created_ms,
        expires_ms,
        key: SessionKey::from_bytes(prk.array()),
    };
    Session::new(provider(), record).unwrap()
}

fn randoms(suite: Suite, of: &ServerKeys) -> ServerRandoms {
    let point = point(suite, &of.x25519_hex, &of.p256_scalar_hex, of.p384_scalar_hex.as_ref());
    let kem = suite.kem().map(|_| (of.kem_ciphertext_hex.0.clone(), of.kem_secret_hex.array().into()));
    ServerRandoms::Given(point.to_vec().into(), kem)
}

pub(crate) fn init(v: &NativeInit, old: Option<&EarlierSession>) {
    server(v, old);
    let said = InitRequest::parse(v.body.as_slice()).unwrap();
    // This client names no algorithm that it does not know.
    let is_ours = said.signature_algorithms.iter().all(|name| SignatureAlgorithm::from_name(name).is_some());
    if let Some(keys) = v.client.as_ref().filter(|_| is_ours) {
        let old = old.map(|old| client_session(&old.client));
        let init = begun(keys, v.authorization.as_deref(), v.body.as_slice(), old.as_ref());
        let session = finish(init, &v.trusted_hex, 201, v.answer.as_bytes()).unwrap();
        assert_eq!(session.expose_secret().expose(), &v.prk_hex.array());
    }
}

fn server(v: &NativeInit, old: Option<&EarlierSession>) {
    let request = InitRequest::parse(v.body.as_slice()).unwrap();
    assert_eq!(request.init_hash(provider()), v.init_hash_hex.array());
    let (key_id, key_ids) = signer(&request, &v.server.identities, v.now_ms).unwrap();
    let credential = v.authorization.as_ref().map(|text| sha256(text.as_bytes()));
    assert_eq!(credential.map(Vec::from).unwrap_or_default(), v.credential_hex.0);
    let terms = Terms {
        suites: suites(&v.server.suites),
        expires_in_sec: v.server.expires_in_sec,
        key_id,
        key_ids,
        auth: Auth::from_name(&v.server.auth).unwrap(),
        subject: v.server.subject.as_deref().map(Box::from),
        tenant: v.server.tenant.as_deref().map(Box::from),
        credential: credential.as_ref(),
    };
    let old = old.map(|old| server_session(&old.session_id, Wire::Native, &old.prk_hex, v.now_ms, v.now_ms + 1000));
    let given = randoms(Suite::from_name(&request.suite).unwrap(), &v.server);
    let id = v.server.session_id_random_hex.array();
    let agreed = agree(provider(), &request, terms, old.as_ref(), &id, given, v.now_ms, &mut |_| ()).unwrap();
    let (answer, proofs) = InitAnswer::parse(v.answer.as_bytes()).unwrap();
    let surroundings = InitSurroundings { credential: credential.as_ref(), renewed: old.as_ref().map(Session::id) };
    assert_eq!(transcript(&request, &answer, surroundings).as_bytes(), v.transcript_hex.0);
    assert_eq!(agreed.message(), [&b"sealway/3 signature"[..], &v.th_hex.0].concat());
    let (body, session) = agreed.signed(provider(), proofs.signature).unwrap();
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body, serde_json::from_str::<Value>(&v.answer).unwrap());
    let record = session.record();
    assert_eq!(record.key.expose(), &v.prk_hex.array());
    assert_eq!(record.client_id, Some(request.client_id));
    assert_eq!(record.expires_ms, v.now_ms + u64::from(v.server.expires_in_sec) * 1000);
}

pub(crate) fn answered(v: &NativeInitRefused) -> Result<(), Error> {
    let old = v.old.as_ref().map(|old| client_session(&old.client));
    let init = begun(&v.client, v.authorization.as_deref(), v.body.as_slice(), old.as_ref());
    finish(init, &v.trusted_hex, v.status, v.answer.as_slice()).map(drop)
}

pub(crate) fn asked(v: &NativeInitRequestRefused) -> Result<(), Error> {
    let request = InitRequest::parse(v.body.as_slice())?;
    let suites = suites(&v.server.suites);
    // The suite goes before the keys, and both before the share.
    if choose(&request.suites, &suites).is_none_or(|suite| suite.name() != &*request.suite) {
        return Err(Error::SuiteRequired);
    }
    let (key_id, key_ids) = signer(&request, &v.server.identities, v.now_ms)?;
    let terms = Terms {
        suites,
        expires_in_sec: 60,
        key_id,
        key_ids,
        auth: Auth::None,
        subject: None,
        tenant: None,
        credential: None,
    };
    agree(provider(), &request, terms, None, &[0; 16], ServerRandoms::Draw, v.now_ms, &mut |_| ()).map(drop)
}
