//! A third end, for development: who has a session's secret opens what its two ends send each other, and can seal nothing.
//! `spec/session-3.md#sealed-requests`.
//!
//! It asks for no clock and claims no nonce: it is for looking on, never for serving.

use alloc::vec::Vec;
use core::fmt;

use super::call::{RequestLine, SealedRequest, answer_opener};
use super::frame::FrameOpener;
use super::schedule::Keys;
use crate::crypto::Provider;
use crate::error::Error;
use crate::session::keys::SessionKey;
use crate::wire::{Headers, SessionId};

/// The keys of a session, for looking on.
pub struct Inspector {
    id: SessionId,
    keys: Keys,
}

impl Inspector {
    /// Of the session with this id and secret, as a client's key log has them.
    pub fn new(provider: &dyn Provider, id: &SessionId, secret: &SessionKey) -> Self {
        Inspector { id: *id, keys: Keys::new(provider, secret) }
    }

    /// The session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Opens a request's stream.
    ///
    /// # Errors
    /// [`Error::SessionUnknown`] for another session's, [`Error::Provider`].
    pub fn request(&self, provider: &dyn Provider, request: &SealedRequest<'_>) -> Result<FrameOpener, Error> {
        if request.session_id()? != &self.id {
            return Err(Error::SessionUnknown);
        }
        request.opener(provider, &self.keys, &self.id)
    }

    /// Opens the answer to the request with this line and nonce: its stream, where it came in `X-Sealed`, and what opens it.
    ///
    /// # Errors
    /// As of [`PendingAnswer::open`](super::PendingAnswer::open).
    pub fn answer(
        &self,
        provider: &dyn Provider,
        request: (RequestLine<'_>, &str),
        headers: &impl Headers,
        status: u16,
    ) -> Result<(Option<Vec<u8>>, FrameOpener), Error> {
        answer_opener(provider, &self.keys, &self.id, request, headers, status)
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector").field("id", &self.id).finish_non_exhaustive()
    }
}
