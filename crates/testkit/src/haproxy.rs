//! HAProxy in front of several gateways, as an operator would configure it: health checks on `/ready`, and a retry for refused
//! connections only: a proxy must not send a sealed request twice.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::daemon::{Daemon, free_port, program};

/// A running HAProxy, which ends when dropped.
#[derive(Debug)]
pub struct HaProxy {
    daemon: Daemon,
    /// The address that it listens on.
    pub address: SocketAddr,
    control: PathBuf,
    servers: usize,
    _folder: tempfile::TempDir,
}

impl HaProxy {
    /// Starts it in front of `servers`.
    ///
    /// # Errors
    /// If the program is missing or does not start.
    pub fn start(servers: &[SocketAddr]) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("sealway-haproxy-").tempdir()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let control = folder.path().join("control");
        let lines: String = servers
            .iter()
            .enumerate()
            .map(|(index, server)| format!("    server gateway{index} {server} check inter 200ms fall 1 rise 1\n"))
            .collect();
        // http-server-close: the client's connection stays open, and a request travels to its gateway on a connection of its
        // own, so that none meets the close of an idle one.
        let config = format!(
            "global
    stats socket {} mode 600 level admin
defaults
    mode http
    timeout connect 2s
    timeout client 30s
    timeout server 30s
    timeout check 1s
    option http-server-close
    option redispatch 1
    retries 3
    retry-on conn-failure
frontend front
    bind {address}
    default_backend gateways
backend gateways
    balance roundrobin
    option httpchk GET /ready
    http-check expect status 200
{lines}",
            control.display()
        );
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, config)?;
        let mut command = Command::new(program("haproxy")?);
        command.arg("-db").arg("-f").arg(&file);
        let mut daemon = Daemon::start(command, &folder.path().join("output"))?;
        daemon.wait_for(address)?;
        let until = Instant::now() + Duration::from_secs(10);
        // The file is renamed a moment after the listeners are open.
        while !control.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(HaProxy { daemon, address, control, servers: servers.len(), _folder: folder })
    }

    /// Returns a column of its statistics, a value for each gateway.
    fn column(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let mut stream = UnixStream::connect(&self.control).context("no control socket")?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"show stat\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let mut lines = text.trim_start_matches("# ").lines();
        let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let at = head.iter().position(|column| *column == name).with_context(|| format!("no column {name}"))?;
        let rows = lines.filter(|line| line.starts_with("gateways,gateway"));
        Ok(rows.map(|row| row.split(',').nth(at).unwrap_or_default().to_owned()).collect())
    }

    fn sum(&self, columns: &[&str]) -> anyhow::Result<u64> {
        let mut sum = 0;
        for column in columns {
            sum += self.column(column)?.iter().filter_map(|count| count.parse::<u64>().ok()).sum::<u64>();
        }
        Ok(sum)
    }

    /// Returns the number of connections that were retried, at the same gateway or at another.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn tries_again(&self) -> anyhow::Result<u64> {
        self.sum(&["wretr", "wredis"])
    }

    /// Returns the number of times that a gateway went from ready to not ready.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn times_down(&self) -> anyhow::Result<u64> {
        self.sum(&["chkdown"])
    }

    /// Waits until it sees this number of gateways ready.
    ///
    /// # Errors
    /// If it does not.
    pub fn wait_for_up(&self, count: usize) -> anyhow::Result<()> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let states = self.column("status")?;
            if states.len() == self.servers && states.iter().filter(|state| *state == "UP").count() == count {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("haproxy sees {states:?}:\n{}", self.daemon.tail());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_http::Request;
    use crate::upstream::{Upstream, answer};

    #[test]
    fn those_that_are_ready_get_the_requests_and_a_refused_connection_is_tried_elsewhere() {
        let upstream = || Upstream::answering(|_, body| answer("200 OK", &[], body)).unwrap();
        let (one, other) = (upstream(), upstream());
        let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
        let proxy = HaProxy::start(&[one.address, nobody, other.address]).unwrap();
        for _ in 0..9 {
            // The first of them come before any health check has ended: all count as up then.
            assert_eq!(Request::post("/x", "x").send(proxy.address).unwrap().status, 200);
        }
        proxy.wait_for_up(2).unwrap();
        println!("{} tries again", proxy.tries_again().unwrap());
    }
}
