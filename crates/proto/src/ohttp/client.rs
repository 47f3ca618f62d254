//! The client's side: encapsulates one request and opens its answer.

use alloc::vec::Vec;
use core::fmt;

use super::parts::{PartReader, PartWriter};
use super::{Form, HEADER_LEN, OhttpError, answer_key, info, nonce_len};
use crate::answer_key::AnswerKey;
use crate::crypto::agreement::AgreementProvider;
use crate::hpke::{Aead, Context, HpkeError, Sender, Suite, setup_sender};
use crate::one_shot::KeyConfig;

/// A request that is being encapsulated.
pub struct ClientRequest {
    form: Form,
    suite: Suite,
    enc: Vec<u8>,
    writer: PartWriter<Context<Sender>>,
}

impl ClientRequest {
    /// Encapsulates a fresh secret to the key of `config`, with one of its suites.
    ///
    /// # Errors
    /// [`OhttpError::Config`], [`OhttpError::Provider`].
    pub fn begin(
        provider: &dyn AgreementProvider,
        form: Form,
        config: &KeyConfig,
        suite: Suite,
    ) -> Result<ClientRequest, OhttpError> {
        if suite.aead == Aead::ExportOnly || !config.suites().any(|published| published == suite) {
            return Err(OhttpError::Config);
        }
        let mut front = Vec::with_capacity(HEADER_LEN + suite.kem.enc_len());
        front.push(config.key_id());
        for id in [suite.kem.id(), crate::hpke::KDF_HKDF_SHA256, suite.aead.id()] {
            front.extend_from_slice(&id.to_be_bytes());
        }
        let set_up = setup_sender(provider, suite, config.public_key(), &info(form, &front), None);
        let (enc, context) = set_up.map_err(|err| match err {
            HpkeError::Provider => OhttpError::Provider,
            _ => OhttpError::Config,
        })?;
        front.extend_from_slice(&enc);
        Ok(ClientRequest { form, suite, enc, writer: PartWriter::new(form, front, context) })
    }

    /// Seals the next part of the message and appends it to `out`, the first part behind header and `enc`. A whole message has one
    /// part, which is the last. A part that is empty and not the last writes nothing.
    ///
    /// # Errors
    /// [`OhttpError::Order`] behind the last part and for a whole message in parts, [`OhttpError::ChunksTooMany`],
    /// [`OhttpError::Provider`].
    pub fn seal(&mut self, out: &mut Vec<u8>, part: &[u8], is_last: bool) -> Result<(), OhttpError> {
        self.writer.seal(out, part, is_last)
    }

    /// Begins to open an answer. Takes its nonce from `input`, which must begin with all of it.
    ///
    /// # Errors
    /// [`OhttpError::Truncated`] for an answer that ends within its nonce, [`OhttpError::Provider`].
    pub fn answer(&self, provider: &dyn AgreementProvider, input: &mut &[u8]) -> Result<ClientAnswer, OhttpError> {
        let (nonce, rest) = input.split_at_checked(nonce_len(self.suite)).ok_or(OhttpError::Truncated)?;
        let key = answer_key(provider, (self.form, self.suite), &self.writer.key, &self.enc, nonce)?;
        *input = rest;
        Ok(ClientAnswer(PartReader::new(key, OhttpError::Answer)))
    }
}

/// An encapsulated answer that is being opened.
pub struct ClientAnswer(PartReader<AnswerKey>);

impl ClientAnswer {
    /// Opens the ciphertext of a whole answer in place, and cuts it to its plaintext.
    ///
    /// # Errors
    /// [`OhttpError::Truncated`] for less than a tag, [`OhttpError::Answer`].
    pub fn open(&mut self, sealed: &mut Vec<u8>) -> Result<(), OhttpError> {
        self.0.open(sealed)
    }

    /// Takes the bytes of the next chunk from `input` and gathers them in `chunk`, as [`Request::read`](super::Request::read) does.
    ///
    /// # Errors
    /// [`OhttpError::Answer`] if the first chunk does not open, [`OhttpError::Chunk`] for a later one, [`OhttpError::ChunkTooLong`],
    /// [`OhttpError::ChunksTooMany`].
    pub fn read(&mut self, input: &mut &[u8], chunk: &mut Vec<u8>) -> Result<bool, OhttpError> {
        self.0.read(input, chunk)
    }

    /// Reports the end of the input, and opens the last chunk, which was gathered in `chunk` and may be empty.
    ///
    /// # Errors
    /// [`OhttpError::Truncated`] without a last chunk; [`OhttpError::Answer`] and [`OhttpError::Chunk`] as for
    /// [`ClientAnswer::read`].
    pub fn end(&mut self, chunk: &mut Vec<u8>) -> Result<(), OhttpError> {
        self.0.end(chunk)
    }
}

impl fmt::Debug for ClientRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRequest").field("form", &self.form).field("suite", &self.suite).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientAnswer(redacted)")
    }
}
