//! Replays every corpus without a fuzzer. The test lists the folders, so it fails for a target without a corpus and for a corpus
//! without a target.

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use sealway_fuzz::TARGETS;

const FILES_MAX: usize = 160;
const BYTES_MAX: u64 = 1024 * 1024;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|err| panic!("{}: {err}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry of the folder").path()).collect();
    paths.sort();
    paths
}

fn names(paths: &[PathBuf]) -> BTreeSet<&str> {
    paths.iter().filter_map(|path| path.file_stem()?.to_str()).collect()
}

#[test]
fn every_target_has_a_corpus_and_a_binary_and_nothing_else_is_there() {
    let targets: BTreeSet<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names(&entries(&folder("corpus"))), targets, "fuzz/corpus against TARGETS");
    assert_eq!(names(&entries(&folder("src/bin"))), targets, "fuzz/src/bin against TARGETS");
}

#[test]
fn every_corpus_file_is_named_by_what_it_shows() {
    let is_hash = |path: &&PathBuf| {
        let name = path.file_name().unwrap().as_encoded_bytes();
        name.len() == 40 && name.iter().all(u8::is_ascii_hexdigit)
    };
    let files: Vec<PathBuf> = TARGETS.iter().flat_map(|(name, _)| entries(&folder("corpus").join(name))).collect();
    let hashes: Vec<&PathBuf> = files.iter().filter(is_hash).collect();
    assert!(hashes.is_empty(), "names that libFuzzer gave: {hashes:#?}");
}

#[test]
fn every_corpus_file_of_every_target_holds_its_properties() {
    let mut failed = Vec::new();
    for (name, target) in TARGETS {
        let files = entries(&folder("corpus").join(name));
        assert!(!files.is_empty() && files.len() <= FILES_MAX, "{name}: {} files", files.len());
        let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
        assert!(bytes <= BYTES_MAX, "{name}: {bytes} bytes");
        for file in files {
            let data = std::fs::read(&file).unwrap();
            if catch_unwind(|| target(&data)).is_err() {
                failed.push(file);
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
