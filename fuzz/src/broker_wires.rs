//! `broker-wires`: a path on the first line, then a message. The target runs a call on each protocol from decoding to the answer.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use sealway_broker::callers::{Callers, Peer};
use sealway_broker::keys::{Algorithm, Backend, Kek, Store};
use sealway_broker::profile::{Leniency, Live};
use sealway_broker::service::{Service, Turns};
use sealway_broker::wire::{Options, Wires};
use sealway_runtime::clock::ManualClock;

const PROFILES: &str = include_str!("../../tests/broker_wires/Profiles.yaml");
/// A fixed time in November 2026, in Unix milliseconds.
const NOW_MS: u64 = 1_795_000_000_000;

/// A store backend that keeps nothing.
struct Nowhere;

impl Backend for Nowhere {
    fn load(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        Ok(Vec::new())
    }

    fn replace(&self, _id: &str, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _id: &str) -> io::Result<()> {
        Ok(())
    }
}

/// The RSA key of RFC 7516 appendix A.1, as PKCS#8.
const UNWRAPS: &[u8] = include_bytes!("../data/rfc7516-a1.pem");

/// A broker with the profiles of the tests and a new key for each of them. An RSA key takes longer than all the rest.
fn broker(has_rsa: bool) -> Arc<Wires> {
    let path = std::env::temp_dir().join(format!(
        "sealway-fuzz-{}-{:?}.yaml",
        std::process::id(),
        std::thread::current().id()
    ));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).expect("a file");
    file.write_all(PROFILES.as_bytes()).expect("room on the disk");
    let profiles = Live::load(&path, Leniency::Strict);
    std::fs::remove_file(&path).expect("the file");
    let kek = Kek::parse("fuzz", &format!("k {}", "6b".repeat(32))).expect("a key-encryption key");
    let store = Store::over(Nowhere, kek).expect("an empty store");
    for (id, algorithm, len) in
        [("seal", "aes-256-gcm", 32), ("mac", "hmac-sha-256", 32), ("derive", "hkdf-sha-256", 32)]
    {
        let algorithm = Algorithm::parse(algorithm).expect("an algorithm");
        store.import(id, algorithm, &vec![7; len], NOW_MS).expect("a key");
    }
    for (id, algorithm) in [("sign", "ecdsa-p384"), ("kem", "ml-kem-768")] {
        store.generate(id, Algorithm::parse(algorithm).expect("an algorithm"), NOW_MS).expect("a key");
    }
    if has_rsa {
        let algorithm = Algorithm::parse("rsa-unwrap-2048").expect("an algorithm");
        store.import("unwrap", algorithm, UNWRAPS, NOW_MS).expect("a key");
    }
    let service = Service {
        profiles: Arc::new(profiles.expect("profiles")),
        callers: None,
        audit: None,
        keys: Some(store),
        clock: Arc::new(ManualClock::new(NOW_MS)),
        owner: Callers::only(1000),
        is_fips: false,
        turns: Turns::default(),
    };
    Arc::new(Wires::new(
        Arc::new(service),
        Options { has_earlier_wires: true, dev: None, calls_memory: Options::CALLS_MEMORY },
    ))
}

/// The fuzz target for messages of all broker protocols.
pub fn broker_wires(data: &[u8]) {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    }
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (path, message) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    // Generating large RSA keys takes minutes.
    let Some(path) = std::str::from_utf8(path).ok().filter(|_| !message.windows(4).any(|part| part == b"rsa-")) else {
        return;
    };
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend(message);
    let request = http::Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
    let Ok(request) = request.body(Full::new(Bytes::from(frame))) else { return };
    let peer = Peer { uid: 1000, gid: 1000, ..Peer::default() };
    let answer = RUNTIME.with(|runtime| runtime.block_on(broker(path.ends_with("/Unwrap")).answer(request, peer)));
    let Ok(answer) = answer;
    let header =
        |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let (code, text) = (header("grpc-status"), header("grpc-message"));
    assert!(matches!(code.as_str(), "" | "2" | "3" | "5" | "6" | "9" | "11" | "12" | "13"), "{path}: {code} {text}");
    // The broker answers a panic with code 13 and another text.
    assert!(code != "13" || text.starts_with("failed%20to%20decode"), "{path}: {text}");
    assert!(text.len() < 16 * 1024, "{path}: a text of {} bytes", text.len());
}
