//! Toxiproxy between a gateway and its dependencies: connections that are refused, cut, held, or slow, at will.
//!
//! This module does not know the bytes that pass through.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::daemon::{Daemon, free_port, program};
use crate::raw_http::{Answer, Request};

/// A running server; its proxies end with it.
#[derive(Debug)]
pub struct Toxiproxy {
    _daemon: Daemon,
    api: SocketAddr,
    _folder: tempfile::TempDir,
}

/// A disturbance of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toxic {
    /// Each chunk is delayed by this time.
    Latency(Duration),
    /// Nothing passes any more, and connections stay open: as if a cable were pulled.
    Hole,
    /// Connections are reset by the proxy.
    Reset,
    /// Connections are closed after this number of bytes.
    Limit(u64),
}

impl Toxic {
    fn described(self) -> (&'static str, Value) {
        match self {
            Toxic::Latency(by) => ("latency", json!({ "latency": by.as_millis() as u64 })),
            Toxic::Hole => ("timeout", json!({ "timeout": 0 })),
            Toxic::Reset => ("reset_peer", json!({ "timeout": 0 })),
            Toxic::Limit(bytes) => ("limit_data", json!({ "bytes": bytes })),
        }
    }
}

/// A proxy to one address, which a test can disturb.
#[derive(Clone, Debug)]
pub struct Proxy {
    api: SocketAddr,
    name: String,
    /// The address that it listens on.
    pub address: SocketAddr,
}

impl Toxiproxy {
    /// Starts a server without proxies.
    ///
    /// # Errors
    /// If the program is missing or does not start.
    pub fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("sealway-toxiproxy-").tempdir()?;
        let port = free_port()?;
        let mut command = Command::new(program("toxiproxy-server")?);
        command.args(["-host", "127.0.0.1", "-port", &port.to_string()]);
        let mut daemon = Daemon::start(command, &folder.path().join("output"))?;
        let api = (Ipv4Addr::LOCALHOST, port).into();
        daemon.wait_for(api)?;
        Ok(Toxiproxy { _daemon: daemon, api, _folder: folder })
    }

    /// Opens a proxy to `upstream`.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn proxy(&self, name: &str, upstream: SocketAddr) -> anyhow::Result<Proxy> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let body = json!({ "name": name, "listen": address.to_string(), "upstream": upstream.to_string() });
        ask(self.api, "POST", "/proxies", Some(body))?;
        Ok(Proxy { api: self.api, name: name.into(), address })
    }
}

impl Proxy {
    /// Cuts every connection and refuses new ones.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn disable(&self) -> anyhow::Result<()> {
        self.set_enabled(false)
    }

    /// Accepts connections again, after [`Proxy::disable`].
    ///
    /// # Errors
    /// If the server refuses.
    pub fn enable(&self) -> anyhow::Result<()> {
        self.set_enabled(true)
    }

    fn set_enabled(&self, enabled: bool) -> anyhow::Result<()> {
        ask(self.api, "POST", &format!("/proxies/{}", self.name), Some(json!({ "enabled": enabled }))).map(drop)
    }

    /// Disturbs both directions, of open connections too.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn add(&self, toxic: Toxic) -> anyhow::Result<()> {
        let (kind, attributes) = toxic.described();
        for stream in ["upstream", "downstream"] {
            let name = format!("{kind}-{stream}");
            let body = json!({ "name": name, "type": kind, "stream": stream, "attributes": attributes });
            ask(self.api, "POST", &format!("/proxies/{}/toxics", self.name), Some(body))?;
        }
        Ok(())
    }

    /// Ends the effect of [`Proxy::add`].
    ///
    /// # Errors
    /// If the server refuses.
    pub fn remove(&self, toxic: Toxic) -> anyhow::Result<()> {
        let (kind, _) = toxic.described();
        for stream in ["upstream", "downstream"] {
            ask(self.api, "DELETE", &format!("/proxies/{}/toxics/{kind}-{stream}", self.name), None)?;
        }
        Ok(())
    }
}

fn ask(api: SocketAddr, method: &str, target: &str, body: Option<Value>) -> anyhow::Result<Answer> {
    let body = body.map_or_else(String::new, |body| body.to_string());
    let request = Request::new(method, target).header("Content-Type", "application/json").body(body);
    let answer = request.send(api).context("toxiproxy does not answer")?;
    ensure!(answer.status < 300, "toxiproxy: {method} {target}: {} {}", answer.status, answer.text());
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use super::*;

    fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut bytes = [0; 64];
                    while let Ok(len @ 1..) = stream.read(&mut bytes) {
                        if stream.write_all(&bytes[..len]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    fn round_trip(address: SocketAddr) -> std::io::Result<u8> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"x")?;
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    #[test]
    fn a_way_can_be_cut_held_and_slowed_and_mends() {
        let server = Toxiproxy::start().unwrap();
        let proxy = server.proxy("echo", echo()).unwrap();
        assert_eq!(round_trip(proxy.address).unwrap(), b'x');
        proxy.disable().unwrap();
        assert!(round_trip(proxy.address).is_err(), "a disabled way lets through");
        proxy.enable().unwrap();
        assert_eq!(round_trip(proxy.address).unwrap(), b'x', "the same address after");
        proxy.add(Toxic::Hole).unwrap();
        assert!(round_trip(proxy.address).is_err(), "a hole answers");
        proxy.remove(Toxic::Hole).unwrap();
        let slow = Toxic::Latency(Duration::from_millis(150));
        proxy.add(slow).unwrap();
        let started = Instant::now();
        assert_eq!(round_trip(proxy.address).unwrap(), b'x');
        assert!(started.elapsed() >= Duration::from_millis(290), "both directions: {:?}", started.elapsed());
        proxy.remove(slow).unwrap();
        assert_eq!(round_trip(proxy.address).unwrap(), b'x');
    }
}
