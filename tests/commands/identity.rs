//! `sealway identity`, and a server with the keys that it generated: in a file, in memory, in a real broker.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sealway_client::broker::{Client, Options};
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::session::native::KeySet;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_sessions::identity::{BrokerAccess, Identity, SignError};
use sealway_testkit::broker::{Broker, PROFILES};
use sealway_testkit::daemon::clear_environment;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;

use crate::BINARY;

const KEY_SET: &str = "/.well-known/sealway-keys";

fn now_ms() -> u64 {
    SystemClock.now_ms()
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    clear_environment(&mut command).arg("identity").args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn says(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// A folder, and paths in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap()
    }
}

/// Returns the first word of a line, a key's id.
fn id_in(said: &str) -> String {
    said.split_whitespace().next().unwrap().to_owned()
}

/// Returns the public key that `identity root` printed.
fn root_public(said: &str) -> String {
    let line = said.lines().find(|line| line.starts_with("root_public_key")).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

/// Returns the state that `identity list` shows for a key.
fn condition(listed: &str, id: &str) -> String {
    let line = listed.lines().find(|line| line.starts_with(id));
    line.unwrap_or_else(|| panic!("{id} is not in {listed}")).split_whitespace().nth(1).unwrap().to_owned()
}

fn config(more: &str) -> String {
    format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/session/, /v3/], path: {KEY_SET} }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['demo:'] }} }}
sessions: {{ {more} }}
"
    )
}

fn start(folder: &Path, more: &str) -> anyhow::Result<Server> {
    Launch::new(BINARY, &config(more)).folder(folder).start()
}

fn key_set(server: &Server) -> KeySet {
    let answer = Request::get(KEY_SET).send(server.address()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    KeySet::parse(default_provider(), answer.text().as_bytes()).unwrap()
}

fn ids(set: &KeySet) -> Vec<String> {
    set.keys.iter().map(|key| key.key_id.to_string()).collect()
}

#[test]
fn keys_are_made_listed_and_retired_and_the_file_is_its_owners_alone() {
    let place = Place::new();
    let file = place.file("a.identity");
    let first = id_in(&says(&["generate", &file]));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let second = id_in(&says(&["generate", &file, "--not-before", "30d", "--not-after", "400d"]));
    let listed = says(&["list", &file]);
    assert_eq!((condition(&listed, &first).as_str(), condition(&listed, &second).as_str()), ("live", "next"));
    for secret in place.read("a.identity").split('"').filter(|part| part.len() > 100) {
        assert!(!listed.contains(secret), "the list shows a private key");
    }
    let before = place.read("a.identity");
    for (arguments, what) in [
        (vec!["retire", &file, &first], "no other key of ES256 is live"),
        (vec!["retire", &file, &first, "--at", "20d"], "no other key of ES256 is live"),
        (vec!["retire", &file, &first, "--at", "yesterday"], "--at: \"yesterday\": expected a time"),
        (vec!["retire", &file, &first, "--at", "2020-01-01"], "in the past"),
        (vec!["retire", &file, "abc"], "32 digits"),
        (vec!["retire", &file, &"0".repeat(32)], "does not hold it"),
        (vec!["generate", &file, "--not-before", "2d", "--not-after", "1d"], "must be before not_after"),
        (vec!["generate", &file, "--not-before", "soon"], "--not-before: \"soon\": expected a time"),
        (vec!["list", "/nowhere/a.identity"], "/nowhere/a.identity"),
        (vec!["set", "/nowhere/a.identity"], "/nowhere/a.identity"),
    ] {
        let said = refused(&arguments);
        assert!(said.contains(what), "{arguments:?}: {said}");
        assert_eq!(place.read("a.identity"), before, "{arguments:?} changed the file");
    }
    says(&["retire", &file, &first, "--at", "31d"]);
    assert!(says(&["retire", &file, &second]).contains("no more"));
    assert_eq!(says(&["list", &file]).lines().count(), 1);
    says(&["retire", &file, &first, "--force"]);
    assert_eq!(condition(&says(&["list", &file]), &first), "retired");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "a file was left over");
}

#[test]
fn a_root_signs_a_set_that_was_carried_to_it_and_the_service_takes_it_in_and_publishes_it() {
    let (service, vault) = (Place::new(), Place::new());
    let root_file = vault.file("root.json");
    let public = root_public(&says(&["root", &root_file]));
    assert_eq!(std::fs::metadata(&root_file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(refused(&["root", &root_file]).contains("root.json"), "a root was overwritten");
    let file = service.file("a.identity");
    let first = id_in(&says(&["generate", &file]));
    assert!(refused(&["verify", &file, "--root-key", &public]).contains("no root signed"));
    let set = says(&["set", &file]);
    assert!(!set.contains("private"));
    std::fs::write(vault.path().join("set.json"), &set).unwrap();
    let carried = vault.file("set.json");
    assert!(refused(&["verify", &carried, "--root-key", &public]).contains("no root signed"));
    assert!(refused(&["sign", &carried, "--root", &root_file, "--expires-in", "soon"]).contains("--expires-in"));
    assert!(refused(&["sign", &carried, "--root", &file, "--expires-in", "90d"]).contains("a.identity"));
    assert!(says(&["sign", &carried, "--root", &root_file, "--expires-in", "90d"]).contains(&first));
    let before = service.read("a.identity");
    let other = root_public(&says(&["root", &vault.file("other.json")]));
    assert!(refused(&["import", &file, &carried, "--root-key", &other]).contains("another root"));
    assert!(refused(&["import", &file, &carried, "--root-key", "AAAA"]).contains("--root-key"));
    assert_eq!(service.read("a.identity"), before);
    says(&["import", &file, &carried, "--root-key", &public]);
    assert!(says(&["verify", &file, "--root-key", &public]).contains(&first));
    let old = std::fs::read(&carried).unwrap();

    let server = start(&service.path(), "identity: { key_file: a.identity }").unwrap();
    let published = key_set(&server);
    let root: [u8; 65] = sealway_proto::wire::base64::decode_array(&public).unwrap();
    assert_eq!(published.verify(default_provider(), default_identity_library(), &root, now_ms(), 0), Ok(()));
    assert_eq!(ids(&published), std::slice::from_ref(&first));
    std::fs::write(vault.path().join("published.json"), published.encode()).unwrap();
    assert!(says(&["verify", &vault.file("published.json"), "--root-key", &public]).contains("expires"));
    assert!(refused(&["verify", &vault.file("published.json"), "--root-key", &other]).contains("another root"));

    // Another key waits for the root's signature. Once it is signed, the older set cannot be imported.
    let said = says(&["generate", &file]);
    assert!(said.contains("sign the set again"), "{said}");
    assert_eq!(condition(&says(&["list", &file]), &id_in(&said)), "unsigned");
    assert!(says(&["sign", &file, "--root", &root_file, "--expires-in", "90d"]).contains(&id_in(&said)));
    assert_eq!(condition(&says(&["list", &file]), &id_in(&said)), "live");
    std::fs::write(&carried, old).unwrap();
    assert!(refused(&["import", &file, &carried, "--root-key", &public]).contains("older"));
}

#[test]
fn a_server_makes_an_identity_only_where_it_may_and_says_when_it_has_none() {
    let place = Place::new();
    let mut server = start(&place.path(), "").unwrap();
    server.wait_for_log(0, |line| line.to_string().contains("wire 3 is off")).unwrap();
    assert_eq!(Request::get(KEY_SET).send(server.address()).unwrap().status, 404);
    drop(server);
    let missing = start(&place.path(), "identity: { key_file: a.identity }").unwrap_err();
    assert!(format!("{missing:#}").contains("sealway identity generate"), "{missing:#}");
    let in_memory = key_set(&start(&place.path(), "identity: { allow_generated: true }").unwrap());
    assert_eq!(in_memory.keys.len(), 1);
    assert!(
        !std::fs::read_dir(place.path())
            .unwrap()
            .any(|entry| { entry.unwrap().path().extension().is_some_and(|extension| extension == "identity") })
    );
    let beside = "store: 'file:s.redb', allow_generated_kek: true, identity: { allow_generated: true }";
    let made = key_set(&start(&place.path(), beside).unwrap());
    assert_eq!(std::fs::metadata(place.file("s.identity")).unwrap().permissions().mode() & 0o777, 0o600);
    let again = key_set(&start(&place.path(), "store: 'file:s.redb'").unwrap());
    assert_eq!(ids(&again), ids(&made), "a restart changed who the service is");
    assert_ne!(ids(&again), ids(&in_memory));
}

/// A broker with a profile that signs as wire 3 requires.
fn broker(place: &Place) -> Broker {
    let mut profiles = PROFILES.to_owned();
    for (name, settings) in [
        ("Identity", "SignAlg: ecdsa, HashAlg: sha-256, Curve: P-256, SignatureFormat: RAW"),
        ("IdentityP384", "SignAlg: ecdsa, HashAlg: sha-384, Curve: P-384, SignatureFormat: RAW"),
        ("IdentityMl65", "SignAlg: ml-dsa-65"),
        ("IdentityMl87", "SignAlg: ml-dsa-87"),
    ] {
        profiles +=
            &format!("- {{Name: {name}, Settings: {{CryptoLibrary: native}}, API: {{SignData: {{{settings}}}}}}}\n");
    }
    let file = place.file("Profiles.yaml");
    std::fs::write(&file, profiles).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    Broker::start(BINARY, &place.path()).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn a_key_in_the_broker_signs_and_once_it_was_rotated_there_nothing_wrong_is_signed() {
    let (place, service) = (Place::new(), Place::new());
    let broker = broker(&place);
    let socket = broker.socket().display().to_string();
    let client = Client::new(Options::new(broker.socket()));
    block_on(client.generate_key("identity-1", "ecdsa-p256")).unwrap();
    block_on(client.generate_key("other", "ecdsa-p521")).unwrap();
    let file = service.file("a.identity");
    let generate = |key: &str| run(&["generate", &file, "--broker-key", key, "--socket", &socket]);
    assert!(String::from_utf8_lossy(&generate("other").stderr).contains("none of ES256, ES384"));
    assert!(String::from_utf8_lossy(&generate("none").stderr).contains("broker.sock"));
    let made = generate("identity-1");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let id = id_in(&String::from_utf8(made.stdout).unwrap());
    assert!(!service.read("a.identity").contains("private_key"));
    assert!(says(&["list", &file]).contains("in the broker: identity-1"));

    let with = |profile: &str| {
        format!("identity: {{ key_file: a.identity, broker: {{ socket: '{socket}', profile: {profile} }} }}")
    };
    let without = start(&service.path(), "identity: { key_file: a.identity }").unwrap_err();
    assert!(format!("{without:#}").contains("sessions.identity.broker does not say"), "{without:#}");
    let der = start(&service.path(), &with("P256")).unwrap_err();
    assert!(format!("{der:#}").contains("SignatureFormat RAW"), "{der:#}");
    assert_eq!(ids(&key_set(&start(&service.path(), &with("Identity")).unwrap())), [id]);

    block_on(async {
        let access = BrokerAccess::new(broker.socket(), "Identity".into(), None);
        let path = service.path().join("a.identity");
        let identity =
            Identity::load(default_provider(), default_identity_library(), &path, Some(access), now_ms()).unwrap();
        let signer = identity.signer_for(now_ms(), |_| true).unwrap();
        let signature = signer.sign(now_ms(), b"message").await.unwrap();
        assert!(default_identity_library().public(&signer.key().public_key).unwrap().verify(b"message", &signature));
        client.rotate_key("identity-1", &[]).await.unwrap();
        match signer.sign(now_ms(), b"message").await {
            Err(SignError::Unavailable(what)) => assert!(what.contains("was the key rotated there?"), "{what}"),
            other => panic!("{other:?}"),
        }
    });
    let rotated = start(&service.path(), &with("Identity")).unwrap_err();
    assert!(format!("{rotated:#}").contains("was the key rotated there?"), "{rotated:#}");
}

#[test]
fn keys_of_each_algorithm_in_the_broker_open_sessions() {
    let (place, service) = (Place::new(), Place::new());
    let broker = broker(&place);
    let socket = broker.socket().display().to_string();
    let client = Client::new(Options::new(broker.socket()));
    let file = service.file("a.identity");
    let kinds =
        [("ES256", "ecdsa-p256"), ("ES384", "ecdsa-p384"), ("ML-DSA-65", "ml-dsa-65"), ("ML-DSA-87", "ml-dsa-87")];
    for (_, kind) in kinds {
        block_on(client.generate_key(kind, kind)).unwrap();
        let made = run(&["generate", &file, "--broker-key", kind, "--socket", &socket]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let listed = says(&["list", &file]);
    for (algorithm, kind) in &kinds[1..] {
        assert!(listed.contains(&format!("  {algorithm}  in the broker: {kind}")), "{listed}");
    }
    let with = |profiles: &str| {
        format!(
            "identity: {{ key_file: a.identity, broker: {{ socket: '{socket}', profile: Identity, profiles: {{ {profiles} }} }} }}"
        )
    };
    let lacks = start(&service.path(), &with("ES384: IdentityP384, ML-DSA-65: IdentityMl65")).unwrap_err();
    assert!(format!("{lacks:#}").contains("ml-dsa-87"), "{lacks:#}");
    let all = with("ES384: IdentityP384, ML-DSA-65: IdentityMl65, ML-DSA-87: IdentityMl87");
    let server = start(&service.path(), &all).unwrap();
    assert_eq!(ids(&key_set(&server)).len(), kinds.len());
    block_on(async {
        let of = |name| SignatureAlgorithm::from_name(name).unwrap();
        let profiles = [("ES384", "IdentityP384"), ("ML-DSA-65", "IdentityMl65"), ("ML-DSA-87", "IdentityMl87")];
        let profiles = profiles.into_iter().map(|(name, profile)| (of(name), profile.to_owned())).collect();
        let access = BrokerAccess::new(broker.socket(), "Identity".into(), None).with_profiles(profiles);
        let path = service.path().join("a.identity");
        let identity =
            Identity::load(default_provider(), default_identity_library(), &path, Some(access), now_ms()).unwrap();
        for (algorithm, kind) in kinds {
            let signer = identity.signer_for(now_ms(), |key| &*key.alg == algorithm).unwrap();
            let signature = signer.sign(now_ms(), b"message").await.unwrap();
            let public = default_identity_library().public(&signer.key().public_key).unwrap();
            assert!(public.verify(b"message", &signature), "{algorithm}");
            client.rotate_key(kind, &[]).await.unwrap();
            match signer.sign(now_ms(), b"message").await {
                Err(SignError::Unavailable(what)) => assert!(what.contains("was the key rotated there?"), "{what}"),
                other => panic!("{algorithm}: {other:?}"),
            }
        }
    });
}
