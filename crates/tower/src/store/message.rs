//! Messages of an authority, parsed strictly. `spec/session.md#authority-endpoints`.
//!
//! No parsed value is ever part of an error's text: a message may hold a session key.

use std::borrow::Cow;

use sealway_proto::session::{Auth, ClaimKey, SessionKey, SessionRecord};
use sealway_proto::wire::{ClientId, SessionId, Wire, base64};
use serde::Deserialize;
use zeroize::Zeroize;

/// Maximum length of a message, in bytes.
pub(super) const MESSAGE_LEN_MAX: usize = 64 * 1024;
/// Maximum length of subjects and tenants, in bytes.
const SUBJECT_LEN_MAX: usize = 256;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSession<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    wire: u8,
    #[serde(borrow)]
    client_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    subject: Option<Cow<'a, str>>,
    created_ms: u64,
    expires_ms: u64,
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow, default)]
    tenant: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    auth: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    lineage: Option<Cow<'a, str>>,
}

/// Answer to a claim, a rejection, or the answer about an unknown session.
#[derive(Deserialize)]
pub(super) struct Reply<'a> {
    #[serde(borrow, default)]
    pub(super) error: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) key: Option<Cow<'a, str>>,
}

impl<'a> Reply<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// Parses a session with its key.
pub(super) fn session(bytes: &[u8]) -> Result<SessionRecord, String> {
    // The library's own text may quote the input.
    let raw: RawSession<'_> = serde_json::from_slice(bytes).map_err(|_| "a session cannot be read".to_owned())?;
    let fault = |member: &str| Err(format!("a session's {member} is malformed"));
    let Ok(id) = SessionId::parse(&raw.id) else { return fault("id") };
    let Some(wire) = Wire::from_number(raw.wire) else { return fault("wire") };
    let is_named = raw.client_id.as_deref().is_some_and(|id| ClientId::parse(id).is_ok());
    if if wire == Wire::V1 { raw.client_id.is_some() } else { !is_named || id.is_anonymous() } {
        return fault("client_id");
    }
    let is_text =
        |text: &Option<Cow<'_, str>>| text.as_ref().is_none_or(|text| (1..=SUBJECT_LEN_MAX).contains(&text.len()));
    if !is_text(&raw.subject) || !is_text(&raw.tenant) {
        return fault("subject");
    }
    let Some(auth) = raw.auth.as_deref().map_or(Some(Auth::None), Auth::from_name) else { return fault("auth") };
    let Ok(lineage) = raw.lineage.as_deref().map(SessionId::parse).transpose() else { return fault("lineage") };
    if raw.expires_ms <= raw.created_ms {
        return fault("expires_ms");
    }
    let Ok(mut bytes) = base64::decode_array(&*raw.key) else { return fault("key") };
    let key = SessionKey::from_bytes(bytes);
    bytes.zeroize();
    let boxed = |text: Option<Cow<'_, str>>| text.map(|text| text.into_owned().into_boxed_str());
    Ok(SessionRecord {
        id,
        wire,
        client_id: boxed(raw.client_id),
        subject: boxed(raw.subject),
        tenant: boxed(raw.tenant),
        auth,
        lineage,
        created_ms: raw.created_ms,
        expires_ms: raw.expires_ms,
        key,
    })
}

/// Encodes a claim key as hexadecimal text.
pub(super) fn hex(key: ClaimKey) -> String {
    format!("{:032x}", u128::from_be_bytes(key.0))
}
