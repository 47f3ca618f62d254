//! The allow-list for certificates of a trusted authority: patterns for their names.

use std::fmt;
use std::str::FromStr;

use super::peer::PeerCertificate;

/// Longest pattern, in bytes, and most stars in one.
const PATTERN_LEN_MAX: usize = 512;
const STARS_MAX: usize = 8;

/// A pattern of the allow-list. Its beginning decides which names it is compared with:
///
/// * `spiffe://plant/*`, or `URI:` and any URI: the URIs among the subject alternative names. A `*` stands for any text, and
///   one before the path for text without a slash: it does not reach into the path.
/// * `DNS:*.plant.example`: the DNS names. A `*` stands for text without a dot. Case does not matter.
/// * `CN=instrument-*`: the subject's common name, if it has exactly one. A `*` stands for any text.
/// * `SHA256:` and 64 hexadecimal digits, with or without colons: the certificate's own digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowPattern {
    text: String,
    matcher: Matcher,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Matcher {
    Uri(String),
    Dns(String),
    CommonName(String),
    Sha256(String),
}

impl FromStr for AllowPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        AllowPattern::parse(text)
    }
}

impl fmt::Display for AllowPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl AllowPattern {
    /// Parses one pattern of the list.
    ///
    /// # Errors
    /// A sentence that names the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > PATTERN_LEN_MAX || text.matches('*').count() > STARS_MAX {
            return Err(format!("a pattern has at most {PATTERN_LEN_MAX} bytes and {STARS_MAX} stars"));
        }
        let matcher = if text.starts_with("spiffe://") {
            Matcher::Uri(text.to_owned())
        } else if let Some(uri) = text.strip_prefix("URI:") {
            Matcher::Uri(uri.to_owned())
        } else if let Some(name) = text.strip_prefix("DNS:") {
            Matcher::Dns(name.to_ascii_lowercase())
        } else if let Some(name) = text.strip_prefix("CN=") {
            Matcher::CommonName(name.to_owned())
        } else if let Some(digest) = text.strip_prefix("SHA256:") {
            let digest = digest.replace(':', "").to_ascii_lowercase();
            if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(format!("\"{text}\": SHA256: is followed by 64 hexadecimal digits"));
            }
            Matcher::Sha256(digest)
        } else {
            return Err(format!(
                "\"{text}\" is no pattern for a client certificate, such as spiffe://plant/*, CN=instrument-*, \
                 DNS:*.plant.example, URI:urn:plant:* or SHA256:…"
            ));
        };
        let is_empty = match &matcher {
            Matcher::Uri(pattern) | Matcher::Dns(pattern) | Matcher::CommonName(pattern) => pattern.is_empty(),
            Matcher::Sha256(_) => false,
        };
        if is_empty {
            return Err(format!("\"{text}\" names nothing; a star stands for any name"));
        }
        Ok(AllowPattern { text: text.to_owned(), matcher })
    }

    /// Returns whether the pattern matches this certificate.
    pub fn matches(&self, peer: &PeerCertificate) -> bool {
        match &self.matcher {
            Matcher::Uri(pattern) => peer.uris.iter().any(|uri| uri_fits(pattern, uri)),
            Matcher::Dns(pattern) => {
                peer.dns.iter().any(|name| glob(pattern.as_bytes(), name.to_ascii_lowercase().as_bytes(), Some(b'.')))
            }
            Matcher::CommonName(pattern) => {
                peer.common_name.as_ref().is_some_and(|name| glob(pattern.as_bytes(), name.as_bytes(), None))
            }
            Matcher::Sha256(digest) => *digest == peer.sha256,
        }
    }
}

/// Compares URIs. The authority is compared separately from the path, so that a star of the one cannot reach into the other.
fn uri_fits(pattern: &str, uri: &str) -> bool {
    let split = |text: &str| {
        let authority = text.find("://").map_or(0, |at| at + 3);
        text[authority..].find('/').map_or(text.len(), |at| authority + at)
    };
    if !pattern.contains("://") {
        return glob(pattern.as_bytes(), uri.as_bytes(), None);
    }
    let (pattern_head, pattern_path) = pattern.split_at(split(pattern));
    let (head, path) = uri.split_at(split(uri));
    glob(pattern_head.as_bytes(), head.as_bytes(), Some(b'/')) && glob(pattern_path.as_bytes(), path.as_bytes(), None)
}

/// Returns whether `text` matches `pattern`, in which a star stands for any bytes, also none, but not for `barrier`.
fn glob(pattern: &[u8], text: &[u8], barrier: Option<u8>) -> bool {
    let (mut p, mut t) = (0, 0);
    // The last star, and the length that it covers.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            p += 1;
            t += 1;
        } else {
            let Some((at, stretched)) = star else { return false };
            if Some(text[stretched]) == barrier {
                return false;
            }
            star = Some((at, stretched + 1));
            (p, t) = (at + 1, stretched + 1);
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_what_its_kind_allows() {
        for (pattern, text, fits) in [
            ("spiffe://plant/*", "spiffe://plant/line/7", true),
            ("spiffe://plant/*", "spiffe://plant.evil/line/7", false),
            ("spiffe://plant/*", "spiffe://plant", false),
            ("spiffe://plant*", "spiffe://plant.evil/x", false),
            ("spiffe://*/x", "spiffe://a/x", true),
            ("spiffe://*/x", "spiffe://a/b/x", false),
            ("spiffe://plant/a*c*", "spiffe://plant/abcbcd", true),
            ("urn:plant:*", "urn:plant:7/8", true),
        ] {
            assert_eq!(uri_fits(pattern, text), fits, "{pattern} {text}");
        }
        for (pattern, text, fits) in [
            ("*.plant.example", "a.plant.example", true),
            ("*.plant.example", "a.b.plant.example", false),
            ("a*.*.example", "ab.c.example", true),
            ("a*.*.example", "a.b.c.example", false),
            ("plant.example", "plant.example.evil", false),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes(), Some(b'.')), fits, "{pattern} {text}");
        }
        for (pattern, text, fits) in
            [("instrument-*", "instrument-", true), ("*", "", true), ("a", "", false), ("*-7", "a-7-7", true)]
        {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes(), None), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn invalid_patterns_are_rejected_with_examples() {
        for text in ["", "*", "instrument-7", "SHA256:ab", "CN=", "URI:", "cn=x", "spiffe:plant"] {
            assert!(AllowPattern::parse(text).is_err(), "{text}");
        }
        assert!(AllowPattern::parse(&format!("CN={}", "*".repeat(9))).is_err());
        assert!(AllowPattern::parse(&format!("SHA256:{}", "AB:".repeat(32).trim_end_matches(':'))).is_ok());
    }
}
