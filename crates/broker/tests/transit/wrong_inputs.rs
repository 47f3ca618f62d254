//! Requests that are wrong, each with an error that names the field and shows no input.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::ground::{Ground, error};

const KEYS: [(&str, &str); 4] = [
    ("aes", "{}"),
    ("short", r#"{"type":"aes128-gcm96"}"#),
    ("sig", r#"{"type":"ed25519"}"#),
    ("mac", r#"{"type":"hmac"}"#),
];

/// Path below the mount, body, status, and a part of the error.
const WRONG: &[(&str, &str, u16, &str)] = &[
    ("encrypt/aes", "", 400, "plaintext: required"),
    ("encrypt/aes", "[]", 400, "body: expected a JSON object"),
    ("encrypt/aes", r#"{"plaintext":"SECRET"#, 400, "line 1 column"),
    ("encrypt/aes", r#"{"plaintext":7}"#, 400, "plaintext: expected a string"),
    ("encrypt/aes", r#"{"plaintext":"SECRET!"}"#, 400, "plaintext: expected base64"),
    ("encrypt/aes", r#"{"plaintext":"YQ"}"#, 400, "plaintext: expected base64"),
    ("encrypt/aes", r#"{"plaintext":"YQ==","plaintext":"SECRET"}"#, 400, "plaintext: given twice"),
    ("encrypt/aes", r#"{"plaintext":"YQ==","assocated_data":"YQ=="}"#, 400, "assocated_data: not a field"),
    ("encrypt/aes", r#"{"plaintext":"YQ==","associated_data":"!"}"#, 400, "associated_data: expected base64"),
    ("encrypt/aes", r#"{"plaintext":"YQ==","context":"YQ=="}"#, 400, "context: this broker has no derived keys"),
    ("encrypt/aes", r#"{"plaintext":"YQ==","nonce":"YQ=="}"#, 400, "nonce: this broker has no derived keys"),
    ("encrypt/aes", r#"{"plaintext":"YQ==","convergent_encryption":true}"#, 400, "convergent_encryption: "),
    ("encrypt/aes", r#"{"plaintext":"YQ==","key_version":2}"#, 400, "key_version: only the current version, 1"),
    ("encrypt/aes", r#"{"plaintext":"YQ==","key_version":-1}"#, 400, "key_version: expected a whole number"),
    ("encrypt/aes", r#"{"batch_input":[]}"#, 400, "batch_input: expected a list"),
    ("encrypt/aes", r#"{"batch_input":{}}"#, 400, "batch_input: expected a list"),
    ("encrypt/aes", r#"{"batch_input":["SECRET"]}"#, 400, "body: expected a JSON object"),
    ("encrypt/aes", r#"{"batch_input":[{}],"plaintext":"YQ=="}"#, 400, "plaintext: not a field"),
    ("encrypt/aes", r#"{"batch_input":[{}],"partial_failure_response_code":99}"#, 400, "partial_failure_response_code"),
    ("encrypt/aes", r#"{"plaintext":"YQ==","name":"SECRET"}"#, 400, "name: it is not that of the path"),
    ("encrypt/none", r#"{"plaintext":"YQ=="}"#, 400, "there is no key: none"),
    ("encrypt/a%20b", r#"{"plaintext":"YQ=="}"#, 400, "key_id: expected 1 to 64 letters"),
    ("encrypt/sig", r#"{"plaintext":"YQ=="}"#, 400, "a key of type ed25519 encrypts nothing"),
    (
        "encrypt/short",
        r#"{"plaintext":"YQ=="}"#,
        400,
        "no profile that this caller may use for EncryptData has aes-128-gcm",
    ),
    ("decrypt/aes", "{}", 400, "ciphertext: required"),
    ("decrypt/aes", r#"{"ciphertext":"SECRET"}"#, 400, "ciphertext: expected vault:vN:"),
    ("decrypt/aes", r#"{"ciphertext":"vault:v0:YQ=="}"#, 400, "ciphertext: expected vault:vN:"),
    ("decrypt/aes", r#"{"ciphertext":"vault:v1:YQ=="}"#, 400, "ciphertext: too short"),
    ("decrypt/aes", r#"{"ciphertext":"vault:v1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}"#, 400, "does not open"),
    ("decrypt/aes", r#"{"ciphertext":"vault:v9:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}"#, 400, "does not open"),
    ("datakey/plaintext/aes", r#"{"bits":64}"#, 400, "bits: expected 128, 256 or 512"),
    ("datakey/both/aes", "", 404, "unsupported path"),
    ("sign/aes", r#"{"input":"YQ=="}"#, 400, "a key of type aes256-gcm96 signs nothing"),
    ("sign/sig", "{}", 400, "input: required"),
    ("sign/sig", r#"{"input":"YQ==","prehashed":true}"#, 400, "prehashed: this broker signs inputs"),
    ("sign/sig", r#"{"input":"YQ==","hash_algorithm":"sha1"}"#, 400, "hash_algorithm: expected one of"),
    ("sign/sig", r#"{"input":"YQ==","salt_length":"20"}"#, 400, "salt_length: "),
    ("sign/sig/sha2-224", r#"{"input":"YQ=="}"#, 400, "hash_algorithm: expected one of"),
    ("verify/sig", r#"{"input":"YQ=="}"#, 400, "signature: required"),
    ("verify/sig", r#"{"input":"YQ==","signature":"SECRET"}"#, 400, "signature: expected vault:vN:"),
    ("verify/sig", r#"{"input":"YQ==","signature":"vault:v2:YQ=="}"#, 400, "key_version: the key has no such version"),
    ("hmac/sig", r#"{"input":"YQ=="}"#, 400, "a key of type ed25519 makes no HMAC here"),
    ("hmac/mac/sha2-512", r#"{"input":"YQ=="}"#, 400, "algorithm: the key is bound to sha2-256"),
    ("hash", r#"{"input":"YQ==","format":"SECRET"}"#, 400, "format: expected one of hex, base64"),
    ("hash/md5", r#"{"input":"YQ=="}"#, 400, "algorithm: expected one of"),
    ("hash/sha2-384", r#"{"input":"YQ=="}"#, 400, "no profile that this caller may use for HashData has sha2-384"),
    ("random/0", "", 400, "length: expected 1 to"),
    ("random/99999999", "", 400, "length: expected 1 to"),
    ("random/seal", "", 400, "bytes: expected a whole number"),
    ("keys/new", r#"{"type":"aes512"}"#, 400, "type: this broker generates"),
    ("keys/new", r#"{"type":"ml-dsa"}"#, 400, "parameter_set: expected 44, 65 or 87"),
    ("keys/new", r#"{"type":"ml-dsa","parameter_set":"66"}"#, 400, "parameter_set: expected 44, 65 or 87"),
    ("keys/new", r#"{"type":"hmac","key_size":20}"#, 400, "key_size: expected 32, 48 or 64"),
    ("keys/new", r#"{"derived":true}"#, 400, "derived: this broker has no derived keys"),
    ("keys/new", r#"{"exportable":"true"}"#, 400, "exportable: keys never leave this broker"),
    ("keys/aes", r#"{"type":"ed25519"}"#, 400, "type: the key exists already, as one of type aes256-gcm96"),
    ("keys/none/rotate", "", 400, "there is no key: none"),
    (
        "keys/aes/config",
        r#"{"min_decryption_version":9}"#,
        400,
        "min_decryption_version: 9 is above the latest version",
    ),
    ("keys/aes/config", r#"{"deletion_allowed":"yes"}"#, 400, "deletion_allowed: expected true or false"),
    ("export/encryption-key/aes", "", 404, "unsupported path"),
    ("backup/aes", "", 404, "unsupported path"),
];

#[test]
fn each_wrong_input_has_an_error_that_names_it_and_shows_no_value() {
    let ground = Ground::new();
    for (name, body) in KEYS {
        ground.data(&format!("keys/{name}"), body);
    }
    for (path, body, status, expected) in WRONG {
        let (found, answer) = ground.post(path, body);
        let text = match answer["data"]["batch_results"][0]["error"].as_str() {
            Some(text) => text,
            None => error(&answer),
        };
        assert_eq!(found, *status, "{path} {body}: {answer}");
        assert!(text.contains(expected), "{path} {body}: {answer}");
        assert!(!answer.to_string().contains("SECRET"), "{path} {body}: {answer}");
    }
    assert!(!ground.audit().contains("SECRET"));
}

#[test]
fn wrong_headers_methods_and_lengths_are_rejected() {
    let ground = Ground::new();
    ground.data("keys/aes", "{}");
    let ask = |headers: &[(&str, &str)]| {
        let headers = [headers, &[("X-Vault-Token", ground.admin.as_str())]].concat();
        let (status, answer) = ground.ask("POST", "/v1/transit/random", &headers, b"");
        (status, error(&answer).to_owned())
    };
    for (name, value) in [("X-Vault-Wrap-TTL", "60s"), ("X-Vault-Namespace", "team")] {
        let (status, text) = ask(&[(name, value)]);
        assert!(status == 400 && text.starts_with(name), "{text}");
    }
    let admin = [("X-Vault-Token", ground.admin.as_str())];
    for (method, path, status) in [
        ("GET", "/v1/transit/encrypt/aes", 405),
        ("PATCH", "/v1/transit/keys/aes", 405),
        ("GET", "/v1/secret/data/a", 404),
        ("GET", "/v1/transitkeys/aes", 404),
        ("GET", "/", 404),
        ("GET", "/v1/sys/mounts", 404),
    ] {
        assert_eq!(ground.ask(method, path, &admin, b"").0, status, "{method} {path}");
    }
    // A length that is too long is rejected before the body is read, and so is a body without a token.
    let head = format!(
        "POST /v1/transit/hash HTTP/1.1\r\nHost: b\r\nConnection: close\r\nX-Vault-Token: {}\r\n",
        ground.admin
    );
    assert_eq!(ground.exchange(format!("{head}Content-Length: 99999999\r\n\r\n").as_bytes()).0, 413);
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    // Not a byte more than the server reads: it would answer what comes after with a reset.
    let chunks = [format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes(), &chunk, &chunk, b"2\r\n "].concat();
    assert_eq!(ground.exchange(&chunks).0, 413);
    let without = "POST /v1/transit/hash HTTP/1.1\r\nHost: b\r\nConnection: close\r\nContent-Length: 99999999\r\n\r\n";
    assert_eq!(ground.exchange(without.as_bytes()).0, 403);
}

/// Sends a request without `Connection: close`; returns the answer, and whether the connection stays.
fn is_kept(stream: &mut TcpStream, request: &str) -> (String, bool) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = vec![0; 4096];
    let len = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..len]).into_owned();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let is_kept = stream.read(&mut [0]).is_err();
    (answer, is_kept)
}

#[test]
fn connections_without_a_token_end_behind_their_answer_and_silent_ones_leave_their_places() {
    let ground = Ground::new();
    let open = || TcpStream::connect(ground.address).unwrap();
    let get = |path: &str, token: &str| format!("GET {path} HTTP/1.1\r\nHost: b\r\nX-Vault-Token: {token}\r\n\r\n");
    for (path, token, status, stays) in [
        ("/v1/sys/health", "", "200", false),
        ("/v1/transit/keys/a", "slw.of-nobody-at-all-000000", "403", false),
        ("/other", &*ground.admin, "404", false),
        ("/v1/transit/keys/a", &*ground.admin, "404", true),
    ] {
        let (answer, is_kept) = is_kept(&mut open(), &get(path, token));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
        assert_eq!(is_kept, stays, "{path}: {answer}");
    }
    // As many as there are places; the next one is accepted when they have been silent for too long.
    let begin = Instant::now();
    let silent: Vec<TcpStream> = (0..256).map(|_| open()).collect();
    assert_eq!(ground.ask("GET", "/v1/sys/health", &[], b"").0, 200);
    // A connection that had a request could be idle for 60 s.
    assert!(begin.elapsed() < Duration::from_secs(45), "{:?}", begin.elapsed());
    for mut stream in silent {
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "a silent connection stays");
    }
}
