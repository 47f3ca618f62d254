//! The Encrypted HTTP Body Protocol, version 0.3.1 of its specification, at a server: bodies of requests and answers in frames under an
//! HPKE context. Method, target, headers and status are in the clear and not authenticated, and neither is the end of a body.
//!
//! ```text
//! frame = length of ciphertext (4) ‖ ciphertext with tag
//! ```
//!
//! A request is read by [`Frames`], its first frame opened by [`open`]. What has opened stays inaccessible until its claim is reserved.
//! [`ClientRequest`] is the other side.

mod client;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use self::client::{ClientAnswer, ClientRequest};
use crate::answer_key::AnswerKey;
use crate::crypto::agreement::AgreementProvider;
use crate::error::Error;
use crate::hpke::{Aead, Context, HpkeError, Kem, PrivateKey, Receiver, Suite, setup_receiver};
use crate::limits::{KEY_LEN, TAG_LEN};
use crate::session::{Claim, NonceGuard};
use zeroize::Zeroizing;

/// The header of a request with the encapsulated secret, in lower case.
pub const ENCAPSULATED_KEY: &str = "ehbp-encapsulated-key";
/// The header of an answer with its nonce, in lower case.
pub const RESPONSE_NONCE: &str = "ehbp-response-nonce";
/// Length of an encapsulated secret, in bytes.
pub const ENC_LEN: usize = 32;
/// Length of an answer's nonce, in bytes.
pub const RESPONSE_NONCE_LEN: usize = 32;
/// Most plaintext in a frame that this module seals, in bytes.
pub const FRAME_MAX: usize = 64 * 1024;
/// Most frames of a message that carry no plaintext.
pub const EMPTY_FRAMES_MAX: u32 = 65_536;

/// The one suite of the protocol (section 3.2).
pub const SUITE: Suite = Suite { kem: Kem::X25519, aead: Aead::Aes256Gcm };
const INFO: &[u8] = b"ehbp request";
const EXPORT: &[u8] = b"ehbp response";
/// A frame's length, in bytes.
const LEN_LEN: usize = 4;

/// The reasons to reject a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EhbpError {
    /// The header with the encapsulated secret is not 64 digits of 0-9 a-f.
    #[error("Ehbp-Encapsulated-Key is not 64 lower-case hexadecimal digits")]
    Header,
    /// The header with an answer's nonce is not 64 digits of 0-9 a-f.
    #[error("Ehbp-Response-Nonce is not 64 lower-case hexadecimal digits")]
    ResponseNonce,
    /// The encapsulated secret is a point of small order.
    #[error("Ehbp-Encapsulated-Key is no key to agree a secret with")]
    EncapsulatedKey,
    /// A frame is shorter than a tag.
    #[error("a frame of {0} bytes is shorter than its tag")]
    FrameTooShort(u32),
    /// A frame is longer than its bound.
    #[error("a frame of {0} bytes is over its bound")]
    FrameTooLong(u32),
    /// Too many frames have no plaintext.
    #[error("more than 65536 frames without plaintext")]
    TooManyEmptyFrames,
    /// The body ends within a frame.
    #[error("the body ends within a frame")]
    Truncated,
    /// The body has no frame with a ciphertext.
    #[error("the header is there and the body is empty")]
    Empty,
    /// The first frame opens with no key.
    #[error("the first frame opens with no live key")]
    KeyMismatch,
    /// A later frame does not open.
    #[error("a frame behind the first does not open")]
    Unsealable,
    /// A client has a key that is none of X25519, or that no secret can be agreed with.
    #[error("the service's key is no key of X25519 to agree a secret with")]
    Key,
    /// A frame of an answer does not open.
    #[error("a frame of the answer does not open")]
    Answer,
    /// The key is over, or the provider failed.
    #[error("the request cannot be claimed: {0}")]
    Claim(Error),
    /// The crypto module reported a failure.
    #[error("crypto module failure")]
    Provider,
}

impl EhbpError {
    /// Returns a stable name for metrics and logs.
    pub fn class(&self) -> &'static str {
        match self {
            EhbpError::Header => "header_invalid",
            EhbpError::ResponseNonce => "response_nonce_invalid",
            EhbpError::EncapsulatedKey => "encapsulated_key",
            EhbpError::FrameTooShort(_) => "frame_too_short",
            EhbpError::FrameTooLong(_) => "body_too_large",
            EhbpError::TooManyEmptyFrames => "empty_frames",
            EhbpError::Truncated => "stream_truncated",
            EhbpError::Empty => "body_empty",
            EhbpError::KeyMismatch => "key_mismatch",
            EhbpError::Unsealable => "unsealable",
            EhbpError::Key => "key_invalid",
            EhbpError::Answer => "answer_unsealable",
            EhbpError::Claim(_) => "key_over",
            EhbpError::Provider => "provider",
        }
    }
}

/// Parses the encapsulated secret of a header's value.
///
/// # Errors
/// [`EhbpError::Header`].
pub fn parse_encapsulated_key(value: &[u8]) -> Result<[u8; ENC_LEN], EhbpError> {
    parse_hex(value).ok_or(EhbpError::Header)
}

/// Parses 32 bytes in lower-case hexadecimal digits.
fn parse_hex(value: &[u8]) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    let (pairs, rest) = value.as_chunks::<2>();
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (to, &[high, low]) in bytes.iter_mut().zip(pairs) {
        *to = digit(high)? << 4 | digit(low)?;
    }
    Some(bytes)
}

fn hex(bytes: &[u8; 32]) -> String {
    use fmt::Write;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Derives the key of the answer with this nonce from the context of its request (section 4.4).
fn answer_key<Role>(
    provider: &dyn AgreementProvider,
    context: &Context<Role>,
    enc: &[u8; ENC_LEN],
    nonce: &[u8; RESPONSE_NONCE_LEN],
) -> Result<AnswerKey, EhbpError> {
    let mut secret = Zeroizing::new([0; KEY_LEN]);
    context.export(provider, EXPORT, secret.as_mut_slice()).map_err(|_| EhbpError::Provider)?;
    AnswerKey::derive(provider, SUITE.aead, &*secret, enc, nonce).map_err(|_| EhbpError::Provider)
}

/// Cuts plaintext into frames of at most [`FRAME_MAX`] bytes, each of which `seal` appends; returns nothing for nothing.
fn seal_frames(
    plaintext: &[u8],
    mut seal: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), EhbpError>,
) -> Result<Vec<u8>, EhbpError> {
    let frames = plaintext.len().div_ceil(FRAME_MAX);
    let mut sealed = Vec::with_capacity(plaintext.len() + frames * (LEN_LEN + TAG_LEN));
    for chunk in plaintext.chunks(FRAME_MAX) {
        sealed.extend_from_slice(&((chunk.len() + TAG_LEN) as u32).to_be_bytes());
        seal(chunk, &mut sealed)?;
    }
    Ok(sealed)
}

/// Cuts a body into the ciphertexts of its frames, as its bytes arrive. A claimed length takes no memory.
pub struct Frames {
    buffer: Vec<u8>,
    /// Bytes of the buffer that were returned already.
    used: usize,
    len_max: u32,
    empty: u32,
}

impl Frames {
    /// Creates a reader for frames of at most `plaintext_max` bytes of plaintext each.
    pub fn new(plaintext_max: usize) -> Frames {
        let len_max = u32::try_from(plaintext_max.saturating_add(TAG_LEN)).unwrap_or(u32::MAX);
        Frames { buffer: Vec::new(), used: 0, len_max, empty: 0 }
    }

    /// Adds bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.used > 0 {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next ciphertext, [`TAG_LEN`] bytes or more; `None` if it has not arrived whole. Frames of length 0 are skipped.
    ///
    /// # Errors
    /// [`EhbpError::FrameTooShort`], [`EhbpError::FrameTooLong`], [`EhbpError::TooManyEmptyFrames`], each when the length has arrived.
    pub fn next_ciphertext(&mut self) -> Result<Option<Vec<u8>>, EhbpError> {
        loop {
            let rest = self.buffer.get(self.used..).unwrap_or_default();
            let Some((len, rest)) = rest.split_first_chunk::<LEN_LEN>() else { return Ok(None) };
            let len = u32::from_be_bytes(*len);
            if len > self.len_max {
                return Err(EhbpError::FrameTooLong(len));
            }
            let frame_len = len as usize;
            if (1..TAG_LEN).contains(&frame_len) {
                return Err(EhbpError::FrameTooShort(len));
            }
            let Some(ciphertext) = rest.get(..frame_len) else { return Ok(None) };
            if frame_len <= TAG_LEN {
                self.empty += 1;
                if self.empty > EMPTY_FRAMES_MAX {
                    return Err(EhbpError::TooManyEmptyFrames);
                }
            }
            self.used += LEN_LEN + frame_len;
            if frame_len > 0 {
                let ciphertext = ciphertext.to_vec();
                // One long frame must not leave a long buffer for all that follow.
                if self.used > self.buffer.capacity() / 2 {
                    self.buffer = self.buffer.get(self.used..).unwrap_or_default().to_vec();
                    self.used = 0;
                }
                return Ok(Some(ciphertext));
            }
        }
    }

    /// Returns the number of bytes that are held.
    pub fn held(&self) -> usize {
        self.buffer.len() - self.used
    }

    /// Checks that the body ends between two frames.
    ///
    /// # Errors
    /// [`EhbpError::Truncated`].
    pub fn finish(&self) -> Result<(), EhbpError> {
        if self.held() == 0 { Ok(()) } else { Err(EhbpError::Truncated) }
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("held", &self.held()).finish_non_exhaustive()
    }
}

/// A key that may open a request, and its life.
#[derive(Clone, Copy, Debug)]
pub struct RequestKey<'a> {
    /// The private key, of X25519.
    pub private: &'a PrivateKey,
    /// SHA-256 of the key configuration.
    pub hash: &'a [u8; 32],
    /// Accepted from this time on until before the second, in Unix milliseconds.
    pub accepted_ms: (u64, u64),
}

/// A request whose first frame has opened.
pub struct OpenedRequest {
    plaintext: Zeroizing<Vec<u8>>,
    opener: Opener,
}

impl OpenedRequest {
    /// Returns the plaintext so far, and the opener of the rest.
    pub fn into_parts(self) -> (Zeroizing<Vec<u8>>, Opener) {
        (self.plaintext, self.opener)
    }
}

impl fmt::Debug for OpenedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedRequest").field("len", &self.plaintext.len()).finish_non_exhaustive()
    }
}

/// Opens the first frame with the first of `keys` that fits. Returns its index and the request, behind the claim of its encapsulated
/// secret: no other spelling of the secret opens, since DHKEM authenticates its bytes.
///
/// # Errors
/// [`EhbpError::KeyMismatch`] if no key fits, [`EhbpError::EncapsulatedKey`], [`EhbpError::Claim`], [`EhbpError::Provider`].
pub fn open<'a>(
    provider: &dyn AgreementProvider,
    keys: impl IntoIterator<Item = RequestKey<'a>>,
    enc: &[u8; ENC_LEN],
    first: &[u8],
    now_ms: u64,
) -> Result<(usize, NonceGuard<OpenedRequest>), EhbpError> {
    for (index, key) in keys.into_iter().enumerate() {
        let context = setup_receiver(provider, SUITE, key.private, enc, INFO, None);
        let mut context = context.map_err(|err| match err {
            HpkeError::Encapsulated => EhbpError::EncapsulatedKey,
            _ => EhbpError::Provider,
        })?;
        let mut buffer = Zeroizing::new(first.to_vec());
        let Ok(len) = context.open_in_place(&[], &mut buffer).map(|plaintext| plaintext.len()) else { continue };
        buffer.truncate(len);
        let claim = Claim::of_key(provider, key.hash, enc, key.accepted_ms, now_ms).map_err(EhbpError::Claim)?;
        let opener = Opener { context, enc: *enc };
        return Ok((index, NonceGuard::new(OpenedRequest { plaintext: buffer, opener }, claim)));
    }
    Err(EhbpError::KeyMismatch)
}

impl NonceGuard<OpenedRequest> {
    /// Opens the next frame and adds its plaintext to what the claim guards. Returns the length of the plaintext so far.
    ///
    /// # Errors
    /// [`EhbpError::Unsealable`].
    pub fn open_next(&mut self, ciphertext: &mut [u8]) -> Result<usize, EhbpError> {
        let OpenedRequest { plaintext, opener } = self.value_mut();
        plaintext.extend_from_slice(opener.open_next(ciphertext)?);
        Ok(plaintext.len())
    }

    /// Derives the key of an answer to a request that is not released: of its rejection.
    ///
    /// # Errors
    /// [`EhbpError::Provider`].
    pub fn answer(
        &mut self,
        provider: &dyn AgreementProvider,
        nonce: [u8; RESPONSE_NONCE_LEN],
    ) -> Result<AnswerSealer, EhbpError> {
        self.value_mut().opener.answer(provider, nonce)
    }
}

/// The context of a request: opens its frames and gives the key of its answer.
pub struct Opener {
    context: Context<Receiver>,
    enc: [u8; ENC_LEN],
}

impl Opener {
    /// Opens the next frame in place and returns its plaintext.
    ///
    /// # Errors
    /// [`EhbpError::Unsealable`].
    pub fn open_next<'a>(&mut self, ciphertext: &'a mut [u8]) -> Result<&'a [u8], EhbpError> {
        self.context.open_in_place(&[], ciphertext).map(|plaintext| &*plaintext).map_err(|_| EhbpError::Unsealable)
    }

    /// Derives the key of an answer with this nonce, which must be random (section 4.4).
    ///
    /// # Errors
    /// [`EhbpError::Provider`].
    pub fn answer(
        &self,
        provider: &dyn AgreementProvider,
        nonce: [u8; RESPONSE_NONCE_LEN],
    ) -> Result<AnswerSealer, EhbpError> {
        let key = answer_key(provider, &self.context, &self.enc, &nonce)?;
        Ok(AnswerSealer { key, nonce })
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener(redacted)")
    }
}

/// Seals the frames of one answer.
pub struct AnswerSealer {
    key: AnswerKey,
    nonce: [u8; RESPONSE_NONCE_LEN],
}

impl AnswerSealer {
    /// Returns the value of the header with the nonce, 64 lower-case hexadecimal digits.
    pub fn nonce(&self) -> String {
        hex(&self.nonce)
    }

    /// Seals plaintext into frames of at most [`FRAME_MAX`] bytes, and returns them; nothing for nothing.
    ///
    /// # Errors
    /// [`EhbpError::Provider`], after which nothing more can be sealed.
    pub fn seal(&mut self, plaintext: &[u8]) -> Result<Vec<u8>, EhbpError> {
        seal_frames(plaintext, |chunk, out| self.key.seal(&[], chunk, out).map_err(|_| EhbpError::Provider))
    }
}

impl fmt::Debug for AnswerSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerSealer").field("sequence", &self.key.sequence()).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "aws-lc"))]
mod tests;
