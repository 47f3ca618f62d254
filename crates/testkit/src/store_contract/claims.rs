//! Sessions and claims for store tests, created as a client creates them: there is no other way to a claim.

use std::sync::Arc;

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::default_provider;
use sealway_proto::session::{
    ClientInit, ClientSession, Family, InitCall, InitRandoms, NonceGuard, PlainRequest, SealBuffer, SealedCall,
    SealedMessage, Session, TtlPolicy,
};
use sealway_proto::wire::{ReplayPolicy, Wire};

/// Time at which the tests' clocks begin, in Unix milliseconds.
pub const START_MS: u64 = 1_800_000_000_000;
/// The path of sealed calls.
pub const PATH: &str = "/orders";

/// A public key without a known owner.
const PUBLIC_KEY: &str = "BFaDVDQyf8e9gCX4YdGR+FvlvpFrbqOUVGKlzJdzsz2HhhuN3vpOx35vF0q9jIrPVsEqKpSkR26PO7rINxlfV40=";

/// The provider of every test.
pub fn provider() -> &'static dyn AgreementProvider {
    default_provider()
}

/// Returns 16 random bytes of the provider.
pub fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    provider().fill_random(&mut bytes).expect("random bytes");
    bytes
}

/// Creates an init whose nonce is not yet reserved; wire 1 if `client_id` is `None`.
pub fn init(client_id: Option<&str>, nonce: &str, stamp_ms: u64, now_ms: u64) -> NonceGuard<InitCall> {
    let headers = match client_id {
        Some(client_id) => {
            vec![("x-idempotency-key", format!("{stamp_ms}.{nonce}")), ("x-clientid", client_id.to_owned())]
        }
        None => vec![("x-nonce", nonce.to_owned()), ("x-timestamp", stamp_ms.to_string())],
    };
    let body = format!(r#"{{"clientPublicKey":"{PUBLIC_KEY}","keyAgreement":"ECDH_P256"}}"#);
    let policy = ReplayPolicy::default();
    InitCall::parse(provider(), Family::Session, &headers, body.as_bytes(), now_ms, &policy)
        .expect("a well-formed init")
}

/// Both ends of an agreed session.
#[derive(Debug)]
pub struct SessionPair {
    /// The end of the client.
    pub client: ClientSession,
    /// The server's end, which a store keeps.
    pub server: Arc<Session>,
}

/// Agrees a session of `ttl_sec` seconds at `now_ms`; on wire 1 if `client_id` is `None`.
pub fn agree(client_id: Option<&str>, ttl_sec: u32, now_ms: u64) -> SessionPair {
    let provider = provider();
    let wire = if client_id.is_some() { Wire::V2 } else { Wire::V1 };
    let ephemeral = provider.p256_generate().expect("a key pair");
    let (client, request) =
        ClientInit::new(wire, false, client_id.unwrap_or_default(), Some(ttl_sec), ephemeral, &random(), now_ms)
            .expect("an init request");
    let replay = ReplayPolicy::default();
    let body = request.body.as_bytes();
    let call = InitCall::parse(provider, Family::Session, &request.headers, body, now_ms, &replay).expect("a call");
    // There is no store here: the nonce is random.
    let fresh = sealway_proto::session::Fresh::reserved(call.claim());
    let call = call.release(fresh).expect("a release");
    let ttl = TtlPolicy { min_sec: 1, ..TtlPolicy::default() };
    let draw = |laps: sealway_proto::session::Laps<'_>| InitRandoms::draw(provider, laps);
    let subject = client_id.map(|id| format!("subject of {id}").into_boxed_str());
    let (answer, session) =
        call.accept(provider, &ttl, true, subject, draw, now_ms, &mut |_| ()).expect("an agreement");
    let client = client.finish(provider, answer.encode().as_bytes(), now_ms, &mut |_| ()).expect("a session");
    SessionPair { client, server: Arc::new(session) }
}

impl SessionPair {
    /// Seals `{}` with a stamp and a nonce.
    pub fn seal(&self, nonce: &str, stamp_ms: u64) -> SealedMessage {
        let iv = random()[..12].try_into().expect("12 bytes");
        let plaintext = SealBuffer::from(b"{}".as_slice());
        let sealed = self.client.seal_as(PATH, plaintext, &stamp_ms.to_string(), nonce, &iv, &mut |_| ());
        sealed.expect("a sealed call").0
    }

    /// Creates a sealed call that the server's end has opened, and whose nonce is not yet reserved.
    pub fn call(&self, nonce: &str, stamp_ms: u64, now_ms: u64) -> NonceGuard<PlainRequest> {
        open(&self.seal(nonce, stamp_ms), self.server.clone(), now_ms)
    }
}

/// Opens a sealed call with a session from a store.
pub fn open(message: &SealedMessage, session: Arc<Session>, now_ms: u64) -> NonceGuard<PlainRequest> {
    let call = SealedCall::parse(&message.headers, PATH, now_ms, &ReplayPolicy::default()).expect("a sealed call");
    call.open(provider(), session, message.body.clone(), &mut |_| ()).expect("a call that opens")
}
