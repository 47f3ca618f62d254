//! A session as a server holds it: who agreed it on which wire, until when, and its key.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::crypto::{AeadKey, Provider};
use crate::error::Error;
use crate::session::keys::SessionKey;
use crate::session::three;
use crate::wire::{SessionId, Wire};

/// What a store keeps of a session.
#[derive(Clone, Debug)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// The wire it was agreed on.
    pub wire: Wire,
    /// The client id it was agreed with; `None` on wire 1.
    pub client_id: Option<Box<str>>,
    /// The subject of the token or certificate presented at init, if one was verified.
    pub subject: Option<Box<str>>,
    /// The tenant that the subject is of, where somebody said so.
    pub tenant: Option<Box<str>>,
    /// How the client was recognised at init.
    pub auth: Auth,
    /// The first session of the chain that it was renewed in; `None` where it is the first itself.
    pub lineage: Option<SessionId>,
    /// When it was agreed, in milliseconds since the epoch; of a renewed session, when the first of its chain was.
    pub created_ms: u64,
    /// The first millisecond at which it is over.
    pub expires_ms: u64,
    /// Its key; on wire 3 the secret that all its keys come from.
    pub key: SessionKey,
}

/// How a client was recognised. `spec/session-3.md#who-the-client-is`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Auth {
    /// Not at all.
    #[default]
    None,
    /// By a bearer token.
    Bearer,
    /// By a token that is bound to a key, and a proof made with it (RFC 9449).
    Dpop,
    /// By a certificate.
    Certificate,
}

impl Auth {
    /// All of them.
    pub const ALL: [Auth; 4] = [Auth::None, Auth::Bearer, Auth::Dpop, Auth::Certificate];

    /// Its name on the wire and in stored rows.
    pub fn name(self) -> &'static str {
        match self {
            Auth::None => "none",
            Auth::Bearer => "bearer",
            Auth::Dpop => "dpop",
            Auth::Certificate => "certificate",
        }
    }

    /// The one with this name.
    pub fn from_name(name: &str) -> Option<Auth> {
        Auth::ALL.into_iter().find(|auth| auth.name() == name)
    }
}

/// The headers that tell a service whose session a sealed request is of.
pub const IDENTITY_HEADERS: [&str; 4] =
    ["x-sealway-client-id", "x-sealway-auth", "x-sealway-subject", "x-sealway-tenant"];

impl SessionRecord {
    /// The first session of its chain of renewals, often itself. Revoking one session revokes its whole chain.
    pub fn root(&self) -> &SessionId {
        self.lineage.as_ref().unwrap_or(&self.id)
    }

    /// What the service is told of the client, as headers; what the session does not know is left out. Values are visible
    /// ASCII, and two texts never give one value.
    // SPEC session-3.md#who-the-client-is
    pub fn identity_headers(&self) -> Vec<(&'static str, String)> {
        let texts =
            [self.client_id.as_deref(), Some(self.auth.name()), self.subject.as_deref(), self.tenant.as_deref()];
        let headers = IDENTITY_HEADERS.into_iter().zip(texts);
        headers.filter_map(|(name, text)| Some((name, header_text(text?)))).collect()
    }
}

/// A text as a header carries it: what is not visible ASCII, percent signs, and spaces at its ends, which whoever reads a
/// header drops, are percent-encoded.
fn header_text(text: &str) -> String {
    let last = text.len().saturating_sub(1);
    let mut out = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        let is_plain = byte.is_ascii_graphic() && byte != b'%' || (byte == b' ' && at != 0 && at != last);
        if is_plain {
            out.push(char::from(byte));
        } else {
            let digit = |nibble: u8| char::from(if nibble < 10 { b'0' + nibble } else { b'A' + nibble - 10 });
            out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out
}

/// A session ready for use: its record and its expanded keys.
pub struct Session {
    record: SessionRecord,
    keys: Expanded,
}

enum Expanded {
    /// Of wires 1 and 2: one key for all messages.
    Shared(Box<dyn AeadKey>),
    /// Of wire 3.
    Three(three::schedule::Keys),
}

impl Session {
    /// Expands a record's key.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn new(provider: &dyn Provider, record: SessionRecord) -> Result<Self, Error> {
        let keys = match record.wire {
            Wire::One | Wire::Two => Expanded::Shared(provider.aes256_gcm(record.key.expose())?),
            Wire::Three => Expanded::Three(three::schedule::Keys::new(provider, &record.key)),
        };
        Ok(Session { record, keys })
    }

    /// What a store keeps.
    pub fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.record.id
    }

    /// The same session of a client that was recognised so, and of this tenant.
    #[must_use]
    pub fn recognised(mut self, auth: Auth, tenant: Option<Box<str>>) -> Self {
        (self.record.auth, self.record.tenant) = (auth, tenant);
        self
    }

    /// Whether its time is over at `now_ms`.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        now_ms >= self.record.expires_ms
    }

    /// The key of a session of wires 1 and 2.
    pub(crate) fn aead(&self) -> Result<&dyn AeadKey, Error> {
        match &self.keys {
            Expanded::Shared(aead) => Ok(aead.as_ref()),
            Expanded::Three(_) => Err(Error::WireMismatch),
        }
    }

    /// The keys of a session of wire 3.
    pub(crate) fn keys3(&self) -> Result<&three::schedule::Keys, Error> {
        match &self.keys {
            Expanded::Shared(_) => Err(Error::WireMismatch),
            Expanded::Three(keys) => Ok(keys),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("record", &self.record).finish_non_exhaustive()
    }
}
