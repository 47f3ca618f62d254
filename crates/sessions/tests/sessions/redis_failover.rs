//! Masters that are replaced by a replica, by Sentinels or by hand: none of what one of them has granted is granted by
//! another, also while two of them serve.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::redis_desk::{Desk, claim, grant, nonce, now, reserve, until, until_down, until_up};
use sealway_sessions::store::Store as _;
use sealway_sessions::store::redis::{Redis as Store, RedisConfig};

use sealway_testkit::redis::{Redis, RedisOptions, RedisSentinel};
use sealway_testkit::store_contract::claims::agree;
use tokio::net::{TcpListener, TcpStream};

/// A user apart from the one of replicas and Sentinels, so that a test can cut those off.
const USER: &str = "user sealway on >secret ~sealway:* ~{sealway:* resetchannels &sealway:revoked -@all +ping +info +select \
                    +eval +evalsha +script|load +time +get +set +exists +strlen +pttl +hget +hset +hmget +publish +subscribe \
                    +wait";

fn with_user(url: &str) -> String {
    url.replace("://", "://sealway:secret@")
}

/// Returns the users with an `admin` among them, who may cut others off.
fn with_admin() -> String {
    format!("{USER}\nuser admin on >secret ~* &* +@all")
}

/// Runs a command at a master as the user `admin`, which is needed.
fn as_admin(master: &Redis, args: &[&str]) {
    master.cli(&[&["--user", "admin", "--pass", "secret"], args].concat()).unwrap();
}

/// Cuts a master off from its replicas: nobody logs in as they do any more. Who is logged in stays.
fn cut_replicas(master: &Redis) {
    as_admin(master, &["ACL", "SETUSER", "default", "off"]);
    as_admin(master, &["CLIENT", "KILL", "TYPE", "replica"]);
}

/// Replays nonces at a store until a moment after it is up; returns how many were granted.
async fn replay_until_up(store: &Arc<Store>, granted: &[(String, u64)]) -> usize {
    let (start, mut is_settled, mut count) = (Instant::now(), false, 0);
    while !is_settled {
        assert!(start.elapsed() < Duration::from_secs(30), "not up");
        // One more pass after it is up.
        is_settled = store.is_up();
        for (nonce, stamp_ms) in granted {
            count += usize::from(reserve(store, &claim(nonce, *stamp_ms)).await.is_ok());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    count
}

async fn a_promoted_replica_that_misses_nonces_readmits_none(options: RedisOptions) {
    let mut servers = RedisSentinel::start(2, &options.acl(&with_admin())).unwrap();
    let desk = Desk::new(&with_user(&servers.url())).durable();
    let (one, other) = (desk.open().await, desk.open().await);
    until_up(&one).await;
    until_up(&other).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    let mut granted = Vec::new();
    for n in 0..50 {
        granted.push(grant(&one, || now() - 100 + n % 5 * 200).await);
    }
    // The replicas miss every write once they are cut off: a paused one alone would read what has reached its socket as soon as
    // it goes on. The master grants until its last confirmation has lost its force, which is soon.
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                cut_replicas(&servers.nodes[0]);
                servers.nodes[1..].iter().for_each(|node| node.pause().unwrap());
            });
            let start = Instant::now();
            tokio::runtime::Handle::current().block_on(async {
                while start.elapsed() < Duration::from_secs(2) {
                    let (nonce, stamp_ms) = (nonce(), now());
                    if reserve(&one, &claim(&nonce, stamp_ms)).await.is_ok() {
                        granted.push((nonce, stamp_ms));
                    }
                }
            });
        });
    });
    assert!(!one.is_up(), "no replica confirms the master");
    servers.nodes[0].kill().unwrap();
    servers.nodes[1..].iter().for_each(|node| node.resume().unwrap());
    let (replayed, master) = tokio::join!(replay_until_up(&other, &granted), async {
        tokio::task::block_in_place(|| servers.wait_for_other_than(0).unwrap())
    });
    let nonces = servers.nodes[master].cli(&["--scan", "--pattern", "{sealway:0}:n:*"]).unwrap();
    let missed = granted.len().saturating_sub(nonces.lines().count());
    assert!(missed > 0, "the promoted replica has all {} nonces, so nothing was tried", granted.len());
    assert_eq!(replayed, 0, "of {} nonces, {missed} of which the promoted replica misses", granted.len());
    grant(&one, now).await;
    grant(&other, now).await;
    assert_eq!(replay_until_up(&one, &granted).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_redis_a_promoted_replica_that_misses_nonces_readmits_none() {
    a_promoted_replica_that_misses_nonces_readmits_none(Redis::options()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_valkey_a_promoted_replica_that_misses_nonces_readmits_none() {
    a_promoted_replica_that_misses_nonces_readmits_none(Redis::options().valkey()).await;
}

/// Two processes, each on a master of its own, and what each of them has granted.
struct Sides {
    stores: [Arc<Store>; 2],
    granted: [Mutex<Vec<(String, u64)>>; 2],
    twice: AtomicUsize,
    is_over: AtomicBool,
}

impl Sides {
    fn count(&self) -> [usize; 2] {
        [0, 1].map(|side| self.granted[side].lock().unwrap().len())
    }

    /// Reserves new nonces at one side, and replays there the newest ones of the other side: those are above the floor if
    /// any is.
    async fn run(self: Arc<Self>, side: usize) {
        for n in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let (nonce, stamp_ms) = (nonce(), now() + n % 3 * 700);
            if reserve(&self.stores[side], &claim(&nonce, stamp_ms)).await.is_ok() {
                self.granted[side].lock().unwrap().push((nonce, stamp_ms));
            }
            let latest: Vec<_> = self.granted[1 - side].lock().unwrap().iter().rev().take(20).cloned().collect();
            for (nonce, stamp_ms) in latest {
                let is_granted = reserve(&self.stores[side], &claim(&nonce, stamp_ms)).await.is_ok();
                self.twice.fetch_add(usize::from(is_granted), Ordering::Relaxed);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Cuts the first master off from its replicas and the Sentinels, but not from the store's user, and waits for its successor.
fn cut_off_master(servers: &RedisSentinel) {
    tokio::task::block_in_place(|| {
        cut_replicas(&servers.nodes[0]);
        as_admin(&servers.nodes[0], &["CLIENT", "KILL", "USER", "default"]);
        servers.wait_for_other_than(0).unwrap();
    });
}

/// Cuts a master off from its replicas and the Sentinels, but not from one process, while another process uses its
/// successor. Returns how many nonces each side granted after that, and how many were granted by both.
async fn two_masters(min_replicas: usize) -> ([usize; 2], usize) {
    let users = with_admin();
    let servers = RedisSentinel::start(2, &Redis::options().acl(&users)).unwrap();
    let master = &servers.nodes[0];
    let mut desk = Desk::new(&with_user(&servers.url())).durable();
    let beside_successor = desk.open().await;
    until_up(&beside_successor).await;
    // A process that hears of no fail-over, as behind an address that still leads to the former master.
    desk.config = RedisConfig::parse_url(&with_user(&master.url())).unwrap();
    desk.config.min_replicas = Some(min_replicas);
    let beside_former = desk.open().await;
    until_up(&beside_former).await;
    let stores = [beside_former, beside_successor];
    let sides = Sides { stores, granted: Default::default(), twice: AtomicUsize::new(0), is_over: false.into() };
    let sides = Arc::new(sides);
    let running = [0, 1].map(|side| tokio::spawn(sides.clone().run(side)));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = sides.count();
    assert!(before.iter().all(|count| *count > 0), "{before:?}");
    cut_off_master(&servers);
    until_up(&sides.stores[1]).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    sides.is_over.store(true, Ordering::Relaxed);
    for side in running {
        side.await.unwrap();
    }
    let after = sides.count();
    ([0, 1].map(|side| after[side] - before[side]), sides.twice.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_master_that_is_cut_off_grants_nothing_that_its_successor_grants() {
    let ([former, successor], twice) = two_masters(1).await;
    println!("the former master granted {former} more, its successor {successor}; both the same: {twice}");
    assert!(successor > 20, "the successor granted {successor}");
    assert_eq!(twice, 0);
}

/// The weakness that confirmations remove, and with it the proof that the test above can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_confirmations_a_master_that_is_cut_off_grants_what_its_successor_grants() {
    let ([former, successor], twice) = two_masters(0).await;
    println!("the former master granted {former} more, its successor {successor}; both the same: {twice}");
    assert!(former > 20 && successor > 20 && twice > 0, "{former}, {successor}, {twice}");
}

/// The subscription to the former master answers its pings, and brings nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_revocation_at_the_successor_of_a_master_that_is_cut_off_reaches_every_cache() {
    let users = with_admin();
    let servers = RedisSentinel::start(2, &Redis::options().acl(&users)).unwrap();
    let desk = Desk::new(&with_user(&servers.url())).durable();
    let ((one, _), (other, cache)) = (desk.try_open().await.unwrap(), desk.try_open().await.unwrap());
    until_up(&one).await;
    until_up(&other).await;
    cut_off_master(&servers);
    // Each takes the successor's claims: its operations have moved.
    grant(&one, now).await;
    grant(&other, now).await;
    let session = agree(Some("web"), 600, now()).server;
    let id = *session.id();
    until("the session", Duration::from_secs(15), async || {
        Store::put(one.as_ref(), session.clone()).await.is_ok()
            && matches!(Store::get(other.as_ref(), &id).await, Ok(Some(_)))
    })
    .await;
    // A subscription that moves clears the cache: the session must be in it from before the revocation.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(matches!(Store::get(other.as_ref(), &id).await, Ok(Some(_))));
    assert!(cache.get(&id).is_some());
    assert_eq!(Store::delete(one.as_ref(), &id).await, Ok(true));
    until("the revocation", Duration::from_secs(2), async || cache.get(&id).is_none()).await;
}

/// An address that leads to the port in the second place; connections end when that changes.
async fn address(to: Arc<AtomicU16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let to = to.clone();
            tokio::spawn(async move {
                let port = to.load(Ordering::Relaxed);
                let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
                let moved = async {
                    while to.load(Ordering::Relaxed) == port {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                };
                tokio::select! {
                    done = tokio::io::copy_bidirectional(&mut client, &mut server) => done.map(drop),
                    () = moved => Ok(()),
                }
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_former_master_that_comes_back_with_its_old_memory_readmits_nothing() {
    let former = Redis::start().unwrap();
    let successor = Redis::options().config(&format!("replicaof 127.0.0.1 {}", former.port)).start().unwrap();
    let to = Arc::new(AtomicU16::new(former.port));
    let desk = Desk::new(&format!("redis://127.0.0.1:{}", address(to.clone()).await)).durable();
    let store = desk.open().await;
    until_up(&store).await;
    grant(&store, now).await;
    // The former master is not told, and keeps the memory of its time.
    let start = Instant::now();
    successor.cli(&["REPLICAOF", "NO", "ONE"]).unwrap();
    to.store(successor.port, Ordering::Relaxed);
    until_down(&store).await;
    until_up(&store).await;
    let mut granted = Vec::new();
    for _ in 0..50 {
        granted.push(grant(&store, now).await);
    }
    // Not in the own memory of another process.
    let other = desk.open().await;
    until_up(&other).await;
    // Longer than an epoch may go unchecked: `other` never knew the one of the former master.
    tokio::time::sleep(Duration::from_secs(6).saturating_sub(start.elapsed())).await;
    to.store(former.port, Ordering::Relaxed);
    until_down(&other).await;
    assert_eq!(replay_until_up(&other, &granted).await, 0, "of {} nonces", granted.len());
    until_up(&store).await;
    grant(&store, now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_cannot_be_served_is_rejected_at_the_start_with_the_remedy() {
    let servers = RedisSentinel::start(1, &Redis::options()).unwrap();
    let sentinels = servers.url();
    let (sentinel, _) = sentinels.trim_start_matches("redis+sentinel://").split_once(',').unwrap();
    for (url, what) in [
        (format!("redis://{sentinel}"), "it is a Sentinel; write redis+sentinel://"),
        (sentinels.replace("/main", "/other"), "does not know the name \"other\""),
        (format!("redis-cluster://127.0.0.1:{}", servers.nodes[0].port), "it is no member of a cluster"),
    ] {
        let err = Desk::new(&url).try_open().await.expect_err(&url).to_string();
        assert!(err.contains(what), "{url}: {err}");
    }
    // Nobody can confirm it: a start waits for replicas, and says so.
    let mut desk = Desk::new(&servers.nodes[0].url());
    desk.config.min_replicas = Some(2);
    let store = desk.open().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!store.is_up());
    desk.config.min_replicas = Some(1);
    until_up(&desk.open().await).await;
}
