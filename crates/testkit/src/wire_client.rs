//! Clients of wires 1 and 2 that seal correctly and send freely: a sealed request is returned as a raw one, for the test to
//! change before it is sent.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use sealway_proto::crypto::default_provider;
use sealway_proto::session::{ClientInit, ClientSession, PendingAnswer, SealBuffer};
use sealway_proto::wire::{ReplayPolicy, Wire};

use crate::raw_http::{Answer, Request};

/// The client id of every wire 2 client that names no other.
pub const CLIENT_ID: &str = "test-client";
/// The route of the demo service.
pub const PURCHASE: &str = "/transaction/purchase";
/// An order that the demo service accepts.
pub const ORDER: &[u8] = br#"{"schemeCode":"AEF","amount":5000}"#;

/// Returns the time in milliseconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "a client of a real process lives in real time")]
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Returns `N` random bytes of the provider.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    default_provider().fill_random(&mut bytes).expect("randomness");
    bytes
}

/// Returns a fresh nonce of 32 hexadecimal digits.
pub fn nonce() -> String {
    random::<16>().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a fresh public key in base64.
pub fn public_key() -> String {
    let key = default_provider().p256_generate().expect("a key pair");
    sealway_proto::wire::base64::encode(key.public())
}

/// Creates a valid init request of a wire to a path, and the state that completes it.
pub fn init(wire: Wire, path: &str, client_id: &str, ttl_sec: Option<u32>) -> (ClientInit, Request) {
    let ephemeral = default_provider().p256_generate().expect("a key pair");
    let anonymous = path.ends_with("/anon");
    let (init, request) =
        ClientInit::new(wire, anonymous, client_id, ttl_sec, ephemeral, &random(), now_ms()).expect("a client id");
    let mut raw = Request::post(path, request.body).header("Content-Type", "application/json");
    for (name, value) in request.headers {
        raw = raw.header(name, value);
    }
    (init, raw)
}

/// A session, agreed over real HTTP.
pub struct WireSession {
    /// The client's half of the session.
    pub session: ClientSession,
    to: SocketAddr,
    /// The answer to its init.
    pub answer: Answer,
}

impl WireSession {
    /// Agrees a session at `to` by `POST path`.
    ///
    /// # Errors
    /// If the server rejects the init.
    pub fn open(to: SocketAddr, wire: Wire, path: &str) -> anyhow::Result<Self> {
        WireSession::open_as(to, wire, path, CLIENT_ID, None)
    }

    /// Agrees a session, as [`WireSession::open`], with a client id and a ttl.
    ///
    /// # Errors
    /// If the server rejects the init.
    pub fn open_as(
        to: SocketAddr,
        wire: Wire,
        path: &str,
        client_id: &str,
        ttl_sec: Option<u32>,
    ) -> anyhow::Result<Self> {
        let (init, request) = init(wire, path, client_id, ttl_sec);
        let answer = request.send(to)?;
        if answer.status != 200 {
            bail!("init was refused: {} {}", answer.status, answer.text());
        }
        let session = init.finish(default_provider(), &answer.body, now_ms(), &mut |_| ())?;
        Ok(WireSession { session, to, answer })
    }

    /// Returns the id of the session.
    pub fn id(&self) -> String {
        self.session.id().to_string()
    }

    /// Seals a `POST` of `plaintext` to `path`, with a fresh stamp and nonce.
    pub fn seal(&self, path: &str, plaintext: &[u8]) -> (Request, PendingAnswer<'_>) {
        self.seal_as(path, plaintext, &now_ms().to_string(), &nonce())
    }

    /// Seals with a stamp and a nonce of the test's choice.
    pub fn seal_as(&self, path: &str, plaintext: &[u8], stamp: &str, nonce: &str) -> (Request, PendingAnswer<'_>) {
        let buffer = SealBuffer::from(plaintext);
        let sealed = self.session.seal_as(path, buffer, stamp, nonce, &random(), &mut |_| ());
        let (message, pending) = sealed.expect("sealing");
        let mut request = Request::post(path, message.body).header("Content-Type", message.content_type);
        for (name, value) in message.headers {
            request = request.header(name, value);
        }
        (request, pending)
    }

    /// Seals a request, sends it, and opens the answer.
    ///
    /// # Errors
    /// If the answer does not open.
    pub fn call(&self, path: &str, plaintext: &[u8]) -> anyhow::Result<(Answer, Vec<u8>)> {
        let (request, pending) = self.seal(path, plaintext);
        let answer = request.send(self.to)?;
        let opened = open(&pending, &answer).with_context(|| format!("{} {}", answer.status, answer.text()))?;
        Ok((answer, opened))
    }
}

/// Opens the answer to a request.
///
/// # Errors
/// If it does not open, or belongs to something else.
pub fn open(pending: &PendingAnswer<'_>, answer: &Answer) -> anyhow::Result<Vec<u8>> {
    let policy = ReplayPolicy::default();
    let body = answer.body.clone();
    let opened = pending.open(&answer.headers, answer.status, body, now_ms(), &policy, &mut |_| ())?;
    Ok(opened.as_slice().to_vec())
}
