//! The answer to a sealed request.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::refusal::Refusal;
use super::rejection::ErrorAnswer;
use crate::crypto::Provider;
use crate::error::Error;
use crate::limits::X_SEALED_LEN_MAX;
use crate::session::native::{FrameSealer, InnerHeaders, SealHeaders};
use crate::session::{self, Laps, SealBuffer, SealRandoms, SealedMessage, Session, native};
use crate::wire::base64;

/// The state of a request that sealing its answer needs.
#[derive(Debug)]
pub enum Reply {
    /// A request of `v1` or `v2`.
    Compat(session::Reply),
    /// A request of the native protocol.
    Native(native::Reply),
}

/// The way in which an answer is sealed.
#[derive(Debug)]
pub enum AnswerSeal<'a> {
    /// As a whole, after the complete body has arrived. The headers stay outside.
    Whole(WholeSeal<'a>),
    /// Frame by frame as the body arrives, with the headers inside.
    Frames(FrameSeal<'a>),
    /// Not sealed: the gateway sends this error instead of the answer.
    Plain(ErrorAnswer),
}

/// Seals a complete answer of `v1` or `v2`.
#[derive(Debug)]
pub struct WholeSeal<'a> {
    reply: &'a session::Reply,
    status: u16,
}

/// Seals an answer of the native protocol frame by frame.
#[derive(Debug)]
pub struct FrameSeal<'a> {
    reply: &'a native::Reply,
    status: u16,
    is_bodyless: bool,
}

impl Reply {
    /// Returns the session of the request.
    pub fn session(&self) -> &Arc<Session> {
        match self {
            Reply::Compat(reply) => reply.session(),
            Reply::Native(reply) => reply.session(),
        }
    }

    /// Returns the refusal of a request whose session ended with `ended` while the service worked on it. The service may have
    /// processed the request, and clients of v1 and v2 retry at 401 `SESSION_EXPIRED`. They receive 502 instead.
    // SPEC session-3.md#sealed-requests
    pub fn session_ended(&self, ended: Error) -> Refusal {
        match self {
            Reply::Compat(_) => Refusal::Unanswered(502),
            Reply::Native(_) => ended.into(),
        }
    }

    /// Returns the way in which a service's answer of this status is sealed. `is_head` is true for the answer to a `HEAD`
    /// request.
    ///
    /// # Errors
    /// The reason, where it cannot be sealed.
    // SPEC session.md#answer session-3.md#sealed-answers
    pub fn answer(&self, status: u16, is_head: bool) -> Result<AnswerSeal<'_>, &'static str> {
        match (self, status) {
            (Reply::Native(reply), _) => {
                let is_bodyless = is_head || matches!(status, 204 | 205 | 304);
                Ok(AnswerSeal::Frames(FrameSeal { reply, status, is_bodyless }))
            }
            (Reply::Compat(reply), 200..=299) => Ok(AnswerSeal::Whole(WholeSeal { reply, status: 200 })),
            (Reply::Compat(_), 400 | 422) => Ok(AnswerSeal::Plain(ErrorAnswer::plain(400, "CRYPTO_ERROR"))),
            // Without a body there is nothing to seal, and an unsealed answer proves nothing.
            (Reply::Compat(_), 304) => Err("it answered 304 to a POST"),
            (Reply::Compat(reply), _) => Ok(AnswerSeal::Whole(WholeSeal { reply, status })),
        }
    }
}

impl WholeSeal<'_> {
    /// Returns the HTTP status of the sealed answer.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Seals the whole body of the answer.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn seal(
        &self,
        body: SealBuffer,
        now_ms: u64,
        randoms: &SealRandoms,
        laps: Laps<'_>,
    ) -> Result<SealedMessage, Error> {
        self.reply.seal(self.status, body, now_ms, randoms, laps)
    }
}

impl FrameSeal<'_> {
    /// The media type outside the seal.
    pub const CONTENT_TYPE: &'static str = "application/octet-stream";

    /// Returns true if the answer has no body. Its stream is then sent in a header: [`FrameSeal::in_header`].
    pub fn is_bodyless(&self) -> bool {
        self.is_bodyless
    }

    /// Begins the answer. Returns the headers of the seal and the sealer of its frames. The first frame begins with the inner
    /// headers.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn begin(
        &self,
        provider: &dyn Provider,
        now_ms: u64,
        randoms: &SealRandoms,
    ) -> Result<(SealHeaders, FrameSealer), Error> {
        let content_type = if self.is_bodyless { "" } else { Self::CONTENT_TYPE };
        self.reply.seal(provider, self.status, content_type, now_ms, &randoms.nonce)
    }

    /// Returns a stream of one frame, for a body that is complete.
    ///
    /// # Errors
    /// [`Error::FrameInvalid`] for a body that is too long, [`Error::Provider`].
    pub fn one_frame(mut sealer: FrameSealer, inner: &InnerHeaders, body: &[u8]) -> Result<Vec<u8>, Error> {
        let mut stream = Vec::with_capacity(body.len() + 512);
        let begun = sealer.begin(&mut stream);
        inner.encode(&mut stream);
        stream.extend_from_slice(body);
        sealer.seal(&mut stream, begun, true)?;
        Ok(stream)
    }

    /// Returns the value of `X-Sealed` in an answer without a body.
    ///
    /// # Errors
    /// [`Error::InnerHeadersInvalid`] for headers that are too many, [`Error::Provider`].
    pub fn in_header(sealer: FrameSealer, inner: &InnerHeaders) -> Result<String, Error> {
        let value = base64::encode(&Self::one_frame(sealer, inner, &[])?);
        if value.len() <= X_SEALED_LEN_MAX { Ok(value) } else { Err(Error::InnerHeadersInvalid) }
    }
}
