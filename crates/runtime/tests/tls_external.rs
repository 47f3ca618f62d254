//! Listeners whose key is outside this process: one that signs when the test lets it, by real handshakes.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod pki;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use parking_lot::{Condvar, Mutex};
use pki::{Ground, HandshakeResult, client, meet, meet_from, server};
use rustls::HandshakeKind;
use sealway_runtime::tls::{AcceptError, ExternalKey, KeyFault, KeyScheme, Server, ServerFiles, Turns};
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinSet;
use tokio::time::timeout;

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

async fn until_begun(key: &SlowKey, signatures: usize) {
    while key.begun.load(Ordering::Relaxed) < signatures {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
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
async fn a_hello_that_comes_in_pieces_of_eight_bytes_costs_one_signature() {
    let ground = Ground::new();
    let key = slow_key(&ground, 1, usize::MAX);
    let listener = ground.load(files(&key, ground.plain()));
    let (here, there) = tokio::io::duplex(8);
    let connector = tokio_rustls::TlsConnector::from(ground.client(None));
    let asking = async {
        let mut stream = connector.connect("localhost".try_into().unwrap(), here).await.unwrap();
        let _ = stream.read(&mut [0]).await;
        panic!("the server ends later");
    };
    tokio::select! {
        accepted = listener.accept(there, None) => drop(accepted.unwrap()),
        () = asking => {}
    }
    assert_eq!(key.begun.load(Ordering::Relaxed), 1);
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
    until_begun(&key, 2).await;
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
async fn a_resumed_session_waits_neither_for_a_key_that_hangs_nor_for_a_turn() {
    let ground = Ground::new();
    let key = slow_key(&ground, 1, usize::MAX);
    let listener = Arc::new(ground.load(files(&key, ground.plain())));
    let known = [&rustls::version::TLS13, &rustls::version::TLS12].map(|version| ground.client_of(version));
    for config in &known {
        assert_eq!(meet(&listener, config).await.client.unwrap(), HandshakeKind::Full);
    }
    key.allow(0);
    key.begun.store(0, Ordering::Relaxed);
    // One hangs with the only turn, and others wait for it.
    let mut waiting = JoinSet::new();
    for _ in 0..3 {
        let (listener, config) = (listener.clone(), ground.client(None));
        waiting.spawn(async move { meet(&listener, &config).await });
    }
    until_begun(&key, 1).await;
    for config in &known {
        let met = timeout(Duration::from_secs(20), meet(&listener, config)).await;
        assert_eq!(met.expect("it waits").client.unwrap(), HandshakeKind::Resumed);
    }
    assert!(waiting.try_join_next().is_none() && key.begun.load(Ordering::Relaxed) == 1);
    key.allow(usize::MAX);
    while let Some(met) = waiting.join_next().await {
        assert_eq!(met.unwrap().client.unwrap(), HandshakeKind::Full);
    }
}

#[tokio::test]
async fn a_client_with_its_share_of_the_waiting_handshakes_is_rejected_at_once_and_others_wait() {
    const SHARE: usize = 64;
    let ground = Ground::new();
    let key = slow_key(&ground, 1, 0);
    let listener = Arc::new(ground.load(files(&key, ground.plain())));
    let start = |handshakes: &mut JoinSet<HandshakeResult>, last: u8| {
        let (listener, config) = (listener.clone(), ground.client(None));
        let network = Some(IpAddr::from([192, 0, 2, last]));
        handshakes.spawn(async move { meet_from(network, &listener, &config).await });
    };
    let (mut strangers, mut others) = (JoinSet::new(), JoinSet::new());
    // One has the turn.
    (0..1 + SHARE + 3).for_each(|_| start(&mut strangers, 1));
    for _ in 0..3 {
        let met = timeout(Duration::from_secs(30), strangers.join_next()).await.expect("all of them wait");
        let met = met.unwrap().unwrap();
        assert_eq!(met.server.as_ref().unwrap_err().class(), "key_busy_client");
        assert!(met.told().contains("InternalError"), "{}", met.told());
    }
    (0..SHARE).for_each(|_| start(&mut others, 2));
    assert_eq!(key.begun.load(Ordering::Relaxed), 1);
    key.allow(usize::MAX);
    for handshakes in [&mut others, &mut strangers] {
        while let Some(met) = handshakes.join_next().await {
            assert_eq!(met.unwrap().client.unwrap(), HandshakeKind::Full);
        }
    }
    assert_eq!(key.begun.load(Ordering::Relaxed), 1 + SHARE + SHARE);
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
