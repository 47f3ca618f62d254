//! Keys that are added, preferred and retired again and again while clients send with caches of every age. The gateway's clock is a test's.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sealway_client::{Body, Client, OneShot, OneShotTrust};
use sealway_gateway::one_shot::{Form, Key, KeyFile, Lifetime, Purpose};
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::hpke::Kem;
use sealway_sessions::identity::Root;
use sealway_testkit::fleet::is_full;
use sealway_testkit::process::Server;
use sealway_testkit::raw_http::Answer;
use sealway_testkit::wire_client::{now_ms, random};

use super::modes::{Keys, Message, Mode, PublishedKeys};
use super::{Fleet, Store, exchange, set_clock};
use crate::ehbp::one_shot_keys;
use crate::reload::reload;
use crate::upstreams::until;

/// `one_shot.max_age_sec` of the configuration, in milliseconds.
const MAX_AGE_MS: u64 = 60_000;
/// Time for which a key is accepted after its publication: longer than a cache's age and what a request takes.
const GRACE_MS: u64 = 120_000;
/// Step of the gateway's clock, in milliseconds.
const STEP_MS: u64 = 15_000;
/// Steps from the publication of a key until it is preferred.
const STEPS: usize = 9;
const CLIENTS: usize = 2;
/// Requests that a client seals by the same clock and sends at once.
const BATCH: usize = 14;
/// Longest wait for clients that send all the time.
const WAIT: Duration = Duration::from_secs(300);
const USES: [Purpose; 3] = [Purpose::Hpke, Purpose::Ohttp, Purpose::Ehbp];
const KEMS: [Kem; 3] = [Kem::X25519, Kem::P256, Kem::XWing];

/// The time of a gateway, which a test moves.
struct Clock {
    file: PathBuf,
    ahead_ms: AtomicI64,
}

impl Clock {
    fn now_ms(&self) -> u64 {
        now_ms().saturating_add_signed(self.ahead_ms.load(Ordering::SeqCst))
    }

    fn step(&self, by_ms: u64) {
        let ahead_ms = self.ahead_ms.load(Ordering::SeqCst) + i64::try_from(by_ms).unwrap();
        set_clock(&self.file, ahead_ms);
        self.ahead_ms.store(ahead_ms, Ordering::SeqCst);
    }
}

/// Keys as clients fetched them, each with a time before that.
type Caches = RwLock<Vec<(u64, PublishedKeys)>>;

/// Access of an operator to the keys of a gateway.
struct Operator<'a> {
    clock: &'a Clock,
    server: &'a mut Server,
    config: String,
    file: PathBuf,
    caches: &'a Caches,
    /// The end of each key's acceptance, by its configuration.
    ends_ms: HashMap<Vec<u8>, u64>,
    added: usize,
}

impl Operator<'_> {
    /// Changes the key file, and waits until the gateway has read it.
    fn change(&mut self, change: impl FnOnce(&mut KeyFile, u64)) {
        let mut keys = KeyFile::read(default_provider(), &self.file).unwrap();
        change(&mut keys, self.clock.now_ms());
        keys.replace(&self.file).unwrap();
        self.ends_ms.extend(keys.keys().map(|key| (key.encoded().to_vec(), key.times().accepted_until_ms)));
        reload(self.server, &self.config, "configuration reloaded");
        self.fetch();
    }

    fn fetch(&self) {
        let at_ms = self.clock.now_ms();
        let published = PublishedKeys::fetch(self.server.address());
        self.caches.write().unwrap().push((at_ms, published));
    }

    fn step(&self, by_ms: u64) {
        self.clock.step(by_ms);
        self.fetch();
    }

    /// Adds a key of each use.
    fn add(&mut self) {
        let added = self.added;
        self.change(|keys, now_ms| {
            let days_ms = 86_400_000;
            let life = Lifetime { now_ms, from_ms: now_ms, days_ms, max_age_ms: MAX_AGE_MS, grace_ms: GRACE_MS };
            for purpose in USES {
                let kem = if purpose == Purpose::Ehbp { Kem::X25519 } else { KEMS[added % KEMS.len()] };
                keys.generate(default_provider(), Form { purpose, kem, key_id: None }, life).unwrap();
            }
        });
        self.added += 1;
    }

    /// Retires the oldest published key of each use, and returns these keys with the end of their acceptance.
    fn retire(&mut self) -> (Keys, u64) {
        let mut retired = Vec::new();
        self.change(|keys, now_ms| {
            for purpose in USES {
                let is_old = |key: &Key| key.purpose() == purpose && key.times().is_published(now_ms);
                let name = keys.keys().find(|key| is_old(key)).unwrap().name().to_owned();
                let key = keys.retire(default_provider(), &name, (now_ms, GRACE_MS), now_ms, false);
                retired.push(key.unwrap().unwrap());
            }
        });
        let [hpke, ohttp, ehbp] = [0, 1, 2].map(|at| retired[at].config().clone());
        (Keys { hpke, ohttp, ehbp }, retired[0].times().accepted_until_ms)
    }
}

/// Returns whether an answer is the problem of a mode which says that the client's key is not accepted.
fn is_key_problem(mode: Mode, answer: &Answer) -> bool {
    let (status, problem) = (answer.status, answer.json());
    match mode {
        Mode::Base | Mode::Psk => {
            let keys = problem["key_document"]["keys"].as_array();
            status == 409 && problem["code"] == "key_retired" && keys.is_some_and(|keys| !keys.is_empty())
        }
        Mode::Ehbp => status == 422 && problem["type"] == "urn:ietf:params:ehbp:error:key-config",
        _ => status == 400 && problem["type"] == "https://iana.org/assignments/http-problem-types#ohttp-key",
    }
}

/// Sends a request of each mode, and returns how many were served. The others got the problem of their mode.
fn send_each(to: SocketAddr, keys: &Keys, now_ms: u64) -> usize {
    let messages = Mode::ALL.map(|mode| keys.seal(mode, &[b"rotation"], now_ms));
    let requests = messages.each_ref().map(Message::bytes);
    let mut served = 0;
    exchange(to, &requests, |index, answer| {
        let message = &messages[index];
        let is_served = message.status(&answer) == 200;
        assert!(is_served || is_key_problem(message.mode, &answer), "{:?}: {}", message.mode, answer.text());
        served += usize::from(is_served);
    });
    served
}

/// Ends the clients, also where the test fails.
struct EndGuard<'a>(&'a AtomicBool);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Sends a batch of requests of every mode, each with a cache of another age.
fn send_batch(to: SocketAddr, clock: &Clock, caches: &Caches) {
    let now_ms = clock.now_ms();
    let messages: Vec<Message> = {
        let caches = caches.read().unwrap();
        let young: Vec<_> = caches.iter().filter(|(at_ms, _)| now_ms.saturating_sub(*at_ms) <= MAX_AGE_MS).collect();
        let seal = |number: usize| {
            let [which, pick] = [0; 2].map(|_: u8| u32::from_le_bytes(random()) as usize);
            let (_, published) = young[which % young.len()];
            let mode = Mode::ALL[number % Mode::ALL.len()];
            published.choose(now_ms, pick).seal(mode, &[b"rotation"], now_ms)
        };
        (0..BATCH).map(seal).collect()
    };
    let requests: Vec<Vec<u8>> = messages.iter().map(Message::bytes).collect();
    exchange(to, &requests, |index, answer| {
        let message = &messages[index];
        assert_eq!(message.status(&answer), 200, "{:?}: {}", message.mode, answer.text());
    });
}

#[test]
fn no_request_fails_while_keys_are_added_preferred_and_retired_whatever_the_age_of_a_cache() {
    let (requests, rotations) = if is_full() { (100_000, 40) } else { (1500, 3) };
    let mut fleet = Fleet::start_with_clocks(1, Store::Embedded);
    let clock = Clock { file: fleet.place(0).join("clock"), ahead_ms: AtomicI64::new(0) };
    let (config, file, to, caches) = (fleet.config(), fleet.keys().into(), fleet.address(0), Caches::default());
    let (server, ends_ms) = (&mut fleet.servers[0], HashMap::new());
    let mut operator = Operator { clock: &clock, server, config, file, caches: &caches, ends_ms, added: 0 };
    operator.add();
    operator.add();
    (0..STEPS).for_each(|_| operator.step(STEP_MS));
    // By client, the number of batches that were answered.
    let batches: Vec<AtomicUsize> = (0..CLIENTS).map(|_| AtomicUsize::new(0)).collect();
    let done = || batches.iter().map(|count| count.load(Ordering::SeqCst)).collect::<Vec<_>>();
    let total = || done().iter().sum::<usize>() * BATCH;
    let (began, is_over) = (Instant::now(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _guard = EndGuard(&is_over);
        let clients: Vec<_> = batches
            .iter()
            .map(|count| {
                let (clock, caches, is_over) = (&clock, &caches, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::SeqCst) {
                        send_batch(to, clock, caches);
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let pace = |share: usize| {
            // No batch spans more than two steps, whatever a busy machine does to a client.
            let (before, until) = (done(), Instant::now() + WAIT);
            while total() < share || done().iter().zip(&before).any(|(now, then)| now == then) {
                assert!(clients.iter().all(|client| !client.is_finished()), "a client has failed");
                assert!(Instant::now() < until, "{} requests are answered, and no more", total());
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        for rotation in 0..rotations {
            operator.add();
            for step in 1..=STEPS {
                operator.step(STEP_MS);
                pace(requests * (rotation * STEPS + step) / (rotations * STEPS));
            }
            operator.retire();
            pace(0);
        }
    });
    println!("{} requests, {rotations} rotations, 0 failed, in {:?}", total(), began.elapsed());
    // A client whose cache is too old gets the problem of its mode, and no other.
    let (keys, end_ms) = operator.retire();
    operator.step(end_ms - 30_000 - clock.now_ms());
    assert_eq!(send_each(to, &keys, clock.now_ms()), Mode::ALL.len(), "the keys are still accepted");
    operator.step(end_ms + 1 - clock.now_ms());
    assert_eq!(send_each(to, &keys, clock.now_ms()), 0, "the keys are over");
    let (mut served, mut rejected) = (0, 0);
    for (at_ms, published) in &*caches.read().unwrap() {
        let (keys, now_ms) = (published.choose(*at_ms, 0), clock.now_ms());
        let is_over = |mode: &Mode| operator.ends_ms[&keys.of(*mode).encode()] <= now_ms;
        let over = Mode::ALL.iter().filter(|mode| is_over(mode)).count();
        assert_eq!(send_each(to, &keys, now_ms), Mode::ALL.len() - over, "keys fetched at {at_ms}");
        (served, rejected) = (served + Mode::ALL.len() - over, rejected + over);
    }
    println!("with caches of every age: {served} served, {rejected} rejected for their key");
    assert!(served > 0 && rejected > 0);
}

/// Sends a request without a body, or with one.
async fn call(client: &OneShot, request: http::request::Builder, body: &str) -> Result<String, String> {
    let request = request.uri("/pay").body(Body::from(body.to_owned())).unwrap();
    let answer = client.send(request).await.map_err(|err| err.code().to_owned())?;
    let bytes = answer.into_body().bytes().await.unwrap();
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn a_client_whose_key_was_retired_succeeds_by_one_retry_with_the_signed_document() {
    let fleet = Fleet::start(1, Store::Embedded);
    let (file, root_file) = (fleet.keys(), fleet.folder.path().join("root.key"));
    let root =
        Root::generate(default_provider(), default_identity_library(), SignatureAlgorithm::Es256, &root_file).unwrap();
    let sign = || one_shot_keys(&["sign", &file, "--root", root_file.to_str().unwrap(), "--expires-in", "1d"]);
    let document = || {
        let answer = sealway_testkit::raw_http::Request::get("/.well-known/sealway-hpke-keys");
        answer.send(fleet.address(0)).unwrap().json()
    };
    sign();
    until("the document is signed", || document()["root_key_id"].is_string());
    let url = format!("http://{}", fleet.address(0));
    let client = || Client::builder(&url).one_shot(OneShotTrust::Root(root.public().into())).unwrap();
    let (reader, payer) = (client(), client());
    for client in [&reader, &payer] {
        assert_eq!(call(client, http::Request::post("/"), "before").await.as_deref(), Ok("before"));
    }
    let old = document()["keys"][0]["config"].clone();
    let listed = one_shot_keys(&["list", &file]);
    let name = listed.lines().find(|line| line.contains(" hpke ")).unwrap().split_whitespace().next().unwrap();
    one_shot_keys(&["add", &file, "--use", "hpke", "--kem", "x25519", "--days", "2"]);
    one_shot_keys(&["retire", &file, name, "--now"]);
    sign();
    until("the successor is published", || document()["keys"][0]["config"] != old);
    // A safe method is sent again by the client, once; another one by its caller, who knows that it was not executed.
    assert_eq!(call(&reader, http::Request::get("/"), "").await.as_deref(), Ok(""));
    assert_eq!(call(&payer, http::Request::post("/"), "after").await, Err("key_retired".into()));
    assert_eq!(fleet.service.times(b"after"), 0);
    assert_eq!(call(&payer, http::Request::post("/"), "after").await.as_deref(), Ok("after"));
    assert_eq!((fleet.service.times(b""), fleet.service.times(b"after")), (1, 1));
}
