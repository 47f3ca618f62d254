//! How a connection is opened.

use std::cell::Cell;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use tokio::net::TcpSocket;

use super::h1::{Http1, ReadBuffer};
use super::stream::Stream;
use super::{Connection, Sample, classify};
use crate::engine::StartError;
use crate::plan::{Plan, Protocol};
use crate::record::{Class, Fault, Gauge};

/// Opens connections to the target; each thread has one.
#[derive(Debug)]
pub struct Connector {
    addresses: Vec<SocketAddr>,
    next: Cell<usize>,
    timeout: Duration,
    buffer: ReadBuffer,
    open: Gauge,
}

impl Connector {
    /// For the shard of this number, from 0.
    ///
    /// # Errors
    ///
    /// Where the plan asks for what cannot be done here.
    pub fn new(plan: &Plan, shard: usize) -> Result<Self, StartError> {
        if plan.target.protocol != Protocol::Http1 || plan.target.tls.is_some() || plan.target.sealed.is_some() {
            return Err(StartError::Target("only plain HTTP/1.1 is spoken here".into()));
        }
        let url = &plan.target.url;
        let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let mut addresses = plan.target.addresses.clone();
        if addresses.is_empty() {
            let resolved = (host, url.port_u16().unwrap_or(80)).to_socket_addrs();
            let resolved =
                resolved.map_err(|error| StartError::Target(format!("the host {host} has no address: {error}")))?;
            addresses = resolved.collect();
        }
        Ok(Connector {
            addresses,
            next: Cell::new(shard),
            timeout: plan.timeouts.connect,
            buffer: ReadBuffer::default(),
            open: Gauge::default(),
        })
    }

    /// Counts the connections that are open.
    pub(crate) fn gauge(&self) -> Gauge {
        self.open.clone()
    }

    /// Opens a connection, and says in the sample how long it took.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub async fn open(&self, sample: &mut Sample) -> Result<Connection, Fault> {
        let next = self.next.get();
        self.next.set(next.wrapping_add(1));
        let Some(address) = self.addresses.get(next % self.addresses.len().max(1)).copied() else {
            return Err(Fault::new(Class::Resolve, "the host has no address"));
        };
        sample.connections_tried += 1;
        let before = Instant::now();
        let tcp = match tokio::time::timeout(self.timeout, connect(address)).await {
            Ok(tcp) => tcp.map_err(|error| classify::opening(address, &error))?,
            Err(_) => {
                let detail = format!("no connection to {address} within {:?}", self.timeout);
                return Err(Fault::new(Class::ConnectTimeout, detail));
            }
        };
        sample.connections_opened += 1;
        sample.connect = Some(before.elapsed());
        Ok(Connection::Http1(Http1::new(Stream::Plain(tcp), self.buffer.clone(), self.open.enter())))
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<tokio::net::TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    let tcp = socket.connect(address).await?;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}
