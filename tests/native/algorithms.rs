//! Identity keys of every algorithm at a real `sealway serve`, by every suite, and an attacker who wants another algorithm than the
//! client. `spec/session-3.md#algorithms`.

use std::path::Path;
use std::process::Command;

use sealway_client::{Client, Pin, Trust, TrustStore};
use sealway_proto::Error;
use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::crypto::identity::SignatureAlgorithm;
use sealway_proto::session::native::{ClientOffer, IdentityKey, KeySet, Suite};
use sealway_testkit::native_client::{code, finish, init, key_set, offer};
use sealway_testkit::process::{Launch, Server};

use crate::BINARY;

const CONFIG: &str = "
listeners: [{ address: '127.0.0.1:0' }]
routes:
  - { match: { path_prefix: [/v3/sessions, /.well-known/] }, sessions: {} }
  - { match: {}, sealed: required, upstream: shop }
upstreams: { shop: { servers: ['demo:'] } }
sessions:
  store: 'memory:'
  identity: { key_file: identity.keys }
  wire3: { suites: [X25519MLKEM768, SecP256r1MLKEM768, P256, SecP384r1MLKEM1024, MLKEM1024] }
";

/// A service with one key of each of these algorithms, made by the command line.
struct Ground {
    server: Server,
    set: KeySet,
    folder: tempfile::TempDir,
}

fn sealway(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(BINARY).current_dir(folder).args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

impl Ground {
    fn start(algorithms: &[SignatureAlgorithm]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for algorithm in algorithms {
            let (is_made, said) =
                sealway(folder.path(), &["identity", "generate", "identity.keys", "--alg", algorithm.name()]);
            assert!(is_made, "{said}");
        }
        let server = Launch::new(BINARY, CONFIG).folder(folder.path()).start().unwrap();
        let set = key_set(server.address()).unwrap();
        assert_eq!(set.keys.len(), algorithms.len());
        Ground { server, set, folder }
    }

    fn key(&self, algorithm: SignatureAlgorithm) -> &IdentityKey {
        self.set.keys.iter().find(|key| key.algorithm() == Some(algorithm)).unwrap()
    }

    /// Agrees a session; the request is changed on its way. Returns the algorithm that signed, the service's problem or the client's
    /// reason.
    fn agree(&self, offer: ClientOffer, trusted: &KeySet, change: impl Fn(&str) -> String) -> String {
        let (init, request) = init(offer);
        let body = String::from_utf8(request.body_bytes().to_vec()).unwrap();
        let answer = request.body(change(&body).into_bytes()).send(self.server.address()).unwrap();
        if answer.status >= 400 {
            return code(&answer);
        }
        match finish(init, trusted, &answer) {
            Ok(session) => trusted.get(&session.agreed().key_id).map(|key| key.alg.to_string()).unwrap(),
            Err(err) => format!("{err:?}"),
        }
    }
}

/// An offer of one suite, which pins these keys and accepts these algorithms.
fn of(suite: Suite, pinned: &[&IdentityKey], accepted: &[SignatureAlgorithm]) -> ClientOffer {
    let ids: Vec<_> = pinned.iter().map(|key| key.key_id).collect();
    ClientOffer { suites: vec![suite], signature_algorithms: accepted.to_vec(), ..offer(suite, &ids) }
}

fn unchanged(body: &str) -> String {
    body.to_owned()
}

#[test]
fn every_algorithm_signs_for_every_suite() {
    let ground = Ground::start(&SignatureAlgorithm::ALL);
    for algorithm in SignatureAlgorithm::ALL {
        for suite in Suite::ALL {
            for offer in [of(suite, &[ground.key(algorithm)], &[]), of(suite, &[], &[algorithm])] {
                assert_eq!(ground.agree(offer, &ground.set, unchanged), algorithm.name(), "{suite:?}");
            }
        }
    }
    // Without pins and algorithms, the ES256 key signs, although it is the oldest.
    assert_eq!(ground.agree(of(Suite::P256, &[], &[]), &ground.set, unchanged), "ES256");
    let (is_listed, said) = sealway(ground.folder.path(), &["identity", "list", "identity.keys"]);
    assert!(is_listed && said.contains("ES384+ML-DSA-87") && !said.contains("ES256\n"), "{said}");
}

#[test]
fn nobody_in_the_middle_brings_a_client_to_another_algorithm() {
    let ground = Ground::start(&SignatureAlgorithm::ALL);
    let (composite, classic) = (SignatureAlgorithm::Es384MlDsa87, SignatureAlgorithm::Es384);
    let list = r#""signature_algorithms":["ES384+ML-DSA-87","ML-DSA-87"]"#;
    let restricted = || of(Suite::MlKem1024, &[], &[composite, SignatureAlgorithm::MlDsa87]);
    for (replaced, ended) in [
        // Stripped, the service signs with ES256, which the client does not accept.
        (String::new(), "KeyUntrusted"),
        (r#""signature_algorithms":["ES256"]"#.into(), "KeyUntrusted"),
        (r#""signature_algorithms":["ES384"]"#.into(), "KeyUntrusted"),
        // Of the accepted ones, the attacker would like another: the signature covers the list.
        (r#""signature_algorithms":["ML-DSA-87"]"#.into(), "SignatureInvalid"),
        (r#""signature_algorithms":["ES384+ML-DSA-87"]"#.into(), "SignatureInvalid"),
        (r#""signature_algorithms":["ML-DSA-87","ES384+ML-DSA-87"]"#.into(), "SignatureInvalid"),
        (r#""signature_algorithms":[]"#.into(), "malformed"),
        (r#""signature_algorithms":["later"]"#.into(), "key_retired"),
    ] {
        let change = |body: &str| {
            assert!(body.contains(list), "{body}");
            let body = body.replace(list, &replaced);
            if replaced.is_empty() { body.replace(",,", ",").replace("{,", "{").replace(",}", "}") } else { body }
        };
        assert_eq!(ground.agree(restricted(), &ground.set, change), ended, "{replaced}");
    }
    assert_eq!(ground.agree(restricted(), &ground.set, unchanged), "ES384+ML-DSA-87");
    // A client that pins keys of both kinds and accepts the composite one alone.
    let pinned = [ground.key(composite), ground.key(classic)];
    assert_eq!(ground.agree(of(Suite::P256, &pinned, &[composite]), &ground.set, unchanged), "ES384+ML-DSA-87");
    let stripped = |body: &str| body.replace(r#","signature_algorithms":["ES384+ML-DSA-87"]"#, "");
    let ended = ground.agree(of(Suite::P256, &[ground.key(classic)], &[composite]), &ground.set, unchanged);
    assert_eq!(ended, "key_retired");
    let ended = ground.agree(of(Suite::P256, &[ground.key(classic)], &[composite]), &ground.set, stripped);
    assert_eq!(ended, "KeyUntrusted");
}

#[test]
fn the_part_of_a_composite_key_that_is_published_alone_serves_nobody_who_pinned_the_whole() {
    let ground = Ground::start(&[SignatureAlgorithm::Es256MlDsa65]);
    let whole = ground.key(SignatureAlgorithm::Es256MlDsa65);
    // The attacker publishes the ECDSA part under its own id; the client that pinned the whole asks for the whole.
    let mut forged = ground.set.clone();
    let part = IdentityKey::new(default_agreement_provider(), &whole.public_key[..65], 0, u64::MAX).unwrap();
    forged.keys = vec![part.clone()];
    assert_eq!(ground.agree(of(Suite::P256, &[whole], &[]), &forged, unchanged), format!("{:?}", Error::KeyUntrusted));
    // And the ECDSA half of the service's own signature, under the id of the part.
    let (init, request) = init(of(Suite::P256, &[whole], &[]));
    let mut answer = request.send(ground.server.address()).unwrap();
    let mut object = answer.json();
    let signature = sealway_proto::wire::base64::decode(object["signature"].as_str().unwrap().as_bytes()).unwrap();
    assert_eq!(signature.len(), 3373);
    object["signature"] = sealway_proto::wire::base64::encode(&signature[..64]).into();
    object["key_id"] = part.key_id.as_str().into();
    answer.body = object.to_string().into_bytes();
    // The client does not accept ES256 of a key that it did not pin … if it is restricted; otherwise the signature is over another message.
    assert_eq!(finish(init, &forged, &answer).err(), Some(Error::SignatureInvalid));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_client_takes_pins_roots_and_first_use_of_every_algorithm() {
    let ground = Ground::start(&SignatureAlgorithm::ALL);
    let url: http::Uri = format!("http://{}", ground.server.address()).parse().unwrap();
    let agree = async |trust: Trust, accepted: Vec<SignatureAlgorithm>| {
        let client =
            Client::builder(url.clone()).trust(trust).suites([Suite::MlKem1024]).signature_algorithms(accepted);
        client.build()?.session().await.map(|session| session.agreed.unwrap().key_id)
    };
    for algorithm in SignatureAlgorithm::ALL {
        let key = ground.key(algorithm);
        let pins = |pin: Pin| Trust::Pins(vec![pin]);
        for trust in [pins(Pin::Id(key.key_id)), pins(Pin::Key(key.public_key.clone()))] {
            assert_eq!(agree(trust.clone(), Vec::new()).await.unwrap(), key.key_id, "{algorithm}");
            assert_eq!(agree(trust, vec![algorithm]).await.unwrap(), key.key_id, "{algorithm}");
        }
        let first_use = Trust::FirstUse(TrustStore::Memory);
        assert_eq!(agree(first_use, vec![algorithm]).await.unwrap(), key.key_id, "{algorithm}");
        let other = if algorithm == SignatureAlgorithm::MlDsa87 {
            SignatureAlgorithm::Es256
        } else {
            SignatureAlgorithm::MlDsa87
        };
        let err = agree(pins(Pin::Key(key.public_key.clone())), vec![other]).await.unwrap_err().to_string();
        assert!(err.contains("signature_algorithms: the pinned key") && err.contains(algorithm.name()), "{err}");
    }
    // Below a root of each algorithm.
    for algorithm in SignatureAlgorithm::ALL {
        let folder = ground.folder.path();
        let root = format!("root-{algorithm}.json");
        let (is_made, said) = sealway(folder, &["identity", "root", &root, "--alg", algorithm.name()]);
        assert!(is_made, "{said}");
        let public = said.split_whitespace().skip_while(|word| *word != "root_public_key").nth(1).unwrap().to_owned();
        let (is_signed, said) =
            sealway(folder, &["identity", "sign", "identity.keys", "--root", &root, "--expires-in", "90d"]);
        assert!(is_signed, "{said}");
        let (is_verified, said) = sealway(folder, &["identity", "verify", "identity.keys", "--root-key", &public]);
        assert!(is_verified, "{said}");
        let server = Launch::new(BINARY, CONFIG).folder(folder).start().unwrap();
        let url: http::Uri = format!("http://{}", server.address()).parse().unwrap();
        let key = sealway_client::native::public_key(&public).unwrap();
        let trust = Trust::Root { key, store: TrustStore::Memory };
        let client = Client::builder(url).trust(trust.clone()).signature_algorithms([algorithm]);
        let agreed = client.build().unwrap().session().await.unwrap().agreed.unwrap();
        assert_eq!(ground.key(algorithm).key_id, agreed.key_id);
    }
}
