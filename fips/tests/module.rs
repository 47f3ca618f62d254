//! The FIPS build fails closed: its version output, and its refusal to start with another module. Each test runs the released
//! binary, or a copy with one change.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
const VERSION: &str = "AWS-LC FIPS 3.6.0";
/// Exit code of a process whose module is not the expected one.
const REFUSED: i32 = 70;
const SIGABRT: i32 = 6;

/// Serializes the tests: a process that another test starts while a binary is being written holds that file open for writing for
/// a moment, and a file that is open for writing cannot be executed.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates an empty folder for one test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn profiles(folder: &Path) {
    let text = "- { Name: Default, Settings: { CryptoLibrary: native }, API: { HashData: { HashAlg: sha-256 } } }\n";
    std::fs::write(folder.join("Profiles.yaml"), text).unwrap();
}

/// Starts a broker that is expected to exit by itself.
fn serve(binary: &Path, folder: &Path) -> Output {
    profiles(folder);
    let mut command = Command::new("timeout");
    command
        .args(["-s", "KILL", "60"])
        .arg(binary)
        .args(["broker", "serve", "--socket"])
        .arg(folder.join("broker.sock"));
    command.env_clear().env("CRYPTO_BROKER_PROFILES_DIR", folder).stdin(Stdio::null()).output().unwrap()
}

/// Returns a copy of the binary with some bytes changed.
fn changed(folder: &Path, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = std::fs::read(BINARY).unwrap();
    let before = bytes.clone();
    change(&mut bytes);
    assert!(bytes.len() == before.len() && bytes != before, "nothing was changed");
    let copy = folder.join("sealway");
    std::fs::copy(BINARY, &copy).unwrap();
    std::fs::write(&copy, bytes).unwrap();
    copy
}

/// Returns the range of the module's code in the file, by the symbols of its two ends.
fn module_text(bytes: &[u8]) -> std::ops::Range<usize> {
    let nm = Command::new("nm").arg(BINARY).output();
    let nm = nm.unwrap_or_else(|err| panic!("nm is missing: install binutils ({err})"));
    let symbols = String::from_utf8(nm.stdout).unwrap();
    let address = |name: &str| {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}")));
        let line = line.unwrap_or_else(|| panic!("the binary has no symbol {name}"));
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    let (start, end) = (address("BORINGSSL_bcm_text_start"), address("BORINGSSL_bcm_text_end"));
    offset(bytes, start)..offset(bytes, end)
}

/// Returns the offset in a 64-bit ELF file from which an address is loaded.
fn offset(bytes: &[u8], address: u64) -> usize {
    let u16_at = |at: usize| u64::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()));
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (headers, len, count) = (u64_at(0x20), u16_at(0x36), u16_at(0x38));
    let found = (0..count).map(|index| usize::try_from(headers + index * len).unwrap()).find_map(|header| {
        let is_loaded = bytes[header..header + 4] == [1, 0, 0, 0];
        let (from, begin, size) = (u64_at(header + 8), u64_at(header + 16), u64_at(header + 32));
        (is_loaded && (begin..begin + size).contains(&address)).then(|| from + address - begin)
    });
    usize::try_from(found.unwrap()).unwrap()
}

#[test]
fn the_version_names_module_and_certificate_and_claims_no_more() {
    let _turn = turn();
    let output = Command::new(BINARY).arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains(&format!("module: {VERSION}\n")), "{text}");
    assert!(text.contains("certificate: #5314\n"), "{text}");
    assert!(text.contains("uses a validated module") && !text.contains("is validated"), "{text}");
}

#[test]
fn one_changed_byte_of_the_module_ends_the_process_before_main() {
    let _turn = turn();
    let folder = folder("tampered");
    let binary = changed(&folder, |bytes| {
        let text = module_text(bytes);
        assert!(text.len() > 500_000, "this is not the module: {text:?}");
        bytes[text.start + text.len() / 2] ^= 1;
    });
    let version = Command::new(&binary).arg("--version").output().unwrap();
    assert_eq!(version.status.signal(), Some(SIGABRT), "{version:?}");
    assert!(String::from_utf8_lossy(&version.stderr).contains("FIPS integrity test failed"), "{version:?}");
    assert!(version.stdout.is_empty());
    let served = serve(&binary, &folder);
    assert!(!served.status.success() && !folder.join("broker.sock").exists());
}

#[test]
fn a_module_of_another_version_is_refused_before_there_is_a_socket() {
    let _turn = turn();
    let folder = folder("another_version");
    let binary = changed(&folder, |bytes| {
        // The library's version is a C string between NUL bytes. The version that this build expects is a Rust string without
        // them; a third copy is within the module, where a change ends the process.
        let said = [b"\0", VERSION.as_bytes(), b"\0"].concat();
        let places: Vec<_> = bytes.windows(said.len()).enumerate().filter(|(_, window)| *window == said).collect();
        assert_eq!(places.len(), 1, "the library's own version stands once");
        let last = places[0].0 + VERSION.len();
        bytes[last] = b'1';
    });
    let output = serve(&binary, &folder);
    assert_eq!(output.status.code(), Some(REFUSED), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("AWS-LC FIPS 3.6.1") && said.contains(VERSION), "{said}");
    assert!(!folder.join("broker.sock").exists());
}
