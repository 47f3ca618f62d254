//! Compares digests with NIST's response files (CAVP, tests/data/cavp), and at random lengths with the command
//! `openssl` and Python's hashlib.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use aws_lc_rs::rand;
use sealway_broker::hash::{NAMES, digest, name};
use sealway_broker::known_answers;
use sealway_broker::profile::policy::HashAlgorithm;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|index| u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).unwrap()).collect()
}

/// Names of an algorithm in NIST's files and in OpenSSL.
fn names(algorithm: HashAlgorithm) -> (&'static str, &'static str) {
    match algorithm {
        HashAlgorithm::Sha256 => ("SHA256", "sha256"),
        HashAlgorithm::Sha384 => ("SHA384", "sha384"),
        HashAlgorithm::Sha512 => ("SHA512", "sha512"),
        HashAlgorithm::Sha512_256 => ("SHA512_256", "sha512-256"),
        HashAlgorithm::Sha3_256 => ("SHA3_256", "sha3-256"),
        HashAlgorithm::Sha3_384 => ("SHA3_384", "sha3-384"),
        HashAlgorithm::Sha3_512 => ("SHA3_512", "sha3-512"),
        HashAlgorithm::Shake128 => ("SHAKE128", "shake128"),
        HashAlgorithm::Shake256 => ("SHAKE256", "shake256"),
    }
}

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cavp").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

/// Lines `key = value` of a response file, in order.
fn fields(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter(|line| !line.starts_with(['#', '['])).filter_map(|line| line.split_once(" = "))
}

#[test]
fn the_published_digests_of_short_messages_come_out() {
    for (_, algorithm) in NAMES {
        let text = file(&format!("{}ShortMsg.rsp", names(algorithm).0));
        let (mut len, mut message, mut count) = (0, Vec::new(), 0);
        for (key, value) in fields(&text) {
            match key {
                "Len" => len = value.parse::<usize>().unwrap() / 8,
                "Msg" => message = bytes(value),
                "MD" | "Output" => {
                    // The files write an empty message as one byte.
                    assert_eq!(hex(&digest(algorithm, &message[..len])), value, "{algorithm:?}, {len} bytes");
                    count += 1;
                }
                _ => panic!("{key}"),
            }
        }
        assert!(count > 64, "{algorithm:?}: {count}");
    }
}

#[test]
fn the_published_chains_of_a_hundred_thousand_digests_come_out() {
    for (_, algorithm) in &NAMES[..7] {
        let text = file(&format!("{}Monte.rsp", names(*algorithm).0));
        let is_sha3 = name(*algorithm).starts_with("sha3");
        let (mut seed, mut count) = (Vec::new(), 0);
        for (key, value) in fields(&text) {
            match key {
                "Seed" => seed = bytes(value),
                "COUNT" => assert_eq!(value.parse(), Ok(count)),
                "MD" => {
                    let mut last = [seed.clone(), seed.clone(), seed];
                    for _ in 0..1000 {
                        let next =
                            if is_sha3 { digest(*algorithm, &last[2]) } else { digest(*algorithm, &last.concat()) };
                        last.rotate_left(1);
                        last[2] = next;
                    }
                    let [_, _, end] = last;
                    assert_eq!(hex(&end), value, "{algorithm:?}, {count}");
                    (seed, count) = (end, count + 1);
                }
                _ => panic!("{key}"),
            }
        }
        assert_eq!(count, 100, "{algorithm:?}");
    }
}

#[test]
fn the_known_answers_of_the_start_are_right() {
    assert_eq!(known_answers::check(), Ok(()));
}

/// Random messages, of random lengths and of lengths around the blocks of every algorithm.
fn messages() -> Vec<Vec<u8>> {
    let mut draws = [0; 80];
    rand::fill(&mut draws).unwrap();
    let random = draws.chunks(2).map(|pair| usize::from(u16::from_le_bytes([pair[0], pair[1]])));
    let edges =
        [0, 1, 55, 56, 63, 64, 65, 71, 72, 73, 103, 104, 105, 111, 112, 127, 128, 129, 135, 136, 137, 167, 168, 169];
    let lengths = edges.into_iter().chain(random).chain([1024 * 1024]);
    lengths
        .map(|length| {
            let mut message = vec![0; length];
            rand::fill(&mut message).unwrap();
            message
        })
        .collect()
}

const HASHLIB: &str = r#"
import hashlib, sys
for path in sys.stdin.read().split():
    data = open(path, "rb").read()
    for name in ("sha256", "sha384", "sha512", "sha512_256", "sha3_256", "sha3_384", "sha3_512"):
        print(hashlib.new(name, data).hexdigest())
    print(hashlib.shake_128(data).hexdigest(16))
    print(hashlib.shake_256(data).hexdigest(32))
"#;

#[test]
fn digests_at_random_lengths_are_those_of_openssl_and_of_python() {
    let folder = tempfile::tempdir().unwrap();
    let messages = messages();
    let mut paths = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        paths.push(folder.path().join(index.to_string()));
        std::fs::write(&paths[index], message).unwrap();
    }
    let mut ours = BTreeMap::new();
    for (index, message) in messages.iter().enumerate() {
        for (_, algorithm) in NAMES {
            ours.insert((index, name(algorithm)), hex(&digest(algorithm, message)));
        }
    }
    for (_, algorithm) in NAMES {
        let mut command = Command::new("openssl");
        command.args(["dgst", "-r", &format!("-{}", names(algorithm).1)]);
        if name(algorithm).starts_with("shake") {
            command.args(["-xoflen", &digest(algorithm, b"").len().to_string()]);
        }
        let output = command.args(&paths).output().expect("openssl runs: scripts/setup-tests.sh installs it");
        assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.lines().count(), messages.len());
        for (index, line) in said.lines().enumerate() {
            let theirs = line.split(' ').next().unwrap();
            assert_eq!(
                ours[&(index, name(algorithm))],
                theirs,
                "{algorithm:?}, {} bytes, openssl",
                messages[index].len()
            );
        }
    }
    let mut child = Command::new("python3")
        .args(["-c", HASHLIB])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs: scripts/setup-tests.sh installs it");
    let list: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    child.stdin.take().unwrap().write_all(list.join("\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    let mut lines = said.lines();
    for (index, message) in messages.iter().enumerate() {
        for (_, algorithm) in NAMES {
            let theirs = lines.next().unwrap();
            assert_eq!(ours[&(index, name(algorithm))], theirs, "{algorithm:?}, {} bytes, hashlib", message.len());
        }
    }
}
