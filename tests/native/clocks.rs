//! Clocks of wire 3: a server whose clock is off by up to a day, and steps while sessions are open. Clients stamp by the server's
//! clock and need none of their own. `spec/session-3.md#init`, `#problems`.

use std::path::PathBuf;

use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::session::native::{KeySet, Problem, Suite};
use sealway_proto::wire::base64;
use sealway_sessions::identity::KeyFile;
use sealway_testkit::fleet::clock_library;
use sealway_testkit::native_client::{Link, NativeSession, WITH_KEY_FILE, key_set, offer, open};
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Answer;
use sealway_testkit::wire_client::{ORDER, PURCHASE, now_ms};

use crate::BINARY;

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 1_440 * MINUTE_MS;
/// The default window: the largest difference between a stamp and the server's clock, in milliseconds.
const WINDOW_MS: u64 = 300_000;

struct ClockedServer {
    server: Server,
    clock: PathBuf,
    link: Link,
    trusted: KeySet,
    _folder: tempfile::TempDir,
}

impl ClockedServer {
    fn start(ahead_ms: i64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (now, day) = (now_ms(), DAY_MS.unsigned_abs());
        let mut keys = KeyFile::default();
        let (from, to) = (now - 5 * day, now + 5 * day);
        keys.generate(default_provider(), default_identity_library(), SignatureAlgorithm::Es256, from, to, from)
            .unwrap();
        keys.create(&folder.path().join("identity.keys")).unwrap();
        let clock = folder.path().join("clock");
        write(&clock, ahead_ms);
        let server = Launch::new(BINARY, WITH_KEY_FILE)
            .folder(folder.path())
            .env("LD_PRELOAD", &clock_library().unwrap().to_string_lossy())
            .env("FAKETIME_TIMESTAMP_FILE", &clock.to_string_lossy())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .start()
            .unwrap();
        let trusted = key_set(server.address()).unwrap();
        let link = Link::new(server.address());
        ClockedServer { server, clock, link, trusted, _folder: folder }
    }

    fn step(&self, ahead_ms: i64) {
        write(&self.clock, ahead_ms);
    }

    fn agree(&mut self) -> NativeSession {
        let mut offer = offer(Suite::X25519MlKem768, &[]);
        offer.ttl_sec = Some(7200);
        NativeSession::open_as(&mut self.link, &self.trusted, offer).unwrap()
    }

    /// Makes a call with this stamp, which is rejected for it. Returns the server's time, as its proof states it.
    fn skewed(&mut self, agreed: &NativeSession, stamp_ms: u64) -> u64 {
        let (request, pending) = agreed.seal_as("POST", PURCHASE, &[], &[ORDER], stamp_ms);
        let answer = self.link.send(&request).unwrap();
        let problem = problem(&answer, "clock_skew", 400);
        let time_ms = problem.more["server_time_ms"].as_u64().unwrap();
        let mac = base64::decode_array(problem.more["mac"].as_str().unwrap()).unwrap();
        let (stamp, nonce) = pending.stamp_and_nonce();
        let verifies = |stamp: &str, nonce: &str, time_ms| {
            agreed.session.verifies_clock(default_agreement_provider(), stamp, nonce, time_ms, &mac)
        };
        assert!(verifies(stamp, nonce, time_ms));
        // The proof covers this time in answer to this request, and nothing else.
        assert!(
            !verifies(stamp, nonce, time_ms + 1) && !verifies("1", nonce, time_ms) && !verifies(stamp, "1", time_ms)
        );
        time_ms
    }

    fn call(&mut self, agreed: &NativeSession, stamp_ms: u64) {
        let (request, pending) = agreed.seal_as("POST", PURCHASE, &[], &[ORDER], stamp_ms);
        let answer = self.link.send(&request).unwrap();
        let opened = open(&pending, &answer);
        assert!(opened.is_ok(), "{:?}: {} {}", opened.err(), answer.status, answer.text());
    }
}

/// Writes the offset and renames the file into place: a half-written offset would be another time.
fn write(clock: &std::path::Path, ahead_ms: i64) {
    let ms = ahead_ms.unsigned_abs();
    let text = format!("{}{}.{:03}", if ahead_ms < 0 { '-' } else { '+' }, ms / 1000, ms % 1000);
    std::fs::write(clock.with_extension("new"), text).unwrap();
    std::fs::rename(clock.with_extension("new"), clock).unwrap();
}

fn problem(answer: &Answer, code: &str, status: u16) -> Problem {
    let problem = Problem::parse(answer.status, &answer.body).unwrap_or_else(|| panic!("{}", answer.text()));
    assert_eq!((problem.code.as_str(), answer.status), (code, status), "{}", answer.text());
    problem
}

/// Compares times roughly: a machine may be slow, but not by this much.
fn is_about(time_ms: u64, ahead_ms: i64) -> bool {
    time_ms.abs_diff(now_ms().saturating_add_signed(ahead_ms)) < 60_000
}

#[test]
fn a_server_whose_clock_is_off_is_called_without_any_skew_and_a_stamp_that_is_off_is_put_right_in_one_step() {
    for ahead_ms in [-DAY_MS, -60 * MINUTE_MS, -6 * MINUTE_MS, 0, 6 * MINUTE_MS, 60 * MINUTE_MS, DAY_MS] {
        let mut clocked = ClockedServer::start(ahead_ms);
        let agreed = clocked.agree();
        assert!(is_about(agreed.session.agreed().server_time_ms, ahead_ms), "{ahead_ms}");
        for _ in 0..5 {
            clocked.call(&agreed, agreed.stamp_ms());
        }
        // A client that stamps by its own clock, which is off in either direction.
        let day = DAY_MS.unsigned_abs();
        for off in [WINDOW_MS + 60_000, 3_600_000, day] {
            for stamp_ms in [agreed.stamp_ms() - off, agreed.stamp_ms() + off] {
                let time_ms = clocked.skewed(&agreed, stamp_ms);
                assert!(is_about(time_ms, ahead_ms), "{ahead_ms}");
                clocked.call(&agreed, time_ms);
            }
        }
        assert!(clocked.server.stop().unwrap().success());
    }
}

#[test]
fn a_step_of_the_servers_clock_in_a_session_is_healed_by_its_proven_time_or_ends_the_session() {
    let mut clocked = ClockedServer::start(0);
    let agreed = clocked.agree();
    let (early, pending) = agreed.seal("POST", PURCHASE, &[ORDER]);
    assert!(open(&pending, &clocked.link.send(&early).unwrap()).is_ok());
    for ahead_ms in [4, -4, 10, -10, 20, -60, -1440, 0].map(|minutes| minutes * MINUTE_MS) {
        clocked.step(ahead_ms);
        if ahead_ms.unsigned_abs() < WINDOW_MS {
            clocked.call(&agreed, agreed.stamp_ms());
            continue;
        }
        let time_ms = clocked.skewed(&agreed, agreed.stamp_ms());
        assert!(is_about(time_ms, ahead_ms), "{ahead_ms}");
        clocked.call(&agreed, time_ms);
    }
    // The clock is right again, and claims from before its step are still in force.
    problem(&clocked.link.send(&early).unwrap(), "replayed", 409);
    // A day ahead, the session has expired.
    clocked.step(DAY_MS);
    let request = agreed.seal("POST", PURCHASE, &[ORDER]).0;
    let answer = clocked.link.send(&request).unwrap();
    // The answer is not signed: earlier clients took it for permission to retry a purchase.
    assert!(problem(&answer, "session_expired", 401).more.is_empty());
    let again = clocked.agree();
    clocked.call(&again, again.stamp_ms());
    assert!(clocked.server.stop().unwrap().success());
}
