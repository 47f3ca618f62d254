//! Signatures of messages that came: beside a body, over its bytes as received, or inside of each token.

use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Method, Response, StatusCode};
use sealway_exchange::Sessions;
use sealway_proto::mle::sign::jws::{self, Signer as Identity};
use sealway_proto::mle::sign::{Parties, VerifyingKeys, nested};
use sealway_proto::mle::{Class, Message, Refusal};
use sealway_proto::session::Claim;
use sealway_proto::wire::ReplayPolicy;
use sealway_runtime::http::Origin;
use zeroize::Zeroizing;

use super::Exchange;
use super::keys::{KeyRing, jose_provider};
use super::message::Fault;
use super::pool;
use super::sign::X_JWS_SIGNATURE;

/// The settings of one signer, after their checks.
#[derive(Clone, Debug)]
pub(crate) struct VerifyPolicy {
    /// The subject of the caller's certificate; `None` for every caller.
    pub(crate) caller: Option<String>,
    /// Names of keys that verify.
    pub(crate) keys: Vec<String>,
    pub(crate) expected: Evidence,
}

/// The place of a signature, and what it must say of its signer.
#[derive(Clone, Debug)]
pub(crate) enum Evidence {
    /// In the header `x-jws-signature`, over the body as received.
    Detached(Identity),
    /// Inside of each token, as claims of a JWT.
    Nested(Parties),
}

/// A signer with its keys.
#[derive(Clone, Debug)]
pub(super) struct Verifier {
    pub(super) caller: Option<String>,
    keys: Arc<VerifyingKeys>,
    expected: Evidence,
}

impl Verifier {
    /// Takes the keys of a signer from the ring.
    ///
    /// # Errors
    /// Two of the keys have one kid.
    pub(super) fn new(policy: &VerifyPolicy, ring: &KeyRing) -> Result<Verifier, String> {
        let keys = Arc::new(ring.verifying(&policy.keys)?);
        Ok(Verifier { caller: policy.caller.clone(), keys, expected: policy.expected.clone() })
    }

    /// Returns whether the signature stands inside of tokens.
    pub(super) fn is_nested(&self) -> bool {
        matches!(self.expected, Evidence::Nested(_))
    }

    /// Verifies the signature beside a body as it came, and returns the claim of what it covers; one inside of tokens is verified
    /// later, by [`Verifier::open`].
    ///
    /// # Errors
    /// [`Fault::Refused`], also for an absent header unless it `may_be_absent`; [`Fault::Overload`].
    pub(super) async fn check(
        &self,
        origin: Option<&Origin>,
        (headers, body): (&HeaderMap, &Bytes),
        may_be_absent: bool,
        replay: &ReplayPolicy,
        now_ms: u64,
    ) -> Result<Option<Claim>, Fault> {
        let Evidence::Detached(signer) = &self.expected else { return Ok(None) };
        let mut values = headers.get_all(X_JWS_SIGNATURE).iter();
        let token = match (values.next(), values.next()) {
            (None, _) if may_be_absent => return Ok(None),
            (Some(value), None) => value.as_bytes().to_vec(),
            _ => {
                let why = "x-jws-signature is absent, or there twice";
                return Err(Refusal::new(Class::Signature, why).into());
            }
        };
        let (keys, signer, body, replay) = (self.keys.clone(), signer.clone(), body.clone(), *replay);
        let work = move || jws::claim_detached(&token, &body, &keys, &signer, &replay, now_ms, jose_provider().base());
        Ok(Some(pool::run(origin, 1, work).await??))
    }

    /// Verifies the signatures inside of tokens, and returns their payloads; `None` if the signature stands elsewhere.
    ///
    /// # Errors
    /// [`Fault::Refused`], [`Fault::Overload`].
    pub(super) async fn open(
        &self,
        origin: Option<&Origin>,
        plaintexts: Vec<Zeroizing<Vec<u8>>>,
        message: Message,
        replay: &ReplayPolicy,
        now_ms: u64,
    ) -> Result<Vec<nested::Payload>, Fault> {
        let Evidence::Nested(parties) = &self.expected else { return Ok(Vec::new()) };
        let (keys, parties, replay, operations) = (self.keys.clone(), parties.clone(), *replay, plaintexts.len());
        let work = move || {
            let hashes = jose_provider().base();
            let verify =
                |token: &Zeroizing<Vec<u8>>| nested::verify(token, &parties, &keys, message, &replay, now_ms, hashes);
            plaintexts.iter().map(verify).collect::<Result<_, _>>()
        };
        Ok(pool::run(origin, operations, work).await??)
    }
}

impl Exchange<'_> {
    /// Verifies the signature over a message as it came, in a profile whose signatures stand beside the body, and returns its claim
    /// against replays if there is one.
    pub(super) async fn check_signature(
        &self,
        message: (&HeaderMap, &Bytes),
        may_be_absent: bool,
    ) -> Result<Option<Claim>, Fault> {
        let Some(verifier) = self.mle.verifier(self.origin)? else { return Ok(None) };
        let replay = self.mle.policy.profile.replay();
        verifier.check(self.origin, message, may_be_absent, replay, self.authority.now_ms()).await
    }

    /// Rejects a message without a body where signatures stand inside of tokens: such a message has none.
    pub(super) fn check_no_token(&self) -> Result<(), Fault> {
        match self.mle.verifier(self.origin)?.is_some_and(Verifier::is_nested) {
            true => Err(Refusal::new(Class::Signature, "a message without a body has no signature").into()),
            false => Ok(()),
        }
    }

    /// Signs the answer of an inbound route to a request of this method, in a profile whose signatures stand beside the body.
    pub(super) async fn signed(&self, method: &Method, answer: Response<Bytes>) -> Result<Response<Bytes>, Fault> {
        let (mut parts, body) = answer.into_parts();
        let has_body = method != Method::HEAD && !has_no_body(parts.status);
        if let Some(signer) = self.mle.sign.as_ref().filter(|_| has_body) {
            let now_ms = self.authority.now_ms();
            let kid = signer.sign_answer(self.origin, &mut parts.headers, &body, now_ms).await?;
            kid.into_iter().for_each(|kid| self.count_signature(Some(kid)));
            self.count_sign_use(signer);
        }
        Ok(Response::from_parts(parts, body))
    }
}

/// Returns whether answers of a status have no body (RFC 9110 section 6.4.1).
pub(super) fn has_no_body(status: StatusCode) -> bool {
    [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
}
