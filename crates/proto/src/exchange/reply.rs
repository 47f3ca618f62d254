//! The answer to a sealed request.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::rejection::ErrorAnswer;
use crate::crypto::Provider;
use crate::error::Error;
use crate::limits::X_SEALED_LEN_MAX;
use crate::session::three::{FrameSealer, InnerHeaders, SealHeaders};
use crate::session::{self, Laps, SealBuffer, SealRandoms, SealedMessage, Session, three};
use crate::wire::base64;

/// The part of a request that sealing its answer needs.
#[derive(Debug)]
pub enum Reply {
    /// Wires 1 and 2.
    Compat(session::Reply),
    /// Wire 3.
    Native(three::Reply),
}

/// A way to seal an answer.
#[derive(Debug)]
pub enum AnswerSeal<'a> {
    /// As a whole, when all of its body is there. Its headers stay outside.
    Whole(WholeSeal<'a>),
    /// Frame by frame as its body comes, with its headers within.
    Frames(FrameSeal<'a>),
    /// Not at all: this is told instead.
    Plain(ErrorAnswer),
}

/// Seals a whole answer.
#[derive(Debug)]
pub struct WholeSeal<'a> {
    reply: &'a session::Reply,
    status: u16,
}

/// Seals an answer frame by frame.
#[derive(Debug)]
pub struct FrameSeal<'a> {
    reply: &'a three::Reply,
    status: u16,
    is_bodyless: bool,
}

impl Reply {
    /// The session.
    pub fn session(&self) -> &Arc<Session> {
        match self {
            Reply::Compat(reply) => reply.session(),
            Reply::Native(reply) => reply.session(),
        }
    }

    /// How a service's answer of this status is sealed; `is_head` if it answers a `HEAD`.
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
    /// The status that the answer is sent with.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Seals the body.
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

    /// Whether the answer has no body: its stream then goes into a header, by [`FrameSeal::in_header`].
    pub fn is_bodyless(&self) -> bool {
        self.is_bodyless
    }

    /// Begins the answer: the headers of its seal, and what writes its frames. The first one begins with the inner headers.
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

    /// A stream of one frame, for a body that is all there.
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

    /// The value of `X-Sealed` in an answer without a body.
    ///
    /// # Errors
    /// [`Error::InnerHeadersInvalid`] for headers that are too many, [`Error::Provider`].
    pub fn in_header(sealer: FrameSealer, inner: &InnerHeaders) -> Result<String, Error> {
        let value = base64::encode(&Self::one_frame(sealer, inner, &[])?);
        if value.len() <= X_SEALED_LEN_MAX { Ok(value) } else { Err(Error::InnerHeadersInvalid) }
    }
}
