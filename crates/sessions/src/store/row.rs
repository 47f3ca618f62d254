//! A session as the embedded store writes it. The key is wrapped; everything else is public or an identifier.
//!
//! `version(1) wire(1) created_ms(8) client_id subject kek_id wrapped(60)`, each text as `u16 length || bytes`, 0xffff
//! for none; numbers big-endian.

use sealway_proto::session::{SessionKey, SessionRecord};
use sealway_proto::wire::{SessionId, Wire};

use crate::kek::{KeyWrap, UnwrapError, Wrapped, unwrap_one};

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

/// A row whose key is still wrapped.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: SessionId,
    pub(crate) wrapped: Wrapped,
    wire: Wire,
    client_id: Option<Box<str>>,
    subject: Option<Box<str>>,
    created_ms: u64,
    expires_ms: u64,
}

impl Row {
    pub(crate) fn parse(key: &[u8], row: &[u8]) -> Result<Row, RowError> {
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
        let kek_id = String::from(reader.text()?.ok_or(RowError::Malformed)?);
        let wrapped = Wrapped { kek_id, bytes: reader.array()? };
        if !reader.0.is_empty() {
            return Err(RowError::Malformed);
        }
        let expires_ms = u64::from_be_bytes(*expires);
        Ok(Row { id, wrapped, wire, client_id, subject, created_ms, expires_ms })
    }

    /// The record, with the key that was unwrapped.
    pub(crate) fn with(self, key: SessionKey) -> SessionRecord {
        let Row { id, wire, client_id, subject, created_ms, expires_ms, .. } = self;
        SessionRecord { id, wire, client_id, subject, created_ms, expires_ms, key }
    }
}

/// The record, and the id of the key that wraps its own.
pub(crate) async fn decode(key: &[u8], row: &[u8], keys: &dyn KeyWrap) -> Result<(SessionRecord, String), RowError> {
    let row = Row::parse(key, row)?;
    let kek_id = row.wrapped.kek_id.clone();
    let key = unwrap_one(keys, &row.id, row.wrapped.clone()).await?;
    Ok((row.with(key), kek_id))
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use sealway_proto::crypto::default_provider;

    use super::*;
    use crate::kek::KeyRing;

    /// A key ring answers at once.
    fn decode(key: &[u8], row: &[u8], keys: &KeyRing) -> Result<(SessionRecord, String), RowError> {
        super::decode(key, row, keys).now_or_never().unwrap()
    }

    fn ring() -> KeyRing {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kek");
        KeyRing::generate(default_provider(), &file).unwrap();
        KeyRing::load(default_provider(), &file).unwrap()
    }

    fn record(wire: Wire, client_id: Option<&str>, subject: Option<&str>) -> SessionRecord {
        SessionRecord {
            id: SessionId::from_random(&[3; 16], wire == Wire::One),
            wire,
            client_id: client_id.map(Into::into),
            subject: subject.map(Into::into),
            created_ms: 1,
            expires_ms: u64::MAX,
            key: SessionKey::from_bytes([5; 32]),
        }
    }

    fn written(record: &SessionRecord, keys: &KeyRing) -> (Vec<u8>, Vec<u8>) {
        let wrapped = keys.wrap(&record.id, &record.key).unwrap();
        (session_key(record.expires_ms, &record.id), encode(record, &wrapped))
    }

    #[test]
    fn a_row_comes_back_as_it_was_written() {
        let keys = ring();
        let long = "é".repeat(128);
        for record in [
            record(Wire::One, None, None),
            record(Wire::Two, Some("web"), None),
            record(Wire::Two, Some(""), Some(&long)),
            record(Wire::One, None, Some("alice")),
        ] {
            let (key, row) = written(&record, &keys);
            let (back, kek_id) = decode(&key, &row, &keys).unwrap();
            assert_eq!(kek_id, keys.active_id());
            assert_eq!((back.id, back.wire), (record.id, record.wire));
            assert_eq!((&back.client_id, &back.subject), (&record.client_id, &record.subject));
            assert_eq!((back.created_ms, back.expires_ms), (record.created_ms, record.expires_ms));
            assert_eq!(back.key.expose(), record.key.expose());
        }
    }

    #[test]
    fn every_truncation_and_every_addition_is_malformed() {
        let keys = ring();
        let (key, mut row) = written(&record(Wire::Two, Some("web"), Some("alice")), &keys);
        for len in 0..row.len() {
            assert_eq!(decode(&key, &row[..len], &keys).unwrap_err(), RowError::Malformed, "{len} bytes");
        }
        for len in 0..key.len() {
            assert_eq!(decode(&key[..len], &row, &keys).unwrap_err(), RowError::Malformed, "a key of {len} bytes");
        }
        row.push(0);
        assert_eq!(decode(&key, &row, &keys).unwrap_err(), RowError::Malformed);
    }

    #[test]
    fn no_changed_byte_panics_or_gives_another_key() {
        let keys = ring();
        let record = record(Wire::Two, Some("web"), Some("alice"));
        let (key, row) = written(&record, &keys);
        for index in 0..row.len() {
            for bit in 0..8 {
                let mut changed = row.clone();
                changed[index] ^= 1 << bit;
                if let Ok((back, _)) = decode(&key, &changed, &keys) {
                    assert_eq!(back.key.expose(), record.key.expose(), "byte {index}");
                }
            }
        }
    }

    #[test]
    fn a_row_under_another_key_says_which() {
        let (keys, others) = (ring(), ring());
        let (key, row) = written(&record(Wire::Two, Some("web"), None), &keys);
        let missing = UnwrapError::UnknownKek(keys.active_id());
        assert_eq!(decode(&key, &row, &others).unwrap_err(), RowError::Key(missing));
    }
}
