//! `GET /.well-known/sealway-keys`, and identity keys that change under an authority.

use std::sync::Arc;

use crate::desk::{Call, Desk};
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::session::native::KeySet;
use sealway_sessions::Policy;
use sealway_sessions::endpoint::KEY_SET_PATH;
use sealway_sessions::identity::{Identity, KeyFile, Root};
use sealway_testkit::store_contract::claims::{START_MS, provider};

#[tokio::test]
async fn without_identity_keys_the_set_is_not_found_and_a_problem_says_why() {
    let desk = Desk::new(Policy::default());
    let answer = desk.send(Call::get(KEY_SET_PATH)).await;
    assert_eq!((answer.status, answer.header("content-type")), (404, Some("application/problem+json")));
    assert_eq!((&answer.json()["status"], &answer.json()["code"]), (&404.into(), &"not_found".into()));
    assert!(answer.body.contains("wire 3"), "{}", answer.body);
}

#[tokio::test]
async fn the_key_set_is_what_a_client_can_read_and_is_asked_for_by_get_alone() {
    let identity = Identity::in_memory(provider(), default_identity_library(), START_MS).unwrap();
    let live = identity.live_at(START_MS);
    let desk = Desk::new(Policy { identity: Some(Arc::new(identity)), ..Policy::default() });
    let answer = desk.send(Call::get(KEY_SET_PATH)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    let set = KeySet::parse(provider(), answer.body.as_bytes()).unwrap();
    assert_eq!(set.keys.iter().map(|key| key.key_id).collect::<Vec<_>>(), live);
    assert_eq!(set.root, None);
    let answer = desk.send(Call::new("POST", KEY_SET_PATH)).await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
    assert_eq!(desk.send(Call::get("/.well-known/sealway-keys/")).await.status, 404);
}

#[tokio::test]
async fn maintenance_takes_on_a_rotation_and_the_set_stays_one_that_the_root_signed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, library) = (folder.path().join("a.identity"), default_identity_library());
    let root = Root::generate(provider(), library, SignatureAlgorithm::Es256, &folder.path().join("root")).unwrap();
    let mut file = KeyFile::default();
    let first =
        file.generate(provider(), library, SignatureAlgorithm::Es256, START_MS, START_MS + 10_000, START_MS).unwrap();
    file.sign(provider(), &root, START_MS, START_MS + 100_000).unwrap();
    file.create(&path).unwrap();
    let identity = Arc::new(Identity::load(provider(), library, &path, None, START_MS).unwrap());
    let desk = Desk::new(Policy { identity: Some(identity.clone()), ..Policy::default() });
    let set = async || {
        let answer = desk.send(Call::get(KEY_SET_PATH)).await;
        let set = KeySet::parse(provider(), answer.body.as_bytes()).unwrap();
        assert_eq!(set.verify(provider(), library, root.public(), START_MS, 0), Ok(()));
        set
    };
    let before = set().await;
    let second = file
        .generate(provider(), library, SignatureAlgorithm::Es256, START_MS + 5000, START_MS + 90_000, START_MS)
        .unwrap();
    file.sign(provider(), &root, START_MS, START_MS + 100_000).unwrap();
    file.replace(&path).unwrap();
    assert_eq!(set().await, before);
    desk.authority.maintain().await;
    let after = set().await;
    assert!(after.issued_ms > before.issued_ms);
    assert!(after.get(&first).is_some() && after.get(&second).is_some());
    for (at, live) in [(0, vec![first]), (5000, vec![second, first]), (10_000, vec![second])] {
        assert_eq!(identity.live_at(START_MS + at), live, "{at} ms on");
    }
}
