//! Tests of a log that is renamed, with a running writer and without one.

use super::*;

#[test]
fn a_renamed_log_continues_in_a_new_file() {
    let _still = no_child_begins();
    let (ground, path) = written(2);
    let audit = Audit::open(&path).unwrap();
    let aside: Vec<PathBuf> = (1..3).map(|at| ground.path().join(format!("audit.jsonl.{at}"))).collect();
    assert!(!audit.reopen().unwrap(), "it was not renamed");
    std::fs::rename(&path, &aside[0]).unwrap();
    // Until the reopen it writes into the renamed file.
    record(&audit, &entry("before")).unwrap();
    assert!(audit.reopen().unwrap());
    record(&audit, &entry("after")).unwrap();
    // Like logrotate with `create`.
    std::fs::rename(&path, &aside[1]).unwrap();
    std::fs::write(&path, b"").unwrap();
    assert!(audit.reopen().unwrap());
    record(&audit, &entry("last")).unwrap();
    // Another file at the path: no line is lost.
    let elsewhere = ground.path().join("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    std::fs::write(&path, b"not ours").unwrap();
    assert!(audit.reopen().is_err());
    record(&audit, &entry("still")).unwrap();
    std::fs::rename(&elsewhere, &path).unwrap();
    drop(audit);
    let all = [aside[0].clone(), aside[1].clone(), path.clone()];
    let verified = verify_all(&all, None).unwrap();
    assert_eq!(verified[0].next.as_ref(), Some(&verified[1].file));
    assert_eq!(verified[2].next, None);
    assert_eq!(verified.iter().map(|file| file.lines).collect::<Vec<_>>(), [6, 3, 3]);
    assert!(Audit::open(&aside[0]).unwrap_err().to_string().contains("is closed"));
    // The closing line reveals a removed end, and files in the wrong order.
    for wrong in [[&all[1], &all[0]], [&all[0], &all[2]]] {
        let text = verify_all(&wrong.map(Clone::clone), None).unwrap_err().text;
        assert!(text.contains("does not go on from the end of the file before it"), "{text}");
    }
    let said = report(&all, Some(&verified[2].last_hash)).unwrap();
    assert!(
        said.contains(": 6 lines hold, 0 to 5, ") && said.contains("closed; goes on in the file with the id "),
        "{said}"
    );
    assert!(said.ends_with(&format!("last hash {}", verified[2].last_hash)), "{said}");
    let lines = lines_of(&all[0]);
    std::fs::write(&all[0], lines[..lines.len() - 2].concat()).unwrap();
    assert!(verify_all(&all[..2], None).is_err());
}

#[test]
fn the_next_start_continues_a_log_that_was_renamed_while_closed() {
    let _still = no_child_begins();
    let (ground, path) = written(2);
    let aside = |at: usize| ground.path().join(format!("audit.jsonl.{at}"));
    std::fs::rename(&path, aside(2)).unwrap();
    // It continues no foreign, unfinished or invalid file.
    std::fs::write(ground.path().join("audit.jsonl-notes"), "mine\n").unwrap();
    std::fs::copy(aside(2), ground.path().join("audit.jsonl.77.new")).unwrap();
    std::fs::copy(aside(2), ground.path().join("audit.jsonl.open")).unwrap();
    std::fs::set_permissions(ground.path().join("audit.jsonl.open"), PermissionsExt::from_mode(0o666)).unwrap();
    std::fs::create_dir(ground.path().join("audit.jsonl.d")).unwrap();
    let others = ground.path().join("audit.jsonl-other");
    drop(Audit::open(&others).unwrap());
    let audit = Audit::open(&path).unwrap();
    record(&audit, &entry("second")).unwrap();
    drop(audit);
    drop(Audit::open(&others).expect("another broker's log is not closed"));
    // A torn and renamed log, with an empty file in its place.
    let log = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    io::Write::write_all(&mut &log, b"{\"seq\":7,\"time\":\"2026").unwrap();
    std::fs::rename(&path, aside(1)).unwrap();
    std::fs::write(&path, b"").unwrap();
    let audit = Audit::open(&path).unwrap();
    record(&audit, &entry("third")).unwrap();
    drop(audit);
    let all = [aside(2), aside(1), path.clone()];
    let verified = verify_all(&all, None).unwrap();
    assert_eq!(verified[0].next.as_ref(), Some(&verified[1].file));
    assert_eq!(verified[1].next.as_ref(), Some(&verified[2].file));
    assert_eq!((verified[1].recovered.len(), verified[2].seq.0 > 5), (1, true), "{verified:?}");
    assert!(report(&all, None).unwrap().contains("begins a chain: "));
    // Logs that were moved elsewhere are not found, which the new one reports.
    std::fs::create_dir(ground.path().join("old")).unwrap();
    for file in &all {
        std::fs::rename(file, ground.path().join("old").join(file.file_name().unwrap())).unwrap();
    }
    drop(Audit::open(&path).unwrap());
    assert!(verify(&path).unwrap().begins_a_chain());
    let pair = [ground.path().join("old/audit.jsonl"), path];
    assert!(verify_all(&pair, None).unwrap_err().text.contains("no file was found to go on from"));
}

#[test]
fn a_process_that_is_killed_around_each_renaming_leaves_one_chain_over_all_files() {
    let ground = tempfile::tempdir().unwrap();
    let path = ground.path().join("audit.jsonl");
    let mut files = Vec::new();
    for round in 0..12_usize {
        let mut child = child(":", "as_a_child_it_writes_until_it_is_killed", &path);
        let mut child = begin(child.stdout(Stdio::piped()).stderr(Stdio::null()));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for (at, line) in lines.enumerate() {
            if line.is_err() {
                break;
            }
            // Every third process continues a renamed log.
            if at == 10 && round % 3 == 0 {
                std::fs::rename(&path, path.with_extension(format!("jsonl.{round}"))).unwrap();
            }
            if at == 20 + round {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let aside = path.with_extension(format!("jsonl.{round}"));
        if !aside.exists() {
            std::fs::rename(&path, &aside).unwrap();
        }
        files.push(aside);
        // A process that is killed during its start, at any point.
        let mut starting = self::child(":", "as_a_child_it_writes_until_it_is_killed", &path);
        let mut starting = begin(starting.stdout(Stdio::null()).stderr(Stdio::null()));
        std::thread::sleep(Duration::from_millis(3 * round as u64));
        starting.kill().unwrap();
        starting.wait().unwrap();
        if path.exists() {
            let aside = path.with_extension(format!("jsonl.{round}-started"));
            std::fs::rename(&path, &aside).unwrap();
            files.push(aside);
        }
    }
    drop(Audit::open(&path).unwrap());
    files.push(path);
    let verified = verify_all(&files, None).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(verified.iter().filter(|log| log.begins_a_chain()).count(), 1);
}
