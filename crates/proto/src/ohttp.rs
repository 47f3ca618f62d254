//! Oblivious HTTP at a gateway: encapsulated requests and answers (RFC 9458), whole and in chunks
//! (draft-ietf-ohai-chunked-ohttp-08). The messages within are those of [`bhttp`](crate::bhttp). [`ClientRequest`] is the other side.
//!
//! ```text
//! request = key id (1) ‖ KEM id (2) ‖ KDF id (2) ‖ AEAD id (2) ‖ enc ‖ ciphertext, or chunks
//! answer  = nonce ‖ ciphertext, or chunks
//! chunk   = varint(length) ‖ ciphertext        last chunk = varint(0) ‖ ciphertext up to the end
//! ```
//!
//! This module does not know which keys are live, targets, or HTTP.

mod client;
mod parts;

use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

pub use self::client::{ClientAnswer, ClientRequest};
use self::parts::{PartReader, PartWriter};
use crate::answer_key::AnswerKey;
use crate::crypto::agreement::AgreementProvider;
use crate::hpke::{Aead, Context, Kem, PrivateKey, Receiver, Suite, setup_receiver};
use crate::limits::IV_LEN;
use crate::one_shot::KeyConfig;

/// Media type of key configurations (RFC 9458 section 9.1).
pub const KEYS_TYPE: &str = "application/ohttp-keys";
/// Most plaintext of a chunk, in bytes: a receiver takes as much, and a sender sends no more.
pub const CHUNK_LEN_MAX: usize = 1 << 14;
/// The bytes in front of `enc`.
pub const HEADER_LEN: usize = 7;

/// The two forms of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One ciphertext, which is opened whole (RFC 9458).
    Whole,
    /// Chunks, which are opened as they arrive.
    Chunked,
}

impl Form {
    /// Returns the form of a request's media type. Parameters are ignored, and case is (RFC 9110 section 8.3.1).
    pub fn of_type(content_type: &str) -> Option<Form> {
        let essence = content_type.split(';').next().unwrap_or_default().trim_end_matches([' ', '\t']);
        [Form::Whole, Form::Chunked].into_iter().find(|form| essence.eq_ignore_ascii_case(form.request_type()))
    }

    /// The media type of requests.
    pub fn request_type(self) -> &'static str {
        match self {
            Form::Whole => "message/ohttp-req",
            Form::Chunked => "message/ohttp-chunked-req",
        }
    }

    /// The media type of answers.
    pub fn answer_type(self) -> &'static str {
        match self {
            Form::Whole => "message/ohttp-res",
            Form::Chunked => "message/ohttp-chunked-res",
        }
    }

    fn request_label(self) -> &'static [u8] {
        match self {
            Form::Whole => b"message/bhttp request",
            Form::Chunked => b"message/bhttp chunked request",
        }
    }

    fn answer_label(self) -> &'static [u8] {
        match self {
            Form::Whole => b"message/bhttp response",
            Form::Chunked => b"message/bhttp chunked response",
        }
    }
}

/// A message that cannot be opened or sealed. It carries no secret and no decrypted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OhttpError {
    /// The message ends within its header, `enc`, nonce or the tag.
    #[error("encapsulated message ends too early")]
    Truncated,
    /// Header, key and ciphertext do not belong together, whatever the cause.
    #[error("encapsulated request does not open with a live key")]
    Key,
    /// A later chunk is empty, does not open, or follows the last one.
    #[error("chunk does not open")]
    Chunk,
    /// A chunk is longer than [`CHUNK_LEN_MAX`] and a tag.
    #[error("chunk is longer than 16384 bytes and a tag")]
    ChunkTooLong,
    /// The message has more chunks than one key may seal.
    #[error("message has too many chunks")]
    ChunksTooMany,
    /// A client has a configuration without the suite, or with a key that no secret can be agreed with.
    #[error("key configuration has no such suite, or a key that no secret can be agreed with")]
    Config,
    /// The answer does not open with the key of its request, whatever the cause.
    #[error("encapsulated answer does not open")]
    Answer,
    /// A part was sealed behind the last one, or a whole message in parts.
    #[error("message is sealed out of order")]
    Order,
    /// The crypto module reported a failure.
    #[error("crypto module failure")]
    Provider,
}

/// The header of an encapsulated request (RFC 9458 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    bytes: [u8; HEADER_LEN],
}

impl Header {
    /// Takes the header from the begin of a request.
    ///
    /// # Errors
    /// [`OhttpError::Truncated`] for fewer than [`HEADER_LEN`] bytes.
    pub fn take(input: &mut &[u8]) -> Result<Header, OhttpError> {
        let (bytes, rest) = input.split_first_chunk().ok_or(OhttpError::Truncated)?;
        *input = rest;
        Ok(Header { bytes: *bytes })
    }

    /// The id of the key that the request is sealed to.
    pub fn key_id(&self) -> u8 {
        let [key_id, ..] = self.bytes;
        key_id
    }

    /// The length of `enc`, in bytes.
    ///
    /// # Errors
    /// [`OhttpError::Key`] for a KEM that this build lacks.
    pub fn enc_len(&self) -> Result<usize, OhttpError> {
        let [_, high, low, ..] = self.bytes;
        Ok(Kem::from_id(u16::from_be_bytes([high, low])).ok_or(OhttpError::Key)?.enc_len())
    }

    /// Returns the suite of the header, if `config` publishes it under the key id of the header.
    ///
    /// # Errors
    /// [`OhttpError::Key`] otherwise.
    pub fn suite_of(&self, config: &KeyConfig) -> Result<Suite, OhttpError> {
        let [key_id, kem @ .., a, b, c, d] = self.bytes;
        let pair = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let suite = Suite::from_ids(u16::from_be_bytes(kem), pair.0, pair.1).ok_or(OhttpError::Key)?;
        let is_published = config.key_id() == key_id
            && config.public_key().kem() == suite.kem
            && config.pairs().contains(&pair)
            && suite.aead != Aead::ExportOnly;
        if is_published { Ok(suite) } else { Err(OhttpError::Key) }
    }
}

/// Returns the info string of a request with this header (RFC 9458 section 4.3).
fn info(form: Form, header: &[u8]) -> Vec<u8> {
    [form.request_label(), &[0], header].concat()
}

/// Length of an answer's nonce, and of the secret that is exported for it, in bytes.
fn nonce_len(suite: Suite) -> usize {
    suite.aead.key_len().max(IV_LEN)
}

/// Derives the key of an answer from the context of its request (RFC 9458 section 4.4).
fn answer_key<Role>(
    provider: &dyn AgreementProvider,
    (form, suite): (Form, Suite),
    context: &Context<Role>,
    enc: &[u8],
    nonce: &[u8],
) -> Result<AnswerKey, OhttpError> {
    let mut secret = Zeroizing::new([0; 32]);
    let secret = secret.get_mut(..nonce_len(suite)).ok_or(OhttpError::Provider)?;
    context.export(provider, form.answer_label(), secret).map_err(|_| OhttpError::Provider)?;
    AnswerKey::derive(provider, suite.aead, secret, enc, nonce).map_err(|_| OhttpError::Provider)
}

/// An encapsulated request that is being opened.
pub struct Request {
    form: Form,
    suite: Suite,
    enc: Vec<u8>,
    reader: PartReader<Context<Receiver>>,
}

impl Request {
    /// Begins to open a request: `suite` is that of its header for the configuration of `key`, and `enc` follows the header.
    ///
    /// # Errors
    /// [`OhttpError::Key`] for an `enc` that is none of the key's KEM, [`OhttpError::Provider`].
    pub fn begin(
        provider: &dyn AgreementProvider,
        form: Form,
        (header, suite): (&Header, Suite),
        key: &PrivateKey,
        enc: &[u8],
    ) -> Result<Request, OhttpError> {
        let info = info(form, &header.bytes);
        let context = setup_receiver(provider, suite, key, enc, &info, None).map_err(|err| match err {
            crate::hpke::HpkeError::Provider => OhttpError::Provider,
            _ => OhttpError::Key,
        })?;
        Ok(Request { form, suite, enc: enc.to_vec(), reader: PartReader::new(context, OhttpError::Key) })
    }

    /// The encapsulated secret, which names the request to a replay store: it cannot be written in a second way.
    pub fn enc(&self) -> &[u8] {
        &self.enc
    }

    /// The form of the request, which is that of its answer.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Opens the ciphertext of a whole request in place, and cuts it to its plaintext.
    ///
    /// # Errors
    /// [`OhttpError::Truncated`] for less than a tag, [`OhttpError::Key`].
    pub fn open(&mut self, sealed: &mut Vec<u8>) -> Result<(), OhttpError> {
        self.reader.open(sealed)
    }

    /// Takes the bytes of the next chunk from `input` and gathers them in `chunk`, which must be empty for each new one. True
    /// means that `chunk` is the plaintext of a chunk, and that another one follows.
    ///
    /// # Errors
    /// [`OhttpError::Key`] if the first chunk does not open, [`OhttpError::Chunk`] for a later one, [`OhttpError::ChunkTooLong`],
    /// [`OhttpError::ChunksTooMany`].
    pub fn read(&mut self, input: &mut &[u8], chunk: &mut Vec<u8>) -> Result<bool, OhttpError> {
        self.reader.read(input, chunk)
    }

    /// Reports the end of the input, and opens the last chunk, which was gathered in `chunk` and may be empty.
    ///
    /// # Errors
    /// [`OhttpError::Truncated`] without a last chunk; [`OhttpError::Key`] and [`OhttpError::Chunk`] as for
    /// [`Request::read`].
    pub fn end(&mut self, chunk: &mut Vec<u8>) -> Result<(), OhttpError> {
        self.reader.end(chunk)
    }

    /// Length of an answer's nonce, in bytes.
    pub fn nonce_len(&self) -> usize {
        nonce_len(self.suite)
    }

    /// Derives the key of the answer from a nonce of [`Request::nonce_len`] random bytes (RFC 9458 section 4.4). A nonce must not be
    /// used for a second answer.
    ///
    /// # Errors
    /// [`OhttpError::Provider`], also for a nonce of another length.
    pub fn answer(&self, provider: &dyn AgreementProvider, nonce: &[u8]) -> Result<Answer, OhttpError> {
        if nonce.len() != self.nonce_len() {
            return Err(OhttpError::Provider);
        }
        let key = answer_key(provider, (self.form, self.suite), &self.reader.key, &self.enc, nonce)?;
        Ok(Answer(PartWriter::new(self.form, nonce.to_vec(), key)))
    }
}

/// Seals the answer to one request.
pub struct Answer(PartWriter<AnswerKey>);

impl Answer {
    /// Seals the next part of the answer and appends it to `out`, the first part behind the nonce. A whole answer has one part,
    /// which is the last. A part that is empty and not the last writes nothing.
    ///
    /// # Errors
    /// [`OhttpError::Order`] behind the last part and for a whole answer in parts, [`OhttpError::ChunksTooMany`],
    /// [`OhttpError::Provider`].
    pub fn seal(&mut self, out: &mut Vec<u8>, part: &[u8], is_last: bool) -> Result<(), OhttpError> {
        self.0.seal(out, part, is_last)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("form", &self.form).field("suite", &self.suite).finish_non_exhaustive()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("chunks", &self.0.chunks()).finish_non_exhaustive()
    }
}
