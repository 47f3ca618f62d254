//! Routes with `sealed: ehbp` and the published clients of the protocol. The programs are in `tests/ehbp_clients`.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sealway_testkit::daemon::{program, root};
use sealway_testkit::process::Launch;
use sealway_testkit::upstream::{Upstream, answer};

use crate::BINARY;
use crate::ehbp::one_shot_keys;

const WAIT: Duration = Duration::from_secs(60);

fn needs(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "{} is missing and this test needs it: run scripts/setup-tests.sh", path.display());
    path
}

/// Serves what the clients ask for. The second part of `/v1/parts` is sent when `parts` says so.
fn service(parts: Receiver<()>) -> Upstream {
    let parts = Mutex::new(parts);
    let served = Upstream::serve(move |head, connection| {
        let body = connection.read_body(&head.headers, false)?;
        let (_, target) = head.method_and_target();
        match target.rsplit('/').next().unwrap_or_default() {
            "500" => connection.write(&answer("500 Internal Server Error", &[], br#"{"error":"own"}"#))?,
            "parts" => {
                connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                connection.write_chunk(b"one,")?;
                parts.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(WAIT)?;
                connection.write_chunk(b"two")?;
                connection.write_chunk(b"")?;
            }
            _ => connection.write(&answer("200 OK", &[], &body))?,
        }
        Ok(Vec::new())
    });
    served.unwrap()
}

fn run(mut client: Command) {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json");
    let keys = keys.to_str().unwrap();
    one_shot_keys(&["add", keys, "--use", "ehbp"]);
    let (part, parts) = channel();
    let service = service(parts);
    let route = |path: &str, ehbp: &str| {
        format!(
            "  - {{ match: {{ path_prefix: {path} }}, upstream: service, sealed: ehbp, sealed_body_max: 16777216, ehbp: {{ {ehbp} }} }}\n"
        )
    };
    let config = format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
one_shot: {{ keys: keys.json }}
routes:
{}{}{}
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'file:sessions.redb', allow_generated_kek: true, store_deadline_ms: 60000 }}
",
        route("/v1/", ""),
        route("/stream/", "stream: true"),
        route("/bodyless/", "unsealed: bodyless"),
        service.address
    );
    let mut server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    client
        .arg(format!("http://{}", server.address()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = client.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let (to, lines): (Sender<String>, _) = channel();
    let output = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
    let mut printed = Vec::new();
    while let Ok(line) = lines.recv_timeout(2 * WAIT) {
        match line.as_str() {
            "first part" => part.send(()).unwrap(),
            "retire" => {
                let from = server.log().len();
                let listed = one_shot_keys(&["list", keys]);
                one_shot_keys(&["add", keys, "--use", "ehbp"]);
                one_shot_keys(&["retire", keys, listed.split_whitespace().next().unwrap(), "--now"]);
                let is_live = |line: &serde_json::Value| {
                    line.to_string().contains("keys of one-shot modes reloaded")
                        && line.to_string().contains("\"live\":1")
                };
                server.wait_for_log(from, is_live).unwrap();
                input.write_all(b"retired\n").unwrap();
            }
            _ => {}
        }
        printed.push(line);
    }
    let _ = child.kill();
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(printed, ["first part", "retire", "done"], "{said}\n{}", server.log().join("\n"));
}

#[test]
fn the_client_for_javascript_works_unchanged() {
    let folder = root().join("tests/ehbp_clients/node");
    needs(folder.join("node_modules/ehbp"));
    let mut client = Command::new(program("node").unwrap());
    client.arg(folder.join("main.mjs"));
    run(client);
}

#[test]
fn the_client_for_python_works_unchanged() {
    let mut client = Command::new(needs(root().join(".venv/ehbp/bin/python")));
    client.arg(root().join("tests/ehbp_clients/python/main.py"));
    run(client);
}
