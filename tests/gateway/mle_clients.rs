//! Routes with `mle:` and the published libraries of the schemes: as clients of an unchanged service, and as doubles of a scheme
//! that an unchanged client calls. The programs are in `tests/mle_clients`; a cell is a library and a profile.
#![allow(clippy::print_stdout, reason = "the output of a run names its cells and their round trips")]

mod cells;
mod fields;
mod keys;
mod signatures;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sealway_testkit::daemon::{program, root};
use sealway_testkit::fleet::is_full;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::upstream::{RequestHead, Upstream, answer};
use serde_json::{Value, json};

use self::cells::{ALL_ENCS, Cell, Language};
use self::keys::Keys;
use crate::BINARY;

const WAIT: Duration = Duration::from_secs(60);
/// Returns the round trips of a cell and direction: enough for each of 15 bodies to meet each turn, or one in the short form.
fn rounds() -> usize {
    15 * if is_full() { TURNS.len() } else { 1 }
}

/// The answers of the service, in turn; the programs have the same list.
const TURNS: [&str; 7] = ["echo", "echo", "empty", "echo", "error", "echo", "get"];
const ERROR: &str = r#"{"error":"DECLINED","reason":"nicht gedeckt 💳","code":51}"#;
const FOUND: &str = r#"{"found":["é",1],"by":"get","card":{"pan":"5555555555554444"}}"#;

/// Returns the kid of the gateway's key and that of the other side's, for profiles whose libraries have them as a setting.
fn kids(profile: &str) -> Option<[&'static str; 2]> {
    match profile {
        "visa" => Some(["2c2ac2da-386a-4743-b48f-6a98e549636d", "9d0c1f6e-5a27-4c7b-8a55-0f8f6f3c1b7e"]),
        "visa-acceptance" => Some(["1600000000000000000001", "1600000000000000000002"]),
        "generic-jwe" | "open-banking" => Some(["gateway/2026 é", "peer-1"]),
        _ => None,
    }
}

/// Starts a gateway with inbound routes to the service, and outbound routes to the double.
fn gateway(cell: &Cell, keys: &Keys, service: &str, double: &str) -> Server {
    let kid = |index: usize| match (cell.profile, kids(cell.profile)) {
        ("visa-acceptance", _) => "kid_from: subject_serial_number".to_owned(),
        (_, Some(kids)) => format!("kid: '{}'", kids[index]),
        _ => "kid_from: spki_sha256_hex".to_owned(),
    };
    if let Some(fle) = cell.fle {
        return fle.gateway(cell, keys, service, double);
    }
    // The paths of Mastercard's libraries; Go's knows the first pair alone, see `Cell::bodies`.
    let pairs = [("$.secret", "$.card"), ("$.hidden", "$.customer.address")];
    let pairs = match (cell.shape, cell.language) {
        ("whole", _) => &[][..],
        (_, Language::Go) => &pairs[..1],
        _ => &pairs,
    };
    let opened = pairs.iter().map(|(sealed, plain)| format!("{{ from: '{sealed}.encryptedData', to: '{plain}' }}"));
    let opened = opened.collect::<Vec<_>>().join(", ");
    let sealed =
        pairs.iter().map(|(sealed, plain)| format!("{{ from: '{plain}', to: '{sealed}', field: encryptedData }}"));
    let sealed = sealed.collect::<Vec<_>>().join(", ");
    let generic = if ["generic-jwe", "open-banking"].contains(&cell.profile) {
        format!("generic: {{ algs: [{}], encs: [{}] }}", cell.alg, ALL_ENCS.join(", "))
    } else {
        String::new()
    };
    let route = |prefix: &str, upstream: &str, mle: &str| {
        let (profile, mle) = (cell.profile, [mle, &generic].into_iter().filter(|it| !it.is_empty()));
        let mle = mle.collect::<Vec<_>>().join(", ");
        format!(
            "  - {{ match: {{ path_prefix: {prefix} }}, upstream: {upstream}, mle: {{ profile: {profile}, open: [gateway], seal: [{{ keys: [peer] }}], {mle} }} }}\n"
        )
    };
    let inbound = format!("direction: inbound, caller: anybody, request: [{opened}], answer: [{sealed}]");
    // An error has a value at none of the paths.
    let kept = if cell.shape == "fields" { "errors" } else { "none" };
    let outbound = format!("direction: outbound, plain_answers: errors, request: [{sealed}], answer: [{opened}]");
    let signed = cell.signature.map(signatures::sections).unwrap_or_default();
    let (inbound, outbound) = (inbound + &signed, outbound + &signed);
    let routes = [
        route("/sealed/", "service", &format!("{inbound}, plain_answers: {kept}")),
        route("/clear/", "service", &format!("{inbound}, plain_answers: errors")),
        // The paths of Cybersource's SDK.
        route("/pts/", "service", &format!("{inbound}, plain_answers: none")),
        route("/out/", "double", &outbound),
    ];
    let [key, certificate, peer] = [("gateway", "key"), ("gateway", "pem"), ("peer", "pem")]
        .map(|(name, extension)| keys.path(name, extension).display().to_string());
    let (alg, enc, own_kid, peer_kid) = (cell.alg, cell.enc, kid(0), kid(1));
    let config = format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
mle_keys:
  gateway: {{ file: '{key}', certificate: '{certificate}', alg: {alg}, {own_kid} }}
  peer: {{ certificate: '{peer}', alg: {alg}, enc: {enc}, {peer_kid} }}
{}routes:
{}
upstreams: {{ service: {{ servers: ['http://{service}'] }}, double: {{ servers: ['http://{double}'] }} }}
sessions: {{ store: 'memory:' }}
",
        signatures::keys(keys),
        routes.concat()
    );
    Launch::new(BINARY, &config).start().unwrap()
}

/// Builds the program in Go. Tests are parallel processes, and a second build of the same source is cheap.
fn go_binary(source: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let lock = std::fs::File::create(folder.join("mle_clients.lock")).unwrap();
    lock.lock().unwrap();
    let binary = folder.join("mle_clients");
    let mut go = Command::new(program("go").unwrap());
    go.args(["build", "-buildvcs=false", "-o"]).arg(&binary).arg(".").current_dir(source);
    let built = go.output().unwrap();
    assert!(built.status.success(), "go build: {}", String::from_utf8_lossy(&built.stderr));
    binary
}

/// Creates the command of a program of the libraries.
fn command(language: Language) -> Command {
    let folder = root().join("tests/mle_clients");
    let needs = |path: PathBuf| {
        assert!(path.exists(), "{} is missing and this test needs it: run scripts/setup-tests.sh", path.display());
        path
    };
    match language {
        Language::Node => {
            needs(folder.join("node/node_modules/jose"));
            let mut command = Command::new(program("node").unwrap());
            command.arg(folder.join("node/main.mjs"));
            command
        }
        Language::Python => {
            let mut command = Command::new(needs(root().join(".venv/mle/bin/python")));
            command.arg(folder.join("python/main.py"));
            command
        }
        Language::Go => Command::new(go_binary(&folder.join("go"))),
        Language::Java => {
            needs(folder.join("java/target/classpath"));
            Command::new(folder.join("java/run"))
        }
    }
}

/// A double of a scheme. It is killed when dropped.
struct Double {
    child: Child,
    address: String,
}

impl Double {
    fn start(cell: &Cell, keys: &Keys) -> Double {
        let mut command = command(cell.language);
        command.arg("serve").arg(spec(cell, keys, false, json!({})).to_string());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap().take(1 << 20));
        std::thread::spawn(move || output.lines().map_while(Result::ok).all(|line| to.send(line).is_ok()));
        let mut double = Double { child, address: String::new() };
        double.address = lines.recv_timeout(WAIT).expect("the double has no address: its reason is on standard error");
        double
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the argument of a program.
fn spec(cell: &Cell, keys: &Keys, is_client: bool, more: Value) -> Value {
    let kids = kids(cell.profile);
    let mut spec = json!({
        "library": cell.library,
        "profile": cell.profile,
        "shape": cell.shape,
        "errors": "sealed",
        "seal": {
            "certificate": keys.path("gateway", "pem"),
            "kid": kids.map(|kids| kids[0]),
            "alg": cell.alg,
            "encs": cell.encs(is_client),
        },
        "open": { "key": keys.path("peer", "key"), "kid": kids.map(|kids| kids[1]), "alg": cell.alg, "encs": [cell.enc] },
    });
    if let Some(fle) = cell.fle {
        spec["fle"] = fle.spec();
    }
    if let Some(form) = cell.signature {
        spec["signature"] = signatures::spec(form, keys);
    }
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    spec
}

fn sha256_hex(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The service behind inbound routes: it knows nothing of tokens, and notes what it should not have received.
fn service(cell: Cell) -> (Upstream, Arc<Mutex<Vec<String>>>) {
    let faults = Arc::new(Mutex::new(Vec::new()));
    let noted = faults.clone();
    let respond = move |head: &RequestHead, body: &[u8]| {
        let text = String::from_utf8_lossy(body);
        let fault = |why: String| noted.lock().unwrap().push(format!("{why}: {} {text:.300}", head.line));
        let wire = head.header("x-sealway-wire");
        // A request without a body came in clear.
        let expected = (head.method_and_target().0 == "POST").then(|| format!("mle:{}", cell.profile));
        if wire != expected.as_deref() {
            fault(format!("X-Sealway-Wire is {wire:?}"));
        }
        let is_whole = cell.shape == "whole" && head.method_and_target().0 == "POST";
        if is_whole && cell.has_digest() && head.header("x-sent-sha256") != Some(&sha256_hex(body)) {
            fault("these are not the bytes that were sealed".to_owned());
        }
        if head.header("x-iv").or(head.header("x-encrypted-key")).is_some() {
            fault("it has headers of a message that was opened".to_owned());
        }
        if ["\"secret\"", "\"hidden\""].iter().any(|name| text.contains(name)) {
            fault("it is not plaintext".to_owned());
        }
        let kind = [("Content-Type", "application/json")];
        match head.method_and_target().1 {
            "/pts/v2/payments" => payment(body),
            _ => match head.header("x-answer") {
                Some("echo") => answer("200 OK", &kind, body),
                Some("empty") => answer("204 No Content", &[], b""),
                Some("error") => answer("400 Bad Request", &kind, ERROR.as_bytes()),
                Some("get") => answer("200 OK", &kind, FOUND.as_bytes()),
                other => {
                    fault(format!("X-Answer is {other:?}"));
                    answer("500 Internal Server Error", &[], b"")
                }
            },
        }
    };
    (Upstream::answering(respond).unwrap(), faults)
}

/// Answers an order of Cybersource's SDK.
fn payment(body: &[u8]) -> Vec<u8> {
    let order: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = &order["clientReferenceInformation"]["code"];
    let kind = [("Content-Type", "application/json")];
    if order["paymentInformation"]["card"]["number"] != "4111111111111111" || code == "declined" {
        let error = json!({ "status": "INVALID_REQUEST", "reason": "MISSING_FIELD", "message": "Declined 💳" });
        return answer("400 Bad Request", &kind, error.to_string().as_bytes());
    }
    let paid = json!({
        "id": "7".repeat(22),
        "status": "AUTHORIZED",
        "clientReferenceInformation": { "code": code },
        "echo": order["orderInformation"]["billTo"]["firstName"],
    });
    answer("201 Created", &kind, paid.to_string().as_bytes())
}

/// Runs a client by its library, and returns what it printed.
fn call(cell: &Cell, spec: &Value, server: &Server, faults: &Mutex<Vec<String>>) -> String {
    let mut command = command(cell.language);
    let done = command.arg("call").arg(spec.to_string()).stdin(Stdio::null()).output().unwrap();
    let reason = String::from_utf8_lossy(&done.stderr);
    let faults = faults.lock().unwrap();
    assert!(done.status.success() && faults.is_empty(), "{cell:?}: {reason}\n{faults:#?}\n{:#?}", server.log());
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

/// Sends requests in clear to the outbound route, and compares what comes back.
fn call_in_clear(cell: &Cell, rounds: usize, server: &Server) {
    let bodies = cell.bodies();
    for round in 0..rounds {
        let body = &bodies[round % bodies.len()];
        let turn = match TURNS[round % TURNS.len()] {
            // Every second error in clear, as Visa's are.
            "error" if round % 2 == 0 => "clear-error",
            // The double of the fields seals what came in the request.
            "get" if cell.shape == "fields" => "echo",
            turn => turn,
        };
        let request = match turn {
            "get" => Request::get("/out/x"),
            _ => Request::post("/out/x", body.as_str()).header("Content-Type", "application/json"),
        };
        let answer = request.header("X-Answer", turn).send(server.address()).unwrap();
        let what = format!("{cell:?}, round {round}, {turn}, {body:.200}: {}", answer.text());
        let expected = match turn {
            "echo" => (200, body.as_str()),
            "empty" => (204, ""),
            "get" => (200, FOUND),
            _ => (400, ERROR),
        };
        assert_eq!(answer.status, expected.0, "{what}\n{:#?}", server.log());
        assert!(is_same(cell, &answer, expected.1), "{what}");
    }
}

fn is_same(cell: &Cell, answer: &Answer, expected: &str) -> bool {
    if cell.is_byte_exact() || expected.is_empty() {
        return answer.body == expected.as_bytes();
    }
    let mut found = answer.json();
    if let (Some("nested"), Some(members)) = (cell.signature, found.as_object_mut()) {
        members.retain(|name, _| !["iss", "aud", "iat", "exp", "jti"].contains(&name.as_str()));
    }
    found == serde_json::from_str::<Value>(expected).unwrap()
}

/// Runs a cell in both directions.
fn run(cell: Cell) {
    let keys = Keys::new(cell.alg);
    let (upstream, faults) = service(cell);
    let double = Double::start(&cell, &keys);
    let server = gateway(&cell, &keys, &upstream.address.to_string(), &double.address);
    let bodies = keys.folder.path().join("bodies.json");
    std::fs::write(&bodies, serde_json::to_vec(&cell.bodies()).unwrap()).unwrap();
    let rounds = match (cell.library, cell.language) {
        // Which of its characters are not of base64url is a matter of chance.
        ("mastercard", Language::Node) if cell.fle.is_none() => 3 * rounds(),
        _ => rounds(),
    };
    for (errors, count) in [("sealed", rounds), ("clear", 3 * TURNS.len())] {
        let url = format!("http://{}/{errors}/x", server.address());
        let more = json!({ "url": url, "errors": errors, "count": count, "bodies": bodies });
        let printed = call(&cell, &spec(&cell, &keys, true, more), &server, &faults);
        println!("{cell:?}: in, errors {errors}: {printed}");
    }
    call_in_clear(&cell, rounds, &server);
    println!("{cell:?}: out: {rounds} round trips");
}

/// Runs the profiles of schemes by a JOSE library.
fn run_schemes(language: Language, library: &'static str) {
    run(Cell::jose(language, library, "visa", "RSA-OAEP-256", "A128GCM"));
    run(Cell::jose(language, library, "visa-acceptance", "RSA-OAEP-256", "A256GCM"));
}

/// Runs `generic-jwe` by a JOSE library, which seals with every `enc`; the gateway seals with this one.
fn run_generic(language: Language, library: &'static str, enc: &'static str) {
    run(Cell::jose(language, library, "generic-jwe", "RSA-OAEP-256", enc));
    run(Cell::jose(language, library, "generic-jwe", "RSA-OAEP", "A256GCM"));
}

#[test]
fn mastercards_node_library_both_ways() {
    run(Cell::mastercard(Language::Node, "whole"));
    run(Cell::mastercard(Language::Node, "fields"));
}

#[test]
fn mastercards_python_library_both_ways() {
    run(Cell::mastercard(Language::Python, "whole"));
    run(Cell::mastercard(Language::Python, "fields"));
}

#[test]
fn mastercards_go_library_both_ways() {
    run(Cell::mastercard(Language::Go, "whole"));
    run(Cell::mastercard(Language::Go, "fields"));
}

#[test]
fn mastercards_java_library_both_ways() {
    run(Cell::mastercard(Language::Java, "whole"));
    run(Cell::mastercard(Language::Java, "fields"));
}

#[test]
fn jose_of_node_both_ways_by_the_profiles_of_schemes() {
    run_schemes(Language::Node, "jose");
}

#[test]
fn jose_of_node_both_ways_by_generic_profiles() {
    run_generic(Language::Node, "jose", "A128CBC-HS256");
}

#[test]
fn jwcrypto_both_ways_by_the_profiles_of_schemes() {
    run_schemes(Language::Python, "jwcrypto");
}

#[test]
fn jwcrypto_both_ways_by_generic_profiles() {
    run_generic(Language::Python, "jwcrypto", "A256CBC-HS512");
}

#[test]
fn libraries_both_ways_by_ecdh() {
    run(Cell::jose(Language::Node, "jose", "generic-jwe", "ECDH-ES", "A256GCM"));
    run(Cell::jose(Language::Python, "jwcrypto", "generic-jwe", "ECDH-ES", "A128CBC-HS256"));
    run(Cell::jose(Language::Go, "go-jose", "generic-jwe", "ECDH-ES", "A192GCM"));
    run(Cell::jose(Language::Java, "nimbus", "generic-jwe", "ECDH-ES", "A256CBC-HS512"));
}

#[test]
fn jose_of_node_both_ways_by_open_banking() {
    run(Cell::open_banking(Language::Node, "jose", "RSA-OAEP-256", "detached"));
    run(Cell::open_banking(Language::Node, "jose", "RSA-OAEP", "nested"));
}

#[test]
fn jwcrypto_both_ways_by_open_banking() {
    run(Cell::open_banking(Language::Python, "jwcrypto", "RSA-OAEP-256", "detached"));
    run(Cell::open_banking(Language::Python, "jwcrypto", "RSA-OAEP-256", "nested"));
}

#[test]
fn go_jose_both_ways_by_the_profiles_of_schemes() {
    run_schemes(Language::Go, "go-jose");
}

#[test]
fn go_jose_both_ways_by_generic_profiles() {
    run_generic(Language::Go, "go-jose", "A192GCM");
}

#[test]
fn nimbus_both_ways_by_the_profiles_of_schemes() {
    run_schemes(Language::Java, "nimbus");
}

#[test]
fn nimbus_both_ways_by_generic_profiles() {
    run_generic(Language::Java, "nimbus", "A192CBC-HS384");
}

#[test]
fn cybersources_node_sdk_pays_through_its_intermediate_host() {
    const MERCHANT: &str = "testmerchant";
    let cell = Cell::jose(Language::Node, "cybersource-sdk", "visa-acceptance", "RSA-OAEP-256", "A256GCM");
    let keys = Keys::new(cell.alg);
    // The merchant's own pair, which signs the JWT; the SDK looks for the alias in the friendly name.
    let mut openssl = Command::new(program("openssl").unwrap());
    openssl.args(["pkcs12", "-export", "-passout", "pass:changeit", "-name", &format!("CN={MERCHANT}")]);
    openssl.arg("-inkey").arg(keys.path("peer", "key")).arg("-in").arg(keys.path("peer", "pem"));
    let made = openssl.arg("-out").arg(keys.path(MERCHANT, "p12")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (upstream, faults) = service(cell);
    let address = upstream.address.to_string();
    let server = gateway(&cell, &keys, &address, &address);
    let bodies = keys.folder.path().join("names.json");
    std::fs::write(&bodies, serde_json::to_vec(&["Jane", "Zoë 𝒳 😀", "\" \\ /"]).unwrap()).unwrap();
    let more = json!({
        "url": format!("http://{}", server.address()),
        "count": rounds(),
        "bodies": bodies,
        "merchant": MERCHANT,
        "password": "changeit",
        "folder": keys.folder.path(),
    });
    println!("in: {}", call(&cell, &spec(&cell, &keys, true, more), &server, &faults));
}
