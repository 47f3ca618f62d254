//! Tokens that are removed, locked, full, slow or failing, and hosts that are killed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sealway_awslc::{Hash as Digest, PublicKey, Scheme as Verified};
use sealway_pkcs11::{Caller, Fault, Generate, Hash, KeyName, Signing, Token};
use sealway_testkit::softhsm::{PIN, SoftHsm};

use crate::{PATIENCE, ready, start};

const SIGNING: Signing = Signing::Ecdsa(Hash::Sha256, 32);

fn key(token: &Token) -> (KeyName, PublicKey) {
    let key = token.generate("key", Generate::P256, 0).unwrap();
    let public = PublicKey::from_spki(&token.public_key(&key).unwrap()).unwrap();
    (key, public)
}

/// Waits until a condition of the token holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn works(token: &Token, key: &KeyName, public: &PublicKey) {
    until("the token signs again", || match token.sign(key, SIGNING, b"again") {
        Ok(signature) => {
            public.verify(Verified::Ecdsa(Digest::Sha256), b"again", &signature).unwrap();
            true
        }
        Err(_) => false,
    });
}

#[test]
fn a_removed_token_is_absent_until_it_is_back() {
    let hsm = SoftHsm::new().unwrap();
    let token = ready(&hsm, hsm.module(), PATIENCE);
    let (key, public) = key(&token);
    hsm.remove().unwrap();
    until("the token is absent", || token.health().is_err_and(|err| err.fault == Fault::TokenAbsent));
    assert_eq!(token.sign(&key, SIGNING, b"x").unwrap_err().fault, Fault::TokenAbsent);
    hsm.put_back().unwrap();
    works(&token, &key, &public);
}

#[test]
fn a_wrong_pin_is_tried_once_and_a_changed_file_is_used() {
    let hsm = SoftHsm::new().unwrap();
    let shim = hsm.shim().unwrap();
    hsm.set_pin_file("wrong-pin").unwrap();
    let token = start(&hsm, &shim, PATIENCE);
    until("the PIN is wrong", || token.health().is_err_and(|err| err.fault == Fault::PinWrong));
    assert_eq!(token.sign(&KeyName::default(), SIGNING, b"x").unwrap_err().fault, Fault::PinWrong);
    let logins = hsm.logins();
    // Several back-offs pass.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(hsm.logins(), logins, "a rejected PIN was tried again");
    hsm.set_pin_file(PIN).unwrap();
    until("the new PIN is used", || token.health().is_ok());
    assert_eq!(hsm.logins(), logins + 1);
}

#[test]
fn a_pin_that_the_token_answers_as_locked_is_not_tried_again() {
    let hsm = SoftHsm::new().unwrap();
    let shim = hsm.shim().unwrap();
    hsm.fail("locked").unwrap();
    let token = start(&hsm, &shim, PATIENCE);
    until("it is locked", || token.health().is_err_and(|err| err.fault == Fault::PinLocked));
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(hsm.logins(), 1);
    assert_eq!(token.health().unwrap_err().fault, Fault::PinLocked);
}

#[test]
fn a_login_that_fails_for_another_reason_is_tried_again_after_seconds() {
    let hsm = SoftHsm::new().unwrap();
    let shim = hsm.shim().unwrap();
    hsm.fail("login").unwrap();
    let token = start(&hsm, &shim, PATIENCE);
    until("the login fails", || token.health().is_err_and(|err| err.fault == Fault::Login));
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(hsm.logins(), 1);
    hsm.fail("").unwrap();
    until("it logs in", || token.health().is_ok());
    assert_eq!(hsm.logins(), 2);
}

#[test]
fn a_caller_with_many_calls_at_a_slow_token_neither_takes_all_places_nor_starves_another_one() {
    let hsm = SoftHsm::new().unwrap();
    let shim = hsm.shim().unwrap();
    let token = ready(&hsm, &shim, Duration::from_secs(30));
    let (key, public) = key(&token);
    hsm.fail("late").unwrap();
    let (greedy, other) = (Caller { user: 1, process: 1 }, Caller { user: 2, process: 1 });
    let shares = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..80 {
            scope.spawn(|| match greedy.run(|| token.sign(&key, SIGNING, b"x")) {
                Ok(_) => {}
                Err(err) => {
                    assert_eq!(err.fault, Fault::Share, "{err}");
                    shares.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Four sessions work, 64 calls wait, and the others are rejected.
        until("the greedy caller has its share", || shares.load(Ordering::Relaxed) >= 8);
        let begin = Instant::now();
        let signature = other.run(|| token.sign(&key, SIGNING, b"y")).unwrap();
        public.verify(Verified::Ecdsa(Digest::Sha256), b"y", &signature).unwrap();
        // One operation before it, and its own; behind all of the other's it were more than 6 s.
        assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
        hsm.fail("").unwrap();
    });
}

#[test]
fn a_token_without_sessions_says_so_and_works_once_it_has_some() {
    let hsm = SoftHsm::new().unwrap();
    let shim = hsm.shim().unwrap();
    hsm.fail("sessions").unwrap();
    let token = start(&hsm, &shim, PATIENCE);
    until("it has no session", || token.health().is_err_and(|err| err.fault == Fault::SessionCount));
    hsm.fail("").unwrap();
    until("it has sessions", || token.health().is_ok());
    // Sessions of operations, while the login holds: the host goes on.
    let (key, public) = key(&token);
    let host = token.host_id();
    works(&token, &key, &public);
    assert_eq!(token.host_id(), host);
}

#[test]
fn a_hanging_or_failing_module_costs_its_operations_one_error_each() {
    let hsm = SoftHsm::new().unwrap();
    let shim = hsm.shim().unwrap();
    let token = ready(&hsm, &shim, Duration::from_secs(5));
    let (key, public) = key(&token);
    for (word, fault) in [("slow", Fault::Timeout), ("crash", Fault::HostDied), ("device", Fault::Device)] {
        works(&token, &key, &public);
        hsm.fail(word).unwrap();
        let begin = Instant::now();
        let err = token.sign(&key, SIGNING, b"x").unwrap_err();
        assert_eq!(err.fault, fault, "{word}: {err}");
        assert!(begin.elapsed() < Duration::from_secs(30), "{word}");
        hsm.fail("").unwrap();
    }
    works(&token, &key, &public);
}

#[test]
fn twenty_killed_hosts_under_load_cause_no_wrong_answer() {
    let hsm = SoftHsm::new().unwrap();
    let token = ready(&hsm, hsm.module(), PATIENCE);
    let (key, public) = key(&token);
    let (stop, good, failed) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (token, key, public, stop, good, failed) = (&token, &key, &public, &stop, &good, &failed);
            scope.spawn(move || {
                for number in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let message = [&[thread], number.to_be_bytes().as_slice()].concat();
                    match token.sign(key, SIGNING, &message) {
                        Ok(signature) => {
                            public.verify(Verified::Ecdsa(Digest::Sha256), &message, &signature).unwrap();
                            good.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(err) => {
                            assert!(matches!(err.fault, Fault::HostDied | Fault::NotReady), "{err}");
                            failed.fetch_add(1, Ordering::Relaxed);
                            // A caller that backs off a little.
                            std::thread::sleep(Duration::from_millis(5));
                        }
                    }
                }
            });
        }
        for round in 0..20 {
            let before = good.load(Ordering::Relaxed);
            until("signatures under load", || good.load(Ordering::Relaxed) > before + 10);
            let id = i32::try_from(token.host_id().unwrap()).unwrap();
            let pid = rustix::process::Pid::from_raw(id).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            until("another host", || token.host_id().is_some_and(|now| i32::try_from(now).unwrap() != id));
            assert!(round < 20);
        }
        works(&token, &key, &public);
        stop.store(true, Ordering::Relaxed);
    });
    assert!(good.load(Ordering::Relaxed) > 200);
}

#[test]
fn the_pin_is_in_no_argument_or_environment_and_the_host_leaves_no_core() {
    let hsm = SoftHsm::new().unwrap();
    let token = ready(&hsm, hsm.module(), PATIENCE);
    let folder = std::path::PathBuf::from(format!("/proc/{}", token.host_id().unwrap()));
    for file in ["cmdline", "environ"] {
        let text = std::fs::read(folder.join(file)).unwrap_or_default();
        assert!(!text.windows(PIN.len()).any(|window| window == PIN.as_bytes()), "{file}");
    }
    let limits = std::fs::read_to_string(folder.join("limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{core}");
    // A process that may not be dumped belongs to root in /proc; a test that runs as root sees no difference there.
    drop(token);
    until("the host ends with its token", || !folder.exists());
}
