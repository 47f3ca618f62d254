//! Restarts of the embedded store in a real process, keys at rest, and a disk that fails: `spec/session.md` 5.2, 5.5.

use std::path::Path;

use sealway_proto::wire::Wire;
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Connection, Request};
use sealway_testkit::wire_client::{CLIENT_ID, ORDER, PURCHASE, WireSession, init, nonce, now_ms};

use crate::BINARY;

const BOTH: [Wire; 2] = [Wire::V1, Wire::V2];
const CONFIG: &str = "
routes:
  - { match: { path_prefix: [/session/, /v1/session/], path: [/health, /ready] }, sessions: {} }
  - { match: {}, sealed: required, upstream: shop }
upstreams: { shop: { servers: ['demo:'] } }
sessions: { store: 'file:sessions.redb', allow_generated_kek: true }
compat: { open_key_endpoint: true }
admin: { address: '127.0.0.1:0', token_file: admin.token }
";

fn start(folder: &Path) -> Server {
    let config = format!("listeners: [{{ address: '127.0.0.1:0' }}]\n{CONFIG}");
    Launch::new(BINARY, &config).folder(folder).start().unwrap()
}

/// The way in which a server process ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Term,
    Kill,
}

fn end(server: &mut Server, how: End) {
    match how {
        End::Kill => server.kill().unwrap(),
        End::Term => assert_eq!(server.stop().unwrap().code(), Some(0)),
    }
}

#[test]
fn a_session_survives_a_restart_and_no_replay_is_readmitted() {
    for how in [End::Kill, End::Term] {
        let folder = tempfile::tempdir().unwrap();
        let mut server = start(folder.path());
        let agreed = BOTH.map(|wire| WireSession::open(server.address(), wire, "/session/init").unwrap());
        let inits = BOTH.map(|wire| init(wire, "/session/init", CLIENT_ID, None).1);
        for request in &inits {
            assert_eq!(request.send(server.address()).unwrap().status, 200);
        }
        let mut sent = Vec::new();
        let mut unsent = Vec::new();
        for agreed in &agreed {
            let now = now_ms();
            // Stamped slightly in the past, now, and in the future: the clock of a restart does not cover the last one.
            for stamp in [now - 5000, now, now + 20_000, now + 290_000] {
                let request = agreed.seal_as(PURCHASE, ORDER, &stamp.to_string(), &nonce()).0;
                assert_eq!(request.send(server.address()).unwrap().status, 200, "{how:?} {stamp}");
                sent.push(request);
            }
            unsent.push(agreed.seal(PURCHASE, ORDER).0);
        }
        end(&mut server, how);
        let server = start(folder.path());
        for request in &sent {
            let answer = request.send(server.address()).unwrap();
            answer.assert_error(&format!("{how:?}: a replay across the restart"), 400, "CRYPTO_ERROR");
        }
        for request in &unsent {
            let answer = request.send(server.address()).unwrap();
            answer.assert_error("stamped before the restart: nobody can say it is fresh", 400, "CRYPTO_ERROR");
        }
        for request in &inits {
            assert_eq!(request.send(server.address()).unwrap().status, 400, "{how:?}: an init again");
        }
        for agreed in &agreed {
            let request = agreed.seal(PURCHASE, ORDER).0;
            assert_eq!(request.send(server.address()).unwrap().status, 200, "{how:?}: fresh on the old session");
            let ahead = agreed.seal_as(PURCHASE, ORDER, &(now_ms() + 60_000).to_string(), &nonce()).0;
            assert_eq!(ahead.send(server.address()).unwrap().status, 200, "{how:?}: fresh and ahead");
            assert_eq!(ahead.send(server.address()).unwrap().status, 400);
        }
    }
}

#[test]
fn a_revoked_session_stays_revoked_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path());
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let delete = Request::new("DELETE", &format!("/admin/sessions/{}", agreed.id()));
    let delete = delete.header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    assert_eq!(delete.send(server.admin()).unwrap().status, 200);
    end(&mut server, End::Kill);
    let server = start(folder.path());
    let answer = agreed.seal(PURCHASE, ORDER).0.send(server.address()).unwrap();
    answer.assert_error("revoked", 401, "SESSION_EXPIRED");
}

/// Returns every file under a folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
}

#[test]
fn no_file_of_the_store_holds_a_session_key_in_any_spelling() {
    use base64::Engine;
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path());
    let mut keys = Vec::new();
    for _ in 0..5 {
        let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
        agreed.call(PURCHASE, ORDER).unwrap();
        let key = Request::get(&format!("/v1/session/{}", agreed.id())).header("X-ClientId", CLIENT_ID);
        let key = key.send(server.address()).unwrap().json()["sessionKey"].as_str().unwrap().to_owned();
        keys.push((agreed.id(), base64::engine::general_purpose::STANDARD.decode(key).unwrap()));
    }
    for stopped in [false, true] {
        if stopped {
            end(&mut server, End::Term);
        }
        let mut ids_seen = 0;
        for (name, bytes) in files(folder.path()) {
            let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
            for (id, key) in &keys {
                ids_seen += usize::from(has(id.as_bytes()));
                let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
                let text = base64::engine::general_purpose::STANDARD.encode(key);
                let url = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(key);
                // Even half a key is too much.
                let needles = [&key[..16], &key[16..], &hex.as_bytes()[..32], &hex.as_bytes()[32..]];
                for needle in needles.into_iter().chain([&text.as_bytes()[..20], &url.as_bytes()[..20]]) {
                    assert!(!has(needle), "{name} holds a session key");
                }
                assert!(!has(&hex.to_uppercase().as_bytes()[..32]), "{name} holds a session key");
            }
        }
        assert!(ids_seen >= keys.len(), "the search finds what is there: the sessions' ids");
    }
}

#[test]
fn the_key_file_that_is_made_is_for_its_owner_alone_and_without_it_nothing_starts() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path());
    WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    end(&mut server, End::Term);
    let kek = folder.path().join("sessions.kek");
    assert_eq!(std::fs::metadata(&kek).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::remove_file(&kek).unwrap();
    let config = format!("listeners: [{{ address: '127.0.0.1:0' }}]\n{CONFIG}");
    let refused = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap_err().to_string();
    assert!(refused.contains("put that key back"), "{refused}");
    std::fs::remove_file(&kek).unwrap();
    let strict = config.replace(", allow_generated_kek: true", "");
    let refused = Launch::new(BINARY, &strict).folder(folder.path()).start().unwrap_err().to_string();
    assert!(refused.contains("sessions.kek_file") && refused.contains("allow_generated_kek"), "{refused}");
}

#[test]
fn two_processes_do_not_share_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let _first = start(folder.path());
    let config = format!("listeners: [{{ address: '127.0.0.1:0' }}]\n{CONFIG}");
    let refused = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap_err().to_string();
    assert!(refused.contains("another process uses it"), "{refused}");
}

#[test]
fn a_store_that_cannot_write_refuses_with_503_and_health_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("listeners: [{{ address: '127.0.0.1:0' }}]\n{CONFIG}");
    let server = Launch::new(BINARY, &config).folder(folder.path()).surviving_file_limit().start().unwrap();
    let agreed = BOTH.map(|wire| WireSession::open(server.address(), wire, "/session/init").unwrap());
    assert_eq!(Request::get("/ready").send(server.address()).unwrap().status, 200);
    server.forbid_file_writes().unwrap();
    for wire in BOTH {
        let answer = init(wire, "/session/init", CLIENT_ID, None).1.send(server.address()).unwrap();
        answer.assert_error("init", 503, "SERVICE_UNAVAILABLE");
    }
    let answer = init(Wire::V2, "/v1/session/init", CLIENT_ID, None).1.send(server.address()).unwrap();
    assert_eq!((answer.status, answer.json()["error"].as_str()), (503, Some("Service Unavailable")));
    for agreed in &agreed {
        // A stamp in the future must be on disk before the nonce is granted.
        let ahead = agreed.seal_as(PURCHASE, ORDER, &(now_ms() + 60_000).to_string(), &nonce()).0;
        ahead.send(server.address()).unwrap().assert_error("ahead", 503, "SERVICE_UNAVAILABLE");
        let again = ahead.send(server.address()).unwrap();
        assert!([400, 503].contains(&again.status), "never granted: {}", again.status);
    }
    let ready = Request::get("/ready").send(server.address()).unwrap();
    let body = ready.json();
    assert_eq!((ready.status, body["status"].as_str()), (503, Some("unhealthy")), "{body}");
    assert_eq!((body["database"].as_str(), body["timestamp"].is_string()), (Some("down"), true));
    let health = Request::get("/health").send(server.address()).unwrap();
    assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("degraded")));
    assert_eq!(health.json()["store"], "embedded");

    // The disk works again, and so does everything else, without a restart.
    server.allow_file_writes().unwrap();
    for wire in BOTH {
        assert_eq!(init(wire, "/session/init", CLIENT_ID, None).1.send(server.address()).unwrap().status, 200);
    }
    assert_eq!(Request::get("/ready").send(server.address()).unwrap().status, 200);
    for agreed in &agreed {
        let ahead = agreed.seal_as(PURCHASE, ORDER, &(now_ms() + 60_000).to_string(), &nonce()).0;
        assert_eq!(ahead.send(server.address()).unwrap().status, 200);
    }
}

#[test]
fn many_sessions_survive_a_kill_in_the_middle_of_inits() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path());
    let address = server.address();
    // A client with an acknowledged session finds it again, whenever the kill came.
    let (sender, inits) = std::sync::mpsc::channel();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut agreed = Vec::new();
                while let Ok(session) = WireSession::open(address, Wire::V2, "/session/init") {
                    agreed.push(session);
                    sender.send(()).unwrap();
                }
                agreed
            })
        })
        .collect();
    drop(sender);
    assert_eq!(inits.iter().take(20).count(), 20);
    server.kill().unwrap();
    let agreed: Vec<WireSession> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    let server = start(folder.path());
    let mut connection = Connection::open(server.address()).unwrap();
    for session in &agreed {
        connection.write(&session.seal(PURCHASE, ORDER).0.header("Connection", "keep-alive").bytes()).unwrap();
        assert_eq!(connection.read_answer("POST").unwrap().status, 200);
    }
}
