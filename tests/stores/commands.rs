//! `sealway migrate`, `sealway kek`, and the old servers' environment, on a real PostgreSQL and Redis.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sealway_proto::wire::Wire;
use sealway_testkit::postgres::Postgres;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::redis::Redis;
use sealway_testkit::wire_client::{ORDER, PURCHASE, WireSession};

use crate::BINARY;
use crate::shared::wait_until;

const SERVE: &str = "
listeners: [{ address: '127.0.0.1:0' }]
routes:
  - { match: { path_prefix: [/session/, /v1/session/], path: [/health, /ready] }, sessions: {} }
  - { match: {}, sealed: required, upstream: shop }
upstreams: { shop: { servers: ['demo:'] } }
";

fn run(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).env_clear().stdin(Stdio::null()).output().unwrap()
}

/// Runs a command that must succeed, and returns its output.
fn says(args: &[&str]) -> String {
    let output = run(args);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// A folder with a configuration and a key file.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(store: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = sealway_proto::wire::base64::encode(&sealway_testkit::wire_client::random::<32>());
        std::fs::write(folder.path().join("sessions.kek"), format!("kek-1 {key}\n")).unwrap();
        let config = format!("{SERVE}\nsessions: {{ store: '{store}', kek_file: sessions.kek{more} }}\n");
        std::fs::write(folder.path().join("fleet.yaml"), config).unwrap();
        Place { folder }
    }

    fn config(&self) -> String {
        self.folder.path().join("fleet.yaml").display().to_string()
    }

    fn keys(&self) -> PathBuf {
        self.folder.path().join("sessions.kek")
    }

    fn serve(&self) -> Server {
        let config = std::fs::read_to_string(self.config()).unwrap();
        Launch::new(BINARY, &config).folder(self.folder.path()).start().unwrap()
    }
}

fn grants(server: &Server) -> bool {
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init");
    agreed.is_ok_and(|agreed| agreed.seal(PURCHASE, ORDER).0.send(server.address()).unwrap().status == 200)
}

#[test]
fn migrate_creates_the_tables_once_and_a_start_without_them_names_the_remedy() {
    let postgres = Postgres::start().unwrap();
    let place = Place::new(&postgres.url(), "");
    let refused = Launch::new(BINARY, &std::fs::read_to_string(place.config()).unwrap()).folder(place.folder.path());
    let refused = refused.start().unwrap_err().to_string();
    assert!(refused.contains("sealway migrate") && refused.contains("sessions.store"), "{refused}");
    postgres
        .psql("CREATE TABLE public.sessions (id text, secret text); INSERT INTO public.sessions VALUES ('a', 'b')")
        .unwrap();
    let said = says(&["migrate", "--config", &place.config()]);
    assert!(said.contains("applied 0001") && said.contains("public.sessions"), "{said}");
    let said = says(&["migrate", "--config", &place.config()]);
    assert!(said.contains("nothing to do"), "{said}");
    assert_eq!(postgres.psql("SELECT id || secret FROM public.sessions").unwrap().trim(), "ab");
    let server = place.serve();
    wait_until("it grants", || grants(&server));
}

#[test]
fn commands_name_the_server_that_refuses_them_and_no_password() {
    let postgres = sealway_testkit::postgres::Launch::default().password("right-p4ssword").start().unwrap();
    let url = postgres.url().replace("right-p4ssword", "wrong-p4ssword");
    let place = Place::new(&url, "");
    for args in [["migrate", "--config"].as_slice(), &["kek", "status", "--config"], &["serve", "--config"]] {
        let output = run(&[args, &[place.config().as_str()]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("password"), "{args:?}: {said}");
        assert!(!said.contains("wrong-p4ssword"), "{args:?}: {said}");
    }
    let printed = says(&["config", "print", &place.config()]);
    assert!(printed.contains("postgres:***@") && !printed.contains("p4ssword"), "{printed}");
    // A file contains the password instead.
    std::fs::write(place.folder.path().join("pg.password"), "right-p4ssword\n").unwrap();
    let bare = postgres.url().replace(":right-p4ssword", "");
    let config = format!(
        "{SERVE}\nsessions: {{ store: '{bare}', kek_file: sessions.kek, postgres: {{ password_file: pg.password }} }}\n"
    );
    std::fs::write(place.folder.path().join("fleet.yaml"), config).unwrap();
    assert!(says(&["migrate", "--config", &place.config()]).contains("applied 0001"));
}

/// Returns the number of live sessions that `kek status` counts under a key.
fn count(place: &Place, id: &str) -> u64 {
    let said = says(&["kek", "status", "--config", &place.config()]);
    // With the space: another id, such as kek-1de52e2c, may have the same beginning.
    let of_key = format!("{id} ");
    let line = said.lines().find(|line| line.starts_with(&of_key)).unwrap_or_else(|| panic!("{id}: {said}"));
    line.split(", ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[test]
fn a_key_is_rotated_while_gateways_serve_and_the_old_one_is_taken_out() {
    let (postgres, redis) = (Postgres::start().unwrap(), Redis::start().unwrap());
    let place = Place::new(&format!("{} + {}", postgres.url(), redis.url()), ", postgres: { migrate: true }");
    let servers = [place.serve(), place.serve()];
    wait_until("they grant", || servers.iter().all(grants));
    let agreed: Vec<_> =
        (0..30).map(|n| WireSession::open(servers[n % 2].address(), Wire::V2, "/session/init").unwrap()).collect();
    let call = |agreed: &WireSession, at: &Server| agreed.seal(PURCHASE, ORDER).0.send(at.address()).unwrap().status;
    let before = count(&place, "kek-1");
    assert!(before >= 30, "{before}");

    let said = says(&["kek", "add", "--config", &place.config()]);
    let id = said.split(' ').next().unwrap().to_owned();
    assert_eq!((count(&place, "kek-1"), count(&place, &id)), (before, 0));
    for server in &servers {
        wait_until("it has read the file", || server.log().iter().any(|line| line.contains("key file reloaded")));
    }
    let said = says(&["kek", "rotate", "--config", &place.config(), "--to", &id]);
    assert!(said.contains("rewrapped"), "{said}");
    assert_eq!(count(&place, "kek-1"), 0);
    assert!(count(&place, &id) >= before);
    for (n, agreed) in agreed.iter().enumerate() {
        assert_eq!(call(agreed, &servers[(n + 1) % 2]), 200);
    }
    // The old key is removed; a gateway that starts now has only the new one.
    for server in &servers {
        wait_until("it wraps under the new key", || {
            server
                .log()
                .iter()
                .any(|line| line.contains("key file reloaded") && line.contains(&format!("\"active\":\"{id}\"")))
        });
    }
    let said = says(&["kek", "rotate", "--config", &place.config()]);
    assert!(said.contains("all that live are under"), "{said}");
    take_out(&place.keys(), "kek-1");
    let late = place.serve();
    wait_until("it grants", || grants(&late));
    for agreed in &agreed {
        assert_eq!(call(agreed, &late), 200);
    }
}

fn take_out(file: &Path, id: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    let rest: Vec<&str> = text.lines().filter(|line| !line.starts_with(&format!("{id} "))).collect();
    assert_eq!(rest.len(), text.lines().count() - 1);
    std::fs::write(file, rest.join("\n") + "\n").unwrap();
}

#[test]
fn the_embedded_stores_key_is_rotated_by_the_process_that_has_it_open() {
    let place = Place::new("file:sessions.redb", "");
    let mut server = place.serve();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let said = says(&["kek", "add", "--config", &place.config()]);
    let id = said.split(' ').next().unwrap().to_owned();
    let said = says(&["kek", "rotate", "--config", &place.config(), "--to", &id]);
    assert!(said.contains("is in use"), "{said}");
    wait_until("it has", || server.log().iter().any(|line| line.contains("rewrapped")));
    assert!(server.stop().unwrap().success());
    let said = says(&["kek", "rotate", "--config", &place.config()]);
    assert!(said.contains("0 sessions rewrapped"), "{said}");
    take_out(&place.keys(), "kek-1");
    let server = place.serve();
    wait_until("the session is there", || agreed.seal(PURCHASE, ORDER).0.send(server.address()).unwrap().status == 200);
}

#[test]
fn the_old_servers_environment_is_enough_but_for_a_key() {
    let postgres = sealway_testkit::postgres::Launch::default().password("p@ss/w:rd").start().unwrap();
    let redis = Redis::options().password("r€dis").start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let port = redis.url().rsplit(':').next().unwrap().trim_end_matches("/0").to_owned();
    let launch = || {
        Launch::new(BINARY, SERVE)
            .folder(folder.path())
            .env("POSTGRES_HOST", "127.0.0.1")
            .env("POSTGRES_PORT", &postgres.port.to_string())
            .env("POSTGRES_USER", "postgres")
            .env("POSTGRES_PASSWORD", "p@ss/w:rd")
            .env("POSTGRES_DB", "postgres")
            .env("REDIS_HOST", "127.0.0.1")
            .env("REDIS_PORT", &port)
            .env("REDIS_PASSWORD", "r€dis")
            .env("REDIS_COMMAND_TIMEOUT_MS", "400")
    };
    let refused = launch().start().unwrap_err().to_string();
    assert!(refused.contains("SEALWAY_KEK") && refused.contains("sessions.kek_file"), "{refused}");
    let key = sealway_proto::wire::base64::encode(&sealway_testkit::wire_client::random::<32>());
    let launch = || launch().env("SEALWAY_KEK", &format!("kek-1 {key}"));
    let refused = launch().env("POSTGRES_PASSWORD", "wrong").start().unwrap_err().to_string();
    assert!(refused.contains("from the environment variable POSTGRES_HOST and REDIS_HOST"), "{refused}");
    let server = launch().start().unwrap();
    wait_until("it grants", || grants(&server));
    let log = server.log().join("\n");
    assert!(log.contains("compat.nonce_fallback") && log.contains("not encrypted"), "{log}");
    for secret in ["p@ss", "p%40ss", "r€dis", "r%E2", key.as_str()] {
        assert!(!log.contains(secret), "{secret} is in the log: {log}");
    }
}
