//! RFC 4648 section 4 base64: standard alphabet, padded, canonical; anything else is rejected.

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::Error;

/// Encodes bytes as padded base64.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes a canonical, padded text.
///
/// # Errors
/// [`Error::Base64Invalid`] for another alphabet, missing padding, stray bits, spaces or line ends.
pub fn decode(text: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
    STANDARD.decode(text).map_err(|_| Error::Base64Invalid)
}

/// Decodes a text of exactly `N` bytes.
///
/// # Errors
/// [`Error::Base64Invalid`], for a wrong length too.
pub fn decode_array<const N: usize>(text: impl AsRef<[u8]>) -> Result<[u8; N], Error> {
    decode(text)?.try_into().map_err(|_| Error::Base64Invalid)
}
