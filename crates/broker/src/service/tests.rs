//! Tests of an operation's checks in their order: a rejection reveals nothing that an earlier check protects.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::LazyLock;

use sealway_runtime::clock::ManualClock;
use tempfile::TempDir;

use super::*;
use crate::profile::Leniency;

const PROFILES: &str = "
- {Name: Hash, Settings: {CryptoLibrary: native}, API: {HashData: {HashAlg: sha-256}}}
- Name: ChaCha
  Settings: {CryptoLibrary: native}
  API:
    HashData: {HashAlg: sha-256}
    EncryptData: {EncryptAlg: chacha20-poly1305, KeySize: 256}
- Name: Given
  Settings: {CryptoLibrary: native}
  API: {EncryptData: {EncryptAlg: aes-gcm, KeySize: 256, NonceStrategy: user-provided, TagLength: 128}}
";
static OWNER: LazyLock<Peer> = LazyLock::new(|| Peer { uid: 1000, gid: 1000, ..Peer::default() });

fn service(is_fips: bool) -> (TempDir, Service) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("Profiles.yaml");
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
    file.write_all(PROFILES.as_bytes()).unwrap();
    let service = Service {
        profiles: Arc::new(Live::load(path, Leniency::Strict).unwrap()),
        callers: None,
        audit: None,
        keys: None,
        clock: Arc::new(ManualClock::new(1_795_000_000_000)),
        owner: Callers::only(OWNER.uid),
        is_fips,
        turns: Turns::default(),
    };
    (folder, service)
}

fn query<'a>(operation: &'static str, profile: Option<&'a str>, key: Option<&'a str>) -> Query<'a> {
    Query { operation, wire: "v1", profile, key, count: 1, bytes_in: 3, ..Query::default() }
}

fn rejection(service: &Service, peer: &Peer, query: &Query<'_>, shape: Result<(), Refusal>) -> (Code, String) {
    let refusal = service.grant(peer, query, shape).unwrap_err();
    (refusal.code, refusal.text)
}

#[test]
fn the_request_comes_first_then_the_caller_then_the_profile_then_the_key() {
    let (_folder, service) = service(false);
    let stranger = Peer { uid: 1001, ..OWNER.clone() };
    let shape = || Err(Refusal::invalid("input: too large"));
    let all_wrong = query("EncryptData", Some("Nowhere"), Some("none"));
    assert_eq!(rejection(&service, &stranger, &all_wrong, shape()).1, "input: too large");
    let (code, text) = rejection(&service, &stranger, &all_wrong, Ok(()));
    assert_eq!((code, text.as_str()), (Code::PermissionDenied, "not allowed to this caller"));
    let (code, text) = rejection(&service, &OWNER, &all_wrong, Ok(()));
    assert!(code == Code::InvalidArgument && text.ends_with("there is no profile: Nowhere"), "{text}");
    let (code, text) = rejection(&service, &OWNER, &query("EncryptData", Some("ChaCha"), Some("none")), Ok(()));
    assert!(code == Code::FailedPrecondition && text.contains("no key store"), "{text}");
}

#[test]
fn unapproved_operations_are_off_only_on_the_validated_module() {
    let (_folder, fips) = service(true);
    let (_other, plain) = service(false);
    for (profile, operation, says) in [
        ("ChaCha", "EncryptData", "API.EncryptData.EncryptAlg: ChaCha20-Poly1305 is not approved"),
        ("ChaCha", "DecryptData", "API.EncryptData.EncryptAlg: ChaCha20-Poly1305 is not approved"),
        ("Given", "EncryptData", "API.EncryptData.NonceStrategy: sealing under a caller's nonce is not approved"),
    ] {
        let query = query(operation, Some(profile), None);
        let (code, text) = rejection(&fips, &OWNER, &query, Ok(()));
        assert_eq!(
            (code, text),
            (Code::FailedPrecondition, format!("profile: {profile}: disabled in the FIPS build: {says}"))
        );
        plain.grant(&OWNER, &query, Ok(())).unwrap();
    }
    for (profile, operation) in [("ChaCha", "HashData"), ("Hash", "HashData"), ("Given", "DecryptData")] {
        fips.grant(&OWNER, &query(operation, Some(profile), None), Ok(())).unwrap();
    }
}

#[test]
fn an_operation_without_a_profile_or_a_key_is_given_none() {
    let (_folder, service) = service(false);
    let grant = service.grant(&OWNER, &query("Information", None, None), Ok(())).unwrap();
    assert_eq!(grant.profile().unwrap_err().code, Code::Internal);
    assert_eq!(grant.key().unwrap_err().code, Code::Internal);
    // An operation on a key itself may concern one that does not exist yet.
    let grant = service.grant(&OWNER, &query("GenerateKey", None, Some("new")), Ok(())).unwrap();
    assert!(grant.key().is_err());
    assert_eq!(service.store().err().unwrap().code, Code::FailedPrecondition);
}

#[tokio::test]
async fn rejected_operations_are_recorded_in_the_audit_log() {
    let (folder, mut service) = service(false);
    let path = folder.path().join("audit.jsonl");
    service.audit = Some(Audit::open(&path).unwrap());
    let query = query("HashData", Some("Hash"), None);
    let outcome: Result<Outcome<()>, Refusal> = Err(Refusal::new(Code::PermissionDenied, "with a secret"));
    service.audit(&OWNER, &query, &outcome).await.unwrap();
    service.audit(&OWNER, &query, &Ok(Outcome::new((), 32))).await.unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains("\"bytes_out\":0,\"code\":7") && text.contains("\"bytes_out\":32,\"code\":0"), "{text}");
    assert!(!text.contains("with a secret"));
}

#[test]
fn an_operation_that_holds_a_thread_for_milliseconds_takes_a_turn() {
    use crate::keys::Algorithm;
    for (algorithm, count, is_long) in [
        (Algorithm::Rsa(2048), 1, false),
        (Algorithm::Rsa(3072), 1, false),
        (Algorithm::Rsa(4096), 1, true),
        (Algorithm::RsaUnwrap(4096), 1, true),
        (Algorithm::Ed25519, 99, false),
        (Algorithm::Ed25519, 100, true),
    ] {
        assert_eq!(algorithm.about_us() * count >= super::LONG_US, is_long, "{algorithm} {count}");
    }
}

fn call(timeout: Option<&'static str>) -> Call {
    let share = crate::callers::Shares::bytes(1 << 20).take(&OWNER, 1 << 16).ok();
    let timeout = timeout.map(|text| (http::HeaderName::from_static("grpc-timeout"), text.parse().unwrap()));
    Call::new(&crate::wire::Method::UNKNOWN, OWNER.clone(), &timeout.into_iter().collect(), share, 0)
}

/// A service with one turn, and a query for a batch that is long for its key.
fn with_one_turn() -> (TempDir, Service, Query<'static>) {
    use crate::keys::{Algorithm, Kek, Store};
    let (folder, mut service) = service(false);
    let keys = Store::open(&folder.path().join("keys"), Kek::random().unwrap()).unwrap();
    keys.generate("key", Algorithm::Encrypt(crate::profile::policy::EncryptAlgorithm::ChaCha20Poly1305), 0).unwrap();
    (service.keys, service.turns) = (Some(keys), Turns::new(1, 8));
    let query = Query { count: 5000, ..query("DecryptData", Some("ChaCha"), Some("key")) };
    (folder, service, query)
}

#[tokio::test]
async fn a_key_that_is_disabled_while_its_call_waits_for_a_turn_does_not_serve_it() {
    let work = |grant: &Grant| grant.key()?.current().map(|version| Outcome::new(version.number(), 1));
    for disables in [false, true] {
        let (_folder, service, query) = with_one_turn();
        let held = service.turns.take(&OWNER).await.unwrap();
        let call = call(None);
        let others = async {
            if disables {
                service.keys.as_ref().unwrap().disable("key", 1).unwrap();
            }
            drop(held);
        };
        let (outcome, ()) = tokio::join!(service.run(&call, query, Ok(()), work), others);
        assert_eq!(outcome.map(|outcome| outcome.value).is_ok(), !disables);
    }
}

#[tokio::test]
async fn a_call_whose_deadline_passes_while_it_waits_for_a_turn_is_recorded() {
    let (folder, mut service, query) = with_one_turn();
    let path = folder.path().join("audit.jsonl");
    service.audit = Some(Audit::open(&path).unwrap());
    let _held = service.turns.take(&OWNER).await.unwrap();
    let (call, work) = (call(Some("200m")), |_: &Grant| Ok(Outcome::new((), 1)));
    // Without a turn, and without the wire that would cut it, the call would wait for ever.
    let ended = tokio::time::timeout(Duration::from_secs(20), service.run(&call, query, Ok(()), work)).await;
    let refusal = ended.unwrap().err().unwrap();
    assert_eq!(refusal.code, Code::DeadlineExceeded);
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains("\"DecryptData\"") && text.contains("\"code\":4"), "{text}");
}
