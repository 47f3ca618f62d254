//! The files of a running broker: profiles and callers that it reloads, and an audit log that is rotated, killed and full.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getuid, prlimit};
use sealway_client::broker::{Client, Code, Error, Options, RetryOptions};
use sealway_testkit::broker::{Broker, PROFILES};

use crate::BINARY;

/// The longest time until the broker notices a change.
const SEEN: Duration = Duration::from_secs(20);

fn client(broker: &Broker) -> Client {
    let retry = RetryOptions { attempts: 1, ..RetryOptions::default() };
    Client::new(Options { retry, breaker: None, ..Options::new(broker.socket()) })
}

async fn hash(client: &Client, profile: &str) -> Result<usize, Error> {
    client.hash(profile, &["the secret input"]).await.map(|hashed| hashed.outputs[0].len())
}

/// Replaces a file as an editor does, with another file under its name.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&new, path).unwrap();
}

fn callers(uid: u32, profiles: &str) -> String {
    format!("- {{Uid: {uid}, Profiles: {profiles}, Operations: ['*'], Keys: ['*']}}\n")
}

fn broker(arguments: &[&str]) -> Output {
    Command::new(BINARY).arg("broker").args(arguments).output().unwrap()
}

fn said(output: &Output) -> (bool, String) {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.success(), String::from_utf8(both).unwrap())
}

/// Verifies an audit log. Returns true if it is intact, and the output of the command.
fn verify(files: &[&Path]) -> (bool, String) {
    let files: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    said(&broker(&[&["audit", "verify"], &files[..]].concat()))
}

/// Repeats the call until it succeeds.
async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let begin = Instant::now();
    while !is_so().await {
        assert!(begin.elapsed() < SEEN, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn profiles_and_callers_are_read_anew_on_a_change_and_on_sighup_or_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (profiles, policy) = (folder.path().join("Profiles.yaml"), folder.path().join("callers.yaml"));
    replace(&policy, &callers(getuid().as_raw(), "['*']"));
    let broker = Broker::start_with(BINARY, folder.path(), &[OsStr::new("--callers"), policy.as_os_str()]).unwrap();
    let client = client(&broker);
    assert_eq!(hash(&client, "Sha256").await.unwrap(), 32);

    let changed = PROFILES.replace("HashAlg: sha-256}}}\n", "HashAlg: sha3-512}}}\n");
    assert_ne!(changed, PROFILES);
    replace(&profiles, &changed);
    until("a changed file is read", async || hash(&client, "Sha256").await.unwrap() == 64).await;

    // The broker takes nothing from an invalid file, and reports every problem of it.
    replace(&profiles, &format!("{PROFILES}- {{Name: Sha256}}\n- {{Nmae: Other}}\n"));
    broker.signal(Signal::HUP).unwrap();
    let log = || std::fs::read_to_string(folder.path().join("broker.log")).unwrap();
    let wants = ["duplicate profile name: Sha256", "did you mean Name?", "the loaded ones stay in use"];
    until("the log tells", async || wants.iter().all(|want| log().contains(want))).await;
    assert_eq!(hash(&client, "Sha256").await.unwrap(), 64);
    replace(&profiles, PROFILES);
    broker.signal(Signal::HUP).unwrap();
    until("a file in order is read", async || hash(&client, "Sha256").await.unwrap() == 32).await;

    // A reload rejects what a start rejects.
    replace(
        &profiles,
        "Settings: {CryptoLibrary: native, RequireFips: true}\nProfiles: [{Name: Sha256, API: {Random: true}}]\n",
    );
    until("the log tells", async || log().contains("this build has no FIPS module")).await;
    assert_eq!(hash(&client, "Sha256").await.unwrap(), 32);
    replace(&profiles, PROFILES);

    // A denial does not reveal which keys exist.
    replace(&policy, &callers(getuid().as_raw(), "[Default]"));
    until("a changed policy is read", async || hash(&client, "Sha256").await.is_err()).await;
    assert_eq!(hash(&client, "Default").await.unwrap(), 64);
    let (known, unknown) = (hash(&client, "Sha256").await.unwrap_err(), hash(&client, "Nowhere").await.unwrap_err());
    assert_eq!((known.code, unknown.code), (Code::PermissionDenied, Code::PermissionDenied));
    assert_eq!(known.text, unknown.text);
    replace(&policy, &callers(getuid().as_raw() + 1, "['*']"));
    until("nobody of another user is let in", async || hash(&client, "Default").await.is_err()).await;
    // An invalid policy admits no caller that was not admitted before.
    replace(&policy, "- {Any: true}\n");
    broker.signal(Signal::HUP).unwrap();
    until("the log tells", async || log().contains("callers not reloaded")).await;
    assert_eq!(hash(&client, "Default").await.unwrap_err().code, Code::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_log_has_every_operation_and_no_input_and_goes_on_when_it_is_put_aside() {
    let folder = tempfile::tempdir().unwrap();
    let (log, aside) = (folder.path().join("audit.jsonl"), folder.path().join("audit.jsonl.1"));
    let broker = Broker::start_with(BINARY, folder.path(), &[OsStr::new("--audit"), log.as_os_str()]).unwrap();
    let client = client(&broker);
    hash(&client, "Sha256").await.unwrap();
    assert_eq!(hash(&client, "Nowhere").await.unwrap_err().code, Code::InvalidArgument);
    client.generate_key("k", "aes-256-gcm").await.unwrap();
    std::fs::rename(&log, &aside).unwrap();
    broker.signal(Signal::HUP).unwrap();
    until("another file is begun", async || log.exists()).await;
    hash(&client, "Default").await.unwrap();

    let text = std::fs::read_to_string(&aside).unwrap();
    let uid = format!("\"uid\":{},", getuid().as_raw());
    for want in [
        "\"operation\":\"HashData\",\"wire\":\"",
        "\"profile\":\"Sha256\",\"count\":1,\"bytes_in\":16,\"bytes_out\":32,\"code\":0",
        "\"profile\":\"Nowhere\",\"count\":1,\"bytes_in\":16,\"bytes_out\":0,\"code\":3",
        "\"kind\":\"intent\",\"uid\":",
        "\"operation\":\"GenerateKey\"",
        uid.as_str(),
    ] {
        assert!(text.contains(want), "{want} in {text}");
    }
    assert!(!text.contains("secret input"));
    let (holds, told) = verify(&[&aside, &log]);
    assert!(holds && told.contains("closed; goes on in the file with the id"), "{told}");
    let hash_of_end = told.rsplit_once("last hash ").unwrap().1.trim();
    let last = broker_args(&log, hash_of_end);
    assert!(last.0, "{}", last.1);
    let (holds, told) = verify(&[&log, &aside]);
    assert!(!holds && told.contains("does not go on from the end of the file before it"), "{told}");
    std::fs::write(&aside, text.replace("\"code\":3", "\"code\":0")).unwrap();
    let (holds, told) = verify(&[&aside, &log]);
    assert!(!holds && told.contains("line 3: was changed"), "{told}");
}

fn broker_args(log: &Path, last: &str) -> (bool, String) {
    said(&broker(&["audit", "verify", log.to_str().unwrap(), "--last", last]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_under_load_leaves_a_chain_that_holds() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.jsonl");
    let mut broker = Broker::start_with(BINARY, folder.path(), &[OsStr::new("--audit"), log.as_os_str()]).unwrap();
    let answered = Arc::new(AtomicUsize::new(0));
    let count = || answered.load(Ordering::SeqCst);
    let mut files = Vec::new();
    for round in 0..5 {
        let before = count();
        let client = client(&broker);
        let workers: Vec<_> = (0..8)
            .map(|_| {
                let (client, answered) = (client.clone(), answered.clone());
                tokio::spawn(async move {
                    while hash(&client, "Sha256").await.is_ok() {
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        until("the broker answers", async || count() > before + 40).await;
        broker.kill().unwrap();
        for worker in workers {
            worker.await.unwrap();
        }
        if round % 2 == 1 {
            // The log is rotated, and no process is notified.
            let aside = folder.path().join(format!("audit.jsonl-{round}"));
            std::fs::rename(&log, &aside).unwrap();
            files.push(aside);
        }
        broker.start_again().unwrap();
    }
    files.push(log);
    let (holds, told) = verify(&files.iter().map(PathBuf::as_path).collect::<Vec<_>>());
    assert!(holds && told.matches("begins a chain").count() == 1, "{told}");
    let text: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let lines = text.lines().filter(|line| line.contains("HashData")).count();
    assert!(lines >= count(), "{} answered, {lines} lines", count());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_room_for_the_audit_log_operations_fail_and_resume_with_room() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.jsonl");
    // A limit on the file size simulates a full disk. Its signal would end the process.
    let patient = folder.path().join("patient");
    std::fs::write(&patient, format!("#!/bin/bash\ntrap '' XFSZ\nexec '{BINARY}' \"$@\"\n")).unwrap();
    std::fs::set_permissions(&patient, std::fs::Permissions::from_mode(0o755)).unwrap();
    let broker = Broker::start_with(&patient, folder.path(), &[OsStr::new("--audit"), log.as_os_str()]).unwrap();
    let client = client(&broker);
    hash(&client, "Sha256").await.unwrap();
    let pid = Pid::from_raw(i32::try_from(broker.id()).unwrap());
    let limit = |current| prlimit(pid, Resource::Fsize, Rlimit { current, maximum: None }).unwrap();
    limit(Some(std::fs::metadata(&log).unwrap().len() + 1_000));
    let mut done = 0;
    let refused = loop {
        match hash(&client, "Sha256").await {
            Ok(_) => done += 1,
            Err(err) => break err,
        }
        assert!(done < 10, "the log grows beyond its limit");
    };
    assert_eq!(refused.code, Code::Unavailable);
    assert!(refused.text.contains("audit log"), "{refused}");
    assert!(client.generate_key("k", "aes-256-gcm").await.is_err());
    assert!(verify(&[&log]).0, "what was refused left no trace");
    limit(None);
    until("it is written again", async || hash(&client, "Sha256").await.is_ok()).await;
    assert!(client.list_keys("", 10).await.unwrap().0.is_empty(), "a key was made that nobody wrote down");
    let (holds, told) = verify(&[&log]);
    assert!(holds && told.contains("were refused because the log could not be written"), "{told}");
}

#[test]
fn profiles_check_lists_the_profiles_or_all_problems() {
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/config/broker/Profiles.yaml");
    // The mode that packages install it with: others may not write it.
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("Profiles.yaml");
    replace(&path, &std::fs::read_to_string(published).unwrap());
    let check = |more: &[&str]| said(&broker(&[&["profiles", "check", path.to_str().unwrap()], more].concat()));
    let (is_ok, told) = check(&[]);
    assert!(is_ok && told.contains("OK: 12 profiles") && told.contains("Default: HashData, SignCertificate"), "{told}");
    replace(
        &path,
        "- Name: A\n  Settings: {CryptoLibrary: native, Colour: red}\n  API:\n    HashData: {HashAlg: sha3-512}\n",
    );
    let (is_ok, told) = check(&[]);
    assert!(!is_ok && told.contains("line 2: profile \"A\": Settings: unknown key \"Colour\""), "{told}");
    let (is_ok, told) = check(&["--lenient"]);
    assert!(is_ok && told.contains("warning: line 2: profile \"A\": Settings: unknown key \"Colour\""), "{told}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o662)).unwrap();
    let (is_ok, told) = check(&["--lenient"]);
    assert!(!is_ok && told.contains("writable by its group or by others"), "{told}");
}
