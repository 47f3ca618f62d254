//! The rows of the table: a scheme, a protocol, the reuse of connections, and the key exchange group.

use crate::client::{Group, Protocol, Reuse};
use crate::proxies::{Kind, Ports};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
    Mtls,
}

/// One row of the comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    scheme: Scheme,
    pub(super) protocol: Protocol,
    pub(super) reuse: Reuse,
    pub(super) group: Group,
}

/// Returns all rows in the order of the table.
fn all() -> Vec<Row> {
    let row = |scheme, protocol, reuse| Row { scheme, protocol, reuse, group: Group::X25519 };
    let mut rows = Vec::new();
    for scheme in [Scheme::Http, Scheme::Https, Scheme::Mtls] {
        rows.push(row(scheme, Protocol::H1, Reuse::Keep));
        rows.push(row(scheme, Protocol::H1, Reuse::New));
        if scheme != Scheme::Http {
            rows.push(row(scheme, Protocol::H1, Reuse::Resumed));
        }
        rows.push(row(scheme, Protocol::H2, Reuse::Keep));
        rows.push(row(scheme, Protocol::H2, Reuse::New));
    }
    // Last, because Debian's own two do not know the group.
    for scheme in [Scheme::Https, Scheme::Mtls] {
        rows.push(Row { group: Group::X25519MlKem768, ..row(scheme, Protocol::H1, Reuse::New) });
    }
    rows
}

/// Returns the rows whose name has one of these words. Without words, returns all rows.
pub(super) fn select(words: &[String]) -> Vec<Row> {
    let fits = |row: &Row| {
        let name = row.name();
        words.is_empty() || words.iter().any(|word| name.split(' ').any(|part| part == word) || *word == name)
    };
    all().into_iter().filter(fits).collect()
}

/// Returns the names of all rows for a message.
pub(super) fn names() -> String {
    all().iter().map(Row::name).collect::<Vec<_>>().join(", ")
}

impl Row {
    /// Returns the words of the row that `--rows` accepts, such as `https h2 new`.
    pub(super) fn name(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Mtls => "mtls",
        };
        let protocol = match self.protocol {
            Protocol::H1 => "h1",
            Protocol::H2 => "h2",
        };
        let reuse = match self.reuse {
            Reuse::Keep => "reuse",
            Reuse::New => "new",
            Reuse::Resumed => "resumed",
        };
        let group = match self.group {
            Group::X25519 => "",
            Group::X25519MlKem768 => " hybrid",
        };
        format!("{scheme} {protocol} {reuse}{group}")
    }

    /// Returns false for the two proxies with OpenSSL 3.0 if the row offers only the hybrid group, which they do not know.
    pub(super) fn is_for(&self, server: Kind) -> bool {
        self.group == Group::X25519 || !matches!(server, Kind::NginxDebian | Kind::HaproxyDebian)
    }

    pub(super) fn port(&self, ports: Ports) -> u16 {
        match (self.scheme, self.protocol) {
            (Scheme::Http, Protocol::H1) => ports.http,
            (Scheme::Http, Protocol::H2) => ports.h2c,
            (Scheme::Https, _) => ports.https,
            (Scheme::Mtls, _) => ports.mtls,
        }
    }

    pub(super) fn has_tls(&self) -> bool {
        self.scheme != Scheme::Http
    }

    pub(super) fn shows_certificate(&self) -> bool {
        self.scheme == Scheme::Mtls
    }

    /// Returns the number of concurrent connections. 64 requests are in flight if connections are kept, 32 if not.
    pub(super) fn connections(&self) -> usize {
        match (self.reuse, self.protocol) {
            (Reuse::Keep, Protocol::H1) => 64,
            (Reuse::Keep, Protocol::H2) => 4,
            _ => 32,
        }
    }

    /// Returns the number of streams on each kept HTTP/2 connection.
    pub(super) fn streams(&self) -> usize {
        16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_a_word_or_by_their_whole_name() {
        let chosen = |words: &[&str]| select(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).len();
        assert_eq!(chosen(&[]), all().len());
        assert_eq!(chosen(&["http"]), 4);
        assert_eq!(chosen(&["mtls h1 resumed"]), 1);
        assert_eq!(chosen(&["http", "resumed"]), 6);
        assert_eq!(chosen(&["nothing"]), 0);
    }
}
