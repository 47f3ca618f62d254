//! The time of a rejection of one-shot requests by its cause, at a real server over one connection: what a client that guesses can measure.
//! Wire 4 answers 400 to an unknown, a revoked and a wrong pre-shared key alike; EHBP answers 422 to an unknown key.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use sealway_proto::crypto::default_provider;
use sealway_proto::ehbp::SUITE;
use sealway_proto::hpke::{Kem, PrivateKey, PublicKey, setup_sender};
use sealway_proto::limits::KEY_LEN;
use sealway_proto::one_shot::{ClientPsk, KeyConfig, KeyDocument, seal};
use sealway_proto::session::native::{InnerHeaders, RequestLine};
use sealway_proto::wire::base64;
use sealway_testkit::daemon::free_port;
use sealway_testkit::raw_http::{Connection, Request};
use sealway_testkit::wire_client::{nonce, now_ms};

use crate::servers::{SERVER_CORE, Server, sealway_beside};
use crate::table::{us, verdict};
use crate::welch::{self, Kind};

/// Requests of each cause, so that no figure is that of one ciphertext.
const REQUESTS: usize = 64;
/// Length of each content, in bytes.
const LEN: usize = 1024;
const MASTER: [u8; KEY_LEN] = [7; 32];
const PATH: &str = "/pay";
const EHBP_PATH: &str = "/chat";
const TYPE: &str = "application/octet-stream";
/// Largest difference of two causes' medians, in percent of the first.
const GOAL_PERCENT: f64 = 10.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Path of the server's binary [default: beside this one]
    #[arg(long)]
    sealway: Option<PathBuf>,
    /// Number of rejections of each cause
    #[arg(long, default_value_t = 5_000)]
    samples: usize,
}

/// A cause of a rejection, the status of its answer, and requests that have it.
struct Cause {
    name: &'static str,
    status: u16,
    requests: Vec<Vec<u8>>,
}

impl Cause {
    fn new(name: &'static str, status: u16, request: impl Fn() -> Request) -> Cause {
        let bytes = |_| request().header("Connection", "keep-alive").bytes();
        Cause { name, status, requests: (0..REQUESTS).map(bytes).collect() }
    }
}

/// The keys of a running server.
struct Keys {
    hpke: KeyConfig,
    ehbp: PublicKey,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, port) = (sealway_beside(options.sealway.clone())?, free_port()?);
    let config = prepare(&program, folder.path(), port)?;
    let server = Server::start(&program, &["serve", "--config", &config], port, SERVER_CORE)?;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port));
    let keys = Keys::fetch(to)?;
    let psk = |id: &str| default_provider().hkdf_sha256(id.as_bytes(), &MASTER, &[b"sealway/4 psk"]);
    let (known, other, revoked) = (psk("partner-7")?, psk("partner-8")?, psk("mallory-7")?);
    println!("## Rejected one-shot requests of {LEN} bytes by their cause, over HTTP (goal: medians within 10 %)\n");
    println!("Wire 4, 400 `unsealable` each:\n");
    let causes = vec![
        Cause::new("the pre-shared key is wrong", 400, || keys.wire_4("partner-7", &other, false)),
        Cause::new("its name is revoked", 400, || keys.wire_4("mallory-7", &revoked, false)),
        Cause::new("its name is unknown", 400, || keys.wire_4("unknown-7", &[1; KEY_LEN], false)),
        Cause::new("the first frame is damaged", 400, || keys.wire_4("partner-7", &known, true)),
    ];
    compare(to, options.samples, causes)?;
    println!("EHBP, 422 for the first frame and 400 behind it:\n");
    let stranger = PrivateKey::from_bytes(default_provider(), Kem::X25519, &[3; 32])?;
    let causes = vec![
        Cause::new("the key is unknown", 422, || ehbp(stranger.public_key(), None)),
        Cause::new("the first frame is damaged", 422, || ehbp(&keys.ehbp, Some(0))),
        Cause::new("a later frame is damaged", 400, || ehbp(&keys.ehbp, Some(1))),
    ];
    compare(to, options.samples, causes)
}

/// Writes the configuration of a server with a key of each use, and its files. Returns its path.
fn prepare(program: &Path, folder: &Path, port: u16) -> anyhow::Result<String> {
    for purpose in ["hpke", "ehbp"] {
        let mut command = Command::new(program);
        command
            .args(["one-shot-keys", "add"])
            .arg(folder.join("keys.json"))
            .args(["--use", purpose, "--kem", "x25519"]);
        let made = command.output().context("cannot make keys")?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    std::fs::write(folder.join("psk-master"), base64::encode(&MASTER))?;
    std::fs::write(folder.join("revoked.txt"), "mallory-7\n")?;
    let config = folder.join("serve.yaml");
    let text = format!(
        "
listeners: [{{ address: '127.0.0.1:{port}' }}]
one_shot: {{ keys: keys.json, psk: {{ master: psk-master, revoked: revoked.txt }} }}
routes:
  - {{ match: {{ path: {PATH} }}, upstream: nobody, sealed: hpke }}
  - {{ match: {{ path: {EHBP_PATH} }}, upstream: nobody, sealed: ehbp }}
upstreams: {{ nobody: {{ servers: ['http://127.0.0.1:1'] }} }}
sessions: {{ store: 'file:{}/s.redb', allow_generated_kek: true }}
telemetry: {{ log_level: error }}
",
        folder.display()
    );
    std::fs::write(&config, text)?;
    Ok(config.display().to_string())
}

/// Sends the requests of all causes in a random order and prints a row for each. Each is a row of Welch's test, and of the medians.
fn compare(to: SocketAddr, samples: usize, causes: Vec<Cause>) -> anyhow::Result<()> {
    let mut connection = Connection::open(to)?;
    let mut reject = |request: &[u8], status: Option<u16>| -> anyhow::Result<f64> {
        let begun = Instant::now();
        connection.write(request)?;
        let answer = connection.read_answer("POST")?;
        let nanos = begun.elapsed().as_nanos() as f64;
        let is_kept = answer.all("connection").iter().all(|value| !value.eq_ignore_ascii_case("close"));
        ensure!(is_kept && status.is_none_or(|status| answer.status == status), "{}: {}", answer.status, answer.text());
        Ok(nanos)
    };
    let mut kinds = Vec::new();
    for Cause { name, status, requests } in causes {
        requests.iter().try_for_each(|request| reject(request, Some(status)).map(drop)).context(name)?;
        kinds.push(Kind::new(name, requests));
    }
    let mut fault = None;
    welch::take_turns(samples, &mut kinds.iter_mut().collect::<Vec<_>>(), |request| {
        reject(request, None).unwrap_or_else(|err| {
            fault.get_or_insert(err);
            0.0
        })
    });
    if let Some(err) = fault {
        return Err(err);
    }
    let Some((first, others)) = kinds.split_first_mut() else { return Ok(()) };
    println!("| wrong | median µs | of \"{}\" | difference % | goal | |", first.name);
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    for kind in others {
        let [one, other] = [first.median(), kind.median()];
        let (percent, name) = ((other / one - 1.0) * 100.0, kind.name);
        println!(
            "| {name} | {} | {} | {percent:.1} | {GOAL_PERCENT} | {} |",
            us(other),
            us(one),
            verdict(percent.abs(), GOAL_PERCENT)
        );
    }
    println!();
    Ok(())
}

impl Keys {
    fn fetch(from: SocketAddr) -> anyhow::Result<Keys> {
        let get = |path: &str| -> anyhow::Result<Vec<u8>> { Ok(Request::get(path).send(from)?.body) };
        let document = KeyDocument::parse(default_provider(), &get("/.well-known/sealway-hpke-keys")?)?;
        let key = document.keys.first().context("the key document is empty")?;
        Ok(Keys {
            hpke: KeyConfig::decode(default_provider(), &key.config)?,
            ehbp: KeyConfig::decode(default_provider(), &get("/.well-known/hpke-keys")?)?.public_key().clone(),
        })
    }

    /// Seals a request of wire 4 under a pre-shared key.
    fn wire_4(&self, id: &str, key: &[u8; KEY_LEN], is_damaged: bool) -> Request {
        let (line, stamp) = (RequestLine { method: "POST", target: PATH }, now_ms().to_string());
        let psk = Some(ClientPsk { id, key });
        let mut call = seal(default_provider(), &self.hpke, psk, line, TYPE, (&stamp, &nonce()), None).unwrap();
        let mut body = call.prefix.clone();
        let begun = call.sealer.begin(&mut body);
        InnerHeaders::new().encode(&mut body);
        body.extend_from_slice(&[0x61; LEN]);
        call.sealer.seal(&mut body, begun, true).unwrap();
        if is_damaged {
            damage(&mut body);
        }
        let request = Request::post(PATH, body).header("Content-Type", TYPE);
        call.headers.iter().fold(request, |request, (name, value)| request.header(name, value.as_str()))
    }
}

/// Seals a request of EHBP in two frames, one of which may be damaged.
fn ehbp(to: &PublicKey, damaged: Option<usize>) -> Request {
    let (enc, mut context) = setup_sender(default_provider(), SUITE, to, b"ehbp request", None).unwrap();
    let frames = [0, 1].map(|index| {
        let mut sealed = context.seal(&[], &[0x61; LEN / 2]).unwrap();
        if damaged == Some(index) {
            damage(&mut sealed);
        }
        [&(sealed.len() as u32).to_be_bytes()[..], &sealed].concat()
    });
    let enc: String = enc.iter().map(|byte| format!("{byte:02x}")).collect();
    Request::post(EHBP_PATH, frames.concat()).header("Ehbp-Encapsulated-Key", enc)
}

/// Flips a bit of the last byte, which is one of a tag.
fn damage(sealed: &mut [u8]) {
    if let Some(last) = sealed.last_mut() {
        *last ^= 1;
    }
}
