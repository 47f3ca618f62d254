//! The compared proxies. Each is configured for speed: one worker, no access log, kept connections to the service behind. Each
//! does the same work on every request: it forwards the request and adds the client's address.

mod envoy;
mod haproxy;
mod nginx;
mod sealway;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::{Daemon, free_port};

/// The proxies that can be compared. `nginx` and `haproxy` are the current ones that setup-bench.sh fetches, over a current
/// OpenSSL; those of this machine's Debian have names of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Sealway,
    Nginx,
    Haproxy,
    Envoy,
    NginxDebian,
    HaproxyDebian,
}

impl Kind {
    pub(crate) const ALL: [Kind; 6] =
        [Kind::Sealway, Kind::Nginx, Kind::Haproxy, Kind::Envoy, Kind::NginxDebian, Kind::HaproxyDebian];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Sealway => "sealway",
            Kind::Nginx => "nginx",
            Kind::Haproxy => "haproxy",
            Kind::Envoy => "envoy",
            Kind::NginxDebian => "nginx-debian",
            Kind::HaproxyDebian => "haproxy-debian",
        }
    }
}

/// The headers that every proxy is asked to add. A comparison in which one adds more than another would be of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Headers {
    /// `Forwarded`, `X-Forwarded-For`, `-Proto` and `-Host`, `Via` and `traceparent` to the service: Sealway's default
    #[default]
    Origin,
    /// Nothing but what the proxy cannot leave out
    None,
}

/// The settings of a proxy, from which its configuration is written.
pub(crate) struct Setting<'a> {
    /// The proxy's folder, for configuration and output.
    pub(crate) folder: PathBuf,
    pub(crate) certificates: &'a Certificates,
    /// The port of the service behind the proxy, on 127.0.0.1.
    pub(crate) upstream: u16,
    /// The core that the proxy has to itself.
    pub(crate) core: usize,
    /// The path of the `sealway` binary.
    pub(crate) sealway: &'a Path,
    headers: Headers,
    ports: Ports,
}

/// The ports of the proxy on 127.0.0.1. HTTP/2 without TLS has its own port, because not every proxy distinguishes it from
/// HTTP/1.1 on one port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) http: u16,
    pub(crate) h2c: u16,
    pub(crate) https: u16,
    pub(crate) mtls: u16,
}

/// A proxy process that is running.
pub(crate) struct Proxy {
    pub(crate) kind: Kind,
    pub(crate) version: String,
    pub(crate) ports: Ports,
    daemon: Daemon,
}

impl<'a> Setting<'a> {
    /// Creates settings with free ports and a new folder under `root`.
    pub(crate) fn new(
        kind: Kind,
        root: &Path,
        certificates: &'a Certificates,
        upstream: u16,
        core: usize,
        sealway: &'a Path,
        headers: Headers,
    ) -> anyhow::Result<Self> {
        let folder = root.join(kind.name());
        std::fs::create_dir(&folder)?;
        let ports = Ports { http: free_port()?, h2c: free_port()?, https: free_port()?, mtls: free_port()? };
        Ok(Setting { folder, certificates, upstream, core, sealway, headers, ports })
    }

    /// Writes a file into the proxy's folder.
    fn file(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Returns the command that runs the program on its core.
    fn pinned(&self, program: &Path) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &self.core.to_string()]).arg(program);
        command
    }
}

impl Proxy {
    /// Starts the proxy and waits until it listens on all ports.
    pub(crate) fn start(kind: Kind, setting: &Setting<'_>) -> anyhow::Result<Self> {
        let (command, version) = match kind {
            Kind::Sealway => sealway::command(setting),
            Kind::Nginx => nginx::command(setting, &current("nginx")?),
            Kind::Haproxy => haproxy::command(setting, &current("haproxy")?),
            Kind::NginxDebian => nginx::command(setting, &program("nginx")?),
            Kind::HaproxyDebian => haproxy::command(setting, &program("haproxy")?),
            Kind::Envoy => envoy::command(setting),
        }
        .with_context(|| format!("cannot prepare {}", kind.name()))?;
        let mut daemon = Daemon::start(command, &setting.folder.join("output"))?;
        let Ports { http, h2c, https, mtls } = setting.ports;
        for port in [http, h2c, https, mtls] {
            daemon
                .wait_for(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
                .with_context(|| format!("{} does not start", kind.name()))?;
        }
        Ok(Proxy { kind, version, ports: setting.ports, daemon })
    }

    /// Returns the id of its process, which is also its worker.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.id()
    }
}

/// Returns the path of a program that setup-bench.sh installs.
fn program(name: &str) -> anyhow::Result<PathBuf> {
    sealway_testkit::daemon::program(name)
        .ok()
        .with_context(|| format!("{name} is missing and this comparison needs it: run scripts/setup-bench.sh"))
}

/// Returns the path of a current program, which setup-bench.sh fetches from Debian's next release.
pub(crate) fn current(name: &str) -> anyhow::Result<PathBuf> {
    let path = sealway_testkit::daemon::root().join("target/tools/current").join(name);
    ensure!(path.is_file(), "{} is missing and this comparison needs it: run scripts/setup-bench.sh", path.display());
    Ok(path)
}

/// Returns the version in the program's output or error output: the first word after `word`.
fn version(program: &Path, argument: &str, word: &str) -> anyhow::Result<String> {
    let said = Command::new(program).arg(argument).output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    match text.lines().find_map(|line| line.split_once(word)) {
        Some((_, after)) => Ok(after.split_whitespace().next().unwrap_or_default().to_owned()),
        None => bail!("{} {argument} names no version:\n{text}", program.display()),
    }
}
