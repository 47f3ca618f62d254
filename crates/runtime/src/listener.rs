//! Binding of addresses and Unix sockets, with errors that name the address and the setting at fault, and accepting that
//! survives errors.

#[cfg(feature = "http")]
mod accept;
mod unix;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Type};
use tokio::net::TcpListener;

#[cfg(feature = "http")]
pub use accept::Socket;
#[cfg(feature = "http")]
pub(crate) use accept::{Acceptor, Admission};
pub use unix::{BoundUnix, bind_unix};

const BACKLOG: i32 = 4096;

/// An address could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: cannot listen on {address}: {reason}")]
pub struct BindError {
    setting: String,
    address: String,
    reason: String,
}

/// Parses an address: `127.0.0.1:3000`, `[::1]:3000`, or `localhost:3000` for both loopbacks.
///
/// # Errors
/// A sentence that names the expected form.
pub fn parse_address(text: &str) -> Result<Vec<SocketAddr>, String> {
    if let Some(port) = text.strip_prefix("localhost:") {
        let port = port.parse().map_err(|_| format!("\"{text}\" has no port from 0 to 65535"))?;
        return Ok(vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]);
    }
    text.parse()
        .map(|address| vec![address])
        .map_err(|_| format!("\"{text}\" is no address and port, such as 127.0.0.1:3000, [::1]:3000 or localhost:3000"))
}

/// Binds every address of `addresses`, which belong to one setting. Of two loopbacks, the second may be missing (a machine
/// without IPv6): a warning is logged. Port 0 gives the second address the port of the first.
///
/// # Errors
/// [`BindError`], naming `setting` (a flag or a path in the configuration).
pub fn bind(addresses: &[SocketAddr], setting: &str) -> Result<Vec<TcpListener>, BindError> {
    bind_shared(addresses, setting, false)
}

/// Binds, as [`bind`]; with `reuse_port`, other processes of the same user may bind the same port and share its connections, so
/// that a new one can take over from an old one.
///
/// # Errors
/// As [`bind`].
pub fn bind_shared(addresses: &[SocketAddr], setting: &str, reuse_port: bool) -> Result<Vec<TcpListener>, BindError> {
    let mut bound: Vec<TcpListener> = Vec::with_capacity(addresses.len());
    for (index, address) in addresses.iter().enumerate() {
        let mut address = *address;
        if let (0, Some(first)) = (address.port(), bound.first()) {
            address.set_port(first.local_addr().map(|addr| addr.port()).unwrap_or_default());
        }
        match bind_one(address, reuse_port) {
            Ok(listener) => bound.push(listener),
            Err(err)
                if index > 0 && matches!(err.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported) =>
            {
                tracing::warn!(%address, "this machine does not have the address; listening without it");
            }
            Err(err) => return Err(explain(&err, address, setting)),
        }
    }
    Ok(bound)
}

fn bind_one(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(|err| {
            // EAFNOSUPPORT: the kernel has no IPv6.
            if err.raw_os_error() == Some(97) { io::Error::from(io::ErrorKind::AddrNotAvailable) } else { err }
        })?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn explain(err: &io::Error, address: SocketAddr, setting: &str) -> BindError {
    let port = address.port();
    let reason = match err.kind() {
        io::ErrorKind::AddrInUse => format!("port {port} is in use by another program; stop it or choose another port"),
        io::ErrorKind::PermissionDenied => format!("port {port} needs privileges; choose one from 1024 up"),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".into(),
        _ => err.to_string(),
    };
    BindError { setting: setting.into(), address: address.to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_named_with_its_setting() {
        let taken = bind(&parse_address("127.0.0.1:0").unwrap(), "x").unwrap();
        let address = taken[0].local_addr().unwrap();
        let err = bind(&[address], "--port").unwrap_err().to_string();
        assert!(err.contains("--port") && err.contains(&format!("port {} is in use", address.port())), "{err}");
    }

    #[test]
    fn an_invalid_address_is_explained() {
        for bad in ["3000", "localhost", "localhost:99999", "127.0.0.1", "host:80", ""] {
            assert!(parse_address(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_address("localhost:3000").unwrap().len(), 2);
    }
}
