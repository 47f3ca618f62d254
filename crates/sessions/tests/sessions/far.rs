//! An authority behind real HTTP on its own port, and API sides that use it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, Uri};

use hyper::service::service_fn;
use sealway_exchange::timing::ServerTiming;
use sealway_runtime::clock::ManualClock;
use sealway_runtime::http::{HttpLimits, Listening, RequestBody, serve};
use sealway_runtime::listener::Socket;
use sealway_runtime::shutdown::Shutdown;
use sealway_sessions::peer::PeerSecret;
use sealway_sessions::store::remote::{Remote, RemoteConfig};
use sealway_sessions::store::{Memory, MemoryLimits, OpenError, Store};
use sealway_sessions::{Authority, Policy, endpoint};
use sealway_testkit::store_contract::claims::{START_MS, provider};
use tokio::net::TcpListener;

pub(crate) const SECRET: &str = "peer-secret-0123456789";

/// Policy of an authority for API sides that know [`SECRET`].
pub(crate) fn policy() -> Policy {
    Policy { peer_secret: Some(PeerSecret::new(zeroize::Zeroizing::new(SECRET.into()))), ..Policy::default() }
}

/// A served authority, under a clock that the test sets. It ends when dropped.
pub(crate) struct Far {
    pub(crate) authority: Arc<Authority>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) address: SocketAddr,
    shutdown: Shutdown,
    task: tokio::task::JoinHandle<()>,
}

impl Far {
    pub(crate) async fn memory() -> Self {
        Far::with(Arc::new(Memory::new(MemoryLimits::default())), policy()).await
    }

    pub(crate) async fn with(store: Arc<dyn Store>, policy: Policy) -> Self {
        Far::at("127.0.0.1:0".parse().unwrap(), store, policy).await
    }

    pub(crate) async fn at(address: SocketAddr, store: Arc<dyn Store>, policy: Policy) -> Self {
        let clock = Arc::new(ManualClock::new(START_MS));
        let authority = Arc::new(Authority::new(provider(), store, clock.clone(), policy));
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = authority.clone();
        let service = service_fn(move |request: Request<RequestBody>| {
            let authority = asked.clone();
            async move {
                let mut timing = ServerTiming::start();
                Ok::<_, Infallible>(endpoint::handle(&authority, request, &mut timing).await)
            }
        });
        let shutdown = Shutdown::new();
        let listening = Arc::new(Listening::plain("far", HttpLimits::default()));
        let served = serve(Socket::Tcp(listener), listening, service, shutdown.clone());
        Far { authority, clock, address, shutdown, task: tokio::spawn(served) }
    }

    /// Ends the authority at once, with all its connections.
    pub(crate) async fn kill(self) -> SocketAddr {
        self.task.abort();
        self.shutdown.begin();
        self.shutdown.drain(Duration::ZERO).await;
        self.address
    }

    /// Sets the authority's clock and runs its maintenance.
    pub(crate) async fn pass(&self, now_ms: u64) {
        self.clock.set(now_ms);
        self.authority.maintain().await;
    }

    pub(crate) async fn remote(&self) -> Arc<Remote> {
        open(config(self.address)).await.unwrap()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the settings of an API side for this address, with [`SECRET`].
pub(crate) fn config(address: SocketAddr) -> RemoteConfig {
    RemoteConfig {
        secret_file: Some(secret_file(SECRET)),
        ..RemoteConfig::new(format!("http://{address}").parse::<Uri>().unwrap())
    }
}

/// Writes the secret to a file that is kept until the system clears its temporary files.
pub(crate) fn secret_file(secret: &str) -> std::path::PathBuf {
    let file = tempfile::Builder::new().prefix("sealway-secret-").tempfile().unwrap();
    std::fs::write(file.path(), format!("{secret}\n")).unwrap();
    file.into_temp_path().keep().unwrap()
}

pub(crate) async fn open(config: RemoteConfig) -> Result<Arc<Remote>, OpenError> {
    let secret = config.secret_file.clone();
    let opened = Remote::open(provider(), config, Arc::new(ManualClock::new(START_MS))).await;
    // The store has read the file.
    if let Some(secret) = secret.filter(|secret| Path::new(secret).starts_with(std::env::temp_dir())) {
        let _ = std::fs::remove_file(secret);
    }
    opened
}

/// Waits until `is` holds, for at most `time`; returns the time that it took.
pub(crate) async fn within(time: Duration, what: &str, mut is: impl AsyncFnMut() -> bool) -> Duration {
    let since = Instant::now();
    while !is().await {
        assert!(since.elapsed() < time, "not within {time:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    since.elapsed()
}
