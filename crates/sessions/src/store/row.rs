//! A session as the embedded store writes it. The key is wrapped; everything else is public or an identifier.
//!
//! Version 1: `version(1) wire(1) created_ms(8) client_id subject kek_id wrapped(60)`, each text as `u16 length || bytes`,
//! 0xffff for none; numbers big-endian. Version 2 has `tenant auth` behind the subject, `auth` a byte. A row is written in
//! version 1 where that loses nothing: a program of before may share the store.

use sealway_proto::session::{Auth, SessionKey, SessionRecord};
use sealway_proto::wire::{SessionId, Wire};

use crate::kek::{KeyWrap, UnwrapError, Wrapped, unwrap_one};

const VERSION_1: u8 = 1;
const VERSION_2: u8 = 2;
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
    let is_plain = record.wire != Wire::Three && record.tenant.is_none() && record.auth == Auth::None;
    row.push(if is_plain { VERSION_1 } else { VERSION_2 });
    row.push(record.wire.number());
    row.extend_from_slice(&record.created_ms.to_be_bytes());
    push_text(&mut row, record.client_id.as_deref());
    push_text(&mut row, record.subject.as_deref());
    if !is_plain {
        push_text(&mut row, record.tenant.as_deref());
        row.push(auth_number(record.auth));
    }
    push_text(&mut row, Some(&wrapped.kek_id));
    row.extend_from_slice(&wrapped.bytes);
    row
}

/// Lengths are bounded where the texts come in, far below the mark for none.
fn push_text(row: &mut Vec<u8>, text: Option<&str>) {
    let len = text.map_or(NONE, |text| u16::try_from(text.len()).unwrap_or(NONE - 1));
    row.extend_from_slice(&len.to_be_bytes());
    row.extend_from_slice(text.map_or(&[], |text| &text.as_bytes()[..usize::from(len).min(text.len())]));
}

fn auth_number(auth: Auth) -> u8 {
    match auth {
        Auth::None => 0,
        Auth::Bearer => 1,
        Auth::Dpop => 2,
        Auth::Certificate => 3,
    }
}

/// A row whose key is still wrapped.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: SessionId,
    pub(crate) wrapped: Wrapped,
    wire: Wire,
    client_id: Option<Box<str>>,
    subject: Option<Box<str>>,
    tenant: Option<Box<str>>,
    auth: Auth,
    created_ms: u64,
    expires_ms: u64,
}

impl Row {
    pub(crate) fn parse(key: &[u8], row: &[u8]) -> Result<Row, RowError> {
        let mut reader = Reader(row);
        let (expires, id) = key.split_first_chunk::<8>().ok_or(RowError::Malformed)?;
        let id = std::str::from_utf8(id).ok().and_then(|id| SessionId::parse(id).ok()).ok_or(RowError::Malformed)?;
        let [version, wire] = reader.array()?;
        let wire = Wire::from_number(wire).ok_or(RowError::Malformed)?;
        let created_ms = u64::from_be_bytes(reader.array()?);
        let client_id = reader.text()?;
        let subject = reader.text()?;
        let (tenant, auth) = match version {
            VERSION_1 => (None, Auth::None),
            VERSION_2 => {
                let tenant = reader.text()?;
                let [number] = reader.array()?;
                let auth = Auth::ALL.into_iter().find(|auth| auth_number(*auth) == number);
                (tenant, auth.ok_or(RowError::Malformed)?)
            }
            _ => return Err(RowError::Malformed),
        };
        let kek_id = String::from(reader.text()?.ok_or(RowError::Malformed)?);
        let wrapped = Wrapped { kek_id, bytes: reader.array()? };
        if !reader.0.is_empty() {
            return Err(RowError::Malformed);
        }
        let expires_ms = u64::from_be_bytes(*expires);
        Ok(Row { id, wrapped, wire, client_id, subject, tenant, auth, created_ms, expires_ms })
    }

    /// The record, with the key that was unwrapped.
    pub(crate) fn with(self, key: SessionKey) -> SessionRecord {
        let Row { id, wire, client_id, subject, tenant, auth, created_ms, expires_ms, .. } = self;
        SessionRecord { id, wire, client_id, subject, tenant, auth, created_ms, expires_ms, key }
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
            tenant: None,
            auth: Auth::None,
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
            SessionRecord { auth: Auth::Bearer, ..record(Wire::Two, Some("web"), None) },
            SessionRecord { tenant: Some("".into()), ..record(Wire::One, None, None) },
            SessionRecord {
                auth: Auth::Dpop,
                tenant: Some("acme".into()),
                ..record(Wire::Three, Some("app"), Some("bob"))
            },
            SessionRecord { auth: Auth::Certificate, ..record(Wire::Three, Some("app"), Some("bob")) },
            record(Wire::Three, Some("app"), None),
        ] {
            let (key, row) = written(&record, &keys);
            let (back, kek_id) = decode(&key, &row, &keys).unwrap();
            assert_eq!(kek_id, keys.active_id());
            assert_eq!((back.id, back.wire), (record.id, record.wire));
            assert_eq!((&back.client_id, &back.subject), (&record.client_id, &record.subject));
            assert_eq!((&back.tenant, back.auth), (&record.tenant, record.auth));
            assert_eq!((back.created_ms, back.expires_ms), (record.created_ms, record.expires_ms));
            assert_eq!(back.key.expose(), record.key.expose());
        }
    }

    #[test]
    fn every_truncation_and_every_addition_is_malformed() {
        let keys = ring();
        let plain = record(Wire::Two, Some("web"), Some("alice"));
        let full = SessionRecord { tenant: Some("acme".into()), ..record(Wire::Three, Some("web"), Some("alice")) };
        for record in [plain, full] {
            let (key, mut row) = written(&record, &keys);
            for len in 0..row.len() {
                assert_eq!(decode(&key, &row[..len], &keys).unwrap_err(), RowError::Malformed, "{len} bytes");
            }
            for len in 0..key.len() {
                assert_eq!(decode(&key[..len], &row, &keys).unwrap_err(), RowError::Malformed, "a key of {len} bytes");
            }
            row.push(0);
            assert_eq!(decode(&key, &row, &keys).unwrap_err(), RowError::Malformed);
        }
    }

    #[test]
    fn a_row_is_in_version_1_as_long_as_that_loses_nothing_and_an_unknown_version_is_malformed() {
        let keys = ring();
        let plain = record(Wire::Two, Some("web"), Some("alice"));
        let (key, mut row) = written(&plain, &keys);
        // As the release before wrote it, byte for byte up to the key's id.
        assert_eq!(row[..20], *b"\x01\x02\0\0\0\0\0\0\0\x01\0\x03web\0\x05ali");
        row[0] = 3;
        assert_eq!(decode(&key, &row, &keys).unwrap_err(), RowError::Malformed);
        for record in [
            SessionRecord { auth: Auth::Bearer, ..plain.clone() },
            SessionRecord { tenant: Some("acme".into()), ..plain.clone() },
            SessionRecord { wire: Wire::Three, ..plain },
        ] {
            assert_eq!(written(&record, &keys).1[0], 2);
        }
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
