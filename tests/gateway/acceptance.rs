//! Acceptance of one-shot modes: replays, key rotation, cuts and flipped bytes, each mode beside the others, at real gateways. In the short
//! form thousands of requests, in the long form (`make e2e-faults`) a million.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use sealway_proto::crypto::default_provider;
use sealway_proto::wire::base64;
use sealway_sessions::kek::KeyRing;
use sealway_testkit::fleet::clock_library;
use sealway_testkit::postgres::Postgres;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Answer, Connection};
use sealway_testkit::redis::Redis;
use sealway_testkit::wire_client::now_ms;

use crate::BINARY;
use crate::ehbp::one_shot_keys;
use crate::upstreams::until;

mod clocks;
mod cuts;
mod modes;
mod replays;
mod rotation;
mod service;
mod stores;

use modes::{MASTER, Mode, PublishedKeys};
use service::Service;

/// The log level of a gateway, without a line for every rejection.
const LOG_LEVEL: &str = "info,sealway_sessions::answer=error,sealway_gateway::ohttp=error";
/// Requests on a connection before their answers are read. Both fit in a socket's buffer, so that neither end waits for the other.
const AT_ONCE: usize = 16;

/// A store of claims, with the servers that it is of.
enum Store {
    Embedded,
    Postgres(Postgres),
    Tiered(Postgres, Box<Redis>),
}

impl Store {
    fn postgres() -> Store {
        Store::Postgres(Postgres::start().unwrap())
    }

    fn tiered() -> Store {
        Store::Tiered(Postgres::start().unwrap(), Box::new(Redis::start().unwrap()))
    }

    /// Returns the value of `sessions.store` and settings beside it, which bear with a busy machine.
    fn settings(&self) -> (String, &'static str) {
        match self {
            Store::Embedded => ("file:s.redb".into(), ""),
            Store::Postgres(postgres) => (postgres.url(), ", postgres: { migrate: true, deadline_ms: 50000 }"),
            Store::Tiered(postgres, redis) => (
                format!("{} + {}", postgres.url(), redis.url()),
                ", postgres: { migrate: true, deadline_ms: 50000 }, redis: { deadline_ms: 50000 }",
            ),
        }
    }
}

/// Gateways with one key file and one store, and the service behind them.
struct Fleet {
    servers: Vec<Server>,
    service: Service,
    folder: tempfile::TempDir,
    /// True if the clock of each gateway follows a file of its own.
    is_clocked: bool,
    // Last: the gateways end before it.
    store: Store,
}

impl Fleet {
    /// Starts gateways with a key of each use.
    fn start(count: usize, store: Store) -> Fleet {
        Fleet::of(count, store, false)
    }

    /// Starts them with clocks that [`Fleet::step_clock`] moves.
    fn start_with_clocks(count: usize, store: Store) -> Fleet {
        Fleet::of(count, store, true)
    }

    fn of(count: usize, store: Store, is_clocked: bool) -> Fleet {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys.json");
        for purpose in ["hpke", "ohttp", "ehbp"] {
            one_shot_keys(&["add", keys.to_str().unwrap(), "--use", purpose, "--kem", "x25519", "--days", "2"]);
        }
        std::fs::write(folder.path().join("psk-master"), base64::encode(&MASTER)).unwrap();
        KeyRing::generate(default_provider(), &folder.path().join("sessions.kek")).unwrap();
        let mut fleet = Fleet { servers: Vec::new(), service: Service::start(), folder, is_clocked, store };
        for index in 0..count {
            std::fs::create_dir(fleet.place(index)).unwrap();
            set_clock(&fleet.place(index).join("clock"), 0);
            let server = fleet.launch(index);
            fleet.servers.push(server);
        }
        for index in 0..count {
            fleet.wait_until_served(index);
        }
        fleet
    }

    /// Returns the folder of a gateway.
    fn place(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("gateway-{index}"))
    }

    fn keys(&self) -> String {
        self.folder.path().join("keys.json").to_str().unwrap().to_owned()
    }

    fn config(&self) -> String {
        let (store, settings) = self.store.settings();
        let (folder, service) = (self.folder.path().display(), self.service.address);
        format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
one_shot: {{ keys: {folder}/keys.json, psk: {{ master: {folder}/psk-master }}, max_age_sec: 60 }}
routes:
  - {{ match: {{ path_prefix: /pay }}, upstream: service, sealed: hpke }}
  - {{ match: {{ path_prefix: /v1 }}, upstream: service, sealed: ehbp }}
  - {{ match: {{ path_prefix: /stream }}, upstream: service, sealed: ehbp, ehbp: {{ stream: true }} }}
  - {{ match: {{ path: /gateway }}, ohttp: {{ role: gateway, targets: {{ 'api.example': service }} }} }}
upstreams: {{ service: {{ servers: ['http://{service}'] }} }}
sessions: {{ store: '{store}', kek_file: {folder}/sessions.kek, store_deadline_ms: 60000{settings} }}
"
        )
    }

    fn launch(&self, index: usize) -> Server {
        let place = self.place(index);
        let mut launch = Launch::new(BINARY, &self.config()).folder(&place).log_level(LOG_LEVEL);
        if self.is_clocked {
            launch = launch
                .env("LD_PRELOAD", &clock_library().unwrap().to_string_lossy())
                .env("FAKETIME_TIMESTAMP_FILE", &place.join("clock").to_string_lossy())
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        launch.log_lines_max(10_000).start().unwrap()
    }

    /// Kills a gateway and starts it again at another port.
    fn restart(&mut self, index: usize) {
        self.servers[index].kill().unwrap();
        self.servers[index] = self.launch(index);
        self.wait_until_served(index);
    }

    /// Sets the difference of a gateway's clock from the true time.
    fn step_clock(&self, index: usize, ahead_ms: i64) {
        assert!(self.is_clocked, "the gateways were started without clocks");
        set_clock(&self.place(index).join("clock"), ahead_ms);
    }

    /// Waits until a gateway serves each mode: a store that is new, or was away, rejects stamps of the moment before.
    fn wait_until_served(&self, index: usize) {
        let to = self.address(index);
        let keys = PublishedKeys::fetch(to).choose(now_ms(), 0);
        for mode in Mode::ALL {
            until("a gateway serves", || {
                let probe = keys.seal(mode, &[b"probe"], now_ms());
                let mut status = 0;
                exchange(to, &[probe.bytes()], |_, answer| status = probe.status(&answer));
                status == 200
            });
        }
        self.service.forget(b"probe");
    }

    fn address(&self, index: usize) -> SocketAddr {
        self.servers[index].address()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Server::address).collect()
    }
}

/// Writes the offset of a clock and renames the file into place: a half-written offset would be another time.
fn set_clock(file: &Path, ahead_ms: i64) {
    let ms = ahead_ms.unsigned_abs();
    let text = format!("{}{}.{:03}", if ahead_ms < 0 { '-' } else { '+' }, ms / 1000, ms % 1000);
    std::fs::write(file.with_extension("new"), text).unwrap();
    std::fs::rename(file.with_extension("new"), file).unwrap();
}

/// Sends requests over one connection, [`AT_ONCE`] before their answers are read, and over another one where the gateway closes it. Hands
/// each answer on with the index of its request.
fn exchange(to: SocketAddr, requests: &[impl AsRef<[u8]>], mut answered: impl FnMut(usize, Answer)) {
    let (mut kept, mut next) = (None, 0);
    while next < requests.len() {
        let batch = &requests[next..requests.len().min(next + AT_ONCE)];
        let mut connection = kept.take().unwrap_or_else(|| Connection::open(to).unwrap());
        connection.write(&batch.iter().flat_map(|request| request.as_ref()).copied().collect::<Vec<_>>()).unwrap();
        let mut closes = false;
        for _ in 0..batch.len() {
            let answer = connection.read_answer("POST").unwrap();
            closes = answer.all("connection").iter().any(|value| value.eq_ignore_ascii_case("close"));
            answered(next, answer);
            next += 1;
            if closes {
                break;
            }
        }
        kept = (!closes).then_some(connection);
    }
}
