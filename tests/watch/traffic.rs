//! Clients while Prometheus looks on: a little of everything that succeeds, and on demand what clients at fault do.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::anyhow;
use sealway_client::broker::Client;
use sealway_client::{Body, OneShot, OneShotTrust};
use sealway_proto::crypto::default_provider;
use sealway_proto::one_shot::{KeyConfig, KeyDocument};
use sealway_proto::relay::{Claims, Profile, Role};
use sealway_proto::wire::Wire;
use sealway_testkit::native_client::Link;
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::raw_ws::RawWs;
use sealway_testkit::relay::{Issuer, attach, claims, unique};
use sealway_testkit::wire_client::{CLIENT_ID, WireSession, nonce, now_ms};

use crate::services::Services;

/// Sealed paths, of both gateways.
pub(crate) const SEALED: &str = "/sealed/order";
/// Callers that ask PostgreSQL at once: more than its pool has connections.
const STRANGERS: usize = 10;

/// Faults that clients go on making for as long as the switch is on.
#[derive(Debug, Default)]
pub(crate) struct Switches {
    /// Callers of the broker ask for a profile that their rule does not allow.
    pub(crate) is_denied: AtomicBool,
    /// Callers of the broker use a key that is disabled.
    pub(crate) uses_disabled_key: AtomicBool,
    /// Callers of the broker have batches signed that take long.
    pub(crate) signs_batches: AtomicBool,
    /// Clients use sessions that nobody knows, so that PostgreSQL is asked for each.
    pub(crate) is_unknown: AtomicBool,
    is_over: AtomicBool,
}

/// The running clients; they end when this is dropped.
pub(crate) struct Traffic {
    pub(crate) switches: Arc<Switches>,
    clients: Vec<JoinHandle<()>>,
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.switches.is_over.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            // A panic was printed; the alerts show what it means.
            let _ = client.join();
        }
    }
}

impl Traffic {
    /// Starts the clients. A request may fail: what becomes of it is for the alerts to say.
    pub(crate) fn start(services: &Services) -> Traffic {
        let mut traffic = Traffic { switches: Arc::new(Switches::default()), clients: Vec::new() };
        let (shared, single) = (services.shared.address(), services.single.address());
        let mut link = Link::new(shared);
        traffic.each(20, move |_| drop(link.send(&Request::get("/plain/"))));
        for (interval_ms, address) in [(100, shared), (500, single)] {
            let mut session = None;
            traffic.each(interval_ms, move |_| match &session {
                None => session = WireSession::open(address, Wire::V2, "/session/init").ok(),
                Some(session) => drop(session.seal(SEALED, b"{}").0.send(address)),
            });
        }
        let (once, runtime) = (one_shot(shared).unwrap(), tokio::runtime::Runtime::new().unwrap());
        traffic.each(500, move |_| {
            let request = http::Request::post("/once/order").body(Body::from("{}".to_owned())).unwrap();
            drop(runtime.block_on(once.send(request)));
        });
        traffic.each(500, move |_| drop(WireSession::open(shared, Wire::V2, "/session/init")));
        for _ in 0..STRANGERS {
            traffic.each(20, move |switches| {
                if switches.is_unknown.load(Ordering::Relaxed) {
                    let _ = use_unknown_session(shared);
                }
            });
        }
        let (client, runtime) = (services.client.clone(), tokio::runtime::Runtime::new().unwrap());
        traffic.each(50, move |switches| runtime.block_on(ask(&client, switches)));
        let (relay, ca) = (services.relay.address, services.path("certs/ca.cert.pem"));
        let issuer = Issuer::named("k1", 1).unwrap();
        traffic.each(1000, move |_| drop(converse(relay, &ca, &issuer)));
        traffic
    }

    fn each(&mut self, interval_ms: u64, mut act: impl FnMut(&Switches) + Send + 'static) {
        let switches = self.switches.clone();
        self.clients.push(std::thread::spawn(move || {
            while !switches.is_over.load(Ordering::Relaxed) {
                act(&switches);
                std::thread::sleep(Duration::from_millis(interval_ms));
            }
        }));
    }
}

/// Returns a client that seals to the keys which a gateway publishes.
fn one_shot(gateway: SocketAddr) -> anyhow::Result<OneShot> {
    let provider = default_provider();
    let published = Request::get("/.well-known/sealway-hpke-keys").send(gateway)?;
    let document = KeyDocument::parse(provider, &published.body)?;
    let kid = |config: &[u8]| Ok(KeyConfig::decode(provider, config)?.kid(provider));
    let kids = document.keys.iter().map(|key| kid(&key.config)).collect::<anyhow::Result<_>>()?;
    Ok(sealway_client::Client::builder(format!("http://{gateway}")).one_shot(OneShotTrust::Kids(kids))?)
}

/// Sends a request of a session that was never agreed, in a valid form.
fn use_unknown_session(to: SocketAddr) -> anyhow::Result<Answer> {
    let kid = format!("S-{}", nonce());
    let request = Request::post(SEALED, "AAAA".repeat(20)).header("Content-Type", "text/plain");
    let request = request.header("X-Kid", format!("session:{kid}")).header("X-ClientId", CLIENT_ID);
    let request = request.header("X-Idempotency-Key", format!("{}.{}", now_ms(), nonce()));
    request.send(to)
}

/// Calls a broker as a good client, and as those at fault where they are switched on.
async fn ask(client: &Client, switches: &Switches) {
    let _ = client.hash("Sha256", &["text"]).await;
    if switches.is_denied.load(Ordering::Relaxed) {
        let _ = client.hash("Default", &["text"]).await;
    }
    if switches.uses_disabled_key.load(Ordering::Relaxed) {
        let _ = client.sign("P256", "disabled", &["text"]).await;
    }
    if switches.signs_batches.load(Ordering::Relaxed) {
        let _ = client.sign("RSA", "rsa", &["text"; 800]).await;
    }
}

/// Opens a channel, sends a message through it, and leaves.
fn converse(relay: SocketAddr, ca: &Path, issuer: &Issuer) -> anyhow::Result<()> {
    let [mut client, mut server] = pair().map(|claims| attached(relay, ca, issuer, &claims));
    client.as_mut().map_err(|err| anyhow!("{err}"))?.binary(b"text");
    server.as_mut().map_err(|err| anyhow!("{err}"))?.message().map_err(|got| anyhow!("{got:?}"))?;
    Ok(())
}

/// Connects an endpoint to a relay, and sends its attach message.
pub(crate) fn attached(relay: SocketAddr, ca: &Path, issuer: &Issuer, claims: &Claims) -> anyhow::Result<RawWs> {
    let mut ws = RawWs::connect(relay, Some(ca), "/ws", &[])?.map_err(|status| anyhow!("rejected with {status}"))?;
    let text = attach(issuer, claims, Profile::V1, 1).encode();
    ws.send(0x81, text.as_bytes())?;
    Ok(ws)
}

/// Returns valid claims of both ends of a new channel.
pub(crate) fn pair() -> [Claims; 2] {
    let (channel, now_s) = (unique("channel"), i64::try_from(now_ms() / 1000).unwrap());
    [Role::Client, Role::Server].map(|role| claims(&channel, role, now_s, now_s + 300))
}
