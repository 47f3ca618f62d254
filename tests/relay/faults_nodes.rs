//! Three relay nodes on a real Redis Cluster: a node is killed while channels are in use, and masters fail over while endpoints
//! attach. `SEALWAY_FAULTS=full` makes them long.
#![allow(clippy::print_stdout, reason = "the long form prints what it measured")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sealway_client::channel::keep::{Connector, Listener};
use sealway_client::channel::reconnect::Backoff;
use sealway_client::channel::{Channel, Control, Grants, Options};
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{Claims, Issuer as Minter, IssuerKey, Minting, Role};
use sealway_proto::rpc::Hello;
use sealway_relay::control::{ControlServer, ControlSettings, Tokens};
use sealway_runtime::clock::SystemClock;
use sealway_testkit::fleet::{alone, is_full};
use sealway_testkit::raw_ws::Got;
use sealway_testkit::redis::{Redis, RedisCluster, RedisSentinel};
use sealway_testkit::relay::{AUD, ISS, Issuer, NodeFleet, Relay};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::BINARY;
use crate::nodes::{pair, send, settled};

const NODES: usize = 3;
const BEARER: &str = "a-token-of-the-tests-0123456789";
/// The longest wait for channels to be there, or to be back.
const SOON: Duration = Duration::from_secs(120);
/// Length of a message: the number of its pair, and the number of the message.
const MESSAGE_LEN: usize = 24;

fn start_nodes(folder: &Path, redis_url: &str) -> Vec<Relay> {
    let fleet = NodeFleet::new(folder, redis_url).unwrap();
    let more = ["--max-conns", "8192", "--max-channels", "4096", "--allow-origin", "*.test"];
    (0..NODES).map(|_| fleet.start(BINARY, folder, &more).unwrap()).collect()
}

/// A TCP balancer. It prefers the node that the upgrade's `Origin` names, such as `http://n2.test`, and takes the next one that
/// accepts otherwise.
async fn balancer(nodes: Vec<SocketAddr>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let nodes = nodes.clone();
            tokio::spawn(async move {
                let mut head = [0; 2048];
                let preferred = loop {
                    let len = near.peek(&mut head).await.unwrap_or_default();
                    let text = String::from_utf8_lossy(&head[..len]);
                    if let Some((_, name)) = text.split_once("http://n") {
                        break name[..1].parse::<usize>().unwrap();
                    }
                    if len == 0 || text.contains("\r\n\r\n") {
                        return;
                    }
                };
                for turn in 0..nodes.len() {
                    if let Ok(mut far) = TcpStream::connect(nodes[(preferred + turn) % nodes.len()]).await {
                        let _ = near.set_nodelay(true);
                        let _ = far.set_nodelay(true);
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Two ends that talk all the time, and what was seen of it.
#[derive(Default)]
struct Talk {
    answers: AtomicU64,
    /// Number of channels that have ended.
    breaks: AtomicUsize,
    /// Messages of another pair, or out of order.
    strays: AtomicUsize,
    answered: Mutex<Option<Instant>>,
}

/// The setting of the talks.
struct Place {
    control: String,
    pause: Duration,
}

impl Place {
    fn grants(&self, number: usize, role: Role) -> Grants {
        let control = Control::new(&self.control, &format!("pair-{number}"), role, Some(BEARER), None).unwrap();
        Grants::Control(Box::new(control))
    }

    /// Starts a pair whose ends prefer these nodes.
    fn start(self: &Arc<Self>, number: usize, [client, server]: [usize; 2]) -> Arc<Talk> {
        let talk = Arc::new(Talk::default());
        let options = |node: usize| {
            let mut options = Options::default();
            options.connecting.origin = Some(format!("http://n{node}.test"));
            options
        };
        let backoff = Backoff { max: Duration::from_secs(2), ..Backoff::default() };
        let mut listener = Listener::new(self.grants(number, Role::Server), options(server), backoff).unwrap();
        let answering = talk.clone();
        tokio::spawn(async move {
            while let Ok(channel) = listener.accept(|_, _| ()).await {
                tokio::spawn(answer(channel, number, answering.clone()));
            }
        });
        let connector = Connector::new(self.grants(number, Role::Client), options(client), backoff).unwrap();
        let (place, asking) = (self.clone(), talk.clone());
        tokio::spawn(async move {
            loop {
                let channel = connector.channel(|_, _| ()).await.unwrap();
                let _ = place.ask(&channel, number, &asking).await;
                asking.breaks.fetch_add(1, Ordering::SeqCst);
                channel.close(0, "").await;
            }
        });
        talk
    }

    /// Asks until the channel breaks.
    async fn ask(
        &self,
        channel: &Channel,
        number: usize,
        talk: &Talk,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let mut stream = channel.open(&Hello::new("talk")?).await?;
        for turn in 0_u64.. {
            let message = format!("{number:08}{turn:016}");
            stream.write_all(message.as_bytes()).await?;
            let mut answer = [0; MESSAGE_LEN];
            tokio::time::timeout(SOON, stream.read_exact(&mut answer)).await??;
            if answer != message.as_bytes() {
                talk.strays.fetch_add(1, Ordering::SeqCst);
            }
            talk.answers.fetch_add(1, Ordering::SeqCst);
            *talk.answered.lock().unwrap() = Some(Instant::now());
            tokio::time::sleep(self.pause).await;
        }
        Ok(())
    }
}

/// Answers with the number of this pair and that of the message.
async fn answer(channel: Channel, number: usize, talk: Arc<Talk>) {
    while let Some(incoming) = channel.accept().await {
        let mut stream = incoming.stream;
        let mut message = [0; MESSAGE_LEN];
        while stream.read_exact(&mut message).await.is_ok() {
            let own = format!("{number:08}");
            if message[..8] != *own.as_bytes() {
                talk.strays.fetch_add(1, Ordering::SeqCst);
            }
            if stream.write_all(&[own.as_bytes(), &message[8..]].concat()).await.is_err() {
                break;
            }
        }
    }
}

/// Waits until each of these talks satisfies a condition.
async fn until(what: &str, talks: &[Arc<Talk>], nodes: &[Relay], is_so: impl Fn(usize, &Talk) -> bool) {
    let end = Instant::now() + SOON;
    loop {
        let missing = talks.iter().enumerate().filter(|(number, talk)| !is_so(*number, talk)).count();
        if missing == 0 {
            return;
        }
        if Instant::now() > end {
            let logs: Vec<_> =
                nodes.iter().map(|node| node.log().lines().rev().take(20).collect::<Vec<_>>().join("\n")).collect();
            panic!("{missing} of {} are not {what}:\n{}", talks.len(), logs.join("\n---\n"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn control(relay: &str) -> ControlServer {
    let key = IssuerKey::from_seed("k1", &[1; 32], default_signatures()).unwrap();
    let settings = ControlSettings {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        tls: None,
        tokens: Tokens::parse(BEARER).unwrap(),
        issuer: Minter::new(key, Minting::native(relay, AUD, ISS), default_provider()).unwrap(),
        names_per_client_max: Some(0),
    };
    ControlServer::start(settings, Arc::new(SystemClock)).unwrap()
}

#[test]
fn channels_of_a_killed_node_are_back_and_the_others_do_not_notice() {
    let _alone = alone();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(kill_a_node(if is_full() { 1000 } else { 60 }));
}

async fn kill_a_node(count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path()).unwrap();
    let cluster = RedisCluster::start(3, 1).unwrap();
    let mut nodes = start_nodes(folder.path(), &cluster.url());
    settled(&nodes[0], &issuer);
    let relay = balancer(nodes.iter().map(|node| node.address).collect()).await;
    let control = control(&format!("ws://{relay}/ws"));
    let pause = Duration::from_millis(if is_full() { 1000 } else { 100 });
    let place = Arc::new(Place { control: format!("http://{}", control.addresses()[0]), pause });
    // All nine pairs of nodes, each as often.
    let ends = |number: usize| [number % NODES, number / NODES % NODES];
    let is_hit = |number: usize| ends(number).contains(&0);
    let begun = Instant::now();
    let talks: Vec<_> = (0..count).map(|number| place.start(number, ends(number))).collect();
    until("open", &talks, &nodes, |_, talk| talk.answers.load(Ordering::SeqCst) > 1).await;
    let opened = begun.elapsed();
    let breaks = |talk: &Talk| talk.breaks.load(Ordering::SeqCst);
    let before: Vec<_> = talks.iter().map(|talk| breaks(talk)).collect();

    // Dropping it sends SIGKILL.
    let killed = Instant::now();
    drop(nodes.remove(0));
    let mut back = vec![None; count];
    let end = Instant::now() + SOON;
    while back.iter().enumerate().any(|(number, back)| is_hit(number) && back.is_none()) {
        for (number, talk) in talks.iter().enumerate().filter(|(number, _)| is_hit(*number)) {
            let answered = *talk.answered.lock().unwrap();
            if back[number].is_none() && breaks(talk) > before[number] {
                back[number] = answered.filter(|at| *at > killed).map(|at| at - killed);
            }
        }
        let missing = back.iter().enumerate().filter(|(number, back)| is_hit(*number) && back.is_none()).count();
        assert!(Instant::now() < end, "{missing} channels are lost:\n{}", nodes[0].log());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let all = killed.elapsed();
    let after: Vec<_> = talks.iter().map(|talk| talk.answers.load(Ordering::SeqCst)).collect();
    until("in use", &talks, &nodes, |number, talk| talk.answers.load(Ordering::SeqCst) > after[number] + 2).await;

    let mut times: Vec<_> = back.into_iter().flatten().collect();
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    println!(
        "{count} channels on {NODES} nodes, open after {opened:?}; a node killed: {} cut off, back after {:?} (median), {:?} (99 %), {all:?} (all); \
         {} not affected",
        times.len(),
        at(50),
        at(99),
        count - times.len(),
    );
    let noticed: Vec<_> =
        (0..count).filter(|number| !is_hit(*number) && breaks(&talks[*number]) > before[*number]).collect();
    assert!(noticed.is_empty(), "channels between the other nodes broke: {noticed:?}");
    let strays: usize = talks.iter().map(|talk| talk.strays.load(Ordering::SeqCst)).sum();
    assert_eq!(strays, 0, "messages reached another pair");
    control.stop().await;
}

/// Returns whether a relay takes the token.
fn is_taken(node: &Relay, issuer: &Issuer, claims: &Claims) -> bool {
    let mut ws = send(node, issuer, claims);
    ws.answers = false;
    // It is answered once the endpoint has attached.
    let _ = ws.send(0x89, b"");
    ws.got() == Got::Frame(0x8a, Vec::new())
}

/// A token whose issuer's clock is exact, or as far ahead as is tolerated.
fn token(is_ahead: bool) -> Claims {
    let claims = pair()[0].clone();
    let ahead_s = if is_ahead { 29 } else { 0 };
    Claims { iat: claims.iat + ahead_s, exp: claims.exp + ahead_s, ..claims }
}

/// Uses tokens at all nodes, each several times, while `fail_over` works; returns the tokens that were taken.
fn use_tokens(nodes: &[Relay], issuer: &Issuer, fail_over: impl FnOnce()) -> Vec<Claims> {
    let (fails, stops, twice) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    let (taken, refused) = (Mutex::new(Vec::<Claims>::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (fails, stops, twice, taken, refused) = (&fails, &stops, &twice, &taken, &refused);
            scope.spawn(move || {
                for turn in (thread..).step_by(4) {
                    if stops.load(Ordering::SeqCst) {
                        return;
                    }
                    // A second after the promotion the successor rightly takes a token whose issuer's clock is that far ahead, and the
                    // caller makes it forget all: so none of those is made from here on.
                    let claims = token(turn % 2 == 0 && !fails.load(Ordering::SeqCst));
                    if is_taken(&nodes[turn % nodes.len()], issuer, &claims) {
                        taken.lock().unwrap().push(claims.clone());
                    } else {
                        refused.fetch_add(1, Ordering::SeqCst);
                    }
                    let known = taken.lock().unwrap();
                    // The newest are those that a successor may lack.
                    let older = known.len().checked_sub(1 + turn % 20).and_then(|at| known.get(at)).cloned();
                    drop(known);
                    let again = older.is_some_and(|older| is_taken(&nodes[(turn + 1) % nodes.len()], issuer, &older));
                    twice.fetch_add(usize::from(again), Ordering::SeqCst);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(1));
        fails.store(true, Ordering::SeqCst);
        fail_over();
        std::thread::sleep(Duration::from_secs(1));
        stops.store(true, Ordering::SeqCst);
    });
    let taken = taken.into_inner().unwrap();
    println!(
        "{} tokens taken, {} refused, {} taken twice",
        taken.len(),
        refused.into_inner(),
        twice.load(Ordering::SeqCst)
    );
    assert_eq!(twice.into_inner(), 0);
    assert!(taken.len() > 20, "hardly any token was taken");
    taken
}

/// Waits until a token of any channel is taken again: later than the floor of each bucket.
fn settled_again(node: &Relay, issuer: &Issuer) -> Duration {
    let begun = Instant::now();
    let mut in_a_row = 0;
    while in_a_row < 100 {
        in_a_row = if is_taken(node, issuer, &token(false)) { in_a_row + 1 } else { 0 };
        assert!(begun.elapsed() < SOON, "{}", node.log());
        if in_a_row == 0 {
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    begun.elapsed()
}

#[test]
fn no_token_is_used_twice_while_a_master_of_a_cluster_fails_over() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path()).unwrap();
    let mut cluster = RedisCluster::start(3, 1).unwrap();
    let nodes = start_nodes(folder.path(), &cluster.url());
    settled_again(&nodes[0], &issuer);
    for round in 0..if is_full() { 4 } else { 1 } {
        let masters: Vec<_> = (0..cluster.nodes.len()).filter(|at| is_master(&cluster.nodes[*at])).collect();
        let dies = masters[round % masters.len()];
        let taken = use_tokens(&nodes, &issuer, || cluster.fail_over(dies).unwrap());
        // The successor may lack the last tokens; here it lacks all.
        let successors =
            cluster.nodes.iter().enumerate().filter(|(at, node)| !masters.contains(at) && node.pid().is_some());
        let mut lost = 0;
        for (_, successor) in successors.filter(|(_, node)| is_master(node)) {
            for key in successor.cli(&["KEYS", "*:token:*"]).unwrap().lines() {
                lost += successor.cli(&["DEL", key]).unwrap().trim().parse::<usize>().unwrap();
            }
        }
        assert!(lost > 0, "the successor had no token");
        let again = taken.iter().filter(|claims| is_taken(&nodes[1], &issuer, claims)).count();
        println!("the successor lost {lost} tokens, {again} were taken again");
        assert_eq!(again, 0);
        cluster.nodes[dies].start_again().unwrap();
        if is_full() {
            println!("attaches of every bucket work after {:?}", settled_again(&nodes[2], &issuer));
            cluster.wait_until_ok(3).unwrap();
        }
    }
}

fn is_master(node: &Redis) -> bool {
    node.pid().is_some() && node.cli(&["ROLE"]).is_ok_and(|role| role.starts_with("master"))
}

#[test]
fn no_token_is_used_twice_while_sentinels_promote_a_replica() {
    let _alone = alone();
    if !is_full() {
        println!("SKIPPED: only in the long form, make e2e-faults");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path()).unwrap();
    let mut servers = RedisSentinel::start(2, &Redis::options()).unwrap();
    servers.wait_for_replicas(2).unwrap();
    let nodes = start_nodes(folder.path(), &servers.url());
    settled_again(&nodes[0], &issuer);
    for round in 0..4 {
        servers.wait_for_replicas(2).unwrap();
        let master = servers.master().unwrap();
        let taken = use_tokens(&nodes, &issuer, || {
            if round % 2 == 0 {
                servers.nodes[master].pause().unwrap();
                servers.wait_for_other_than(master).unwrap();
                // For a moment there are two masters.
                servers.nodes[master].resume().unwrap();
            } else {
                servers.nodes[master].kill().unwrap();
                servers.wait_for_other_than(master).unwrap();
                servers.nodes[master].start_again_empty().unwrap();
            }
        });
        println!("attaches work after {:?}", settled_again(&nodes[2], &issuer));
        assert_eq!(taken.iter().filter(|claims| is_taken(&nodes[1], &issuer, claims)).count(), 0);
    }
}

#[test]
fn an_attach_that_replicas_must_confirm_fails_without_them() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path()).unwrap();
    let [master, mut replica] = [(); 2].map(|()| Redis::start().unwrap());
    let port = master.url().trim_end_matches('/').rsplit(':').next().map(str::to_owned).unwrap();
    let follow = |replica: &Redis| {
        replica.cli(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
        while !replica.cli(&["INFO", "replication"]).unwrap().contains("master_link_status:up") {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    follow(&replica);
    let fleet = NodeFleet::new(folder.path(), &master.url()).unwrap();
    let node = fleet.start(BINARY, folder.path(), &["--redis-min-replicas", "1"]).unwrap();
    settled(&node, &issuer);
    replica.kill().unwrap();
    let claims = token(false);
    assert_eq!(send(&node, &issuer, &claims).got(), Got::Close(1013, "node unavailable".into()));
    assert!(node.log().contains("0 of 1 replicas confirm"), "{}", node.log());
    replica.start_again().unwrap();
    follow(&replica);
    settled(&node, &issuer);
    assert_eq!(
        send(&node, &issuer, &claims).got(),
        Got::Close(1008, "token replay".into()),
        "it was used up all the same"
    );
}
