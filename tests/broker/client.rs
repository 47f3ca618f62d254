//! The client against a real broker: the life of a key, the items for which a batch is rejected, and errors that describe
//! themselves.

use std::time::Duration;

use sealway_client::broker::{
    Client, Code, DecryptInput, Delivery, Derivation, Health, Options, Plain, Recipient, TraceParent, Verification,
};
use sealway_testkit::broker::Broker;

use crate::BINARY;

fn start() -> (tempfile::TempDir, Broker, Client) {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start(BINARY, folder.path()).unwrap();
    let client = Client::new(Options::new(broker.socket())).within(Duration::from_secs(30));
    (folder, broker, client)
}

#[tokio::test]
async fn a_key_is_made_listed_rotated_disabled_and_enabled() {
    let (_folder, _broker, client) = start();
    let key = client.generate_key("a", "ecdsa-p256").await.unwrap();
    assert_eq!((key.id.as_str(), key.algorithm.as_str(), key.is_imported), ("a", "ecdsa-p256", false));
    assert!(key.versions.len() == 1 && key.versions[0].is_enabled && key.versions[0].created_ms > 1_700_000_000_000);
    client.import_key("b", "hmac-sha-256", &[7; 32]).await.unwrap();
    client.generate_key("c", "aes-256-gcm").await.unwrap();

    let (page, has_more) = client.list_keys("", 2).await.unwrap();
    assert_eq!(page.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(has_more && page[1].is_imported);
    let (page, has_more) = client.list_keys("b", 2).await.unwrap();
    assert!(page.len() == 1 && page[0].id == "c" && !has_more);

    let signed = client.sign("P256", "a", &["text"]).await.unwrap();
    assert_eq!((signed.descriptor.key_id.as_str(), signed.descriptor.key_version), ("a", 1));
    let first = client.public_key("a", 0).await.unwrap();
    assert_eq!(client.rotate_key("a", b"").await.unwrap().versions.len(), 2);
    let second = client.public_key("a", 0).await.unwrap();
    assert_eq!((first.version, second.version), (1, 2));
    assert_ne!(first.der, second.der);
    let by = |key_version| Verification { input: b"text", signature: &signed.outputs[0], key_version };
    assert_eq!(client.verify("P256", "a", &[by(1), by(2), by(0)]).await.unwrap().outputs, [true, false, false]);

    client.disable_key("a", 1).await.unwrap();
    let states = |key: sealway_client::broker::Key| -> Vec<bool> {
        key.versions.iter().map(|version| version.is_enabled).collect()
    };
    assert_eq!(states(client.enable_key("a", 1).await.unwrap()), [true, true]);
    assert_eq!(states(client.disable_key("a", 0).await.unwrap()), [false, false]);
    let err = client.sign("P256", "a", &["text"]).await.unwrap_err();
    assert_eq!((err.code, err.sent), (Code::FailedPrecondition, Delivery::Answered), "{err}");
    // An answered error is final: the client makes only one attempt.
    let err = client.generate_key("a", "ecdsa-p256").await.unwrap_err();
    assert_eq!((err.code, err.attempts), (Code::AlreadyExists, 1), "{err}");
}

#[tokio::test]
async fn one_of_a_batch_that_does_not_open_is_refused_and_the_others_are_opened() {
    let (_folder, _broker, client) = start();
    client.generate_key("k", "aes-256-gcm").await.unwrap();
    let plain = |plaintext: &'static [u8]| Plain { plaintext, aad: b"aad", ..Plain::default() };
    let mut ciphers = client.encrypt("Seal", "k", &[plain(b"one"), plain(b"two"), plain(b"")]).await.unwrap().outputs;
    ciphers[1].tag[0] ^= 1;
    let sealed: Vec<_> = ciphers.iter().map(|cipher| DecryptInput { cipher, aad: b"aad" }).collect();
    let opened = client.decrypt("Seal", "k", &sealed).await.unwrap().outputs;
    assert_eq!(&**opened[0].as_ref().unwrap(), b"one");
    assert_eq!(opened[1].as_ref().unwrap_err().code, Code::InvalidArgument);
    assert!(opened[2].as_ref().unwrap().is_empty());
    assert!(!format!("{opened:?}").contains("one"), "a plaintext is shown");

    client.rotate_key("k", b"").await.unwrap();
    let rewrapped = client.rewrap("Seal", "k", &sealed).await.unwrap();
    assert_eq!(rewrapped.descriptor.key_version, 2);
    assert!(rewrapped.outputs[1].is_err());
    let renewed = rewrapped.outputs[0].as_ref().unwrap();
    assert_eq!(renewed.key_version, 2);
    let opened = client.decrypt("Seal", "k", &[DecryptInput { cipher: renewed, aad: b"other" }]).await.unwrap().outputs;
    assert!(opened[0].is_err(), "what was authenticated beside it is another");
}

#[tokio::test]
async fn both_sides_of_a_secret_agree_and_a_mac_of_another_text_is_wrong() {
    let (_folder, _broker, client) = start();
    for (key, algorithm) in [("kem", "ml-kem-768"), ("mac", "hmac-sha-256"), ("derive", "hkdf-sha-256")] {
        client.generate_key(key, algorithm).await.unwrap();
    }
    let public = client.public_key("kem", 0).await.unwrap().der;
    for recipient in [Recipient::Key("kem"), Recipient::Public(&public)] {
        let sent = client.encapsulate("Kem", recipient, 2).await.unwrap();
        let ciphertexts: Vec<_> = sent.outputs.iter().map(|one| &one.ciphertext).collect();
        let told = client.decapsulate("Kem", "kem", 0, &ciphertexts).await.unwrap().outputs;
        assert!(sent.outputs.iter().zip(&told).all(|(one, told)| one.shared_secret == *told));
        assert_ne!(told[0], told[1]);
    }
    let tags = client.mac("Mac", "mac", &["one", "two"]).await.unwrap().outputs;
    let signed = [("one", 0), ("two", 1), ("one", 1)];
    let signed =
        signed.map(|(input, tag)| Verification { input: input.as_bytes(), signature: &tags[tag], key_version: 1 });
    assert_eq!(client.verify_mac("Mac", "mac", &signed).await.unwrap().outputs, [true, true, false]);
    let one = |info| Derivation { info, length: 48, ..Derivation::default() };
    let derived = client.derive("Derive", "derive", 0, &[one(b"a"), one(b"a"), one(b"b")]).await.unwrap().outputs;
    assert!(derived[0] == derived[1] && derived[0] != derived[2] && derived[0].len() == 48);
    let random = client.random("Default", 24, 3).await.unwrap().outputs;
    assert!(random.len() == 3 && random[0].len() == 24 && random[0] != random[1]);
}

#[tokio::test]
async fn refusals_have_the_broker_s_code_and_are_not_repeated() {
    let (_folder, _broker, client) = start();
    let client = client.traced(TraceParent::new(1, 2, true).unwrap());
    assert_eq!(client.health().await.unwrap(), Health::Serving);
    let information = client.information().await.unwrap();
    assert!(!information.version.is_empty() && information.profiles.contains(&"Sha256".to_owned()));
    let hashed = client.hash("Sha256", &[b""]).await.unwrap();
    assert_eq!(
        (hashed.outputs[0][..4].to_vec(), hashed.descriptor.algorithm.as_str()),
        (vec![0xe3, 0xb0, 0xc4, 0x42], "sha-256")
    );
    for (err, code) in [
        (client.hash("nobody", &["x"]).await.unwrap_err(), Code::InvalidArgument),
        (client.mac("Mac", "nobody", &["x"]).await.unwrap_err(), Code::NotFound),
        (client.public_key("nobody", 0).await.unwrap_err(), Code::NotFound),
        (client.random("Seal", 8, 1).await.unwrap_err(), Code::FailedPrecondition),
    ] {
        assert_eq!((err.sent, err.attempts), (Delivery::Answered, 1), "{err}");
        assert_eq!(err.code, code, "{err}");
    }
}
