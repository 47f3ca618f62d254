//! Bodies on a route with `sealed: ehbp`: frames of a request as they arrive, a request that is opened on its way, and an answer that is
//! sealed on its way.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use sealway_exchange::body::Incoming;
use sealway_proto::ehbp::{AnswerSealer, EhbpError, Frames, Opener};
use sealway_runtime::http::share::Share;
use sealway_runtime::http::{Body, BodyError, BodyRefusal};
use zeroize::Zeroizing;

use crate::body::refusal_behind;
use crate::sealed::SealedBody;

/// The reasons for which a request is answered in the clear.
#[derive(Debug)]
pub(super) enum Fault {
    /// The header or a frame is rejected.
    Refused(EhbpError),
    /// The body could not be read.
    Body(BodyRefusal),
    /// The request has no seal, and the route does not pass it.
    Unsealed,
}

impl From<EhbpError> for Fault {
    fn from(err: EhbpError) -> Fault {
        Fault::Refused(err)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Refused(err) => err.fmt(f),
            Fault::Body(refusal) => refusal.fmt(f),
            Fault::Unsealed => f.write_str("the request is not sealed, and ehbp.unsealed does not pass it"),
        }
    }
}

/// The ciphertexts of a request's body.
pub(super) struct Ciphertexts {
    body: SealedBody,
    frames: Frames,
    /// Bytes that arrived and whose room is not released.
    held: u64,
    is_over: bool,
}

impl Ciphertexts {
    /// Reads frames of at most `plaintext_max` bytes of plaintext each.
    pub(super) fn new(body: SealedBody, plaintext_max: usize) -> Ciphertexts {
        Ciphertexts { body, frames: Frames::new(plaintext_max), held: 0, is_over: false }
    }

    /// Returns the next ciphertext; `None` at the end of the body.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Fault>> {
        loop {
            if let Some(ciphertext) = self.frames.next_ciphertext()? {
                return Poll::Ready(Ok(Some(ciphertext)));
            }
            if self.is_over {
                return Poll::Ready(self.frames.finish().map(|()| None).map_err(Fault::Refused));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                // Trailers are not sealed, and dropped.
                Some(Ok(frame)) => {
                    let data = frame.data_ref().map(|data| &**data).unwrap_or_default();
                    self.frames.push(data);
                    self.held += data.len() as u64;
                }
                Some(Err(err)) => {
                    let refusal = refusal_behind(&*err).unwrap_or(BodyRefusal::Broken);
                    return Poll::Ready(Err(Fault::Body(refusal)));
                }
                None => self.is_over = true,
            }
        }
    }

    /// Releases the room of all bytes but those that wait for the end of their frame.
    fn release(&mut self) {
        let waiting = self.frames.held() as u64;
        self.body.release(self.held.saturating_sub(waiting));
        self.held = waiting;
    }

    /// Reads and drops the rest of a rejected body, so that its client can read the answer.
    pub(super) async fn discard(self, fault: &Fault) {
        if !matches!(fault, Fault::Body(BodyRefusal::Broken | BodyRefusal::TooSlow)) {
            self.body.discard().await;
        }
    }

    /// Returns the room of the bytes that arrived.
    pub(super) fn into_room(self) -> Share {
        self.body.into_room()
    }
}

/// A request's body that opens on its way to the service. If a frame does not open, or the body breaks off, it ends with an error, never
/// short.
pub(super) struct StreamedRequest {
    first: Option<Bytes>,
    opener: Opener,
    ciphertexts: Ciphertexts,
}

impl StreamedRequest {
    /// Creates the body with the plaintext of its first frame.
    pub(super) fn new(first: Zeroizing<Vec<u8>>, opener: Opener, ciphertexts: Ciphertexts) -> StreamedRequest {
        StreamedRequest { first: Some(Bytes::from_owner(first)), opener, ciphertexts }
    }
}

impl HttpBody for StreamedRequest {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if let Some(first) = this.first.take().filter(|first| !first.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        loop {
            let polled = this.ciphertexts.poll_next(cx);
            // Also of the first frame, and of frames and lengths that carry nothing.
            this.ciphertexts.release();
            let refusal = match ready!(polled) {
                Ok(None) => return Poll::Ready(None),
                Ok(Some(mut ciphertext)) => match this.opener.open_next(&mut ciphertext).map(<[u8]>::len) {
                    Ok(0) => continue,
                    Ok(len) => {
                        ciphertext.truncate(len);
                        return Poll::Ready(Some(Ok(Frame::data(ciphertext.into()))));
                    }
                    Err(_) => BodyRefusal::Broken,
                },
                Err(Fault::Body(refusal)) => refusal,
                Err(Fault::Refused(EhbpError::FrameTooLong(_))) => BodyRefusal::TooLarge,
                Err(Fault::Refused(_) | Fault::Unsealed) => BodyRefusal::Broken,
            };
            return Poll::Ready(Some(Err(refusal.into())));
        }
    }
}

/// An answer's body that is sealed on its way to the client. If the service breaks off, it ends with an error, so that its HTTP framing
/// shows the cut, which the protocol's own does not.
pub(super) struct SealedAnswer {
    body: Body,
    sealer: AnswerSealer,
}

impl SealedAnswer {
    /// Creates the body with the sealer of its frames.
    pub(super) fn new(body: Body, sealer: AnswerSealer) -> SealedAnswer {
        SealedAnswer { body, sealer }
    }
}

impl HttpBody for SealedAnswer {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let data = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(err)) => return Poll::Ready(Some(Err(err))),
                None => return Poll::Ready(None),
            };
            if !data.is_empty() {
                let sealed = self.sealer.seal(&data).map(|sealed| Frame::data(sealed.into()));
                return Poll::Ready(Some(sealed.map_err(Into::into)));
            }
        }
    }
}
