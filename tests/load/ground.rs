//! Fixtures of the tests of load's targets: plans, runs, and servers that record their requests.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use sealway_load::engine::{Outcome, Run};
use sealway_load::plan::*;
use sealway_runtime::tls::ClientFiles;
use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::{Daemon, free_port, program};

use crate::BINARY;

/// A plan with `GET` of a URL by two workers on one thread, until `requests` are made; for https with the trusted authority.
pub(crate) fn plan(url: &str, ca: Option<&Path>, requests: u64) -> Plan {
    let url: http::Uri = url.parse().unwrap();
    let tls = matches!(url.scheme_str(), Some("https" | "wss")).then(|| Tls {
        files: ClientFiles { ca: ca.map(Path::to_owned), ..ClientFiles::default() },
        verify: true,
        verify_name: true,
        resumption: Resumption::Off,
        min_version: TlsVersion::V12,
    });
    let mut plan = Plan::of(url);
    plan.label = "test".into();
    plan.target.tls = tls;
    workers(&mut plan, 2);
    plan.stop.requests = Some(requests);
    plan.timeouts.request = Duration::from_secs(20);
    plan.seed = 7;
    plan
}

/// Sets the number of concurrent workers.
pub(crate) fn workers(plan: &mut Plan, count: u32) {
    plan.arrival = Arrival::Closed { concurrency: Steps::constant(f64::from(count)), ramp_share: 0.0, loops: 0 };
}

/// Returns the TLS settings of a plan that has them.
pub(crate) fn tls(plan: &mut Plan) -> &mut Tls {
    plan.target.tls.as_mut().unwrap()
}

/// Runs the plan to its end.
pub(crate) fn run(plan: Plan) -> Outcome {
    let run = Run::start(plan).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run.outcome())
}

/// Runs the plan, and requires every request to succeed.
pub(crate) fn run_well(plan: Plan) -> Outcome {
    let outcome = run(plan);
    assert_eq!(outcome.totals.sum.faults(), []);
    assert!(outcome.totals.sum.counts.succeeded > 0, "{:?}", outcome.ended);
    outcome
}

/// Returns the only class of failure, and its message.
pub(crate) fn fault(outcome: &Outcome) -> (sealway_load::record::Class, String) {
    let faults = outcome.totals.sum.faults();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(outcome.totals.sum.counts.succeeded, 0);
    (faults[0].class, faults[0].example.clone())
}

/// A folder with certificates for `localhost` and 127.0.0.1.
pub(crate) fn certificates() -> (tempfile::TempDir, Certificates) {
    let folder = tempfile::Builder::new().prefix("sealway-load-").tempdir().unwrap();
    let certificates = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "a buyer").unwrap();
    (folder, certificates)
}

/// A running nginx that logs each request: its connection, `r` for a resumed TLS session, and the protocol.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    log: PathBuf,
    _daemon: Daemon,
}

impl Nginx {
    /// Starts nginx. `listen` is the text after the address, `settings` are in the server's block.
    pub(crate) fn start(folder: &Path, listen: &str, settings: &str) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
        let folder = tempfile::Builder::new().prefix("nginx-").tempdir_in(folder).unwrap().keep();
        let config = format!(
            "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;
events {{ worker_connections 1024; }}
http {{
  log_format seen '$connection $ssl_session_reused $server_protocol $ssl_protocol';
  access_log {0}/seen seen; client_body_temp_path {0}/body; proxy_temp_path {0}/proxy; fastcgi_temp_path {0}/fastcgi;
  uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi;
  server {{ listen {address} {listen}; {settings} location / {{ return 200 \"hello\"; }} }}
}}",
            folder.display()
        );
        let file = folder.join("nginx.conf");
        fs::write(&file, config).unwrap();
        let mut command = Command::new(program("nginx").unwrap());
        command.arg("-p").arg(&folder).arg("-e").arg(folder.join("error.log")).arg("-c").arg(&file);
        let mut daemon = Daemon::start(command, &folder.join("output")).unwrap();
        daemon.wait_for(address).unwrap();
        Nginx { address, log: folder.join("seen"), _daemon: daemon }
    }

    /// Starts nginx with TLS on its listener.
    pub(crate) fn with_tls(folder: &Path, certificates: &Certificates, listen: &str, settings: &str) -> Self {
        let (cert, key) = &certificates.server;
        let tls = format!("ssl_certificate {}; ssl_certificate_key {}; {settings}", cert.display(), key.display());
        Nginx::start(folder, &format!("ssl {listen}"), &tls)
    }

    /// Returns the logged words of each request once there are this many.
    pub(crate) fn seen(&self, requests: usize) -> Vec<Vec<String>> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            if text.lines().count() >= requests || Instant::now() > until {
                return text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns its address under the name in its certificate.
    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}/", self.address.port())
    }
}

/// Starts `openssl s_server`, which answers every request. `arguments` are its other settings.
pub(crate) fn s_server(folder: &Path, cert: &(PathBuf, PathBuf), arguments: &[&str]) -> (SocketAddr, Daemon) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let mut command = Command::new(program("openssl").unwrap());
    command.args(["s_server", "-www", "-quiet", "-accept", &address.to_string()]);
    command.arg("-cert").arg(&cert.0).arg("-key").arg(&cert.1).args(arguments);
    let output = tempfile::Builder::new().prefix("s_server-").tempdir_in(folder).unwrap().keep().join("output");
    let mut daemon = Daemon::start(command, &output).unwrap();
    daemon.wait_for(address).unwrap();
    (address, daemon)
}

/// Runs `sealway load` to its end.
pub(crate) fn load(arguments: &[&str]) -> Output {
    Command::new(BINARY).arg("load").args(arguments).stdin(Stdio::null()).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
