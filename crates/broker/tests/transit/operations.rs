//! Each operation and its answer, as clients of the API expect it.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::ground::{Ground, base64, error};

fn text<'a>(data: &'a Value, member: &str) -> &'a str {
    data[member].as_str().unwrap_or_else(|| panic!("{member}: {data}"))
}

#[test]
fn a_ciphertext_opens_after_a_rotation_and_is_rewrapped_under_the_new_version() {
    let ground = Ground::new();
    let made = ground.data("keys/orders", "{}");
    assert_eq!((&made["type"], &made["latest_version"]), (&json!("aes256-gcm96"), &json!(1)));
    assert!(made["keys"]["1"].as_u64().unwrap() > 1_700_000_000, "{made}");
    let input = json!({ "plaintext": base64("salary"), "associated_data": base64("row 7") }).to_string();
    let sealed = ground.data("encrypt/orders", &input);
    let first = text(&sealed, "ciphertext").to_owned();
    assert!(first.starts_with("vault:v1:"), "{first}");
    assert_eq!(sealed["key_version"], 1);
    let rotated = ground.data("keys/orders/rotate", "");
    assert_eq!(rotated["latest_version"], 2);
    let opening =
        |ciphertext: &str| json!({ "ciphertext": ciphertext, "associated_data": base64("row 7") }).to_string();
    assert_eq!(ground.data("decrypt/orders", &opening(&first))["plaintext"], base64("salary"));
    let second = text(&ground.data("rewrap/orders", &opening(&first)), "ciphertext").to_owned();
    assert!(second.starts_with("vault:v2:"), "{second}");
    assert_eq!(ground.data("decrypt/orders", &opening(&second))["plaintext"], base64("salary"));
    let other = json!({ "ciphertext": first, "associated_data": base64("row 8") }).to_string();
    let (status, answer) = ground.post("decrypt/orders", &other);
    assert!(status == 400 && error(&answer).starts_with("does not open"), "{answer}");
    let moved = opening(&first.replace("vault:v1:", "vault:v2:"));
    assert_eq!(ground.post("decrypt/orders", &moved).0, 400);
}

#[test]
fn a_batch_answers_each_entry_and_fails_only_those_that_are_wrong() {
    let ground = Ground::new();
    ground.data("keys/orders", r#"{"type":"chacha20-poly1305"}"#);
    let batch = json!({ "batch_input": [
        { "plaintext": base64("one"), "reference": "a" },
        { "plaintext": base64("two"), "reference": "b" },
        { "plaintext": "" },
    ] });
    let sealed = ground.data("encrypt/orders", &batch.to_string())["batch_results"].clone();
    assert_eq!((&sealed[0]["reference"], &sealed[1]["reference"]), (&json!("a"), &json!("b")));
    let mut opening = json!({ "batch_input": [
        { "ciphertext": sealed[0]["ciphertext"] },
        { "ciphertext": "vault:v1:AAAA" },
        { "ciphertext": sealed[2]["ciphertext"], "reference": "c" },
    ] });
    let (status, answer) = ground.post("decrypt/orders", &opening.to_string());
    let results = &answer["data"]["batch_results"];
    assert_eq!((status, &results[0]["plaintext"]), (400, &json!(base64("one"))));
    assert_eq!(results[1]["error"], "ciphertext: too short for a nonce and a tag");
    assert_eq!(results[2], json!({ "plaintext": "", "reference": "c" }));
    opening["partial_failure_response_code"] = 207.into();
    assert_eq!(ground.post("decrypt/orders", &opening.to_string()).0, 207);
    let all_wrong = json!({ "batch_input": [{ "ciphertext": "x" }], "partial_failure_response_code": 207 });
    assert_eq!(ground.post("decrypt/orders", &all_wrong.to_string()).0, 400);
}

#[test]
fn signatures_verify_for_every_type_of_key_and_no_other_input() {
    let ground = Ground::new();
    for (kind, options) in [
        ("ed25519", json!({})),
        ("ecdsa-p256", json!({})),
        ("ecdsa-p256", json!({ "marshaling_algorithm": "jws" })),
        ("ecdsa-p384", json!({ "hash_algorithm": "sha2-384" })),
        ("ecdsa-p521", json!({ "hash_algorithm": "sha2-512", "prehashed": false })),
        ("rsa-2048", json!({ "salt_length": "auto" })),
        ("rsa-2048", json!({ "hash_algorithm": "sha2-512", "signature_algorithm": "pkcs1v15" })),
    ] {
        ground.data(&format!("keys/{kind}"), &json!({ "type": kind }).to_string());
        let with = |member: &str, value: &str| {
            let mut body = options.clone();
            body["input"] = base64("invoice").into();
            if !member.is_empty() {
                body[member] = value.into();
            }
            body.to_string()
        };
        let signed = ground.data(&format!("sign/{kind}"), &with("", ""));
        let signature = text(&signed, "signature");
        let encoded = signature.strip_prefix("vault:v1:").unwrap();
        if options["marshaling_algorithm"] == "jws" {
            assert_eq!(URL_SAFE_NO_PAD.decode(encoded).unwrap().len(), 64);
        } else {
            STANDARD.decode(encoded).unwrap();
        }
        assert_eq!(ground.data(&format!("verify/{kind}"), &with("signature", signature))["valid"], true, "{kind}");
        let other = with("signature", signature).replace(&base64("invoice"), &base64("another"));
        assert_eq!(ground.data(&format!("verify/{kind}"), &other)["valid"], false, "{kind}");
    }
    let read = ground.ask("GET", "/v1/transit/keys/ecdsa-p256", &[("X-Vault-Token", &ground.admin)], b"").1;
    let version = &read["data"]["keys"]["1"];
    assert_eq!(version["name"], "P-256");
    assert!(text(version, "public_key").starts_with("-----BEGIN PUBLIC KEY-----"));
    let read = ground.ask("GET", "/v1/transit/keys/ed25519", &[("X-Vault-Token", &ground.admin)], b"").1;
    assert_eq!(STANDARD.decode(text(&read["data"]["keys"]["1"], "public_key")).unwrap().len(), 32);
}

#[test]
fn a_key_of_ml_dsa_has_the_parameter_set_that_was_asked_for() {
    let ground = Ground::new();
    for (set, signature_len) in [("44", 2420), ("87", 4627)] {
        let created =
            ground.data(&format!("keys/d{set}"), &json!({ "type": "ml-dsa", "parameter_set": set }).to_string());
        assert_eq!((&created["type"], &created["parameter_set"]), (&json!("ml-dsa"), &json!(set)));
        let signed = ground.data(&format!("sign/d{set}"), r#"{"input":"YQ=="}"#);
        let signature = text(&signed, "signature");
        assert_eq!(STANDARD.decode(signature.strip_prefix("vault:v1:").unwrap()).unwrap().len(), signature_len);
        let verify = json!({ "input": "YQ==", "signature": signature }).to_string();
        assert_eq!(ground.data(&format!("verify/d{set}"), &verify)["valid"], true);
    }
}

#[test]
fn macs_digests_and_random_bytes_have_the_known_values_and_lengths() {
    let ground = Ground::new();
    ground.data("keys/mac", r#"{"type":"hmac","key_size":64}"#);
    let tag = text(&ground.data("hmac/mac/sha2-512", r#"{"input":"YQ=="}"#), "hmac").to_owned();
    let verify = json!({ "input": "YQ==", "hmac": tag }).to_string();
    assert_eq!(ground.data("verify/mac", &verify)["valid"], true);
    let batch = json!({ "batch_input": [{ "input": "YQ==", "hmac": tag }, { "input": "Yg==", "hmac": tag }] });
    let results = ground.data("verify/mac/sha2-512", &batch.to_string())["batch_results"].clone();
    assert_eq!(results, json!([{ "valid": true }, { "valid": false }]));
    let sum = ground.data("hash", r#"{"input":"YWJj"}"#)["sum"].clone();
    assert_eq!(sum, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let sum = ground.data("hash/sha3-512", r#"{"input":"YWJj","format":"base64"}"#)["sum"].clone();
    assert_eq!(STANDARD.decode(sum.as_str().unwrap()).unwrap().len(), 64);
    let drawn = ground.data("random/48", r#"{"format":"hex"}"#)["random_bytes"].clone();
    assert_eq!(drawn.as_str().unwrap().len(), 96);
    let drawn = ground.data("random", "")["random_bytes"].clone();
    assert_eq!(STANDARD.decode(drawn.as_str().unwrap()).unwrap().len(), 32);
}

#[test]
fn a_data_key_is_that_of_its_ciphertext_and_a_wrapped_one_is_not_shown() {
    let ground = Ground::new();
    ground.data("keys/orders", "{}");
    let made = ground.data("datakey/plaintext/orders", r#"{"bits":512}"#);
    let opened = ground.data("decrypt/orders", &json!({ "ciphertext": made["ciphertext"] }).to_string());
    assert_eq!(opened["plaintext"], made["plaintext"]);
    assert_eq!(STANDARD.decode(text(&made, "plaintext")).unwrap().len(), 64);
    assert_eq!(ground.data("datakey/wrapped/orders", "")["plaintext"], Value::Null);
}

#[test]
fn clients_find_the_state_of_the_server_and_their_own_token() {
    let ground = Ground::new();
    for path in ["/v1/sys/health", "/v1/sys/seal-status"] {
        let (status, answer) = ground.ask("GET", path, &[], b"");
        assert_eq!((status, &answer["sealed"], &answer["initialized"]), (200, &json!(false), &json!(true)));
    }
    assert_eq!(ground.ask("HEAD", "/v1/sys/health", &[], b"").0, 200);
    let bearer = format!("Bearer {}", ground.billing);
    let (status, answer) = ground.ask("GET", "/v1/auth/token/lookup-self", &[("Authorization", &bearer)], b"");
    assert_eq!((status, &answer["data"]["display_name"]), (200, &json!("billing")));
    assert!(!answer.to_string().contains(&ground.billing));
}
