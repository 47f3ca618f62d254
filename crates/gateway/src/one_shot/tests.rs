use std::path::Path;

use sealway_exchange::OneShotKeys;
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::hpke::Kem;
use sealway_proto::one_shot::{KeyConfig, KeyDocument};
use sealway_proto::wire::base64;
use sealway_sessions::identity::Root;
use serde_json::{Value, json};

use super::*;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// The time of these tests: 2026-11-28T00:00:00Z.
const NOW_MS: u64 = 1_795_824_000_000;

fn life(from_ms: u64) -> Lifetime {
    Lifetime { now_ms: NOW_MS, from_ms, days_ms: 7 * DAY_MS, max_age_ms: HOUR_MS, grace_ms: DAY_MS }
}

fn form(purpose: Purpose, kem: Kem) -> Form {
    Form { purpose, kem, key_id: None }
}

fn add(file: &mut KeyFile, purpose: Purpose, kem: Kem, from_ms: u64) -> std::sync::Arc<Key> {
    file.generate(default_provider(), form(purpose, kem), life(from_ms)).unwrap()
}

fn files(path: &Path, makes_ehbp_keys: bool) -> OneShotFiles {
    OneShotFiles { keys: Some(path.to_owned()), psk: None, max_age_ms: HOUR_MS, opens_per_minute: 0, makes_ehbp_keys }
}

fn live(path: &Path) -> LiveKeys {
    LiveKeys::load(default_provider(), files(path, false), NOW_MS).unwrap()
}

/// Writes a file with a member of its first key changed, and returns the error of reading it.
fn error_with(path: &Path, change: impl FnOnce(&mut Value)) -> String {
    let mut text: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut text);
    let changed = path.with_extension("changed");
    std::fs::write(&changed, text.to_string()).unwrap();
    KeyFile::read(default_provider(), &changed).err().unwrap().0
}

#[test]
fn a_file_is_read_back_as_it_was_written_and_each_wrong_member_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let mut file = KeyFile::default();
    for (purpose, kem) in [
        (Purpose::Ehbp, Kem::X25519),
        (Purpose::Ohttp, Kem::P256),
        (Purpose::Ohttp, Kem::XWing),
        (Purpose::Hpke, Kem::MlKem768P256),
    ] {
        add(&mut file, purpose, kem, NOW_MS);
    }
    file.create(&path).unwrap();
    assert!(file.create(&path).is_err(), "an existing file is left alone");
    let read = KeyFile::read(default_provider(), &path).unwrap();
    let names = |file: &KeyFile| file.keys().map(|key| (key.name().to_owned(), *key.times())).collect::<Vec<_>>();
    assert_eq!(names(&read), names(&file));
    let text = std::fs::read_to_string(&path).unwrap();
    let seed = serde_json::from_str::<Value>(&text).unwrap()["keys"][0]["seed"].as_str().unwrap().to_owned();
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 14] = [
        ("version: this build reads version 1", |file| file["version"] = json!(2)),
        ("line 1", |file| file["keys"][0]["use"] = json!("jwe")),
        ("line 1", |file| file["keys"][0]["more"] = json!(1)),
        ("keys[0].kem: a key of use ehbp", |file| file["keys"][0]["kem"] = json!("p256")),
        ("keys[0].kem: \"x448\" is none of", |file| file["keys"][0]["kem"] = json!("x448")),
        ("keys[0].suites: a key of use ehbp", |file| file["keys"][0]["suites"] = json!(["aes-256-gcm", "aes-128-gcm"])),
        ("keys[0].suites: \"rot13\"", |file| file["keys"][0]["suites"] = json!(["rot13"])),
        ("keys[0].key_id: it is 0", |file| file["keys"][0]["key_id"] = json!(1)),
        ("keys[2].key_id: keys[1] has 0 too", |file| file["keys"][2]["key_id"] = json!(0)),
        ("keys[0].seed: a key of x25519 has 32 bytes, and this one 31", |file| {
            file["keys"][0]["seed"] = json!(base64::encode(&[7; 31]));
        }),
        ("keys[1].seed: expected base64", |file| file["keys"][1]["seed"] = json!("!")),
        ("keys[3].accepted_until 2026-11-27", |file| file["keys"][3]["accepted_until"] = json!("2026-11-27")),
        ("keys[3].it would live", |file| {
            file["keys"][3]["published_until"] = json!("2028-11-28");
            file["keys"][3]["accepted_until"] = json!("2028-11-28");
        }),
        ("signed_document and root_public_key", |file| file["root_public_key"] = json!("")),
    ];
    for (expected, change) in cases {
        let err = error_with(&path, change);
        assert!(err.contains(expected) && err.contains("keys.changed: "), "{err} instead of {expected}");
        assert!(!err.contains(&seed), "{err}");
    }
    let two_uses = error_with(&path, |file| {
        let seed = file["keys"][0]["seed"].clone();
        file["keys"][3] = json!({"use": "hpke", "kem": "x25519", "suites": ["aes-256-gcm"], "key_id": 0, "seed": seed,
            "published": "2026-11-28", "preferred": "2026-11-28", "published_until": "2026-12-01", "accepted_until": "2026-12-02"});
    });
    assert!(two_uses.contains("keys[3].seed: it is the key of keys[0]"), "{two_uses}");
}

#[test]
fn a_key_is_published_before_it_is_preferred_and_accepted_after_it_was_published() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let mut file = KeyFile::default();
    let first = add(&mut file, Purpose::Ohttp, Kem::X25519, NOW_MS);
    let second = add(&mut file, Purpose::Ohttp, Kem::X25519, NOW_MS + 6 * DAY_MS);
    assert_eq!((first.times().preferred_ms, second.config().key_id()), (NOW_MS, 1));
    assert!(second.times().preferred_ms - second.times().published_ms >= HOUR_MS);
    file.create(&path).unwrap();
    let keys = live(&path);
    let ids = |list: &[u8]| {
        let configs = KeyConfig::decode_list(default_provider(), list).unwrap();
        configs.iter().map(KeyConfig::key_id).collect::<Vec<_>>()
    };
    let preferred = |at_ms| keys.preferred(Purpose::Ohttp, at_ms).map(|key| key.config().key_id());
    let (published, later) = (second.times().published_ms, second.times().preferred_ms);
    let (end, over) = (first.times().published_until_ms, first.times().accepted_until_ms);
    for (at_ms, list, first_choice, accepted) in [
        (NOW_MS - 1, &[][..], None, [false, false]),
        (NOW_MS, &[0], Some(0), [true, false]),
        (published, &[0, 1], Some(0), [true, true]),
        (later, &[1, 0], Some(1), [true, true]),
        (end, &[1], Some(1), [true, true]),
        (over, &[1], Some(1), [false, true]),
    ] {
        assert_eq!((ids(&keys.ohttp_list(at_ms)), preferred(at_ms)), (list.to_vec(), first_choice), "{at_ms}");
        assert_eq!([0, 1].map(|id| keys.by_key_id(id, at_ms).is_some()), accepted, "{at_ms}");
    }
    let mut text: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    text["keys"][1]["preferred"] = text["keys"][1]["published"].clone();
    std::fs::write(&path, text.to_string()).unwrap();
    assert!(keys.reload(NOW_MS)[0].1.contains("keys[1].preferred: 0 s after published"));
}

#[test]
fn a_bad_file_leaves_the_keys_in_force_and_a_good_one_replaces_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let mut file = KeyFile::default();
    let first = add(&mut file, Purpose::Ehbp, Kem::X25519, NOW_MS);
    file.create(&path).unwrap();
    let keys = live(&path);
    let names =
        || keys.accepted(Purpose::Ehbp, NOW_MS + HOUR_MS).iter().map(|key| key.name().to_owned()).collect::<Vec<_>>();
    std::fs::write(&path, "{").unwrap();
    keys.reload_if_changed(NOW_MS);
    assert_eq!(names(), [first.name()]);
    assert!(keys.reload(NOW_MS)[0].1.contains("keys.json: line 1"));
    let second = add(&mut file, Purpose::Ehbp, Kem::X25519, NOW_MS);
    file.replace(&path).unwrap();
    keys.reload_if_changed(NOW_MS);
    assert_eq!(names(), [second.name(), first.name()]);
    // What the endpoint of EHBP gives: one suite, and no outer length.
    let config = keys.ehbp_config(NOW_MS).unwrap();
    assert_eq!((config.len(), &config[..3], &config[35..]), (41, &b"\0\0\x20"[..], &b"\0\x04\0\x01\0\x02"[..]));
    assert_eq!(keys.shown(NOW_MS).len(), 2);
    assert_eq!(keys.earliest_end_ms(), Some(second.times().published_until_ms));
}

#[test]
fn a_retired_key_is_published_no_longer_and_the_last_one_needs_force() {
    let mut file = KeyFile::default();
    let first = add(&mut file, Purpose::Hpke, Kem::XWing, NOW_MS);
    let at = |file: &mut KeyFile, name: &str, grace_ms, force| {
        file.retire(default_provider(), name, (NOW_MS + HOUR_MS, grace_ms), NOW_MS, force)
    };
    assert!(at(&mut file, first.name(), 0, false).unwrap_err().0.contains("no other key of use hpke"));
    assert!(at(&mut file, "0", 0, false).unwrap_err().0.contains("does not have it"));
    let second = add(&mut file, Purpose::Hpke, Kem::XWing, NOW_MS);
    let retired = at(&mut file, first.name(), DAY_MS, false).unwrap().unwrap();
    assert_eq!(retired.times().published_until_ms, NOW_MS + HOUR_MS);
    assert_eq!(retired.times().accepted_until_ms, NOW_MS + HOUR_MS + DAY_MS);
    let over = at(&mut file, first.name(), 0, false).unwrap().unwrap();
    assert_eq!(over.times().condition(NOW_MS + HOUR_MS), Condition::Over);
    let future = add(&mut file, Purpose::Hpke, Kem::XWing, NOW_MS + DAY_MS);
    assert!(at(&mut file, future.name(), 0, false).unwrap().is_none());
    assert_eq!(file.keys().map(|key| key.name()).collect::<Vec<_>>(), [first.name(), second.name()]);
}

#[test]
fn a_file_loads_whose_last_key_was_retired_before_it_was_preferred() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let mut file = KeyFile::default();
    let first = add(&mut file, Purpose::Ohttp, Kem::X25519, NOW_MS - DAY_MS);
    let second = add(&mut file, Purpose::Ohttp, Kem::X25519, NOW_MS - 1);
    file.retire(default_provider(), second.name(), (NOW_MS, DAY_MS), NOW_MS, false).unwrap();
    file.create(&path).unwrap();
    let keys = live(&path);
    assert_eq!(keys.preferred(Purpose::Ohttp, NOW_MS).unwrap().name(), first.name());
    assert!(keys.by_key_id(second.config().key_id(), NOW_MS).is_some());
}

#[test]
fn a_signed_document_is_published_unchanged_and_an_earlier_one_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let (provider, library) = (default_provider(), default_identity_library());
    let root = Root::generate(provider, library, SignatureAlgorithm::Es256, &folder.path().join("root.json")).unwrap();
    let mut file = KeyFile::default();
    let first = add(&mut file, Purpose::Hpke, Kem::XWing, NOW_MS);
    file.create(&path).unwrap();
    let unsigned = KeyDocument::parse(provider, &live(&path).hpke_document(NOW_MS)).unwrap();
    assert!(unsigned.root.is_none() && unsigned.keys[0].config == *first.encoded());
    file.sign(provider, &root, NOW_MS, NOW_MS + 90 * DAY_MS).unwrap();
    assert!(!file.is_behind(NOW_MS));
    file.replace(&path).unwrap();
    let keys = live(&path);
    let text = keys.hpke_document(NOW_MS);
    let signed = KeyDocument::parse(provider, &text).unwrap();
    signed.verify(provider, library, root.public(), NOW_MS, 0).unwrap();
    assert_eq!(signed.encode().as_bytes(), text);
    let mut forged = signed.clone();
    forged.keys[0].use_until_ms += 1;
    assert!(forged.verify(provider, library, root.public(), NOW_MS, 0).is_err());
    // Another key: the document stays as it was signed, and the file says that it is behind.
    add(&mut file, Purpose::Hpke, Kem::P256, NOW_MS);
    file.replace(&path).unwrap();
    keys.reload_if_changed(NOW_MS);
    assert!(file.is_behind(NOW_MS) && keys.hpke_document(NOW_MS) == text);
    file.sign(provider, &root, NOW_MS + 1000, NOW_MS + 90 * DAY_MS).unwrap();
    let old = std::fs::read(&path).unwrap();
    file.replace(&path).unwrap();
    assert!(keys.reload(NOW_MS).is_empty());
    assert_ne!(keys.hpke_document(NOW_MS), text);
    std::fs::write(&path, old).unwrap();
    assert!(keys.reload(NOW_MS)[0].1.contains("before the one in force"));
}

#[test]
fn keys_are_imported_from_the_files_of_other_servers() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    let provider = default_provider();
    let seed = [3; 32];
    let private = sealway_proto::hpke::PrivateKey::from_bytes(provider, Kem::X25519, &seed).unwrap();
    let identity = |public: &[u8], aead: u16| {
        let (public, secret) = (base64::encode(public), base64::encode(&seed));
        json!({"PublicKey": public, "SecretKey": secret, "KEM": 32, "KDF": 1, "AEAD": aead}).to_string()
    };
    let public = private.public_key().as_bytes();
    let mut file = KeyFile::default();
    for (text, expected) in [
        (identity(public, 1), "KEM, KDF, AEAD"),
        (identity(&[9; 32], 2), "PublicKey: it is not the public half"),
        ("{}".to_owned(), "source: line 1"),
    ] {
        std::fs::write(&source, text).unwrap();
        let err = file.import_ehbp(provider, &source, life(NOW_MS)).unwrap_err().0;
        assert!(err.contains(expected) && !err.contains(&base64::encode(&seed)), "{err}");
    }
    std::fs::write(&source, identity(public, 2)).unwrap();
    let key = file.import_ehbp(provider, &source, life(NOW_MS)).unwrap();
    assert_eq!(&key.encoded()[3..35], public);
    // RFC 9180 appendix A.1.1: ikmR and pkRm.
    std::fs::write(&source, "6db9df30aa07dd42ee5e8181afdb977e538f5e1fec8a06223f33f7013e525037\n").unwrap();
    let form = Form { purpose: Purpose::Ohttp, kem: Kem::X25519, key_id: Some(7) };
    let key = file.import_seed(provider, &source, form, life(NOW_MS)).unwrap();
    let expected = "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d";
    let hex: String = key.encoded()[3..35].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((hex.as_str(), key.config().key_id()), (expected, 7));
    std::fs::write(&source, "6db9zz").unwrap();
    assert!(file.import_seed(provider, &source, form, life(NOW_MS)).unwrap_err().0.contains("hexadecimal"));
}

#[test]
fn keys_that_are_made_here_end_and_have_a_successor_while_a_file_may_have_none() {
    let none = OneShotFiles { keys: None, psk: None, max_age_ms: HOUR_MS, opens_per_minute: 0, makes_ehbp_keys: true };
    let keys = LiveKeys::load(default_provider(), none, NOW_MS).unwrap();
    let first = keys.preferred(Purpose::Ehbp, NOW_MS).unwrap();
    keys.reload_if_changed(NOW_MS + HOUR_MS);
    assert_eq!(keys.accepted(Purpose::Ehbp, NOW_MS + HOUR_MS).len(), 1);
    keys.reload_if_changed(NOW_MS + 25 * HOUR_MS);
    let both = keys.accepted(Purpose::Ehbp, NOW_MS + 25 * HOUR_MS);
    assert!(both.len() == 2 && both[0].name() != first.name() && both[1].name() == first.name());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let mut file = KeyFile::default();
    add(&mut file, Purpose::Ehbp, Kem::X25519, NOW_MS);
    file.create(&path).unwrap();
    let err = LiveKeys::load(default_provider(), files(&path, true), NOW_MS).unwrap_err();
    assert!(err.0 == "one_shot.keys" && err.1.contains("memory"), "{err:?}");
}

#[test]
fn a_second_change_of_a_file_that_was_read_before_the_first_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let mut file = KeyFile::default();
    add(&mut file, Purpose::Ehbp, Kem::X25519, NOW_MS);
    file.create(&path).unwrap();
    let [mut one, mut other] = [0; 2].map(|_| KeyFile::read(default_provider(), &path).unwrap());
    let added = add(&mut one, Purpose::Ehbp, Kem::X25519, NOW_MS);
    add(&mut other, Purpose::Ehbp, Kem::X25519, NOW_MS);
    one.replace(&path).unwrap();
    let err = other.replace(&path).unwrap_err().0;
    assert!(err.contains("keys.json: it has changed since it was read"), "{err}");
    assert!(KeyFile::read(default_provider(), &path).unwrap().keys().any(|key| key.name() == added.name()));
}

/// Keys in force with a key of use hpke and pre-shared keys of a master, and their settings.
fn with_psks(folder: &Path) -> (LiveKeys, OneShotFiles, PskFiles) {
    let mut file = KeyFile::default();
    add(&mut file, Purpose::Hpke, Kem::X25519, NOW_MS);
    file.create(&folder.join("keys.json")).unwrap();
    let psk = PskFiles { master: folder.join("master"), revoked: Some(folder.join("revoked.txt")) };
    std::fs::write(&psk.master, base64::encode(&[7; 32])).unwrap();
    std::fs::write(folder.join("revoked.txt"), "").unwrap();
    let files = OneShotFiles { psk: Some(psk.clone()), ..files(&folder.join("keys.json"), false) };
    (LiveKeys::load(default_provider(), files.clone(), NOW_MS).unwrap(), files, psk)
}

#[test]
fn a_bad_key_file_does_not_keep_a_name_from_being_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let (keys, _, _) = with_psks(folder.path());
    let key = keys.psk("alice").unwrap();
    assert!(keys.is_psk_accepted("alice", &key));
    std::fs::write(folder.path().join("keys.json"), "{").unwrap();
    std::fs::write(folder.path().join("revoked.txt"), "alice # lost her laptop\nb c\n").unwrap();
    let faults = keys.reload(NOW_MS);
    let settings: Vec<_> = faults.iter().map(|(setting, _)| setting.as_str()).collect();
    assert_eq!(settings, ["one_shot.keys", "one_shot.psk.revoked"]);
    assert!(!keys.is_psk_accepted("alice", &key) && keys.has(Purpose::Hpke));
}

#[test]
fn a_pre_shared_key_of_the_master_before_is_accepted_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    let (keys, _, psk) = with_psks(folder.path());
    let key = keys.psk("alice").unwrap();
    std::fs::write(&psk.master, base64::encode(&[8; 32])).unwrap();
    assert!(keys.reload(NOW_MS).is_empty());
    assert!(!keys.is_psk_accepted("alice", &key));
    assert!(keys.is_psk_accepted("alice", &keys.psk("alice").unwrap()));
}

#[test]
fn other_settings_change_the_keys_that_requests_in_flight_hold() {
    let folder = tempfile::tempdir().unwrap();
    let (keys, files, psk) = with_psks(folder.path());
    let key = keys.psk("alice").unwrap();
    let list = folder.path().join("other.txt");
    let other = OneShotFiles {
        psk: Some(PskFiles { revoked: Some(list.clone()), ..psk }),
        max_age_ms: 2 * HOUR_MS,
        ..files.clone()
    };
    assert_eq!(keys.prepare(other.clone(), NOW_MS).err().unwrap().0, "one_shot.psk.revoked");
    std::fs::write(&list, "bob\n").unwrap();
    let next = keys.prepare(other.clone(), NOW_MS).unwrap();
    assert!(next.has(Purpose::Hpke) && *keys.files() == files);
    next.apply();
    assert!(*keys.files() == other && keys.is_psk_accepted("alice", &key));
    std::fs::write(&list, "bob\nalice\n").unwrap();
    keys.reload_if_changed(NOW_MS);
    assert!(!keys.is_psk_accepted("alice", &key));
}

#[test]
fn a_key_whose_claims_end_with_it_cannot_be_made_to_live_longer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let mut file = KeyFile::default();
    for purpose in [Purpose::Ohttp, Purpose::Ehbp, Purpose::Hpke] {
        add(&mut file, purpose, Kem::X25519, NOW_MS);
    }
    file.create(&path).unwrap();
    let keys = live(&path);
    let text: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let later = json!("2026-12-20T00:00:00.000Z");
    let end_ms = keys.by_key_id(0, NOW_MS).unwrap().times().accepted_until_ms;
    // Also once the key is over: its claims are gone by then.
    for (index, member, value, at_ms, expected) in [
        (0, "accepted_until", &later, NOW_MS, "keys.json: keys[0].accepted_until: 2026-12-20"),
        (1, "accepted_until", &later, end_ms, "keys.json: keys[1].accepted_until: 2026-12-20"),
        (0, "suites", &json!(["aes-256-gcm"]), NOW_MS, "keys.json: keys[0].suites: "),
        (0, "key_id", &json!(9), NOW_MS, "keys.json: keys[0].suites: key_id"),
    ] {
        let mut changed = text.clone();
        changed["keys"][index][member] = value.clone();
        std::fs::write(&path, changed.to_string()).unwrap();
        let faults = keys.reload(at_ms);
        assert!(faults.len() == 1 && faults[0].1.contains(expected), "{faults:?}");
    }
    let mut changed = text;
    changed["keys"][2]["accepted_until"] = later;
    std::fs::write(&path, changed.to_string()).unwrap();
    assert!(keys.reload(NOW_MS).is_empty(), "the claims of wire 4 end with their stamps");
}

#[test]
fn the_key_document_is_built_once_until_a_key_changes_its_condition() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let mut file = KeyFile::default();
    let first = add(&mut file, Purpose::Hpke, Kem::X25519, NOW_MS);
    let second = add(&mut file, Purpose::Hpke, Kem::X25519, NOW_MS + 6 * DAY_MS);
    file.create(&path).unwrap();
    let keys = live(&path);
    let at = |at_ms: u64| (keys.published(at_ms), keys.published(at_ms).value.clone().unwrap());
    let (one, value) = at(NOW_MS);
    assert!(std::sync::Arc::ptr_eq(&one, &keys.published(second.times().published_ms - 1)));
    assert_eq!(value, serde_json::from_slice::<Value>(&keys.hpke_document(NOW_MS)).unwrap());
    let (last, value) = at(first.times().accepted_until_ms);
    assert!(!std::sync::Arc::ptr_eq(&one, &last) && value["keys"].as_array().unwrap().len() == 1);
    assert_eq!(keys.document(NOW_MS), one.value, "an earlier time has its own document");
}

#[test]
fn a_key_that_claims_ended_with_lives_no_longer_than_it_did_also_after_it_was_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    for purpose in [Purpose::Ehbp, Purpose::Ohttp] {
        let mut file = KeyFile::default();
        let first = add(&mut file, purpose, Kem::X25519, NOW_MS);
        add(&mut file, purpose, Kem::X25519, NOW_MS);
        std::fs::write(&path, "").unwrap();
        file.replace(&path).unwrap();
        let read = || serde_json::from_slice::<Value>(&std::fs::read(&path).unwrap()).unwrap();
        let (whole, end) = (read(), first.times().accepted_until_ms);
        let with = |end_ms: Option<u64>| {
            let mut text = whole.clone();
            match end_ms {
                Some(end_ms) => text["keys"][0]["accepted_until"] = json!(sealway_runtime::clock::iso8601(end_ms)),
                None => drop(text["keys"].as_array_mut().unwrap().remove(0)),
            }
            std::fs::write(&path, text.to_string()).unwrap();
        };
        let keys = live(&path);
        let err = |at_ms| keys.reload(at_ms).first().map(|(_, why)| why.clone()).unwrap_or_default();
        with(Some(end + 1));
        assert!(err(NOW_MS).contains("keys[0].accepted_until: "), "{}", err(NOW_MS));
        // A shorter life is the one that claims have from then on.
        with(Some(end - 1));
        assert_eq!(err(NOW_MS), "");
        for at_ms in [NOW_MS, end + 2] {
            with(None);
            assert_eq!(err(at_ms), "");
            with(Some(end));
            assert!(err(at_ms).contains("keys[0].accepted_until: "), "{}", err(at_ms));
        }
        with(Some(end - 1));
        assert_eq!(err(NOW_MS), "", "claims that end with it are still there");
    }
    // Claims of wire 4 have a stamp.
    let mut file = KeyFile::default();
    let key = add(&mut file, Purpose::Hpke, Kem::X25519, NOW_MS);
    file.replace(&path).unwrap();
    let keys = live(&path);
    let mut text: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    text["keys"][0]["accepted_until"] = json!(sealway_runtime::clock::iso8601(key.times().accepted_until_ms + 1));
    std::fs::write(&path, text.to_string()).unwrap();
    assert!(keys.reload(NOW_MS).is_empty());
}

#[test]
fn a_key_that_is_over_is_not_imported_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, source) = (folder.path().join("keys.json"), folder.path().join("seed"));
    std::fs::write(&source, "6db9df30aa07dd42ee5e8181afdb977e538f5e1fec8a06223f33f7013e525037\n").unwrap();
    let import = |file: &mut KeyFile, purpose, at_ms| {
        let life = Lifetime { now_ms: at_ms, ..life(at_ms) };
        let form = Form { purpose, kem: Kem::X25519, key_id: Some(7) };
        file.import_seed(default_provider(), &source, form, life)
    };
    for (purpose, is_refused) in [(Purpose::Ohttp, true), (Purpose::Hpke, false)] {
        let mut file = KeyFile::default();
        let end_ms = import(&mut file, purpose, NOW_MS).unwrap().times().accepted_until_ms;
        let life = Lifetime { now_ms: end_ms, ..life(end_ms) };
        file.generate(default_provider(), form(purpose, Kem::X25519), life).unwrap();
        assert_eq!(file.keys().count(), 1);
        std::fs::write(&path, "").unwrap();
        file.replace(&path).unwrap();
        let mut file = KeyFile::read(default_provider(), &path).unwrap();
        let again = import(&mut file, purpose, end_ms).map_err(|err| err.0);
        assert_eq!(again.is_err(), is_refused, "{purpose:?}");
        assert!(again.err().is_none_or(|err| err.contains("keys[1].seed: this key ended 2026-12-06")));
    }
}
