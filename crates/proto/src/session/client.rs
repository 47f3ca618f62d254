//! The client's side of wires 1 and 2: init, seal a request, open its answer. `spec/session.md`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::crypto::{AeadKey, EphemeralKey, Provider};
use crate::error::Error;
use crate::limits::{IV_LEN, NONCE_LEN_MIN};
use crate::session::buffer::{Plaintext, SealBuffer};
use crate::session::call::{SealRandoms, SealedMessage};
use crate::session::keys::{SessionKey, info};
use crate::session::{Laps, Step, wire1, wire2};
use crate::wire::header::{X_CLIENT_ID, X_IDEMPOTENCY_KEY, X_KID, X_NONCE, X_TIMESTAMP};
use crate::wire::json::InitAnswer;
use crate::wire::nonce::{check_answer, push_hex};
use crate::wire::{ClientId, Headers, ReplayPolicy, SessionId, Timestamp, Wire, base64, idempotency};

/// An init request, to be sent as `POST` with `Content-Type: application/json`.
#[derive(Debug)]
pub struct InitRequest {
    /// Lower-case names and their values.
    pub headers: Vec<(&'static str, String)>,
    /// The body, a JSON text.
    pub body: String,
}

/// A client that has sent its key share and waits for the server's.
pub struct ClientInit {
    wire: Wire,
    anonymous: bool,
    client_id: String,
    ephemeral: Box<dyn EphemeralKey>,
}

impl ClientInit {
    /// Begins an init. On wire 1 `client_id` is not sent; `anonymous` is for `/session/init/anon`, wire 1 only. `nonce` is sent
    /// as 32 hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::HeaderInvalid`] for a malformed client id, [`Error::WireMismatch`] for wire 3.
    pub fn new(
        wire: Wire,
        anonymous: bool,
        client_id: &str,
        ttl_sec: Option<u32>,
        ephemeral: Box<dyn EphemeralKey>,
        nonce: &[u8; 16],
        now_ms: u64,
    ) -> Result<(ClientInit, InitRequest), Error> {
        let stamp = now_ms.to_string();
        let mut nonce_hex = String::new();
        push_hex(&mut nonce_hex, nonce);
        let ttl = ttl_sec.map_or_else(String::new, |sec| format!(r#","ttlSec":{sec}"#));
        let agreement = if wire == Wire::V1 { r#","keyAgreement":"ECDH_P256""# } else { "" };
        let share = base64::encode(ephemeral.public());
        let body = format!(r#"{{"clientPublicKey":"{share}"{agreement}{ttl}}}"#);
        let headers = match wire {
            Wire::V1 => alloc::vec![(X_NONCE, nonce_hex), (X_TIMESTAMP, stamp)],
            Wire::Native | Wire::OneShot => return Err(Error::WireMismatch),
            Wire::V2 => {
                let client_id = ClientId::parse(client_id)?.as_str();
                alloc::vec![(X_IDEMPOTENCY_KEY, format!("{stamp}.{nonce_hex}")), (X_CLIENT_ID, client_id.into())]
            }
        };
        let init = ClientInit { wire, anonymous, client_id: client_id.into(), ephemeral };
        Ok((init, InitRequest { headers, body }))
    }

    /// Completes the agreement with the server's answer, received at `now_ms`.
    ///
    /// # Errors
    /// Those of [`InitAnswer::parse`], [`Error::PublicKeyInvalid`], [`Error::Provider`].
    pub fn finish(
        self,
        provider: &dyn Provider,
        answer: &[u8],
        now_ms: u64,
        laps: Laps<'_>,
    ) -> Result<ClientSession, Error> {
        let answer = InitAnswer::parse(answer)?;
        let peer = provider.p256_public(&answer.server_public)?;
        let z = self.ephemeral.agree(peer)?;
        laps(Step::EcdhCompute);
        let info = info(self.wire, self.anonymous, &self.client_id);
        let key = SessionKey::derive(provider, &z, &answer.session_id, &info)?;
        let aead = provider.aes256_gcm(key.expose())?;
        laps(Step::Hkdf);
        Ok(ClientSession {
            wire: self.wire,
            client_id: self.client_id,
            id: answer.session_id,
            expires_ms: now_ms.saturating_add(u64::from(answer.expires_in_sec) * 1000),
            aead,
        })
    }
}

/// An agreed session, for any number of calls, also concurrent ones, until it expires.
pub struct ClientSession {
    wire: Wire,
    client_id: String,
    id: SessionId,
    expires_ms: u64,
    aead: Box<dyn AeadKey>,
}

/// The state that a client keeps of a request to open its answer.
pub struct PendingAnswer<'a> {
    session: &'a ClientSession,
    path: String,
}

impl ClientSession {
    /// Returns the session's id, which the server chose.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the end of the session by this client's clock, in milliseconds since the epoch.
    pub fn expires_ms(&self) -> u64 {
        self.expires_ms
    }

    /// Seals a `POST` to `path` (without its query).
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn seal(
        &self,
        path: &str,
        plaintext: SealBuffer,
        now_ms: u64,
        randoms: &SealRandoms,
        laps: Laps<'_>,
    ) -> Result<(SealedMessage, PendingAnswer<'_>), Error> {
        let mut nonce = String::new();
        push_hex(&mut nonce, &randoms.nonce);
        self.seal_as(path, plaintext, &now_ms.to_string(), &nonce, &randoms.iv, laps)
    }

    /// Seals, as [`ClientSession::seal`], with the stamp and nonce as text: for vectors and for tests of other clients' habits.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn seal_as(
        &self,
        path: &str,
        plaintext: SealBuffer,
        stamp: &str,
        nonce: &str,
        iv: &[u8; IV_LEN],
        laps: Laps<'_>,
    ) -> Result<(SealedMessage, PendingAnswer<'_>), Error> {
        let kid = self.id.kid();
        let message = match self.wire {
            Wire::V1 => {
                let subject = wire1::Subject::Request;
                wire1::seal(self.aead.as_ref(), subject, path, stamp.into(), nonce.into(), kid, iv, plaintext)?
            }
            Wire::V2 | Wire::Native | Wire::OneShot => {
                let mut message = wire2::seal(self.aead.as_ref(), stamp, nonce, kid, &self.client_id, iv, plaintext)?;
                message.headers.push((X_CLIENT_ID, self.client_id.clone()));
                message
            }
        };
        laps(Step::Encrypt);
        Ok((message, PendingAnswer { session: self, path: path.into() }))
    }
}

impl PendingAnswer<'_> {
    /// Opens the answer. It must be of this session, stamped within the window, and carry an answer's nonce: otherwise an
    /// attacker could return the client's own request to it.
    ///
    /// # Errors
    /// [`Error::AnswerMismatch`] and the errors of opening.
    // SPEC session.md#answer
    pub fn open(
        &self,
        headers: &impl Headers,
        status: u16,
        body: Vec<u8>,
        now_ms: u64,
        policy: &ReplayPolicy,
        laps: Laps<'_>,
    ) -> Result<Plaintext, Error> {
        let session = self.session;
        let kid = headers.field(X_KID).required(X_KID)?;
        if SessionId::from_kid(kid)? != Ok(session.id) {
            return Err(Error::AnswerMismatch);
        }
        let aead = session.aead.as_ref();
        let (stamp, nonce, plaintext) = match session.wire {
            Wire::V1 => wire1::open_answer(aead, headers, status, &self.path, kid, &body)?,
            Wire::V2 | Wire::Native | Wire::OneShot => {
                let key = headers.field(X_IDEMPOTENCY_KEY).required(X_IDEMPOTENCY_KEY)?;
                let (stamp, nonce) = idempotency::split(key)?;
                let context = wire2::Context { stamp, nonce, kid, client_id: &session.client_id };
                (stamp, nonce, wire2::open(aead, &context, body, &mut |_| ())?)
            }
        };
        check_answer(nonce, NONCE_LEN_MIN)?;
        policy.check(&Timestamp::parse(stamp)?, now_ms)?;
        laps(Step::Decrypt);
        Ok(plaintext)
    }
}

impl fmt::Debug for ClientInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientInit").field("wire", &self.wire).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("wire", &self.wire).field("id", &self.id).finish_non_exhaustive()
    }
}
