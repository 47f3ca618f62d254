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

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use super::*;

    #[test]
    fn the_length_of_a_plaintext_leaves_out_the_room_for_the_iv() {
        let mut buffer = SealBuffer::with_capacity(3);
        assert!(buffer.is_empty());
        assert_eq!(buffer.len(), 0);
        buffer.extend(b"abc");
        assert!(!buffer.is_empty() && buffer.len() == 3);
        assert_eq!(format!("{buffer:?}"), "SealBuffer(3 bytes)");
        let bytes = buffer.into_inner();
        assert_eq!(bytes, [&[0; IV_LEN][..], b"abc"].concat());
        assert!(bytes.capacity() >= IV_LEN + 3 + TAG_LEN, "sealing needs no other buffer");
        assert_eq!(SealBuffer::from(&b"abcd"[..]).into_inner(), [&[0; IV_LEN][..], b"abcd"].concat());
    }

    #[test]
    fn an_opened_message_is_a_range_of_its_buffer_and_its_text_is_not_printed() {
        let opened = Plaintext::new(vec![1, 2, 3, 4], 1..3);
        assert_eq!((opened.as_slice(), format!("{opened:?}").as_str()), (&[2, 3][..], "Plaintext(2 bytes)"));
        assert_eq!(opened.into_parts(), (vec![1, 2, 3, 4], 1..3));
        assert!(Plaintext::new(vec![1], 1..3).as_slice().is_empty());
    }
}
