//! The conformance driver against itself: every wire and suite from the init to the opened answer, and rejections with their
//! codes.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use sealway_testkit::conformance::Driver;
use serde_json::{Value, json};

const NOW_MS: u64 = 1_750_000_000_000;
/// The scalar 1, and the generator of P-256, which is its public key.
const SCALAR_HEX: &str = "0000000000000000000000000000000000000000000000000000000000000001";
const PUBLIC_HEX: &str = "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296\
                          4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";

fn say(driver: &mut Driver, line: Value) -> Value {
    serde_json::from_str(&driver.answer(&line.to_string())).unwrap()
}

fn ok(driver: &mut Driver, line: Value) -> Value {
    let answer = say(driver, line);
    answer.get("ok").cloned().unwrap_or_else(|| panic!("{answer}"))
}

/// Agrees a client's session, and returns it with the server's record.
fn agreed(driver: &mut Driver, wire: u8, path: &str, suite: &str) -> (Value, Value) {
    let init = ok(
        driver,
        json!({
            "op": "client.init", "wire": wire, "path": path, "client_id": "demo-client", "ttl_sec": 600, "now_ms": NOW_MS,
            "suite": suite, "suites": [suite], "trusted_hex": [PUBLIC_HEX],
        }),
    );
    let answer = ok(
        driver,
        json!({
            "op": "server.init", "path": path, "headers": init["headers"], "body_hex": init["body_hex"], "now_ms": NOW_MS,
            "suites": ["X25519MLKEM768", "SecP256r1MLKEM768", "P256"], "identity_hex": SCALAR_HEX,
        }),
    );
    let session = ok(
        driver,
        json!({
            "op": "client.finish", "handle": init["handle"], "status": answer["status"], "headers": answer["headers"],
            "body_hex": answer["body_hex"], "now_ms": NOW_MS,
        }),
    );
    assert_eq!(session["session_id"], answer["session"]["id"]);
    (session["session"].clone(), answer["session"].clone())
}

fn sealed(driver: &mut Driver, session: &Value, method: &str, headers: &Value, body_hex: &str) -> Value {
    let line = json!({
        "op": "client.seal", "session": session, "method": method, "target": "/a?b=c", "headers": headers,
        "body_hex": body_hex, "now_ms": NOW_MS,
    });
    ok(driver, line)
}

fn open(record: &Value, method: &str, sealed: &Value) -> Value {
    json!({
        "op": "server.open", "session": record, "method": method, "target": "/a?b=c", "headers": sealed["headers"],
        "body_hex": sealed["body_hex"], "now_ms": NOW_MS,
    })
}

/// Plays a call and its answer.
fn call(driver: &mut Driver, (session, record): &(Value, Value), method: &str, status: u16, body_hex: &str) {
    let headers = if record["wire"] == 3 { json!([["x-a", "1"]]) } else { json!([]) };
    let request = sealed(driver, session, method, &headers, body_hex);
    let opened = ok(driver, open(record, method, &request));
    assert_eq!((&opened["headers"], &opened["body_hex"]), (&headers, &json!(body_hex)));
    let back = if status == 204 || method == "HEAD" { "" } else { "0102" };
    let answer = ok(
        driver,
        json!({"op": "server.seal", "call": opened["call"], "status": status, "headers": headers, "body_hex": back, "now_ms": NOW_MS}),
    );
    let read = json!({
        "op": "client.open", "call": request["call"], "status": answer["status"], "headers": answer["headers"],
        "body_hex": answer["body_hex"], "now_ms": NOW_MS,
    });
    let opened = ok(driver, read.clone());
    assert_eq!((&opened["headers"], &opened["body_hex"]), (&headers, &json!(back)));
    assert!(say(driver, read).get("fault").is_some(), "a handle of a call is used up");
}

#[test]
fn every_wire_family_and_suite_goes_from_the_init_to_the_opened_answer() {
    let mut driver = Driver::default();
    for (wire, path) in [(1, "/session/init"), (1, "/session/init/anon"), (2, "/session/init"), (2, "/v1/session/init")]
    {
        let session = agreed(&mut driver, wire, path, "P256");
        call(&mut driver, &session, "POST", 200, "00ff");
        call(&mut driver, &session, "POST", 200, "");
    }
    let long = "61".repeat(200_000);
    for suite in ["X25519MLKEM768", "SecP256r1MLKEM768", "P256"] {
        let session = agreed(&mut driver, 3, "/v3/sessions", suite);
        for (method, status, body_hex) in [
            ("POST", 200, "00ff"),
            ("GET", 200, ""),
            ("HEAD", 200, ""),
            ("PUT", 204, ""),
            ("DELETE", 204, ""),
            ("POST", 422, &long),
        ] {
            call(&mut driver, &session, method, status, body_hex);
        }
    }
}

#[test]
fn a_renewed_session_is_good_on_both_sides() {
    let mut driver = Driver::default();
    let (session, record) = agreed(&mut driver, 3, "/v3/sessions", "P256");
    let suites = json!(["X25519MLKEM768", "P256"]);
    let renewal = json!({"op": "client.renew", "session": session, "suite": "X25519MLKEM768", "suites": suites, "now_ms": NOW_MS});
    let begun = ok(&mut driver, renewal);
    let answer = ok(
        &mut driver,
        json!({
            "op": "server.renew", "session": record, "body_hex": begun["body_hex"], "now_ms": NOW_MS + 1000,
            "suites": suites, "identity_hex": SCALAR_HEX,
        }),
    );
    let renewed = ok(
        &mut driver,
        json!({
            "op": "client.finish", "handle": begun["handle"], "status": answer["status"], "headers": [],
            "body_hex": answer["body_hex"], "now_ms": NOW_MS,
        }),
    );
    assert_ne!(renewed["session_id"], record["id"]);
    call(&mut driver, &(renewed["session"].clone(), answer["session"].clone()), "POST", 200, "00");
}

#[test]
fn a_key_of_wire_4_seals_requests_with_an_encapsulation_of_their_own() {
    // The key of vectors/one-shot/request4-x25519-base.json.
    let config = "03002090960deb360e890b5daba15e2e17d0a96018a539b6d122c7edbc1687903bf633000400010002";
    let mut driver = Driver::default();
    let key = json!({"op": "client.key", "config_hex": config, "psk_id": "till-7", "psk_hex": "00".repeat(32)});
    let key = ok(&mut driver, key);
    let bodies: Vec<_> = [0, 1]
        .map(|_| sealed(&mut driver, &key["session"], "POST", &json!([]), "00"))
        .iter()
        .map(|request| {
            let headers = request["headers"].as_array().unwrap();
            assert!(headers.contains(&json!(["x-seal", "4"])) && headers.contains(&json!(["x-kid", key["kid"]])));
            // Mode, length and name of the pre-shared key stand in front.
            request["body_hex"].as_str().unwrap().strip_prefix("010674696c6c2d37").unwrap()[..64].to_owned()
        })
        .collect();
    assert_ne!(bodies[0], bodies[1]);
    let wrong = json!({"op": "client.key", "config_hex": &config[..config.len() - 2], "psk_id": null, "psk_hex": null});
    assert_eq!(say(&mut driver, wrong), json!({"error": "field_invalid"}));
}

#[test]
fn a_rejection_of_the_core_has_its_code_and_an_unsupported_step_is_a_fault() {
    let mut driver = Driver::default();
    assert_eq!(ok(&mut driver, json!({"op": "hello"}))["language"], "rust");
    let (session, record) = agreed(&mut driver, 3, "/v3/sessions", "P256");
    let mut request = sealed(&mut driver, &session, "POST", &json!([]), "00");
    assert_eq!(say(&mut driver, open(&record, "PUT", &request)), json!({"error": "unsealable"}));
    let (_, other) = agreed(&mut driver, 2, "/session/init", "P256");
    assert_eq!(say(&mut driver, open(&other, "POST", &request)), json!({"error": "session_unknown"}));
    request["headers"].as_array_mut().unwrap().retain(|pair| pair[0] != "x-seal");
    assert_eq!(say(&mut driver, open(&record, "POST", &request)), json!({"error": "header_missing"}));
    for line in [json!({"op": "fly"}), json!({"op": "client.seal", "session": 99}), json!([])] {
        assert!(say(&mut driver, line).get("fault").is_some());
    }
    assert!(driver.answer("{").contains("fault"));
    ok(&mut driver, json!({"op": "reset"}));
    let gone = json!({"op": "client.renew", "session": session, "suite": "P256", "suites": ["P256"], "now_ms": NOW_MS});
    assert!(say(&mut driver, gone).get("fault").is_some());
}
