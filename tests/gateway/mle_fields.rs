//! Routes with the field-level form against changed messages, wrong headers and wrong settings. Mastercard's libraries are in
//! `mle_clients`.

use std::process::Command;

use sealway_gateway::jose_provider;
use sealway_proto::mle::{
    Alg, Enc, Encoding, FieldSealer, Fle, FleNames, KidSource, Message, Place, Profile, Scalars, SealRandoms,
    SealingKey, body,
};
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::rsa::make_pair;
use sealway_testkit::upstream::{RequestHead, Upstream, answer};
use serde_json::Value;

use crate::BINARY;

const CARD: &str = r#"{"pan":"4111"}"#;

struct Setup {
    server: Server,
    service: Upstream,
    folder: tempfile::TempDir,
}

fn fle(place: Place) -> Fle {
    let [iv, encrypted_key] = match place {
        Place::Body => ["iv", "encryptedKey"],
        Place::Headers => ["x-iv", "x-encrypted-key"],
    };
    let names = FleNames {
        value: "encryptedValue".into(),
        iv: iv.into(),
        encrypted_key: encrypted_key.into(),
        digest: None,
        key_fingerprint: None,
        certificate_fingerprint: None,
    };
    Fle::new(place, Encoding::Hex, names).unwrap()
}

fn echo(head: &RequestHead, body: &[u8]) -> Vec<u8> {
    let wire = head.header("x-sealway-wire").unwrap_or("none").to_owned();
    answer("200 OK", &[("Content-Type", "application/json"), ("X-Wire", &wire)], body)
}

fn setup() -> Setup {
    let folder = tempfile::tempdir().unwrap();
    make_pair(folder.path(), "own").unwrap();
    let service = Upstream::answering(echo).unwrap();
    let open = "direction: inbound, profile: mastercard-field-level, open: [own], plain_answers: all, request: [{ from: $.secret, to: $.card }, { from: $.hidden, to: $.who }]";
    let all = "caller: anybody, unauthenticated: accept";
    let config = format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
mle_keys: {{ own: {{ file: own.key.pem, kid: own }} }}
routes:
  - match: {{ path_prefix: /body }}
    upstream: service
    mle: {{ {open}, {all}, fle: {{ encoding: hex }} }}
  - match: {{ path_prefix: /headers }}
    upstream: service
    mle: {{ {open}, {all}, fle: {{ encoding: hex, in: headers }} }}
  - match: {{ path_prefix: /known }}
    upstream: service
    mle: {{ {open}, fle: {{ encoding: hex }} }}
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:' }}
",
        service.address
    );
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    Setup { server, service, folder }
}

impl Setup {
    /// Seals the card of a body, and returns the headers of its metadata with it.
    fn seal(&self, plain: &str, place: Place) -> (String, Vec<(String, String)>) {
        let certificate = std::fs::read(self.folder.path().join("own.cert.pem")).unwrap();
        let (provider, kid) = (jose_provider(), KidSource::Fixed("own".into()));
        let key = SealingKey::rsa(Alg::RsaOaep256, Enc::A256Gcm, &certificate, &kid, provider).unwrap();
        let profile = Profile::mastercard_field_level(fle(place));
        let rules = [fle(place).sealing_rule("$.card", "$.secret").unwrap()];
        let randoms = SealRandoms::draw(provider.base()).unwrap();
        let sealer = FieldSealer::new(&profile, Message::Request, &key, randoms, provider).unwrap();
        let fields = body::find_plain(plain.as_bytes(), &rules, 1, Scalars::Refuse).unwrap();
        let sealed: Vec<_> = fields.into_iter().map(|it| (it.clone(), sealer.seal(it.text()).unwrap())).collect();
        let sealed = body::put_sealed(plain.as_bytes(), &rules, &sealed).unwrap();
        (String::from_utf8(sealed).unwrap(), sealer.into_headers())
    }

    fn post(&self, path: &str, body: &str, headers: &[(String, String)]) -> Answer {
        let request =
            headers.iter().fold(Request::post(path, body), |request, (name, value)| request.header(name, value));
        request.send(self.server.address()).unwrap()
    }

    fn refusals(&self, class: &str) -> usize {
        let request = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
        let text = request.send(self.server.admin()).unwrap().text();
        let class = format!("class=\"{class}\"");
        let lines = text.lines().filter(|line| line.starts_with("sealway_refusals_total{") && line.contains(&class));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>() as usize
    }
}

#[test]
fn a_message_answers_one_question_about_its_padding() {
    let setup = setup();
    let (seen, _) = setup.seal(&format!(r#"{{"card":{CARD}}}"#), Place::Body);
    let mut answers = Vec::new();
    // Vaudenay's questions: every value of the last byte that the IV changes, and one of the ciphertext.
    for byte in 0..=u8::MAX {
        let mut message: Value = serde_json::from_str(&seen).unwrap();
        let iv = message["secret"]["iv"].as_str().unwrap().to_owned();
        let last = u8::from_str_radix(&iv[30..], 16).unwrap() ^ byte ^ 0x80;
        message["secret"]["iv"] = format!("{}{last:02x}", &iv[..30]).into();
        answers.push(setup.post("/body", &message.to_string(), &[]));
    }
    for answer in &answers {
        assert_eq!((answer.status, answer.text().as_str()), (400, r#"{"error":"CRYPTO_ERROR"}"#));
        assert_eq!(answer.header("connection"), answers[0].header("connection"));
    }
    assert!(setup.service.is_untouched(), "one of 256 paddings is right, and was not tried");
    assert_eq!((setup.refusals("padding"), setup.refusals("json")), (1, 0));
    // The message itself is used up too; another one is not.
    assert_eq!(setup.post("/body", &seen, &[]).status, 400);
    let (other, _) = setup.seal(&format!(r#"{{"card":{CARD}}}"#), Place::Body);
    let opened = setup.post("/body", &other, &[]);
    assert_eq!((opened.status, opened.header("x-wire")), (200, Some("mle:mastercard-field-level")));
    assert_eq!(opened.text(), format!(r#"{{"card":{CARD}}}"#));
    let log = setup.server.log().join("\n");
    assert!(!log.contains("4111") && log.contains("padding is malformed"), "{log}");
}

#[test]
fn metadata_in_headers_is_there_once_and_stays_with_the_gateway() {
    let setup = setup();
    let (body, headers) = setup.seal(&format!(r#"{{"id":1.0,"card":{CARD}}}"#), Place::Headers);
    let twice = [headers.as_slice(), &headers[..1]].concat();
    for (what, headers) in [("absent", &headers[..1]), ("absent", &headers[1..]), ("twice", &twice)] {
        let answer = setup.post("/headers", &body, headers);
        assert_eq!((answer.status, answer.text().as_str()), (400, r#"{"error":"CRYPTO_ERROR"}"#), "{what}");
    }
    assert!(setup.service.is_untouched());
    let answer = setup.post("/headers", &body, &headers);
    assert_eq!((answer.status, answer.text()), (200, format!(r#"{{"id":1.0,"card":{CARD}}}"#)));
    let (head, _) = setup.service.next().unwrap();
    assert_eq!((head.header("x-iv"), head.header("x-encrypted-key")), (None, None));
    assert_eq!(setup.post("/headers", &body, &headers).status, 400, "again");
}

#[test]
fn a_field_in_clear_beside_an_encrypted_one_does_not_pass() {
    let setup = setup();
    let (body, _) = setup.seal(&format!(r#"{{"card":{CARD},"who":{{"name":"x"}}}}"#), Place::Body);
    assert_eq!(setup.post("/body", &body, &[]).status, 400);
    assert!(setup.service.is_untouched());
    let (body, _) = setup.seal(&format!(r#"{{"card":{CARD},"other":{{"name":"x"}}}}"#), Place::Body);
    assert_eq!(setup.post("/body", &body, &[]).status, 200);
    // Without a certificate no key is used.
    let (body, _) = setup.seal(&format!(r#"{{"card":{CARD}}}"#), Place::Body);
    assert_eq!(setup.post("/known", &body, &[]).status, 403);
}

#[test]
fn a_wrong_configuration_is_named() {
    let folder = tempfile::tempdir().unwrap();
    make_pair(folder.path(), "own").unwrap();
    let base = "direction: inbound, profile: mastercard-field-level, open: [own], plain_answers: all";
    let paths = "request: [{ from: $.a, to: $.b }]";
    let fle = "fle: { encoding: hex }";
    for (mle, said) in [
        (format!("{base}, {paths}"), "mle.fle: expected encoding"),
        (format!("{base}, {paths}, fle: {{}}"), "fle: `encoding` is missing"),
        (format!("{base}, {fle}"), "mle.request: expected the places of values"),
        (format!("{base}, {paths}, {fle}, caller: anybody"), "mle.caller: messages of this profile can be changed"),
        (format!("{base}, {paths}, {fle}, unauthenticated: accept"), "mle.unauthenticated: only an inbound route"),
        (format!("{base}, {paths}, {fle}, refuse_replays: false"), "mle.refuse_replays: this profile needs it"),
        (format!("{base}, request: [{{ from: $.a, to: $.b, field: c }}], {fle}"), "mle.request[0].field: "),
        (
            format!("{base}, {paths}, fle: {{ encoding: hex, names: {{ value: iv }} }}"),
            "fle.names: \"iv\" is the name of two things",
        ),
        (
            format!("{base}, {paths}, fle: {{ encoding: hex, in: headers, names: {{ iv: Content-Length }} }}"),
            "\"Content-Length\" is not the name of a header of one's own",
        ),
        (
            "direction: inbound, profile: visa, open: [own], plain_answers: all, fle: { encoding: hex }".to_owned(),
            "mle.fle: only the profile mastercard-field-level",
        ),
        (
            format!(
                "direction: outbound, profile: mastercard-field-level, seal: [{{ keys: [sha1] }}], plain_answers: all, {paths}, {fle}"
            ),
            "the profile mastercard-field-level does not allow RSA-OAEP\n",
        ),
    ] {
        let keys = "mle_keys: { own: { file: own.key.pem, kid: a }, sha1: { certificate: own.cert.pem, kid: b, alg: RSA-OAEP } }";
        let config = format!(
            "listeners: [{{ address: '127.0.0.1:0' }}]\n{keys}\nroutes: [{{ match: {{}}, upstream: s, mle: {{ {mle} }} }}]\nupstreams: {{ s: {{ servers: ['http://127.0.0.1:9'] }} }}\n"
        );
        let file = folder.path().join("serve.yaml");
        std::fs::write(&file, config).unwrap();
        let checked = Command::new(BINARY).args(["config", "check"]).arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(!checked.status.success() && text.contains(said), "{said:?} is not in {text:?}");
    }
}
