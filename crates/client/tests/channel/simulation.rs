//! Many small worlds, each from a seed: a calling client, a restarting server, and a network that delays, cuts,
//! partitions, loses and changes bytes. Time is simulated, so that an hour of it takes milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sealway_client::channel::rpc::{Handlers, Rpc};
use sealway_client::channel::{self, Channel, DirectInfo, Hello, Liveness, Options};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Number of worlds, by default; `SEALWAY_SEEDS` overrides it.
const SEEDS: u64 = 1000;
/// Calls that a client must complete in its world.
const CALLS: u64 = 8;
/// Simulated time within which all calls must be complete.
const WORLD_TIME: Duration = Duration::from_secs(3600);
/// Simulated time after which nothing of a world may remain.
const AFTERMATH: Duration = Duration::from_secs(600);

/// SplitMix64, a small random generator; each seed gives a different simulation.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    /// Returns true once in `times` on average.
    fn hits(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Carries bytes one way until the world's dice end it. Its caller then cuts the connection in both directions.
async fn carry(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin, mut dice: Dice, ill: u64) {
    let mut buffer = vec![0; 4096];
    loop {
        let room = 1 + dice.below(buffer.len() as u64) as usize;
        let Ok(len @ 1..) = from.read(&mut buffer[..room]).await else { return };
        sleep(Duration::from_millis(dice.below(40))).await;
        if dice.hits(ill) {
            match dice.below(5) {
                0 => return,
                1 => buffer[dice.below(len as u64) as usize] ^= 1 << dice.below(8),
                2 => continue,
                3 => sleep(Duration::from_secs(dice.below(30))).await,
                // Nothing is closed, and nothing comes any more.
                _ => sleep(Duration::from_secs(3600)).await,
            }
        }
        if to.write_all(&buffer[..len]).await.is_err() {
            return;
        }
    }
}

async fn middle(client: DuplexStream, server: DuplexStream, mut dice: Dice, ill: u64) {
    let ((from_client, to_client), (from_server, to_server)) = (tokio::io::split(client), tokio::io::split(server));
    let other = Dice(dice.roll());
    tokio::select! {
        () = carry(from_client, to_server, dice, ill) => {}
        () = carry(from_server, to_client, other, ill) => {}
    }
}

fn info(suite: u16) -> DirectInfo {
    #[expect(clippy::disallowed_methods, reason = "a grant's end is a time of day")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    DirectInfo {
        ws_url: "ws://peer/ws".into(),
        channel_id: "simulated".into(),
        psk: [3; 32].into(),
        default_suite: suite,
        init_exp_s: now as i64 + 600,
    }
}

fn options() -> Options {
    Options {
        liveness: Liveness { ping_every: Duration::from_secs(5), silent_max: Duration::from_secs(12) },
        ..Options::default()
    }
}

/// Serves one connection, and counts calls with another payload than the client's.
async fn serve(io: DuplexStream, info: Arc<DirectInfo>, wrong: Arc<AtomicU64>) {
    let Ok(channel) = channel::accept_direct(io, &info, &options()).await else { return };
    let mut calls = Vec::new();
    while let Some(incoming) = channel.accept().await {
        let wrong = wrong.clone();
        let handlers = Handlers::none().on(1, move |called| {
            let number = called.payload["number"].as_u64().filter(|number| *number < CALLS);
            let is_whole = called.payload["filling"].as_str().is_some_and(|text| text.bytes().all(|byte| byte == b'f'));
            if number.is_none() || !is_whole {
                wrong.fetch_add(1, Ordering::Relaxed);
            }
            async move { Ok(json!(number.unwrap_or(u64::MAX / 4) * 3)) }
        });
        calls.push(Rpc::over(incoming.stream, handlers));
    }
}

/// A server that accepts connections, and drops all of them now and then.
async fn server(
    mut connections: mpsc::Receiver<DuplexStream>,
    info: Arc<DirectInfo>,
    wrong: Arc<AtomicU64>,
    mut dice: Dice,
) {
    let mut serving = tokio::task::JoinSet::new();
    loop {
        // After one connection in four it drops them all, if no other comes first.
        let (restarts, after) = (dice.hits(4), Duration::from_secs(1 + dice.below(60)));
        tokio::select! {
            next = connections.recv() => match next {
                Some(io) => drop(serving.spawn(serve(io, info.clone(), wrong.clone()))),
                None => return,
            },
            () = sleep(after), if restarts => serving.abort_all(),
        }
    }
}

struct Client {
    dial: mpsc::Sender<DuplexStream>,
    info: Arc<DirectInfo>,
    dice: Dice,
    ill: u64,
    middles: tokio::task::JoinSet<()>,
}

impl Client {
    async fn connect(&mut self) -> Option<(Channel, Rpc)> {
        let (ours, near) = tokio::io::duplex(32 * 1024);
        let (far, theirs) = tokio::io::duplex(32 * 1024);
        let dice = Dice(self.dice.roll());
        self.middles.spawn(middle(near, far, dice, self.ill));
        self.dial.send(theirs).await.ok()?;
        let options = options();
        let connecting = channel::connect_direct_on(ours, &self.info, &options, |_| ());
        let channel = timeout(Duration::from_secs(60), connecting).await.expect("a handshake has an end").ok()?;
        let rpc = Rpc::open(&channel, Handlers::none()).await.ok()?;
        Some((channel, rpc))
    }

    /// Completes every call, over as many channels as needed.
    async fn work(mut self) -> u64 {
        let (mut channels, mut number) = (0, 0);
        while number < CALLS {
            // A world that never recovers would prove nothing.
            self.ill = self.ill.max(20) + channels * 4;
            channels += 1;
            let Some((channel, rpc)) = self.connect().await else { continue };
            while number < CALLS {
                let filling = "f".repeat(self.dice.below(20_000) as usize);
                let asked = json!({"number": number, "filling": filling});
                match rpc.call_within(1, asked, Duration::from_secs(20)).await {
                    Ok(answer) => assert_eq!(answer, json!(number * 3), "another call's answer"),
                    Err(_) => break,
                }
                number += 1;
                sleep(Duration::from_millis(self.dice.below(3000))).await;
            }
            if self.dice.hits(2) {
                timeout(Duration::from_secs(30), channel.close(0, "")).await.expect("closing has an end");
            }
            assert!(channel.open(&Hello::new("x").unwrap()).await.is_err() || !channel.is_over());
        }
        channels
    }
}

fn world(seed: u64) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut dice = Dice(seed);
        let info = Arc::new(info([1, 2, 0x100, 0x104][(seed % 4) as usize]));
        let wrong = Arc::new(AtomicU64::new(0));
        let (dial, connections) = mpsc::channel(4);
        let serving = tokio::spawn(server(connections, info.clone(), wrong.clone(), Dice(dice.roll())));
        let client = Client { dial, info, ill: 10 + dice.below(200), dice, middles: tokio::task::JoinSet::new() };
        let channels = timeout(WORLD_TIME, client.work()).await.unwrap_or_else(|_| panic!("seed {seed} is stuck"));
        assert_eq!(wrong.load(Ordering::Relaxed), 0, "seed {seed}: something else was read than was sent");
        serving.await.unwrap();
        sleep(AFTERMATH).await;
        let left = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert_eq!(left, 0, "seed {seed}: tasks are left");
        channels
    })
}

#[test]
fn no_interleaving_deadlocks_corrupts_data_or_leaks() {
    let seeds = std::env::var("SEALWAY_SEEDS").map_or(SEEDS, |text| text.parse().expect("SEALWAY_SEEDS is a number"));
    let next = AtomicU64::new(0);
    let channels: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let seed = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds);
                    std::iter::from_fn(seed).map(world).sum::<u64>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("{seeds} worlds, {channels} channels for {} calls", seeds * CALLS);
    assert!(channels > seeds * 3 / 2, "the middle was too kind to prove anything");
}
