//! Tests of the store: its content, its rejections, its lists, and detected changes.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealway_broker::keys::{KEYS_MAX, Kek, LIST_MAX, RuleChange, State, Store, VERSIONS_MAX, Wrap};
use sealway_broker::operation::{Plain, SignedInput, encrypt, mac, verify_mac};
use sealway_broker::profile::Profile;
use sealway_broker::profile::policy::{EncryptAlgorithm, MacAlgorithm};
use sealway_broker::refusal::Code;

use crate::ground::{Memory, algorithm, empty, encrypting, kek, made, store};

fn maccing() -> Profile {
    Profile { mac: Some(MacAlgorithm::HmacSha256), ..empty() }
}

#[test]
fn keys_versions_and_states_are_there_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("keys");
    let store = Store::open(&folder, kek()).unwrap();
    store.generate("a", algorithm("hmac-sha-256"), 10).unwrap();
    store.import("b.imported", algorithm("hmac-sha-256"), &[7; 32], 20).unwrap();
    store.rotate("a", &[], 30).unwrap();
    store.rotate("a", &[9; 40], 40).unwrap();
    store.disable("a", 3).unwrap();
    let before = mac(&maccing(), &store.get("a").unwrap(), &[b"text"]).unwrap();
    assert_eq!(before.key_version, 2, "the last enabled version is current");
    drop(store);

    let store = Store::open(&folder, kek()).unwrap();
    let key = store.get("a").unwrap();
    let versions: Vec<_> = key.versions().iter().map(|v| (v.number(), v.state(), v.created_ms())).collect();
    assert_eq!(versions, [(1, State::Enabled, 10), (2, State::Enabled, 30), (3, State::Disabled, 40)]);
    assert!(key.is_imported() && store.get("b.imported").unwrap().is_imported());
    assert_eq!(mac(&maccing(), &key, &[b"text"]).unwrap().outputs, before.outputs);
    assert_eq!((store.count(), store.enable("a", 3).unwrap().current().unwrap().number()), (2, 3));
}

#[test]
fn a_disabled_version_is_unusable_and_without_an_enabled_one_there_is_no_current_version() {
    let store = store();
    made(&store, "hmac-sha-256");
    let key = store.rotate("hmac-sha-256", &[], 2).unwrap();
    let tags = mac(&maccing(), &key, &[b"text"]).unwrap().outputs;
    let signed = |version| SignedInput { input: b"text", signature: &tags[0], key_version: version };
    let key = store.disable("hmac-sha-256", 2).unwrap();
    assert_eq!(mac(&maccing(), &key, &[b"text"]).unwrap().key_version, 1);
    assert_eq!(verify_mac(&maccing(), &key, &[signed(2)]).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(verify_mac(&maccing(), &key, &[signed(3)]).unwrap_err().code, Code::InvalidArgument);
    let key = store.disable("hmac-sha-256", 0).unwrap();
    assert_eq!(mac(&maccing(), &key, &[b"text"]).unwrap_err().code, Code::FailedPrecondition);
    let key = store.enable("hmac-sha-256", 0).unwrap();
    assert_eq!(verify_mac(&maccing(), &key, &[signed(2), signed(1), signed(0)]).unwrap(), [true, false, true]);
    assert_eq!(store.disable("hmac-sha-256", 3).unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn names_are_bounded_unique_and_not_found_otherwise() {
    let store = store();
    let mac = algorithm("hmac-sha-256");
    for id in ["", "a/b", "..\0", "é", "a b", &"x".repeat(65)] {
        assert_eq!(store.generate(id, mac, 1).unwrap_err().code, Code::InvalidArgument, "{id}");
        assert_eq!(store.get(id).unwrap_err().code, Code::InvalidArgument, "{id}");
    }
    for id in ["..", ".", "-", "lock", "a.key", &"x".repeat(64)] {
        store.generate(id, mac, 1).unwrap();
        assert_eq!(store.generate(id, mac, 1).unwrap_err().code, Code::AlreadyExists);
        assert_eq!(store.import(id, mac, &[1; 32], 1).unwrap_err().code, Code::AlreadyExists);
    }
    for refusal in [store.get("none").unwrap_err(), store.rotate("none", &[], 1).unwrap_err()] {
        assert_eq!(refusal.code, Code::NotFound);
    }
    assert_eq!(store.disable("none", 0).unwrap_err().code, Code::NotFound);
}

#[test]
fn pages_of_the_list_have_every_key_once_and_in_order() {
    let store = store();
    let ids: Vec<String> = (0..LIST_MAX + 44).map(|n| format!("k{n:04}")).collect();
    for id in ids.iter().rev() {
        store.generate(id, algorithm("hmac-sha-256"), 1).unwrap();
    }
    for limit in [0, 1, 7, 150, LIST_MAX, LIST_MAX + 1] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = store.list(&after, limit);
            assert!(page.keys.len() <= if limit == 0 { LIST_MAX } else { limit.min(LIST_MAX) });
            seen.extend(page.keys.iter().map(|key| key.id().to_owned()));
            after = seen.last().unwrap().clone();
            if !page.has_more {
                break;
            }
        }
        assert_eq!(seen, ids, "pages of {limit}");
    }
    assert!(store.list("k9999", 0).keys.is_empty() && store.list("zz", 5).keys.is_empty());
}

#[test]
fn a_store_has_ten_thousand_keys_and_no_more_and_opens_with_them() {
    let memory = Memory::default();
    let store = Store::over(memory.clone(), kek()).unwrap();
    for index in 0..KEYS_MAX {
        store.import(&format!("k{index}"), algorithm("aes-256-gcm"), &[7; 32], 1).unwrap();
    }
    assert_eq!(store.generate("more", algorithm("hmac-sha-256"), 1).unwrap_err().code, Code::FailedPrecondition);
    store.rotate("k77", &[], 2).unwrap();
    drop(store);
    assert_eq!(Store::over(memory, kek()).unwrap().count(), KEYS_MAX);
}

/// Builds a key's file by the text of spec/broker.md.
fn file_by_the_book(id: &str, algorithm: &str, versions: u32) -> Vec<u8> {
    let version = |number: u32| {
        let mut aad = b"sealway broker key 1\0".to_vec();
        for text in [id, algorithm] {
            aad.push(u8::try_from(text.len()).unwrap());
            aad.extend_from_slice(text.as_bytes());
        }
        aad.extend_from_slice(&number.to_be_bytes());
        aad.extend_from_slice(&[0, 1]);
        aad.extend_from_slice(&1_700_000_000_000_u64.to_be_bytes());
        aad.extend_from_slice(&0_u64.to_be_bytes());
        let wrapped = kek().wrap(&aad, &number.to_be_bytes().repeat(8)).unwrap();
        serde_json::json!({
            "version": number, "disabled": false, "imported": true, "created_ms": 1_700_000_000_000_u64, "reserved": 0,
            "kek": wrapped.kek_id, "wrapped": STANDARD.encode(wrapped.bytes),
        })
    };
    let versions: Vec<_> = (1..=versions).map(version).collect();
    let file = serde_json::json!({ "format": 1, "id": id, "algorithm": algorithm, "versions": versions });
    serde_json::to_vec(&file).unwrap()
}

#[test]
fn a_valid_key_file_opens_with_up_to_1000_versions() {
    let count = u32::try_from(VERSIONS_MAX).unwrap();
    let opened = |versions| {
        let memory = Memory::default();
        let file = file_by_the_book("hmac", "hmac-sha-256", versions);
        memory.0.lock().unwrap().files.insert("hmac".into(), file);
        Store::over(memory, kek())
    };
    let store = opened(count - 1).unwrap();
    // The material is that of the version.
    let expected = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &7_u32.to_be_bytes().repeat(8));
    let tag = aws_lc_rs::hmac::sign(&expected, b"text");
    let signed = SignedInput { input: b"text", signature: tag.as_ref(), key_version: 7 };
    assert_eq!(verify_mac(&maccing(), &store.get("hmac").unwrap(), &[signed]).unwrap(), [true]);
    store.rotate("hmac", &[], 1).unwrap();
    assert_eq!(store.rotate("hmac", &[], 1).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(store.get("hmac").unwrap().versions().len(), VERSIONS_MAX);
    assert!(opened(count + 1).is_err() && opened(0).is_err());
}

#[test]
fn every_changed_byte_of_a_file_is_found_at_the_start() {
    let memory = Memory::default();
    let store = Store::over(memory.clone(), kek()).unwrap();
    made(&store, "aes-256-gcm");
    store.rotate("aes-256-gcm", &[], 2).unwrap();
    store.disable("aes-256-gcm", 1).unwrap();
    drop(store);
    let file = memory.0.lock().unwrap().files["aes-256-gcm"].clone();
    let opens = |bytes: Vec<u8>| {
        let changed = Memory::default();
        changed.0.lock().unwrap().files.insert("aes-256-gcm".into(), bytes);
        Store::over(changed, kek())
    };
    assert!(opens(file.clone()).is_ok());
    for index in 0..file.len() {
        for bit in [0, 2, 5] {
            let mut changed = file.clone();
            changed[index] ^= 1 << bit;
            // Only white space may become other white space.
            if opens(changed.clone()).is_ok() {
                assert!(file[index].is_ascii_whitespace() && changed[index].is_ascii_whitespace(), "byte {index}");
            }
        }
    }
    // A version's members, and its position.
    let text = String::from_utf8(file).unwrap();
    for (from, to) in [("\"disabled\": true", "\"disabled\": false"), ("\"created_ms\": 2", "\"created_ms\": 3")] {
        let err = opens(text.replacen(from, to, 1).into_bytes()).err().unwrap().0;
        assert!(err.contains("aes-256-gcm") && err.contains("does not unwrap"), "{err}");
    }
    let moved = Memory::default();
    moved.0.lock().unwrap().files.insert("another".into(), text.into_bytes());
    assert!(Store::over(moved, kek()).err().unwrap().0.contains("of another key"));
}

#[test]
fn no_file_and_no_debug_text_holds_the_material() {
    let memory = Memory::default();
    let store = Store::over(memory.clone(), kek()).unwrap();
    let key = store.import("k", algorithm("hmac-sha-256"), b"0123456789abcdef0123456789abcdef", 1).unwrap();
    mac(&maccing(), &key, &[b"x"]).unwrap();
    let file = memory.0.lock().unwrap().files["k"].clone();
    for needle in [b"0123456789abcdef".as_slice(), b"MDEyMzQ1Njc4OWFi", b"30313233"] {
        assert!(!file.windows(needle.len()).any(|part| part == needle));
    }
    let shown = format!("{key:?}");
    assert!(shown.contains("number: 1") && !shown.contains("0123"), "{shown}");
}

#[test]
fn a_new_key_encryption_key_takes_over_and_the_old_one_can_go() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("keys");
    let (old, new) = (format!("old {}", "11".repeat(32)), format!("new {}", "22".repeat(32)));
    let parse = |text: &str| Kek::parse("test", text).unwrap();
    let store = Store::open(&folder, parse(&old)).unwrap();
    made(&store, "hmac-sha-256");
    store.rotate("hmac-sha-256", &[], 2).unwrap();
    made(&store, "ed25519");
    drop(store);
    let err = Store::open(&folder, parse(&new)).err().unwrap().0;
    assert!(err.contains("\"old\""), "{err}");
    let store = Store::open(&folder, parse(&format!("{new}\n{old}"))).unwrap();
    let tag = mac(&maccing(), &store.get("hmac-sha-256").unwrap(), &[b"x"]).unwrap().outputs;
    assert_eq!((store.rewrap().unwrap(), store.rewrap().unwrap()), (2, 0));
    drop(store);
    let store = Store::open(&folder, parse(&new)).unwrap();
    assert_eq!(mac(&maccing(), &store.get("hmac-sha-256").unwrap(), &[b"x"]).unwrap().outputs, tag);
}

#[test]
fn a_full_disk_fails_a_change_with_an_error_and_keeps_the_old_state() {
    let memory = Memory::default();
    let store = Store::over(memory.clone(), kek()).unwrap();
    let key = made(&store, "aes-256-gcm");
    memory.0.lock().unwrap().is_full = true;
    let profile = encrypting(EncryptAlgorithm::Aes256Gcm, false, 16);
    let plain = Plain { plaintext: b"x", aad: b"", nonce: b"" };
    for refusal in [
        store.generate("new", algorithm("hmac-sha-256"), 1).unwrap_err(),
        store.rotate("aes-256-gcm", &[], 1).unwrap_err(),
        store.disable("aes-256-gcm", 1).unwrap_err(),
        // Its count cannot be recorded in advance.
        encrypt(&profile, &key, &[plain]).unwrap_err(),
    ] {
        assert_eq!(refusal.code, Code::Internal);
        assert!(refusal.text.contains("not written"), "{refusal}");
    }
    assert_eq!(store.get("new").unwrap_err().code, Code::NotFound);
    assert_eq!(store.get("aes-256-gcm").unwrap().versions().len(), 1);
    memory.0.lock().unwrap().is_full = false;
    encrypt(&profile, &key, &[plain]).unwrap();
}

#[test]
fn use_counts_are_reserved_in_blocks_and_written_exactly_at_the_end() {
    let memory = Memory::default();
    let reserved = |memory: &Memory| {
        let file = String::from_utf8(memory.0.lock().unwrap().files["aes-256-gcm"].clone()).unwrap();
        let after = file.split("\"reserved\": ").nth(1).unwrap();
        after.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    let store = Store::over(memory.clone(), kek()).unwrap();
    let key = made(&store, "aes-256-gcm");
    let profile = encrypting(EncryptAlgorithm::Aes256Gcm, false, 16);
    for _ in 0..100 {
        encrypt(&profile, &key, &[Plain { plaintext: b"x", aad: b"", nonce: b"" }; 10]).unwrap();
    }
    assert_eq!(memory.0.lock().unwrap().writes, 2, "its making, and one reserve");
    assert!(reserved(&memory) > 200_000);
    // Like after a crash: all reserved messages count as used.
    let crashed = Memory::default();
    crashed.0.lock().unwrap().files = memory.0.lock().unwrap().files.clone();
    let again = Store::over(crashed.clone(), kek()).unwrap();
    encrypt(&profile, &again.get("aes-256-gcm").unwrap(), &[Plain { plaintext: b"x", aad: b"", nonce: b"" }]).unwrap();
    assert!(reserved(&crashed) > 2 * 200_000);
    drop(store);
    assert_eq!(reserved(&memory), 1000);
    assert!(
        encrypt(&profile, &key, &[Plain { plaintext: b"x", aad: b"", nonce: b"" }]).is_err(),
        "its store is closed"
    );
}

#[test]
fn many_threads_that_change_one_key_lose_no_change() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("keys");
    let store = Store::open(&folder, kek()).unwrap();
    made(&store, "aes-256-gcm");
    let profile = encrypting(EncryptAlgorithm::Aes256Gcm, false, 16);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    store.rotate("aes-256-gcm", &[], 1).unwrap();
                    let key = store.get("aes-256-gcm").unwrap();
                    encrypt(&profile, &key, &[Plain { plaintext: b"x", aad: b"", nonce: b"" }]).unwrap();
                }
            });
        }
    });
    drop(store);
    assert_eq!(Store::open(&folder, kek()).unwrap().get("aes-256-gcm").unwrap().versions().len(), 41);
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn public_keys_are_what_openssl_reads() {
    let store = store();
    for (name, shown) in [
        ("ecdsa-p256", "prime256v1"),
        ("ecdsa-p384", "secp384r1"),
        ("ecdsa-p521", "secp521r1"),
        ("rsa-2048", "Public-Key: (2048 bit)"),
        ("ed25519", "ED25519 Public-Key"),
    ] {
        let key = made(&store, name);
        let (version, der) = key.public_key(0).unwrap();
        assert_eq!(version, 1);
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("key.der");
        fs::write(&file, der).unwrap();
        let mut openssl = std::process::Command::new("openssl");
        openssl.args(["pkey", "-pubin", "-inform", "DER", "-noout", "-text", "-in"]).arg(&file);
        let output = openssl.output().expect("openssl runs: scripts/setup-tests.sh installs it");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains(shown), "{name}: {text}");
    }
    for (name, oid) in [
        ("ml-dsa-44", "2.16.840.1.101.3.4.3.17"),
        ("ml-dsa-65", "2.16.840.1.101.3.4.3.18"),
        ("ml-dsa-87", "2.16.840.1.101.3.4.3.19"),
        ("ml-kem-512", "2.16.840.1.101.3.4.4.1"),
        ("ml-kem-768", "2.16.840.1.101.3.4.4.2"),
        ("ml-kem-1024", "2.16.840.1.101.3.4.4.3"),
    ] {
        let der = made(&store, name).public_key(1).unwrap().1;
        let (_, parsed) =
            <x509_parser::x509::SubjectPublicKeyInfo<'_> as x509_parser::prelude::FromDer<'_, _>>::from_der(&der)
                .unwrap();
        assert_eq!(parsed.algorithm.algorithm.to_id_string(), oid);
    }
    let key = made(&store, "aes-128-gcm");
    assert_eq!(key.public_key(0).unwrap_err().code, Code::InvalidArgument);
    let key = store.disable("ed25519", 1).unwrap();
    assert_eq!(key.public_key(1).unwrap().0, 1, "what was signed can still be verified elsewhere");
    assert_eq!(key.public_key(0).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(key.public_key(2).unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn rules_are_kept_over_a_start_and_a_file_with_other_rules_does_not_open() {
    let disk = Memory::default();
    let store = Store::over(disk.clone(), kek()).unwrap();
    store.generate("a", algorithm("aes-256-gcm"), 1).unwrap();
    store.rotate("a", &[], 2).unwrap();
    let change = RuleChange { min_decryption: Some(2), is_deletion_allowed: Some(true), ..RuleChange::default() };
    let key = store.configure("a", change).unwrap();
    assert_eq!(key.version(1).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(key.version(2).unwrap().number(), 2);
    drop(store);
    let store = Store::over(disk.clone(), kek()).unwrap();
    assert_eq!(store.get("a").unwrap().rules(), key.rules());
    // The last enabled version is now below the minimum.
    assert_eq!(store.disable("a", 2).unwrap().current().unwrap_err().code, Code::FailedPrecondition);
    drop(store);
    let file = String::from_utf8(disk.0.lock().unwrap().files["a"].clone()).unwrap();
    for (from, to) in [
        ("\"min_decryption_version\": 2", "\"min_decryption_version\": 1"),
        ("  \"min_decryption_version\": 2,\n", ""),
        ("\"deletion_allowed\": true", "\"deletion_allowed\": false"),
        ("  \"deletion_allowed\": true,\n", ""),
    ] {
        assert!(file.contains(from), "{file}");
        disk.0.lock().unwrap().files.insert("a".into(), file.replacen(from, to, 1).into_bytes());
        assert!(Store::over(disk.clone(), kek()).is_err(), "{from} as {to}");
    }
}

#[test]
fn a_deleted_key_stays_away_and_one_without_permission_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let store = Store::open(&path, kek()).unwrap();
    let key = store.generate("a", algorithm("ed25519"), 1).unwrap();
    assert_eq!(store.delete("a").unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(store.delete("b").unwrap_err().code, Code::NotFound);
    store.configure("a", RuleChange { is_deletion_allowed: Some(true), ..RuleChange::default() }).unwrap();
    store.delete("a").unwrap();
    assert_eq!((store.get("a").unwrap_err().code, store.count()), (Code::NotFound, 0));
    drop((store, key));
    assert_eq!(Store::open(&path, kek()).unwrap().count(), 0);
}
