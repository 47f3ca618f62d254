//! The examples of RFC 7516 that the closed lists allow, and the one of RFC 7638.

use std::sync::Arc;

use sealway_proto::crypto::aws_lc::AwsLc;
use sealway_proto::mle::{
    Alg, Class, Enc, KidSource, Message, OpeningKey, OpeningKeys, Profile, Public, Side, Wrapper,
};

use crate::setup::{open, provider};

fn profile(alg: Alg, enc: Enc) -> Profile {
    let side = Side::new(&[alg], &[enc], Wrapper::Bare);
    Profile::generic(side.clone(), side, None).with_optional_kid()
}

#[test]
fn the_example_of_rfc_7516_appendix_a_1_opens() {
    let private = include_bytes!("data/rfc7516-a1.pem");
    let key = OpeningKey::rsa(Alg::RsaOaep, private, None, &KidSource::JwkThumbprint, provider()).unwrap();
    let keys = OpeningKeys::new([Arc::new(key)]).unwrap();
    let token = include_bytes!("data/rfc7516-a1.jwe");
    let plaintext = open(token, &profile(Alg::RsaOaep, Enc::A256Gcm), Message::Request, &keys).unwrap();
    assert_eq!(plaintext, b"The true sign of intelligence is not knowledge but imagination.");
    // The same key for the other hash does not open it, nor is it tried.
    let key = OpeningKey::rsa(Alg::RsaOaep256, private, None, &KidSource::JwkThumbprint, provider()).unwrap();
    let keys = OpeningKeys::new([Arc::new(key)]).unwrap();
    let refused = open(token, &profile(Alg::RsaOaep, Enc::A256Gcm), Message::Request, &keys).unwrap_err();
    assert_eq!(refused.kind(), Class::Alg);
}

#[test]
fn the_example_of_rfc_7516_appendix_a_3_opens() {
    let secret = [25, 172, 32, 130, 225, 114, 26, 181, 138, 106, 254, 192, 95, 133, 74, 82];
    let key = OpeningKey::aes_wrap(Alg::A128Kw, &secret, "shared", provider()).unwrap();
    let keys = OpeningKeys::new([Arc::new(key)]).unwrap();
    let token = include_bytes!("data/rfc7516-a3.jwe");
    let plaintext = open(token, &profile(Alg::A128Kw, Enc::A128CbcHs256), Message::Request, &keys).unwrap();
    assert_eq!(plaintext, b"Live long and prosper.");
}

#[test]
fn the_thumbprint_of_rfc_7638_section_3_1_is_computed() {
    let public = Public::load(include_bytes!("data/rfc7638.pem")).unwrap();
    let kid = KidSource::JwkThumbprint.derive(&public, &AwsLc).unwrap();
    assert_eq!(kid, "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
}
