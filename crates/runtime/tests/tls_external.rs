//! Listeners whose key is outside this process: one that signs when the test lets it, by real handshakes.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod pki;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use parking_lot::{Condvar, Mutex};
use pki::{Ground, client, meet, server};
use rustls::HandshakeKind;
use sealway_runtime::tls::{AcceptError, ExternalKey, KeyFault, KeyScheme, Server, ServerFiles, Turns};

/// A P-256 key that signs while it is open.
struct SlowKey {
    key: EcdsaKeyPair,
    turns: Arc<Turns>,
    /// Signatures that may be computed.
    allowed: Mutex<usize>,
    changed: Condvar,
    begun: AtomicUsize,
    fault: Mutex<Option<KeyFault>>,
}

impl std::fmt::Debug for SlowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SlowKey")
    }
}

impl ExternalKey for SlowKey {
    fn check(&self, _public: &[u8], _wait: Duration) -> Result<(), KeyFault> {
        self.fault.lock().clone().map_or(Ok(()), Err)
    }

    fn sign(&self, _public: &[u8], scheme: KeyScheme, message: &[u8]) -> Result<Vec<u8>, KeyFault> {
        assert_eq!(scheme, KeyScheme::EcdsaP256);
        self.begun.fetch_add(1, Ordering::Relaxed);
        let mut allowed = self.allowed.lock();
        while *allowed == 0 {
            assert!(!self.changed.wait_for(&mut allowed, Duration::from_secs(60)).timed_out());
        }
        *allowed -= 1;
        self.check(&[], Duration::ZERO)?;
        Ok(self.key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec())
    }

    fn turns(&self) -> Arc<Turns> {
        self.turns.clone()
    }
}

impl SlowKey {
    fn allow(&self, count: usize) {
        *self.allowed.lock() = count;
        self.changed.notify_all();
    }
}

/// The key of the ground's server, which signs `allowed` times.
fn slow_key(ground: &Ground, sessions: usize, allowed: usize) -> Arc<SlowKey> {
    let issued = ground.ca.issue(server("a server"));
    ground.put("server", &issued);
    Arc::new(SlowKey {
        key: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &issued.key.serialize_der()).unwrap(),
        turns: Arc::new(Turns::new(sessions)),
        allowed: Mutex::new(allowed),
        changed: Condvar::new(),
        begun: AtomicUsize::new(0),
        fault: Mutex::default(),
    })
}

fn files(key: &Arc<SlowKey>, files: ServerFiles) -> ServerFiles {
    ServerFiles { key: None, external_key: Some(key.clone()), ..files }
}

#[tokio::test]
async fn a_handshake_costs_one_signature_and_a_resumed_one_none() {
    let ground = Ground::new();
    let key = slow_key(&ground, 1, usize::MAX);
    for files in [files(&key, ground.plain()), files(&key, ground.mutual())] {
        key.begun.store(0, Ordering::Relaxed);
        let listener = ground.load(files);
        let config = ground.client(Some(&ground.ca.issue(client("c"))));
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let met = meet(&listener, &config).await;
            assert_eq!(met.client.clone().unwrap(), kind);
            assert_eq!(met.alpn, None);
            met.server.unwrap();
            assert_eq!(key.begun.load(Ordering::Relaxed), 1, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn the_reactors_only_thread_goes_on_while_keys_sign_and_handshakes_wait() {
    let ground = Ground::new();
    let file = ground.load(ground.plain());
    let key = slow_key(&ground, 2, 0);
    let listener = Arc::new(ground.load(files(&key, ground.plain())));
    let start = |listener: &Arc<Server>| {
        // A client without tickets each: no session resumes.
        let (listener, config) = (listener.clone(), ground.client(None));
        tokio::spawn(async move { meet(&listener, &config).await })
    };
    let slow: Vec<_> = (0..20).map(|_| start(&listener)).collect();
    while key.begun.load(Ordering::Relaxed) < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // More handshakes than turns: no third one has begun, and one with a key in a file is done at once.
    for _ in 0..5 {
        assert_eq!(meet(&file, &ground.client(None)).await.client.unwrap(), HandshakeKind::Full);
    }
    assert_eq!(key.begun.load(Ordering::Relaxed), 2);
    assert!(slow.iter().all(|task| !task.is_finished()));
    key.allow(usize::MAX);
    for task in slow {
        assert_eq!(task.await.unwrap().client.unwrap(), HandshakeKind::Full);
    }
    assert_eq!(key.begun.load(Ordering::Relaxed), 20);
}

#[tokio::test]
async fn a_key_that_is_away_ends_a_handshake_with_an_alert_and_a_reason_and_a_final_fault_a_start() {
    let ground = Ground::new();
    let key = slow_key(&ground, 1, usize::MAX);
    let fault = KeyFault { reason: "token_absent", text: "the token is absent".into(), is_final: false };
    *key.fault.lock() = Some(fault.clone());
    let listener = ground.load(files(&key, ground.plain()));
    assert_eq!(listener.key_fault(), Some(fault.clone()));
    let met = meet(&listener, &ground.client(None)).await;
    assert!(met.told().contains("InternalError"), "{}", met.told());
    let Err(AcceptError::Key(found)) = &met.server else { panic!("{:?}", met.server) };
    assert_eq!((found, met.server.as_ref().unwrap_err().class()), (&fault, "token_absent"));
    *key.fault.lock() = None;
    assert_eq!(listener.check_key(), None);
    assert_eq!(meet(&listener, &ground.client(None)).await.client.unwrap(), HandshakeKind::Full);
    *key.fault.lock() = Some(KeyFault { is_final: true, ..fault });
    let err = Server::load(files(&key, ground.plain()), ground.clock.clone()).unwrap_err().to_string();
    assert!(err.starts_with("key: ") && err.contains("server.pem: the token is absent"), "{err}");
}
