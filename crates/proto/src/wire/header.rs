//! Header names in lower case, and access to headers without an HTTP library.

use crate::error::Error;

/// The session of a message: `session:` and the id on sealed calls.
pub const X_KID: &str = "x-kid";
/// Wire 2: stamp and nonce, `timestamp.nonce`.
pub const X_IDEMPOTENCY_KEY: &str = "x-idempotency-key";
/// Wire 2: the client id that the client claims.
pub const X_CLIENT_ID: &str = "x-clientid";
/// Wire 1: the nonce of the message.
pub const X_NONCE: &str = "x-nonce";
/// Wire 1: the timestamp of the message.
pub const X_TIMESTAMP: &str = "x-timestamp";
/// Wire 1: the algorithm, always `A256GCM`.
pub const X_ENC_ALG: &str = "x-enc-alg";
/// Wire 1: the initialisation vector, base64.
pub const X_IV: &str = "x-iv";
/// Wire 1: the tag, base64.
pub const X_TAG: &str = "x-tag";
/// Wire 1: the additional authenticated data, base64.
pub const X_AAD: &str = "x-aad";
/// Wire 3: the mark of sealed messages, always `3`.
pub const X_SEAL: &str = "x-seal";
/// Wire 3: the whole stream of a message without a body, in base64.
pub const X_SEALED: &str = "x-sealed";

/// Every header of the sealing wires: none of them reaches a service behind the gateway.
pub const SEALING: &[&str] =
    &[X_KID, X_IDEMPOTENCY_KEY, X_CLIENT_ID, X_NONCE, X_TIMESTAMP, X_ENC_ALG, X_IV, X_TAG, X_AAD, X_SEAL, X_SEALED];

/// The value of `X-Enc-Alg`, and wire 1's `encAlg`.
pub const A256GCM: &str = "A256GCM";

/// The value of a header, as far as it is well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// The message has no such header.
    Absent,
    /// One header, of visible ASCII, spaces and tabs.
    Value(&'a str),
    /// More than one header, or one with other bytes. The wires have no meaning for either.
    Malformed,
}

impl<'a> Field<'a> {
    /// Returns the value, which must be present and not empty.
    ///
    /// # Errors
    /// [`Error::HeaderMissing`], [`Error::HeaderInvalid`], with `name`.
    pub fn required(self, name: &'static str) -> Result<&'a str, Error> {
        match self {
            Field::Absent | Field::Value("") => Err(Error::HeaderMissing(name)),
            Field::Value(value) => Ok(value),
            Field::Malformed => Err(Error::HeaderInvalid(name)),
        }
    }
}

/// The headers of a message.
pub trait Headers {
    /// Returns the field `name`, which is lower case; names compare without case.
    fn field(&self, name: &'static str) -> Field<'_>;
}

/// Name and value pairs as headers: for clients, vectors and fuzzing.
impl<N: AsRef<str>, V: AsRef<str>> Headers for [(N, V)] {
    fn field(&self, name: &'static str) -> Field<'_> {
        let mut found = self.iter().filter(|(key, _)| key.as_ref().eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (None, _) => Field::Absent,
            (Some((_, value)), None) if value.as_ref().bytes().all(|b| b == b'\t' || (b' '..0x7f).contains(&b)) => {
                Field::Value(value.as_ref())
            }
            _ => Field::Malformed,
        }
    }
}

impl<N: AsRef<str>, V: AsRef<str>> Headers for alloc::vec::Vec<(N, V)> {
    fn field(&self, name: &'static str) -> Field<'_> {
        self.as_slice().field(name)
    }
}
