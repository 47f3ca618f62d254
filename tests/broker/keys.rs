//! The life of the broker's key store: a clean stop, a new key-encryption key, and the removal of the old one.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use sealway_client::broker::{Client, DecryptInput, Options, Plain};
use sealway_testkit::broker::Broker;
use serde_json::Value;

use crate::BINARY;

const OLD: &str = "test 5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";
const NEW: &str = "next 6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b";

/// Returns the versions in a key's file.
fn versions(folder: &Path, key: &str) -> Vec<Value> {
    let text = std::fs::read(folder.join(format!("keys/{key}.key"))).unwrap();
    let file: Value = serde_json::from_slice(&text).unwrap();
    file["versions"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_writes_what_was_sealed_and_a_new_key_encryption_key_takes_over_at_a_start() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let mut broker = Broker::start(BINARY, folder).unwrap();
    let client = Client::new(Options::new(broker.socket()));
    client.generate_key("seal", "aes-256-gcm").await.unwrap();
    let plain = Plain { plaintext: b"kept", ..Plain::default() };
    let sealed = client.encrypt("Seal", "seal", &[plain; 5]).await.unwrap().outputs;
    client.rotate_key("seal", &[]).await.unwrap();
    client.generate_key("mac", "hmac-sha-256").await.unwrap();
    let tags = client.mac("Mac", "mac", &["text"]).await.unwrap().outputs;
    assert!(versions(folder, "seal")[0]["reserved"].as_u64().unwrap() > 100_000, "written ahead");
    broker.stop().unwrap();
    assert_eq!(versions(folder, "seal")[0]["reserved"], 5, "a clean stop writes what it was");

    std::fs::write(folder.join("store.kek"), format!("{NEW}\n{OLD}\n")).unwrap();
    broker.start_again().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let is_new = |key: &str| versions(folder, key).iter().all(|version| version["kek"] == "next");
    while !(is_new("seal") && is_new("mac")) {
        assert!(Instant::now() < until, "not wrapped anew: {}", broker.tail());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    broker.stop().unwrap();

    std::fs::write(folder.join("store.kek"), format!("{NEW}\n")).unwrap();
    broker.start_again().unwrap();
    let client = Client::new(Options::new(broker.socket()));
    let given: Vec<DecryptInput<'_>> = sealed.iter().map(|cipher| DecryptInput { cipher, aad: b"" }).collect();
    for opened in client.decrypt("Seal", "seal", &given).await.unwrap().outputs {
        assert_eq!(opened.unwrap().as_ref(), b"kept");
    }
    assert_eq!(client.mac("Mac", "mac", &["text"]).await.unwrap().outputs, tags);
    broker.stop().unwrap();

    std::fs::write(folder.join("store.kek"), format!("{OLD}\n")).unwrap();
    let err = broker.start_again().unwrap_err().to_string();
    assert!(err.contains("key store") && err.contains("next"), "{err}");
}

/// Starts a broker on a folder's files and expects it to fail. Returns its exit code and its output.
fn refused(folder: &Path, kek: &[&str]) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(BINARY);
    command.env_clear().args(["broker", "serve", "--socket"]).arg(folder.join("broker.sock"));
    command.arg("--profiles").arg(folder.join("Profiles.yaml")).arg("--keys").arg(folder.join("keys"));
    let output = command.args(kek).current_dir(folder).output().unwrap();
    assert!(!folder.join("broker.sock").exists(), "{output:?}");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_key_encryption_key_or_with_a_broken_file_a_store_is_refused_and_a_copy_of_it_opens() {
    let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (folder, copy) = (place.path(), other.path());
    let mut broker = Broker::start(BINARY, folder).unwrap();
    let client = Client::new(Options::new(broker.socket()));
    client.generate_key("seal", "aes-256-gcm").await.unwrap();
    let plain = Plain { plaintext: b"kept", ..Plain::default() };
    let cipher = client.encrypt("Seal", "seal", &[plain]).await.unwrap().outputs.remove(0);
    // Copied while the broker runs, as a backup is.
    for part in ["keys", "store.kek", "Profiles.yaml"] {
        let copied = std::process::Command::new("cp").arg("-a").args([folder.join(part), copy.join(part)]).status();
        assert!(copied.unwrap().success());
    }
    broker.stop().unwrap();
    let before = std::fs::read(folder.join("keys/seal.key")).unwrap();
    let (code, said) = refused(folder, &[]);
    assert!(code == Some(2) && said.contains("CRYPTO_BROKER_KEK"), "{said}");
    std::fs::write(folder.join("new.kek"), NEW).unwrap();
    std::fs::set_permissions(folder.join("new.kek"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let (code, said) = refused(folder, &["--kek-file", "new.kek"]);
    assert!(code == Some(1) && said.contains("the file of key seal: version 1: "), "{said}");
    assert_eq!(std::fs::read(folder.join("keys/seal.key")).unwrap(), before);
    std::fs::write(folder.join("keys/seal.key"), &before[..before.len() - 9]).unwrap();
    let (code, said) = refused(folder, &["--kek-file", "store.kek"]);
    assert!(code == Some(1) && said.contains("the file of key seal: "), "{said}");

    let broker = Broker::start(BINARY, copy).unwrap();
    let client = Client::new(Options::new(broker.socket()));
    let opened =
        client.decrypt("Seal", "seal", &[DecryptInput { cipher: &cipher, aad: b"" }]).await.unwrap().outputs.remove(0);
    assert_eq!(opened.unwrap().as_ref(), b"kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_on_what_is_no_key_names_each_and_serves_nothing_and_the_next_has_every_key() {
    let place = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(BINARY, place.path()).unwrap();
    let client = Client::new(Options::new(broker.socket()));
    client.generate_key("mac", "hmac-sha-256").await.unwrap();
    let tags = client.mac("Mac", "mac", &["text"]).await.unwrap().outputs;
    broker.stop().unwrap();

    let path = |name: &str| place.path().join("keys").join(name);
    std::os::unix::fs::symlink("/dev/zero", path("endless.key")).unwrap();
    std::fs::copy(path("mac.key"), path("open.key")).unwrap();
    std::fs::set_permissions(path("open.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let err = broker.start_again().unwrap_err().to_string();
    for says in ["endless.key: it is a symbolic link", "open.key: others than its owner can use it; chmod 600 it"] {
        assert!(err.contains(says), "{err}");
    }
    assert!(!broker.socket().exists(), "it listened");
    std::fs::remove_file(path("endless.key")).unwrap();
    std::fs::set_permissions(path("open.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let err = broker.start_again().unwrap_err().to_string();
    assert!(err.contains("the file of key open: it is of another key"), "{err}");
    std::fs::remove_file(path("open.key")).unwrap();
    broker.start_again().unwrap();
    let client = Client::new(Options::new(broker.socket()));
    assert_eq!(client.mac("Mac", "mac", &["text"]).await.unwrap().outputs, tags);
}
