//! Keys of messages whose private half a broker holds: a real `sealway broker` beside a real `sealway serve`.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sealway_client::broker::{Client, Options};
use sealway_testkit::broker::Broker;
use sealway_testkit::daemon::program;
use sealway_testkit::process::{Launch, Server, memory_holds};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::rsa::make_pair;
use sealway_testkit::upstream::Upstream;

use crate::BINARY;
use crate::mle::{PLAIN, echo};
use crate::mle_keys::{metric, opened, token};
use crate::reload::reload;

/// Longest wait for something that happens soon.
const WAIT: Duration = Duration::from_secs(30);

/// A gateway whose keys `one` and `two` are in a broker, under one id: the second version is `two`.
struct Ground {
    server: Server,
    service: Upstream,
    broker: Broker,
    folder: tempfile::TempDir,
    /// Folder of the broker; the gateway has only its socket.
    _place: tempfile::TempDir,
}

fn broker_key(socket: &Path, name: &str, more: &str) -> String {
    let socket = socket.display();
    format!(
        "{{ broker: {{ socket: '{socket}', profile: Unwrap, key: card{more} }}, certificate: {name}.cert.pem, kid: kid-{name} }}"
    )
}

fn config(service: &Upstream, keys: &str, open: &str) -> String {
    format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
mle_keys:
{keys}
  caller: {{ certificate: caller.cert.pem, kid: kid-caller, enc: A128GCM }}
routes:
  - match: {{ path_prefix: /visa }}
    upstream: service
    mle: {{ direction: inbound, profile: visa, caller: anybody, open: {open}, seal: [{{ keys: [caller] }}] }}
  - {{ match: {{}}, upstream: service }}
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:' }}
",
        service.address
    )
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn client(broker: &Broker) -> Client {
    Client::new(Options::new(broker.socket())).within(WAIT)
}

/// Starts a broker with the key `card`, whose private half is imported and then removed from the gateway's folder.
fn start_broker(folder: &Path) -> (tempfile::TempDir, Broker, Vec<u8>) {
    for name in ["one", "two", "caller"] {
        make_pair(folder, name).unwrap();
    }
    let place = tempfile::tempdir().unwrap();
    let broker = Broker::start(BINARY, place.path()).unwrap();
    let key = |name: &str| std::fs::read(folder.join(format!("{name}.key.pem"))).unwrap();
    let prime = prime_of(&folder.join("one.key.pem"));
    block_on(async {
        let client = client(&broker);
        client.import_key("card", "rsa-unwrap-2048", &key("one")).await.unwrap();
        client.rotate_key("card", &key("two")).await.unwrap();
        client.generate_key("signs", "ecdsa-p256").await.unwrap();
    });
    std::fs::remove_file(folder.join("one.key.pem")).unwrap();
    std::fs::remove_file(folder.join("two.key.pem")).unwrap();
    (place, broker, prime)
}

/// Returns the first prime of an RSA key as its library keeps it: the lowest byte first.
fn prime_of(key: &Path) -> Vec<u8> {
    let output = Command::new(program("openssl").unwrap()).args(["rsa", "-noout", "-text", "-in"]).arg(key).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let from = text.find("prime1:").unwrap() + "prime1:".len();
    let digits: String = text[from..text.find("prime2:").unwrap()].split_whitespace().collect();
    let bytes = digits.split(':').filter(|digits| !digits.is_empty());
    let mut prime: Vec<u8> = bytes.map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect();
    prime.reverse();
    assert_eq!(prime.pop(), Some(0), "a positive number of an even length");
    prime
}

fn ground() -> Ground {
    let folder = tempfile::tempdir().unwrap();
    let (place, broker, _) = start_broker(folder.path());
    let service = Upstream::answering(echo).unwrap();
    let config = config(&service, &keys(&broker), "[one, two]");
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    Ground { server, service, broker, folder, _place: place }
}

fn keys(broker: &Broker) -> String {
    let of = |name| format!("  {name}: {}", broker_key(&broker.socket(), name, ""));
    format!("{}\n{}", of("one"), of("two"))
}

impl Ground {
    fn post(&self, name: &str) -> Answer {
        post(&self.server, self.folder.path(), name)
    }

    fn plain_is_served(&self) -> bool {
        Request::post("/plain", PLAIN).send(self.server.address()).unwrap().status == 200
    }

    fn wait_until_opened(&self, name: &str) {
        let until = Instant::now() + WAIT;
        while self.post(name).status != 200 {
            assert!(Instant::now() < until, "{name} is never opened");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn post(server: &Server, folder: &Path, name: &str) -> Answer {
    let token = token(folder, name);
    Request::post("/visa", format!(r#"{{"encData":"{token}"}}"#)).send(server.address()).unwrap()
}

fn is_unavailable(answer: &Answer) -> bool {
    (answer.status, answer.text().as_str()) == (503, r#"{"error":"SERVICE_UNAVAILABLE"}"#)
}

#[test]
fn a_broker_opens_for_the_gateway_whose_memory_never_has_the_private_key() {
    let folder = tempfile::tempdir().unwrap();
    let (_place, broker, prime) = start_broker(folder.path());
    let service = Upstream::answering(echo).unwrap();
    let config = config(&service, &keys(&broker), "[one, two]");
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    for name in ["one", "two"] {
        let answer = post(&server, folder.path(), name);
        assert_eq!((answer.status, answer.header("x-wire")), (200, Some("mle:visa")), "{}", answer.text());
        assert_eq!(opened(folder.path(), &answer), PLAIN, "{name}");
        assert_eq!(service.next().unwrap().1, PLAIN);
    }
    assert_eq!(metric(&server, "sealway_mle_broker_calls_total", &["key=\"one\"", "result=\"ok\""]), Some(1.0));
    // A token that was changed is rejected as one of a key in a file is, and the service hears nothing.
    let token = token(folder.path(), "one");
    for index in [1, 3, 4] {
        let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
        let other = if parts[index].starts_with('A') { "B" } else { "A" };
        parts[index].replace_range(..1, other);
        let changed = format!(r#"{{"encData":"{}"}}"#, parts.join("."));
        let answer = Request::post("/visa", changed).send(server.address()).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (400, r#"{"error":"CRYPTO_ERROR"}"#), "part {index}");
    }
    assert!(service.is_untouched());
    // The search must find the key where it is known to be.
    assert!(memory_holds(broker.id(), &[&prime]).unwrap(), "the search finds nothing, not even in the broker");
    let reversed: Vec<u8> = prime.iter().rev().copied().collect();
    assert!(!memory_holds(server.id(), &[&prime, &reversed]).unwrap());
}

#[test]
fn a_broker_that_crashes_under_load_gives_no_wrong_answer_and_the_work_goes_on() {
    let mut ground = ground();
    let (to, folder) = (ground.server.address(), ground.folder.path().to_owned());
    let (stop, opened_count, unavailable) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let more = |count: usize| {
        let (want, until) = (opened_count.load(Ordering::Relaxed) + count, Instant::now() + WAIT);
        while opened_count.load(Ordering::Relaxed) < want {
            assert!(Instant::now() < until, "the work does not go on");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = ["one", "two", "one"]
            .map(|name| {
                let (folder, stop, opened_count, unavailable) = (&folder, &stop, &opened_count, &unavailable);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let body = format!(r#"{{"encData":"{}"}}"#, token(folder, name));
                        let answer = Request::post("/visa", body).send(to).unwrap();
                        if is_unavailable(&answer) {
                            unavailable.fetch_add(1, Ordering::Relaxed);
                        } else {
                            assert_eq!(answer.status, 200, "{}", answer.text());
                            assert_eq!(opened(folder, &answer), PLAIN);
                            opened_count.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .into();
        for _ in 0..3 {
            more(10);
            ground.broker.kill().unwrap();
            ground.broker.start_again().unwrap();
        }
        more(10);
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    println!("{opened_count:?} opened, {unavailable:?} unavailable");
    // Away for longer than a call waits: a typed answer, and everything else is served.
    ground.broker.kill().unwrap();
    let answer = ground.post("one");
    assert!(is_unavailable(&answer), "{} {}", answer.status, answer.text());
    assert!(ground.plain_is_served());
    let failed = metric(&ground.server, "sealway_mle_broker_calls_total", &["key=\"one\"", "result=\"failed\""]);
    assert!(failed.is_some_and(|failed| failed >= 1.0), "{failed:?}");
    ground.broker.start_again().unwrap();
    ground.wait_until_opened("one");
}

#[test]
fn a_broker_that_stands_still_holds_up_its_own_messages_and_for_a_bounded_time() {
    let ground = ground();
    ground.wait_until_opened("one");
    ground.broker.signal(Signal::STOP).unwrap();
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..8).map(|_| scope.spawn(|| ground.post("one"))).collect();
        for _ in 0..20 {
            assert!(ground.plain_is_served());
        }
        for answer in waiting {
            let answer = answer.join().unwrap();
            assert!(is_unavailable(&answer), "{} {}", answer.status, answer.text());
        }
    });
    ground.broker.signal(Signal::CONT).unwrap();
    ground.wait_until_opened("one");
}

#[test]
fn a_wrong_profile_key_or_certificate_is_named_at_a_start_and_at_a_reload() {
    let mut ground = ground();
    let socket = ground.broker.socket();
    let good = broker_key(&socket, "one", "");
    let place = format!("mle_keys.one.broker: the broker at {}, key ", socket.display());
    for (from, to, said) in [
        ("profile: Unwrap", "profile: Sha256", "profile: Sha256 has no Unwrap"),
        ("profile: Unwrap", "profile: None", "there is no profile: None"),
        ("key: card", "key: absent", "there is no key: absent"),
        ("key: card", "key: signs", "a key of ecdsa-p256, the profile wants rsa-unwrap"),
        ("one.cert.pem", "caller.cert.pem", "no enabled version of the key is that of the certificate"),
        ("key: card", "key: card, uid: 4294967", "not user 4294967's"),
    ] {
        let key = good.replace(from, to);
        let config = config(&ground.service, &format!("  one: {key}"), "[one]");
        let line = reload(&mut ground.server, &config, "configuration not reloaded").to_string();
        assert!(line.contains(&place) && line.contains(said), "{said:?} is not in {line}");
        assert_eq!(ground.post("one").status, 200, "the keys in force stay: {said}");
        // A broker that another user runs may be one that is not up yet: a start waits for it.
        if !to.contains("uid") {
            let err = Launch::new(BINARY, &config).folder(ground.folder.path()).start().unwrap_err().to_string();
            assert!(err.contains(&place) && err.contains(said), "{said:?} is not in {err}");
        }
    }
    for (key, said) in [
        (good.replace("certificate: one.cert.pem, ", ""), "mle_keys.one: expected certificate"),
        (good.replace("{ broker", "{ file: caller.key.pem, broker"), "mle_keys.one: expected one of: file, broker"),
        (good.replace("profile: Unwrap", "profile: ''"), "mle_keys.one.broker.profile: expected 1 to 64 bytes"),
        (good.replace("one.cert.pem", "caller.key.pem"), "mle_keys.one.certificate"),
        (good.replace("one.cert.pem", "absent.pem"), "absent.pem"),
    ] {
        let config = config(&ground.service, &format!("  one: {key}"), "[one]");
        let line = reload(&mut ground.server, &config, "configuration not reloaded").to_string();
        assert!(line.contains(said), "{said:?} is not in {line}");
    }
}

#[test]
fn versions_follow_their_certificates_and_a_reload_without_the_broker_keeps_them() {
    let mut ground = ground();
    let both = config(&ground.service, &keys(&ground.broker), "[one, two]");
    // A rotation in the broker makes a third version the current one; both certificates keep theirs.
    block_on(async { client(&ground.broker).rotate_key("card", b"").await.unwrap() });
    reload(&mut ground.server, &both, "configuration reloaded");
    assert_eq!((ground.post("one").status, ground.post("two").status), (200, 200));
    ground.broker.kill().unwrap();
    reload(&mut ground.server, &both, "configuration reloaded");
    let key = broker_key(&ground.broker.socket(), "one", "");
    let other = config(&ground.service, &format!("  another: {key}"), "[another]");
    let line = reload(&mut ground.server, &other, "configuration not reloaded").to_string();
    assert!(line.contains("mle_keys.another.broker: the broker at"), "a key that was never tried: {line}");
    ground.broker.start_again().unwrap();
    ground.wait_until_opened("two");
    // A version that is disabled serves no more, and the next reload says so.
    block_on(async { client(&ground.broker).disable_key("card", 1).await.unwrap() });
    assert!(is_unavailable(&ground.post("one")));
    assert_eq!(ground.post("two").status, 200);
    let line = reload(&mut ground.server, &both, "configuration not reloaded").to_string();
    assert!(line.contains("no enabled version of the key is that of the certificate"), "{line}");
}
