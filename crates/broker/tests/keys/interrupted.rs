//! Tests with killed writers and a full disk: real processes, each a copy of this test's binary.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sealway_broker::keys::{State, Store};
use sealway_broker::operation::mac;
use sealway_broker::profile::Profile;
use sealway_broker::profile::policy::MacAlgorithm;

use crate::ground::{algorithm, empty, kek};

const FOLDER: &str = "SEALWAY_TEST_KEYS";

fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Starts this binary again with one of the tests below that are only for children.
fn child(test: &str, folder: &Path, before: &str) -> Child {
    let binary = std::env::current_exe().unwrap();
    let line = format!("{before} exec \"$0\" --exact interrupted::{test} --ignored --nocapture");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line).arg(binary).env(FOLDER, folder);
    shell.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn tell(text: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "\ntold {text}").and_then(|()| out.flush()).unwrap();
}

fn told(line: &str) -> Option<(&str, usize)> {
    let (what, number) = line.strip_prefix("told ")?.split_once(' ')?;
    Some((what, number.parse().ok()?))
}

#[test]
#[ignore = "the writer of the test below"]
fn writer() {
    let Some(folder) = folder() else { return };
    let store = Store::open(&folder, kek()).unwrap();
    let mac = algorithm("hmac-sha-256");
    let mut count = store.count();
    loop {
        store.generate(&format!("k{count:05}"), mac, 1).unwrap();
        count += 1;
        tell(&format!("keys {count}"));
        let key = store.rotate("k00000", &[], 1).unwrap();
        tell(&format!("versions {}", key.versions().len()));
        store.disable("k00000", u32::try_from(key.versions().len()).unwrap()).unwrap();
        tell(&format!("disabled {}", key.versions().len()));
        if key.versions().len() == 900 {
            return;
        }
    }
}

#[test]
fn a_killed_writer_loses_no_acknowledged_key_and_leaves_no_temporary_file() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("keys");
    let maccing = Profile { mac: Some(MacAlgorithm::HmacSha256), ..empty() };
    let (mut keys, mut versions, mut disabled) = (0, 0, Vec::new());
    for round in 0..20_u64 {
        let mut child = child("writer", &folder, "");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let first = lines.find(|line| told(line).is_some()).expect("the writer writes");
        // Killed at another point of its work each time.
        std::thread::sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in std::iter::once(first).chain(lines) {
            match told(&line) {
                Some(("keys", count)) => keys = count,
                Some(("versions", count)) => versions = count,
                Some(("disabled", version)) => disabled.push(version),
                _ => {}
            }
        }
        let store = Store::open(&folder, kek()).unwrap();
        let first = store.get("k00000").unwrap();
        assert!((keys..=keys + 1).contains(&store.count()), "{keys} keys told, {} there", store.count());
        assert!(first.versions().len() >= versions, "round {round}");
        for version in &disabled {
            assert_eq!(first.versions()[version - 1].state(), State::Disabled, "version {version}, round {round}");
        }
        for key in store.list("", 0).keys {
            mac(&maccing, &key, &[b"text"]).unwrap();
        }
        let left = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(left, store.count() + 1, "the keys' files, and the lock");
    }
    assert!(keys >= 20, "only {keys} keys in all");
}

#[test]
#[ignore = "the process of the test below"]
fn cramped() {
    let Some(folder) = folder() else { return };
    let store = Store::open(&folder, kek()).unwrap();
    let refusals = [
        store.generate("new", algorithm("hmac-sha-256"), 1).unwrap_err(),
        store.rotate("old", &[], 1).unwrap_err(),
        store.disable("old", 1).unwrap_err(),
    ];
    for (index, refusal) in refusals.iter().enumerate() {
        assert!(refusal.text.contains("not written: "), "{refusal}");
        tell(&format!("refused {index}"));
    }
    store.get("old").unwrap().current().unwrap();
    tell("alive 1");
}

#[test]
fn a_full_disk_rejects_a_write_and_keeps_the_old_file() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("keys");
    Store::open(&folder, kek()).unwrap().generate("old", algorithm("hmac-sha-256"), 1).unwrap();
    let before = std::fs::read(folder.join("old.key")).unwrap();
    // No byte fits into any file; the signal is ignored, so that the write itself fails.
    let child = child("cramped", &folder, "trap '' XFSZ; ulimit -f 0;");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("told refused 2") && text.contains("told alive 1"), "{text}");
    assert_eq!(std::fs::read(folder.join("old.key")).unwrap(), before);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "something was left behind");
    Store::open(&folder, kek()).unwrap().get("old").unwrap().current().unwrap();
}
