//! A request on wire 4: its prefix gives the keys, which then open its frames as those of a session do.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::{BodyBounds, ErrorAnswer, FrameSeal, Opening, OpeningKind, Reply, Stream};
use crate::crypto::agreement::AgreementProvider;
use crate::error::Error;
use crate::limits::{KEY_LEN, X_SEALED_LEN_MAX};
use crate::one_shot::prefix::PrefixReader;
use crate::one_shot::{Prefix, RecipientKey, setup};
use crate::session::native::{InnerHeaders, SealHeaders, SealedRequest};
use crate::session::{Claim, native};
use crate::wire::header::X_SEALED;
use crate::wire::nonce::PROBLEM_PREFIX;
use crate::wire::{ReplayPolicy, Wire, base64};

/// A request whose key is known. The prefix of its stream is read next.
pub struct HpkeOpening<'a> {
    request: SealedRequest<'a>,
    key: Arc<dyn RecipientKey>,
    policy: ReplayPolicy,
}

impl<'a> HpkeOpening<'a> {
    pub(super) fn begin(
        mut request: SealedRequest<'a>,
        key: Arc<dyn RecipientKey>,
        policy: ReplayPolicy,
    ) -> Result<(Self, Stream), Error> {
        if request.key_name().is_none() || request.session_id() != Ok(&setup::id_of(key.hash())) {
            return Err(Error::KeyRetired);
        }
        let reader = PrefixReader::new(key.private().public_key().kem());
        let stream = Stream::prefix(reader, request.take_sealed());
        Ok((HpkeOpening { request, key, policy }, stream))
    }

    /// Returns the longest sealed body that may follow, in bytes.
    pub fn body_max(&self, bounds: BodyBounds) -> u64 {
        bounds.stream
    }

    /// Decapsulates the prefix and goes on to the frames of `stream`, at `now_ms`. `psk` is the key of the prefix's name: where there is
    /// no such name, another one, so that the client learns neither from the answer nor from its time.
    ///
    /// # Errors
    /// [`Error::Unsealable`], [`Error::Provider`].
    // SPEC one-shot.md#steps-of-the-server
    pub fn open(
        self,
        provider: &dyn AgreementProvider,
        prefix: &Prefix,
        psk: Option<&[u8; KEY_LEN]>,
        stream: &mut Stream,
        now_ms: u64,
    ) -> Result<Opening<'a>, Error> {
        let session = setup::session(provider, &*self.key, prefix, psk, now_ms)?;
        // Any client can make a request in mode base.
        let (scope, is_sealed) = ((self.key.hash(), prefix.enc.as_slice()), prefix.psk_id.is_some());
        let (opener, opening) = self.request.open_one_shot(provider, session.clone(), |stamp| {
            Claim::one_shot(provider, scope, is_sealed, stamp, now_ms, &self.policy)
        })?;
        stream.keyed(opener);
        Ok(Opening { session, kind: OpeningKind::Native(opening) })
    }
}

impl fmt::Debug for HpkeOpening<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HpkeOpening").field("request", &self.request).finish_non_exhaustive()
    }
}

impl Reply {
    /// Returns the state that seals a problem in answer to the request; `None` on other wires than wire 4.
    pub fn problem_seal(&self) -> Option<ProblemSeal> {
        match self {
            Reply::Native(reply) if reply.session().record().wire == Wire::OneShot => Some(ProblemSeal(reply.clone())),
            _ => None,
        }
    }
}

/// Seals a problem of the server in answer to a request on wire 4, which then is proven to come from the holder of the key.
// SPEC one-shot.md#the-answer
#[derive(Clone, Debug)]
pub struct ProblemSeal(native::Reply);

/// A sealed problem: its headers and the body, which is empty if the stream is in a header.
#[derive(Debug)]
pub struct SealedProblem {
    /// Lower-case names and their values.
    pub headers: SealHeaders,
    /// The sealed stream, if it is in no header.
    pub body: Vec<u8>,
}

impl ProblemSeal {
    /// Seals a problem, whose status stays. `is_head` is true for the answer to a `HEAD` request, which has no body.
    ///
    /// # Errors
    /// [`Error::Provider`]; [`Error::InnerHeadersInvalid`] for a problem that is too long for a header.
    pub fn seal(
        &self,
        provider: &dyn AgreementProvider,
        problem: &ErrorAnswer,
        is_head: bool,
        now_ms: u64,
        nonce: &[u8; 16],
    ) -> Result<SealedProblem, Error> {
        let mut inner = InnerHeaders::new();
        for (name, value) in &problem.headers {
            inner.push(name, value.as_bytes())?;
        }
        let content_type = if is_head { "" } else { FrameSeal::CONTENT_TYPE };
        let nonce = (PROBLEM_PREFIX, nonce);
        let (mut headers, sealer) = self.0.seal_as(provider, problem.status, content_type, now_ms, nonce)?;
        let stream = FrameSeal::one_frame(sealer, &inner, problem.body.as_bytes())?;
        headers.push(("cache-control", String::from("no-store, no-transform")));
        if let Some((name, value)) = problem.headers.iter().find(|(name, _)| *name == "retry-after") {
            headers.push((*name, value.clone()));
        }
        if !is_head {
            headers.push(("content-type", String::from(content_type)));
            return Ok(SealedProblem { headers, body: stream });
        }
        let value = base64::encode(&stream);
        if value.len() > X_SEALED_LEN_MAX {
            return Err(Error::InnerHeadersInvalid);
        }
        headers.push((X_SEALED, value));
        Ok(SealedProblem { headers, body: Vec::new() })
    }
}
