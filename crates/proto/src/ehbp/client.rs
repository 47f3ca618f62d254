//! The client's side: seals the frames of one request and opens those of its answer.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{
    ENC_LEN, EhbpError, FRAME_MAX, Frames, INFO, RESPONSE_NONCE_LEN, SUITE, answer_key, hex, parse_hex, seal_frames,
};
use crate::answer_key::AnswerKey;
use crate::crypto::agreement::AgreementProvider;
use crate::hpke::{Context, HpkeError, PublicKey, Sender, setup_sender};
use crate::limits::TAG_LEN;

/// A request whose body is being sealed.
pub struct ClientRequest {
    pub(super) context: Context<Sender>,
    enc: [u8; ENC_LEN],
}

impl ClientRequest {
    /// Encapsulates a fresh secret to a key of X25519.
    ///
    /// # Errors
    /// [`EhbpError::Key`], [`EhbpError::Provider`].
    pub fn begin(provider: &dyn AgreementProvider, key: &PublicKey) -> Result<ClientRequest, EhbpError> {
        let (enc, context) = setup_sender(provider, SUITE, key, INFO, None).map_err(|err| match err {
            HpkeError::Provider => EhbpError::Provider,
            _ => EhbpError::Key,
        })?;
        Ok(ClientRequest { context, enc: enc.try_into().map_err(|_| EhbpError::Provider)? })
    }

    /// Returns the value of the header with the encapsulated secret, 64 lower-case hexadecimal digits.
    pub fn encapsulated_key(&self) -> String {
        hex(&self.enc)
    }

    /// Seals plaintext into frames of at most [`FRAME_MAX`] bytes, and returns them; nothing for nothing.
    ///
    /// # Errors
    /// [`EhbpError::Provider`], after which nothing more can be sealed.
    pub fn seal(&mut self, plaintext: &[u8]) -> Result<Vec<u8>, EhbpError> {
        seal_frames(plaintext, |chunk, out| {
            out.extend_from_slice(&self.context.seal(&[], chunk).map_err(|_| EhbpError::Provider)?);
            Ok(())
        })
    }

    /// Begins to open an answer; `nonce` is the value of its header.
    ///
    /// # Errors
    /// [`EhbpError::ResponseNonce`], [`EhbpError::Provider`].
    pub fn answer(&self, provider: &dyn AgreementProvider, nonce: &[u8]) -> Result<ClientAnswer, EhbpError> {
        let nonce: [u8; RESPONSE_NONCE_LEN] = parse_hex(nonce).ok_or(EhbpError::ResponseNonce)?;
        Ok(ClientAnswer(answer_key(provider, &self.context, &self.enc, &nonce)?))
    }
}

/// An answer that is being opened. Whether its body is whole only HTTP's own framing shows.
pub struct ClientAnswer(pub(super) AnswerKey);

impl ClientAnswer {
    /// Opens the next frame in place and returns its plaintext.
    ///
    /// # Errors
    /// [`EhbpError::Answer`].
    pub fn open_next<'a>(&mut self, ciphertext: &'a mut [u8]) -> Result<&'a [u8], EhbpError> {
        self.0.open(&[], ciphertext).map_err(|_| EhbpError::Answer)
    }

    /// Opens all frames of a body that has arrived whole. Its frames may be longer than those of this module.
    ///
    /// # Errors
    /// [`EhbpError::Answer`], [`EhbpError::Truncated`] and the other errors of [`Frames`].
    pub fn open(&mut self, body: &[u8]) -> Result<Vec<u8>, EhbpError> {
        let mut frames = Frames::new(body.len().max(FRAME_MAX));
        frames.push(body);
        let mut plaintext = Vec::with_capacity(body.len().saturating_sub(TAG_LEN));
        while let Some(mut ciphertext) = frames.next_ciphertext()? {
            plaintext.extend_from_slice(self.open_next(&mut ciphertext)?);
        }
        frames.finish()?;
        Ok(plaintext)
    }
}

impl fmt::Debug for ClientRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientRequest(redacted)")
    }
}

impl fmt::Debug for ClientAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAnswer").field("sequence", &self.0.sequence()).finish_non_exhaustive()
    }
}
