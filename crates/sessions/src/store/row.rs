//! A session as a store keeps it: everything in the clear but its key, and everything bound to that key.
//!
//! The key is wrapped under a key-encryption key, and the AAD of the wrap ([`Facts::aad`]) holds every other field of the
//! session. A writer of the store can remove a row or put an old one back, and cannot change who a session is of. All
//! stores go through [`seal_all`] and [`open_all`]; bytes are `spec/redis-store.md#sessions`, columns are PostgreSQL's.
//!
//! Rows of versions 1 and 2 bind the session's id alone. Such a row is read if it ends by
//! [`KeyWrap::unauthenticated_until_ms`], and never as one of the native protocol: its session could be renewed, and so
//! outlive that time.

use std::sync::atomic::{AtomicBool, Ordering};

use sealway_proto::session::{Auth, SessionKey, SessionRecord};
use sealway_proto::wire::{SessionId, Wire};

use crate::kek::{KeyWrap, UnwrapError, WrapError, Wrapped};

const VERSION_1: u8 = 1;
const VERSION_2: u8 = 2;
/// The version that is written.
pub(crate) const VERSION: u8 = 3;
const NONE: u16 = u16::MAX;
/// Begins the AAD of a row; nothing else that is wrapped has an AAD like it.
const LABEL: &[u8] = b"sealway session row\0";

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
    #[error("row has version {0}, whose fields nothing authenticates")]
    Unauthenticated(u8),
    #[error("session key {0}")]
    Key(#[from] UnwrapError),
}

/// All that a row says of a session but its key.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) id: SessionId,
    pub(crate) wire: Wire,
    pub(crate) client_id: Option<Box<str>>,
    pub(crate) subject: Option<Box<str>>,
    pub(crate) tenant: Option<Box<str>>,
    pub(crate) auth: Auth,
    pub(crate) lineage: Option<SessionId>,
    pub(crate) created_ms: u64,
    pub(crate) expires_ms: u64,
}

impl Facts {
    pub(crate) fn of(record: &SessionRecord) -> Self {
        let SessionRecord { id, wire, auth, lineage, created_ms, expires_ms, .. } = *record;
        let (client_id, subject, tenant) = (record.client_id.clone(), record.subject.clone(), record.tenant.clone());
        Facts { id, wire, client_id, subject, tenant, auth, lineage, created_ms, expires_ms }
    }

    /// The record, with its key.
    fn with(self, key: SessionKey) -> SessionRecord {
        let Facts { id, wire, client_id, subject, tenant, auth, lineage, created_ms, expires_ms } = self;
        SessionRecord { id, wire, client_id, subject, tenant, auth, lineage, created_ms, expires_ms, key }
    }

    /// A row up to what wraps its key: everything but id and end, which are the store's to place.
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
    pub(crate) fn aad(&self) -> Vec<u8> {
        let mut aad = LABEL.to_vec();
        push_text(&mut aad, Some(self.id.as_str()));
        aad.extend_from_slice(&self.expires_ms.to_be_bytes());
        aad.extend_from_slice(&self.encode());
        aad
    }
}

/// A row whose key is still wrapped. Nothing of it is true before [`open_all`] said so.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) version: u8,
    pub(crate) facts: Facts,
    pub(crate) wrapped: Wrapped,
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
            VERSION_2 | VERSION => (reader.text()?, reader.auth()?),
            _ => return Err(RowError::Malformed),
        };
        let lineage = if version == VERSION { reader.text()? } else { None };
        let lineage = lineage.map(|lineage| SessionId::parse(&lineage)).transpose().map_err(|_| RowError::Malformed)?;
        let kek_id = String::from(reader.text()?.ok_or(RowError::Malformed)?);
        let wrapped = Wrapped { kek_id, bytes: reader.array()? };
        if !reader.0.is_empty() {
            return Err(RowError::Malformed);
        }
        let expires_ms = u64::from_be_bytes(*expires);
        let facts = Facts { id, wire, client_id, subject, tenant, auth, lineage, created_ms, expires_ms };
        Ok(Row { version, facts, wrapped })
    }

    /// The AAD that its key was wrapped with.
    fn admit(&self, keys: &dyn KeyWrap) -> Result<Vec<u8>, RowError> {
        if self.version == VERSION {
            return Ok(self.facts.aad());
        }
        // Stores wrap a key that everybody knows under the id of zeros, to tell a wrong key-encryption key.
        let is_known_key = self.facts.id == SessionId::from_random(&[0; 16], self.facts.id.is_anonymous());
        if self.facts.expires_ms > keys.unauthenticated_until_ms() || self.facts.wire == Wire::Three || is_known_key {
            metrics::counter!("sealway_rows_refused_total", "reason" => "unauthenticated").increment(1);
            warn_once(self.version);
            return Err(RowError::Unauthenticated(self.version));
        }
        Ok(self.facts.id.as_str().as_bytes().to_vec())
    }
}

fn warn_once(version: u8) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            version,
            "the store holds sessions of an earlier release, whose rows authenticate nothing but their key; their clients \
             begin another session. sessions.accept_unauthenticated_rows_until has sessions of wires 1 and 2 read until a \
             time; see docs/operating/stores.md. Further ones are counted in sealway_rows_refused_total"
        );
    }
}

/// Wraps the keys of sessions, each bound to all that its row will say.
pub(crate) async fn seal_all(keys: &dyn KeyWrap, records: &[&SessionRecord]) -> Result<Vec<Wrapped>, WrapError> {
    let bound: Vec<_> = records.iter().map(|record| (Facts::of(record).aad(), &record.key)).collect();
    keys.wrap_all(&bound).await
}

/// Wraps one session's key.
pub(crate) async fn seal(keys: &dyn KeyWrap, record: &SessionRecord) -> Result<Wrapped, WrapError> {
    seal_all(keys, &[record]).await?.pop().ok_or_else(|| WrapError("nothing was wrapped".into()))
}

/// Unwraps the keys of rows, which authenticates all that they say; each session or why not, in order.
pub(crate) async fn open_all(keys: &dyn KeyWrap, rows: Vec<Row>) -> Vec<Result<SessionRecord, RowError>> {
    let mut admitted = Vec::with_capacity(rows.len());
    let mut bound = Vec::with_capacity(rows.len());
    for row in rows {
        admitted.push(row.admit(keys).map(|aad| {
            bound.push((aad, row.wrapped));
            row.facts
        }));
    }
    let mut opened = if bound.is_empty() { Vec::new() } else { keys.unwrap_all(&bound).await }.into_iter();
    let nothing = || Err(UnwrapError::Unavailable("nothing was answered".into()));
    let mut with_key = |facts: Facts| Ok(facts.with(opened.next().unwrap_or_else(nothing)?));
    admitted.into_iter().map(|facts| with_key(facts?)).collect()
}

/// Unwraps one row's key.
pub(crate) async fn open(keys: &dyn KeyWrap, row: Row) -> Result<SessionRecord, RowError> {
    open_all(keys, vec![row]).await.pop().unwrap_or(Err(RowError::Malformed))
}

/// The row of a session whose key is wrapped.
pub(crate) fn encode(record: &SessionRecord, wrapped: &Wrapped) -> Vec<u8> {
    let mut row = Facts::of(record).encode();
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

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], RowError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(RowError::Malformed)?;
        self.0 = rest;
        Ok(*head)
    }

    fn auth(&mut self) -> Result<Auth, RowError> {
        let [number] = self.array()?;
        Auth::ALL.into_iter().find(|auth| auth_number(*auth) == number).ok_or(RowError::Malformed)
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
mod tests;
