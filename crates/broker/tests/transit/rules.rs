//! Rules of keys and of callers, on this API and below it; the audit log.

use serde_json::{Value, json};

use crate::ground::{Ground, base64, error};

#[test]
fn versions_below_the_minimum_open_nothing_until_it_is_lowered() {
    let ground = Ground::new();
    ground.data("keys/orders", "{}");
    let first = ground.data("encrypt/orders", &json!({ "plaintext": base64("a") }).to_string());
    let opening = json!({ "ciphertext": first["ciphertext"] }).to_string();
    ground.data("keys/orders/rotate", "");
    let configured = ground.data("keys/orders/config", r#"{"min_decryption_version":2}"#);
    assert_eq!((&configured["min_decryption_version"], &configured["keys"]["1"]), (&json!(2), &Value::Null));
    let (status, answer) = ground.post("decrypt/orders", &opening);
    assert!(status == 400 && error(&answer).contains("min_decryption_version"), "{answer}");
    assert_eq!(ground.post("rewrap/orders", &opening).0, 400);
    ground.data("keys/orders/config", r#"{"min_decryption_version":"1","min_encryption_version":2}"#);
    assert_eq!(ground.data("decrypt/orders", &opening)["plaintext"], base64("a"));
    for wrong in [
        r#"{"min_decryption_version":3}"#,
        r#"{"min_encryption_version":3}"#,
        r#"{"min_encryption_version":1,"min_decryption_version":2}"#,
        r#"{"exportable":true}"#,
        r#"{"auto_rotate_period":"24h"}"#,
    ] {
        assert_eq!(ground.post("keys/orders/config", wrong).0, 400, "{wrong}");
    }
}

#[test]
fn a_key_is_deleted_only_where_its_rules_allow_it_and_for_good() {
    let ground = Ground::new();
    let admin = [("X-Vault-Token", ground.admin.as_str())];
    ground.data("keys/orders", "{}");
    let sealed = ground.data("encrypt/orders", &json!({ "plaintext": base64("a") }).to_string());
    let (status, answer) = ground.ask("DELETE", "/v1/transit/keys/orders", &admin, b"");
    assert!(status == 400 && error(&answer).contains("deletion_allowed"), "{answer}");
    ground.data("keys/orders/config", r#"{"deletion_allowed":true}"#);
    assert_eq!(ground.ask("DELETE", "/v1/transit/keys/orders", &admin, b"").0, 204);
    assert_eq!(ground.ask("GET", "/v1/transit/keys/orders", &admin, b"").0, 404);
    assert_eq!(ground.ask("LIST", "/v1/transit/keys", &admin, b"").0, 404);
    assert!(!ground.folder.path().join("keys/orders.key").exists());
    // A key of the same name is another key.
    ground.data("keys/orders", "{}");
    assert_eq!(ground.post("decrypt/orders", &json!({ "ciphertext": sealed["ciphertext"] }).to_string()).0, 400);
    let listed = ground.ask("GET", "/v1/transit/keys?list=true", &admin, b"").1;
    assert_eq!(listed["data"]["keys"], json!(["orders"]));
}

#[test]
fn a_token_does_what_its_rules_say_and_a_denial_reveals_no_key() {
    let ground = Ground::new();
    ground.data("keys/billing-1", "{}");
    ground.data("keys/orders", "{}");
    let billing = [("X-Vault-Token", ground.billing.as_str())];
    let input = json!({ "plaintext": base64("a") }).to_string();
    let ask = |method: &str, path: &str, body: &str| {
        ground.ask(method, &format!("/v1/transit/{path}"), &billing, body.as_bytes())
    };
    assert_eq!(ask("POST", "encrypt/billing-1", &input).0, 200);
    let denied = ask("POST", "encrypt/orders", &input);
    assert_eq!(denied, ask("POST", "encrypt/no-such-key", &input));
    assert_eq!((denied.0, error(&denied.1)), (403, "permission denied"));
    for (method, path) in [
        ("POST", "decrypt/billing-1"),
        ("GET", "keys/billing-1"),
        ("LIST", "keys"),
        ("POST", "keys/billing-2"),
        ("POST", "keys/billing-1/rotate"),
        ("POST", "keys/billing-1/config"),
        ("DELETE", "keys/billing-1"),
        ("POST", "random"),
    ] {
        let body = if path.starts_with("decrypt") {
            r#"{"ciphertext":"vault:v1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}"#
        } else {
            ""
        };
        assert_eq!(ask(method, path, body).0, 403, "{method} {path}");
    }
    // The rule for any caller of the socket is not one for tokens, and an unknown token has none.
    let wrong = ground.billing.replace("slw.", "slx.");
    for headers in [&[("X-Vault-Token", wrong.as_str())][..], &[("X-Vault-Token", "root")], &[]] {
        let (status, answer) = ground.ask("POST", "/v1/transit/random", headers, b"");
        assert_eq!((status, error(&answer)), (403, "permission denied"));
    }
}

#[test]
fn the_audit_log_has_each_operation_with_its_token_and_no_input() {
    let ground = Ground::new();
    ground.data("keys/billing-1", "{}");
    let input = json!({ "plaintext": base64("SECRETSECRET") }).to_string();
    let billing = [("X-Vault-Token", ground.billing.as_str())];
    assert_eq!(ground.ask("POST", "/v1/transit/encrypt/billing-1", &billing, input.as_bytes()).0, 200);
    assert_eq!(ground.ask("POST", "/v1/transit/encrypt/other", &billing, input.as_bytes()).0, 403);
    let log = ground.audit();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |operation: &str| lines.iter().filter(|line| line["operation"] == operation).collect::<Vec<_>>();
    assert_eq!(of("GenerateKey").iter().map(|line| &line["kind"]).collect::<Vec<_>>(), ["intent", "operation"]);
    let [allowed, denied] = of("EncryptData")[..] else { panic!("{log}") };
    for (line, key, code) in [(allowed, "billing-1", 0), (denied, "other", 7)] {
        assert_eq!((&line["token"], &line["wire"]), (&json!("billing"), &json!("transit")), "{line}");
        assert_eq!((&line["key"], &line["code"]), (&json!(key), &json!(code)), "{line}");
    }
    assert_eq!((&allowed["profile"], &allowed["bytes_in"]), (&json!("Aes"), &json!(12)));
    assert!(!log.contains("SECRET") && !log.contains(&base64("SECRETSECRET")) && !log.contains(&ground.billing));
}
