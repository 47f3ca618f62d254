//! The model of PostgreSQL against a real server: each statement of the product has the same types and gives the same answers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sealway_evidence_simulation::{PostgresModel, known_statements};
use sealway_proto::crypto::default_provider;
use sealway_sessions::store::postgres::{PostgresConfig, migrate};
use sealway_testkit::postgres::Postgres;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Row};

/// Statements whose values depend on the server: its clock, its processes, its settings.
const OWN_VALUES: [&str; 4] = ["ping", "settings", "time", "mark lost"];
/// A promotion as the database shows it: the row's timeline is another one, its transaction the same.
const CHANGE_TIMELINE: &str = "UPDATE sealway.meta SET value = (SELECT system_identifier FROM pg_control_system()) #
    (((('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint + 1) << 32) | (txid_current() & 4294967295))
    WHERE name = 'timeline'";

type Parameters = Vec<Box<dyn ToSql + Sync>>;

macro_rules! parameters {
    ($($value:expr),* $(,)?) => { vec![$(Box::new($value) as Box<dyn ToSql + Sync>),*] };
}

/// A client, and the notifications that it has heard.
struct Peer {
    client: Client,
    heard: mpsc::UnboundedReceiver<String>,
}

fn drive<S, T>(client: Client, mut connection: Connection<S, T>) -> Peer
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (tell, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(note) = message {
                let _ = tell.send(format!("{}: {}", note.channel(), note.payload()));
            }
        }
    });
    Peer { client, heard }
}

/// A real server and the model, each with a client.
struct Pair {
    peers: [Peer; 2],
    statements: BTreeMap<&'static str, &'static str>,
    used: BTreeSet<&'static str>,
}

impl Pair {
    /// Runs a statement on both, and compares types and answers.
    async fn run(&mut self, name: &'static str, parameters: Parameters) {
        let sql = self.statements[name];
        self.used.insert(name);
        let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(Box::as_ref).collect();
        let mut answers = Vec::new();
        for peer in &self.peers {
            let statement = peer.client.prepare(sql).await.unwrap_or_else(|err| panic!("{name}: {err:?}"));
            let columns: Vec<Type> = statement.columns().iter().map(|column| column.type_().clone()).collect();
            let is_silent = columns.is_empty() && name != "find nonce";
            let answer = if is_silent {
                peer.client
                    .execute(&statement, &values)
                    .await
                    .unwrap_or_else(|err| panic!("{name}: {err:?}"))
                    .to_string()
            } else {
                let rows = peer.client.query(&statement, &values).await.unwrap_or_else(|err| panic!("{name}: {err:?}"));
                let mut rows: Vec<String> = rows.iter().map(text).collect();
                // Without an order a server gives rows as it finds them.
                if !sql.contains("ORDER BY") {
                    rows.sort_unstable();
                }
                let values = if OWN_VALUES.contains(&name) { String::new() } else { rows.join("\n") };
                format!("{} rows: {values}", rows.len())
            };
            answers.push((statement.params().to_vec(), columns, answer));
        }
        assert_eq!(answers[0], answers[1], "{name}: PostgreSQL and the model");
    }

    async fn batch(&self, sql: &str) {
        for peer in &self.peers {
            peer.client.batch_execute(sql).await.unwrap_or_else(|err| panic!("{sql}: {err:?}"));
        }
    }

    /// Waits for a notification of each, and compares them.
    async fn hear(&mut self) -> String {
        let mut heard = Vec::new();
        for peer in &mut self.peers {
            let note = tokio::time::timeout(Duration::from_secs(10), peer.heard.recv()).await;
            heard.push(note.expect("a notification in time").expect("a live connection"));
        }
        assert_eq!(heard[0], heard[1]);
        heard.remove(0)
    }
}

fn text(row: &Row) -> String {
    let cell = |at: usize| match *row.columns()[at].type_() {
        Type::BOOL => format!("{:?}", row.get::<_, Option<bool>>(at)),
        Type::INT2 => format!("{:?}", row.get::<_, Option<i16>>(at)),
        Type::INT4 => format!("{:?}", row.get::<_, Option<i32>>(at)),
        Type::INT8 => format!("{:?}", row.get::<_, Option<i64>>(at)),
        Type::TEXT => format!("{:?}", row.get::<_, Option<String>>(at)),
        Type::BYTEA => format!("{:?}", row.get::<_, Option<Vec<u8>>>(at)),
        ref other => panic!("a column of type {other}"),
    };
    (0..row.len()).map(cell).collect::<Vec<_>>().join(", ")
}

async fn to_model(model: &PostgresModel) -> Peer {
    let mut config = Config::new();
    config.user("postgres").ssl_mode(SslMode::Disable);
    let (client, connection) = config.connect_raw(model.connect(), NoTls).await.unwrap();
    drive(client, connection)
}

async fn to_server(config: &Config) -> Peer {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    drive(client, connection)
}

async fn pair(model: &PostgresModel, server: &Config) -> Pair {
    let statements = known_statements().into_iter().collect();
    Pair { peers: [to_server(server).await, to_model(model).await], statements, used: BTreeSet::new() }
}

fn session(ids: &[&str], lineages: &[Option<&str>], expires_ms: &[i64]) -> Parameters {
    fn own(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }
    let all = |text: Option<&str>| vec![text.map(str::to_owned); ids.len()];
    parameters![
        own(ids),
        vec![3_i16; ids.len()],
        all(Some("client")),
        all(None),
        vec![5_i64; ids.len()],
        expires_ms.to_vec(),
        all(Some("k1")),
        vec![vec![7_u8; 60]; ids.len()],
        all(None),
        all(Some("bearer")),
        lineages.iter().map(|lineage| lineage.map(str::to_owned)).collect::<Vec<_>>(),
    ]
}

fn nonces(keys: &[&[u8]], stamp_ms: i64, expires_ms: i64) -> Parameters {
    let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
    let (len, sealed) = (keys.len(), keys.iter().map(|key| key[0] % 2 == 0).collect::<Vec<_>>());
    parameters![keys, sealed, vec![stamp_ms; len], vec![expires_ms; len]]
}

async fn sessions_alike(pair: &mut Pair) {
    pair.run("insert sessions", session(&["a", "b"], &[None, Some("a")], &[900, 800])).await;
    pair.run("insert sessions", session(&["B", "a", "c"], &[None, None, Some("x")], &[700, 1, 700])).await;
    for id in ["a", "b", "B", "c", "none"] {
        pair.run("find session", parameters![id]).await;
    }
    pair.run("revoke session", parameters!["c", 50_i64]).await;
    assert_eq!(pair.hear().await, "sealway_revoked: c");
    pair.run("revoke session", parameters!["c", 60_i64]).await;
    pair.run("revoke session", parameters!["none", 60_i64]).await;
    // A chain with its first session, one without, and one that is over already.
    for (root, until_ms) in [("a", 950_i64), ("y", 600), ("y", 500), ("c", 990)] {
        pair.run("end chain", parameters![root, 70_i64, until_ms]).await;
        assert_eq!(pair.hear().await, format!("sealway_revoked: {root}"));
    }
    for id in ["a", "b", "B", "c", "y", "none"] {
        pair.run("find session", parameters![id]).await;
        pair.run("end of revoked session", parameters![id]).await;
    }
    pair.run("insert sessions", session(&["y", "z"], &[None, Some("y")], &[990, 990])).await;
    pair.run("find session", parameters!["z"]).await;
    pair.run("revoked sessions", parameters![0_i64, 0_i64, "", 10_000_i64]).await;
    pair.run("revoked sessions", parameters![0_i64, 600_i64, "y", 1_i64]).await;
    pair.run("revoked sessions", parameters![950_i64, 0_i64, "", 10_000_i64]).await;
}

async fn nonces_alike(pair: &mut Pair) {
    pair.run("insert nonces", nonces(&[b"1", b"22", b"22", b"4"], 100, 1000)).await;
    pair.run("insert nonces", nonces(&[b"4", b"5"], 300, 1100)).await;
    for key in [b"4".as_slice(), b"6"] {
        pair.run("find nonce", parameters![key]).await;
    }
    pair.run("nonces after", parameters![99_i64, 500_i64, b"1".as_slice(), 10_i64]).await;
    pair.run("nonces after", parameters![100_i64, 1050_i64, b"".as_slice(), 10_i64]).await;
    pair.run("nonces after", parameters![0_i64, 0_i64, b"".as_slice(), 2_i64]).await;
}

async fn sweeps_alike(pair: &mut Pair) {
    pair.run("lock", parameters![8_315_159_405_496_727_810_i64]).await;
    pair.run("time", parameters![]).await;
    pair.batch("SET statement_timeout = 30000").await;
    pair.run("mark forgotten", parameters![999_i64]).await;
    pair.run("mark forgotten", parameters![1050_i64]).await;
    pair.run("forget nonces", parameters![1000_i64, 2_i64]).await;
    pair.run("nonces after", parameters![0_i64, 0_i64, b"".as_slice(), 10_i64]).await;
    pair.run("count", parameters![2_i64, 100_i64]).await;
    pair.run("purge sessions", parameters![700_i64, 2_i64]).await;
    pair.run("purge sessions", parameters![700_i64, 2_i64]).await;
    pair.run("count", parameters![100_i64, 100_i64]).await;
    pair.run("keep counts", parameters![vec![1_i64, 2, 3, 4, 5]]).await;
    pair.run("counts", parameters![]).await;
    pair.batch("SELECT pg_advisory_unlock(8315159405496727810); RESET statement_timeout").await;
    pair.run("rows to rewrap", parameters!["k1", 0_i64, "", 10_i64]).await;
    pair.run("rows to rewrap", parameters!["k2", 0_i64, "", 10_i64]).await;
    pair.run("rewrap", parameters![vec!["b", "none"], vec!["k2", "k2"], vec![vec![1_u8], vec![2]]]).await;
    pair.run("rows to rewrap", parameters!["k1", 0_i64, "a", 10_i64]).await;
}

/// The marks of a database that was used before, and of one whose standby was promoted.
async fn marks_alike(pair: &mut Pair, model: &PostgresModel) {
    pair.run("marks", parameters![]).await;
    pair.run("mark lost", parameters![5000_i64, false]).await;
    pair.run("mark lost", parameters![5000_i64, false]).await;
    pair.run("marks", parameters![]).await;
    for is_lossless in [true, false] {
        pair.peers[0].client.batch_execute(CHANGE_TIMELINE).await.unwrap();
        model.change_timeline();
        let lost = |row: &Row| row.get::<_, i64>(0);
        let sql = pair.statements["mark lost"];
        let mut ends = Vec::new();
        for peer in &pair.peers {
            let rows = peer.client.query(sql, &[&5000_i64, &is_lossless]).await.unwrap();
            ends.push(rows.first().map(lost));
        }
        assert_eq!(ends.iter().map(Option::is_some).collect::<Vec<_>>(), [!is_lossless; 2]);
        pair.run("mark lost", parameters![5000_i64, is_lossless]).await;
    }
}

/// No other client sees the writes of a transaction before its commit, and locks are of one client.
async fn transactions_alike(pair: &mut Pair, other: &mut Pair) {
    let lock = || parameters![8_315_159_405_496_727_810_i64];
    pair.run("lock", lock()).await;
    other.run("lock", lock()).await;
    for (end, key) in [("ROLLBACK", "k1"), ("COMMIT", "k2")] {
        pair.batch("START TRANSACTION").await;
        pair.run("insert mark of key", parameters![key, [9_u8].as_slice()]).await;
        pair.run("insert mark of key", parameters![key, [8_u8].as_slice()]).await;
        pair.run("marks of keys", parameters![]).await;
        other.run("marks of keys", parameters![]).await;
        pair.batch(end).await;
        pair.run("marks of keys", parameters![]).await;
        other.run("marks of keys", parameters![]).await;
    }
    let count = other.peers[1].client.query(other.statements["marks of keys"], &[]).await.unwrap().len();
    assert_eq!(count, 1, "one transaction of two was committed");
}

#[tokio::test]
async fn the_model_answers_each_statement_as_postgresql_does() {
    let url = Postgres::shared().create_database().unwrap();
    let config = PostgresConfig::new(&url).unwrap();
    migrate(default_provider(), &config).await.unwrap();
    let model = PostgresModel::start();
    let (mut first, mut second) = (pair(&model, &config.server).await, pair(&model, &config.server).await);
    first.batch("LISTEN sealway_revoked").await;
    for name in ["encoding", "schema", "migrations", "ping", "settings", "counts"] {
        first.run(name, parameters![]).await;
    }
    sessions_alike(&mut first).await;
    nonces_alike(&mut first).await;
    sweeps_alike(&mut first).await;
    marks_alike(&mut first, &model).await;
    transactions_alike(&mut first, &mut second).await;
    let all: BTreeSet<_> = first.statements.keys().copied().collect();
    assert_eq!(first.used, all, "each statement that the model knows was run");
    let changed = format!("{} LIMIT 1", first.statements["marks of keys"]);
    assert!(first.peers[0].client.prepare(&changed).await.is_ok());
    assert!(first.peers[1].client.prepare(&changed).await.is_err(), "the model takes no statement for another");
}
