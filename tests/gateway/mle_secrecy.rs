//! Secrets of MLE that must not be visible: plaintexts, content keys, private keys and tokens in the log at its loudest, in metrics, in
//! the admin listener's answers, and in answers to clients.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sealway_proto::mle::{Alg, KidSource, Message, Opening, OpeningKey, OpeningKeys, Profile};
use sealway_testkit::process::{ADMIN_TOKEN, Launch};
use sealway_testkit::raw_http::Request;
use sealway_testkit::rsa::make_pair;
use sealway_testkit::upstream::{Upstream, answer};

use crate::BINARY;
use crate::mle::{Setup, config, now_ms};

const ANSWER: &str = "PLAINTEXT-OF-THE-ANSWER";

/// Returns the forms in which bytes could be printed: as they are, hex of both cases, base64 of both alphabets, and `{:?}` of a list.
fn forms(bytes: &[u8]) -> Vec<Vec<u8>> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = bytes.iter().take(6).map(u8::to_string).collect::<Vec<_>>().join(", ");
    let texts = [hex[..16].to_owned(), hex.to_uppercase()[..16].to_owned(), list];
    let encoded = [STANDARD.encode(bytes), URL_SAFE_NO_PAD.encode(bytes)].map(|text| text[..16].to_owned());
    let mut forms: Vec<Vec<u8>> = texts.into_iter().chain(encoded).map(String::into_bytes).collect();
    forms.push(bytes[..12].to_vec());
    forms
}

/// Returns the content key of a token of this key.
fn content_key(setup: &Setup, name: &str, token: &str) -> Vec<u8> {
    let provider = sealway_gateway::jose_provider();
    let kid = KidSource::Fixed(format!("kid-{name}"));
    let private = setup.read(&format!("{name}.key.pem"));
    let key = OpeningKey::rsa(Alg::RsaOaep256, &private, None, &kid, provider).unwrap();
    let keys = OpeningKeys::new([key.into()]).unwrap();
    let opening = Opening::begin(token.as_bytes(), &Profile::visa(), Message::Request, &keys, now_ms()).unwrap();
    opening.wants().unwrap_here().unwrap().to_vec()
}

#[test]
fn after_good_and_wrong_tokens_nothing_secret_is_in_log_metrics_admin_or_answers() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["one", "two", "caller"] {
        make_pair(folder.path(), name).unwrap();
    }
    let service = Upstream::answering(|_, _| answer("200 OK", &[], ANSWER.as_bytes())).unwrap();
    let launch = Launch::new(BINARY, &config(&service, "[one, two]")).folder(folder.path());
    let server = launch.log_level("trace").start().unwrap();
    let mut setup = Setup { server, service, folder };
    let mut secrets: Vec<Vec<u8>> = vec![b"4111111111111111".to_vec(), ANSWER.into()];
    for name in ["one", "two"] {
        let pem = String::from_utf8(setup.read(&format!("{name}.key.pem"))).unwrap();
        let der = STANDARD.decode(pem.lines().filter(|line| !line.starts_with("---")).collect::<String>()).unwrap();
        // The private exponent and the primes stand behind the public numbers.
        secrets.extend(forms(&der[400..]));
        secrets.extend(forms(&der[800..]));
    }
    let mut visible = String::new();
    let mut send = |setup: &Setup, path: &str, token: &str| {
        let answer = setup.post(path, token);
        visible.push_str(&format!("{:?} {}\n", answer.headers, answer.text()));
        answer.status
    };
    for name in ["one", "two"] {
        let token = setup.token(name);
        let parts: Vec<&str> = token.split('.').collect();
        // The header is public: the log has its key id. The rest of a token can be opened by who gets the key later.
        secrets.extend(parts[1..].iter().filter(|part| part.len() > 24).map(|part| part.as_bytes()[..24].to_vec()));
        secrets.extend(forms(&content_key(&setup, name, &token)));
        assert_eq!(send(&setup, "/visa/pay", &token), 200);
        assert_eq!(send(&setup, "/visa/pay", &token), 400, "a replay");
        let flipped = |part: usize| {
            let mut parts: Vec<String> = setup.token(name).split('.').map(str::to_owned).collect();
            let first = if parts[part].starts_with('A') { "B" } else { "A" };
            parts[part].replace_range(0..1, first);
            parts.join(".")
        };
        for part in 0..5 {
            let token = flipped(part);
            let key = token.split('.').nth(1).unwrap().as_bytes();
            secrets.push(key[..24].to_vec());
            assert_eq!(send(&setup, "/visa/pay", &token), 400);
        }
        let old = setup.token_at(name, now_ms() - 3_600_000);
        for token in [old.as_str(), &token[..token.len() / 2], "not.a.token", "", &format!("{token}.{token}")] {
            assert_eq!(send(&setup, "/visa/pay", token), 400);
        }
        assert_eq!(send(&setup, "/known/pay", &token), 403);
    }
    Request::post("/visa/pay", r#"{"pan":"4111111111111111"}"#).send(setup.server.address()).unwrap();
    let admin = |path: &str| {
        let request = Request::get(path).header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
        request.send(setup.server.admin()).unwrap().text()
    };
    let pages =
        ["/metrics", "/admin/status", "/admin/config", "/admin/routes", "/admin/refusals", "/admin/logs"].map(admin);
    assert!(pages[0].contains("sealway_mle_messages_total") && pages[5].contains("refused"), "{pages:#?}");
    visible.extend(pages);
    assert_eq!(setup.server.stop().unwrap().code(), Some(0));
    let log = setup.server.log();
    assert!(log.iter().any(|line| line.contains("\"TRACE\"")), "it is at its loudest");
    assert!(log.iter().filter(|line| line.contains("\"on\":\"mle\"")).count() >= 20, "{log:#?}");
    for text in log.iter().chain([&visible]) {
        for secret in &secrets {
            let is_visible = text.as_bytes().windows(secret.len()).any(|window| window == secret);
            assert!(!is_visible, "{:?} is in:\n{text}", String::from_utf8_lossy(secret));
        }
    }
}
