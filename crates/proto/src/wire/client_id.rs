//! `X-ClientId`: 1 to 256 bytes of printable ASCII without `|`, which separates the parts of wire 2's AAD.

use crate::error::Error;
use crate::limits::CLIENT_ID_LEN_MAX;
use crate::wire::header::X_CLIENT_ID;

/// A well-formed client id. It is public, and proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId<'a>(&'a str);

impl<'a> ClientId<'a> {
    /// Checks the value of a header.
    ///
    /// # Errors
    /// [`Error::HeaderInvalid`].
    pub fn parse(text: &'a str) -> Result<Self, Error> {
        let well_formed = (1..=CLIENT_ID_LEN_MAX).contains(&text.len())
            && text.bytes().all(|b| (b' '..0x7f).contains(&b) && b != b'|');
        if well_formed { Ok(ClientId(text)) } else { Err(Error::HeaderInvalid(X_CLIENT_ID)) }
    }

    /// Returns the text as sent.
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}
