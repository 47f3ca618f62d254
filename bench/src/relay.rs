//! The relay: its cost for a channel and for a byte, and the throughput and latency of a channel through it.
//!
//! The relay has core 0 and one worker thread; both ends of every channel are in this process, on core 1.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use sealway_client::channel::mint;
use sealway_client::channel::rpc::{Handlers, Rpc};
use sealway_client::channel::{self, Channel, Grant, Hello, Instance, Options as ChannelOptions};
use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{Claims, Keyset, Requirements, verify};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::http::pin_to_load_core;
use crate::ours::raise_descriptor_limit;
use crate::procfs::{self, Others};
use crate::servers::{SERVER_CORE, sealway_beside};
use crate::table::{median, verdict};

const GIB: f64 = (1_u64 << 30) as f64;
/// Channels that are set up at the same time.
const AT_ONCE: usize = 32;
/// Calls that each caller makes.
const CALLS: usize = 2000;
/// The size of a write to a stream, in bytes.
const CHUNK: usize = 64 * 1024;

/// Settings of the measurement.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Path of the sealway binary [default: beside this one]
    #[arg(long)]
    sealway: Option<PathBuf>,
    /// Channels whose set-up and memory are measured
    #[arg(long, default_value_t = 1000)]
    channels: usize,
    /// GiB through the relay in each row
    #[arg(long, default_value_t = 1.0)]
    gib: f64,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Instead: so many channels in each of three waves, idle for 45 s; memory and descriptors after each
    #[arg(long, value_name = "CHANNELS")]
    waves: Option<usize>,
    /// Idle time of a wave, in seconds
    #[arg(long, default_value_t = 45)]
    idle_s: u64,
}

/// A relay process, killed when dropped, and the key that signs its grants.
struct Relay {
    child: Child,
    key: Vec<u8>,
    url: String,
}

impl Relay {
    fn start(sealway: &Path, folder: &Path) -> anyhow::Result<Self> {
        let run = |arguments: &[&str]| {
            let status = Command::new(sealway).args(arguments).current_dir(folder).stdout(Stdio::null()).status()?;
            ensure!(status.success(), "sealway {arguments:?} failed");
            Ok(())
        };
        run(&["relay", "keys"])?;
        let mut child = Command::new("taskset")
            .args(["-c", &SERVER_CORE.to_string()])
            .arg(sealway)
            .args(["relay", "serve", "--listen", "127.0.0.1:0", "--issuer-keys-file", "issuer-keys.json"])
            .args(["--aud", "bench", "--max-channels", "30000", "--max-conns", "60000"])
            .env("TOKIO_WORKER_THREADS", "1")
            .env("RUST_LOG", "warn")
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the relay under taskset")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let told: Value = serde_json::from_str(&line).context("the relay's first line")?;
        let address = told["listen"].as_str().context("no address in the relay's first line")?;
        let url = format!("ws://{address}/ws");
        Ok(Relay { child, key: std::fs::read(folder.join("issuer-key.json"))?, url })
    }

    /// Mints the grants of a new channel, the client's first.
    fn grants(&self, suite: u16) -> anyhow::Result<[Grant; 2]> {
        let mut minting = mint::minting(&self.url, "bench", "", suite)?;
        minting.idle_timeout_s = 600;
        let (client, server) = mint::pair(&mint::issuer(mint::parse_key(&self.key)?, minting)?)?;
        Ok([client, server])
    }

    fn cpu_s(&self) -> anyhow::Result<f64> {
        procfs::cpu_s(self.child.id())
    }

    fn rss_kib(&self) -> anyhow::Result<u64> {
        procfs::memory_kib(self.child.id(), "VmRSS")
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both ends of a channel through the relay.
struct Pair {
    client: Channel,
    server: Channel,
}

async fn pair([client, server]: [Grant; 2], me: Instance) -> anyhow::Result<Pair> {
    let options = ChannelOptions::default();
    let (client, server) = tokio::try_join!(
        channel::attach(&client, &me, &options, |_| ()),
        channel::attach(&server, &me, &options, |_| ())
    )?;
    Ok(Pair { client, server })
}

/// Measures the relay and prints tables.
///
/// # Errors
/// If a process does not start, a channel breaks off, or memory grows from wave to wave.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let sealway = sealway_beside(options.sealway.clone())?;
    raise_descriptor_limit()?;
    let folder = tempfile::Builder::new().prefix("sealway-relay-").tempdir()?;
    let relay = Relay::start(&sealway, folder.path())?;
    pin_to_load_core()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let others = Others::start(&[relay.child.id()])?;
    println!("## The relay: one worker thread on core 0, both ends of every channel in one process on core 1\n");
    runtime.block_on(async {
        match options.waves {
            Some(channels) => waves(&relay, channels, Duration::from_secs(options.idle_s)).await,
            None => {
                set_up(&relay, options).await?;
                throughput(&relay, options).await?;
                small(&relay).await?;
                round_trips(&relay).await
            }
        }
    })?;
    println!("\n{}", others.in_words()?);
    Ok(())
}

/// Opens channels, `AT_ONCE` at a time, with grants minted before.
async fn open(grants: Vec<[Grant; 2]>) -> anyhow::Result<Vec<Pair>> {
    let me = Instance::draw()?;
    let (mut pairs, mut opening) = (Vec::with_capacity(grants.len()), JoinSet::new());
    for grants in grants {
        if opening.len() >= AT_ONCE
            && let Some(opened) = opening.join_next().await
        {
            pairs.push(opened??);
        }
        opening.spawn(pair(grants, me.clone()));
    }
    while let Some(opened) = opening.join_next().await {
        pairs.push(opened??);
    }
    Ok(pairs)
}

fn mint(relay: &Relay, count: usize) -> anyhow::Result<Vec<[Grant; 2]>> {
    (0..count).map(|_| relay.grants(0x100)).collect()
}

async fn set_up(relay: &Relay, options: &Options) -> anyhow::Result<()> {
    // Memory allocated once belongs to no channel.
    drop(open(mint(relay, 100)?).await?);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (mut cpu_ms, mut kib) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let grants = mint(relay, options.channels)?;
        let (cpu, rss) = (relay.cpu_s()?, relay.rss_kib()?);
        let pairs = open(grants).await?;
        cpu_ms.push((relay.cpu_s()? - cpu) * 1e3 / options.channels as f64);
        tokio::time::sleep(Duration::from_secs(1)).await;
        kib.push(relay.rss_kib()?.saturating_sub(rss) as f64 / options.channels as f64);
        drop(pairs);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    // Later rounds reuse memory that earlier rounds freed.
    let kib_first = kib[0];
    let cpu_ms = median(&mut cpu_ms);
    println!("| a channel of {} ({} rounds) | relay | goal | |", options.channels, options.rounds);
    println!("| --- | ---: | ---: | --- |");
    println!("| CPU of a set-up, two token checks in it, ms | {cpu_ms:.3} | 0.3 | {} |", verdict(cpu_ms, 0.3));
    println!("| of it two checks of a token (Ed25519), measured alone, ms | {:.3} | | |", 2.0 * token_check_ms(relay)?);
    println!("| resident memory, first round, KiB | {kib_first:.1} | 12 | {} |", verdict(kib_first, 12.0));
    Ok(())
}

/// Measures the CPU time of one token check in this process, in ms.
fn token_check_ms(relay: &Relay) -> anyhow::Result<f64> {
    const CHECKS: usize = 5000;
    let keyset = mint::parse_key(&relay.key)?.keyset_text();
    let keys = Keyset::parse(keyset.as_bytes(), default_signatures()).context("the keyset")?;
    let token = relay.grants(0x100)?[0].token.clone();
    let now_s = Claims::read_unverified(&token).context("the token")?.iat;
    let own = procfs::cpu_s(std::process::id())?;
    for _ in 0..CHECKS {
        std::hint::black_box(verify(&token, &keys, &Requirements::default(), now_s).context("the token")?);
    }
    Ok((procfs::cpu_s(std::process::id())? - own) * 1e3 / CHECKS as f64)
}

async fn throughput(relay: &Relay, options: &Options) -> anyhow::Result<()> {
    println!(
        "\n| {} GiB from client to server | MiB/s | relay CPU-s a GiB | both ends CPU-s a GiB | goal of the relay | |",
        options.gib
    );
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    let bytes = (options.gib * GIB) as u64;
    for (name, suite) in [("native, AES-GCM", 0x100), ("flowersec-v1", 1)] {
        for streams in [1_u64, 8] {
            let (mut rates, mut relays, mut ends) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..options.rounds {
                let pair = pair(relay.grants(suite)?, Instance::draw()?).await?;
                let (cpu, own, begun) = (relay.cpu_s()?, procfs::cpu_s(std::process::id())?, Instant::now());
                pour(&pair, streams, bytes / streams).await?;
                let gib = (bytes / streams * streams) as f64 / GIB;
                rates.push(gib * 1024.0 / begun.elapsed().as_secs_f64());
                relays.push((relay.cpu_s()? - cpu) / gib);
                ends.push((procfs::cpu_s(std::process::id())? - own) / gib);
            }
            let relay = median(&mut relays);
            println!(
                "| {name}, {streams} stream{} | {:.0} | {relay:.2} | {:.2} | 1.5 | {} |",
                if streams == 1 { "" } else { "s" },
                median(&mut rates),
                median(&mut ends),
                verdict(relay, 1.5)
            );
        }
    }
    Ok(())
}

/// Sends `bytes` on each of `streams`, and reads them to the end.
async fn pour(pair: &Pair, streams: u64, bytes: u64) -> anyhow::Result<()> {
    let hello = Hello::new("pour")?;
    let mut work = JoinSet::new();
    for _ in 0..streams {
        let mut out = pair.client.open(&hello).await?;
        work.spawn(async move {
            let chunk = vec![7; CHUNK];
            let mut left = bytes;
            while left > 0 {
                let len = left.min(CHUNK as u64) as usize;
                out.write_all(&chunk[..len]).await?;
                left -= len as u64;
            }
            out.shutdown().await?;
            // Waits until the other end has read everything and finished its side.
            let ended = out.read(&mut [0]).await?;
            ensure!(ended == 0, "the other end said something");
            anyhow::Ok(())
        });
    }
    for _ in 0..streams {
        let mut from = pair.server.accept().await.context("the channel is over")?.stream;
        work.spawn(async move {
            let (mut chunk, mut got) = (vec![0; CHUNK], 0);
            loop {
                match from.read(&mut chunk).await? {
                    0 => break,
                    len => got += len as u64,
                }
            }
            ensure!(got == bytes, "{got} of {bytes} bytes came");
            from.shutdown().await?;
            anyhow::Ok(())
        });
    }
    while let Some(done) = work.join_next().await {
        done??;
    }
    Ok(())
}

/// Measures the cost of a small message, and of opening and closing a stream.
async fn small(relay: &Relay) -> anyhow::Result<()> {
    const MESSAGES: usize = 20_000;
    const STREAMS: usize = 2_000;
    let pair = pair(relay.grants(0x100)?, Instance::draw()?).await?;
    let hello = Hello::new("small")?;
    let mut out = pair.client.open(&hello).await?;
    let mut into = pair.server.accept().await.context("the channel is over")?.stream;
    let (mut there, mut back) = ([0; 256], [0; 256]);
    let (cpu, own) = (relay.cpu_s()?, procfs::cpu_s(std::process::id())?);
    for _ in 0..MESSAGES {
        // Messages alternate in both directions, so the sender cannot join them into one record.
        out.write_all(&[1; 256]).await?;
        into.read_exact(&mut there).await?;
        into.write_all(&there).await?;
        out.read_exact(&mut back).await?;
    }
    let each = |before: f64, after: f64, count: usize| (after - before) * 1e6 / count as f64;
    println!("\n| one of | CPU us of the relay | CPU us of both ends |\n| --- | ---: | ---: |");
    println!(
        "| {MESSAGES} times 256 bytes there and back, two messages | {:.1} | {:.1} |",
        each(cpu, relay.cpu_s()?, MESSAGES),
        each(own, procfs::cpu_s(std::process::id())?, MESSAGES)
    );
    let (cpu, own) = (relay.cpu_s()?, procfs::cpu_s(std::process::id())?);
    for _ in 0..STREAMS {
        let mut out = pair.client.open(&hello).await?;
        let mut into = pair.server.accept().await.context("the channel is over")?.stream;
        out.shutdown().await?;
        into.shutdown().await?;
        out.read_to_end(&mut Vec::new()).await?;
        into.read_to_end(&mut Vec::new()).await?;
    }
    println!(
        "| {STREAMS} streams opened, taken and closed | {:.1} | {:.1} |",
        each(cpu, relay.cpu_s()?, STREAMS),
        each(own, procfs::cpu_s(std::process::id())?, STREAMS)
    );
    Ok(())
}

async fn round_trips(relay: &Relay) -> anyhow::Result<()> {
    println!("\n| remote calls, 64 bytes each way | p50 us | p99 us | calls/s |\n| --- | ---: | ---: | ---: |");
    let pair = pair(relay.grants(0x100)?, Instance::draw()?).await?;
    let asking = Rpc::open(&pair.client, Handlers::none()).await?;
    let stream = pair.server.accept().await.context("the channel is over")?.stream;
    let _answering = Rpc::over(stream, Handlers::none().on(1, |called| async move { Ok(called.payload) }));
    let asking = Arc::new(asking);
    for at_once in [1, 16] {
        let called = call(&asking, at_once).await?;
        println!("| {at_once} at a time | {:.0} | {:.0} | {:.0} |", called.p50_us, called.p99_us, called.rate);
    }
    let mut before = Vec::new();
    let mut after = Vec::new();
    for _ in 0..3 {
        before.push(call(&asking, 1).await?.p99_us);
        // A peer accepts streams and never reads: its channel fills every buffer on the way.
        let stalled = stall(relay).await?;
        after.push(call(&asking, 1).await?.p99_us);
        drop(stalled);
    }
    let (before, after) = (median(&mut before), median(&mut after));
    println!(
        "\np99 of calls beside a channel whose reader stalls: {after:.0} us, {before:.0} us without it: {:.2} times (goal 2, {}).",
        after / before,
        verdict(after / before, 2.0)
    );
    Ok(())
}

/// The latency and rate of a series of calls.
struct CallFigures {
    p50_us: f64,
    p99_us: f64,
    rate: f64,
}

async fn call(asking: &Arc<Rpc>, at_once: usize) -> anyhow::Result<CallFigures> {
    let mut work = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..at_once {
        let asking = asking.clone();
        work.spawn(async move {
            let mut times = Vec::with_capacity(CALLS);
            for _ in 0..CALLS {
                let begun = Instant::now();
                asking.call(1, Value::from("x".repeat(64))).await?;
                times.push(begun.elapsed().as_secs_f64() * 1e6);
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(done) = work.join_next().await {
        times.extend(done??);
    }
    let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
    let p50_us = median(&mut times);
    Ok(CallFigures { p50_us, p99_us: times[times.len() * 99 / 100], rate })
}

/// Opens a channel whose server reads nothing, and writes until every stream is blocked.
async fn stall(relay: &Relay) -> anyhow::Result<(Pair, Vec<channel::Stream>)> {
    let pair = pair(relay.grants(0x100)?, Instance::draw()?).await?;
    let hello = Hello::new("stall")?;
    let mut streams = Vec::new();
    for _ in 0..16 {
        let mut out = pair.client.open(&hello).await?;
        let chunk = vec![0; CHUNK];
        while let Ok(written) = tokio::time::timeout(Duration::from_millis(20), out.write_all(&chunk)).await {
            written?;
        }
        streams.push(out);
    }
    Ok((pair, streams))
}

async fn waves(relay: &Relay, channels: usize, idle: Duration) -> anyhow::Result<()> {
    println!(
        "| wave of {channels} channels, idle {idle:?} | MiB while idle | KiB a channel | MiB after | descriptors after |"
    );
    println!("| --- | ---: | ---: | ---: | ---: |");
    let before = relay.rss_kib()?;
    let (descriptors, mut first) = (procfs::descriptors(relay.child.id())?, None);
    for wave in 1..=3 {
        let mut pairs = Vec::new();
        // Tokens live for a minute, so they are minted shortly before use.
        while pairs.len() < channels {
            pairs.extend(open(mint(relay, 500.min(channels - pairs.len()))?).await?);
        }
        tokio::time::sleep(idle).await;
        let over = pairs.iter().filter(|pair| pair.client.is_over() || pair.server.is_over()).count();
        ensure!(over == 0, "{over} channels ended while they were idle");
        let held = relay.rss_kib()?;
        drop(pairs);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (after, open) = (relay.rss_kib()?, procfs::descriptors(relay.child.id())?);
        println!(
            "| {wave} | {:.1} | {:.1} | {:.1} | {open} |",
            held as f64 / 1024.0,
            held.saturating_sub(before) as f64 / channels as f64,
            after as f64 / 1024.0
        );
        ensure!(open <= descriptors + 2, "{} descriptors are left", open - descriptors);
        let first = *first.get_or_insert(after);
        if after as f64 > first as f64 * 1.05 {
            bail!("after wave {wave} the relay holds {after} KiB, {first} after the first one");
        }
    }
    Ok(())
}
