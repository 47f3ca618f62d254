//! A running Sealway gateway with a configuration of its own, for benchmarks of the gateway alone.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::{Daemon, free_port};

use crate::client::{Group, Identity, Target};

/// The scheme that the gateway's listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scheme {
    Http,
    Https,
    Mtls,
}

/// A gateway process that is running.
pub(crate) struct Ours {
    daemon: Daemon,
    address: SocketAddr,
}

impl Ours {
    /// Starts the gateway with one listener of this scheme. `rest` is the rest of its configuration.
    pub(crate) fn start(
        sealway: &Path,
        folder: &Path,
        scheme: Scheme,
        certificates: &Certificates,
        rest: &str,
    ) -> anyhow::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let (cert, key) = &certificates.server;
        let ca = match scheme {
            Scheme::Mtls => format!(", client_ca: ['{}']", certificates.ca.display()),
            Scheme::Http | Scheme::Https => String::new(),
        };
        let tls = match scheme {
            Scheme::Http => String::new(),
            _ => format!(", tls: {{ cert: '{}', key: '{}'{ca} }}", cert.display(), key.display()),
        };
        let config = folder.join(format!("{scheme:?}.yaml"));
        std::fs::write(&config, format!("listeners: [{{ name: it, address: '{address}'{tls} }}]\n{rest}"))?;
        let mut command = Command::new(sealway);
        command.arg("serve").arg("--config").arg(&config);
        let mut daemon = Daemon::start(command, &folder.join("output"))?;
        daemon.wait_for(address).context("the gateway does not start")?;
        Ok(Ours { daemon, address })
    }

    /// Returns the id of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.id()
    }

    /// Returns the target for connections to the gateway. Every handshake is a full one.
    pub(crate) fn target(&self, scheme: Scheme, identity: &Identity) -> anyhow::Result<Target> {
        let tls = match scheme {
            Scheme::Http => None,
            _ => Some(identity.config(Group::X25519, b"http/1.1", scheme == Scheme::Mtls, false)?),
        };
        Ok(Target { address: self.address, tls, source: None })
    }
}

/// Raises the limit of descriptors to the hard limit, for this process and its children. Returns the limit.
pub(crate) fn raise_descriptor_limit() -> anyhow::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}
