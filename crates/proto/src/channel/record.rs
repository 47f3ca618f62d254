//! Sealing and opening of records, one interface over both profiles.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::channel::ChannelError;
use crate::channel::noise::record::{NativeOpener, NativeSealer};
use crate::channel::v1::record::{V1Opener, V1Sealer};

/// The content of a record to send. A profile may have no record for it: v1 knows data, `Ping(0)` and rekey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes of the application's stream.
    Data,
    /// A keepalive. A native peer sends the number back.
    Ping(u64),
    /// The answer to a ping, with its number.
    Pong(u64),
    /// The last record of this direction.
    Close(CloseReason),
    /// This direction's key changes after this record.
    Rekey,
}

/// The reason for the close of a channel, authenticated by the peer that closed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReason {
    /// A number; 0 is an orderly end, other numbers are the application's.
    pub code: u16,
    /// Text for people, at most 123 bytes.
    pub reason: String,
}

/// The content of a received record, decrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordContent<'m> {
    /// Bytes of the stream, in the place of the ciphertext.
    Data(&'m [u8]),
    /// The peer is alive; in the native profile it expects its number back.
    Ping(u64),
    /// The answer to a ping.
    Pong(u64),
    /// The peer has changed its key.
    Rekeyed,
    /// The peer has closed its direction; nothing follows.
    Closed(CloseReason),
}

/// Seals the records that this side sends. One for a connection, for its lifetime.
pub struct Sealer {
    pub(crate) profile: SealerProfile,
    pub(crate) is_over: bool,
}

pub(crate) enum SealerProfile {
    V1(V1Sealer),
    Native(NativeSealer),
}

/// Opens the records that the peer sends. One for a connection, for its lifetime.
pub struct Opener {
    pub(crate) profile: OpenerProfile,
    pub(crate) is_over: bool,
}

pub(crate) enum OpenerProfile {
    V1(V1Opener),
    Native(NativeOpener),
}

impl Sealer {
    pub(crate) fn new(profile: SealerProfile) -> Self {
        Sealer { profile, is_over: false }
    }

    /// Appends one whole record to `out`. `plaintext` goes with [`Content::Data`] alone, at most [`Sealer::plaintext_max`]
    /// bytes. The native profile changes its key by itself when it is due, by the number of records and by `now_ms`, which may
    /// come from any clock that does not go backwards.
    ///
    /// # Errors
    /// [`ChannelError::ContentUnsupported`] and [`ChannelError::ContentTooLarge`] use up no number. After any other error, and
    /// after a close, the sealer seals nothing more, and `out` may hold part of a record.
    pub fn seal(
        &mut self,
        content: Content,
        plaintext: &[u8],
        out: &mut Vec<u8>,
        now_ms: u64,
    ) -> Result<(), ChannelError> {
        if self.is_over {
            return Err(ChannelError::ChannelClosed);
        }
        let sealed = match &mut self.profile {
            SealerProfile::V1(sealer) => sealer.seal(&content, plaintext, out),
            SealerProfile::Native(sealer) => sealer.seal(&content, plaintext, out, now_ms),
        };
        self.is_over = match &sealed {
            Ok(()) => matches!(content, Content::Close(_)),
            Err(error) => !matches!(error, ChannelError::ContentUnsupported | ChannelError::ContentTooLarge),
        };
        sealed
    }

    /// Returns the largest length of a data record's content, in bytes.
    pub fn plaintext_max(&self) -> usize {
        match &self.profile {
            SealerProfile::V1(sealer) => sealer.content_max(),
            SealerProfile::Native(sealer) => sealer.content_max(),
        }
    }
}

impl Opener {
    pub(crate) fn new(profile: OpenerProfile) -> Self {
        Opener { profile, is_over: false }
    }

    /// Opens one whole message in place.
    ///
    /// # Errors
    /// The defect of the record. Each is fatal: afterwards, and after a close, every record is [`ChannelError::ChannelClosed`].
    pub fn open<'m>(&mut self, message: &'m mut [u8]) -> Result<RecordContent<'m>, ChannelError> {
        if self.is_over {
            return Err(ChannelError::ChannelClosed);
        }
        // Until the record is authenticated, no return from here leaves a failed channel open.
        self.is_over = true;
        let opened = match &mut self.profile {
            OpenerProfile::V1(opener) => opener.open(message),
            OpenerProfile::Native(opener) => opener.open(message),
        }?;
        self.is_over = matches!(opened, RecordContent::Closed(_));
        Ok(opened)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(redacted)")
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener(redacted)")
    }
}
