//! Identity keys of every algorithm, and attempts to bring a client down to another one.

use super::*;

const RESTRICTED: SignatureAlgorithm = SignatureAlgorithm::Es384MlDsa87;

fn service(algorithm: SignatureAlgorithm) -> Service {
    Service { key: default_identity_library().generate(algorithm).unwrap().1, suites: Suite::ALL.to_vec() }
}

fn begun(pinned: &[&Service], accepted: &[SignatureAlgorithm]) -> ClientInit {
    let offer = ClientOffer {
        suites: alloc::vec![Suite::P256],
        client_id: "web".into(),
        ttl_sec: Some(60),
        pinned_key_ids: pinned.iter().map(|service| service.key_id()).collect(),
        signature_algorithms: accepted.to_vec(),
        credential: Some([7; 32]),
    };
    ClientInit::new(offer, ShareKey::generate(provider(), Suite::P256).unwrap(), None).unwrap()
}

fn finish(init: ClientInit, key: &IdentityPair, answer: &str) -> Result<ClientSession, Error> {
    let key = default_identity_library().public(key.public()).unwrap();
    init.finish(provider(), Some(&key), answer.as_bytes())
}

#[test]
fn every_algorithm_signs_every_suite() {
    for algorithm in SignatureAlgorithm::ALL {
        let service = service(algorithm);
        for suite in Suite::ALL {
            let mut offer = ClientOffer {
                suites: alloc::vec![suite],
                client_id: "web".into(),
                ttl_sec: None,
                pinned_key_ids: Vec::new(),
                signature_algorithms: alloc::vec![algorithm],
                credential: Some([7; 32]),
            };
            let share = || ShareKey::generate(provider(), suite).unwrap();
            let init = ClientInit::new(offer.clone(), share(), None).unwrap();
            let (answer, server) = service.answer(&init.body(), None).unwrap();
            let client = finish(init, &service.key, &answer).unwrap();
            assert_eq!(client.expose_secret().expose(), server.record().key.expose(), "{algorithm} {suite:?}");
            // The same key in a renewal, by its pin alone.
            offer.pinned_key_ids = alloc::vec![service.key_id()];
            offer.signature_algorithms.clear();
            offer.credential = Some([7; 32]);
            let renewal = ClientInit::new(offer, share(), Some(&client)).unwrap();
            let (answer, _) = service.answer(&renewal.body(), Some(&server)).unwrap();
            assert!(finish(renewal, &service.key, &answer).is_ok(), "{algorithm} {suite:?}");
        }
    }
}

#[test]
fn a_client_that_names_no_algorithm_accepts_es256_and_what_it_pinned() {
    for algorithm in SignatureAlgorithm::ALL {
        let service = service(algorithm);
        for (pinned, accepted, is_taken) in [
            (&[][..], &[][..], algorithm == SignatureAlgorithm::Es256),
            (&[&service], &[], true),
            (&[&service], &[algorithm], true),
            (&[], &[algorithm], true),
            (&[&service], &[RESTRICTED], algorithm == RESTRICTED),
        ] {
            let init = begun(pinned, accepted);
            let (answer, _) = service.answer(&init.body(), None).unwrap();
            let taken = finish(init, &service.key, &answer).map(drop);
            assert_eq!(taken, if is_taken { Ok(()) } else { Err(Error::KeyUntrusted) }, "{algorithm} {accepted:?}");
        }
    }
}

#[test]
fn a_list_of_algorithms_that_is_changed_on_its_way_spoils_the_signature() {
    let service = service(RESTRICTED);
    for change in [
        |body: &str| body.replace(r#","signature_algorithms":["ES384+ML-DSA-87","ES256"]"#, ""),
        |body: &str| body.replace(r#""ES384+ML-DSA-87","ES256""#, r#""ES384+ML-DSA-87""#),
        |body: &str| body.replace(r#""ES384+ML-DSA-87","ES256""#, r#""ES256","ES384+ML-DSA-87""#),
        |body: &str| body.replace(r#"["ES384+ML-DSA-87","ES256"]"#, r#"["ES384+ML-DSA-87","ES256","later"]"#),
        |body: &str| body.replace(r#"["ES384+ML-DSA-87","ES256"]"#, r#"["ML-DSA-87"]"#),
    ] {
        let init = begun(&[], &[RESTRICTED, SignatureAlgorithm::Es256]);
        let (body, hash) = (init.body(), init.init_hash(provider()));
        let changed = change(&body);
        assert_ne!(changed, body);
        let request = InitRequest::parse(changed.as_bytes()).unwrap();
        assert_ne!(request.init_hash(provider()), hash, "a proof of possession covers the list");
        let (answer, _) = service.answer(&changed, None).unwrap();
        assert_eq!(finish(init, &service.key, &answer).err(), Some(Error::SignatureInvalid), "{changed}");
    }
    // And a list that is inserted.
    let init = begun(&[&service], &[]);
    let inserted = init.body().replace(r#","ttl_sec""#, r#","signature_algorithms":["ES384+ML-DSA-87"],"ttl_sec""#);
    let (answer, _) = service.answer(&inserted, None).unwrap();
    assert_ne!(inserted, init.body());
    assert_eq!(finish(init, &service.key, &answer).err(), Some(Error::SignatureInvalid));
}

#[test]
fn a_client_of_a_composite_key_accepts_neither_part_nor_half_a_signature() {
    for (algorithm, classic) in [
        (SignatureAlgorithm::Es256MlDsa65, SignatureAlgorithm::Es256),
        (SignatureAlgorithm::Es384MlDsa87, SignatureAlgorithm::Es384),
    ] {
        let whole = service(algorithm);
        let init = begun(&[&whole], &[algorithm]);
        // The attacker has broken ECDSA: the part's own key signs, published alone under its own id.
        let broken = service(classic);
        let (answer, _) = broken.answer(&init.body(), None).unwrap();
        assert_eq!(finish(init, &broken.key, &answer).err(), Some(Error::KeyUntrusted));
        // The same under the id of the whole key: the client takes the key that it pinned.
        let init = begun(&[&whole], &[algorithm]);
        let (answer, _) = broken.answer(&init.body(), None).unwrap();
        let renamed = answer.replace(broken.key_id().as_str(), whole.key_id().as_str());
        assert_eq!(finish(init, &whole.key, &renamed).err(), Some(Error::SignatureInvalid));
    }
}

#[test]
fn the_form_of_a_list_is_checked() {
    let body = begun(&[], &[RESTRICTED]).body();
    let parse = |list: &str| {
        let text = body.replace(r#"["ES384+ML-DSA-87"]"#, list);
        assert_ne!(text, body);
        InitRequest::parse(text.as_bytes()).map(|request| request.signature_algorithms.len())
    };
    assert_eq!(parse(r#"["a_b-c+D9","ES256"]"#), Ok(2));
    assert_eq!(parse("null"), Ok(0));
    assert_eq!(parse(r#"["1","2","3","4","5","6","7","8"]"#), Ok(8));
    let long = alloc::format!(r#"["{}"]"#, "a".repeat(33));
    let bad = [
        "[]",
        "1",
        "\"ES256\"",
        "[1]",
        r#"[""]"#,
        r#"["a","a"]"#,
        r#"["a b"]"#,
        r#"["é"]"#,
        r#"["1","2","3","4","5","6","7","8","9"]"#,
        &long,
    ];
    for list in bad {
        assert_eq!(parse(list), Err(Error::FieldInvalid("signature_algorithms")), "{list}");
    }
    let many = begun(&[], &[]);
    assert!(!many.body().contains("signature_algorithms"));
}

#[test]
fn a_server_chooses_by_pins_and_algorithms() {
    let keys: Vec<IdentityKey> = SignatureAlgorithm::ALL
        .into_iter()
        .map(|algorithm| IdentityKey::new(provider(), service(algorithm).key.public(), 0, 9).unwrap())
        .collect();
    let served = |pinned: &[usize], accepted: &[&str]| {
        let mut request = InitRequest::parse(begun(&[], &[]).body().as_bytes()).unwrap();
        request.pinned_key_ids = pinned.iter().map(|index| keys[*index].key_id).collect();
        request.signature_algorithms = accepted.iter().map(|name| Box::from(*name)).collect();
        keys.iter().enumerate().filter(|(_, key)| request.is_served_by(key)).map(|(index, _)| index).collect::<Vec<_>>()
    };
    assert_eq!(served(&[], &[]), [0]);
    assert_eq!(served(&[3, 5], &[]), [3, 5]);
    assert_eq!(served(&[], &["ML-DSA-87", "ES384+ML-DSA-87"]), [3, 5]);
    assert_eq!(served(&[0, 5], &["ES384+ML-DSA-87"]), [5]);
    assert!(served(&[0], &["ES384+ML-DSA-87"]).is_empty());
    assert!(served(&[], &["SLH-DSA-SHA2-128s"]).is_empty());
}
