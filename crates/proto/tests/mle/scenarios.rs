//! Every scenario of `vectors/mle`, listed by folder.

use std::collections::BTreeSet;
use std::sync::Arc;

use sealway_proto::mle::body::unwrap;
use sealway_proto::mle::{
    Alg, Class, Enc, IatUnit, KidSource, Message, OpeningKey, OpeningKeys, Profile, Refusal, Side, Wrapper,
};
use sealway_testkit::mle_vectors::{MleGeneric, MleKey, MleScenario, load_mle};

use crate::setup::{open_at, provider, release};

fn generic(of: &MleGeneric) -> Profile {
    let algs: Vec<Alg> = of.algs.iter().map(|name| Alg::parse(name).unwrap()).collect();
    let encs: Vec<Enc> = of.encs.iter().map(|name| Enc::parse(name).unwrap()).collect();
    let iat = of.iat.as_deref().map(|unit| match unit {
        "seconds" => IatUnit::Seconds,
        "milliseconds" => IatUnit::Milliseconds,
        other => panic!("unit {other}"),
    });
    let side = Side::new(&algs, &encs, Wrapper::Bare);
    Profile::generic(side.clone(), side, iat)
}

fn profile(name: &str, of: Option<&MleGeneric>) -> Profile {
    match (name, of) {
        ("mastercard-jwe", None) => Profile::mastercard_jwe(),
        ("visa", None) => Profile::visa(),
        ("visa-acceptance", None) => Profile::visa_acceptance(),
        ("generic-jwe", Some(of)) => generic(of),
        other => panic!("profile {other:?}"),
    }
}

fn keys(of: &MleKey) -> OpeningKeys {
    let certificate = of.certificate_pem.as_deref().map(str::as_bytes);
    let (alg, kid) = (Alg::parse(&of.alg).unwrap(), KidSource::Fixed(of.kid.clone()));
    let key = OpeningKey::rsa(alg, of.private_key_pem.as_bytes(), certificate, &kid, provider()).unwrap();
    OpeningKeys::new([Arc::new(key)]).unwrap()
}

/// Opens the body of a scenario of either type.
macro_rules! open {
    ($of:expr) => {{
        let profile = profile(&$of.profile, $of.generic.as_ref());
        let message = match $of.message.as_str() {
            "request" => Message::Request,
            "answer" => Message::Answer,
            other => panic!("message {other}"),
        };
        let opened = unwrap($of.body.as_bytes(), profile.wrapper(message))
            .and_then(|token| open_at(&token, &profile, message, &keys(&$of.key), $of.now_ms));
        opened.and_then(|opened| release(opened).into_bytes()).map(|bytes| bytes.to_vec())
    }};
}

#[test]
fn every_scenario_opens_or_is_refused_as_it_says() {
    let (mut opened, mut refused, mut wrong, mut classes) = (0, 0, Vec::new(), BTreeSet::new());
    for vector in load_mle().unwrap() {
        match &vector.scenario {
            MleScenario::Open(of) => {
                opened += 1;
                let found: Result<Vec<u8>, Refusal> = open!(of);
                if found.as_ref() != Ok(&of.plaintext_base64.0) {
                    wrong.push(format!("{}: {}: {:?}", vector.name, vector.comment, found.map(|found| found.len())));
                }
            }
            MleScenario::Refused(of) => {
                refused += 1;
                classes.insert(of.class.clone());
                let found: Result<Vec<u8>, Refusal> = open!(of);
                if !matches!(&found, Err(refusal) if refusal.class() == of.class) {
                    wrong.push(format!("{}: {}: {found:?}", vector.name, vector.comment));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), opened + refused);
    assert!(opened >= 100 && refused >= 240, "{opened} open, {refused} are refused");
    // A replay needs a store; a padding is of the field-level form, signature and claims of what is signed around a token or in it.
    let elsewhere = [Class::Replayed, Class::Padding, Class::Signature, Class::Claims];
    let due = Class::ALL.iter().filter(|class| !elsewhere.contains(class)).map(|class| class.as_str().to_owned());
    assert_eq!(classes, due.collect());
}
