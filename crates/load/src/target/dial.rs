//! TCP connections to the target: to addresses resolved once for a run, from source addresses in turn.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tokio::net::{TcpSocket, TcpStream};

use super::classify;
use crate::plan::Plan;
use crate::record::{Class, Failure};

/// Maximum attempts with other ports of a source address: a port that the kernel picks may have been used towards this
/// target just before.
const PORTS_TRIED: usize = 8;
/// Maximum number of a name's addresses that are used.
const ADDRESSES_MAX: usize = 64;

/// Addresses of the target, resolved once: no request waits for a name server, and none moves to another host during the
/// run.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    all: Arc<[SocketAddr]>,
    /// True if an address family that was never reached may give way to the other: `localhost` has two addresses, and most
    /// servers listen on one of them. Addresses given in the plan stay.
    may_narrow: bool,
}

impl Addresses {
    /// Resolves the target's name, unless the plan gives addresses.
    ///
    /// # Errors
    /// A one-line message if the name has no address.
    pub(crate) fn of(plan: &Plan) -> Result<Addresses, String> {
        if !plan.target.addresses.is_empty() {
            return Ok(Addresses { all: plan.target.addresses.clone().into(), may_narrow: false });
        }
        if plan.target.broker.is_some() {
            return Ok(Addresses { all: Vec::new().into(), may_narrow: false });
        }
        let (host, port) = host_and_port(&plan.target.url);
        let found = (host, port).to_socket_addrs().map_err(|err| {
            format!("the host {host} has no address: {err}; check the URL, or give --resolve {host}:ADDRESS")
        })?;
        let mut all: Vec<_> = Vec::new();
        for address in found.take(ADDRESSES_MAX) {
            if !all.contains(&address) {
                all.push(address);
            }
        }
        if all.is_empty() {
            return Err(format!("the host {host} has no address"));
        }
        Ok(Addresses { all: all.into(), may_narrow: true })
    }
}

/// Returns the host without brackets, and the port; the scheme's port if the URL has none.
pub(crate) fn host_and_port(url: &Uri) -> (&str, u16) {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = if matches!(url.scheme_str(), Some("https" | "wss")) { 443 } else { 80 };
    (host, url.port_u16().unwrap_or(port))
}

/// Address family that connections use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Any,
    /// Both families, and one address has been reached.
    Settled,
    V4,
    V6,
}

/// Opens the TCP connections of one shard.
#[derive(Debug)]
pub(crate) struct Dial {
    addresses: Addresses,
    sources: Vec<IpAddr>,
    family: Cell<Family>,
    next: Cell<usize>,
    timeout: Duration,
}

impl Dial {
    /// Creates the dialer of this shard; each shard begins with a different address.
    pub(crate) fn new(plan: &Plan, addresses: Addresses, shard: usize) -> Self {
        Dial {
            family: Cell::new(if addresses.may_narrow { Family::Any } else { Family::Settled }),
            addresses,
            sources: plan.connections.sources.clone(),
            next: Cell::new(shard),
            timeout: plan.timeouts.connect,
        }
    }

    /// Maximum time to open a connection, including the TLS handshake.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the next address and source address in turn.
    pub(crate) fn next(&self) -> Result<(SocketAddr, Option<IpAddr>), Failure> {
        let turn = self.next.get();
        self.next.set(turn.wrapping_add(1));
        let family = self.family.get();
        let fits = |address: &&SocketAddr| match family {
            Family::Any | Family::Settled => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        };
        let count = self.addresses.all.iter().filter(fits).count().max(1);
        let address = self.addresses.all.iter().filter(fits).nth(turn % count).copied();
        let address = address.ok_or_else(|| Failure::new(Class::Resolve, "the host has no address"))?;
        let fits = |source: &&IpAddr| source.is_ipv4() == address.is_ipv4();
        // The source advances after all addresses have had it: each address is paired with every source.
        let sources = self.sources.iter().filter(fits).count().max(1);
        let source = self.sources.iter().filter(fits).nth(turn / count % sources).copied();
        Ok((address, source))
    }

    /// Opens a TCP connection. The caller enforces the deadline.
    ///
    /// # Errors
    /// A failure that says why there is no connection.
    pub(crate) async fn tcp(&self) -> Result<(TcpStream, SocketAddr), Failure> {
        loop {
            let (address, source) = self.next()?;
            let opened = open(address, source).await;
            match &opened {
                Ok(_) => self.settle(),
                Err(failure) if matches!(failure.class, Class::Refused | Class::Unreachable | Class::OutOfPorts) => {
                    if self.narrow(address) {
                        continue;
                    }
                }
                Err(_) => {}
            }
            return opened.map(|tcp| (tcp, address));
        }
    }

    /// Returns the failure of a connection that exceeded the deadline.
    pub(crate) fn late(&self) -> Failure {
        let to = self.addresses.all.first().map_or_else(String::new, |address| format!(" to {address}"));
        Failure::new(Class::ConnectTimeout, format!("no connection{to} within {:?}", self.timeout))
    }

    /// Records that an address has been reached: from now on a refusal is reported.
    pub(crate) fn settle(&self) {
        if self.family.get() == Family::Any {
            self.family.set(Family::Settled);
        }
    }

    /// Switches away from this address's family if none of its addresses was ever reached and the other family exists.
    fn narrow(&self, address: SocketAddr) -> bool {
        let other = if address.is_ipv4() { Family::V6 } else { Family::V4 };
        let has_other = self.addresses.all.iter().any(|other| other.is_ipv4() != address.is_ipv4());
        match self.family.get() {
            Family::Any if has_other => self.family.set(other),
            // Another connection attempt switched the family meanwhile.
            family if family == other => {}
            _ => return false,
        }
        true
    }
}

async fn open(address: SocketAddr, source: Option<IpAddr>) -> Result<TcpStream, Failure> {
    let mut tried = 0;
    loop {
        tried += 1;
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.map_err(|err| classify::connect(&err, address))?;
        if let Some(source) = source {
            // Allows the port of an ended connection again while the kernel still remembers it.
            let bound = socket.set_reuseaddr(true).and_then(|()| socket.bind((source, 0).into()));
            bound.map_err(|err| classify::source(&err, source))?;
        }
        match socket.connect(address).await {
            Ok(tcp) => {
                tcp.set_nodelay(true).map_err(|err| classify::connect(&err, address))?;
                return Ok(tcp);
            }
            Err(err)
                if source.is_some() && err.kind() == std::io::ErrorKind::AddrNotAvailable && tried < PORTS_TRIED => {}
            Err(err) => return Err(classify::connect(&err, address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dial(addresses: &[&str], sources: &[&str], may_narrow: bool) -> Dial {
        Dial {
            addresses: Addresses { all: addresses.iter().map(|text| text.parse().unwrap()).collect(), may_narrow },
            sources: sources.iter().map(|text| text.parse().unwrap()).collect(),
            family: Cell::new(if may_narrow { Family::Any } else { Family::Settled }),
            next: Cell::new(0),
            timeout: Duration::from_secs(1),
        }
    }

    #[tokio::test]
    async fn a_family_that_refuses_gives_way_until_something_was_reached() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let dial = dial(&[&format!("[::1]:{port}"), &format!("127.0.0.1:{port}")], &[], true);
        for _ in 0..4 {
            dial.tcp().await.unwrap();
        }
        drop(listener);
        assert_eq!(dial.tcp().await.unwrap_err().class, Class::Refused);
    }

    #[tokio::test]
    async fn an_address_that_was_named_is_never_left_out() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let closed = std::net::TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
        let dial = dial(&[&closed.to_string(), &format!("127.0.0.1:{port}")], &[], false);
        for _ in 0..3 {
            let failure = dial.tcp().await.unwrap_err();
            assert_eq!(failure.detail, format!("connection refused by {closed}"));
            dial.tcp().await.unwrap();
        }
    }

    #[tokio::test]
    async fn connections_come_from_the_sources_in_turn() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap().to_string();
        let sources = ["127.0.0.11", "127.0.0.12"];
        let dial = dial(&[&target], &sources, true);
        let mut seen = Vec::new();
        for _ in 0..4 {
            let (tcp, _) = dial.tcp().await.unwrap();
            seen.push(tcp.local_addr().unwrap().ip().to_string());
        }
        assert_eq!(seen.iter().filter(|ip| *ip == sources[0]).count(), 2, "{seen:?}");
        assert_eq!(seen.iter().filter(|ip| *ip == sources[1]).count(), 2, "{seen:?}");
        let elsewhere = self::dial(&[&target], &["192.0.2.77"], true);
        let failure = elsewhere.tcp().await.unwrap_err();
        assert_eq!(failure.detail, "the source address 192.0.2.77 is not an address of this machine");
    }
}
