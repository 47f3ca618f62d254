//! The guides to backups and to disasters, run as they are written on real servers: every block of a section in its order.

use sealway_proto::session::native::Suite;
use sealway_proto::wire::Wire;
use sealway_testkit::guide::{self, Block, blocks};
use sealway_testkit::native_client::{Link, NativeSession, key_set};
use sealway_testkit::postgres::Postgres;
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::redis::Redis;
use sealway_testkit::wire_client::{ORDER, PURCHASE, WireSession, nonce, now_ms};

use crate::BINARY;
use crate::shared::wait_until;

const BACK_UP: &str = include_str!("../../docs/guides/back-up.md");
const DISASTERS: &str = include_str!("../../docs/guides/disasters.md");
/// Other pages whose commands an operator copies in a hurry.
const OTHERS: [(&str, &str); 3] = [
    ("capacity.md", include_str!("../../docs/guides/capacity.md")),
    ("rotate-keys.md", include_str!("../../docs/guides/rotate-keys.md")),
    ("runbooks.md", include_str!("../../docs/guides/runbooks.md")),
];
/// The window of stamps: shorter than the default, because the test waits for it.
const WINDOW_MS: u64 = 6000;

/// A deployment: a folder with configuration and keys, PostgreSQL and Redis.
struct Site {
    folder: tempfile::TempDir,
    postgres: Postgres,
    redis: Redis,
}

impl Site {
    /// Starts servers for the configuration and the keys of a folder, which may be empty.
    fn on(folder: tempfile::TempDir) -> Self {
        let (postgres, redis) = (Postgres::start().unwrap(), Redis::start().unwrap());
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/session/, /v3/], path: [/health, /ready, /.well-known/sealway-keys] }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['demo:'] }} }}
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
replay: {{ window_ms: {WINDOW_MS} }}
sessions:
  store: '{} + {}'
  kek_file: sessions.kek
  postgres: {{ migrate: true }}
  identity: {{ key_file: sessions.identity }}
",
            postgres.url(),
            redis.url()
        );
        std::fs::write(folder.path().join("fleet.yaml"), config).unwrap();
        Site { folder, postgres, redis }
    }

    /// Starts a new deployment with keys of its own.
    fn new() -> Self {
        let site = Site::on(tempfile::tempdir().unwrap());
        site.run("(umask 077; printf 'kek-1 %s\\n' \"$(head -c 32 /dev/urandom | base64)\" > sessions.kek)", &[]);
        site.run("sealway identity generate sessions.identity", &[]);
        site
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    /// Starts a gateway; returns it without waiting until it accepts requests.
    fn serve(&self) -> Server {
        Launch::new(BINARY, &self.read("fleet.yaml")).folder(self.folder.path()).start().unwrap()
    }

    /// Starts a gateway and waits until it accepts requests.
    fn serve_ready(&self) -> Server {
        let server = self.serve();
        wait_until("it serves", || {
            let agreed = WireSession::open(server.address(), Wire::V2, "/session/init");
            agreed.is_ok_and(|agreed| call(&agreed, &server) == 200)
        });
        server
    }

    /// Runs a script in the folder, with the names that the guides use; returns what it printed.
    fn run(&self, script: &str, environment: &[(&str, &str)]) -> String {
        let programs = tempfile::tempdir().unwrap();
        let mut shell = guide::shell(BINARY, programs.path(), &format!("set -euo pipefail\n{script}")).unwrap();
        shell.current_dir(self.folder.path()).env("DATABASE", self.postgres.url()).env("REDIS", self.redis.url());
        let done = shell.envs(environment.iter().copied()).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{script}\n{out}{err}");
        out.into_owned()
    }

    /// Runs all blocks of a section; returns what they printed.
    fn follow(&self, page: &str, heading: &str, environment: &[(&str, &str)]) -> String {
        steps(page, heading).iter().map(|step| self.run(&step.text, environment)).collect()
    }
}

/// Returns the shell blocks of a section.
fn steps(page: &str, heading: &str) -> Vec<Block> {
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    let section = section.split("\n## ").next().unwrap();
    let steps: Vec<Block> = blocks(section).into_iter().filter(|block| block.info == "sh").collect();
    assert!(!steps.is_empty(), "{heading} has no commands");
    steps
}

fn call(agreed: &WireSession, server: &Server) -> u16 {
    agreed.seal(PURCHASE, ORDER).0.send(server.address()).unwrap().status
}

fn revoke(agreed: &WireSession, server: &Server) {
    let delete = Request::new("DELETE", &format!("/admin/sessions/{}", agreed.id()));
    let delete = delete.header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    assert_eq!(delete.send(server.admin()).unwrap().status, 200);
}

fn open(server: &Server) -> WireSession {
    WireSession::open(server.address(), Wire::V2, "/session/init").unwrap()
}

#[test]
fn a_destroyed_deployment_is_restored_as_the_guide_says() {
    let site = Site::new();
    let mut server = site.serve_ready();
    let [kept, revoked, revoked_late] = [open(&server), open(&server), open(&server)];
    let mut link = Link::new(server.address());
    let trusted = key_set(server.address()).unwrap();
    let native = NativeSession::open(&mut link, &trusted, Suite::ALL[0]).unwrap();
    native.call(&mut link, PURCHASE, &[ORDER]).unwrap();
    revoke(&revoked, &server);
    site.follow(BACK_UP, "Back up", &[]);
    // What the backup lacks.
    let late = open(&server);
    revoke(&revoked_late, &server);
    let mut sent = Vec::new();
    // Stamped ahead: neither the clock of a restart nor an empty Redis covers the last one.
    for ahead_ms in [0, 3000, WINDOW_MS - 500] {
        let request = kept.seal_as(PURCHASE, ORDER, &(now_ms() + ahead_ms).to_string(), &nonce()).0;
        assert_eq!(request.send(server.address()).unwrap().status, 200);
        sent.push(request);
    }

    server.kill().unwrap();
    let Site { folder, postgres, redis } = site;
    drop((postgres, redis));
    for name in ["fleet.yaml", "sessions.kek", "sessions.identity"] {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(folder.path().join("backup/fleet.yaml")).unwrap().matches("kek_file").count(),
        1
    );

    // Other servers at other addresses, in another cluster.
    let site = Site::on(folder);
    let restored_ms = now_ms();
    site.follow(BACK_UP, "Restore", &[]);
    let server = site.serve();
    let lost_ms = site.postgres.psql("SELECT value FROM sealway.meta WHERE name = 'lost_ms'").unwrap();
    assert!(lost_ms.parse::<u64>().unwrap() >= restored_ms + WINDOW_MS, "the gateway takes the copy for the original");
    let waited = wait_until("it accepts new requests", || {
        for request in &sent {
            assert_ne!(request.send(server.address()).unwrap().status, 200, "a replay was accepted");
        }
        call(&kept, &server) == 200
    });
    println!("requests are accepted {waited:?} after the start");
    for request in &sent {
        request.send(server.address()).unwrap().assert_error("a replay", 400, "CRYPTO_ERROR");
    }
    let status = |agreed: &WireSession| call(agreed, &server);
    assert_eq!([&revoked, &late, &revoked_late].map(status), [401, 401, 200], "as the table of the guide says");
    let mut link = Link::new(server.address());
    assert_eq!(native.call(&mut link, PURCHASE, &[ORDER]).unwrap().0.status, 200);
    let ids = |set: &sealway_proto::session::native::KeySet| set.keys.iter().map(|key| key.key_id).collect::<Vec<_>>();
    assert_eq!(ids(&key_set(server.address()).unwrap()), ids(&trusted), "the service has another identity");

    site.follow(DISASTERS, "End every session", &[]);
    wait_until("all sessions are ended", || [&kept, &revoked_late].map(status) == [401, 401]);
    assert_eq!(status(&open(&server)), 200);
    let again = site.run(&steps(DISASTERS, "End every session")[0].text, &[]);
    assert_eq!(again.lines().next(), Some("1"), "the session that was agreed since");
}

#[test]
fn each_disaster_is_over_after_the_commands_of_its_section() {
    let mut site = Site::new();
    let (mut server, mut other) = (site.serve_ready(), site.serve_ready());
    let kept = open(&server);

    site.redis.kill().unwrap();
    site.redis.start_again_empty().unwrap();
    wait_until("Redis is used again", || [&server, &other].map(|server| call(&kept, server)) == [200, 200]);
    let url = format!("http://{}", server.address());
    site.follow(DISASTERS, "Redis is lost", &[("GATEWAY", &url)]);

    // Each gateway reads the file within ten seconds; a restart is quicker.
    let [add, rotate, again] = &steps(DISASTERS, "The key-encryption key leaked")[..] else { panic!("three steps") };
    site.run(&add.text, &[]);
    (server, other) = (site.serve_ready(), site.serve_ready());
    site.run(&rotate.text, &[]);
    site.run(&again.text, &[]);
    assert_eq!([&server, &other].map(|server| call(&kept, server)), [200, 200]);
    let status = site.run("sealway kek status --config fleet.yaml", &[]);
    assert!(status.lines().any(|line| line.starts_with("kek-1 ") && line.contains(" 0 ")), "{status}");

    drop((server, other));
    let [make, check] = &steps(DISASTERS, "The key-encryption key is lost")[..] else { panic!("two steps") };
    site.run(&make.text, &[]);
    // Redis is used once new sessions are accepted; the old one can be neither used nor denied.
    let (mut server, other) = (site.serve_ready(), site.serve_ready());
    assert_eq!([&server, &other].map(|server| call(&kept, server)), [503, 503]);
    site.follow(DISASTERS, "End every session", &[]);
    wait_until("it is ended", || [&server, &other].map(|server| call(&kept, server)) == [401, 401]);
    let agreed = open(&server);
    assert_eq!([&server, &other].map(|server| call(&agreed, server)), [200, 200]);
    let status = site.run(&check.text, &[]);
    assert!(status.lines().any(|line| line.starts_with("kek-new ") && line.contains(" 1 ")), "{status}");

    let id = |listed: &str| listed.split_whitespace().next().unwrap().to_owned();
    let leaked = id(&site.run("sealway identity list sessions.identity", &[]));
    site.follow(DISASTERS, "The identity key leaked", &[("KEY_ID", &leaked)]);
    let listed = site.run("sealway identity list sessions.identity", &[]);
    assert!(listed.lines().any(|line| line.starts_with(&leaked) && line.contains("retired")), "{listed}");
    std::fs::remove_file(site.folder.path().join("sessions.identity")).unwrap();
    let [generate, check] = &steps(DISASTERS, "The identity key is lost")[..] else { panic!("two steps") };
    site.run(&generate.text, &[]);
    server.kill().unwrap();
    server = site.serve_ready();
    let url = format!("http://{}", server.address());
    let said = site.run(&check.text, &[("GATEWAY", &url)]);
    assert_eq!(said.matches(&id(&said)).count(), 2, "in the file and in the set: {said}");

    // A set is signed by one root after another.
    site.run(
        "sealway identity root root.json; sealway identity sign sessions.identity --root root.json --expires-in 90d",
        &[],
    );
    let [make, sign] = &steps(DISASTERS, "The root leaked")[..] else { panic!("two steps") };
    let said = site.run(&make.text, &[]);
    let root = said.lines().find_map(|line| line.strip_prefix("root_public_key")).unwrap().trim();
    site.run(&sign.text, &[("ROOT_PUBLIC_KEY", root)]);
    site.run("sealway identity verify sessions.identity --root-key \"$ROOT_PUBLIC_KEY\"", &[("ROOT_PUBLIC_KEY", root)]);

    // Every start of a test writes `admin.token`, so the process reads another file.
    let [make, check] = &steps(DISASTERS, "The admin token leaked")[..] else { panic!("two steps") };
    let [make, check] = [make, check].map(|step| step.text.replace("admin.token", "own.token"));
    site.run(&make, &[]);
    let config = site.read("fleet.yaml").replace("admin.token", "own.token");
    let server = Launch::new(BINARY, &config).folder(site.folder.path()).start().unwrap();
    let admin = format!("http://{}", server.admin());
    assert_eq!(site.run(&check, &[("ADMIN", &admin)]).trim(), "200");
    assert_eq!(site.run(&check.replace("own.token", "admin.token"), &[("ADMIN", &admin)]).trim(), "401");
}

/// Returns the commands `sealway …` of a page: the words after the name, up to the end of the command.
fn commands(page: &str) -> Vec<Vec<String>> {
    let page = page.replace("\\\n", " ");
    let named = page.match_indices("sealway ").filter(|(at, _)| {
        let before = page[..*at].chars().next_back();
        before.is_none_or(|before| matches!(before, '`' | '\n' | ' ' | '('))
            && page[..*at].ends_with(['`', '\n', ' ', '('])
    });
    let is_code = |at: usize| {
        let line = &page[page[..at].rfind('\n').map_or(0, |end| end + 1)..at];
        line.trim().is_empty() || line.matches('`').count() % 2 == 1
    };
    let end = ['`', '\n', '|', '>', ';', '#', '…'];
    named
        .filter(|(at, _)| is_code(*at))
        .map(|(at, name)| {
            page[at + name.len()..].split(end).next().unwrap().split_whitespace().map(str::to_owned).collect()
        })
        .collect()
}

#[test]
fn every_command_of_the_pages_for_bad_days_exists_with_its_flags() {
    let mut count = 0;
    for (name, page) in [("back-up.md", BACK_UP), ("disasters.md", DISASTERS)].into_iter().chain(OTHERS) {
        assert_eq!(guide::missing(page), [""; 0], "{name}");
        for command in commands(page) {
            let is_name = |word: &&String| word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
            let path: Vec<&String> = command.iter().take_while(is_name).filter(|word| !word.starts_with('-')).collect();
            let flags = command.iter().filter(|word| word.starts_with("--"));
            let help = std::process::Command::new(BINARY).args(&path).arg("--help").output().unwrap();
            assert!(help.status.success(), "{name}: sealway {}", command.join(" "));
            let help = String::from_utf8(help.stdout).unwrap();
            for flag in flags {
                let flag = flag.split('=').next().unwrap();
                assert!(help.contains(flag), "{name}: sealway {}: no {flag}", command.join(" "));
            }
            count += 1;
        }
    }
    assert!(count > 40, "{count}: the pages have more commands than that");
}
