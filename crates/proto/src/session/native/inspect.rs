//! A read-only third end, for development: a holder of a session's secret opens the messages of its two ends, and can seal
//! nothing. `spec/session-3.md#sealed-requests`.
//!
//! It reads no clock and claims no nonce: it is for inspection, never for serving.

use alloc::vec::Vec;
use core::fmt;

use super::call::{RequestLine, SealedRequest, answer_opener};
use super::frame::FrameOpener;
use super::schedule::Keys;
use crate::crypto::Provider;
use crate::error::Error;
use crate::session::keys::SessionKey;
use crate::wire::{Headers, SessionId};

/// The keys of a session, for inspection only.
pub struct Inspector {
    id: SessionId,
    keys: Keys,
}

impl Inspector {
    /// Creates the inspector of the session with this id and secret, as a client's key log has them.
    pub fn new(provider: &dyn Provider, id: &SessionId, secret: &SessionKey) -> Self {
        Inspector { id: *id, keys: Keys::new(provider, secret) }
    }

    /// Returns the id of the session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Begins to open a request's stream.
    ///
    /// # Errors
    /// [`Error::SessionUnknown`] for a request of another session, [`Error::Provider`].
    pub fn request(&self, provider: &dyn Provider, request: &SealedRequest<'_>) -> Result<FrameOpener, Error> {
        if request.session_id()? != &self.id {
            return Err(Error::SessionUnknown);
        }
        request.opener(provider, &self.keys, &self.id)
    }

    /// Begins to open the answer to the request with this line and nonce: returns the stream, if it came in `X-Sealed`, and its
    /// opener.
    ///
    /// # Errors
    /// Those of [`PendingAnswer::open`](super::PendingAnswer::open).
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
