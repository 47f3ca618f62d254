//! Flags for connections and timeouts.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::Uri;
use sealway_runtime::config::Problems;
use serde::{Deserialize, Serialize};

use super::values::{self, HOUR, MILLISECOND};
use crate::plan::{Connections, Protocol, Timeouts};

/// Upper bound of the local addresses, and of the addresses of the target.
const ADDRESSES_MAX: usize = 1024;

/// Flags for connections and timeouts.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Connections")]
#[serde(default)]
pub(crate) struct ConnectionFlags {
    /// 1.1, 2 or 3, without fallback. 2 on http:// is h2c with prior knowledge [default: 1.1]
    #[arg(long, value_name = "VERSION")]
    pub(crate) http_version: Option<String>,
    /// Open a new connection for each request
    #[arg(long)]
    pub(crate) no_reuse: bool,
    /// Also send `Connection: close`; HTTP/1.1 only
    #[arg(long)]
    pub(crate) connection_close: bool,
    /// Concurrent requests on a connection; HTTP/2, 3 and brokers only [default: 1]
    #[arg(long, value_name = "REQUESTS", allow_hyphen_values = true)]
    pub(crate) streams: Option<String>,
    /// Local address of connections; several are used in turn, each has about 28,000 ports; repeatable
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) source: Vec<String>,
    /// Connect to ADDRESS if the URL names HOST: localhost:10.0.0.7, example.com:10.0.0.7:8443; repeatable
    #[arg(long, value_name = "HOST:ADDRESS", value_delimiter = ',')]
    pub(crate) resolve: Vec<String>,
    /// Time for a request, from its start to the last byte of its response [default: 30s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) timeout: Option<String>,
    /// Time to open a connection, including TLS [default: 10s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) connect_timeout: Option<String>,
}

impl ConnectionFlags {
    /// Resolves the protocol of the connections, from the URL's scheme and `--http-version`.
    pub(super) fn protocol(&self, problems: &mut Problems, url: Option<&Uri>) -> Protocol {
        let words = [("1.1", Protocol::Http1), ("2", Protocol::Http2), ("3", Protocol::Http3)];
        let version =
            self.http_version.as_ref().map(|given| if given == "1" { "1.1".to_owned() } else { given.clone() });
        let wanted = values::word(problems, "--http-version", version.as_ref(), &words[..]);
        let scheme = url.and_then(Uri::scheme_str).unwrap_or("http");
        if scheme.starts_with("ws") {
            if wanted.is_some_and(|version| version != Protocol::Http1) {
                problems.add("--http-version", "a WebSocket starts with HTTP/1.1; remove the flag");
            }
            return Protocol::WebSocket;
        }
        if wanted == Some(Protocol::Http3) && scheme == "http" {
            problems.add("--http-version 3", "HTTP/3 needs TLS: give an https:// URL");
        }
        if wanted == Some(Protocol::Http3) && !cfg!(feature = "http3") {
            problems.add("--http-version 3", "this binary was built without HTTP/3; build it with the feature http3");
        }
        wanted.unwrap_or(Protocol::Http1)
    }

    pub(super) fn connections(&self, problems: &mut Problems, protocol: Protocol) -> Connections {
        let streams = values::whole(problems, "--streams", &self.streams, 1..=10_000).unwrap_or(1) as usize;
        if streams > 1 && matches!(protocol, Protocol::Http1 | Protocol::WebSocket) {
            let what = if protocol == Protocol::Http1 { "HTTP/1.1" } else { "a WebSocket" };
            let reason = format!("{what} carries one request at a time on a connection: give --http-version 2 or 3");
            problems.add(format!("--streams {streams}"), reason);
        }
        if streams > 1 && self.no_reuse {
            problems.add(
                format!("--streams {streams} with --no-reuse"),
                "a connection for one request needs one stream; remove one of them",
            );
        }
        if self.connection_close && protocol != Protocol::Http1 && protocol != Protocol::Broker {
            problems.add("--connection-close", "only HTTP/1.1 has this header; give --no-reuse");
        }
        let sources = self.source.iter().filter_map(|value| {
            values::parsed::<IpAddr>(problems, "--source", Some(value), "an IP address of this machine")
        });
        let sources: Vec<_> = sources.collect();
        if sources.len() > ADDRESSES_MAX {
            problems.add("--source", format!("expected at most {ADDRESSES_MAX}"));
        }
        Connections {
            reuse: !self.no_reuse && !self.connection_close,
            streams,
            sources,
            close_header: self.connection_close,
        }
    }

    pub(super) fn timeouts(&self, problems: &mut Problems) -> Timeouts {
        let connect = values::time(problems, "--connect-timeout", &self.connect_timeout, MILLISECOND..=HOUR);
        let request = values::time(problems, "--timeout", &self.timeout, MILLISECOND..=HOUR);
        Timeouts {
            connect: connect.unwrap_or(Duration::from_secs(10)),
            request: request.unwrap_or(Duration::from_secs(30)),
        }
    }

    /// Resolves `--resolve`: the addresses to connect to instead of the URL's host.
    pub(super) fn addresses(&self, problems: &mut Problems, url: Option<&Uri>) -> Vec<SocketAddr> {
        let host = url.and_then(Uri::host).unwrap_or_default();
        let port = url.map_or(80, super::target::port);
        let mut addresses = Vec::new();
        for value in &self.resolve {
            let read = split_host(value).and_then(|(name, address)| Some((name, parse_address(address, port)?)));
            match read {
                None => {
                    values::wrong(
                        problems,
                        "--resolve",
                        value,
                        "HOST:ADDRESS or HOST:ADDRESS:PORT, with an IP address",
                    );
                }
                Some((name, _)) if url.is_some() && !name.eq_ignore_ascii_case(host) => {
                    problems.add(format!("--resolve {value}"), format!("the URL's host is {host}"));
                }
                Some((_, address)) => addresses.push(address),
            }
        }
        if addresses.len() > ADDRESSES_MAX {
            problems.add("--resolve", format!("expected at most {ADDRESSES_MAX}"));
        }
        addresses
    }
}

/// Splits `HOST:ADDRESS` at the colon after the host. An IPv6 host is in brackets, which stay.
fn split_host(value: &str) -> Option<(&str, &str)> {
    if value.starts_with('[') {
        let end = value.find("]:")?;
        return Some((&value[..=end], &value[end + 2..]));
    }
    value.split_once(':').filter(|(name, _)| !name.is_empty())
}

fn parse_address(text: &str, port: u16) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let alone = bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port));
    alone.or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_pinned_to_an_address_with_or_without_a_port() {
        let flags = |values: &[&str]| ConnectionFlags {
            resolve: values.iter().map(|value| (*value).to_owned()).collect(),
            ..ConnectionFlags::default()
        };
        let url: Uri = "https://example.com/x".parse().unwrap();
        let mut problems = Problems::default();
        let given = ["example.com:10.0.0.7", "Example.com:10.0.0.8:444", "example.com:[::1]:8443", "example.com:::2"];
        let addresses: Vec<_> =
            flags(&given).addresses(&mut problems, Some(&url)).iter().map(SocketAddr::to_string).collect();
        assert_eq!(addresses, ["10.0.0.7:443", "10.0.0.8:444", "[::1]:8443", "[::2]:443"]);
        assert!(problems.into_result().is_ok());
        for wrong in ["example.com", "other:10.0.0.7", ":10.0.0.7", "example.com:name", "[::1:5"] {
            let mut problems = Problems::default();
            assert!(flags(&[wrong]).addresses(&mut problems, Some(&url)).is_empty(), "{wrong}");
            assert!(problems.into_result().unwrap_err().0.starts_with("--resolve "), "{wrong}");
        }
    }
}
