//! Session ids: `S-` (or `A-` for anonymous ones) and 32 lower-case hexadecimal digits; in `X-Kid` after `session:`.

use core::fmt;

use alloc::string::String;

use crate::error::Error;
use crate::limits::SESSION_ID_LEN;
use crate::wire::nonce::push_hex;

const KID_PREFIX: &str = "session:";

/// A session id of the right form. Public: it names a session and proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId([u8; SESSION_ID_LEN]);

impl SessionId {
    /// Creates the id from 16 random bytes.
    pub fn from_random(random: &[u8; 16], anonymous: bool) -> Self {
        let mut text = String::with_capacity(SESSION_ID_LEN);
        text.push_str(if anonymous { "A-" } else { "S-" });
        push_hex(&mut text, random);
        let mut id = [0; SESSION_ID_LEN];
        for (to, from) in id.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        SessionId(id)
    }

    /// Parses an id, `S-…` or `A-…`.
    ///
    /// # Errors
    /// [`Error::SessionUnknown`]: no session has a malformed id.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let id: [u8; SESSION_ID_LEN] = text.as_bytes().try_into().map_err(|_| Error::SessionUnknown)?;
        let (head, digits) = id.split_first_chunk::<2>().ok_or(Error::SessionUnknown)?;
        let lower_hex = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
        if (head == b"S-" || head == b"A-") && digits.iter().all(lower_hex) {
            Ok(SessionId(id))
        } else {
            Err(Error::SessionUnknown)
        }
    }

    /// Parses the `X-Kid` of a sealed call. The outer error is that of the prefix: it precedes any access to a store.
    ///
    /// # Errors
    /// [`Error::KidPrefix`]; the inner one is [`Error::SessionUnknown`].
    pub fn from_kid(kid: &str) -> Result<Result<Self, Error>, Error> {
        Ok(SessionId::parse(kid.strip_prefix(KID_PREFIX).ok_or(Error::KidPrefix)?))
    }

    /// Returns the `X-Kid` of sealed calls and answers.
    pub fn kid(&self) -> String {
        let mut kid = String::with_capacity(KID_PREFIX.len() + SESSION_ID_LEN);
        kid.push_str(KID_PREFIX);
        kid.push_str(self.as_str());
        kid
    }

    /// Returns the text, `S-…` or `A-…`.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns whether this is an anonymous session, bound to the allow-list.
    pub fn is_anonymous(&self) -> bool {
        self.0.first() == Some(&b'A')
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
