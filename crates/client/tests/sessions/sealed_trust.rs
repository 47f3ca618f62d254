//! Trust of a client of wire 3: pins, a root, keys met at first use; and the accepted suites.

use std::path::Path;

use http::Uri;
use sealway_client::native::{InitAnswer, KeyId, Keyring, origin};
use sealway_client::{Builder, Client, ErrorKind, Pin, SUITES_DEFAULT, Stage, Suite, Trust, TrustStore, Wire};
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{IdentityPair, SignatureAlgorithm, default_identity_library};
use sealway_proto::session::Auth;
use sealway_proto::wire::{SessionId, base64};
use serde_json::json;

use crate::ground::{self, Act, LATEST_MS, Service, client, code, new_key, pinned, post};

#[tokio::test]
async fn a_client_of_wire_3_without_trust_is_an_error_of_usage_before_anything_is_sent() {
    let service = Service::new();
    let url = service.listen().await;
    let none = Client::builder(url.clone());
    let no_pin = none.clone().trust(Trust::Pins(Vec::new()));
    for (settings, told) in [(none, "trust is missing: pin"), (no_pin, "trust: 0 keys are pinned, not 1 to 16")] {
        let err = settings.build().unwrap_err();
        assert_eq!((err.stage(), err.code(), err.is_retryable()), (Stage::Configuration, "usage", false));
        assert!(err.to_string().contains(told), "{err}");
    }
    Client::builder(url).wire(Wire::V2).build().unwrap();
    assert!(service.paths().is_empty());
}

#[tokio::test]
async fn a_key_that_is_not_pinned_is_rejected() {
    let service = Service::new();
    for act in [Act::OtherKey, Act::OtherSignature, Act::Changed] {
        let service = Service::with(&[act]);
        let err = post(&client(&service).await, "/a", b"x").await.unwrap_err();
        match act {
            Act::OtherKey => assert!(matches!(err.kind(), ErrorKind::KeyUntrusted { .. }), "{err}"),
            _ => assert!(
                matches!(err.kind(), ErrorKind::Untrusted(sealway_proto::Error::SignatureInvalid)),
                "{act:?}: {err}"
            ),
        }
        assert!(service.served.lock().unwrap().is_empty());
    }
    // Pinned by its id: the client looks up the key once, and no other key matches.
    let settings = Client::builder(service.listen().await).trust(Trust::Pins(vec![Pin::Id(service.key_id())]));
    let client = settings.build().unwrap();
    client.session().await.unwrap();
    client.forget().await;
    client.session().await.unwrap();
    assert_eq!(service.count("GET /.well-known/sealway-keys"), 1);
    assert_eq!(service.inits.lock().unwrap().last().unwrap().pinned_key_ids, [service.key_id()]);
}

fn first_use(url: &Uri, file: &Path) -> Client {
    Client::builder(url.clone()).trust(Trust::FirstUse(TrustStore::File(file.into()))).build().unwrap()
}

#[tokio::test]
async fn the_first_key_and_its_successors_are_stored_and_other_keys_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state/known");
    let service = Service::new();
    let url = service.listen().await;
    let first = first_use(&url, &file);
    assert_eq!(first.first_use(), None);
    post(&first, "/a", b"x").await.unwrap();
    let met = first.first_use().unwrap();
    assert_eq!((met.origin, met.key_ids), (origin(&url), vec![service.key_id()]));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with(&format!("http://127.0.0.1:{} {}:", url.port_u16().unwrap(), service.key_id())), "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(service.count("GET /.well-known/sealway-keys"), 1);

    // A second key appears: the first key's signature vouches for it.
    let next = new_key();
    service.keys.lock().unwrap().push(next.clone());
    let second = first_use(&url, &file);
    post(&second, "/a", b"x").await.unwrap();
    assert_eq!(second.first_use(), None, "the first client met the service");
    // Then the first key is retired.
    service.keys.lock().unwrap().remove(0);
    let again = first_use(&url, &file);
    post(&again, "/a", b"x").await.unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 1);

    // Now an impostor answers, or the operator lost the keys.
    *service.keys.lock().unwrap() = vec![new_key()];
    let err = post(&first_use(&url, &file), "/a", b"x").await.unwrap_err();
    let told = err.to_string();
    assert!(
        matches!(err.kind(), ErrorKind::KeyUntrusted { .. }) && told.contains(&file.display().to_string()),
        "{told}"
    );
    assert!(told.contains(service.key_id().as_str()) && told.contains("sealway trust forget"), "{told}");
    assert_eq!(service.served.lock().unwrap().len(), 3);
}

#[test]
fn a_key_off_the_curve_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let open =
        || Keyring::new(Trust::FirstUse(TrustStore::File(folder.path().join("known"))), "https://a.test:443", &[]);
    let own: [u8; 65] = new_key().public().try_into().unwrap();
    let mut off: [u8; 65] = new_key().public().try_into().unwrap();
    off[64] ^= 1;
    let [own_id, off_id] = [own, off].map(|key| KeyId::of(default_provider(), &key));
    let listed = [(own_id, own), (off_id, off)].map(|(id, key)| {
        json!({"key_id": id.as_str(), "alg": "ES256", "public_key": base64::encode(&key), "not_before_ms": 0, "not_after_ms": 2})
    });
    let answer = InitAnswer {
        session_id: SessionId::parse(&format!("S-{}", "0".repeat(32))).unwrap(),
        suite: Suite::P256,
        suites: vec!["P256".into()],
        share: own.to_vec(),
        expires_in_sec: 1,
        server_time_ms: 1,
        key_id: own_id,
        key_ids: vec![own_id, off_id],
        auth: Auth::None,
        subject: None,
        tenant: None,
    };
    let keyring = open().unwrap();
    keyring.see(json!({"issued_ms": 1, "expires_ms": 2, "keys": listed}).to_string().as_bytes()).unwrap();
    keyring.remember(&answer).unwrap();
    assert_eq!(open().unwrap().pinned(), [own_id]);
}

#[tokio::test]
async fn many_that_meet_services_at_a_time_lose_no_line_and_two_first_meetings_do_not_overwrite_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("known");
    let mut all = Vec::new();
    for _ in 0..8 {
        let service = Service::new();
        let client = first_use(&service.listen().await, &file);
        all.push(tokio::spawn(async move { client.session().await.map(|_| service) }));
    }
    for meeting in all {
        meeting.await.unwrap().unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 8);

    // Both clients read the file before either has written, and meet different keys.
    let service = Service::new();
    let url = service.listen().await;
    let (one, other) = (first_use(&url, &file), first_use(&url, &file));
    one.session().await.unwrap();
    *service.keys.lock().unwrap() = vec![new_key()];
    let err = other.session().await.unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::KeyUntrusted { .. }), "{err}");
}

#[tokio::test]
async fn a_file_that_others_may_write_or_that_is_damaged_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("known");
    std::fs::write(&file, "http://127.0.0.1:9 what is this\n").unwrap();
    let open = || Client::builder("http://127.0.0.1:9/").trust(Trust::FirstUse(TrustStore::File(file.clone()))).build();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(open().unwrap_err().to_string().contains("chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert!(open().unwrap_err().to_string().contains("is damaged"));
}

fn rooted(url: &Uri, root: &IdentityPair, store: TrustStore) -> Client {
    let trust = Trust::Root { key: root.public().into(), store };
    Client::builder(url.clone()).trust(trust).build().unwrap()
}

#[tokio::test]
async fn a_root_signs_the_key_set_and_an_older_set_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("roots");
    let root = default_identity_library().generate(SignatureAlgorithm::Es256).unwrap();
    let again = default_identity_library().from_pkcs8(&root.0).unwrap();
    let service = Service::new();
    *service.root.lock().unwrap() = Some(root.1);
    let url = service.listen().await;
    let open = || rooted(&url, &again, TrustStore::File(state.clone()));
    let client = open();
    post(&client, "/a", b"x").await.unwrap();
    // All keys are replaced at once: the client continues by itself, with or without a `key_retired`.
    let old = std::mem::replace(&mut *service.keys.lock().unwrap(), vec![new_key()]);
    *service.set_issued_ms.lock().unwrap() = 6;
    client.forget().await;
    service.acts.lock().unwrap().push_back(Act::Retired);
    post(&client, "/a", b"x").await.unwrap();
    // The old set returns, with the root's old signature.
    *service.keys.lock().unwrap() = old;
    *service.set_issued_ms.lock().unwrap() = 5;
    for client in [client, open()] {
        client.forget().await;
        let err = post(&client, "/a", b"x").await.unwrap_err().to_string();
        assert!(err.contains("older than one that was taken") || err.contains("the set that the root signed"), "{err}");
    }
    let stranger = rooted(&url, &new_key(), TrustStore::Memory);
    let err = stranger.session().await.unwrap_err().to_string();
    assert!(err.contains("another root signed"), "{err}");
}

#[tokio::test]
async fn a_key_signs_only_while_its_root_says_that_it_is_live_by_the_services_time_and_at_every_init() {
    let root = default_identity_library().generate(SignatureAlgorithm::Es256).unwrap();
    let trusted = default_identity_library().from_pkcs8(&root.0).unwrap();
    let service = Service::new();
    *service.root.lock().unwrap() = Some(root.1);
    let now_ms = service.now_ms();
    let client = rooted(&service.listen().await, &trusted, TrustStore::Memory);
    let hour_ms = 3_600_000;
    for (times, is_live) in [
        ([0, now_ms - hour_ms, LATEST_MS], false),
        ([now_ms + hour_ms, LATEST_MS, LATEST_MS], false),
        ([0, LATEST_MS, now_ms - hour_ms], false),
        ([now_ms - hour_ms, now_ms + 2 * hour_ms, now_ms + 4 * hour_ms], true),
    ] {
        *service.set_times_ms.lock().unwrap() = times;
        match client.session().await {
            Ok(_) => assert!(is_live, "{times:?}"),
            Err(err) => assert!(!is_live && err.to_string().contains("not live at this time"), "{times:?}: {err}"),
        }
    }
    // The set was stored while it was valid, and the key has expired since: no new session, and no renewal.
    service.ahead_ms.store(3 * hour_ms as i64, std::sync::atomic::Ordering::Relaxed);
    client.forget().await;
    let err = client.session().await.unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::KeyUntrusted { .. }), "{err}");
    // The root signs a longer lifetime.
    *service.set_times_ms.lock().unwrap() = [0, LATEST_MS, LATEST_MS];
    client.session().await.unwrap();
}

#[tokio::test]
async fn a_retired_pin_is_reported_with_the_current_keys() {
    let service = Service::with(&[Act::Retired]);
    let pin = Pin::Key(new_key().public().into());
    let client = pinned(&service).await.trust(Trust::Pins(vec![pin])).build().unwrap();
    let err = client.session().await.unwrap_err();
    let ErrorKind::KeyRetired { key_ids, .. } = err.kind() else { panic!("{err}") };
    assert_eq!(key_ids, &[service.key_id().to_string()]);
    assert!(err.to_string().contains("If its operator confirms these keys, pin them"), "{err}");
}

#[tokio::test]
async fn another_suite_is_tried_once_and_only_from_the_clients_list() {
    let service = Service::new();
    *service.suites.lock().unwrap() = vec![Suite::SecP256r1MlKem768, Suite::P256];
    let client = client(&service).await;
    post(&client, "/a", b"x").await.unwrap();
    assert_eq!(client.session().await.unwrap().agreed.unwrap().suite, Suite::SecP256r1MlKem768);
    assert_eq!(service.count("POST /v3/sessions"), 2);

    // A client has to ask for P-256 alone.
    assert!(SUITES_DEFAULT.iter().all(|suite| suite.kem().is_some()));
    let service = Service::new();
    *service.suites.lock().unwrap() = vec![Suite::P256];
    let err = ground::client(&service).await.session().await.unwrap_err();
    assert_eq!((code(&err), service.count("POST /v3/sessions")), ("suite_required", 1));
    let any: Builder = pinned(&service).await.suites(Suite::ALL);
    any.connect().await.unwrap();

    // The claim comes from an impostor; the service's list has the requested suite.
    let forged = Service::with(&[Act::Suite, Act::Suite]);
    let err = ground::client(&forged).await.session().await.unwrap_err();
    assert_eq!((code(&err), forged.count("POST /v3/sessions")), ("suite_required", 2));
    let forged = Service::with(&[Act::Suite]);
    let err = ground::client(&forged).await.session().await.unwrap_err();
    assert_eq!((code(&err), forged.count("POST /v3/sessions")), ("suite_required", 2));
}

#[tokio::test]
async fn a_client_that_restricts_its_algorithms_stores_no_other_key_and_takes_none_below_its_root() {
    let (composite, accepted) = (ground::key_of(SignatureAlgorithm::Es256MlDsa65), [SignatureAlgorithm::Es256MlDsa65]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("known_services");
    let service = Service::new();
    service.keys.lock().unwrap().push(composite.clone());
    let url = service.listen().await;
    let settings = |trust: Trust| Client::builder(url.clone()).trust(trust).signature_algorithms(accepted);
    let by_use = settings(Trust::FirstUse(TrustStore::File(file.clone()))).build().unwrap();
    let agreed = by_use.session().await.unwrap().agreed.unwrap();
    assert_eq!(agreed.key_id, ground::key_id(&composite));
    let known = TrustStore::File(file.clone()).services().unwrap();
    assert_eq!(known[0].key_ids, [ground::key_id(&composite)], "the answer names the ES256 key too");
    let sent = service.inits.lock().unwrap().last().unwrap().signature_algorithms.clone();
    assert_eq!(sent, [Box::from("ES256+ML-DSA-65")]);
    // A stored key that the client does not accept any more is no reason to begin anew with an unknown one.
    let other = Client::builder(url.clone()).trust(Trust::FirstUse(TrustStore::File(file)));
    let err = other.signature_algorithms([SignatureAlgorithm::MlDsa87]).build().unwrap_err();
    assert!(err.to_string().contains("signature_algorithms: no key of "), "{err}");
    // Below a root of ES256 the configuration is refused before anything is sent.
    let root = new_key();
    let err = settings(Trust::Root { key: root.public().into(), store: TrustStore::Memory }).build().unwrap_err();
    assert!(err.to_string().contains("signature_algorithms: the root is of ES256"), "{err}");
    // Below a root of an accepted algorithm, a service without such a key has no signer.
    let plain = Service::new();
    let root = default_identity_library().generate(SignatureAlgorithm::Es256MlDsa65).unwrap().1;
    let trust = Trust::Root { key: root.public().into(), store: TrustStore::Memory };
    *plain.root.lock().unwrap() = Some(root);
    let client = Client::builder(plain.listen().await).trust(trust).signature_algorithms(accepted).build().unwrap();
    let err = client.session().await.unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::KeyUntrusted { .. }), "{err}");
}
