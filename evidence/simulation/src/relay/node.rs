//! A relay node: the product's server over the simulated network, which may crash, stop and start again.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sealway_relay::server::Server;
use sealway_relay::settings::{Limits, NodeFiles, Settings, Sharing};
use sealway_runtime::clock::Clock;
use sealway_runtime::dial::{Dial, Dialer, Dialing};
use sealway_runtime::http::websocket;
use sealway_runtime::redis::{self as product, Node};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::sleep;

use super::history::History;
use super::keys::{AUD, ISS, Issuers};
use super::{Defect, FAR_MS};
use crate::net::{Host, Network, Outlet, Serving};
use crate::redis;
use crate::world::{SimulatedClock, World};

/// Most payload that waits for the other end, small so that an attacker can exceed it.
pub(super) const PENDING_MAX: usize = 4096;

/// The host of a node for endpoints.
pub(super) fn socket_host(index: usize) -> String {
    format!("relay-{index}")
}

/// The network as one run of a node sees it: nothing, once that run is over.
struct Outgoing {
    outlet: Arc<Outlet>,
    is_alive: Arc<AtomicBool>,
}

impl Dial for Outgoing {
    fn dial(&self, host: &str, port: u16) -> Dialing {
        let (dialing, is_alive) = (self.outlet.dial(host, port), self.is_alive.clone());
        Box::pin(async move {
            let stream = if is_alive.load(Ordering::Relaxed) { dialing.await? } else { return Err(gone()) };
            if is_alive.load(Ordering::Relaxed) { Ok(stream) } else { Err(gone()) }
        })
    }
}

fn gone() -> std::io::Error {
    std::io::ErrorKind::NotConnected.into()
}

/// One run of a node.
#[derive(Default)]
pub(super) struct Life {
    server: Option<Server>,
    is_alive: Arc<AtomicBool>,
    /// The host for the other nodes.
    host: String,
}

impl Life {
    /// Stops the node in order, then takes its network away.
    pub(super) async fn stop(self) {
        if let Some(server) = self.server {
            server.stop().await;
        }
        self.is_alive.store(false, Ordering::Relaxed);
    }
}

/// A node, over all of its runs.
pub(super) struct RelayNode {
    pub(super) index: usize,
    world: Arc<World>,
    network: Arc<Network>,
    history: Arc<History>,
    pub(super) clock: Arc<SimulatedClock>,
    skew_ms: i64,
    keyset_file: PathBuf,
    has_sentinels: bool,
    files: NodeFiles,
    defect: Option<Defect>,
    issuers: Arc<Issuers>,
    /// Each run has an address of its own, as containers have; otherwise all have one, as machines have.
    moves: bool,
    life: Mutex<Life>,
}

/// The parts that all nodes of a run share.
pub(super) struct Fleet {
    pub(super) world: Arc<World>,
    pub(super) network: Arc<Network>,
    pub(super) history: Arc<History>,
    pub(super) issuers: Arc<Issuers>,
    pub(super) has_sentinels: bool,
    /// Nodes start again at another address.
    pub(super) moves: bool,
    pub(super) files: NodeFiles,
    pub(super) defect: Option<Defect>,
}

impl RelayNode {
    pub(super) fn new(index: usize, fleet: &Fleet) -> Arc<Self> {
        let skew_ms = fleet.world.rng.lock().range(0, 3000) as i64 - 1500;
        let is_deaf = fleet.defect == Some(Defect::StaleKeys);
        let node = Arc::new(RelayNode {
            index,
            world: fleet.world.clone(),
            network: fleet.network.clone(),
            history: fleet.history.clone(),
            clock: fleet.world.clock(FAR_MS + skew_ms),
            skew_ms,
            keyset_file: if is_deaf { fleet.issuers.first_keyset() } else { fleet.issuers.keyset() },
            has_sentinels: fleet.has_sentinels,
            files: fleet.files.clone(),
            defect: fleet.defect,
            issuers: fleet.issuers.clone(),
            moves: fleet.moves,
            life: Mutex::default(),
        });
        fleet.network.add(&socket_host(index), Arc::new(Door(node.clone(), Kind::Endpoints)));
        node
    }

    pub(super) fn now_s(&self) -> i64 {
        i64::try_from(self.clock.now_ms() / 1000).unwrap_or(i64::MAX)
    }

    /// Returns the host of the present run for the other nodes.
    pub(super) fn bridge_host(&self) -> String {
        self.life.lock().host.clone()
    }

    fn settings(&self, is_alive: &Arc<AtomicBool>, host: &str) -> Settings {
        let outlet = Arc::new(Outlet { network: self.network.clone(), gateway: self.index });
        let dialer = Dialer(Arc::new(Outgoing { outlet, is_alive: is_alive.clone() }));
        let (nodes, sentinel) = if self.has_sentinels {
            let nodes = (0..3).map(|number| Node::Tcp(redis::sentinel(number), 26379)).collect();
            (nodes, Some(redis::MASTER.to_owned()))
        } else {
            (vec![Node::Tcp(redis::host(0), 6379)], None)
        };
        let redis = product::Settings { nodes, sentinel, dialer: Some(dialer.clone()), ..product::Settings::default() };
        let mut settings = Settings::new(Vec::new(), self.keyset_file.clone());
        (settings.aud, settings.iss) = (vec![AUD.into()], vec![ISS.into()]);
        settings.sharing = Some(Sharing {
            redis,
            prefix: "simulated".into(),
            min_replicas: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertise: Some(format!("{host}:7000")),
            files: self.files.clone(),
            dialer: Some(dialer),
        });
        settings.limits = Limits {
            pending_bytes_max: PENDING_MAX,
            keepalive: Duration::from_secs(3),
            write_timeout: Duration::from_secs(4),
            idle_timeout: Duration::from_secs(20),
            drain: Duration::from_secs(1),
            ..Limits::default()
        };
        settings
    }

    /// Starts the node, as a task of its own.
    pub(super) async fn start_owned(self: Arc<Self>) {
        self.start().await;
    }

    /// Sets the node's clock off by `ms`, or right again by 0. Returns false, and does nothing, if it is off already.
    pub(super) fn set_step(&self, ms: i64) -> bool {
        let base = FAR_MS + self.skew_ms;
        if ms != 0 && self.clock.skew_ms.load(Ordering::Relaxed) != base {
            return false;
        }
        self.clock.skew_ms.store(base + ms, Ordering::Relaxed);
        true
    }

    /// Starts a node that is down, again and again until it runs, as a supervisor does.
    pub(super) async fn start(self: &Arc<Self>) {
        let is_alive = Arc::new(AtomicBool::new(true));
        let number = if self.moves { self.world.number() } else { 0 };
        let host = format!("node-{}-{number}", self.index);
        *self.life.lock() = Life { server: None, is_alive: is_alive.clone(), host: host.clone() };
        self.network.add(&host, Arc::new(Door(self.clone(), Kind::Nodes(host.clone()))));
        while is_alive.load(Ordering::Relaxed) {
            self.history.start(self.issuers.now_s());
            match Server::start(self.settings(&is_alive, &host), self.clock.clone(), String::new).await {
                Ok(server) => {
                    self.world.event(&format!("node {} runs", self.index));
                    // It may have crashed meanwhile.
                    let life = &mut *self.life.lock();
                    if is_alive.load(Ordering::Relaxed) {
                        life.server = Some(server);
                    } else {
                        tokio::spawn(server.stop());
                    }
                    return;
                }
                // Anything but Redis is a defect of the run itself.
                Err(err) if !err.to_string().contains("--redis-url") => panic!("a node does not start: {err}"),
                Err(err) => self.world.event(&format!("node {} does not start: {err}", self.index)),
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// Takes the present run, which has no door any more. `None` if the node is down: who took that run starts the next one, so
    /// that no two runs live at once.
    fn take(&self) -> Option<Life> {
        let life = std::mem::take(&mut *self.life.lock());
        life.is_alive.load(Ordering::Relaxed).then_some(life)
    }

    /// Ends the node at once. Its tasks are on their own from then on, without a network. Returns false if it is down.
    pub(super) fn crash(&self, hosts: &[String]) -> bool {
        let Some(life) = self.take() else { return false };
        self.world.event(&format!("node {} crashes", self.index));
        life.is_alive.store(false, Ordering::Relaxed);
        for host in hosts {
            self.network.reset(Some(self.index), host);
        }
        self.network.reset(None, &life.host);
        self.network.reset(None, &socket_host(self.index));
        tokio::spawn(life.stop());
        true
    }

    /// Returns the run of a node that is about to stop; `None` if it does not run.
    pub(super) fn leave(&self) -> Option<Life> {
        let life = if self.is_running() { self.take() } else { None };
        if life.is_some() {
            self.world.event(&format!("node {} stops", self.index));
        }
        life
    }

    pub(super) fn is_running(&self) -> bool {
        self.life.lock().server.is_some()
    }

    /// Performs the upgrade, and hands the WebSocket to the node.
    async fn serve_endpoint(self: Arc<Self>, mut stream: DuplexStream) {
        let Some(key) = request_key(&mut stream).await else { return };
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-accept: {}\r\n\r\n",
            websocket::accept(key.as_bytes())
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        let life = self.life.lock();
        let Some(server) = &life.server else { return };
        if self.defect == Some(Defect::Repeats) {
            server.accept_endpoint(Box::new(super::defect::Repeating::new(stream)), None);
        } else {
            server.accept_endpoint(Box::new(stream), None);
        }
    }
}

/// Reads the head of a request, and returns its `Sec-WebSocket-Key`.
async fn request_key(stream: &mut DuplexStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let mut keys = fields.filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
    keys.next().map(|(_, key)| key.trim().to_owned())
}

enum Kind {
    /// With the host of the run that it belongs to.
    Nodes(String),
    Endpoints,
}

/// A listener of a node.
struct Door(Arc<RelayNode>, Kind);

impl Host for Door {
    fn is_up(&self) -> bool {
        let life = self.0.life.lock();
        let is_current = match &self.1 {
            Kind::Nodes(host) => *host == life.host,
            Kind::Endpoints => true,
        };
        is_current && life.server.is_some()
    }

    fn serve(&self, stream: DuplexStream) -> Serving {
        let node = self.0.clone();
        match &self.1 {
            Kind::Endpoints => Box::pin(node.serve_endpoint(stream)),
            Kind::Nodes(_) => Box::pin(async move {
                if let Some(server) = &node.life.lock().server {
                    server.accept_node(Box::new(stream), SocketAddr::from(([10, 0, 0, 1], 7000)));
                }
            }),
        }
    }
}
