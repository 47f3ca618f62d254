//! The reasons for which a message is rejected. The class goes to the log and the metrics, never to the peer: a gateway answers
//! all of them alike. SPEC mle.md#refusals

use alloc::borrow::Cow;
use alloc::format;
use core::fmt;

/// Declares the classes, a row for each: its stable name.
macro_rules! classes {
    ($($(#[$doc:meta])* $row:ident = $name:literal;)*) => {
        /// The class of a refusal, as logs and metrics name it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Class {
            $($(#[$doc])* $row,)*
        }

        impl Class {
            /// One of each class, in the order of the specification.
            pub const ALL: &'static [Class] = &[$(Class::$row),*];

            /// Returns the stable name of the class.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Class::$row => $name,)*
                }
            }
        }
    };
}

classes! {
    /// Larger than a bound: token, header, or the number of elements on a path.
    Size = "size";
    /// Not a compact JWE of five parts, or an encrypted key that does not fit its algorithm.
    Shape = "shape";
    /// A part is not canonical base64url.
    Base64 = "base64";
    /// The protected header is not one JSON object without duplicates.
    Header = "header";
    /// `alg` is absent, unknown, outside of the profile, or not the key's.
    Alg = "alg";
    /// `enc` is absent, unknown, outside of the profile, or not the key's.
    Enc = "enc";
    /// The content is compressed before its encryption.
    Zip = "zip";
    /// `crit`, or a parameter that needs it.
    Crit = "crit";
    /// A parameter that carries or names key material, or that contradicts the key.
    Param = "param";
    /// `kid` is absent, malformed, or names no live key.
    Kid = "kid";
    /// `iat` is absent, malformed, or outside of the window.
    Iat = "iat";
    /// The ephemeral public key is absent, malformed, or not on the key's curve.
    Epk = "epk";
    /// The initialisation vector has a wrong length.
    Iv = "iv";
    /// The encrypted key did not decrypt to a key of the right length.
    Unwrap = "unwrap";
    /// The tag has a wrong length or does not verify.
    Tag = "tag";
    /// The padding behind a plaintext of the field-level form is malformed.
    Padding = "padding";
    /// The body, or a decrypted value, is not the JSON that the profile needs.
    Json = "json";
    /// The signature does not verify, is absent, or is not of the key's algorithm; or a request cannot be signed.
    Signature = "signature";
    /// A claim of a signed token is absent, malformed, or not what the verifier expects: issuer, audience, subject, times, id.
    Claims = "claims";
    /// The message was received before.
    Replayed = "replayed";
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rejected message. Its text is for the log of the server that rejected it; it holds no plaintext, no key and no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    class: Class,
    detail: Cow<'static, str>,
}

/// Longest text of a peer that a refusal quotes, in characters. It is escaped.
const QUOTE_MAX: usize = 64;

impl Refusal {
    /// Creates a refusal of a class with a fixed text.
    pub fn new(class: Class, detail: &'static str) -> Refusal {
        Refusal { class, detail: Cow::Borrowed(detail) }
    }

    /// Creates a refusal that quotes a public text of the peer, cut to 64 characters and escaped.
    pub(super) fn quoting(class: Class, detail: &str, quote: &str) -> Refusal {
        let is_cut = quote.chars().nth(QUOTE_MAX).is_some();
        let head: alloc::string::String = quote.chars().take(QUOTE_MAX).collect();
        Refusal { class, detail: Cow::Owned(format!("{detail}: {head:?}{}", if is_cut { "…" } else { "" })) }
    }

    /// Creates a refusal whose text was composed of numbers and fixed words.
    pub(super) fn composed(class: Class, detail: alloc::string::String) -> Refusal {
        Refusal { class, detail: Cow::Owned(detail) }
    }

    /// Returns the class as an enumeration.
    pub fn kind(&self) -> Class {
        self.class
    }

    /// Returns the stable name of the class, for logs and metrics.
    pub fn class(&self) -> &'static str {
        self.class.as_str()
    }

    /// Returns the text for the log, without the class.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    #[test]
    fn quotes_are_cut_and_escaped() {
        let text = String::from("../\n\0\u{202e}") + &"k".repeat(300);
        let refusal = Refusal::quoting(Class::Kid, "no live key has this kid", &text);
        assert_eq!(refusal.class(), "kid");
        assert!(refusal.to_string().len() < 160, "{refusal}");
        assert!(!refusal.to_string().contains(['\n', '\0', '\u{202e}']), "{refusal}");
        assert!(refusal.to_string().ends_with('…'));
    }

    #[test]
    fn the_names_of_classes_are_unique() {
        let mut names: alloc::vec::Vec<_> = Class::ALL.iter().map(|class| class.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Class::ALL.len());
    }
}
