//! Which requests are sealed: by path, the longest entry first.

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
        if found == Sealed::Required || !self.requires_any() {
            return Some(found);
        }
        // What is named in full is meant as it stands.
        if self.exact.iter().any(|(exact, _)| exact == path) {
            return Some(found);
        }
        let is_unusual = path.contains(['%', '\\', ';']) || path.contains("//") || path.contains("/.");
        let loosely = |entry: &str, is_prefix: bool| {
            let (entry, bare) = (entry.trim_end_matches('/'), path.trim_end_matches('/'));
            let begins = bare.get(..entry.len()).is_some_and(|head| head.eq_ignore_ascii_case(entry));
            begins && (bare.len() == entry.len() || (is_prefix && bare.as_bytes().get(entry.len()) == Some(&b'/')))
        };
        let of = |entries: &[(String, Sealed)], is_prefix| {
            entries.iter().any(|(entry, sealed)| *sealed == Sealed::Required && loosely(entry, is_prefix))
        };
        if is_unusual || of(&self.exact, false) || of(&self.prefixes, true) { None } else { Some(found) }
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
        for path in ["/PAY", "/pay/", "/%70ay", "//pay", "/./pay", "/pay;a", "/API/x", "/api"] {
            assert_eq!(routes.find(path), None, "{path}");
        }
        assert_eq!(Routes::all(Sealed::Off).find("//a"), Some(Sealed::Off));
    }
}
