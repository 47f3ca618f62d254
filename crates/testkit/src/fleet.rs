//! Several `sealway serve` with one store: each on a port of its own that it keeps over restarts, with a clock that a test can
//! set, and with one shared file of key-encryption keys.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sealway_proto::crypto::default_provider;
use sealway_proto::wire::Wire;
use sealway_sessions::kek::KeyRing;

use crate::daemon::free_port;
use crate::process::{ADMIN_TOKEN, Launch, Server};
use crate::raw_http::Request;
use crate::wire_client::{ORDER, PURCHASE, WireSession};

/// The log level of a gateway, without a line for every rejection: a fault test makes a million.
const LOG_LEVEL: &str = "info,sealway_sessions::answer=error";
const LOG_LINES_MAX: usize = 4000;
/// Routes and service of every gateway.
const ROUTES: &str = "
routes:
  - { match: { path_prefix: [/session/, /v1/session/], path: [/health, /ready] }, sessions: {} }
  - { match: {}, sealed: required, upstream: shop }
upstreams: { shop: { servers: ['demo:'] } }
admin: { address: '127.0.0.1:0', token_file: admin.token }
";

/// The place of a gateway in the fleet.
#[derive(Debug)]
struct Berth {
    address: SocketAddr,
    config: String,
    folder: PathBuf,
    server: Mutex<Option<Server>>,
}

/// The gateways of a fleet.
#[derive(Debug)]
pub struct Fleet {
    binary: &'static str,
    berths: Vec<Berth>,
    clock_library: Option<PathBuf>,
    // Last: the gateways end before their folders are removed.
    _folder: tempfile::TempDir,
}

/// Locks out the other fault tests of the process: each needs the machine to itself.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the long form of the fault tests is requested, by `SEALWAY_FAULTS=full`.
pub fn is_full() -> bool {
    std::env::var_os("SEALWAY_FAULTS").is_some_and(|value| value == "full")
}

impl Fleet {
    /// Starts `count` gateways. `sections` returns, for a gateway's index and the path of the shared key file, the rest of its
    /// configuration: `sessions:` and other sections, from the beginning of a line.
    ///
    /// # Errors
    /// If one does not start.
    pub fn start(
        binary: &'static str,
        count: usize,
        sections: impl Fn(usize, &Path) -> String,
    ) -> anyhow::Result<Self> {
        Fleet::launch(binary, count, None, sections)
    }

    /// Starts them, as [`Fleet::start`], with clocks that [`Fleet::step_clock`] moves.
    ///
    /// # Errors
    /// If libfaketime is missing, or a gateway does not start.
    pub fn start_with_clocks(
        binary: &'static str,
        count: usize,
        sections: impl Fn(usize, &Path) -> String,
    ) -> anyhow::Result<Self> {
        Fleet::launch(binary, count, Some(clock_library()?), sections)
    }

    fn launch(
        binary: &'static str,
        count: usize,
        clock_library: Option<PathBuf>,
        sections: impl Fn(usize, &Path) -> String,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("sealway-fleet-").tempdir()?;
        let keys = folder.path().join("sessions.kek");
        KeyRing::generate(default_provider(), &keys)?;
        let mut berths = Vec::new();
        for index in 0..count {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
            let own = folder.path().join(format!("gateway{index}"));
            std::fs::create_dir(&own)?;
            std::fs::write(own.join("clock"), "+0")?;
            let config = format!("listeners: [{{ address: '{address}' }}]{ROUTES}{}", sections(index, &keys));
            berths.push(Berth { address, config, folder: own, server: Mutex::new(None) });
        }
        let fleet = Fleet { binary, berths, clock_library, _folder: folder };
        for index in 0..count {
            fleet.start_again(index)?;
        }
        Ok(fleet)
    }

    /// Returns the addresses that they listen on, up or down.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.berths.iter().map(|berth| berth.address).collect()
    }

    fn server(&self, index: usize) -> MutexGuard<'_, Option<Server>> {
        self.berths[index].server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a gateway that is down, with the same configuration at the same address.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_again(&self, index: usize) -> anyhow::Result<()> {
        let berth = &self.berths[index];
        let mut launch = Launch::new(self.binary, &berth.config).folder(&berth.folder);
        launch = launch.log_level(LOG_LEVEL).log_lines_max(LOG_LINES_MAX);
        if let Some(library) = &self.clock_library {
            let clock = berth.folder.join("clock");
            launch = launch
                .env("LD_PRELOAD", &library.to_string_lossy())
                .env("FAKETIME_TIMESTAMP_FILE", &clock.to_string_lossy())
                .env("FAKETIME_NO_CACHE", "1")
                // Timers must not jump with the wall clock.
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let server = launch.start().with_context(|| format!("gateway {index}"))?;
        *self.server(index) = Some(server);
        Ok(())
    }

    /// Kills a gateway by SIGKILL.
    ///
    /// # Errors
    /// If it was down.
    pub fn kill(&self, index: usize) -> anyhow::Result<()> {
        self.server(index).take().context("it is down already")?.kill()
    }

    /// Stops a gateway by SIGTERM, and waits for its end, which must be clean.
    ///
    /// # Errors
    /// If it was down, does not end, or ends with an error; with its log.
    pub fn stop(&self, index: usize) -> anyhow::Result<()> {
        let mut server = self.server(index).take().context("it is down already")?;
        let status = server.stop()?;
        ensure!(status.success(), "gateway {index} ended with {status}:\n{}", server.log().join("\n"));
        Ok(())
    }

    /// Sets the difference of a gateway's clock from the true time, in milliseconds, from its next reading on.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn step_clock(&self, index: usize, offset_ms: i64) -> anyhow::Result<()> {
        ensure!(self.clock_library.is_some(), "the fleet was started without clocks");
        let seconds = format!(
            "{}{}.{:03}",
            if offset_ms < 0 { '-' } else { '+' },
            offset_ms.abs() / 1000,
            offset_ms.abs() % 1000
        );
        let folder = &self.berths[index].folder;
        // Under another name first: the file is read at any time.
        std::fs::write(folder.join("clock.new"), seconds)?;
        Ok(std::fs::rename(folder.join("clock.new"), folder.join("clock"))?)
    }

    /// Returns a gateway's answer to `GET target`: the status and the JSON.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn ask(&self, index: usize, target: &str) -> anyhow::Result<(u16, serde_json::Value)> {
        let answer = Request::get(target).send(self.berths[index].address)?;
        Ok((answer.status, answer.json()))
    }

    /// Returns the id of a gateway's process.
    ///
    /// # Errors
    /// If it is down.
    pub fn pid(&self, index: usize) -> anyhow::Result<u32> {
        Ok(self.server(index).as_ref().context("it is down")?.id())
    }

    /// Asks a gateway to read its configuration again.
    ///
    /// # Errors
    /// If it is down.
    pub fn hang_up(&self, index: usize) -> anyhow::Result<()> {
        self.server(index).as_ref().context("it is down")?.hang_up()
    }

    /// Revokes a session at a gateway.
    ///
    /// # Errors
    /// If the gateway is down, or does not answer 200.
    pub fn revoke(&self, index: usize, session: &str) -> anyhow::Result<()> {
        let admin = self.server(index).as_ref().context("it is down")?.admin();
        let request = Request::new("DELETE", &format!("/admin/sessions/{session}"));
        let answer = request.header("Authorization", format!("Bearer {ADMIN_TOKEN}")).send(admin)?;
        ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
        Ok(())
    }

    /// Waits until all report on `/ready` that they are ready; returns the time that it took.
    ///
    /// # Errors
    /// If one is not within `time`, with what it says and its log.
    pub fn wait_for_ready(&self, time: Duration) -> anyhow::Result<Duration> {
        let started = Instant::now();
        for index in 0..self.berths.len() {
            loop {
                let said = self.ask(index, "/ready");
                if said.as_ref().is_ok_and(|(status, _)| *status == 200) {
                    break;
                }
                ensure!(started.elapsed() < time, "gateway {index} says {said:?}:\n{}", self.log(index));
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(started.elapsed())
    }

    /// Waits until every gateway accepts a fresh sealed call. A Redis that is new to a fleet rejects everything stamped up to a
    /// moment ahead; a test that requires good answers only waits for that to pass.
    ///
    /// # Errors
    /// If one does not within `time`, with what it says and its log.
    pub fn wait_for_calls(&self, time: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        for (index, address) in self.addresses().into_iter().enumerate() {
            loop {
                let said = WireSession::open(address, Wire::V2, "/session/init")
                    .and_then(|agreed| Ok(agreed.seal(PURCHASE, ORDER).0.send(address)?.status));
                if said.as_ref().is_ok_and(|status| *status == 200) {
                    break;
                }
                ensure!(started.elapsed() < time, "gateway {index} says {said:?}:\n{}", self.log(index));
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Returns the end of a gateway's log.
    pub fn log(&self, index: usize) -> String {
        let lines = self.server(index).as_ref().map(Server::log).unwrap_or_default();
        lines[lines.len().saturating_sub(50)..].join("\n")
    }
}

/// Returns the path of libfaketime for programs with threads: Debian keeps it in a folder named after the architecture.
///
/// # Errors
/// If it is not installed.
pub fn clock_library() -> anyhow::Result<PathBuf> {
    let mut folders = vec![PathBuf::from("/usr/lib/faketime")];
    folders.extend(std::fs::read_dir("/usr/lib")?.flatten().map(|entry| entry.path().join("faketime")));
    let found = folders.into_iter().map(|folder| folder.join("libfaketimeMT.so.1")).find(|file| file.is_file());
    found.context("libfaketime is missing and this test needs it: run scripts/setup-tests.sh")
}
