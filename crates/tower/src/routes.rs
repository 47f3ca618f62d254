//! Which requests are sealed: by path, the longest entry first.

/// How often a path is read anew for escapes of escapes; the time that a path takes is bounded by it.
const ESCAPES_MAX: usize = 3;

/// Whether the requests of a path are sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sealed {
    /// Every request must be.
    #[default]
    Required,
    /// Those are that carry `X-Kid`, `X-Idempotency-Key` or `X-Seal`; others pass as they are.
    Optional,
    /// None is: they pass as they are.
    Off,
}

/// The table. Paths are compared byte for byte, as sent and without their query.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    all: Sealed,
    exact: Vec<(String, Sealed)>,
    prefixes: Vec<(String, Sealed)>,
}

impl Routes {
    /// Every path, unless an entry says otherwise.
    pub fn all(sealed: Sealed) -> Self {
        Routes { all: sealed, exact: Vec::new(), prefixes: Vec::new() }
    }

    /// This path alone.
    #[must_use]
    pub fn exact(mut self, path: impl Into<String>, sealed: Sealed) -> Self {
        self.exact.push((path.into(), sealed));
        self
    }

    /// Every path that begins so. The longest of several counts.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>, sealed: Sealed) -> Self {
        self.prefixes.push((prefix.into(), sealed));
        self
    }

    /// What holds for a path; none for another spelling of a path that must be sealed: a service that reads both alike would
    /// be reached in plain.
    pub(crate) fn find(&self, path: &str) -> Option<Sealed> {
        let found = self.named(path);
        // What is named in full is meant as it stands.
        let is_named = || self.exact.iter().any(|(exact, _)| exact == path);
        if found == Sealed::Required || !self.requires_any() || is_named() {
            return Some(found);
        }
        let other = plainest(path)?;
        let readings = [self.named(&other), self.loosely_named(&other), self.loosely_named(path)];
        if readings.contains(&Sealed::Required) { None } else { Some(found) }
    }

    /// What holds for a path to a service that makes no difference between upper and lower case, and passes over a last slash.
    fn loosely_named(&self, path: &str) -> Sealed {
        let bare = path.trim_end_matches('/');
        let strictest = |one: Option<Sealed>, other: Sealed| match one {
            Some(Sealed::Required) => one,
            _ => Some(other),
        };
        let is_exact = |entry: &str| entry.trim_end_matches('/').eq_ignore_ascii_case(bare);
        let exact = self.exact.iter().filter(|(entry, _)| is_exact(entry)).map(|(_, sealed)| *sealed);
        if let Some(sealed) = exact.fold(None, strictest) {
            return sealed;
        }
        let is_begin = |entry: &str| {
            let trimmed = entry.trim_end_matches('/');
            let begins = bare.get(..trimmed.len()).is_some_and(|head| head.eq_ignore_ascii_case(trimmed));
            begins && (trimmed == entry || matches!(bare.as_bytes().get(trimmed.len()), None | Some(b'/')))
        };
        let begin: Vec<_> = self.prefixes.iter().filter(|(entry, _)| is_begin(entry)).collect();
        let len = |entry: &str| entry.trim_end_matches('/').len();
        let longest = begin.iter().map(|(entry, _)| len(entry)).max();
        let begin = begin.iter().filter(|(entry, _)| Some(len(entry)) == longest).map(|(_, sealed)| *sealed);
        begin.fold(None, strictest).unwrap_or(self.all)
    }

    fn named(&self, path: &str) -> Sealed {
        if let Some((_, sealed)) = self.exact.iter().find(|(exact, _)| exact == path) {
            return *sealed;
        }
        let begin = self.prefixes.iter().filter(|(prefix, _)| path.starts_with(prefix.as_str()));
        begin.max_by_key(|(prefix, _)| prefix.len()).map_or(self.all, |(_, sealed)| *sealed)
    }

    fn requires_any(&self) -> bool {
        let mut entries = self.exact.iter().chain(&self.prefixes);
        self.all == Sealed::Required || entries.any(|(_, sealed)| *sealed == Sealed::Required)
    }
}

/// The path as the most lenient reader has it: escapes and backslashes read, parameters and empty segments left out. None if it
/// has what readers differ on: a step back, a control character, or escapes of escapes without end.
fn plainest(path: &str) -> Option<String> {
    let mut bytes = path.as_bytes().to_vec();
    for _ in 0..ESCAPES_MAX {
        let read = unescaped(&bytes);
        if read == bytes {
            break;
        }
        bytes = read;
    }
    if unescaped(&bytes) != bytes || bytes.iter().any(u8::is_ascii_control) {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes).replace('\\', "/");
    let mut plain = String::with_capacity(text.len());
    for segment in text.split('/') {
        match segment.split(';').next().unwrap_or_default() {
            "" => {}
            "." | ".." => return None,
            segment => {
                plain.push('/');
                plain.push_str(segment);
            }
        }
    }
    if text.ends_with('/') || plain.is_empty() {
        plain.push('/');
    }
    Some(plain)
}

fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (mut read, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                read.push(high * 16 + low);
                at += 3;
            }
            _ => {
                read.push(*byte);
                at += 1;
            }
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_path_goes_before_the_longest_prefix_and_that_before_all() {
        let routes = Routes::all(Sealed::Required)
            .exact("/health", Sealed::Off)
            .prefix("/pages/", Sealed::Off)
            .prefix("/pages/account/", Sealed::Optional);
        for (path, sealed) in [
            ("/health", Sealed::Off),
            ("/health/", Sealed::Required),
            ("/pages/a", Sealed::Off),
            ("/pages/account/b", Sealed::Optional),
            ("/x", Sealed::Required),
        ] {
            assert_eq!(routes.find(path), Some(sealed), "{path}");
        }
    }

    #[test]
    fn another_spelling_of_a_sealed_path_is_refused_where_the_rest_is_plain() {
        let routes = Routes::all(Sealed::Off).exact("/pay", Sealed::Required).prefix("/api/", Sealed::Required);
        assert_eq!(routes.find("/pay"), Some(Sealed::Required));
        assert_eq!(routes.find("/other"), Some(Sealed::Off));
        for path in [
            "/PAY",
            "/pay/",
            "/%70ay",
            "/%2570ay",
            "/%2525252570ay",
            "//pay",
            "/./pay",
            "/x/../pay",
            "/x/%2e%2E/pay",
            "/x\\..\\pay",
            "\\pay",
            "/pay;a",
            "/;a/pay",
            "/pay%00.png",
            "/API/x",
            "/%61pi%2fx",
            "/api",
        ] {
            assert_eq!(routes.find(path), None, "{path}");
        }
        assert_eq!(Routes::all(Sealed::Off).find("//a"), Some(Sealed::Off));
    }

    #[test]
    fn a_plain_path_is_plain_however_it_is_spelled_if_no_reading_of_it_is_sealed() {
        let routes = Routes::all(Sealed::Required)
            .prefix("/.well-known/", Sealed::Off)
            .prefix("/pages/", Sealed::Off)
            .prefix("/pages/account/", Sealed::Required)
            .prefix("/pages/account/help/", Sealed::Off);
        for path in [
            "/.well-known/sealway-keys",
            "/pages/",
            "/pages//a",
            "/pages/a%20b.png",
            "/pages/100%25",
            "/pages/%C3%A9;v=1",
            "/pages/...",
            "/pages/account/help/x",
        ] {
            assert_eq!(routes.find(path), Some(Sealed::Off), "{path}");
        }
        for path in [
            "/pages/../pay",
            "/pages/..%2fpay",
            "/pages/%252e%252e/pay",
            "/pages/..;a/pay",
            "/pages/Account/x",
            "/pages//account/x",
            "/pages/%61ccount",
        ] {
            assert_eq!(routes.find(path), None, "{path}");
        }
        for path in ["/", "/pay", "/PAGES/a", "/pages", "/pages%2fa", "//pages/a", "/pages/account/x"] {
            assert_eq!(routes.find(path), Some(Sealed::Required), "{path}");
        }
    }
}
