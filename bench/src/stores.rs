//! Stores of several servers: rows committed beside pgbench, whole inits, sealed calls with and without Redis.
//!
//! PostgreSQL and Redis run on this machine, for the benchmark alone, with their defaults: every commit is synchronous.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sealway_proto::crypto::default_provider;
use sealway_proto::session::{Auth, Session, SessionKey, SessionRecord};
use sealway_proto::wire::{SessionId, Wire};
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::config::{Problems, load_yaml};
use sealway_sessions::config::{RawCompat, RawReplay, RawSessions, SessionsConfig, resolve};
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::Store;
use sealway_testkit::daemon::free_port;
use sealway_testkit::postgres::Postgres;
use sealway_testkit::redis::Redis;

use crate::load::{Kind, drive_with};
use crate::servers::{SERVER_CORE, Server, sealway_beside};
use crate::table::{median, us, verdict};

const WRITERS: usize = 100;

/// A table with the same columns and indexes as the store's table, for pgbench.
const BESIDE: &str = "CREATE SCHEMA beside; CREATE TABLE beside.sessions (LIKE sealway.sessions INCLUDING ALL)";

/// Runs all measurements of the stores and prints them.
pub(crate) fn run(sealway: Option<PathBuf>, seconds: f64, rounds: usize, rows_only: bool) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    KeyRing::generate(default_provider(), &folder.path().join("sessions.kek"))?;
    rows(folder.path(), seconds, rounds)?;
    if rows_only {
        return Ok(());
    }
    over_http(folder.path(), sealway, seconds, rounds)
}

/// Measures rows per second and PostgreSQL's CPU time for each row, for the store and for pgbench.
fn rows(folder: &Path, seconds: f64, rounds: usize) -> anyhow::Result<()> {
    let postgres = Postgres::start()?;
    let url = postgres.url();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let config = sessions_config(folder, &url)?;
    let store = runtime.block_on(config.open_postgres(default_provider(), &clock))?;
    postgres.psql(BESIDE)?;
    let script = folder.join("insert.sql");
    std::fs::write(&script, insert_script(&postgres, &runtime, store.as_ref(), &clock)?)?;
    // Rows per second, and CPU time of PostgreSQL for each row in nanoseconds.
    let (mut ours, mut theirs) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..=rounds {
        for is_ours in [true, false] {
            postgres.psql("CHECKPOINT")?;
            let (cpu, start) = (postgres.cpu()?, Instant::now());
            let rows = if is_ours {
                runtime.block_on(write_rows(store.clone(), &clock, seconds))?
            } else {
                pgbench(&url, &script, seconds)?
            };
            let elapsed = start.elapsed().as_secs_f64();
            ensure!(rows > 0, "no row was written");
            if round > 0 {
                let figures = if is_ours { &mut ours } else { &mut theirs };
                figures[0].push(rows as f64 / elapsed);
                figures[1].push((postgres.cpu()? - cpu).as_nanos() as f64 / rows as f64);
            }
        }
    }
    let [our_rate, our_cpu] = ours.map(|mut values| median(&mut values));
    let [their_rate, their_cpu] = theirs.map(|mut values| median(&mut values));
    println!(
        "## Store layer: {WRITERS} writers, synchronous commit, beside pgbench's single-row inserts into a table of the same \
         columns and indexes (median of {rounds} rounds of {seconds} s that take turns)\n"
    );
    println!("| what | rows/s | PostgreSQL CPU µs a row |\n| --- | ---: | ---: |");
    println!("| pgbench -M prepared | {their_rate:.0} | {} |", us(their_cpu));
    println!("| store `postgres` | {our_rate:.0} | {} |", us(our_cpu));
    let (rate, cpu) = (our_rate / their_rate, our_cpu / their_cpu);
    println!("| ratio | {rate:.2} (goal 3, {}) | {cpu:.2} (goal 0.5, {}) |\n", verdict(3.0, rate), verdict(cpu, 0.5));
    Ok(())
}

/// Returns the settings of a store that is opened in this process.
pub(crate) fn sessions_config(folder: &Path, url: &str) -> anyhow::Result<SessionsConfig> {
    let kek = folder.join("sessions.kek");
    let migrate = if url.contains("postgres:") { "postgres: { migrate: true }\n" } else { "" };
    let keys = if url == "memory:" { String::new() } else { format!("kek_file: {}\n", kek.display()) };
    let raw: RawSessions = load_yaml(&format!("store: \"{url}\"\nsessions_max: 100000000\n{keys}{migrate}"))?;
    let mut problems = Problems::default();
    let config = resolve(&raw, &RawReplay::default(), &RawCompat::default(), None, &mut problems);
    problems.into_result()?;
    Ok(config)
}

/// A session whose id is cheap to generate: the benchmark measures the store and not the generator.
pub(crate) fn new_session(clock: &Arc<dyn Clock>) -> anyhow::Result<Arc<Session>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // SplitMix64 spreads the ids over the whole index, as random ids are.
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let now_ms = clock.now_ms();
    let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(now_ms << 20);
    let (high, low) = (mix(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)), mix(number));
    let mut id = [0; 16];
    id[..8].copy_from_slice(&high.to_be_bytes());
    id[8..].copy_from_slice(&low.to_be_bytes());
    let mut key = [7; 32];
    key[..16].copy_from_slice(&id);
    let record = SessionRecord {
        id: SessionId::from_random(&id, false),
        wire: Wire::V2,
        client_id: Some("bench-client".into()),
        subject: None,
        tenant: None,
        auth: Auth::None,
        lineage: None,
        created_ms: now_ms,
        expires_ms: now_ms + 1_800_000,
        key: SessionKey::from_bytes(key),
    };
    Ok(Arc::new(Session::new(default_provider(), record)?))
}

/// A row as the store writes it, with a new id: the row that pgbench inserts.
fn insert_script(
    postgres: &Postgres,
    runtime: &tokio::runtime::Runtime,
    store: &dyn Store,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<String> {
    runtime.block_on(store.put(new_session(clock)?))?;
    let columns = "SELECT string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position) FROM \
                   information_schema.columns WHERE table_schema = 'sealway' AND table_name = 'sessions'";
    let columns = postgres.psql(columns)?;
    let columns: Vec<&str> = columns.trim().split(", ").collect();
    let mut values = Vec::new();
    for column in &columns {
        let value = postgres.psql(&format!("SELECT quote_nullable({column}) FROM sealway.sessions LIMIT 1"))?;
        values.push(value.trim().to_owned());
    }
    let id = columns.iter().position(|column| *column == "id").context("the table has no id")?;
    values[id] = "'S-' || lpad(to_hex(:a::bigint), 16, '0') || lpad(to_hex(:b::bigint), 16, '0')".into();
    Ok(format!(
        "\\set a random(1, 9000000000000000000)\n\\set b random(1, 9000000000000000000)\nINSERT INTO beside.sessions ({}) VALUES \
         ({});\n",
        columns.join(", "),
        values.join(", ")
    ))
}

async fn write_rows(store: Arc<dyn Store>, clock: &Arc<dyn Clock>, seconds: f64) -> anyhow::Result<u64> {
    let (start, rows) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (store, clock, rows) = (store.clone(), clock.clone(), rows.clone());
            tokio::spawn(async move {
                while start.elapsed().as_secs_f64() < seconds {
                    store.put(new_session(&clock)?).await?;
                    rows.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(rows.load(Ordering::Relaxed))
}

fn pgbench(url: &str, script: &Path, seconds: f64) -> anyhow::Result<u64> {
    let output = std::process::Command::new("pgbench")
        .args(["-n", "-M", "prepared", "-c", &WRITERS.to_string(), "-j", "2", "-T", &format!("{}", seconds.ceil())])
        .arg("-f")
        .arg(script)
        .arg(url)
        .output()
        .context("pgbench is missing: apt install postgresql")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "pgbench: {}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find(|line| line.starts_with("number of transactions actually processed"));
    let count = line.and_then(|line| line.rsplit(' ').next()).context("pgbench printed no count")?;
    Ok(count.parse()?)
}

struct Case {
    name: String,
    server: usize,
    kind: Kind,
    connections: usize,
    cpu_ns: Vec<f64>,
    redis_ns: Vec<f64>,
    postgres_ns: Vec<f64>,
    rate: Vec<f64>,
}

/// Measures whole inits and sealed calls with a real `sealway serve`.
fn over_http(folder: &Path, sealway: Option<PathBuf>, seconds: f64, rounds: usize) -> anyhow::Result<()> {
    let sealway = sealway_beside(sealway)?;
    crate::http::pin_to_load_core()?;
    // Started here, so that they run on the load's core: the server has its CPU to itself.
    let (postgres, redis) = (Postgres::start()?, Redis::start()?);
    let mut servers = Vec::new();
    for (name, store) in [("memory", "memory:".to_owned()), ("tiered", format!("{} + {}", postgres.url(), redis.url()))]
    {
        let port = free_port()?;
        let path = folder.join(format!("{name}.yaml"));
        let settings = if name == "tiered" { "postgres: { migrate: true }, kek_file: sessions.kek, " } else { "" };
        let text = format!(
            "listeners: [{{ address: '127.0.0.1:{port}' }}]\nroutes:\n  - {{ match: {{ path_prefix: /session/, path: /ready }}, \
             sessions: {{}} }}\n  - {{ match: {{}}, sealed: required, upstream: shop }}\nupstreams: {{ shop: {{ servers: \
             ['demo:'] }} }}\nsessions: {{ {settings}sessions_max: 10000000, store: \"{store}\" }}\ntelemetry: {{ log_level: \
             warn }}\n"
        );
        std::fs::write(&path, text)?;
        let config = path.display().to_string();
        servers.push(Server::start(&sealway, &["serve", "--config", &config], port, SERVER_CORE)?);
    }
    for server in &servers {
        server.wait_until_ready()?;
    }
    let case = |name: &str, server, kind, connections| Case {
        name: name.to_owned(),
        server,
        kind,
        connections,
        cpu_ns: Vec::new(),
        redis_ns: Vec::new(),
        postgres_ns: Vec::new(),
        rate: Vec::new(),
    };
    let mut cases = vec![
        case("init, memory, 100 clients", 0, Kind::Init, 100),
        case("init, PostgreSQL + Redis, 1 client", 1, Kind::Init, 1),
        case("init, PostgreSQL + Redis, 10 clients", 1, Kind::Init, 10),
        case("init, PostgreSQL + Redis, 100 clients", 1, Kind::Init, 100),
        case("sealed call 1 KiB, memory, 64 clients", 0, Kind::Call(1024), 64),
        case("sealed call 1 KiB, PostgreSQL + Redis, 64 clients", 1, Kind::Call(1024), 64),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for round in 0..=rounds {
        for case in &mut cases {
            let server = &servers[case.server];
            let time = Duration::from_secs_f64(if round == 0 { 0.5 } else { seconds });
            let before = (server.cpu_ns()?, redis.cpu_time()?, postgres.cpu()?);
            let local = tokio::task::LocalSet::new();
            let outcome = local
                .block_on(&runtime, drive_with(server.port, case.kind, case.connections, time))
                .with_context(|| case.name.clone())?;
            let count = outcome.requests as f64;
            ensure!(count > 0.0, "{}: no request was answered", case.name);
            // The first round warms up.
            if round > 0 {
                case.cpu_ns.push((server.cpu_ns()? - before.0) / count);
                case.redis_ns.push((redis.cpu_time()? - before.1).as_nanos() as f64 / count);
                case.postgres_ns.push((postgres.cpu()? - before.2).as_nanos() as f64 / count);
                case.rate.push(count / outcome.elapsed.as_secs_f64());
            }
        }
    }
    report(&mut cases, seconds, rounds);
    Ok(())
}

fn report(cases: &mut [Case], seconds: f64, rounds: usize) {
    println!(
        "## Over HTTP/1.1: server on one core; load, PostgreSQL and Redis on the other (CPU per request, median of {rounds} \
         rounds of {seconds} s that take turns)\n"
    );
    println!("| case | server CPU µs | Redis CPU µs | PostgreSQL CPU µs | requests/s |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for case in cases.iter_mut() {
        let [server, redis, postgres] =
            [&mut case.cpu_ns, &mut case.redis_ns, &mut case.postgres_ns].map(|values| us(median(values)));
        println!("| {} | {server} | {redis} | {postgres} | {:.0} |", case.name, median(&mut case.rate));
    }
    if let [.., without, with] = cases {
        let extra = (median(&mut with.cpu_ns) - median(&mut without.cpu_ns)) / 1000.0;
        println!(
            "\nRedis in the path costs the server {extra:.2} µs a sealed call (goal 15, {}).\n",
            verdict(extra, 15.0)
        );
    }
}
