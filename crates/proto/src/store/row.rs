//! A session in a store: everything in the clear but its key, and everything bound to that key. `spec/redis-store.md#sessions`.
//!
//! The key is wrapped under a key-encryption key, and the AAD of the wrap ([`Facts::aad`]) contains every other field of the
//! session. A writer of the store can remove a row or restore an old one, and cannot change a session's client.
//!
//! Rows of versions 1 and 2 bind only the session's id. Such a row is read if it ends by a fixed time, and never as one of the
//! native protocol: its session could be renewed, and so outlive that time.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::keys::WrappedKey;
use crate::session::{Auth, SessionKey, SessionRecord};
use crate::wire::{SessionId, Wire};

const VERSION_1: u8 = 1;
const VERSION_2: u8 = 2;
/// The version that is written.
pub const VERSION: u8 = 3;
const NONE: u16 = u16::MAX;
/// Longest id of a key-encryption key, in bytes: that of a broker.
const KEK_ID_LEN_MAX: usize = 64;
/// Prefix of a row's AAD, which no other wrap in this product has.
const LABEL: &[u8] = b"sealway session row\0";

/// The reason for which a row was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// Its bytes have another form.
    #[error("row is malformed")]
    Malformed,
    /// It is of an earlier version, which the reader does not accept.
    #[error("row has version {0}, whose fields nothing authenticates")]
    Unauthenticated(u8),
}

/// All fields of a session's row but its key.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The id of the session.
    pub id: SessionId,
    /// The wire on which it was agreed.
    pub wire: Wire,
    /// The client id with which it was agreed.
    pub client_id: Option<Box<str>>,
    /// The subject that the client proved.
    pub subject: Option<Box<str>>,
    /// The tenant of the subject.
    pub tenant: Option<Box<str>>,
    /// The method by which the client was authenticated.
    pub auth: Auth,
    /// The first session of its chain of renewals; `None` if it is the first itself.
    pub lineage: Option<SessionId>,
    /// Time at which the chain began, in milliseconds since the epoch.
    pub created_ms: u64,
    /// Time at which the session ends, in milliseconds since the epoch.
    pub expires_ms: u64,
}

impl Facts {
    /// Copies the fields of a record.
    pub fn of(record: &SessionRecord) -> Self {
        let SessionRecord { id, wire, auth, lineage, created_ms, expires_ms, .. } = *record;
        let (client_id, subject, tenant) = (record.client_id.clone(), record.subject.clone(), record.tenant.clone());
        Facts { id, wire, client_id, subject, tenant, auth, lineage, created_ms, expires_ms }
    }

    /// Returns the record, with its key.
    pub fn with(self, key: SessionKey) -> SessionRecord {
        let Facts { id, wire, client_id, subject, tenant, auth, lineage, created_ms, expires_ms } = self;
        SessionRecord { id, wire, client_id, subject, tenant, auth, lineage, created_ms, expires_ms, key }
    }

    /// Encodes a row up to its wrapped key: everything but id and end, which the store places.
    fn encode(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(256);
        row.extend_from_slice(&[VERSION, self.wire.number()]);
        row.extend_from_slice(&self.created_ms.to_be_bytes());
        push_text(&mut row, self.client_id.as_deref());
        push_text(&mut row, self.subject.as_deref());
        push_text(&mut row, self.tenant.as_deref());
        row.push(auth_number(self.auth));
        push_text(&mut row, self.lineage.as_ref().map(SessionId::as_str));
        row
    }

    /// The bytes that the wrap of the session's key authenticates.
    // SPEC redis-store.md#sessions
    pub fn aad(&self) -> Vec<u8> {
        let mut aad = LABEL.to_vec();
        push_text(&mut aad, Some(self.id.as_str()));
        aad.extend_from_slice(&self.expires_ms.to_be_bytes());
        aad.extend_from_slice(&self.encode());
        aad
    }
}

/// A row whose key is still wrapped. Its fields are not authenticated before the key has unwrapped with [`Row::aad`].
#[derive(Clone, Debug)]
pub struct Row {
    /// The version of the row's format.
    pub version: u8,
    /// The fields of the row.
    pub facts: Facts,
    /// The session's key, still wrapped.
    pub wrapped: WrappedKey,
}

impl Row {
    /// Parses the row of a session that ends at `expires_ms`: `row` is the part that follows the end.
    ///
    /// # Errors
    /// [`RowFault::Malformed`].
    pub fn parse(expires_ms: u64, id: SessionId, row: &[u8]) -> Result<Row, RowFault> {
        let mut reader = Reader(row);
        let [version, wire] = reader.array()?;
        let wire = Wire::from_number(wire).ok_or(RowFault::Malformed)?;
        let created_ms = u64::from_be_bytes(reader.array()?);
        let client_id = reader.text()?;
        let subject = reader.text()?;
        let (tenant, auth) = match version {
            VERSION_1 => (None, Auth::None),
            VERSION_2 | VERSION => (reader.text()?, reader.auth()?),
            _ => return Err(RowFault::Malformed),
        };
        let lineage = if version == VERSION { reader.text()? } else { None };
        let lineage = lineage.map(|lineage| SessionId::parse(&lineage)).transpose().map_err(|_| RowFault::Malformed)?;
        let kek_id = String::from(reader.text()?.ok_or(RowFault::Malformed)?);
        if kek_id.len() > KEK_ID_LEN_MAX || !kek_id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(RowFault::Malformed);
        }
        let wrapped = WrappedKey { kek_id, bytes: reader.array()? };
        if !reader.0.is_empty() {
            return Err(RowFault::Malformed);
        }
        let facts = Facts { id, wire, client_id, subject, tenant, auth, lineage, created_ms, expires_ms };
        Ok(Row { version, facts, wrapped })
    }

    /// Returns the AAD with which its key was wrapped. A row of an earlier version has one if it ends by
    /// `unauthenticated_until_ms`.
    ///
    /// # Errors
    /// [`RowFault::Unauthenticated`].
    // SPEC redis-store.md#rows-of-earlier-releases
    pub fn aad(&self, unauthenticated_until_ms: u64) -> Result<Vec<u8>, RowFault> {
        if self.version == VERSION {
            return Ok(self.facts.aad());
        }
        // Stores wrap a well-known key under the id of zeros, to detect a wrong key-encryption key.
        let is_known_key = self.facts.id == SessionId::from_random(&[0; 16], self.facts.id.is_anonymous());
        if self.facts.expires_ms > unauthenticated_until_ms || self.facts.wire == Wire::Native || is_known_key {
            return Err(RowFault::Unauthenticated(self.version));
        }
        Ok(self.facts.id.as_str().as_bytes().to_vec())
    }
}

/// Encodes the row of a session whose key is wrapped, without its end.
pub fn encode(record: &SessionRecord, wrapped: &WrappedKey) -> Vec<u8> {
    let mut row = Facts::of(record).encode();
    push_text(&mut row, Some(&wrapped.kek_id));
    row.extend_from_slice(&wrapped.bytes);
    row
}

/// The parsers of the texts bound their lengths, far below the mark for none.
fn push_text(row: &mut Vec<u8>, text: Option<&str>) {
    let len = text.map_or(NONE, |text| u16::try_from(text.len()).unwrap_or(NONE - 1));
    row.extend_from_slice(&len.to_be_bytes());
    row.extend_from_slice(text.map_or(&[], |text| text.as_bytes().get(..usize::from(len)).unwrap_or(text.as_bytes())));
}

fn auth_number(auth: Auth) -> u8 {
    match auth {
        Auth::None => 0,
        Auth::Bearer => 1,
        Auth::Dpop => 2,
        Auth::Certificate => 3,
        // No row has it, and none reads back.
        Auth::Psk => u8::MAX,
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], RowFault> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(RowFault::Malformed)?;
        self.0 = rest;
        Ok(*head)
    }

    fn auth(&mut self) -> Result<Auth, RowFault> {
        let [number] = self.array()?;
        Auth::ALL.into_iter().find(|auth| auth_number(*auth) == number).ok_or(RowFault::Malformed)
    }

    fn text(&mut self) -> Result<Option<Box<str>>, RowFault> {
        let len = u16::from_be_bytes(self.array()?);
        if len == NONE {
            return Ok(None);
        }
        let (head, rest) = self.0.split_at_checked(usize::from(len)).ok_or(RowFault::Malformed)?;
        self.0 = rest;
        core::str::from_utf8(head).map(|text| Some(text.into())).map_err(|_| RowFault::Malformed)
    }
}
