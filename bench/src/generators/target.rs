//! The target of all generators: nginx on a core of its own, which answers from memory and counts requests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::{Daemon, free_port, program};

use super::Case;
use crate::servers::SERVER_CORE;

/// A running nginx that serves all cases.
pub(super) struct Target {
    daemon: Daemon,
    http: u16,
    https: u16,
    probe: u16,
    log: PathBuf,
    /// The version that nginx reports.
    pub(super) version: String,
}

impl Target {
    /// Starts nginx with a new configuration.
    ///
    /// # Errors
    /// If nginx is missing or does not start.
    pub(super) fn start(folder: &Path, certificates: &Certificates) -> anyhow::Result<Self> {
        let nginx = program("nginx").ok().context("nginx is missing: run scripts/setup-bench.sh")?;
        let (http, https, probe) = (free_port()?, free_port()?, free_port()?);
        let log = folder.join("handshakes");
        let config = config(folder, certificates, (http, https, probe), &log);
        let file = folder.join("nginx.conf");
        std::fs::write(&file, config)?;
        let said = Command::new(&nginx).arg("-v").output()?;
        let version = String::from_utf8_lossy(&said.stderr).trim().replace("nginx version: nginx/", "");
        let mut command = Command::new("taskset");
        command.args(["-c", &SERVER_CORE.to_string()]).arg(&nginx).arg("-p").arg(folder).arg("-c").arg(&file);
        let mut daemon = Daemon::start(command, &folder.join("nginx.output"))?;
        for port in [http, https, probe] {
            daemon.wait_for(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        }
        Ok(Target { daemon, http, https, probe, log, version })
    }

    /// Returns the URL that serves a case.
    pub(super) fn url(&self, case: Case) -> String {
        match case {
            Case::Http => format!("http://127.0.0.1:{}/", self.http),
            Case::Https | Case::H2 => format!("https://127.0.0.1:{}/", self.https),
        }
    }

    /// Returns the URL whose handshakes nginx logs as full or resumed.
    pub(super) fn probe_url(&self) -> String {
        format!("https://127.0.0.1:{}/", self.probe)
    }

    pub(super) fn pid(&self) -> u32 {
        self.daemon.id()
    }

    /// Returns the number of requests that nginx has served, by its own count.
    ///
    /// # Errors
    /// If nginx does not answer with its counts.
    pub(super) fn requests(&self) -> anyhow::Result<u64> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.http))?;
        stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        // The counts are on the line after the headings `accepted handled requests`.
        let line = text.lines().skip_while(|line| !line.starts_with("server accepts")).nth(1);
        let count = line.and_then(|line| line.split_whitespace().nth(2)).context("nginx tells no requests")?;
        Ok(count.parse()?)
    }

    /// Returns the number of resumed handshakes and of all handshakes since the last call.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub(super) fn handshakes(&self) -> anyhow::Result<(usize, usize)> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        // nginx appends to the end of the file, wherever that is.
        std::fs::OpenOptions::new().write(true).open(&self.log)?.set_len(0)?;
        Ok((text.lines().filter(|line| *line == "r").count(), text.lines().count()))
    }
}

fn config(folder: &Path, certificates: &Certificates, ports: (u16, u16, u16), log: &Path) -> String {
    let at = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("    {name}_temp_path {at}/{name};\n"))
        .collect();
    let body = "a".repeat(128);
    format!(
        "daemon off;
master_process off;
pid {at}/pid;
error_log stderr error;
worker_rlimit_nofile 65536;
events {{ worker_connections 60000; }}
http {{
    access_log off;
{temporary}    keepalive_requests 1000000000;
    keepalive_timeout 3600s;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.3;
    log_format handshake $ssl_session_reused;
    server {{ listen 127.0.0.1:{http} backlog=8192; location / {{ return 200 {body}; }} location = /status {{ stub_status; }} }}
    server {{ listen 127.0.0.1:{https} ssl http2 backlog=8192; location / {{ return 200 {body}; }} }}
    server {{ listen 127.0.0.1:{probe} ssl; access_log {log} handshake; location / {{ return 200 {body}; }} }}
}}
",
        certificate = certificates.server.0.display(),
        key = certificates.server.1.display(),
        http = ports.0,
        https = ports.1,
        probe = ports.2,
        log = log.display(),
    )
}
