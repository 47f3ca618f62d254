//! A gateway in this process behind a real socket, with a clock that the test sets, and services that speak HTTP/2
//! frame by frame.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sealway_gateway::config::{RawGateway, RawOneShot, resolve};
use sealway_gateway::{Gateway, GatewayService};
use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::crypto::identity::default_identity_library;
use sealway_proto::session::native::{KeySet, Suite};
use sealway_proto::wire::SessionId;
use sealway_runtime::clock::{Clock, ManualClock, SystemClock};
use sealway_runtime::config::Problems;
use sealway_runtime::http::{Connections, HttpLimits, Listening, serve};
use sealway_runtime::listener::Socket;
use sealway_runtime::shutdown::Shutdown;
use sealway_sessions::identity::Identity;
use sealway_sessions::store::{Memory, MemoryLimits};
use sealway_sessions::{Authority, Policy};
use sealway_testkit::native_client::{Link, NativeSession, key_set};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Maximum time for expected events, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running gateway, with its authority and clock.
pub(crate) struct Ground {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Arc<Authority>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) runtime: Runtime,
    pub(crate) connections: Arc<Connections>,
    shutdown: Shutdown,
}

/// Reads settings in the form of a file.
fn take<T: serde::de::DeserializeOwned>(config: &Value, name: &str, default: Value) -> T {
    let value = config.get(name).cloned().unwrap_or(default);
    serde_json::from_value(value).unwrap()
}

impl Ground {
    /// Starts a gateway with `routes`, `upstreams` and `limits`. Sessions are agreed under /v3/ and /session/.
    pub(crate) fn start(mut config: Value) -> Self {
        let paths = ["/v3/sessions", "/.well-known/", "/session/", "/v1/session/"];
        config["routes"].as_array_mut().unwrap().insert(0, json!({"match": {"path_prefix": paths}, "sessions": {}}));
        let listeners = [serde_json::from_value(json!({"address": "127.0.0.1:0"})).unwrap()];
        let routes = take::<Vec<_>>(&config, "routes", json!([]));
        let (upstreams, limits) = (take(&config, "upstreams", json!({})), take(&config, "limits", json!({})));
        let cors = take(&config, "cors", json!({}));
        let raw = RawGateway {
            file: None,
            listeners: &listeners,
            pkcs11: &[],
            routes: &routes,
            mle_keys: &std::collections::BTreeMap::new(),
            one_shot: &RawOneShot::default(),
            upstreams: &upstreams,
            cors: &cors,
            limits: &limits,
            access_log: None,
        };
        let mut problems = Problems::default();
        let body_deadline = Duration::from_millis(take(&config, "body_deadline_ms", json!(30_000)));
        let config = resolve(raw, &mut problems);
        problems.into_result().unwrap();

        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let entered = runtime.enter();
        let clock = Arc::new(ManualClock::new(SystemClock.now_ms()));
        let provider = default_agreement_provider();
        let identity = Identity::in_memory(provider, default_identity_library(), clock.now_ms()).unwrap();
        let policy = Policy { identity: Some(Arc::new(identity)), body_deadline, ..Policy::default() };
        let store = Arc::new(Memory::new(MemoryLimits::default()));
        let authority = Arc::new(Authority::new(provider, store, clock.clone(), policy));
        let shared: Arc<dyn Clock> = clock.clone();
        let gateway: Gateway = config.start(authority.clone(), provider, &shared, None).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let socket = Socket::Tcp(tokio::net::TcpListener::from_std(listener).unwrap());
        let (shutdown, listening) = (Shutdown::new(), Arc::new(Listening::plain("test", HttpLimits::default())));
        let connections = listening.connections.clone();
        shutdown.spawn(serve(socket, listening, GatewayService::new(gateway), shutdown.clone()));
        drop(entered);
        Ground { address, authority, clock, runtime, connections, shutdown }
    }

    /// Starts a gateway with one route to one upstream, under the default limits.
    pub(crate) fn before(upstream: SocketAddr, sealed: &str, protocol: &str) -> Self {
        let servers = [format!("http://{upstream}")];
        Ground::start(json!({
            "routes": [{"match": {}, "sealed": sealed, "upstream": "service"}],
            "upstreams": {"service": {"servers": servers, "protocol": protocol}},
        }))
    }

    pub(crate) fn link(&self) -> Link {
        Link::new(self.address)
    }

    pub(crate) fn trusted(&self) -> KeySet {
        key_set(self.address).unwrap()
    }

    pub(crate) fn agree(&self) -> NativeSession {
        NativeSession::open(&mut self.link(), &self.trusted(), Suite::P256).unwrap()
    }

    /// Revokes a session, as an operator does.
    pub(crate) fn revoke(&self, id: &SessionId) {
        assert!(self.runtime.block_on(self.authority.revoke(id)).unwrap(), "it was there");
    }

    /// Advances the clock by `ms` milliseconds.
    pub(crate) fn pass(&self, ms: u64) {
        self.clock.set(self.clock.now_ms() + ms);
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Kinds of frames (RFC 9113 section 6).
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
/// Header block of status 200, from the static table.
pub(crate) const OK: &[u8] = &[0x88];

/// Encodes a frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Starts a service that speaks HTTP/2: it answers each request with the bytes that `answer` writes on its stream.
pub(crate) fn serve_h2(answer: impl Fn(&mut TcpStream, u32) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = answer.clone();
            thread::spawn(move || speak_h2(stream.unwrap(), &answer));
        }
    });
    address
}

/// Serves HTTP/2 until the connection ends.
fn speak_h2(mut stream: TcpStream, answer: &impl Fn(&mut TcpStream, u32)) -> Option<()> {
    stream.read_exact(&mut [0; 24]).ok()?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).ok()?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        stream.read_exact(&mut vec![0; len]).ok()?;
        match (head[3], head[4]) {
            (SETTINGS, 0) => stream.write_all(&frame(SETTINGS, 1, 0, &[])).ok()?,
            // End of a request's headers or body.
            (DATA | HEADERS, flags) if flags & 1 != 0 => answer(&mut stream, id),
            _ => {}
        }
    }
}
