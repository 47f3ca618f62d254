//! The parts of an encapsulated message: one ciphertext, or chunks; of requests and answers, sealed and opened.

use alloc::vec::Vec;

use super::{CHUNK_LEN_MAX, Form, OhttpError};
use crate::answer_key::AnswerKey;
use crate::bhttp::varint::{self, Varint};
use crate::hpke::{Context, Receiver, Sender};
use crate::limits::TAG_LEN;

/// Most chunks of a message, far below the bounds of all AEADs.
const CHUNKS_MAX: u64 = 1 << 32;

/// Seals the parts of one message in order.
pub(super) trait SealPart {
    fn seal(&mut self, aad: &[u8], plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), OhttpError>;
}

/// Opens the parts of one message in order.
pub(super) trait OpenPart {
    /// Opens a part in place. Returns the length of its plaintext, `None` if it does not open.
    fn open(&mut self, aad: &[u8], sealed: &mut [u8]) -> Option<usize>;
}

impl SealPart for Context<Sender> {
    fn seal(&mut self, aad: &[u8], plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), OhttpError> {
        let sealed = Context::seal(self, aad, plaintext).map_err(|_| OhttpError::Provider)?;
        out.extend_from_slice(&sealed);
        Ok(())
    }
}

impl OpenPart for Context<Receiver> {
    fn open(&mut self, aad: &[u8], sealed: &mut [u8]) -> Option<usize> {
        self.open_in_place(aad, sealed).ok().map(|opened| opened.len())
    }
}

impl SealPart for AnswerKey {
    fn seal(&mut self, aad: &[u8], plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), OhttpError> {
        AnswerKey::seal(self, aad, plaintext, out).map_err(|_| OhttpError::Provider)
    }
}

impl OpenPart for AnswerKey {
    fn open(&mut self, aad: &[u8], sealed: &mut [u8]) -> Option<usize> {
        AnswerKey::open(self, aad, sealed).ok().map(<[u8]>::len)
    }
}

/// Writes a message: what stands in front of its first part, and the parts.
pub(super) struct PartWriter<K> {
    form: Form,
    front: Vec<u8>,
    pub(super) key: K,
    chunks: u64,
    is_done: bool,
}

impl<K: SealPart> PartWriter<K> {
    pub(super) fn new(form: Form, front: Vec<u8>, key: K) -> Self {
        PartWriter { form, front, key, chunks: 0, is_done: false }
    }

    /// Seals the next part of the message, as [`Answer::seal`](super::Answer::seal) says.
    pub(super) fn seal(&mut self, out: &mut Vec<u8>, mut part: &[u8], is_last: bool) -> Result<(), OhttpError> {
        if self.is_done || (self.form == Form::Whole && !is_last) {
            return Err(OhttpError::Order);
        }
        if self.form == Form::Whole {
            out.append(&mut self.front);
            self.is_done = true;
            return self.put(out, b"", part);
        }
        while !part.is_empty() {
            let (chunk, rest) = part.split_at_checked(CHUNK_LEN_MAX).unwrap_or((part, &[]));
            part = rest;
            if part.is_empty() && is_last {
                return self.put_last(out, chunk);
            }
            out.append(&mut self.front);
            varint::write(out, (chunk.len() + TAG_LEN) as u64);
            self.put(out, b"", chunk)?;
        }
        if is_last { self.put_last(out, &[]) } else { Ok(()) }
    }

    fn put_last(&mut self, out: &mut Vec<u8>, chunk: &[u8]) -> Result<(), OhttpError> {
        out.append(&mut self.front);
        varint::write(out, 0);
        self.is_done = true;
        self.put(out, b"final", chunk)
    }

    fn put(&mut self, out: &mut Vec<u8>, aad: &[u8], plaintext: &[u8]) -> Result<(), OhttpError> {
        if self.chunks >= CHUNKS_MAX {
            return Err(OhttpError::ChunksTooMany);
        }
        self.key.seal(aad, plaintext, out)?;
        self.chunks += 1;
        Ok(())
    }

    pub(super) fn chunks(&self) -> u64 {
        self.chunks
    }
}

/// Reads the parts of a message. `unopened` is the error of a first part that does not open.
pub(super) struct PartReader<K> {
    pub(super) key: K,
    unopened: OhttpError,
    varint: Varint,
    /// Of the chunk that is being gathered: the number of missing bytes; `None` between chunks.
    missing: Option<usize>,
    is_last: bool,
    chunks: u64,
}

impl<K: OpenPart> PartReader<K> {
    pub(super) fn new(key: K, unopened: OhttpError) -> Self {
        PartReader { key, unopened, varint: Varint::default(), missing: None, is_last: false, chunks: 0 }
    }

    /// Opens the ciphertext of a whole message in place, and cuts it to its plaintext.
    pub(super) fn open(&mut self, sealed: &mut Vec<u8>) -> Result<(), OhttpError> {
        if sealed.len() < TAG_LEN {
            return Err(OhttpError::Truncated);
        }
        self.open_part(b"", sealed)
    }

    /// Gathers and opens the next chunk, as [`Request::read`](super::Request::read) says.
    pub(super) fn read(&mut self, input: &mut &[u8], chunk: &mut Vec<u8>) -> Result<bool, OhttpError> {
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

    /// Reports the end of the input, and opens the last chunk, as [`Request::end`](super::Request::end) says.
    pub(super) fn end(&mut self, chunk: &mut Vec<u8>) -> Result<(), OhttpError> {
        if !self.is_last {
            return Err(OhttpError::Truncated);
        }
        self.open_part(b"final", chunk)
    }

    fn open_part(&mut self, aad: &[u8], sealed: &mut Vec<u8>) -> Result<(), OhttpError> {
        if self.chunks >= CHUNKS_MAX {
            return Err(OhttpError::ChunksTooMany);
        }
        let Some(len) = self.key.open(aad, sealed) else {
            sealed.clear();
            return Err(self.unopened());
        };
        sealed.truncate(len);
        self.chunks += 1;
        Ok(())
    }

    fn unopened(&self) -> OhttpError {
        if self.chunks == 0 { self.unopened } else { OhttpError::Chunk }
    }
}
