//! Every scenario of `vectors/relay/`, listed by folder.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::fs;
use std::path::Path;

use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{Claims, IssuerKey, Keyset, Requirements, TokenForm, verify};
use serde_json::Value;

#[test]
fn tokens_come_out_byte_for_byte_and_verify() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/relay");
    let mut ran = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let scenario: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(scenario["type"], "token", "{}: an unknown type", path.display());
        let (seed, said) = (scenario["seed_hex"].as_str().unwrap(), &scenario["claims"]);
        let seed: Vec<u8> = (0..64).step_by(2).map(|at| u8::from_str_radix(&seed[at..at + 2], 16).unwrap()).collect();
        let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| said[name].as_i64().unwrap();
        let is_later = scenario["token"].as_str().unwrap().starts_with("FST2.");
        let claims = Claims {
            form: if is_later { TokenForm::Fst2 } else { TokenForm::Fst1 },
            kid: text("kid"),
            aud: text("aud"),
            iss: text("iss"),
            channel_id: text("channel_id"),
            role: number("role"),
            token_id: text("token_id"),
            init_exp: number("init_exp"),
            iat: number("iat"),
            exp: number("exp"),
            idle_timeout_s: said["idle_timeout_seconds"].as_u64().map(|idle| u32::try_from(idle).unwrap()),
        };
        let key = IssuerKey::from_seed(&claims.kid, &seed.try_into().unwrap(), default_signatures()).unwrap();
        assert_eq!(claims.sign(&key), scenario["token"], "{}", path.display());
        let keys = Keyset::parse(key.keyset_text().as_bytes(), default_signatures()).unwrap();
        let token = scenario["token"].as_str().unwrap();
        assert_eq!(verify(token, &keys, &Requirements::default(), claims.iat).unwrap(), claims);
        ran += 1;
    }
    assert!(ran > 1, "one of each form");
}
