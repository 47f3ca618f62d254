//! A session on a server: the client that agreed it, its wire, its lifetime, and its key.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::crypto::{AeadKey, Provider};
use crate::error::Error;
use crate::session::keys::SessionKey;
use crate::session::native;
use crate::wire::{SessionId, Wire};

/// The record of a session in a store.
#[derive(Clone, Debug)]
pub struct SessionRecord {
    /// The id of the session.
    pub id: SessionId,
    /// The wire on which it was agreed.
    pub wire: Wire,
    /// The client id with which it was agreed; `None` on wire 1.
    pub client_id: Option<Box<str>>,
    /// The subject of the token or certificate presented at init, if one was verified.
    pub subject: Option<Box<str>>,
    /// The tenant of the subject, if the authenticator names one.
    pub tenant: Option<Box<str>>,
    /// The method by which the client was authenticated at init.
    pub auth: Auth,
    /// The first session of the chain that it was renewed in; `None` if it is the first itself.
    pub lineage: Option<SessionId>,
    /// Time of the agreement, in milliseconds since the epoch; of a renewed session, that of the first of its chain.
    pub created_ms: u64,
    /// The first millisecond at which it is expired, since the epoch.
    pub expires_ms: u64,
    /// The key; on wire 3 the secret from which all its keys are derived.
    pub key: SessionKey,
}

/// The method by which a client was authenticated. `spec/session-3.md#who-the-client-is`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Auth {
    /// Not authenticated: an anonymous client.
    #[default]
    None,
    /// By a bearer token (RFC 6750).
    Bearer,
    /// By a token that is bound to a key, and a proof signed with the key (RFC 9449).
    Dpop,
    /// By a TLS client certificate.
    Certificate,
    /// By a pre-shared key, on wire 4 alone: no session has it.
    Psk,
}

impl Auth {
    /// The methods by which sessions are agreed, in the order of the enum.
    pub const ALL: [Auth; 4] = [Auth::None, Auth::Bearer, Auth::Dpop, Auth::Certificate];

    /// Returns its name on the wire and in stored rows.
    pub fn name(self) -> &'static str {
        match self {
            Auth::None => "none",
            Auth::Bearer => "bearer",
            Auth::Dpop => "dpop",
            Auth::Certificate => "certificate",
            Auth::Psk => "psk",
        }
    }

    /// Returns the method of sessions of this name.
    pub fn from_name(name: &str) -> Option<Auth> {
        Auth::ALL.into_iter().find(|auth| auth.name() == name)
    }
}

/// The headers that name a sealed request's client to the service.
pub const IDENTITY_HEADERS: [&str; 4] =
    ["x-sealway-client-id", "x-sealway-auth", "x-sealway-subject", "x-sealway-tenant"];

impl SessionRecord {
    /// Returns the first session of its chain of renewals, often itself. Revoking one session revokes its whole chain.
    pub fn root(&self) -> &SessionId {
        self.lineage.as_ref().unwrap_or(&self.id)
    }

    /// Returns the headers that describe the client to the service, without those that the session does not know. Values are
    /// visible ASCII, and two texts never give one value.
    // SPEC session-3.md#who-the-client-is
    pub fn identity_headers(&self) -> Vec<(&'static str, String)> {
        let texts =
            [self.client_id.as_deref(), Some(self.auth.name()), self.subject.as_deref(), self.tenant.as_deref()];
        let headers = IDENTITY_HEADERS.into_iter().zip(texts);
        headers.filter_map(|(name, text)| Some((name, header_text(text?)))).collect()
    }
}

/// Encodes a text for a header: it percent-encodes everything that is not visible ASCII, percent signs, and spaces at the ends,
/// which readers of a header drop.
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
    keys: SessionKeys,
}

enum SessionKeys {
    /// Keys of wires 1 and 2: one key for all messages.
    Shared(Box<dyn AeadKey>),
    /// Keys of wire 3, one schedule a session, and of one request on wire 4.
    Native(native::schedule::Keys),
}

impl Session {
    /// Expands the key of a record.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn new(provider: &dyn Provider, record: SessionRecord) -> Result<Self, Error> {
        let keys = match record.wire {
            Wire::V1 | Wire::V2 => SessionKeys::Shared(provider.aes256_gcm(record.key.expose())?),
            Wire::Native => SessionKeys::Native(native::schedule::Keys::new(provider, &record.key)),
            // Its keys come from HPKE, and not from a record.
            Wire::OneShot => return Err(Error::WireMismatch),
        };
        Ok(Session { record, keys })
    }

    /// Creates the session of one request on wire 4, which no store has. `record.key` is its pre-shared key, or zeros.
    #[cfg(feature = "one-shot")]
    pub(crate) fn of_request(record: SessionRecord, keys: native::schedule::Keys) -> Self {
        Session { record, keys: SessionKeys::Native(keys) }
    }

    /// Returns the record, as stores keep it.
    pub fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// Returns the id of the session.
    pub fn id(&self) -> &SessionId {
        &self.record.id
    }

    /// Returns the same session with this method of authentication and this tenant.
    #[must_use]
    pub fn recognised(mut self, auth: Auth, tenant: Option<Box<str>>) -> Self {
        (self.record.auth, self.record.tenant) = (auth, tenant);
        self
    }

    /// Returns the name of the key that a request on wire 4 is sealed to; `None` for a session that was agreed.
    pub fn key_name(&self) -> Option<&str> {
        let digits = self.record.id.as_str().get(2..);
        digits.filter(|_| self.record.wire == Wire::OneShot)
    }

    /// Returns the error of a request whose session, or whose key on wire 4, is over.
    pub fn ended(&self) -> Error {
        if self.record.wire == Wire::OneShot { Error::KeyRetired } else { Error::SessionExpired }
    }

    /// Returns whether the session has expired at `now_ms`.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        now_ms >= self.record.expires_ms
    }

    /// Returns the key of a session of wires 1 and 2.
    pub(crate) fn aead(&self) -> Result<&dyn AeadKey, Error> {
        match &self.keys {
            SessionKeys::Shared(aead) => Ok(aead.as_ref()),
            SessionKeys::Native(_) => Err(Error::WireMismatch),
        }
    }

    /// Returns the keys of a session of wire 3.
    pub(crate) fn native_keys(&self) -> Result<&native::schedule::Keys, Error> {
        match &self.keys {
            SessionKeys::Shared(_) => Err(Error::WireMismatch),
            SessionKeys::Native(keys) => Ok(keys),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("record", &self.record).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_of_a_session_reads_back_from_its_name() {
        for auth in Auth::ALL {
            assert_eq!(Auth::from_name(auth.name()), Some(auth));
        }
        assert_eq!((Auth::from_name("psk"), Auth::from_name("None")), (None, None), "no session is agreed by these");
    }

    #[test]
    fn two_texts_never_give_one_header() {
        for (text, header) in [
            ("", ""),
            ("a b", "a b"),
            (" a ", "%20a%20"),
            (" ", "%20"),
            ("100%", "100%25"),
            ("%20", "%2520"),
            ("a\nb", "a%0Ab"),
            ("\u{e9}", "%C3%A9"),
            ("\u{7f}~!", "%7F~!"),
        ] {
            assert_eq!(header_text(text), header);
        }
    }
}
