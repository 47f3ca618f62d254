//! Oblivious HTTP at a gateway: encapsulated requests and answers (RFC 9458), whole and in chunks
//! (draft-ietf-ohai-chunked-ohttp-08). The messages within are those of [`bhttp`](crate::bhttp).
//!
//! ```text
//! request = key id (1) ‖ KEM id (2) ‖ KDF id (2) ‖ AEAD id (2) ‖ enc ‖ ciphertext, or chunks
//! answer  = nonce ‖ ciphertext, or chunks
//! chunk   = varint(length) ‖ ciphertext        last chunk = varint(0) ‖ ciphertext up to the end
//! ```
//!
//! This module does not know which keys are live, targets, or HTTP.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use crate::bhttp::varint::{self, Varint};
use crate::crypto::AeadKey;
use crate::crypto::agreement::{AgreementProvider, Cipher};
use crate::hpke::{Aead, Context, Kem, PrivateKey, Receiver, Suite, setup_receiver};
use crate::limits::{IV_LEN, TAG_LEN};
use crate::one_shot::KeyConfig;

/// Media type of key configurations (RFC 9458 section 9.1).
pub const KEYS_TYPE: &str = "application/ohttp-keys";
/// Most plaintext of a chunk, in bytes: a receiver takes as much, and a sender sends no more.
pub const CHUNK_LEN_MAX: usize = 1 << 14;
/// The bytes in front of `enc`.
pub const HEADER_LEN: usize = 7;
/// Most chunks of a message, far below the bounds of all AEADs.
const CHUNKS_MAX: u64 = 1 << 32;

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
    /// The request ends within its header, `enc` or the tag.
    #[error("encapsulated request ends too early")]
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
    /// A part was sealed behind the last one, or a whole answer in parts.
    #[error("answer is sealed out of order")]
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

/// An encapsulated request that is being opened.
#[derive(Debug)]
pub struct Request {
    form: Form,
    suite: Suite,
    enc: Vec<u8>,
    context: Context<Receiver>,
    varint: Varint,
    /// Of the chunk that is being gathered: the number of missing bytes; `None` between chunks.
    missing: Option<usize>,
    is_last: bool,
    chunks: u64,
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
        let info = [form.request_label(), &[0], &header.bytes].concat();
        let context = setup_receiver(provider, suite, key, enc, &info, None).map_err(|err| match err {
            crate::hpke::HpkeError::Provider => OhttpError::Provider,
            _ => OhttpError::Key,
        })?;
        let enc = enc.to_vec();
        Ok(Request { form, suite, enc, context, varint: Varint::default(), missing: None, is_last: false, chunks: 0 })
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
        if sealed.len() < TAG_LEN {
            return Err(OhttpError::Truncated);
        }
        self.open_part(b"", sealed)
    }

    /// Takes the bytes of the next chunk from `input` and gathers them in `chunk`, which must be empty for each new one. True
    /// means that `chunk` is the plaintext of a chunk, and that another one follows.
    ///
    /// # Errors
    /// [`OhttpError::Key`] if the first chunk does not open, [`OhttpError::Chunk`] for a later one, [`OhttpError::ChunkTooLong`],
    /// [`OhttpError::ChunksTooMany`].
    pub fn read(&mut self, input: &mut &[u8], chunk: &mut Vec<u8>) -> Result<bool, OhttpError> {
        if self.missing.is_none() && !self.is_last {
            let Some(len) = self.varint.read(input) else { return Ok(false) };
            match usize::try_from(len) {
                Ok(0) => self.is_last = true,
                Ok(len) if len <= CHUNK_LEN_MAX + TAG_LEN => self.missing = Some(len),
                _ => return Err(OhttpError::ChunkTooLong),
            }
        }
        let wanted = self.missing.unwrap_or(usize::MAX);
        let (piece, rest) = input.split_at_checked(wanted).unwrap_or((input, &[]));
        *input = rest;
        if chunk.len() + piece.len() > CHUNK_LEN_MAX + TAG_LEN {
            return Err(OhttpError::ChunkTooLong);
        }
        chunk.extend_from_slice(piece);
        if self.is_last || piece.len() < wanted {
            self.missing = (!self.is_last).then(|| wanted - piece.len());
            return Ok(false);
        }
        self.missing = None;
        self.open_part(b"", chunk)?;
        // One that is empty says nothing, and could be sent for ever.
        if chunk.is_empty() { Err(self.unopened()) } else { Ok(true) }
    }

    /// Reports the end of the input, and opens the last chunk, which was gathered in `chunk` and may be empty.
    ///
    /// # Errors
    /// [`OhttpError::Truncated`] without a last chunk; [`OhttpError::Key`] and [`OhttpError::Chunk`] as for
    /// [`Request::read`].
    pub fn end(&mut self, chunk: &mut Vec<u8>) -> Result<(), OhttpError> {
        if !self.is_last {
            return Err(OhttpError::Truncated);
        }
        self.open_part(b"final", chunk)
    }

    fn open_part(&mut self, aad: &[u8], sealed: &mut Vec<u8>) -> Result<(), OhttpError> {
        if self.chunks >= CHUNKS_MAX {
            return Err(OhttpError::ChunksTooMany);
        }
        match self.context.open_in_place(aad, sealed).map(|opened| opened.len()) {
            Ok(len) => sealed.truncate(len),
            Err(_) => {
                sealed.clear();
                return Err(self.unopened());
            }
        }
        self.chunks += 1;
        Ok(())
    }

    fn unopened(&self) -> OhttpError {
        if self.chunks == 0 { OhttpError::Key } else { OhttpError::Chunk }
    }

    /// Length of an answer's nonce, in bytes.
    pub fn nonce_len(&self) -> usize {
        self.suite.aead.key_len().max(IV_LEN)
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
        let mut secret = Zeroizing::new([0; 32]);
        let secret = secret.get_mut(..nonce.len()).ok_or(OhttpError::Provider)?;
        let exported = self.context.export(provider, self.form.answer_label(), secret);
        exported.map_err(|_| OhttpError::Provider)?;
        let salt = [&self.enc, nonce].concat();
        let prk = provider.mac_key(provider.hmac_sha256(&salt, &[secret]).as_slice());
        let (key, base) = (prk.mac(&[b"key", &[1]]), prk.mac(&[b"nonce", &[1]]));
        let key = match self.suite.aead {
            Aead::Aes128Gcm => provider.aes128_gcm(key.first_chunk().ok_or(OhttpError::Provider)?),
            Aead::Aes256Gcm => provider.aes256_gcm(&key),
            Aead::ChaCha20Poly1305 => provider.aead(Cipher::ChaCha20Poly1305, &key),
            Aead::ExportOnly => return Err(OhttpError::Provider),
        };
        Ok(Answer {
            form: self.form,
            key: key.map_err(|_| OhttpError::Provider)?,
            base: *base.first_chunk().ok_or(OhttpError::Provider)?,
            nonce: nonce.to_vec(),
            chunks: 0,
            is_done: false,
        })
    }
}

/// Seals the answer to one request.
pub struct Answer {
    form: Form,
    key: Box<dyn AeadKey>,
    base: [u8; IV_LEN],
    nonce: Vec<u8>,
    chunks: u64,
    is_done: bool,
}

impl Answer {
    /// Seals the next part of the answer and appends it to `out`, the first part behind the nonce. A whole answer has one part,
    /// which is the last. A part that is empty and not the last writes nothing.
    ///
    /// # Errors
    /// [`OhttpError::Order`] behind the last part and for a whole answer in parts, [`OhttpError::ChunksTooMany`],
    /// [`OhttpError::Provider`].
    pub fn seal(&mut self, out: &mut Vec<u8>, mut part: &[u8], is_last: bool) -> Result<(), OhttpError> {
        if self.is_done || (self.form == Form::Whole && !is_last) {
            return Err(OhttpError::Order);
        }
        if self.form == Form::Whole {
            out.append(&mut self.nonce);
            self.is_done = true;
            return self.put(out, b"", part);
        }
        while !part.is_empty() {
            let (chunk, rest) = part.split_at_checked(CHUNK_LEN_MAX).unwrap_or((part, &[]));
            part = rest;
            if part.is_empty() && is_last {
                return self.put_last(out, chunk);
            }
            out.append(&mut self.nonce);
            varint::write(out, (chunk.len() + TAG_LEN) as u64);
            self.put(out, b"", chunk)?;
        }
        if is_last { self.put_last(out, &[]) } else { Ok(()) }
    }

    fn put_last(&mut self, out: &mut Vec<u8>, chunk: &[u8]) -> Result<(), OhttpError> {
        out.append(&mut self.nonce);
        varint::write(out, 0);
        self.is_done = true;
        self.put(out, b"final", chunk)
    }

    fn put(&mut self, out: &mut Vec<u8>, aad: &[u8], plaintext: &[u8]) -> Result<(), OhttpError> {
        if self.chunks >= CHUNKS_MAX {
            return Err(OhttpError::ChunksTooMany);
        }
        let mut iv = self.base;
        for (to, from) in iv.iter_mut().rev().zip(self.chunks.to_be_bytes().iter().rev()) {
            *to ^= from;
        }
        let start = out.len();
        out.extend_from_slice(plaintext);
        let sealed = out.get_mut(start..).ok_or(OhttpError::Provider)?;
        let tag = self.key.seal_in_place(&iv, aad, sealed).map_err(|_| OhttpError::Provider)?;
        out.extend_from_slice(&tag);
        self.chunks += 1;
        Ok(())
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("form", &self.form).field("chunks", &self.chunks).finish_non_exhaustive()
    }
}
