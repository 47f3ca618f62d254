//! The server's side of a sealed call on either of wires 1 and 2: parse, open, release, seal. `spec/session.md#open`.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::crypto::{Provider, RandomPool};
use crate::error::Error;
use crate::limits::{IV_LEN, NONCE_LEN_MIN};
use crate::session::buffer::{Plaintext, SealBuffer};
use crate::session::record::Session;
use crate::session::replay::{Claim, NonceGuard, Scope};
use crate::session::{Laps, Step, wire1, wire2};
use crate::wire::header::X_KID;
use crate::wire::nonce::{ANSWER_PREFIX, push_hex};
use crate::wire::{Headers, Nonce, ReplayPolicy, SessionId, Timestamp, Wire};

/// A sealed request with valid headers; the next step is to look up its session.
#[derive(Debug)]
pub struct SealedCall<'a> {
    kid: &'a str,
    session_id: Result<SessionId, Error>,
    stamp: Timestamp<'a>,
    nonce: Nonce<'a>,
    now_ms: u64,
    policy: ReplayPolicy,
    wire: WireHeaders<'a>,
}

#[derive(Debug)]
enum WireHeaders<'a> {
    One(wire1::RequestHeaders<'a>),
    Two { client_id: &'a str },
}

impl<'a> SealedCall<'a> {
    /// Reads the headers of a sealed `POST`. `path` is the request's path as sent, without its query.
    ///
    /// Order: headers, shape of the key, timestamp, prefix of the kid.
    ///
    /// # Errors
    /// One of the peer's errors of [`Error`].
    // SPEC session.md#open
    pub fn parse(headers: &'a impl Headers, path: &'a str, now_ms: u64, policy: &ReplayPolicy) -> Result<Self, Error> {
        let kid = headers.field(X_KID).required(X_KID)?;
        let (stamp, nonce, wire) = match Wire::of(headers) {
            Wire::V1 => {
                let (stamp, nonce, rest) = wire1::RequestHeaders::parse(headers, path)?;
                (stamp, nonce, WireHeaders::One(rest))
            }
            Wire::V2 | Wire::Native | Wire::OneShot => {
                let (stamp, nonce, client_id) = wire2::parse_headers(headers)?;
                (stamp, nonce, WireHeaders::Two { client_id })
            }
        };
        let nonce = Nonce::parse(nonce, NONCE_LEN_MIN)?;
        let stamp = Timestamp::parse(stamp)?;
        policy.check(&stamp, now_ms)?;
        let session_id = SessionId::from_kid(kid)?;
        Ok(SealedCall { kid, session_id, stamp, nonce, now_ms, policy: *policy, wire })
    }

    /// Returns the id of the session to look up.
    ///
    /// # Errors
    /// [`Error::SessionUnknown`] for a malformed id: the store need not be asked.
    pub fn session_id(&self) -> Result<&SessionId, Error> {
        self.session_id.as_ref().map_err(|err| *err)
    }

    /// Checks that the call may use a session: before its body is read, and again when it is opened, so that no caller can
    /// leave it out.
    ///
    /// Order: id, expiry, wire, client id.
    ///
    /// # Errors
    /// [`Error::SessionUnknown`], [`Error::SessionExpired`], [`Error::WireMismatch`], [`Error::ClientMismatch`].
    pub fn check(&self, session: &Session) -> Result<(), Error> {
        if self.session_id()? != session.id() {
            return Err(Error::SessionUnknown);
        }
        if session.is_expired(self.now_ms) {
            return Err(Error::SessionExpired);
        }
        let record = session.record();
        match &self.wire {
            WireHeaders::One(_) if record.wire == Wire::V1 => Ok(()),
            WireHeaders::Two { client_id } if record.wire == Wire::V2 => {
                if record.client_id.as_deref() == Some(*client_id) { Ok(()) } else { Err(Error::ClientMismatch) }
            }
            _ => Err(Error::WireMismatch),
        }
    }

    /// Opens the body. The plaintext stays inaccessible until its nonce is reserved.
    ///
    /// Order: [`SealedCall::check`], length, tag.
    ///
    /// # Errors
    /// [`Error::SessionExpired`], [`Error::WireMismatch`], [`Error::ClientMismatch`], [`Error::BodyTooShort`],
    /// [`Error::Base64Invalid`], [`Error::AadMismatch`], [`Error::Unsealable`].
    // SPEC session.md#open
    pub fn open(
        self,
        provider: &dyn Provider,
        session: Arc<Session>,
        body: Vec<u8>,
        laps: Laps<'_>,
    ) -> Result<NonceGuard<PlainRequest>, Error> {
        self.check(&session)?;
        let (plaintext, path) = match self.wire {
            WireHeaders::One(headers) => {
                let path = headers.path.to_string();
                (headers.open(session.aead()?, self.stamp, self.nonce, self.kid, &body, laps)?, Some(path))
            }
            WireHeaders::Two { client_id } => {
                let context =
                    wire2::Context { stamp: self.stamp.as_str(), nonce: self.nonce.as_str(), kid: self.kid, client_id };
                (wire2::open(session.aead()?, &context, body, laps)?, None)
            }
        };
        let scope = Scope::Session(session.id());
        let claim = Claim::new(provider, scope, self.nonce, &self.stamp, self.now_ms, &self.policy);
        Ok(NonceGuard::new(PlainRequest { plaintext, reply: Reply { session, path } }, claim))
    }
}

/// A request that was opened and is not a replay.
#[derive(Debug)]
pub struct PlainRequest {
    /// The plaintext that the client sent.
    pub plaintext: Plaintext,
    /// The context that seals the answer.
    pub reply: Reply,
}

/// The context of a request that sealing its answer needs.
pub struct Reply {
    session: Arc<Session>,
    /// The request's path, which wire 1 binds.
    path: Option<String>,
}

/// The random inputs of one sealed message.
pub struct SealRandoms {
    /// The initialisation vector of the message.
    pub iv: [u8; IV_LEN],
    /// The random part of the message's nonce.
    pub nonce: [u8; 16],
}

impl SealRandoms {
    /// Draws them in one call of the generator.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn draw(provider: &dyn Provider) -> Result<Self, Error> {
        let mut bytes = [0_u8; SEAL_RANDOM_LEN];
        provider.fill_random(&mut bytes)?;
        Self::split(&bytes)
    }

    /// Takes them from a pool of random bytes.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn from_pool(provider: &dyn Provider, pool: &mut RandomPool) -> Result<Self, Error> {
        Self::split(&pool.take(provider)?)
    }

    fn split(bytes: &[u8; SEAL_RANDOM_LEN]) -> Result<Self, Error> {
        let (iv, nonce) = bytes.split_first_chunk::<IV_LEN>().ok_or(Error::Provider)?;
        Ok(SealRandoms { iv: *iv, nonce: nonce.try_into().map_err(|_| Error::Provider)? })
    }
}

const SEAL_RANDOM_LEN: usize = IV_LEN + 16;

/// A sealed request or answer: its headers and its body.
pub struct SealedMessage {
    /// Lower-case names and their values.
    pub headers: Vec<(&'static str, String)>,
    /// The additional authenticated data, which is public: for tools that inspect the wire.
    pub aad: Vec<u8>,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The sealed body, in the form of the wire.
    pub body: Vec<u8>,
}

impl Reply {
    /// Returns the session of the request.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Seals an answer. `status` is the HTTP status of the answer; wire 1 binds it.
    ///
    /// # Errors
    /// [`Error::Provider`].
    // SPEC session.md#answer
    pub fn seal(
        &self,
        status: u16,
        answer: SealBuffer,
        now_ms: u64,
        randoms: &SealRandoms,
        laps: Laps<'_>,
    ) -> Result<SealedMessage, Error> {
        let mut nonce = String::with_capacity(ANSWER_PREFIX.len() + 32);
        nonce.push_str(ANSWER_PREFIX);
        push_hex(&mut nonce, &randoms.nonce);
        let stamp = now_ms.to_string();
        let kid = self.session.id().kid();
        let aead = self.session.aead()?;
        let message = match &self.path {
            Some(path) => {
                let subject = wire1::Subject::Answer(status);
                wire1::seal(aead, subject, path, stamp, nonce, kid, &randoms.iv, answer)?
            }
            None => {
                let client_id = self.session.record().client_id.as_deref().unwrap_or_default();
                wire2::seal(aead, &stamp, &nonce, kid, client_id, &randoms.iv, answer)?
            }
        };
        laps(Step::Encrypt);
        Ok(message)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("session", self.session.id()).finish_non_exhaustive()
    }
}

impl fmt::Debug for SealedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedMessage").field("headers", &self.headers).field("body_len", &self.body.len()).finish()
    }
}
