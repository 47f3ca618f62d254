//! Ten rotations of identity keys while sessions are opened and used: no call fails. A client that pins a retired key learns the
//! current keys. `spec/session-3.md#identity-keys`.
//!
//! The long form, `SEALWAY_FAULTS=full`, makes 100 000 calls.
#![allow(clippy::print_stdout, reason = "how much was done, for who looks")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::session::native::{KeyId, KeySet, Problem, Suite};
use sealway_sessions::identity::KeyFile;
use sealway_testkit::fleet::is_full;
use sealway_testkit::native_client::{Link, NativeSession, WITH_KEY_FILE, init, key_set, offer};
use sealway_testkit::process::Launch;
use sealway_testkit::wire_client::{ORDER, PURCHASE, now_ms};

use crate::BINARY;

const ROTATIONS: u64 = 10;
/// The interval between the starts of two keys, in milliseconds. A server reads its key file every ten seconds, so keys that are
/// added at run time must start later than that.
const EACH_MS: u64 = 3_000;
/// The time for which a key and its successor are both live, in milliseconds: more than any client may sleep between two inits.
const OVERLAP_MS: u64 = 6_000;
/// The number of keys at the start; the others are added under load.
const FIRST: u64 = 6;
const HOUR_MS: u64 = 3_600_000;

/// Adds keys to the file, as `sealway identity generate --not-before … --not-after …` does.
fn add_keys(file: &Path, from_ms: u64, keys: std::ops::Range<u64>) -> Vec<KeyId> {
    let mut held = match file.exists() {
        true => KeyFile::read(default_provider(), default_identity_library(), file).unwrap(),
        false => KeyFile::default(),
    };
    let ids = keys
        .map(|key| {
            let begins = from_ms + key * EACH_MS;
            // The last of the first keys stays until all servers know the others, and the last of all stays.
            let lasts = if key + 1 == FIRST || key == ROTATIONS { HOUR_MS } else { EACH_MS + OVERLAP_MS };
            held.generate(
                default_provider(),
                default_identity_library(),
                SignatureAlgorithm::Es256,
                begins,
                begins + lasts,
                from_ms,
            )
            .unwrap()
        })
        .collect();
    match file.exists() {
        true => held.replace(file).unwrap(),
        false => held.create(file).unwrap(),
    }
    ids
}

/// The state that the clients share, and their counts.
struct Load {
    trusted: Mutex<KeySet>,
    is_over: AtomicBool,
    calls: AtomicUsize,
    inits: AtomicUsize,
    signers: Mutex<BTreeSet<String>>,
    failures: Mutex<Vec<String>>,
}

impl Load {
    fn failed(&self, what: &str, err: &anyhow::Error) {
        self.failures.lock().unwrap().push(format!("{what}: {err:#}"));
    }

    /// A client that has met the service once. From then on it follows the answers, and never fetches the key set again.
    fn agree(&self, link: &mut Link, known: &mut Vec<KeyId>) -> Option<NativeSession> {
        // Sets hold public keys; the client trusts the keys that it pinned.
        let trusted = self.trusted.lock().unwrap().clone();
        let pinned = &known[known.len().saturating_sub(16)..];
        match NativeSession::open_as(link, &trusted, offer(Suite::X25519MlKem768, pinned)) {
            Ok(agreed) => {
                let answer = agreed.session.agreed();
                assert!(pinned.is_empty() || pinned.contains(&answer.key_id));
                let fresh: Vec<_> = answer.key_ids.iter().filter(|id| !known.contains(id)).copied().collect();
                known.extend(fresh);
                self.signers.lock().unwrap().insert(answer.key_id.to_string());
                self.inits.fetch_add(1, Ordering::Relaxed);
                Some(agreed)
            }
            Err(err) => {
                self.failed("init", &err);
                None
            }
        }
    }

    fn run(&self, mut link: Link, calls_each: usize) {
        let mut known = Vec::new();
        let Some(oldest) = self.agree(&mut link, &mut known) else { return };
        while !self.is_over.load(Ordering::Relaxed) {
            let Some(newest) = self.agree(&mut link, &mut known) else { return };
            if !is_full() {
                // The short form leaves processor time to other tests.
                std::thread::sleep(Duration::from_millis(100));
            }
            // The session that was opened under the first key remains usable.
            for session in [&newest, &oldest].into_iter().cycle().take(calls_each) {
                match session.call(&mut link, PURCHASE, &[ORDER]) {
                    Ok((answer, _)) if answer.status == 200 => drop(self.calls.fetch_add(1, Ordering::Relaxed)),
                    Ok((answer, _)) => self.failed("call", &anyhow_of(answer.status)),
                    Err(err) => self.failed("call", &err),
                }
            }
        }
    }
}

fn anyhow_of(status: u16) -> anyhow::Error {
    anyhow::anyhow!("status {status}")
}

#[test]
fn ten_rotations_under_load_fail_no_call_and_a_retired_pin_gets_the_new_keys() {
    let calls_min = if is_full() { 100_000 } else { 3_000 };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("identity.keys");
    let from_ms = now_ms();
    let mut ids = add_keys(&file, from_ms, 0..FIRST);
    let server = Launch::new(BINARY, WITH_KEY_FILE).folder(folder.path()).start().unwrap();
    let to = server.address();
    ids.extend(add_keys(&file, from_ms, FIRST..ROTATIONS + 1));
    let load = Load {
        trusted: Mutex::new(key_set(to).unwrap()),
        is_over: AtomicBool::new(false),
        calls: AtomicUsize::new(0),
        inits: AtomicUsize::new(0),
        signers: Mutex::default(),
        failures: Mutex::default(),
    };
    let last = ids.last().unwrap().to_string();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| load.run(Link::new(to), 10));
        }
        let until = Instant::now() + Duration::from_secs(if is_full() { 1_800 } else { 180 });
        let is_done = || {
            let is_last = load.signers.lock().unwrap().contains(&last);
            (is_last && load.calls.load(Ordering::Relaxed) >= calls_min) || !load.failures.lock().unwrap().is_empty()
        };
        while !is_done() && Instant::now() < until {
            let fresh = key_set(to).unwrap();
            // Expired keys leave the service's set; a client that pinned them can still verify their recent signatures.
            let mut trusted = load.trusted.lock().unwrap();
            for key in fresh.keys {
                if trusted.get(&key.key_id).is_none() {
                    trusted.keys.push(key);
                }
            }
            drop(trusted);
            std::thread::sleep(Duration::from_millis(100));
        }
        load.is_over.store(true, Ordering::Relaxed);
    });
    let (calls, inits) = (load.calls.into_inner(), load.inits.into_inner());
    let (signers, failures) = (load.signers.into_inner().unwrap(), load.failures.into_inner().unwrap());
    println!("{calls} calls and {inits} inits under {} keys, {} failed", signers.len(), failures.len());
    assert!(failures.is_empty(), "{failures:?}");
    // A machine that stood still may have missed a key or two.
    assert!(calls >= calls_min && signers.contains(&last) && signers.len() as u64 > ROTATIONS - 3);
    a_retired_pin_is_told(to, &ids);
}

fn a_retired_pin_is_told(to: std::net::SocketAddr, ids: &[KeyId]) {
    let (_, request) = init(offer(Suite::X25519MlKem768, &ids[..2]));
    let answer = request.send(to).unwrap();
    let problem = Problem::parse(answer.status, &answer.body).unwrap();
    assert_eq!((problem.code.as_str(), answer.status), ("key_retired", 409));
    let told = KeySet::parse(default_agreement_provider(), problem.more["key_set"].to_string().as_bytes()).unwrap();
    assert_eq!(told, key_set(to).unwrap());
    assert!(told.get(ids.last().unwrap()).is_some() && told.get(&ids[0]).is_none());
    // With the set, and one of its keys pinned, the client connects again.
    let pinned = offer(Suite::X25519MlKem768, &[ids[0], *ids.last().unwrap()]);
    let agreed = NativeSession::open_as(&mut Link::new(to), &told, pinned).unwrap();
    assert_eq!(agreed.session.agreed().key_id, *ids.last().unwrap());
}
