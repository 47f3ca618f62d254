//! Inits and renewals, both sides.

use sealway_proto::Error;
use sealway_proto::crypto::Provider;
use sealway_proto::crypto::agreement::Curve;
use sealway_proto::crypto::es256::Es256Public;
use sealway_proto::session::native::message::transcript;
use sealway_proto::session::native::{
    ClientInit, ClientOffer, ClientSession, IdentityKey, InitAnswer, InitRequest, InitSurroundings, KeyId,
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

use super::{es256, provider};

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Provider::sha256(provider(), &[bytes])
}

fn suites(names: &[String]) -> Vec<Suite> {
    names.iter().map(|name| Suite::from_name(name).unwrap()).collect()
}

fn identity(of: &Identity) -> IdentityKey {
    let pair = provider().agreement_from_private(Curve::P256, &of.scalar_hex.array()).unwrap();
    IdentityKey::new(provider(), pair.public().try_into().unwrap(), of.not_before_ms, of.not_after_ms)
}

/// Returns the first live key that the client accepts, and all live keys, the latest first.
fn signer(request: &InitRequest, identities: &[Identity], now_ms: u64) -> Result<(KeyId, Vec<KeyId>), Error> {
    let mut live: Vec<IdentityKey> = identities.iter().map(identity).filter(|key| key.is_live(now_ms)).collect();
    live.sort_by_key(|key| core::cmp::Reverse(key.not_before_ms));
    let all: Vec<KeyId> = live.iter().map(|key| key.key_id).collect();
    let pins = &request.pinned_key_ids;
    let first = all.iter().find(|id| pins.is_empty() || pins.contains(id)).ok_or(Error::KeyRetired)?;
    Ok((*first, all))
}

/// Returns the identity key of this id, if the client trusts it.
pub(crate) fn trusted(keys: &[Hex], id: &KeyId) -> Option<Box<dyn Es256Public>> {
    let key = keys.iter().find(|key| KeyId::of(provider(), &key.array()) == *id)?;
    Some(es256().public(&key.0).unwrap())
}

/// Creates a client that has sent this body.
fn begun(keys: &ClientKeys, authorization: Option<&str>, body: &[u8], old: Option<&ClientSession>) -> ClientInit {
    let said = InitRequest::parse(body).unwrap();
    let suite = Suite::from_name(&said.suite).unwrap();
    let curve = if suite == Suite::X25519MlKem768 { &keys.x25519_hex } else { &keys.p256_scalar_hex };
    let curve = provider().agreement_from_private(suite.curve(), &curve.array()).unwrap();
    let kem = suite.is_hybrid().then(|| provider().kem_from_private(&keys.kem_private_hex.array()).unwrap());
    let offer = ClientOffer {
        suites: said.suites.iter().map(|name| Suite::from_name(name).unwrap()).collect(),
        client_id: said.client_id.to_string(),
        ttl_sec: said.ttl_sec,
        pinned_key_ids: said.pinned_key_ids,
        credential: authorization.map(|text| sha256(text.as_bytes())),
    };
    let mut init = ClientInit::new(offer, ShareKey::from_parts(suite, curve, kem).unwrap(), old).unwrap();
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
    init.finish(provider(), trusted(keys, &claimed.key_id).as_deref(), answer)
}

/// Creates the client's side of an agreed session.
pub(crate) fn client_session(of: &NativeClient) -> ClientSession {
    let keys = ClientKeys {
        p256_scalar_hex: of.p256_scalar_hex.clone(),
        x25519_hex: Hex(Vec::new()),
        kem_private_hex: Hex(Vec::new()),
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
    let curve = if suite == Suite::X25519MlKem768 { &of.x25519_hex } else { &of.p256_scalar_hex };
    let kem = suite.is_hybrid().then(|| (of.kem_ciphertext_hex.0.clone(), of.kem_secret_hex.array().into()));
    ServerRandoms::Given(curve.array().into(), kem)
}

pub(crate) fn init(v: &NativeInit, old: Option<&EarlierSession>) {
    server(v, old);
    if let Some(keys) = &v.client {
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
