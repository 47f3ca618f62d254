//! A session as the embedded store writes it. The key is wrapped; everything else is public or an identifier.
//!
//! `version(1) wire(1) created_ms(8) client_id subject kek_id wrapped(60)`, each text as `u16 length || bytes`, 0xffff
//! for none; numbers big-endian.

use sealway_proto::session::{SessionKey, SessionRecord};
use sealway_proto::wire::{SessionId, Wire};

use crate::kek::{KeyRing, UnwrapError, Wrapped};

const VERSION: u8 = 1;
const NONE: u16 = u16::MAX;

/// `expires_ms || id`: expiry is one range.
pub(crate) fn session_key(expires_ms: u64, id: &SessionId) -> Vec<u8> {
    let mut key = expires_ms.to_be_bytes().to_vec();
    key.extend_from_slice(id.as_str().as_bytes());
    key
}

/// Why a row was not read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RowError {
    #[error("row is malformed")]
    Malformed,
    #[error("session key {0}")]
    Key(#[from] UnwrapError),
}

pub(crate) fn encode(record: &SessionRecord, wrapped: &Wrapped) -> Vec<u8> {
    let mut row = Vec::with_capacity(192);
    row.push(VERSION);
    row.push(match record.wire {
        Wire::One => 1,
        Wire::Two => 2,
    });
    row.extend_from_slice(&record.created_ms.to_be_bytes());
    for text in [record.client_id.as_deref(), record.subject.as_deref(), Some(wrapped.kek_id.as_str())] {
        // Lengths are bounded where the texts come in, far below the mark for none.
        let len = text.map_or(NONE, |text| u16::try_from(text.len()).unwrap_or(NONE - 1));
        row.extend_from_slice(&len.to_be_bytes());
        row.extend_from_slice(text.map_or(&[], |text| &text.as_bytes()[..usize::from(len).min(text.len())]));
    }
    row.extend_from_slice(&wrapped.bytes);
    row
}

pub(crate) fn decode(key: &[u8], row: &[u8], keys: &KeyRing) -> Result<SessionRecord, RowError> {
    let mut reader = Reader(row);
    let (expires, id) = key.split_first_chunk::<8>().ok_or(RowError::Malformed)?;
    let id = std::str::from_utf8(id).ok().and_then(|id| SessionId::parse(id).ok()).ok_or(RowError::Malformed)?;
    let [version, wire] = reader.array()?;
    let wire = match (version, wire) {
        (VERSION, 1) => Wire::One,
        (VERSION, 2) => Wire::Two,
        _ => return Err(RowError::Malformed),
    };
    let created_ms = u64::from_be_bytes(reader.array()?);
    let client_id = reader.text()?;
    let subject = reader.text()?;
    let kek_id = reader.text()?.ok_or(RowError::Malformed)?.into();
    let wrapped = Wrapped { kek_id, bytes: reader.array()? };
    if !reader.0.is_empty() {
        return Err(RowError::Malformed);
    }
    let key: SessionKey = keys.unwrap(&id, &wrapped)?;
    Ok(SessionRecord { id, wire, client_id, subject, created_ms, expires_ms: u64::from_be_bytes(*expires), key })
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], RowError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(RowError::Malformed)?;
        self.0 = rest;
        Ok(*head)
    }

    fn text(&mut self) -> Result<Option<Box<str>>, RowError> {
        let len = u16::from_be_bytes(self.array()?);
        if len == NONE {
            return Ok(None);
        }
        let (head, rest) = self.0.split_at_checked(usize::from(len)).ok_or(RowError::Malformed)?;
        self.0 = rest;
        std::str::from_utf8(head).map(|text| Some(text.into())).map_err(|_| RowError::Malformed)
    }
}
