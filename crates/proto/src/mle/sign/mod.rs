//! Signatures over encrypted bodies: a JWE says who can read it, and each scheme has another signature for who wrote it. SPEC
//! mle.md#signatures-of-requests
//!
//! [`oauth1`] is Mastercard's, [`x_pay_token`] Visa's, [`acceptance`] that of Visa Acceptance, [`jws`] that of open banking and the
//! base of the one before. Each takes the request as it is sent: the body is encrypted before it is signed. [`nested`] is the reverse:
//! a token that is signed before it is encrypted.
//!
//! Time and nonces are arguments. The salt of RSASSA-PSS and the nonce of ECDSA come from the library.

pub mod acceptance;
#[cfg(feature = "aws-lc")]
mod aws_lc;
pub mod jws;
pub mod key;
pub mod nested;
pub mod oauth1;
pub mod seam;
pub mod x_pay_token;

use alloc::format;
use alloc::string::String;

pub use key::{SigningKey, VerifyingKey, VerifyingKeys};
pub use nested::Parties;
pub use seam::JwsProvider;

use super::refusal::{Class, Refusal};

/// The scheme and the host of a URL (RFC 6454), in their canonical spelling: lower case, and no port that is the scheme's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin {
    scheme: &'static str,
    authority: String,
}

impl WebOrigin {
    /// Creates it from the authority of a URL, `HOST` or `HOST:PORT`.
    pub fn new(is_https: bool, authority: &str) -> WebOrigin {
        let (scheme, port) = if is_https { ("https", ":443") } else { ("http", ":80") };
        WebOrigin { scheme, authority: authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase() }
    }

    /// Returns the host, with its port if that is not the default.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

/// A request as it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method, in its letter case.
    pub method: &'a str,
    /// The scheme's server, as the signature names it.
    pub origin: &'a WebOrigin,
    /// The path, which begins with a slash, with its escapes.
    pub path: &'a str,
    /// The query without its question mark, with its escapes.
    pub query: Option<&'a str>,
    /// The body, after its encryption; empty if there is none.
    pub body: &'a [u8],
}

impl Request<'_> {
    /// Returns the path and the query as they stand in the request line.
    fn target(&self) -> String {
        match self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.into(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Creates the refusal of a request that cannot be signed, or of a signature that does not verify.
fn refusal(detail: &'static str) -> Refusal {
    Refusal::new(Class::Signature, detail)
}

fn failed(_: super::crypto::CryptoFailure) -> Refusal {
    refusal("the cryptographic library failed to sign")
}
