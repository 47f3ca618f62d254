//! The server's side of key agreement, for both families of endpoints, wires 1 and 2. `spec/session.md#init`.

use alloc::boxed::Box;
use core::fmt;

use crate::crypto::{EphemeralKey, PeerKey, Provider};
use crate::error::Error;
use crate::limits::{
    NONCE_LEN_MIN, NONCE_LEN_MIN_V1, TTL_AUTHENTICATED_SEC_DEFAULT, TTL_DEFAULT_SEC_DEFAULT, TTL_MAX_SEC_DEFAULT,
    TTL_MIN_SEC_DEFAULT, TTL_WIRE1_ANON_SEC_DEFAULT,
};
use crate::session::keys::{SessionKey, info};
use crate::session::record::{Auth, Session, SessionRecord};
use crate::session::replay::{Claim, NonceGuard, Scope};
use crate::session::{Laps, Step};
use crate::wire::header::{X_CLIENT_ID, X_IDEMPOTENCY_KEY, X_NONCE, X_TIMESTAMP};
use crate::wire::json::{InitAnswer, InitBody};
use crate::wire::{ClientId, Headers, Nonce, ReplayPolicy, SessionId, Timestamp, Wire, base64, idempotency};

/// The endpoint that an init was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `POST /session/init`, wires 1 and 2.
    Session,
    /// `POST /session/init/anon`, wire 1 only.
    Anonymous,
    /// `POST /v1/session/init`, wire 2 only.
    V1,
}

/// The lifetimes of sessions, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlPolicy {
    /// Shortest lifetime on `/session/init`, in seconds.
    pub min_sec: u32,
    /// Longest lifetime on `/session/init`, in seconds.
    pub max_sec: u32,
    /// Lifetime on `/session/init` if the client names none.
    pub default_sec: u32,
    /// Lifetime on `/v1/session/init` without `Authorization`.
    pub v1_anonymous_sec: u32,
    /// Lifetime on `/v1/session/init` with an accepted `Authorization`.
    pub v1_authenticated_sec: u32,
    /// Lifetime on `/session/init/anon`, for anonymous sessions.
    pub wire1_anonymous_sec: u32,
}

impl Default for TtlPolicy {
    fn default() -> Self {
        TtlPolicy {
            min_sec: TTL_MIN_SEC_DEFAULT,
            max_sec: TTL_MAX_SEC_DEFAULT,
            default_sec: TTL_DEFAULT_SEC_DEFAULT,
            v1_anonymous_sec: TTL_DEFAULT_SEC_DEFAULT,
            v1_authenticated_sec: TTL_AUTHENTICATED_SEC_DEFAULT,
            wire1_anonymous_sec: TTL_WIRE1_ANON_SEC_DEFAULT,
        }
    }
}

/// The random inputs of one init.
pub struct InitRandoms {
    /// The random part of the session id.
    pub session_id: [u8; 16],
    /// The server's ephemeral key pair.
    pub ephemeral: Box<dyn EphemeralKey>,
}

impl InitRandoms {
    /// Draws them, and reports [`Step::EcdhKeygen`].
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn draw(provider: &dyn Provider, laps: Laps<'_>) -> Result<Self, Error> {
        let mut session_id = [0; 16];
        provider.fill_random(&mut session_id)?;
        let ephemeral = provider.p256_generate()?;
        laps(Step::EcdhKeygen);
        Ok(InitRandoms { session_id, ephemeral })
    }
}

/// A well-formed init with a valid public key, whose nonce is checked next: a malformed init must take no place among the
/// nonces.
pub struct InitCall {
    family: Family,
    wire: Wire,
    client_id: Option<Box<str>>,
    client_public: Box<dyn PeerKey>,
    ttl_sec: Option<u32>,
}

impl InitCall {
    /// Parses an init, in the order of `/v1`'s table (the others return one error to the peer, whatever the defect).
    ///
    /// # Errors
    /// One of the peer's errors of [`Error`].
    // SPEC session.md#init
    pub fn parse(
        provider: &dyn Provider,
        family: Family,
        headers: &impl Headers,
        body: &[u8],
        now_ms: u64,
        policy: &ReplayPolicy,
    ) -> Result<NonceGuard<InitCall>, Error> {
        let wire = match family {
            Family::Session => Wire::of(headers),
            Family::Anonymous => Wire::V1,
            Family::V1 => Wire::V2,
        };
        let body = InitBody::parse(body)?;
        let (stamp, nonce, client_id) = match wire {
            Wire::V1 => {
                let nonce = headers.field(X_NONCE).required(X_NONCE)?;
                let stamp = headers.field(X_TIMESTAMP).required(X_TIMESTAMP)?;
                body.check_key_agreement()?;
                body.client_public_key()?;
                (stamp, nonce, None)
            }
            Wire::V2 | Wire::Native | Wire::OneShot => {
                let key = headers.field(X_IDEMPOTENCY_KEY).required(X_IDEMPOTENCY_KEY);
                // A repeated header is present, and malformed.
                let key = match key {
                    Err(Error::HeaderInvalid(_)) => Err(Error::IdempotencyKeyShape),
                    Err(missing) => return Err(missing),
                    Ok(key) => Ok(key),
                };
                let client_id = ClientId::parse(headers.field(X_CLIENT_ID).required(X_CLIENT_ID)?)?;
                body.client_public_key()?;
                let (stamp, nonce) = idempotency::split(key?)?;
                (stamp, nonce, Some(client_id.as_str()))
            }
        };
        let nonce = Nonce::parse(nonce, if family == Family::V1 { NONCE_LEN_MIN_V1 } else { NONCE_LEN_MIN })?;
        let stamp = Timestamp::parse(stamp)?;
        policy.check(&stamp, now_ms)?;
        let ttl_sec = match (family, wire) {
            (Family::Session, Wire::V1) => body.ttl_lax(),
            (Family::Session, Wire::V2 | Wire::Native | Wire::OneShot) => body.ttl_strict()?,
            (Family::Anonymous | Family::V1, _) => None,
        };
        let scope = client_id.map_or(Scope::Wire1Init, Scope::Client);
        let claim = Claim::new(provider, scope, nonce, &stamp, now_ms, policy);
        let client_public = base64::decode(body.client_public_key()?).map_err(|_| Error::PublicKeyInvalid)?;
        let client_public = provider.p256_public(&client_public)?;
        let call = InitCall { family, wire, client_id: client_id.map(Box::from), client_public, ttl_sec };
        Ok(NonceGuard::new(call, claim))
    }

    /// Returns the wire that the session will be bound to.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Returns the client id of the request; wire 1 has none.
    pub fn client_id(&self) -> Option<&str> {
        self.client_id.as_deref()
    }

    /// Agrees the key. `authenticated` is whether the caller accepted a token, `subject` is the token's subject.
    ///
    /// # Errors
    /// [`Error::Provider`].
    // SPEC session.md#keys
    pub fn accept(
        self,
        provider: &dyn Provider,
        ttl: &TtlPolicy,
        authenticated: bool,
        subject: Option<Box<str>>,
        randoms: impl FnOnce(Laps<'_>) -> Result<InitRandoms, Error>,
        now_ms: u64,
        laps: Laps<'_>,
    ) -> Result<(InitAnswer, Session), Error> {
        laps(Step::ValidatePublicKey);
        let InitRandoms { session_id, ephemeral } = randoms(laps)?;
        let anonymous = self.family == Family::Anonymous;
        let id = SessionId::from_random(&session_id, anonymous);
        let server_public = *ephemeral.public();
        let z = ephemeral.agree(self.client_public)?;
        laps(Step::EcdhCompute);
        let info = info(self.wire, anonymous, self.client_id.as_deref().unwrap_or_default());
        let key = SessionKey::derive(provider, &z, &id, &info)?;

        let (ttl_sec, enc_alg) = match self.family {
            Family::Session => {
                (self.ttl_sec.map_or(ttl.default_sec, |sec| sec.clamp(ttl.min_sec, ttl.max_sec)), "A256GCM")
            }
            Family::Anonymous => (ttl.wire1_anonymous_sec, "A256GCM"),
            Family::V1 if authenticated => (ttl.v1_authenticated_sec, "aes-256-gcm"),
            Family::V1 => (ttl.v1_anonymous_sec, "aes-256-gcm"),
        };
        let record = SessionRecord {
            id,
            wire: self.wire,
            client_id: self.client_id,
            subject,
            tenant: None,
            auth: if authenticated { Auth::Bearer } else { Auth::None },
            lineage: None,
            created_ms: now_ms,
            expires_ms: now_ms.saturating_add(u64::from(ttl_sec) * 1000),
            key,
        };
        let session = Session::new(provider, record)?;
        laps(Step::Hkdf);
        Ok((InitAnswer { session_id: id, server_public, enc_alg, expires_in_sec: ttl_sec }, session))
    }
}

impl fmt::Debug for InitCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitCall").field("family", &self.family).field("wire", &self.wire).finish_non_exhaustive()
    }
}
