//! The network between gateways and stores: streams of bytes with delays, cuts in one or both directions, stalls and resets of
//! single connections. Bytes of one connection keep their order, as TCP has it; connections overtake each other.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join;
use parking_lot::Mutex;
use sealway_runtime::dial::{ByteStream, Dial, Dialing};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use crate::world::World;

/// Work of a server for one connection.
pub(crate) type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A server that accepts connections of gateways.
pub(crate) trait Host: Send + Sync {
    /// True if it accepts connections.
    fn is_up(&self) -> bool;

    /// Serves a connection until it ends.
    fn serve(&self, stream: DuplexStream) -> Serving;
}

/// The state of the way between a gateway and a host.
#[derive(Debug, Default)]
struct Path {
    /// Number of cuts towards the host, and back: two faults may cut one way, and each heals its own cut.
    cuts: [AtomicUsize; 2],
}

impl Path {
    fn is_cut(&self, direction: usize) -> bool {
        self.cuts.get(direction).is_some_and(|cuts| cuts.load(Ordering::Relaxed) > 0)
    }
}

#[derive(Debug)]
struct Connection {
    gateway: usize,
    host: String,
    is_broken: AtomicBool,
    is_stalled: AtomicBool,
}

/// The network of a run.
pub(crate) struct Network {
    world: Arc<World>,
    hosts: Mutex<BTreeMap<String, Arc<dyn Host>>>,
    paths: Mutex<BTreeMap<(usize, String), Arc<Path>>>,
    connections: Mutex<Vec<Weak<Connection>>>,
    changed: Notify,
}

impl Network {
    pub(crate) fn new(world: Arc<World>) -> Arc<Self> {
        Arc::new(Network {
            world,
            hosts: Mutex::default(),
            paths: Mutex::default(),
            connections: Mutex::default(),
            changed: Notify::new(),
        })
    }

    pub(crate) fn add(&self, name: &str, host: Arc<dyn Host>) {
        self.hosts.lock().insert(name.to_owned(), host);
    }

    fn path(&self, gateway: usize, host: &str) -> Arc<Path> {
        self.paths.lock().entry((gateway, host.to_owned())).or_default().clone()
    }

    /// Cuts the way between a gateway and a host, in these directions. What is on the way waits.
    pub(crate) fn cut(&self, gateway: usize, host: &str, directions: [bool; 2]) {
        let path = self.path(gateway, host);
        for (cuts, _) in path.cuts.iter().zip(directions).filter(|(_, is_cut)| *is_cut) {
            cuts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Heals what [`Network::cut`] has cut, called with the same arguments.
    pub(crate) fn heal(&self, gateway: usize, host: &str, directions: [bool; 2]) {
        let path = self.path(gateway, host);
        for (cuts, _) in path.cuts.iter().zip(directions).filter(|(_, is_cut)| *is_cut) {
            cuts.fetch_sub(1, Ordering::Relaxed);
        }
        self.changed.notify_waiters();
    }

    /// Resets the connections to a host, of one gateway or of all.
    pub(crate) fn reset(&self, gateway: Option<usize>, host: &str) {
        for connection in self.live() {
            if connection.host == host && gateway.is_none_or(|gateway| gateway == connection.gateway) {
                connection.is_broken.store(true, Ordering::Relaxed);
            }
        }
        self.changed.notify_waiters();
    }

    /// Resets or stalls one connection of a gateway, chosen by `choice`; returns its host.
    pub(crate) fn disturb_one(&self, gateway: usize, choice: usize, stall: bool) -> Option<String> {
        let live: Vec<_> = self.live().into_iter().filter(|connection| connection.gateway == gateway).collect();
        let connection = live.get(choice.checked_rem(live.len())?)?;
        let flag = if stall { &connection.is_stalled } else { &connection.is_broken };
        flag.store(true, Ordering::Relaxed);
        self.changed.notify_waiters();
        Some(connection.host.clone())
    }

    fn live(&self) -> Vec<Arc<Connection>> {
        let mut connections = self.connections.lock();
        connections.retain(|connection| connection.strong_count() > 0);
        connections.iter().filter_map(Weak::upgrade).collect()
    }

    fn delay(&self) -> Duration {
        let mut rng = self.world.rng.lock();
        let ms = if rng.chance(10) { rng.range(20, 300) } else { rng.range(1, 4) };
        Duration::from_millis(ms)
    }

    /// Waits until a condition that `changed` tells of is met.
    async fn until(&self, is_met: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is_met() {
                return;
            }
            changed.await;
        }
    }

    async fn open(self: Arc<Self>, gateway: usize, host: String) -> io::Result<Box<dyn ByteStream>> {
        let path = self.path(gateway, &host);
        sleep(self.delay()).await;
        self.until(|| !path.is_cut(0) && !path.is_cut(1)).await;
        let server = self.hosts.lock().get(&host).filter(|server| server.is_up()).cloned();
        let Some(server) = server else { return Err(io::ErrorKind::ConnectionRefused.into()) };
        let (ours, near) = duplex(64 * 1024);
        let (far, theirs) = duplex(64 * 1024);
        let connection = Arc::new(Connection {
            gateway,
            host,
            is_broken: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
        });
        self.connections.lock().push(Arc::downgrade(&connection));
        tokio::spawn(self.clone().carry(connection, path, near, far));
        let (serving, world) = (AssertUnwindSafe(server.serve(theirs)).catch_unwind(), self.world.clone());
        tokio::spawn(async move {
            if serving.await.is_err() {
                world.violated("the model of a server met what it does not know");
            }
        });
        Ok(Box::new(ours))
    }

    /// Carries bytes both ways until an end closes or the connection is reset.
    async fn carry(
        self: Arc<Self>,
        connection: Arc<Connection>,
        path: Arc<Path>,
        near: DuplexStream,
        far: DuplexStream,
    ) {
        let (near_read, near_write) = split(near);
        let (far_read, far_write) = split(far);
        let there = self.pump(&connection, &path, 0, near_read, far_write);
        let back = self.pump(&connection, &path, 1, far_read, near_write);
        tokio::select! {
            biased;
            () = self.until(|| connection.is_broken.load(Ordering::Relaxed)) => {}
            // The end of one direction ends both, as a closed process does.
            () = there => {}
            () = back => {}
        }
    }

    async fn pump(
        &self,
        connection: &Connection,
        path: &Path,
        direction: usize,
        mut from: ReadHalf<DuplexStream>,
        mut to: WriteHalf<DuplexStream>,
    ) {
        let (queue, mut queued) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
        let read = async move {
            let (mut last, mut buffer) = (Instant::now(), vec![0; 16 * 1024]);
            while let Ok(len @ 1..) = from.read(&mut buffer).await {
                last = last.max(Instant::now() + self.delay());
                let bytes = buffer.get(..len).unwrap_or_default().to_vec();
                if queue.send((last, bytes)).is_err() {
                    return;
                }
            }
        };
        let write = async {
            while let Some((at, bytes)) = queued.recv().await {
                sleep_until(at).await;
                let is_open = || !path.is_cut(direction) && !connection.is_stalled.load(Ordering::Relaxed);
                self.until(is_open).await;
                if to.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        };
        join(read, write).await;
    }
}

/// The network as one gateway sees it.
pub(crate) struct Outlet {
    pub(crate) network: Arc<Network>,
    pub(crate) gateway: usize,
}

impl Dial for Outlet {
    fn dial(&self, host: &str, _port: u16) -> Dialing {
        Box::pin(self.network.clone().open(self.gateway, host.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_two_faults_have_cut_is_open_when_both_have_healed_it() {
        let network = Network::new(World::new(1, false, None));
        let path = network.path(0, "redis-0");
        let cuts = || [path.is_cut(0), path.is_cut(1)];
        network.cut(0, "redis-0", [true, true]);
        network.cut(0, "redis-0", [true, false]);
        assert_eq!(cuts(), [true, true]);
        network.heal(0, "redis-0", [true, true]);
        assert_eq!(cuts(), [true, false]);
        network.heal(0, "redis-0", [true, false]);
        assert_eq!(cuts(), [false, false]);
    }
}
