//! Logs and output of the remote store and its authority, in a process of their own: logs are collected by thread, and
//! another test's thread that logs a line first would silence it.

use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::far::{Far, SECRET, config, open, secret_file};
use sealway_proto::wire::base64;
use sealway_sessions::store::Store;
use sealway_sessions::store::remote::{Remote, RemoteConfig};
use sealway_testkit::store_contract::claims::{START_MS, agree};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_or_output_has_a_secret_or_a_key() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let far = Far::memory().await;
    let how = config(far.address);
    let mut printed = format!("{how:?} {:?}", far.authority);
    let remote: Arc<Remote> = open(how).await.unwrap();
    let agreed = agree(Some("web"), 600, START_MS);
    let key = agreed.server.record().key.expose();
    let claim = *agreed.call("one", START_MS, START_MS).claim();
    remote.put(agreed.server.clone()).await.unwrap();
    // By another process, so that the session is not cached and the key travels back.
    let other = far.remote().await;
    other.get(agreed.server.id()).await.unwrap().unwrap();
    remote.reserve(&claim).await.unwrap();
    remote.reserve(&claim).await.unwrap_err();
    remote.delete(agreed.server.id()).await.unwrap();
    let wrong = RemoteConfig { secret_file: Some(secret_file("another-secret-0123456789")), ..config(far.address) };
    let refused = open(wrong).await.unwrap_err();
    far.kill().await;
    let lost = remote.put(agreed.server.clone()).await.unwrap_err();
    printed.push_str(&format!("{remote:?} {other:?} {refused:?} {refused} {lost:?} {lost}"));
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("session revoked") && log.contains("authority unusable"), "{log}");
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    for text in [log, printed] {
        for secret in [SECRET, "another-secret", &base64::encode(key)[..20], &hex[..20], "Bearer", &format!("{key:?}")]
        {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
    }
}
