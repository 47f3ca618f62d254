//! The memory and disk of sessions and nonces, and the bytes that a sealed request adds: the figures of
//! docs/guides/capacity.md. Each store is opened in this process, with the product's allocator and real servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use sealway_proto::crypto::default_provider;
use sealway_proto::session::native::Suite;
use sealway_proto::wire::Wire;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::Store;
use sealway_testkit::native_client::{self, Link, NativeSession, key_set};
use sealway_testkit::postgres::Postgres;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::redis::Redis;
use sealway_testkit::store_contract::claims;
use sealway_testkit::wire_client::{PURCHASE, WireSession};

use crate::procfs;
use crate::servers::sealway_beside;
use crate::stores::{new_session, sessions_config};

/// Number of concurrent writers: PostgreSQL groups their rows.
const WRITERS: usize = 100;
/// Bytes of the body whose overhead is measured.
const BODY: usize = 4096;

/// Extent and subject of the measurement.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Path of the sealway binary [default: beside this one]
    #[arg(long)]
    sealway: Option<PathBuf>,
    /// Sessions, and as many nonces, in each store; fewer than `sessions.cache.sessions_max`, or the cache does not hold all
    #[arg(long, default_value_t = 80_000)]
    count: usize,
    /// Number of the store to measure, without the others
    #[arg(long, hide = true)]
    only: Option<usize>,
}

/// Names of the stores, and whether they need PostgreSQL and Redis.
const STORES: [(&str, bool, bool); 5] = [
    ("memory:", false, false),
    ("file:", false, false),
    ("postgres:", true, false),
    ("redis:", false, true),
    ("postgres: + redis:", true, true),
];

/// Bytes in use at one moment, by place.
#[derive(Clone, Copy)]
struct Reading {
    process: u64,
    redis: u64,
    sessions: u64,
    nonces: u64,
    file: u64,
}

/// The servers of a store, and the folder of its files.
struct Parts {
    postgres: Option<Postgres>,
    redis: Option<Redis>,
    folder: tempfile::TempDir,
}

impl Parts {
    fn read(&self) -> anyhow::Result<Reading> {
        let size = |table: &str| match &self.postgres {
            Some(postgres) => {
                let sql = format!("SELECT pg_total_relation_size('sealway.{table}')");
                Ok::<u64, anyhow::Error>(postgres.psql(&sql)?.parse()?)
            }
            None => Ok(0),
        };
        let redis = match &self.redis {
            Some(redis) => {
                let info = redis.cli(&["INFO", "memory"])?;
                let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).context("no used_memory")?;
                used.trim().parse()?
            }
            None => 0,
        };
        Ok(Reading {
            process: procfs::memory_kib(std::process::id(), "VmRSS")? * 1024,
            redis,
            sessions: size("sessions")?,
            nonces: size("nonces")?,
            file: std::fs::metadata(self.folder.path().join("sessions.redb")).map_or(0, |file| file.len()),
        })
    }
}

/// Measures each store and the overhead, and prints tables.
///
/// # Errors
/// If a server is missing, or a session or a nonce is not accepted.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    if let Some(index) = options.only {
        let (name, has_postgres, has_redis) = *STORES.get(index).context("no such store")?;
        return measure(name, has_postgres, has_redis, options.count);
    }
    println!("## {} sessions and as many nonces in each store: bytes each\n", options.count);
    println!("| store | what | process | Redis `used_memory` | PostgreSQL with indexes | file |");
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    for (index, (name, ..)) in STORES.iter().enumerate() {
        // A process each: what one store has freed must not be what the next one takes.
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command.args(["capacity", "--only", &index.to_string(), "--count", &options.count.to_string()]);
        ensure!(command.status()?.success(), "{name} failed");
    }
    println!();
    let sealway = sealway_beside(options.sealway.clone())?;
    overhead(sealway.to_str().context("the path of sealway is not UTF-8")?)
}

/// Fills a store with sessions and with nonces, and prints what each of them took.
fn measure(name: &str, has_postgres: bool, has_redis: bool, count: usize) -> anyhow::Result<()> {
    let parts = Parts {
        postgres: has_postgres.then(Postgres::start).transpose()?,
        redis: has_redis.then(Redis::start).transpose()?,
        folder: tempfile::tempdir()?,
    };
    KeyRing::generate(default_provider(), &parts.folder.path().join("sessions.kek"))?;
    let urls = [parts.postgres.as_ref().map(Postgres::url), parts.redis.as_ref().map(Redis::url)];
    let url = match name {
        "memory:" => name.to_owned(),
        "file:" => format!("file:{}", parts.folder.path().join("sessions.redb").display()),
        _ => urls.into_iter().flatten().collect::<Vec<_>>().join(" + "),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let config = sessions_config(parts.folder.path(), &url)?;
    let authority = runtime.block_on(config.start(default_provider(), clock.clone()))?;
    let store = authority.store().clone();
    // With Redis alone, nothing is accepted for a window after the start.
    while !store.status().up {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    runtime.block_on(fill(&store, &clock, count / 20, true))?;
    runtime.block_on(fill(&store, &clock, count / 20, false))?;
    let mut before = parts.read()?;
    for (what, is_session) in [("session", true), ("nonce", false)] {
        runtime.block_on(fill(&store, &clock, count, is_session))?;
        // Copies for Redis are written later.
        std::thread::sleep(std::time::Duration::from_secs(2));
        let after = parts.read()?;
        let each = |read: fn(&Reading) -> u64| match read(&after).saturating_sub(read(&before)) / count as u64 {
            0 => "–".to_owned(),
            each => each.to_string(),
        };
        let (process, redis, file) = (each(|all| all.process), each(|all| all.redis), each(|all| all.file));
        let postgres = if is_session { each(|all| all.sessions) } else { each(|all| all.nonces) };
        println!("| `{name}` | {what} | {process} | {redis} | {postgres} | {file} |");
        before = after;
    }
    Ok(())
}

/// Puts sessions into a store, or reserves nonces, by several writers.
async fn fill(store: &Arc<dyn Store>, clock: &Arc<dyn Clock>, count: usize, is_session: bool) -> anyhow::Result<()> {
    let writers = (0..WRITERS).map(|_| {
        let (store, clock) = (store.clone(), clock.clone());
        tokio::spawn(async move {
            for _ in 0..count / WRITERS {
                if is_session {
                    store.put(new_session(&clock)?).await?;
                } else {
                    let (nonce, now_ms) = (sealway_testkit::wire_client::nonce(), clock.now_ms());
                    let claim = *claims::init(Some("bench"), &nonce, now_ms, now_ms).claim();
                    store.reserve(&claim).await?;
                }
            }
            anyhow::Ok(())
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await??;
    }
    Ok(())
}

/// Starts a gateway whose routes take sealed and plain requests.
fn start(sealway: &str, folder: &Path) -> anyhow::Result<Server> {
    let made = std::process::Command::new(sealway)
        .args(["identity", "generate", "sessions.identity"])
        .current_dir(folder)
        .output()?;
    ensure!(made.status.success(), "sealway identity: {}", String::from_utf8_lossy(&made.stderr));
    let config = "
listeners: [{ address: '127.0.0.1:0' }]
routes:
  - { match: { path_prefix: [/session/, /v3/], path: [/ready, /.well-known/sealway-keys] }, sessions: {} }
  - { match: {}, sealed: optional, upstream: shop }
upstreams: { shop: { servers: ['demo:'] } }
sessions: { identity: { key_file: sessions.identity }, store: 'memory:' }
";
    Launch::new(sealway, config).folder(folder).start()
}

/// Returns the bytes of an answer on the connection.
fn answer_len(answer: &Answer) -> usize {
    let headers: usize = answer.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    "HTTP/1.1 200 OK\r\n\r\n".len() + headers + answer.body.len()
}

/// Prints how many bytes a sealed request and its answer have beyond the plain ones, over HTTP/1.1.
fn overhead(sealway: &str) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = start(sealway, folder.path())?;
    let head = r#"{"schemeCode":"AEF","amount":5000,"note":""#;
    let body = format!("{head}{}\"}}", "x".repeat(BODY - head.len() - 2));
    let request = Request::post(PURCHASE, body.as_str()).header("Content-Type", "application/json");
    let plain = (request.bytes().len(), answer_len(&request.send(server.address())?));
    println!("## A request of {BODY} bytes and its answer over HTTP/1.1: bytes beyond the plain ones\n");
    println!("| wire | request | answer |\n| --- | ---: | ---: |");
    let print = |wire: u8, request: &Request, answer: &Answer| {
        ensure!(answer.status == 200, "wire {wire}: {}", answer.text());
        println!("| {wire} | {} | {} |", request.bytes().len() - plain.0, answer_len(answer) as i64 - plain.1 as i64);
        Ok(())
    };
    for wire in [Wire::V1, Wire::V2] {
        let agreed = WireSession::open(server.address(), wire, "/session/init")?;
        let (request, _) = agreed.seal(PURCHASE, body.as_bytes());
        print(wire.number(), &request, &request.send(server.address())?)?;
    }
    let (trusted, mut link) = (key_set(server.address())?, Link::new(server.address()));
    let agreed = NativeSession::open(&mut link, &trusted, Suite::ALL[0])?;
    let inner = [("content-type", "application/json")];
    let (request, _) = agreed.seal_as("POST", PURCHASE, &inner, &[body.as_bytes()], agreed.stamp_ms());
    print(3, &request, &link.send(&request)?)?;
    let init = native_client::init(native_client::offer(Suite::ALL[0], &[])).1;
    let answer = link.send(&init)?;
    println!("\nAn init of wire 3 has {} bytes, its answer {}.", init.bytes().len(), answer_len(&answer));
    Ok(())
}
