//! Address of a server in the configuration: `http://HOST:PORT`, `https://HOST:PORT`, `unix:PATH`.

use std::path::PathBuf;

use http::HeaderValue;
use http::uri::{Authority, Uri};
use tokio_rustls::rustls::pki_types::ServerName;

use super::connect::Place;

/// Maximum length of a Unix socket's path, in bytes (the kernel's bound, without its final zero).
pub(crate) const UNIX_PATH_MAX: usize = 107;

/// Address of a server of an upstream.
#[derive(Clone, Debug)]
pub struct ServerAddress {
    text: String,
    pub(super) place: Place,
    /// Server name for TLS; `None` without TLS.
    pub(super) tls_name: Option<ServerName<'static>>,
    pub(super) authority: Authority,
    /// Value of `Host` in requests to the server.
    pub(super) host: HeaderValue,
}

impl ServerAddress {
    /// Parses the address of a server.
    ///
    /// # Errors
    /// A sentence that says which form is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') || path.len() > UNIX_PATH_MAX {
                return Err(format!(
                    "\"{text}\" is no socket of at most {UNIX_PATH_MAX} bytes, such as unix:/run/shop.sock"
                ));
            }
            let place = Place::Unix(PathBuf::from(path));
            let authority = Authority::from_static("localhost");
            let host = HeaderValue::from_static("localhost");
            return Ok(ServerAddress { text: text.to_owned(), place, tls_name: None, authority, host });
        }
        let expected = || {
            format!(
                "\"{text}\" is no server, such as http://127.0.0.1:9000, https://shop.example:443 or unix:/run/shop.sock"
            )
        };
        let uri: Uri = text.parse().map_err(|_| expected())?;
        let (is_tls, port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(expected()),
        };
        let authority = uri.authority().ok_or_else(expected)?.clone();
        let is_bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
        if !is_bare || authority.as_str().contains('@') {
            return Err(format!("\"{text}\": a server has no path and no user; routes choose paths"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls_name = match is_tls {
            true => Some(ServerName::try_from(host.clone()).map_err(|_| expected())?),
            false => None,
        };
        // The URL parser returns no port for a number beyond 16 bits.
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => port,
            _ => authority.port_u16().filter(|port| *port != 0).ok_or_else(expected)?,
        };
        let header = HeaderValue::from_str(authority.as_str()).map_err(|_| expected())?;
        let place = Place::Tcp { host, port };
        Ok(ServerAddress { text: text.to_owned(), place, tls_name, authority, host: header })
    }

    /// Returns the address as written in the configuration.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the host of a URL of the server, with its port if it is written; `None` for a socket, which has none.
    pub(crate) fn url_authority(&self) -> Option<&str> {
        matches!(self.place, Place::Tcp { .. }).then(|| self.authority.as_str())
    }

    /// True if both are the same server, in whatever spelling.
    pub fn is_same(&self, other: &ServerAddress) -> bool {
        self.place == other.place && self.is_tls() == other.is_tls()
    }

    /// True if the server is reached over TLS.
    pub fn is_tls(&self) -> bool {
        self.tls_name.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_invalid_ones_are_explained() {
        for (text, host, is_tls) in [
            ("http://127.0.0.1:9000", "127.0.0.1:9000", false),
            ("http://shop.example", "shop.example", false),
            ("https://[::1]:8443/", "[::1]:8443", true),
            ("unix:/run/shop.sock", "localhost", false),
        ] {
            let address = ServerAddress::parse(text).unwrap();
            assert_eq!((address.host.to_str().unwrap(), address.is_tls()), (host, is_tls), "{text}");
        }
        for bad in
            ["", "shop", "ftp://x", "http://", "http://u@x", "http://x/path", "http://x:0", "unix:x", "https://a_b..c"]
        {
            assert!(ServerAddress::parse(bad).is_err(), "{bad}");
        }
        for bad in ["http://x:99999", "http://[::1]:70000", "http://x:", &format!("unix:/{}", "x".repeat(107))] {
            assert!(ServerAddress::parse(bad).is_err(), "{bad}");
        }
        let same = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| ServerAddress::parse(text).unwrap());
            one.is_same(&other)
        };
        assert!(
            same("http://x", "http://x:80/") && !same("http://x:443", "https://x") && !same("http://x", "http://y")
        );
    }
}
