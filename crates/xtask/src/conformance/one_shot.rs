//! Wire 4: the client of each SDK against a real gateway, which is the only server of this wire.

use std::fs;
use std::time::Instant;

use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::calls::hex;
use super::driver::Driver;
use super::message::{Change, Message};
use super::wrong::{self, Exchange};
use super::{Codes, Tally};
use crate::server::{self, Server};
use crate::shell;

const PSK_ID: &str = "till-7";
const TARGET: &str = "/transaction/purchase";
const PURCHASE: &[u8] = br#"{"schemeCode":"AEF","amount":5000}"#;
/// A file of the demo's page, of many frames.
const FILE: &str = "/assets/index.js";

const CONFIG: &str = r#"listeners: [{ address: "127.0.0.1:0" }]
routes:
  - { match: { path_prefix: "/private/" }, sealed: hpke, one_shot: { client: psk }, upstream: shop }
  - { match: { path_prefix: "/" }, sealed: hpke, upstream: shop }
upstreams:
  shop: { servers: ["demo:"] }
one_shot: { keys: one-shot.keys, psk: { master: psk.master } }
sessions: { store: "file:claims.redb", allow_generated_kek: true }
telemetry: { log_format: json, log_level: info }
"#;

/// A gateway with one key of each mechanism.
pub(super) struct Gateway {
    server: Server,
    /// Names of mechanisms, and the key configurations that the gateway publishes.
    keys: Vec<(&'static str, String)>,
    psk_hex: String,
    /// The gateway's clock, in Unix milliseconds, and when it was read.
    clock: (u64, Instant),
    /// The file of the demo's page, as it is in the repository.
    file: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl Gateway {
    /// Starts it. `reference` asks it for its time.
    pub(super) fn start(reference: &mut Driver) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let run = |arguments: &[&str]| -> anyhow::Result<String> {
            let output = server::sealway("debug")?.args(arguments).current_dir(&folder).output()?;
            ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            Ok(String::from_utf8(output.stdout)?)
        };
        let names = [("X-Wing", "x-wing"), ("MLKEM768-P256", "mlkem768-p256"), ("X25519", "x25519"), ("P-256", "p256")];
        for (_, kem) in names {
            run(&["one-shot-keys", "add", "one-shot.keys", "--use", "hpke", "--kem", kem])?;
        }
        let psk = run(&["one-shot-keys", "psk", "psk.master", PSK_ID])?;
        let psk = psk.split_whitespace().find_map(|word| STANDARD.decode(word).ok().filter(|key| key.len() == 32));
        let config = folder.path().join("serve.yaml");
        fs::write(&config, CONFIG)?;
        let server = Server::gateway("debug", &config)?;
        let document = server::send(&server.url, "GET", "/.well-known/sealway-hpke-keys", &[], b"")?;
        let document: Value = serde_json::from_slice(&document.body)?;
        let mut keys = Vec::new();
        for ((name, _), key) in names.into_iter().zip(document["keys"].as_array().context("no keys")?) {
            keys.push((name, hex(&STANDARD.decode(key["config"].as_str().context("no config")?)?)));
        }
        ensure!(keys.len() == names.len(), "the gateway publishes {} keys: {document}", keys.len());
        let file = fs::read(shell::root().join("apps/react-spa/dist").join(FILE.trim_start_matches('/')))?;
        let psk_hex = hex(&psk.context("the gateway's tool prints no pre-shared key")?);
        let mut gateway = Gateway { server, keys, psk_hex, clock: (0, Instant::now()), file, _folder: folder };
        gateway.clock = gateway.read_clock(reference)?;
        Ok(gateway)
    }

    fn now_ms(&self) -> u64 {
        self.clock.0 + u64::try_from(self.clock.1.elapsed().as_millis()).unwrap_or_default()
    }

    /// Sends a stamp of 1970: the sealed problem has the time.
    fn read_clock(&self, client: &mut Driver) -> anyhow::Result<(u64, Instant)> {
        let key = self.key(client, &self.keys[0].1, false)?;
        let (call, request) = seal(client, &key, "GET", TARGET, b"", self.clock.0)?;
        let answer = self.send(&request)?;
        let problem = problem(client, &call, &answer, 400, "clock_skew")?;
        let now_ms = problem["server_time_ms"].as_u64().context("clock_skew without a time")?;
        Ok((now_ms, Instant::now()))
    }

    /// Returns the client's handle of a key.
    fn key(&self, client: &mut Driver, config_hex: &str, has_psk: bool) -> anyhow::Result<Value> {
        let (id, psk) = if has_psk { (Some(PSK_ID), Some(&self.psk_hex)) } else { (None, None) };
        Ok(client.must("client.key", json!({"config_hex": config_hex, "psk_id": id, "psk_hex": psk}))?["session"]
            .clone())
    }

    /// Sends a request, and returns the answer as it came.
    fn send(&self, request: &Message) -> anyhow::Result<Message> {
        let text = |name: &str| request.0[name].as_str().with_context(|| format!("no {name}"));
        let body = request.body()?;
        let answer = server::send(&self.server.url, text("method")?, text("target")?, &request.headers(), &body)?;
        Ok(Message(json!({
            "status": answer.status, "headers": answer.headers, "body_hex": hex(&answer.body), "now_ms": self.now_ms(),
        })))
    }
}

/// Seals a request by the client.
fn seal(
    client: &mut Driver,
    key: &Value,
    method: &str,
    target: &str,
    body: &[u8],
    now_ms: u64,
) -> anyhow::Result<(Value, Message)> {
    let headers = if body.is_empty() { json!([]) } else { json!([["content-type", "application/json"]]) };
    let sealed = client.must(
        "client.seal",
        json!({
            "session": key, "method": method, "target": target, "headers": headers, "body_hex": hex(body), "now_ms": now_ms,
        }),
    )?;
    Ok((sealed["call"].clone(), Message::request(&sealed, method, target, now_ms)))
}

/// Opens an answer that must be a problem of the gateway, with this code.
fn problem(client: &mut Driver, call: &Value, answer: &Message, status: u16, code: &str) -> anyhow::Result<Value> {
    let opened = client.must("client.open", answer.to("call", call))?;
    let problem: Value = serde_json::from_slice(&Message(opened.clone()).body()?)?;
    ensure!(opened["is_problem"] == true, "the gateway's problem counts as an answer of the service");
    ensure!(answer.0["status"] == status && problem["code"] == code, "{} {problem}", answer.0["status"]);
    Ok(problem)
}

/// Plays a client against the gateway: each of its mechanisms, with a pre-shared key and without. Rejections of requests are the
/// gateway's, whatever the mechanism: the first is enough for them.
pub(super) fn play(client: &mut Driver, gateway: &Gateway, codes: &mut Codes) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    for (index, name) in client.kems.clone().into_iter().enumerate() {
        let (_, config) = gateway
            .keys
            .iter()
            .find(|(known, _)| *known == name)
            .with_context(|| format!("{name} is no mechanism of wire 4"))?;
        for has_psk in [false, true] {
            let family = format!("wire 4 {name}{}", if has_psk { " psk" } else { "" });
            let key = gateway.key(client, config, has_psk)?;
            right(client, gateway, &key, &family, &mut tally)?;
            if index == 0 {
                problems(client, gateway, (&key, has_psk), &family, &mut tally)?;
                requests(client, gateway, (&key, config), &family, &mut tally)?;
            }
            let mut exchange = |client: &mut Driver, is_long: bool| -> anyhow::Result<Exchange> {
                let (method, target, body) = if is_long { ("GET", FILE, &b""[..]) } else { ("POST", TARGET, PURCHASE) };
                let (call, request) = seal(client, &key, method, target, body, gateway.now_ms())?;
                let answer = gateway.send(&request)?;
                Ok(Exchange { call, request, answer })
            };
            wrong::answers(client, &mut exchange, codes, (&family, 4), &mut tally)?;
            client.must("reset", json!({}))?;
        }
    }
    Ok(tally)
}

/// A valid call: its name, method, target, body, the status, and the answer, if it is the same each time.
type Call<'a> = (&'a str, &'a str, &'a str, &'a [u8], u16, Option<&'a [u8]>);

/// Plays valid calls: the service's answers come out as the service made them.
fn right(client: &mut Driver, gateway: &Gateway, key: &Value, family: &str, tally: &mut Tally) -> anyhow::Result<()> {
    let large = [&br#"{"schemeCode":"AEF","amount":5000,"note":""#[..], &[b'x'; 200_000], br#""}"#].concat();
    let not_found: &[u8] = br#"{"error":"NOT_FOUND"}"#;
    let calls: [Call<'_>; 7] = [
        ("a purchase", "POST", TARGET, PURCHASE, 200, None),
        ("a purchase in many frames", "POST", TARGET, &large, 200, None),
        ("an empty body", "POST", TARGET, b"", 400, Some(br#"{"error":"INVALID_REQUEST"}"#)),
        ("an answer in many frames", "GET", FILE, b"", 200, Some(&gateway.file)),
        ("an answer to HEAD", "HEAD", FILE, b"", 200, Some(b"")),
        ("a query", "DELETE", "/transaction/nothing?a=1&b=%20", b"", 404, Some(not_found)),
        ("another method", "PUT", "/transaction/nothing", PURCHASE, 404, Some(not_found)),
    ];
    for (name, method, target, body, status, wanted) in calls {
        let (call, request) = seal(client, key, method, target, body, gateway.now_ms())?;
        let answer = gateway.send(&request)?;
        let held = (|| {
            let opened = client.must("client.open", answer.to("call", &call))?;
            let read = Message(opened.clone()).body()?;
            ensure!(answer.0["status"] == status && opened["is_problem"] == false, "{} {opened}", answer.0["status"]);
            let is_type = |pair: &(String, String)| pair.0 == "content-type" && pair.1 != "application/octet-stream";
            ensure!(Message(opened.clone()).headers().iter().any(is_type), "no content type: {}", opened["headers"]);
            match wanted {
                Some(body) => ensure!(read == body, "another answer came out, of {} bytes", read.len()),
                None => ensure!(serde_json::from_slice::<Value>(&read)?["status"] == "SUCCESS", "no receipt"),
            }
            Ok(())
        })();
        tally.cell(&format!("{family}: {name}"), held);
    }
    Ok(())
}

/// Plays requests that the gateway opens and rejects: the client opens its problem.
fn problems(
    client: &mut Driver,
    gateway: &Gateway,
    (key, has_psk): (&Value, bool),
    family: &str,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let (call, request) = seal(client, key, "POST", TARGET, PURCHASE, gateway.now_ms())?;
    gateway.send(&request)?;
    let again = gateway.send(&request)?;
    tally.cell(&format!("{family}: the same request again"), problem(client, &call, &again, 409, "replayed").map(drop));
    let (call, request) = seal(client, key, "POST", TARGET, PURCHASE, 1)?;
    let answer = gateway.send(&request)?;
    tally.cell(&format!("{family}: a stamp of 1970"), problem(client, &call, &answer, 400, "clock_skew").map(drop));
    let (call, request) = seal(client, key, "POST", "/private/purchase", PURCHASE, gateway.now_ms())?;
    let answer = gateway.send(&request)?;
    let held = if has_psk {
        // The service's own answer: it has nothing there.
        let opened = client.must("client.open", answer.to("call", &call))?;
        let is_served = answer.0["status"] == 404 && opened["is_problem"] == false;
        if is_served { Ok(()) } else { Err(anyhow::anyhow!("{opened}")) }
    } else {
        problem(client, &call, &answer, 403, "policy").map(drop)
    };
    tally.cell(&format!("{family}: a route for pre-shared keys"), held);
    Ok(())
}

/// Plays requests that were changed on their way: the gateway says no more than `unsealable`, without a seal.
fn requests(
    client: &mut Driver,
    gateway: &Gateway,
    (key, config): (&Value, &str),
    family: &str,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let other = gateway.keys.iter().find(|(name, _)| !family.contains(name)).context("one key alone")?;
    let other = client.must("client.key", json!({"config_hex": other.1, "psk_id": null, "psk_hex": null}))?;
    let kid = other["kid"].as_str().context("no kid")?.to_owned();
    for (method, body) in [("POST", PURCHASE), ("GET", &b""[..])] {
        let mut cases = Vec::new();
        let wrong = json!({"config_hex": config, "psk_id": PSK_ID, "psk_hex": "00".repeat(32)});
        let wrong = client.must("client.key", wrong)?["session"].clone();
        let made = seal(client, &wrong, method, TARGET, body, gateway.now_ms())?;
        cases.push(("a wrong pre-shared key".to_owned(), made, None));
        let mut made = || seal(client, key, method, TARGET, body, gateway.now_ms());
        for change in [Change::FirstByte, Change::LastByte, Change::Shorter, Change::Longer] {
            cases.push((format!("{change:?}"), made()?, Some(change)));
        }
        for (name, value) in [("X-Kid", kid.as_str()), ("X-Idempotency-Key", "1.0123456789abcdef0123456789abcdef")] {
            let (call, request) = made()?;
            cases.push((format!("another {name}"), (call, request.replaced(name, value)), None));
        }
        for (name, member, value) in
            [("target", "target", "/transaction/refund"), ("query", "target", "/transaction/purchase?x")]
        {
            let (call, request) = made()?;
            cases.push((format!("another {name}"), (call, request.with(member, value)), None));
        }
        let (call, request) = made()?;
        cases.push(("another method".to_owned(), (call, request.with("method", "PUT")), None));
        for (name, (call, request), change) in cases {
            let request = if let Some(change) = change { request.bytes_changed(change)? } else { request };
            let answer = gateway.send(&request)?;
            let held = (|| {
                let problem: Value = serde_json::from_slice(&answer.body()?)?;
                ensure!(
                    answer.0["status"] == 400 && problem["code"] == "unsealable",
                    "{} {problem}",
                    answer.0["status"]
                );
                match client.ask("client.open", answer.to("call", &call))? {
                    Err(code) => ensure!(code == "unsealed", "the client refuses the problem as {code}"),
                    Ok(_) => anyhow::bail!("the client takes a problem without a seal for an answer"),
                }
                Ok(())
            })();
            tally.cell(&format!("{family}: {method}: {name}"), held);
        }
    }
    Ok(())
}
