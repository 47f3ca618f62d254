//! `kek-file`: the text of a key file. The target writes it to a file, because the key ring loads keys only by path.
//!
//! The rows that hold the wrapped keys are private to the embedded store; this target does not reach them.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use sealway_proto::crypto::no_security::NoSecurity;
use sealway_proto::session::SessionKey;
use sealway_sessions::kek::{KeyRing, UnwrapError};

/// An unnamed file that only its owner can read, in memory if the system has such a folder; and its path.
fn file() -> &'static Mutex<(PathBuf, File)> {
    static FILE: OnceLock<Mutex<(PathBuf, File)>> = OnceLock::new();
    FILE.get_or_init(|| {
        let shm = PathBuf::from("/dev/shm");
        let folder = if shm.is_dir() { shm } else { std::env::temp_dir() };
        let name = folder.join(format!("sealway-fuzz-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&name);
        let file = file.unwrap_or_else(|err| panic!("{}: {err}", name.display()));
        std::fs::remove_file(&name).expect("the name can be taken away");
        Mutex::new((PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())), file))
    })
}

/// The fuzz target for key files of the session store.
pub fn kek_file(data: &[u8]) {
    let guard = file().lock().unwrap_or_else(PoisonError::into_inner);
    let (path, file) = &*guard;
    file.set_len(0).and_then(|()| file.write_all_at(data, 0)).expect("the file can be written");
    let loaded = KeyRing::load(&NoSecurity, path);
    let Ok(text) = std::str::from_utf8(data) else {
        assert!(loaded.is_err(), "a key file that is not text");
        return;
    };
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    match loaded {
        Err(err) => {
            // The error contains nothing that may be a key.
            let said = err.0.replace(&path.display().to_string(), "");
            for word in text.split_whitespace().filter(|word| word.len() >= 20) {
                assert!(!said.contains(word), "the error shows the file's text: {said}");
            }
        }
        Ok(ring) => {
            let ids: Vec<&str> = lines().filter_map(|line| line.split(' ').next()).collect();
            assert!((1..=16).contains(&ids.len()), "{} keys", ids.len());
            assert_eq!(Some(ring.active_id().as_str()), ids.first().copied());
            assert_eq!(format!("{ring:?}"), format!("{ids:?}"), "what is printed is not the ids alone");
            wrap(&ring);
        }
    }
}

fn wrap(ring: &KeyRing) {
    let (aad, other) = (b"a row", b"another row");
    let key = SessionKey::from_bytes([5; 32]);
    let mut wrapped = ring.wrap(aad, &key).expect("wrapping does not fail");
    let unwrapped = ring.unwrap(aad, &wrapped).expect("its own session");
    assert_eq!(unwrapped.expose(), key.expose());
    assert_eq!(ring.unwrap(other, &wrapped).map(|_| ()), Err(UnwrapError::Damaged));
    // Two ids of a file may have one key; no id has a space.
    wrapped.kek_id.push_str(" x");
    assert!(ring.unwrap(aad, &wrapped).is_err(), "unwrapped under an unknown key");
}
