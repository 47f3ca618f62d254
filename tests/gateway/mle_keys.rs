//! Keys of messages over time: rotations under load, certificates that end, and material that is wrong.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sealway_gateway::jose_provider;
use sealway_proto::mle::{
    Alg, Enc, KidSource, Message, OpenRandoms, Opening, OpeningKey, OpeningKeys, Profile, SealRandoms, SealingKey,
    body, seal,
};
use sealway_proto::session::Fresh;
use sealway_testkit::daemon::program;
use sealway_testkit::fleet::is_full;
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::rsa::{make_pair, private_key};
use sealway_testkit::upstream::Upstream;

use crate::BINARY;
use crate::mle::{PLAIN, echo, now_ms};
use crate::reload::reload;

const RELOADED: &str = "configuration reloaded";
const NOT_RELOADED: &str = "configuration not reloaded";
/// Longest wait for something that happens soon.
const WAIT: Duration = Duration::from_secs(60);

/// Seals [`PLAIN`] as a request of the profile `visa` to the certificate `NAME.cert.pem`, with the kid `kid-NAME`.
pub(crate) fn token(folder: &Path, name: &str) -> String {
    let provider = jose_provider();
    let certificate = std::fs::read(folder.join(format!("{name}.cert.pem"))).unwrap();
    let kid = KidSource::Fixed(format!("kid-{name}"));
    let key = SealingKey::rsa(Alg::RsaOaep256, Enc::A128Gcm, &certificate, &kid, provider).unwrap();
    let randoms = SealRandoms::draw(provider.base()).unwrap();
    seal::seal(PLAIN, &Profile::visa(), Message::Request, &key, now_ms(), randoms, provider).unwrap()
}

/// Opens an answer with the key `caller.key.pem`.
pub(crate) fn opened(folder: &Path, answer: &Answer) -> Vec<u8> {
    let (provider, profile) = (jose_provider(), Profile::visa());
    let private = std::fs::read(folder.join("caller.key.pem")).unwrap();
    let kid = KidSource::Fixed("kid-caller".into());
    let key = OpeningKey::rsa(Alg::RsaOaep256, &private, None, &kid, provider).unwrap();
    let keys = OpeningKeys::new([key.into()]).unwrap();
    let token = body::unwrap(&answer.body, profile.wrapper(Message::Answer)).unwrap();
    let opening = Opening::begin(&token, &profile, Message::Answer, &keys, now_ms()).unwrap();
    let content_key = opening.wants().unwrap_here().unwrap();
    let randoms = OpenRandoms::draw(provider.base()).unwrap();
    let opened = opening.unwrapped(Some(&content_key), &randoms, provider).unwrap();
    let fresh = Fresh::reserved(opened.claim());
    opened.release(fresh).unwrap().bytes().unwrap().to_vec()
}

/// Returns the series of a metric that has all these labels.
pub(crate) fn metric(server: &Server, name: &str, labels: &[&str]) -> Option<f64> {
    let request = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    let text = request.send(server.admin()).unwrap().text();
    let mut series = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let found = series.find(|line| labels.iter().all(|label| line.contains(label)))?;
    found.rsplit_once(' ')?.1.parse().ok()
}

/// A configuration of opening keys by name and file.
fn config(service: &Upstream, keys: &[(String, String)]) -> String {
    let entries: String = keys
        .iter()
        .map(|(name, file)| format!("  {name}: {{ file: {file}, certificate: {name}.cert.pem, kid: kid-{name} }}\n"))
        .collect();
    let names: Vec<&str> = keys.iter().map(|(name, _)| name.as_str()).collect();
    format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
mle_keys:
{entries}  caller: {{ certificate: caller.cert.pem, kid: kid-caller, enc: A128GCM }}
routes:
  - match: {{ path_prefix: /visa }}
    upstream: service
    mle: {{ direction: inbound, profile: visa, caller: anybody, open: [{}], seal: [{{ keys: [caller] }}] }}
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:' }}
",
        names.join(", "),
        service.address
    )
}

fn entry(name: &str) -> (String, String) {
    (name.to_owned(), format!("{name}.key.pem"))
}

#[test]
fn no_request_fails_while_keys_are_added_moved_and_removed() {
    const CLIENTS: usize = 4;
    let (requests, rotations) = if is_full() { (100_000, 10) } else { (2_000, 3) };
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..=rotations).map(|index| format!("key-{index}")).collect();
    names.iter().map(String::as_str).chain(["caller"]).for_each(|name| make_pair(folder.path(), name).unwrap());
    let service = Upstream::answering(echo).unwrap();
    let mut server = Launch::new(BINARY, &config(&service, &[entry("key-0")]))
        .folder(folder.path())
        .log_lines_max(10_000)
        .start()
        .unwrap();
    let (to, place) = (server.address(), folder.path().to_owned());
    // The key that clients seal to, and by client how many requests it has begun and had answered.
    let current = AtomicUsize::new(0);
    let done: Vec<AtomicUsize> = (0..CLIENTS).map(|_| AtomicUsize::new(0)).collect();
    let total = || done.iter().map(|done| done.load(Ordering::SeqCst)).sum::<usize>();
    let wait_for = |want: usize| {
        let until = Instant::now() + WAIT * 60;
        while total() < want {
            assert!(Instant::now() < until, "{} requests are answered, and no more", total());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        for done in &done {
            let (names, place, current, total) = (&names, &place, &current, &total);
            scope.spawn(move || {
                while total() < requests {
                    let name = &names[current.load(Ordering::SeqCst)];
                    let body = format!(r#"{{"encData":"{}"}}"#, token(place, name));
                    let answer = Request::post("/visa", body).send(to).unwrap();
                    assert_eq!(answer.status, 200, "{name}: {}", answer.text());
                    assert_eq!(opened(place, &answer), PLAIN, "{name}");
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for rotation in 1..=rotations {
            wait_for(requests * rotation / (rotations + 1));
            let (old, new) = (&names[rotation - 1], &names[rotation]);
            reload(&mut server, &config(&service, &[entry(old), entry(new)]), RELOADED);
            // Clients move to the new key, and its file to another place.
            current.store(rotation, Ordering::SeqCst);
            let moved = format!("moved-{new}.pem");
            std::fs::rename(place.join(format!("{new}.key.pem")), place.join(&moved)).unwrap();
            reload(&mut server, &config(&service, &[entry(old), (new.clone(), moved.clone())]), RELOADED);
            // Every client has begun a request after the move, so the old key is in no request any more.
            let before: Vec<usize> = done.iter().map(|done| done.load(Ordering::SeqCst)).collect();
            let until = Instant::now() + WAIT;
            while total() < requests
                && done.iter().zip(&before).any(|(done, before)| done.load(Ordering::SeqCst) < before + 2)
            {
                assert!(Instant::now() < until, "a client stands still");
                std::thread::sleep(Duration::from_millis(2));
            }
            reload(&mut server, &config(&service, &[(new.clone(), moved)]), RELOADED);
            let key = format!("key=\"{old}\"");
            let end = metric(&server, "sealway_mle_key_expiry_seconds", &[&key]);
            assert!(end.is_some_and(f64::is_nan), "{old} is removed, and its gauge says {end:?}");
            // A later step names the file where it is.
            std::fs::rename(place.join(format!("moved-{new}.pem")), place.join(format!("{new}.key.pem"))).unwrap();
        }
    });
    let uses: Vec<f64> = names
        .iter()
        .map(|name| {
            metric(&server, "sealway_mle_key_uses_total", &[&format!("kid=\"kid-{name}\"")]).unwrap_or_default()
        })
        .collect();
    assert!(uses.iter().all(|uses| *uses > 0.0), "a key was never used: {uses:?}");
    let answered = total();
    assert!(answered >= requests && uses.iter().sum::<f64>() >= answered as f64);
    println!("{answered} requests, {rotations} rotations, 0 failed, in {:?}; by key {uses:?}", began.elapsed());
    assert!(metric(&server, "sealway_mle_key_expiry_seconds", &["key=\"caller\""]).is_some_and(|end| end > 1e9));
}

/// Makes `NAME.key.pem` and a certificate of it that is valid for so many days from now, or ended as many days ago.
fn make_dated(folder: &Path, name: &str, days: i64) {
    let run = |arguments: &[&str]| {
        let mut openssl = Command::new(program("openssl").unwrap());
        let made = openssl.current_dir(folder).args(arguments).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    let (key, certificate, subject) = (format!("{name}.key.pem"), format!("{name}.cert.pem"), format!("/CN={name}"));
    let request = format!("{name}.csr");
    std::fs::write(folder.join(&key), private_key().unwrap()).unwrap();
    run(&["req", "-new", "-subj", &subject, "-key", &key, "-out", &request]);
    run(&["x509", "-req", "-in", &request, "-signkey", &key, "-days", &days.to_string(), "-out", &certificate]);
}

#[test]
fn the_end_of_certificates_is_warned_of_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    make_dated(folder.path(), "key-0", 20);
    make_dated(folder.path(), "caller", 300);
    let service = Upstream::answering(echo).unwrap();
    let mut server = Launch::new(BINARY, &config(&service, &[entry("key-0")])).folder(folder.path()).start().unwrap();
    let warned = |line: &serde_json::Value| {
        line["level"] == "WARN" && line["key"] == "key-0" && line.to_string().contains("ends soon")
    };
    let line = server.wait_for_log(0, warned).unwrap();
    // 20 days, less the moment since the certificate was made: 19 whole ones, unless that moment is shorter than a second.
    let is_due = |days: Option<i64>| days == Some(19) || days == Some(20);
    assert!(is_due(line["days_left"].as_i64()), "{line}");
    assert!(!server.log().join("\n").contains("\"key\":\"caller\""), "300 days are left");
    let request = Request::get("/admin/certificates").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    let shown = request.send(server.admin()).unwrap().json();
    let found = shown.as_array().unwrap().iter().find(|one| one["used_by"] == "mle key key-0").unwrap();
    assert!(is_due(found["days_left"].as_i64()) && found["subject"] == "CN=key-0", "{shown}");
    let until = Instant::now() + WAIT;
    let ready = loop {
        let ready = Request::get("/ready").send(server.admin()).unwrap().json();
        if !ready["mleCertificates"].is_null() {
            break ready;
        }
        assert!(Instant::now() < until, "{ready}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(ready["status"] == "ready" && is_due(ready["mleCertificates"]["daysLeft"].as_i64()), "{ready}");
    assert!(!ready.to_string().contains("key-0"), "everybody may read it: {ready}");
}

#[test]
fn wrong_keys_are_named_at_a_start_and_at_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    for name in ["key-0", "other", "caller"] {
        make_pair(place, name).unwrap();
    }
    make_dated(place, "ended", -1);
    std::fs::create_dir(place.join("folder.pem")).unwrap();
    std::fs::write(place.join("empty.pem"), "").unwrap();
    std::fs::write(place.join("huge.pem"), vec![b'x'; 70_000]).unwrap();
    let openssl = |arguments: &[&str]| {
        let made = Command::new(program("openssl").unwrap()).current_dir(place).args(arguments).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ec.sec1.pem"]);
    openssl(&["pkcs8", "-topk8", "-nocrypt", "-in", "ec.sec1.pem", "-out", "ec.pem"]);
    openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024", "-out", "small.pem"]);
    openssl(&["pkcs8", "-topk8", "-in", "key-0.key.pem", "-passout", "pass:secret", "-out", "locked.pem"]);
    let service = Upstream::answering(echo).unwrap();
    let good = config(&service, &[entry("key-0")]);
    let mut server = Launch::new(BINARY, &good).folder(place).start().unwrap();
    for (from, to, said) in [
        ("file: key-0.key.pem", "file: absent.pem", &["mle_keys.key-0.file", "absent.pem: No such file"][..]),
        ("file: key-0.key.pem", "file: folder.pem", &["mle_keys.key-0.file", "folder.pem: Is a directory"]),
        ("file: key-0.key.pem", "file: empty.pem", &["mle_keys.key-0.file", "empty.pem: the key is empty"]),
        ("file: key-0.key.pem", "file: huge.pem", &["mle_keys.key-0.file", "huge.pem: it has more than 65536 bytes"]),
        (
            "file: key-0.key.pem",
            "file: ec.pem",
            &["mle_keys.key-0.file", "ec.pem: the key is not of its algorithm's kind: RSA"],
        ),
        ("file: key-0.key.pem", "file: small.pem", &["mle_keys.key-0.file", "small.pem: the RSA key has 1024 bits"]),
        (
            "file: key-0.key.pem",
            "file: locked.pem",
            &["mle_keys.key-0.file", "locked.pem: the private key is encrypted"],
        ),
        ("file: key-0.key.pem", "file: key-0.cert.pem", &["mle_keys.key-0.file", "a private key is due"]),
        ("file: key-0.key.pem", "file: other.key.pem", &["mle_keys.key-0.certificate", "not that of the private key"]),
        (
            "certificate: key-0.cert.pem",
            "certificate: absent.pem",
            &["mle_keys.key-0.certificate", "absent.pem: No such file"],
        ),
        (
            "certificate: key-0.cert.pem",
            "certificate: other.key.pem",
            &["mle_keys.key-0.certificate", "other.key.pem: a certificate or a public key is due"],
        ),
        (
            "certificate: caller.cert.pem",
            "certificate: caller.key.pem",
            &["mle_keys.caller.certificate", "holds a private key"],
        ),
        (
            "certificate: caller.cert.pem",
            "certificate: folder.pem",
            &["mle_keys.caller.certificate", "folder.pem: Is a directory"],
        ),
        (
            "certificate: caller.cert.pem",
            "certificate: ended.cert.pem",
            &["mle_keys.caller.certificate", "ended.cert.pem: the certificate ended at"],
        ),
    ] {
        let wrong = good.replace(from, to);
        assert_ne!(wrong, good);
        let line = reload(&mut server, &wrong, NOT_RELOADED).to_string();
        let err = Launch::new(BINARY, &wrong).folder(place).start().unwrap_err().to_string();
        for said in said {
            assert!(line.contains(said), "at a reload, {said:?} is not in {line}");
            assert!(err.contains(said), "at a start, {said:?} is not in {err}");
        }
        assert!(!line.contains("PRIVATE KEY") && !err.contains("PRIVATE KEY"));
        let body = format!(r#"{{"encData":"{}"}}"#, token(place, "key-0"));
        let answer = Request::post("/visa", body).send(server.address()).unwrap();
        assert_eq!(opened(place, &answer), PLAIN, "the keys in force stay: {to}");
    }
    let twice = config(&service, &[entry("key-0"), entry("other")]).replace("kid-other", "kid-key-0");
    let line = reload(&mut server, &twice, NOT_RELOADED).to_string();
    assert!(line.contains("routes[0].mle.open: two keys have the kid"), "{line}");
}
