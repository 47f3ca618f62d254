//! The client's side: init, renewal, and the session that they give. `spec/session-3.md#init`.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::call::{PendingAnswer, RequestLine, SealHeaders, request_context};
use super::frame::FrameSealer;
use super::message::{InitAnswer, InitRequest, InitSurroundings, transcript};
use super::schedule::{self, Keys};
use super::server::{derive, signed_message};
use super::share::ShareKey;
use super::{KeyId, Suite, problem};
use crate::crypto::agreement::AgreementProvider;
use crate::crypto::identity::{IdentityPublic, SignatureAlgorithm};
use crate::crypto::{Provider, is_equal};
use crate::error::Error;
use crate::limits::{SIGNATURE_ALGORITHMS_MAX, SUITES_MAX};
use crate::session::keys::SessionKey;
use crate::session::record::Auth;
use crate::wire::header::{X_IDEMPOTENCY_KEY, X_KID, X_SEAL};
use crate::wire::nonce::push_hex;
use crate::wire::{ClientId, SessionId};

/// The parameters of a client's init.
#[derive(Clone, Debug)]
pub struct ClientOffer {
    /// The client's suites in order of preference; at least one, each once.
    pub suites: Vec<Suite>,
    /// The client id that it claims.
    pub client_id: String,
    /// Requested lifetime of the session, in seconds.
    pub ttl_sec: Option<u32>,
    /// Identity keys that it trusts; none if it trusts a root, or trusts no key yet.
    pub pinned_key_ids: Vec<KeyId>,
    /// The signature algorithms that it accepts, at most 8; none if it does not restrict them.
    pub signature_algorithms: Vec<SignatureAlgorithm>,
    /// SHA-256 of the value of `Authorization`, if it sends one.
    pub credential: Option<[u8; 32]>,
}

/// A client that has sent its key share and waits for the server's.
pub struct ClientInit {
    request: InitRequest,
    offered: Vec<Suite>,
    share: ShareKey,
    credential: Option<[u8; 32]>,
    renewed: Option<(SessionId, SessionKey)>,
}

/// The claims of a server's answer, after the checks of its form and its suite. Nothing of them is proven yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignerClaim {
    /// The identity key that must have signed.
    pub key_id: KeyId,
    /// The server's clock, in Unix milliseconds; the signature covers it.
    pub server_time_ms: u64,
}

impl ClientInit {
    /// Begins an init, or the renewal of a session, with a share of one of the offered suites.
    ///
    /// # Errors
    /// [`Error::FieldInvalid`] for a client id, suites or key ids that cannot be sent.
    pub fn new(offer: ClientOffer, share: ShareKey, renewed: Option<&ClientSession>) -> Result<Self, Error> {
        let ClientOffer { suites, client_id, ttl_sec, pinned_key_ids, signature_algorithms, credential } = offer;
        ClientId::parse(&client_id).map_err(|_| Error::FieldInvalid("client_id"))?;
        if !suites.contains(&share.suite()) || suites.len() > SUITES_MAX {
            return Err(Error::FieldInvalid("suites"));
        }
        let count = |one| signature_algorithms.iter().filter(|other| *other == one).count();
        if signature_algorithms.len() > SIGNATURE_ALGORITHMS_MAX
            || signature_algorithms.iter().any(|one| count(one) > 1)
        {
            return Err(Error::FieldInvalid("signature_algorithms"));
        }
        let request = InitRequest {
            suite: share.suite().name().into(),
            suites: suites.iter().map(|suite| suite.name().into()).collect(),
            share: share.public(),
            client_id: client_id.into(),
            ttl_sec,
            proof: None,
            pinned_key_ids,
            signature_algorithms: signature_algorithms.iter().map(|algorithm| algorithm.name().into()).collect(),
        };
        let renewed = renewed.map(|old| (old.id, old.key.clone()));
        Ok(ClientInit { request, offered: suites, share, credential, renewed })
    }

    /// Returns the hash that a DPoP proof of this init must contain.
    pub fn init_hash(&self, provider: &dyn Provider) -> [u8; 32] {
        self.request.init_hash(provider)
    }

    /// Adds a DPoP proof, which can only be made once the share is known.
    pub fn set_proof(&mut self, proof: &str) {
        self.request.proof = Some(proof.into());
    }

    /// Returns the body to send, a JSON text.
    pub fn body(&self) -> String {
        self.request.encode()
    }

    /// Reads an answer as far as possible without a key: checks its form, and that its suite is the one that both lists give.
    ///
    /// # Errors
    /// [`Error::AnswerMismatch`], [`Error::SuiteDowngraded`].
    pub fn claimed(&self, answer: &[u8]) -> Result<SignerClaim, Error> {
        let (answer, _) = InitAnswer::parse(answer)?;
        self.check_suite(&answer)?;
        Ok(SignerClaim { key_id: answer.key_id, server_time_ms: answer.server_time_ms })
    }

    fn check_suite(&self, answer: &InitAnswer) -> Result<(), Error> {
        if answer.suite != self.share.suite() {
            return Err(Error::AnswerMismatch);
        }
        let taken: Vec<Suite> = answer.suites.iter().filter_map(|name| Suite::from_name(name)).collect();
        let chosen = self.offered.iter().find(|suite| taken.contains(suite));
        if chosen == Some(&answer.suite) { Ok(()) } else { Err(Error::SuiteDowngraded) }
    }

    /// Completes the agreement with the server's answer. `key` is the identity key of [`SignerClaim::key_id`], which the caller
    /// trusts; `None` if it does not.
    ///
    /// # Errors
    /// [`Error::AnswerMismatch`], [`Error::SuiteDowngraded`], [`Error::KeyUntrusted`], [`Error::SignatureInvalid`],
    /// [`Error::PublicKeyInvalid`], [`Error::Unconfirmed`], in this order.
    // SPEC session-3.md#init
    pub fn finish(
        self,
        provider: &dyn AgreementProvider,
        key: Option<&IdentityPublic>,
        answer: &[u8],
    ) -> Result<ClientSession, Error> {
        let (answer, proofs) = InitAnswer::parse(answer)?;
        self.check_suite(&answer)?;
        let is_accepted = |key: &&IdentityPublic| self.request.accepts(&answer.key_id, key.algorithm());
        let key = key.filter(is_accepted).ok_or(Error::KeyUntrusted)?;
        let renewed = self.renewed.as_ref();
        let surroundings =
            InitSurroundings { credential: self.credential.as_ref(), renewed: renewed.map(|(id, _)| id) };
        let th = provider.sha256(&[transcript(&self.request, &answer, surroundings).as_bytes()]);
        if !key.verify(&signed_message(&th), &proofs.signature) {
            return Err(Error::SignatureInvalid);
        }
        let secret = self.share.agree(&answer.share)?;
        let prk = derive(provider, &th, &secret, renewed.map(|(_, key)| key));
        if !is_equal(schedule::confirm(provider, &prk, &th).as_slice(), &proofs.confirm) {
            return Err(Error::Unconfirmed);
        }
        let keys = Keys::new(provider, &prk);
        Ok(ClientSession { id: answer.session_id, client_id: self.request.client_id, agreed: answer, key: prk, keys })
    }
}

/// An agreed session, for any number of calls, also concurrent ones, until it expires.
pub struct ClientSession {
    id: SessionId,
    client_id: Box<str>,
    agreed: InitAnswer,
    key: SessionKey,
    keys: Keys,
}

/// The headers of a sealed request, the writer of its stream, and the context that opens its answer.
pub struct SealedCall<'a> {
    /// Lower-case names and their values.
    pub headers: Vec<(&'static str, String)>,
    /// Inner headers first, then the body.
    pub sealer: FrameSealer,
    /// The context that opens the answer.
    pub pending: PendingAnswer<'a>,
}

impl ClientSession {
    /// Returns the id of the session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the client id with which it was agreed.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Returns the agreed parameters, all of them covered by the server's signature.
    pub fn agreed(&self) -> &InitAnswer {
        &self.agreed
    }

    /// Returns the method by which the server authenticated the client, its subject and its tenant.
    pub fn recognised(&self) -> (Auth, Option<&str>, Option<&str>) {
        (self.agreed.auth, self.agreed.subject.as_deref(), self.agreed.tenant.as_deref())
    }

    /// Returns the secret from which all keys of the session are derived. Only for the key log of an inspector.
    pub fn expose_secret(&self) -> &SessionKey {
        &self.key
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Seals a request with the stamp `stamp_ms` of the server's clock. `nonce` is random.
    ///
    /// # Errors
    /// [`Error::Provider`].
    // SPEC session-3.md#sealed-requests
    pub fn seal(
        &self,
        provider: &dyn Provider,
        line: RequestLine<'_>,
        content_type: &str,
        stamp_ms: u64,
        nonce: &[u8; 16],
    ) -> Result<SealedCall<'_>, Error> {
        let mut hex = String::with_capacity(32);
        push_hex(&mut hex, nonce);
        self.seal_as(provider, line, content_type, &stamp_ms.to_string(), &hex)
    }

    /// Seals, as [`ClientSession::seal`], with stamp and nonce as text: for vectors.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn seal_as(
        &self,
        provider: &dyn Provider,
        line: RequestLine<'_>,
        content_type: &str,
        stamp: &str,
        nonce: &str,
    ) -> Result<SealedCall<'_>, Error> {
        let (headers, sealer) = sealed_head(provider, (&self.keys, &self.id), line, content_type, (stamp, nonce))?;
        Ok(SealedCall { headers, sealer, pending: PendingAnswer::new(self, line, stamp, nonce) })
    }

    /// Returns whether the server itself stated its clock in a problem that answers the request with this stamp and nonce.
    pub fn verifies_clock(
        &self,
        provider: &dyn Provider,
        stamp: &str,
        nonce: &str,
        server_time_ms: u64,
        mac: &[u8; 32],
    ) -> bool {
        is_equal(problem::clock_mac(provider, &self.keys, stamp, nonce, server_time_ms).as_slice(), mac)
    }
}

/// Returns the headers of a sealed request and the sealer of its stream.
pub(crate) fn sealed_head(
    provider: &dyn Provider,
    (keys, id): (&Keys, &SessionId),
    line: RequestLine<'_>,
    content_type: &str,
    (stamp, nonce): (&str, &str),
) -> Result<(SealHeaders, FrameSealer), Error> {
    let labels = keys.labels();
    let context = request_context(provider, labels, line, content_type, stamp, nonce, id);
    let sealer = FrameSealer::new(keys.request(provider, nonce, stamp)?, context);
    let key = [stamp, nonce].join(".");
    Ok((alloc::vec![(X_SEAL, labels.seal.into()), (X_KID, labels.kid(id)), (X_IDEMPOTENCY_KEY, key)], sealer))
}

impl fmt::Debug for ClientInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientInit").field("request", &self.request).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("agreed", &self.agreed).finish_non_exhaustive()
    }
}

impl fmt::Debug for SealedCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedCall").field("headers", &self.headers).finish_non_exhaustive()
    }
}
