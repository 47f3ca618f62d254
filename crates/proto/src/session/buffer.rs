//! Buffers that are sealed and opened in place, so that a body is copied at most once.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::limits::{IV_LEN, TAG_LEN};

/// A plaintext to be sealed, with room for the bytes that sealing adds.
pub struct SealBuffer(Vec<u8>);

impl SealBuffer {
    /// Creates an empty plaintext with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity.saturating_add(IV_LEN + TAG_LEN));
        bytes.extend_from_slice(&[0; IV_LEN]);
        SealBuffer(bytes)
    }

    /// Appends bytes to the plaintext.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Length of the plaintext, in bytes.
    pub fn len(&self) -> usize {
        self.0.len().saturating_sub(IV_LEN)
    }

    /// Returns whether the plaintext is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the whole buffer: room for the IV, then the plaintext.
    pub(crate) fn into_inner(self) -> Vec<u8> {
        self.0
    }
}

impl From<&[u8]> for SealBuffer {
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = SealBuffer::with_capacity(bytes.len());
        buffer.extend(bytes);
        buffer
    }
}

impl fmt::Debug for SealBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealBuffer({} bytes)", self.len())
    }
}

/// An opened message: the plaintext within the buffer that it arrived in.
pub struct Plaintext {
    buffer: Vec<u8>,
    range: Range<usize>,
}

impl Plaintext {
    pub(crate) fn new(buffer: Vec<u8>, range: Range<usize>) -> Self {
        Plaintext { buffer, range }
    }

    /// Returns the plaintext as a slice of the buffer.
    pub fn as_slice(&self) -> &[u8] {
        self.buffer.get(self.range.clone()).unwrap_or_default()
    }

    /// Returns the buffer and the plaintext's range in it, for callers that share buffers instead of copying.
    pub fn into_parts(self) -> (Vec<u8>, Range<usize>) {
        (self.buffer, self.range)
    }
}

impl fmt::Debug for Plaintext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plaintext({} bytes)", self.range.len())
    }
}
