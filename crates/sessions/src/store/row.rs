//! Rows with wrapped keys. All stores go through [`seal_all`] and [`open_all`]; [`sealway_proto::store::row`] defines
//! the bytes, PostgreSQL has columns instead.

use std::sync::Once;

use sealway_proto::session::SessionRecord;
pub(crate) use sealway_proto::store::row::RowFault;
pub(crate) use sealway_proto::store::row::{Facts, Row, VERSION, encode};
use sealway_proto::wire::SessionId;

use crate::kek::{KeyWrap, UnwrapError, WrapError, WrappedKey};

/// Returns the table key `expires_ms || id`, so that expiry is a range.
pub(crate) fn session_key(expires_ms: u64, id: &SessionId) -> Vec<u8> {
    let mut key = expires_ms.to_be_bytes().to_vec();
    key.extend_from_slice(id.as_str().as_bytes());
    key
}

/// Reason that a row was not read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RowError {
    #[error(transparent)]
    Row(#[from] RowFault),
    #[error("session key {0}")]
    Key(#[from] UnwrapError),
}

/// Parses a row under the key of [`session_key`].
pub(crate) fn parse(key: &[u8], row: &[u8]) -> Result<Row, RowError> {
    let (expires, id) = key.split_first_chunk::<8>().ok_or(RowFault::Malformed)?;
    let id = std::str::from_utf8(id).ok().and_then(|id| SessionId::parse(id).ok()).ok_or(RowFault::Malformed)?;
    Ok(Row::parse(u64::from_be_bytes(*expires), id, row)?)
}

/// Guard of the warning about unauthenticated rows.
static WARNED: Once = Once::new();

/// Returns the AAD with which a row's key was wrapped; counts and rejects an unauthenticated row unless it is accepted.
fn admit(row: &Row, keys: &dyn KeyWrap) -> Result<Vec<u8>, RowError> {
    let admitted = row.aad(keys.unauthenticated_until_ms());
    if let Err(RowFault::Unauthenticated(version)) = admitted {
        metrics::counter!("sealway_rows_refused_total", "reason" => "unauthenticated").increment(1);
        warn_once(&WARNED, version);
    }
    Ok(admitted?)
}

fn warn_once(warned: &Once, version: u8) {
    warned.call_once(|| {
        tracing::warn!(
            version,
            "the store holds sessions of an earlier release, whose rows authenticate nothing but their key; their clients \
             begin another session. sessions.accept_unauthenticated_rows_until has sessions of wires 1 and 2 read until a \
             time; see docs/guides/stores.md. Further ones are counted in sealway_rows_refused_total"
        );
    });
}

/// Wraps the keys of sessions, each bound to all other fields of its row.
pub(crate) async fn seal_all(keys: &dyn KeyWrap, records: &[&SessionRecord]) -> Result<Vec<WrappedKey>, WrapError> {
    let bound: Vec<_> = records.iter().map(|record| (Facts::of(record).aad(), &record.key)).collect();
    keys.wrap_all(&bound).await
}

/// Wraps the key of one session.
pub(crate) async fn seal(keys: &dyn KeyWrap, record: &SessionRecord) -> Result<WrappedKey, WrapError> {
    seal_all(keys, &[record]).await?.pop().ok_or_else(|| WrapError("nothing was wrapped".into()))
}

/// Unwraps the keys of rows, which authenticates all fields; returns for each the session or an error, in order.
pub(crate) async fn open_all(keys: &dyn KeyWrap, rows: Vec<Row>) -> Vec<Result<SessionRecord, RowError>> {
    let mut admitted = Vec::with_capacity(rows.len());
    let mut bound = Vec::with_capacity(rows.len());
    for row in rows {
        admitted.push(admit(&row, keys).map(|aad| {
            bound.push((aad, row.wrapped));
            row.facts
        }));
    }
    let mut opened = if bound.is_empty() { Vec::new() } else { keys.unwrap_all(&bound).await }.into_iter();
    let nothing = || Err(UnwrapError::Unavailable("nothing was answered".into()));
    let mut with_key = |facts: Facts| Ok(facts.with(opened.next().unwrap_or_else(nothing)?));
    admitted.into_iter().map(|facts| with_key(facts?)).collect()
}

/// Unwraps the key of one row.
pub(crate) async fn open(keys: &dyn KeyWrap, row: Row) -> Result<SessionRecord, RowError> {
    open_all(keys, vec![row]).await.pop().unwrap_or(Err(RowFault::Malformed.into()))
}

#[cfg(test)]
mod tests;
