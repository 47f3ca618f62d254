use std::path::PathBuf;

use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};

use super::*;

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("service.identity");
    (folder, path)
}

fn file(times: &[(u64, u64)]) -> (KeyFile, Vec<KeyId>) {
    let mut file = KeyFile::default();
    let made = |&(from, to): &(u64, u64)| {
        file.generate(default_provider(), default_identity_library(), SignatureAlgorithm::Es256, from, to, 0).unwrap()
    };
    let ids = times.iter().map(made).collect();
    (file, ids)
}

fn load(path: &Path, now_ms: u64) -> Result<Identity, String> {
    Identity::load(default_provider(), default_identity_library(), path, None, now_ms).map_err(|err| err.to_string())
}

fn set_of(identity: &Identity, now_ms: u64) -> KeySet {
    KeySet::parse(default_provider(), &identity.key_set(now_ms)).unwrap()
}

fn verifies(set: &KeySet, id: &KeyId, message: &[u8], signature: &[u8]) -> bool {
    default_identity_library().public(&set.get(id).unwrap().public_key).unwrap().verify(message, signature)
}

#[tokio::test]
async fn two_keys_overlap_to_the_millisecond_and_neither_signs_outside_its_time() {
    let (_folder, path) = place();
    let (file, ids) = file(&[(1000, 3000), (2000, 4000)]);
    file.create(&path).unwrap();
    let identity = load(&path, 0).unwrap();
    let (first, second) = (ids[0], ids[1]);
    for (now, live) in [
        (999, vec![]),
        (1000, vec![first]),
        (1999, vec![first]),
        (2000, vec![second, first]),
        (2999, vec![second, first]),
        (3000, vec![second]),
        (3999, vec![second]),
        (4000, vec![]),
    ] {
        assert_eq!(identity.live_at(now), live, "at {now}");
        let signer = |pinned: &[KeyId]| {
            let is_fit = |key: &IdentityKey| pinned.is_empty() || pinned.contains(&key.key_id);
            identity.signer_for(now, is_fit).map(|live| live.key().key_id)
        };
        assert_eq!(signer(&[]), live.first().copied(), "at {now}");
        assert_eq!(signer(&[first]), live.contains(&first).then_some(first), "pinned the first, at {now}");
        assert_eq!(signer(&[second]), live.contains(&second).then_some(second), "pinned the second, at {now}");
        assert_eq!(signer(&[first, second]), live.first().copied(), "pinned both, at {now}");
        for id in [first, second] {
            match identity.sign(&id, now, b"message").await {
                Ok(signature) => {
                    assert!(live.contains(&id), "{id} signed at {now}");
                    assert!(verifies(&set_of(&identity, 0), &id, b"message", &signature));
                }
                Err(err) => {
                    assert!(!live.contains(&id), "{id} did not sign at {now}");
                    assert_eq!(err, SignError::NotLive(id));
                }
            }
        }
    }
    let stranger = KeyId::of(default_provider(), &[4; 65]);
    assert!(identity.signer_for(2000, |key| key.key_id == stranger).is_none());
    assert_eq!(identity.sign(&stranger, 2000, b"m").await, Err(SignError::NotLive(stranger)));
}

#[tokio::test]
async fn a_key_that_was_chosen_in_time_does_not_sign_when_its_time_is_over() {
    let identity = Identity::in_memory(default_provider(), default_identity_library(), 10).unwrap();
    let chosen = identity.signer_for(10, |_| true).unwrap();
    assert!(identity.signer_for(9, |_| true).is_none());
    assert!(chosen.sign(10, b"m").await.is_ok());
    let end = 10 + GENERATED_LIFE_MS;
    assert!(chosen.sign(end - 1, b"m").await.is_ok());
    assert_eq!(chosen.sign(end, b"m").await, Err(SignError::NotLive(chosen.key().key_id)));
}

#[test]
fn the_set_has_keys_to_come_and_none_that_are_over() {
    let (_folder, path) = place();
    let (file, ids) = file(&[(1000, 3000), (2000, 4000)]);
    file.create(&path).unwrap();
    let identity = load(&path, 500).unwrap();
    let listed = |now| set_of(&identity, now).keys.iter().map(|key| key.key_id).collect::<Vec<_>>();
    assert_eq!(listed(500), [ids[1], ids[0]]);
    assert_eq!(listed(2999), [ids[1], ids[0]]);
    assert_eq!(listed(3000), [ids[1]]);
    assert!(listed(4000).is_empty());
    let set = set_of(&identity, 500);
    assert_eq!((set.issued_ms, set.expires_ms, set.root), (500, 4000, None));
}

#[test]
fn a_broken_file_leaves_the_old_keys_in_force_and_a_right_one_takes_their_place() {
    let (_folder, path) = place();
    let (one, ids) = file(&[(0, 9000)]);
    one.create(&path).unwrap();
    let identity = load(&path, 1).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    let other = file(&[(0, 9000)]).1[0].to_string();
    let id = ids[0].to_string();
    for bad in [
        String::new(),
        "{".to_owned(),
        good[..good.len() / 2].to_owned(),
        r#"{"keys":[]}"#.to_owned(),
        good.replace(&id, &other),
        good.replace("not_after", "not_later"),
        good.replace("1970-01-01T00:00:09.000Z", "1970-01-01T00:00:00.000Z"),
    ] {
        std::fs::write(&path, &bad).unwrap();
        identity.reload_if_changed(2);
        assert_eq!(identity.live_at(2), ids, "after {bad}");
        assert!(load(&path, 2).is_err(), "{bad}");
    }
    std::fs::remove_file(&path).unwrap();
    identity.reload_if_changed(2);
    assert_eq!(identity.live_at(2), ids, "after the file was removed");
    let (two, new_ids) = file(&[(0, 9000)]);
    two.create(&path).unwrap();
    identity.reload_if_changed(2);
    assert_eq!(identity.live_at(2), new_ids);
}

#[test]
fn a_set_that_was_signed_before_the_one_in_force_is_not_taken_again() {
    let (_folder, path) = place();
    let root = Root::generate(
        default_provider(),
        default_identity_library(),
        SignatureAlgorithm::Es256,
        &path.with_extension("root"),
    )
    .unwrap();
    let (mut file, _) = file(&[(0, 9000)]);
    file.sign(default_provider(), &root, 100, 5000).unwrap();
    file.create(&path).unwrap();
    let old = std::fs::read(&path).unwrap();
    let identity = load(&path, 100).unwrap();
    let second =
        file.generate(default_provider(), default_identity_library(), SignatureAlgorithm::Es256, 0, 9000, 100).unwrap();
    // The clock did not move, and yet the second set is later.
    file.sign(default_provider(), &root, 100, 5000).unwrap();
    file.replace(&path).unwrap();
    identity.reload_if_changed(100);
    assert_eq!(set_of(&identity, 100).issued_ms, 101);
    assert!(identity.live_at(100).contains(&second));
    std::fs::write(&path, old).unwrap();
    identity.reload_if_changed(100);
    assert_eq!(set_of(&identity, 100).issued_ms, 101, "a retired key could be brought back");
    assert!(identity.live_at(100).contains(&second));
}

#[test]
fn a_key_that_the_root_did_not_sign_waits_and_one_that_it_signed_ends_when_either_says_so() {
    let (_folder, path) = place();
    let root = Root::generate(
        default_provider(),
        default_identity_library(),
        SignatureAlgorithm::Es256,
        &path.with_extension("root"),
    )
    .unwrap();
    let (mut file, ids) = file(&[(0, 9000)]);
    file.sign(default_provider(), &root, 100, 5000).unwrap();
    let second = file
        .generate(default_provider(), default_identity_library(), SignatureAlgorithm::Es256, 200, 9000, 100)
        .unwrap();
    assert!(file.is_behind(100));
    file.create(&path).unwrap();
    let identity = load(&path, 100).unwrap();
    assert_eq!(identity.live_at(300), ids);
    let err = file.retire(&ids[0], 300, 300, false).unwrap_err().to_string();
    assert!(err.contains("no other key of ES256 is live"), "{err}");
    file.sign(default_provider(), &root, 300, 5000).unwrap();
    assert!(!file.is_behind(300));
    assert_eq!(file.retire(&ids[0], 1000, 300, false).unwrap(), Retirement::At(1000));
    assert!(file.is_behind(300));
    file.replace(&path).unwrap();
    identity.reload_if_changed(300);
    assert_eq!(identity.live_at(999), [second, ids[0]]);
    assert_eq!(identity.live_at(1000), [second], "the file ends it, whatever was signed");
    let set = set_of(&identity, 300);
    assert_eq!(set.verify(default_provider(), default_identity_library(), root.public(), 4999, 0), Ok(()));
    assert_eq!(set.keys.len(), 2);
}

#[test]
fn a_file_whose_signed_set_was_changed_is_refused() {
    let (_folder, path) = place();
    let root = Root::generate(
        default_provider(),
        default_identity_library(),
        SignatureAlgorithm::Es256,
        &path.with_extension("root"),
    )
    .unwrap();
    let (mut file, _) = file(&[(0, 9000)]);
    file.sign(default_provider(), &root, 100, 5000).unwrap();
    file.create(&path).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    let other = Root::generate(
        default_provider(),
        default_identity_library(),
        SignatureAlgorithm::Es256,
        &path.with_extension("other"),
    )
    .unwrap();
    let public = |root: &Root| sealway_proto::wire::base64::encode(root.public());
    for (from, to, what) in [
        ("\"expires_ms\": 5000", "\"expires_ms\": 6000", "does not verify"),
        (&public(&root), &public(&other), "another root"),
        (&public(&root), "AAAA", "root_public_key"),
        ("\"root_public_key\"", "\"root_key\"", "unknown"),
        ("\"not_after_ms\": 9000", "\"not_after_ms\": 9001", "does not verify"),
    ] {
        assert!(good.contains(from), "{from} is not in {good}");
        std::fs::write(&path, good.replace(from, to)).unwrap();
        let err = load(&path, 0).unwrap_err();
        assert!(err.contains("service.identity") && err.contains(what), "{err}");
    }
    // An expired set is logged, and does not stop the service for clients that pin keys.
    std::fs::write(&path, &good).unwrap();
    assert_eq!(load(&path, 6000).unwrap().live_at(6000).len(), 1);
}

#[test]
fn a_set_that_was_signed_elsewhere_is_taken_in_if_it_is_of_these_keys_and_not_older() {
    let (_folder, path) = place();
    let root =
        Root::generate(default_provider(), default_identity_library(), SignatureAlgorithm::Es256, &path).unwrap();
    let root =
        Root::read(default_identity_library(), &path).map(|again| (again.public() == root.public()).then_some(again));
    let root = root.unwrap().unwrap();
    let (mut file, ids) = file(&[(0, 9000), (100, 9000)]);
    let mut take = |set: &KeySet, public: &[u8], now| {
        let taken = file.take_signed(default_provider(), default_identity_library(), set.clone(), public, now);
        taken.map(|()| file.list(now)).map_err(|err| err.to_string())
    };
    let mut set = self::file(&[(0, 9000)]).0.unsigned_set(10, 5000).unwrap();
    root.sign(default_provider(), &mut set).unwrap();
    assert!(take(&set, root.public(), 20).unwrap_err().contains("does not hold"));
    let other = [4; 65];
    assert!(take(&set, &other, 20).unwrap_err().contains("another root"));
    let mut own = file.unsigned_set(10, 5000).unwrap();
    assert_eq!(own.keys.iter().map(|key| key.key_id).collect::<Vec<_>>(), ids);
    root.sign(default_provider(), &mut own).unwrap();
    let mut take = |set: &KeySet, now| {
        file.take_signed(default_provider(), default_identity_library(), set.clone(), root.public(), now)
            .map_err(|err| err.to_string())
    };
    assert!(take(&own, 5000).unwrap_err().contains("expired"));
    assert_eq!(take(&own, 4999), Ok(()));
    let mut older = own.clone();
    older.issued_ms = 9;
    root.sign(default_provider(), &mut older).unwrap();
    assert!(take(&older, 20).unwrap_err().contains("older"));
}

#[test]
fn a_key_file_round_trips_and_shows_no_secret() {
    let (_folder, path) = place();
    let (mut written, ids) = file(&[(1000, 2000)]);
    let pair = default_identity_library().generate(SignatureAlgorithm::Es256).unwrap().1;
    let key = IdentityKey::new(default_provider(), pair.public(), 0, 9000).unwrap();
    written.add_broker_key(key, "identity-1".into(), 0).unwrap();
    written.create(&path).unwrap();
    assert!(written.create(&path).unwrap_err().to_string().contains("cannot write"));
    let text = std::fs::read_to_string(&path).unwrap();
    let read = KeyFile::read(default_provider(), default_identity_library(), &path).unwrap();
    assert_eq!(read.list(1500), written.list(1500));
    assert_eq!(read.list(1500)[1].broker_key.as_deref(), Some("identity-1"));
    let err = load(&path, 0).unwrap_err();
    assert!(err.contains("identity-1") && err.contains("sessions.identity.broker"), "{err}");
    let private = text.split('"').find(|part| part.len() > 100).unwrap().to_owned();
    for bad in [
        text.replace(&private, &private[4..]),
        text.replace(&private, "x"),
        text.replace("private_key", "private"),
        text.replace(&format!("\"{private}\""), "7"),
        text.replace(&format!("\"{private}\""), &format!("[\"{private}\"]")),
        text.replace("not_before", &private),
        text.replacen('{', &format!("{{\"{private}\":1,"), 1),
    ] {
        std::fs::write(&path, &bad).unwrap();
        let err = load(&path, 0).unwrap_err();
        assert!(err.contains("service.identity") && !err.contains(&private[8..40]), "{err}");
    }
    let identity = Identity::in_memory(default_provider(), default_identity_library(), 0).unwrap();
    assert!(format!("{identity:?}").contains(identity.live_at(0)[0].as_str()));
    assert!(!ids.is_empty());
}

#[test]
fn a_key_is_retired_in_time_and_not_so_that_nobody_could_sign() {
    let (mut file, ids) = file(&[(0, 3000), (2000, 5000), (4000, 9000)]);
    let mut retire = |index: usize, at, force| file.retire(&ids[index], at, 1000, force).map_err(|err| err.to_string());
    assert!(retire(0, 999, false).unwrap_err().contains("in the past"));
    assert!(retire(0, 3000, false).unwrap_err().contains("ends before that"));
    assert!(retire(0, 1999, false).unwrap_err().contains("no other key of ES256 is live"));
    assert_eq!(retire(0, 2000, false), Ok(Retirement::At(2000)));
    assert_eq!(retire(2, 4000, false), Ok(Retirement::Removed));
    assert!(retire(2, 4500, false).unwrap_err().contains("does not hold"));
    assert!(retire(1, 4500, false).unwrap_err().contains("no other key of ES256 is live"));
    assert_eq!(retire(1, 4500, true), Ok(Retirement::At(4500)));
    let conditions = |now| file.list(now).iter().map(|listed| listed.condition).collect::<Vec<_>>();
    assert_eq!(conditions(1999), [Condition::Live, Condition::Next]);
    assert_eq!(conditions(2000), [Condition::Retired, Condition::Live]);
}

#[test]
fn a_full_file_lets_go_of_retired_keys_for_a_new_one() {
    let times: Vec<_> = (0..16).map(|n| (n, 1000 + n)).collect();
    let (mut file, _) = file(&times);
    let mut generate = |now| {
        file.generate(default_provider(), default_identity_library(), SignatureAlgorithm::Es256, 5000, 9000, now)
            .map_err(|err| err.0)
    };
    assert!(generate(999).unwrap_err().contains("16 keys"));
    let (mut file, _) = self::file(&times);
    file.generate(default_provider(), default_identity_library(), SignatureAlgorithm::Es256, 5000, 9000, 1003).unwrap();
    assert_eq!(file.list(1003).len(), 13);
}

#[test]
fn a_key_is_not_retired_before_a_successor_of_its_algorithm() {
    let (provider, library) = (default_provider(), default_identity_library());
    let (mut file, ids) = file(&[(0, 9000)]);
    file.generate(provider, library, SignatureAlgorithm::MlDsa65, 0, 9000, 0).unwrap();
    let err = file.retire(&ids[0], 2000, 1000, false).unwrap_err().to_string();
    assert!(err.contains("no other key of ES256 is live"), "{err}");
    file.generate(provider, library, SignatureAlgorithm::Es256, 0, 9000, 0).unwrap();
    assert_eq!(file.retire(&ids[0], 2000, 1000, false).unwrap(), Retirement::At(2000));
}

#[test]
fn a_file_whose_set_is_full_lets_go_of_retired_keys_for_a_new_one() {
    let (provider, library) = (default_provider(), default_identity_library());
    let mut file = KeyFile::default();
    let mut generate = |from, to, now| {
        file.generate(provider, library, SignatureAlgorithm::Es384MlDsa87, from, to, now).map_err(|err| err.0)
    };
    // Fifteen of the longest keys are a full set.
    for n in 0..15 {
        generate(n, 1000 + n, 0).unwrap();
    }
    generate(5000, 9000, 1003).unwrap();
    assert_eq!(file.list(1003).len(), 12);
    let kept = file.list(1003).iter().all(|listed| listed.condition != Condition::Retired);
    assert!(kept);
}

#[test]
fn two_keys_with_a_part_in_common_are_refused() {
    let (provider, library) = (default_provider(), default_identity_library());
    let mut file = KeyFile::default();
    file.generate(provider, library, SignatureAlgorithm::Es256MlDsa65, 0, 9000, 0).unwrap();
    let composite = file.list(0).remove(0).key;
    let parts = SignatureAlgorithm::Es256MlDsa65.parts(&composite.public_key);
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [65, 1952]);
    for part in parts {
        let alone = IdentityKey::new(provider, part, 0, 9000).unwrap();
        let err = file.add_broker_key(alone, "part".into(), 0).unwrap_err().to_string();
        assert!(err.contains("a part of it is in another key too"), "{err}");
        file.entries.pop();
    }
}

#[tokio::test]
async fn keys_of_every_algorithm_are_made_written_read_and_sign() {
    let (_folder, path) = place();
    let mut file = KeyFile::default();
    let (provider, library) = (default_provider(), default_identity_library());
    for algorithm in SignatureAlgorithm::ALL {
        file.generate(provider, library, algorithm, 0, 9000, 0).unwrap();
    }
    file.create(&path).unwrap();
    let identity = load(&path, 1).unwrap();
    let shown = identity.shown(1);
    assert_eq!(
        shown.iter().filter(|key| key.signs_by_default).map(|key| key.alg.as_str()).collect::<Vec<_>>(),
        ["ES256"]
    );
    let set = set_of(&identity, 1);
    for key in &set.keys {
        let signature = identity.sign(&key.key_id, 1, b"message").await.unwrap();
        assert!(verifies(&set, &key.key_id, b"message", &signature), "{}", key.alg);
    }
    assert_eq!(set.keys.len(), 6);
    for algorithm in SignatureAlgorithm::ALL {
        let root_path = path.with_extension(format!("root-{algorithm}"));
        let root = Root::generate(provider, library, algorithm, &root_path).unwrap();
        let root = Root::read(library, &root_path).map(|read| (read.public() == root.public()).then_some(read));
        let root = root.unwrap().unwrap();
        let mut file = KeyFile::read(provider, library, &path).unwrap();
        file.sign(provider, &root, 1, 5000).unwrap();
        file.replace(&path).unwrap();
        let again = KeyFile::read(provider, library, &path).unwrap();
        assert_eq!(again.root_public(), Some(root.public()), "{algorithm}");
    }
}

#[test]
fn a_key_file_whose_set_clients_would_not_read_is_refused() {
    let mut file = KeyFile::default();
    let mut generate = || {
        let algorithm = SignatureAlgorithm::Es384MlDsa87;
        file.generate(default_provider(), default_identity_library(), algorithm, 0, 9000, 0)
            .map_err(|err| err.to_string())
    };
    let refused: Vec<String> = (0..16).filter_map(|_| generate().err()).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].contains("65536") && refused[0].contains("fewer keys"), "{refused:?}");
}
