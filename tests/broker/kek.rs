//! A gateway whose session keys are wrapped by a real broker: its memory and files hold no key-encryption key. Also a start
//! without the broker, a broker that crashes under load, and a key rotation.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sealway_client::broker::{Client, Options};
use sealway_proto::wire::Wire;
use sealway_testkit::broker::Broker;
use sealway_testkit::process::{Launch, Server, memory_holds};
use sealway_testkit::wire_client::{ORDER, PURCHASE, WireSession};

use crate::BINARY;

/// The key of the broker's store.
pub(crate) const KEY: &str = "sessions";

fn config(folder: &Path) -> String {
    let socket = folder.join("broker.sock");
    format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: /session/ }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['demo:'] }} }}
sessions:
  store: 'file:sessions.redb'
  kek_broker: {{ socket: '{}', profile: Seal, key: {KEY}, uid: {} }}
  anonymous_inits_per_minute: 0
  authenticated_inits_per_minute: 0
",
        socket.display(),
        rustix::process::getuid().as_raw(),
    )
}

/// A broker with known key material in its own folder.
fn broker() -> (tempfile::TempDir, Broker, [u8; 32]) {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start(BINARY, folder.path()).unwrap();
    let material = sealway_testkit::wire_client::random::<32>();
    block_on(async { client(&broker).import_key(KEY, "aes-256-gcm", &material).await.unwrap() });
    (folder, broker, material)
}

fn client(broker: &Broker) -> Client {
    Client::new(Options::new(broker.socket()))
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn start(folder: &Path, broker: &Path) -> Server {
    Launch::new(BINARY, &config(broker)).folder(folder).start().unwrap()
}

fn works(to: SocketAddr, agreed: &WireSession) -> bool {
    let (request, _) = agreed.seal(PURCHASE, ORDER);
    request.send(to).unwrap().status == 200
}

fn files_hold(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        let holds = |text: &[u8]| text.windows(bytes.len()).any(|window| window == bytes);
        path.is_file() && holds(&std::fs::read(&path).unwrap())
    })
}

#[test]
fn no_key_encryption_key_is_in_the_gateway_and_a_restart_brings_its_sessions_back() {
    let (place, broker, material) = broker();
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = start(folder.path(), place.path());
    let agreed = WireSession::open(gateway.address(), Wire::V2, "/session/init").unwrap();
    assert!(works(gateway.address(), &agreed));
    let base64 = sealway_proto::wire::base64::encode(&material);
    // The search must find the key where it is known to be.
    assert!(memory_holds(broker.id(), &[&material]).unwrap(), "the search finds nothing, not even in the broker");
    assert!(!memory_holds(gateway.id(), &[&material, base64.as_bytes()]).unwrap());
    assert!(!files_hold(folder.path(), &material) && !files_hold(folder.path(), base64.as_bytes()));
    let kek = std::fs::read_dir(folder.path())
        .unwrap()
        .find(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "kek"));
    assert!(kek.is_none(), "a key file was made");
    assert_eq!(gateway.stop().unwrap().code(), Some(0));
    let gateway = start(folder.path(), place.path());
    assert!(works(gateway.address(), &agreed), "the session did not come back");
}

#[test]
fn a_start_waits_for_the_broker_and_fails_without_it() {
    let (place, mut broker, _) = broker();
    let folder = tempfile::tempdir().unwrap();
    broker.kill().unwrap();
    std::thread::scope(|scope| {
        let late = scope.spawn(|| start(folder.path(), place.path()));
        // For a while no broker listens, and the start waits.
        std::thread::sleep(Duration::from_millis(700));
        broker.start_again().unwrap();
        let mut gateway = late.join().unwrap();
        let waited = |line: &serde_json::Value| line.to_string().contains("waiting for the broker of session keys");
        gateway.wait_for_log(0, waited).unwrap();
        assert!(works(gateway.address(), &WireSession::open(gateway.address(), Wire::V2, "/session/init").unwrap()));
    });
    broker.kill().unwrap();
    let begin = Instant::now();
    let err = Launch::new(BINARY, &config(place.path())).folder(folder.path()).start().unwrap_err().to_string();
    assert!(err.contains("sessions.kek_broker: the broker at ") && err.contains("broker.sock"), "{err}");
    assert!(begin.elapsed() >= Duration::from_secs(9), "it did not wait: {:?}", begin.elapsed());
    broker.start_again().unwrap();
    // Another program listens on the broker's socket: the gateway sends it nothing.
    let other = config(place.path()).replace(&format!("uid: {}", rustix::process::getuid().as_raw()), "uid: 4294967");
    let err = Launch::new(BINARY, &other).folder(folder.path()).start().unwrap_err().to_string();
    assert!(err.contains("not user 4294967's"), "{err}");
    // The gateway does not wait for an operation that the broker rejects.
    let wrong = config(place.path()).replace("profile: Seal", "profile: Sha256");
    let begin = Instant::now();
    let err = Launch::new(BINARY, &wrong).folder(folder.path()).start().unwrap_err().to_string();
    assert!(err.contains("Sha256 has no EncryptData") && begin.elapsed() < Duration::from_secs(9), "{err}");
}

#[test]
fn a_broker_that_crashes_under_load_loses_no_session() {
    let (place, mut broker, _) = broker();
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = start(folder.path(), place.path());
    let (to, stop, failed) = (gateway.address(), AtomicBool::new(false), AtomicUsize::new(0));
    let agreed = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut agreed = Vec::new();
                    while !stop.load(Ordering::Relaxed) && agreed.len() < 400 {
                        match WireSession::open(to, Wire::V2, "/session/init") {
                            // Granted sessions remain, whatever happens to the broker: the gateway does not call it for a session
                            // in memory.
                            Ok(session) => {
                                assert!(works(to, &session));
                                agreed.push(session);
                            }
                            Err(_) => _ = failed.fetch_add(1, Ordering::Relaxed),
                        }
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    agreed
                })
            })
            .collect();
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(250));
            broker.kill().unwrap();
            std::thread::sleep(Duration::from_millis(100));
            broker.start_again().unwrap();
        }
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    println!("{} sessions, {} refused inits", agreed.len(), failed.load(Ordering::Relaxed));
    assert!(agreed.len() >= 4, "{}", agreed.len());
    // Inits wait for a broker that is away for a moment.
    assert_eq!(failed.load(Ordering::Relaxed), 0, "inits were refused though the broker was back in time");
    gateway.kill().unwrap();
    let gateway = start(folder.path(), place.path());
    for (index, session) in agreed.iter().enumerate() {
        assert!(works(gateway.address(), session), "session {index} of {} was lost", agreed.len());
    }
}

#[test]
fn a_rotation_in_the_broker_wraps_anew_and_earlier_sessions_go_on() {
    let (place, broker, _) = broker();
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = start(folder.path(), place.path());
    let sessions: Vec<_> =
        (0..20).map(|_| WireSession::open(gateway.address(), Wire::V2, "/session/init").unwrap()).collect();
    assert_eq!(gateway.stop().unwrap().code(), Some(0));
    let file = folder.path().join("kek.yaml");
    std::fs::write(&file, config(place.path())).unwrap();
    let kek = |arguments: &[&str]| {
        let output = Command::new(BINARY).arg("kek").args(arguments).arg("--config").arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text)
    };
    let (is_well, text) = kek(&["status"]);
    assert!(is_well && text.contains("sessions:1  wraps and unwraps"), "{text}");
    for arguments in [&["add"][..], &["rotate", "--to", "sessions:2"]] {
        let (is_well, text) = kek(arguments);
        assert!(!is_well && text.contains("sealway broker keys rotate sessions"), "{arguments:?}: {text}");
    }
    block_on(async {
        let client = client(&broker);
        client.rotate_key(KEY, b"").await.unwrap();
        let (is_well, text) = kek(&["rotate"]);
        assert!(is_well && text.contains("20 sessions rewrapped; all that live are under sessions:2"), "{text}");
        // No session needs the first version any more.
        client.disable_key(KEY, 1).await.unwrap();
    });
    let gateway = start(folder.path(), place.path());
    assert!(sessions.iter().all(|session| works(gateway.address(), session)));
}

#[test]
fn the_cost_of_an_init_with_and_without_a_broker_is_printed() {
    let (place, _broker, _) = broker();
    let measure = |config: &str| {
        let folder = tempfile::tempdir().unwrap();
        let gateway = Launch::new(BINARY, config).folder(folder.path()).start().unwrap();
        let to = Arc::new(gateway.address());
        let mut times: Vec<_> = (0..60)
            .map(|_| {
                let begin = Instant::now();
                WireSession::open(*to, Wire::V2, "/session/init").unwrap();
                begin.elapsed()
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    };
    let with = config(place.path());
    let begin = with.find("  kek_broker").unwrap();
    let end = begin + with[begin..].find('\n').unwrap();
    let without = format!("{}  allow_generated_kek: true{}", &with[..begin], &with[end..]);
    let (file, broker) = (measure(&without), measure(&with));
    println!("init p50: {file:?} with a key file, {broker:?} with a broker");
    assert!(broker < file + Duration::from_millis(500), "{file:?} {broker:?}");
}
