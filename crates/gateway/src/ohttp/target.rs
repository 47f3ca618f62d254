//! Targets: the origins that requests within may name, each with the upstream that serves it. Nothing is looked up from a request.

use std::net::IpAddr;

use crate::route::Forward;

/// Port of `https`, where the authority names none.
const PORT: u16 = 443;

/// A host in lower case and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Authority {
    host: String,
    port: u16,
}

impl Authority {
    /// Parses a host name with or without a port. `None` for user information, addresses, a trailing dot, and anything else that is
    /// not a host name: two spellings of one target would be two rules for it.
    pub(crate) fn parse(text: &str) -> Option<Authority> {
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => {
                let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
                (host, port.parse().ok().filter(|port| is_number && *port > 0)?)
            }
            None => (text, PORT),
        };
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        // Many resolvers read a name whose last label is a number as an address.
        let is_number = host.rsplit('.').next().is_some_and(|label| {
            label.bytes().all(|byte| byte.is_ascii_digit()) || label.to_ascii_lowercase().starts_with("0x")
        });
        let is_name =
            host.len() <= 253 && host.split('.').all(is_label) && host.parse::<IpAddr>().is_err() && !is_number;
        is_name.then(|| Authority { host: host.to_ascii_lowercase(), port })
    }

    /// Returns the text for `Host`: without the port, if it is the default.
    pub(crate) fn host_header(&self) -> String {
        if self.port == PORT { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }
}

/// The targets of a gateway.
#[derive(Debug)]
pub(crate) struct Targets(pub(crate) Vec<(Authority, Forward)>);

impl Targets {
    /// Finds the forwarding to a target.
    pub(super) fn find(&self, authority: &Authority) -> Option<&Forward> {
        self.0.iter().find(|(known, _)| known == authority).map(|(_, forward)| forward)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_target_has_one_spelling_but_for_case_and_the_default_port() {
        let target = Authority::parse("api.example:443").unwrap();
        for text in ["api.example", "API.Example:443", "api.EXAMPLE", "api.example:0443"] {
            assert_eq!(Authority::parse(text).as_ref(), Some(&target), "{text}");
        }
        assert_eq!(target.host_header(), "api.example");
        assert_eq!(Authority::parse("a.example:8443").unwrap().host_header(), "a.example:8443");
        for text in [
            "",
            ":443",
            "a.example:",
            "a.example:0",
            "a.example:65536",
            "a.example:+1",
            "a.example.",
            ".a.example",
            "a..example",
            "u@a.example",
            "a.example@b",
            "127.0.0.1",
            "[::1]",
            "[::1]:443",
            "::1",
            "2130706433",
            "0x7f000001",
            "127.1",
            "a b",
            "a/b",
            "a:1:2",
            "ä.example",
        ] {
            assert_eq!(Authority::parse(text), None, "{text}");
        }
    }
}
