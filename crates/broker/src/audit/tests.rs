//! Tests of the log: verification, interrupted processes, a full disk, concurrent writers, and rotation.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use parking_lot::{RwLock, RwLockReadGuard};
use sealway_runtime::clock::ManualClock;

use super::writer::push;
use super::*;

mod renamed;

fn entry(profile: &str) -> Entry<'_> {
    Entry {
        uid: 1,
        gid: 2,
        pid: Some(3),
        operation: "HashData",
        wire: "v1",
        profile: Some(profile),
        count: 1,
        ..Entry::default()
    }
}

/// Records an operation from a thread without a runtime.
fn record(audit: &Audit, entry: &Entry<'_>) -> Result<(), Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(audit.record(entry))
}

/// A folder with a closed log of `lines` operations.
fn written(lines: usize) -> (tempfile::TempDir, PathBuf) {
    let ground = tempfile::tempdir().unwrap();
    let path = ground.path().join("audit.jsonl");
    let audit = Audit::open_with(&path, Durability::EachAnswer, Arc::new(ManualClock::new(1_000))).unwrap();
    for at in 0..lines {
        record(&audit, &entry(&format!("p{at}"))).unwrap();
    }
    drop(audit);
    (ground, path)
}

fn lines_of(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().split_inclusive('\n').map(str::to_owned).collect()
}

fn broken(path: &Path) -> String {
    verify(path).expect_err("it was tampered with").to_string()
}

#[test]
fn a_log_records_every_operation_and_verifies() {
    let _still = no_child_begins();
    let (_ground, path) = written(3);
    let lines = lines_of(&path);
    assert!(
        lines[0].starts_with(
            "{\"seq\":0,\"time\":\"1970-01-01T00:00:01.000Z\",\"kind\":\"begin\",\"format\":1,\"file\":\""
        )
    );
    assert!(lines[1].contains(
        "\"kind\":\"operation\",\"uid\":1,\"gid\":2,\"pid\":3,\"operation\":\"HashData\",\"wire\":\"v1\",\"profile\":\"p0\",\"count\":1,"
    ));
    let verified = verify(&path).unwrap();
    assert_eq!((verified.lines, verified.seq, verified.torn_bytes), (4, (0, 3), 0));
    assert!(lines[3].contains(&verified.last_hash));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // Each process that opens the log records it.
    drop(Audit::open(&path).unwrap());
    assert_eq!(verify(&path).unwrap().lines, 5);
    assert!(
        verify_all(std::slice::from_ref(&path), Some(&verified.last_hash)).is_ok(),
        "it has grown since that was noted"
    );
}

#[test]
fn verification_finds_changed_removed_inserted_and_moved_lines() {
    let _still = no_child_begins();
    let (_ground, path) = written(5);
    let lines = lines_of(&path);
    let last = verify(&path).unwrap().last_hash;
    let tampered = |edit: &dyn Fn(&mut Vec<String>)| {
        let mut edited = lines.clone();
        edit(&mut edited);
        std::fs::write(&path, edited.concat()).unwrap();
    };
    for (edit, want) in [
        (
            (&|lines: &mut Vec<String>| lines[2] = lines[2].replace("p1", "px")) as &dyn Fn(&mut Vec<String>),
            "line 3: was changed",
        ),
        (&|lines| lines[0] = lines[0].replace("begin\",\"format\":1", "begin\",\"format\":2"), "line 1: was changed"),
        (&|lines| lines[2] = lines[2].replace("\"hash\":\"", "\"hash\":\"0"), "line 3: does not end with a hash"),
        (&|lines| drop(lines.remove(2)), "line 3: does not follow: 1 lines before it were taken out"),
        (&|lines| drop(lines.drain(1..4)), "line 2: does not follow: 3 lines before it were taken out"),
        (&|lines| drop(lines.remove(0)), "line 1: is not the first line of a log"),
        (&|lines| lines.insert(2, lines[2].clone()), "line 4: does not follow: it was put in or moved"),
        (&|lines| lines.swap(2, 3), "line 3: does not follow: 1 lines before it were taken out"),
        (&|lines| lines[3].truncate(40), "line 4: is longer"),
        (&|lines| lines[3] = lines[3][..40].to_owned() + "\n", "line 4: does not end with a hash"),
        (&|lines| lines.insert(3, "\n".into()), "line 4: does not end with a hash"),
        (&|lines| lines.clear(), "holds no line"),
    ] {
        tampered(edit);
        let told = broken(&path);
        let is_joined = want.ends_with("longer");
        assert!(told.contains(want) || is_joined && told.contains("line 4: "), "{want} in {told}");
    }
    // A changed and rehashed line is revealed by its successor.
    tampered(&|lines| {
        let body = lines[2].replace("p1", "px");
        let previous = line::read(lines[1].trim_end().as_bytes()).unwrap().hash;
        let (members, _) = body.split_once(",\"hash\"").unwrap();
        let (head, _) = members.split_once("\"kind\"").unwrap();
        let time = "1970-01-01T00:00:01.000Z";
        assert_eq!(head, format!("{{\"seq\":2,\"time\":\"{time}\","));
        let mut buffer = Vec::new();
        push(&mut buffer, &previous, 2, time, &Members::of_entry(&entry("px")));
        lines[2] = String::from_utf8(buffer).unwrap();
    });
    assert!(broken(&path).contains("line 4: was changed, or the line before it was"));
    // A sequence number without a successor.
    tampered(&|lines| {
        let mut buffer = Vec::new();
        let begin: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        let members = |kind: &str| {
            format!("\"kind\":\"{kind}\",\"file\":\"{}\",\"previous\":\"{}\"", "0".repeat(32), "0".repeat(64))
        };
        assert!(begin["previous"].as_str().unwrap().bytes().all(|digit| digit == b'0'));
        let hash = push(&mut buffer, &[0; 32], u64::MAX, "T", &Members::raw(&members("begin")));
        push(&mut buffer, &hash, 0, "T", &Members::raw(&members("operation")));
        *lines = vec![String::from_utf8(buffer).unwrap()];
    });
    assert!(broken(&path).contains("line 2: does not count on"));
    // A removed end shows only against the noted hash.
    tampered(&|lines| lines.truncate(4));
    assert!(verify(&path).is_ok());
    let paths = [path.clone()];
    assert!(verify_all(&paths, Some(&last)).unwrap_err().text.contains("lines were cut off the end"));
    assert!(verify_all(&paths, Some("abc")).unwrap_err().text.contains("64 hexadecimal digits"));
    tampered(&|_| ());
    assert!(verify_all(&paths, Some(&last)).is_ok());
}

#[test]
fn a_torn_last_line_is_moved_aside_and_the_chain_continues() {
    let _still = no_child_begins();
    let (ground, path) = written(2);
    let whole = std::fs::read(&path).unwrap();
    let last_begin = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let torn = ground.path().join("audit.jsonl.torn");
    for cut in [last_begin + 1, last_begin + 40, whole.len() - 70, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        std::fs::write(&torn, b"").unwrap();
        assert_eq!(verify(&path).unwrap().torn_bytes, (cut - last_begin) as u64);
        let audit = Audit::open(&path).unwrap();
        record(&audit, &entry("after")).unwrap();
        drop(audit);
        let verified = verify(&path).unwrap();
        assert_eq!((verified.lines, verified.recovered, verified.torn_bytes), (4, vec![3], 0));
        let aside = std::fs::read(&torn).unwrap();
        assert_eq!(aside, [&whole[last_begin..cut], b"\n"].concat());
    }
    // Zeros, as some file systems leave them after a power failure.
    std::fs::write(&path, [&whole[..], &[0; 70_000]].concat()).unwrap();
    drop(Audit::open(&path).unwrap());
    assert_eq!(verify(&path).unwrap().recovered, [4]);
}

#[test]
fn a_log_whose_last_lines_do_not_verify_is_not_continued() {
    let _still = no_child_begins();
    let (_ground, path) = written(3);
    let lines = lines_of(&path);
    for edited in [
        lines[..3].concat() + &lines[3].replace("p2", "px"),
        [&lines[0], &lines[1], &lines[3]].map(String::as_str).concat(),
        "hello\n".into(),
        "hello".into(),
    ] {
        std::fs::write(&path, &edited).unwrap();
        let err = Audit::open(&path).unwrap_err();
        assert!(err.to_string().contains("put the file aside"), "{err}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), edited, "it is left alone");
    }
    std::fs::write(&path, lines.concat()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660)).unwrap();
    assert!(Audit::open(&path).unwrap_err().to_string().contains("only this process's user may write"));
}

#[test]
fn an_empty_file_becomes_a_log_and_a_foreign_file_is_rejected() {
    let _still = no_child_begins();
    let ground = tempfile::tempdir().unwrap();
    let path = ground.path().join("audit.jsonl");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o622)).unwrap();
    assert!(Audit::open(&path).unwrap_err().to_string().contains("only this process's user may write"));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    record(&Audit::open(&path).unwrap(), &entry("a")).unwrap();
    assert_eq!(verify(&path).unwrap().lines, 2);
    // A link could lead to any file of this user.
    let link = ground.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(Audit::open(&link).is_err() && Audit::open(ground.path()).is_err());
    assert_eq!(verify(&path).unwrap().lines, 2);
    assert!(Audit::open(&ground.path().join("none/audit.jsonl")).is_err());
}

#[test]
fn one_process_writes_a_log_and_another_is_refused() {
    let _still = no_child_begins();
    let (_ground, path) = written(1);
    let audit = Audit::open(&path).unwrap();
    assert!(Audit::open(&path).unwrap_err().to_string().contains("another process writes"));
    record(&audit, &entry("a")).unwrap();
    drop(audit);
    drop(Audit::open(&path).unwrap());
    assert!(verify(&path).is_ok());
}

#[test]
fn concurrent_writers_share_syncs_and_lose_no_line() {
    let _still = no_child_begins();
    for durability in [Durability::EachAnswer, Durability::Interval(Duration::from_millis(5))] {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("audit.jsonl");
        let audit = Audit::open_with(&path, durability, Arc::new(SystemClock)).unwrap();
        std::thread::scope(|scope| {
            for who in 0..8 {
                let audit = &audit;
                scope.spawn(move || (0..25).for_each(|at| record(audit, &entry(&format!("{who}-{at}"))).unwrap()));
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let entries: Vec<String> = (0..50).map(|at| format!("async-{at}")).collect();
            let mut tasks = tokio::task::JoinSet::new();
            let audit = Arc::new(audit);
            for name in entries {
                let audit = Arc::clone(&audit);
                tasks.spawn(async move { audit.record(&entry(&name)).await });
            }
            while let Some(done) = tasks.join_next().await {
                done.unwrap().unwrap();
            }
        });
        assert_eq!(verify(&path).unwrap().lines, 1 + 8 * 25 + 50, "{durability:?}");
    }
}

/// The log retries without new lines.
fn wait_until_ready(audit: &Audit) {
    let began = std::time::Instant::now();
    while audit.ready().is_err() {
        assert!(began.elapsed() < Duration::from_secs(30), "it is not tried again");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn operations_fail_while_the_log_is_deleted_or_changed_until_a_new_one_is_opened() {
    let (ground, path) = written(1);
    let audit = Audit::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let refusal = record(&audit, &entry("a")).unwrap_err();
    assert_eq!(refusal, Refusal::new(Code::Unavailable, "the audit log cannot be written: nothing is done without it"));
    assert!(audit.ready().is_err());
    assert!(audit.reopen().unwrap());
    wait_until_ready(&audit);
    record(&audit, &entry("b")).unwrap();
    assert_eq!(verify(&path).unwrap().refused, 1);
    std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut file| io::Write::write_all(&mut file, b"x"))
        .unwrap();
    assert!(record(&audit, &entry("c")).is_err());
    std::fs::rename(&path, ground.path().join("changed")).unwrap();
    assert!(audit.reopen().unwrap());
    record(&audit, &entry("d")).unwrap();
    assert_eq!(verify(&path).unwrap().refused, 1);
}

/// A child shares all descriptors of this process until its exec, and with them the locks of logs that are closed
/// meanwhile.
static BEGINNING: RwLock<()> = RwLock::new(());

fn no_child_begins() -> RwLockReadGuard<'static, ()> {
    BEGINNING.read()
}

fn begin(command: &mut Command) -> Child {
    let _alone = BEGINNING.write();
    command.spawn().unwrap()
}

const CHILD: &str = "SEALWAY_TEST_AUDIT";

/// Starts this binary again with one test; `before` is a line of shell.
fn child(before: &str, test: &str, path: &Path) -> Command {
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("{before}; exec \"$0\" \"$@\"")).arg(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("audit::tests::{test}"), "--nocapture", "--test-threads=1"]).env(CHILD, path);
    command
}

/// In a child: writes with four threads until it is killed, and prints the recorded operations.
#[test]
fn as_a_child_it_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let audit = Audit::open(Path::new(&path)).unwrap();
    let pid = std::process::id();
    std::thread::scope(|scope| {
        for who in 0..4 {
            let audit = &audit;
            scope.spawn(move || {
                for at in 0.. {
                    let name = format!("{pid}-{who}-{at}");
                    record(audit, &entry(&name)).unwrap();
                    println!("answered {name}");
                }
            });
        }
    });
}

#[test]
fn a_process_that_is_killed_20_times_while_it_writes_loses_no_line_that_was_answered() {
    let ground = tempfile::tempdir().unwrap();
    let path = ground.path().join("audit.jsonl");
    let mut answered = BTreeSet::new();
    for round in 0..20 {
        let mut child = child(":", "as_a_child_it_writes_until_it_is_killed", &path);
        let mut child = begin(child.stdout(Stdio::piped()).stderr(Stdio::null()));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for (at, line) in lines.enumerate() {
            let Ok(line) = line else { break };
            answered.extend(line.split_once("answered ").map(|(_, name)| name.to_owned()));
            if at == 20 + round {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        // A torn line, as a kill during a write leaves it, which the kernel rarely shows.
        if round % 4 == 0 {
            let log = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
            io::Write::write_all(&mut &log, b"{\"seq\":7,\"time\":\"2026").unwrap();
        }
    }
    drop(Audit::open(&path).unwrap());
    let verified = verify(&path).unwrap();
    assert_eq!(verified.recovered.len(), 5);
    let text = std::fs::read_to_string(&path).unwrap();
    let names: BTreeSet<&str> =
        text.lines().filter_map(|line| Some(line.split_once("\"profile\":\"")?.1.split_once('"')?.0)).collect();
    let lost: Vec<_> = answered.iter().filter(|name| !names.contains(name.as_str())).collect();
    assert!(answered.len() > 200 && lost.is_empty(), "{} answered, lost {lost:?}", answered.len());
}

/// Runs in a child whose files may not grow beyond a few KiB.
#[test]
fn as_a_child_it_writes_on_a_disk_that_is_full() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let path = Path::new(&path);
    for durability in [Durability::EachAnswer, Durability::Interval(Duration::from_millis(5))] {
        let audit = Audit::open_with(path, durability, Arc::new(SystemClock)).unwrap();
        let refused = (0..1000).find_map(|at| record(&audit, &entry(&format!("{at}-{}", "x".repeat(at % 50)))).err());
        assert_eq!(refused.map(|refusal| refusal.code), Some(Code::Unavailable));
        // A shorter line may still fit.
        assert!((0..100).any(|_| record(&audit, &entry("")).is_err() && record(&audit, &entry("")).is_err()));
        assert!(audit.ready().is_err());
        assert_eq!(verify(path).unwrap().torn_bytes, 0, "nothing of what was refused is left");
        let limit = |current| {
            let maximum = rustix::process::getrlimit(rustix::process::Resource::Fsize).maximum;
            rustix::process::setrlimit(rustix::process::Resource::Fsize, rustix::process::Rlimit { current, maximum })
                .unwrap();
        };
        limit(Some(1 << 20));
        wait_until_ready(&audit);
        record(&audit, &entry("again")).unwrap();
        drop(audit);
        let verified = verify(path).unwrap();
        assert!(verified.refused >= 2, "{verified:?}");
        limit(Some(std::fs::metadata(path).unwrap().len() + 3_000));
    }
    println!("the child is through");
}

#[test]
fn operations_fail_on_a_full_disk_and_resume_when_there_is_room() {
    let ground = tempfile::tempdir().unwrap();
    let path = ground.path().join("audit.jsonl");
    let mut child = child("trap '' XFSZ; ulimit -S -f 8", "as_a_child_it_writes_on_a_disk_that_is_full", &path);
    let output = begin(child.stdout(Stdio::piped()).stderr(Stdio::piped())).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("the child is through"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
