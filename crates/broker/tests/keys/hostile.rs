//! A folder of keys with foreign files: a start fails, names the file and its defect, and changes nothing.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use sealway_broker::keys::{KEYS_MAX, Kek, Store};
use tempfile::TempDir;

use crate::ground::{algorithm, kek};

/// A folder with the keys `a` and `b`.
struct Place {
    _ground: TempDir,
    folder: PathBuf,
}

impl Place {
    fn new() -> Place {
        let ground = tempfile::tempdir().unwrap();
        let folder = ground.path().join("keys");
        let store = Store::open(&folder, kek()).unwrap();
        store.generate("a", algorithm("hmac-sha-256"), 1).unwrap();
        store.generate("b", algorithm("aes-256-gcm"), 1).unwrap();
        drop(store);
        Place { _ground: ground, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Expects a failing start, and returns its error; checks that the two keys' files are unchanged.
    fn refused(&self) -> String {
        let both = || ["a.key", "b.key"].map(|name| fs::read(self.path(name)).unwrap());
        let before = both();
        let text = Store::open(&self.folder, kek()).err().unwrap().0;
        assert_eq!(both(), before);
        text
    }

    /// Expects a start with this many keys.
    fn opens(&self, count: usize) {
        assert_eq!(Store::open(&self.folder, kek()).unwrap().count(), count);
    }
}

fn write(path: &Path, bytes: &[u8], mode: u32) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn special(path: &Path, kind: FileType, device: u64) {
    mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, device).unwrap();
}

/// Foreign files in a key's place, with the expected error.
const STRANGE: [(&str, &str); 10] = [
    ("a link to a key", "it is a symbolic link"),
    ("a link to a device", "it is a symbolic link"),
    ("a link to nothing", "it is a symbolic link"),
    ("a folder", "it is not a file"),
    ("a pipe", "it is not a file"),
    ("a socket", "it is not a file"),
    ("a device", "it is not a file"),
    ("a huge file", "longer than a key's file can be"),
    ("a file that the group reads", "others than its owner can use it; chmod 600 it"),
    ("a file that others write", "others than its owner can use it; chmod 600 it"),
];

/// Creates a foreign file. A device needs root's rights; without them the case is skipped.
fn put(place: &Place, what: &str, path: &Path) -> bool {
    let key = fs::read(place.path("a.key")).unwrap();
    match what {
        "a link to a key" => symlink(place.path("a.key"), path).unwrap(),
        "a link to a device" => symlink("/dev/zero", path).unwrap(),
        "a link to nothing" => symlink("nowhere", path).unwrap(),
        "a folder" => fs::create_dir(path).unwrap(),
        "a pipe" => special(path, FileType::Fifo, 0),
        "a socket" => drop(UnixListener::bind(path).unwrap()),
        "a device" if !rustix::process::geteuid().is_root() => return false,
        // Device numbers of /dev/null.
        "a device" => special(path, FileType::CharacterDevice, makedev(1, 3)),
        "a huge file" => {
            write(path, b"", 0o600);
            File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap();
        }
        "a file that the group reads" => write(path, &key, 0o640),
        "a file that others write" => write(path, &key, 0o602),
        other => panic!("{other}"),
    }
    true
}

#[test]
fn a_key_file_that_is_not_private_and_regular_is_named_and_kept() {
    let place = Place::new();
    for (what, says) in STRANGE {
        let path = place.path("c.key");
        if !put(&place, what, &path) {
            continue;
        }
        let text = place.refused();
        assert!(text.contains(&format!("c.key: {says}")) && text.starts_with("key store "), "{what}: {text}");
        assert!(path.symlink_metadata().is_ok(), "{what} is left where it was");
        if path.is_dir() {
            fs::remove_dir(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        place.opens(2);
    }
}

#[test]
fn one_start_names_every_file_that_is_wrong_up_to_what_can_be_read() {
    let place = Place::new();
    for (number, (what, _)) in STRANGE.into_iter().enumerate() {
        put(&place, what, &place.path(&format!("c{number}.key")));
    }
    let text = place.refused();
    for (number, (what, says)) in STRANGE.into_iter().enumerate() {
        let is_there = place.path(&format!("c{number}.key")).symlink_metadata().is_ok();
        assert!(!is_there || text.contains(&format!("c{number}.key: {says}")), "{what}: {text}");
    }
    let place = Place::new();
    for number in 0..1_000 {
        write(&place.path(&format!("c{number}.key")), b"{}", 0o600);
    }
    let text = place.refused();
    assert!(text.lines().count() == 17 && text.ends_with("and 984 more"), "{text}");
}

#[test]
fn a_half_written_key_is_named_and_the_rest_of_a_write_is_removed() {
    let place = Place::new();
    let whole = fs::read(place.path("a.key")).unwrap();
    for len in [0, 1, whole.len() / 2, whole.len() - 1] {
        write(&place.path("c.key"), &whole[..len], 0o600);
        let text = place.refused();
        assert!(text.contains("the file of key c: not a key's file, line "), "{len}: {text}");
    }
    write(&place.path("c.key"), &whole, 0o600);
    assert!(place.refused().contains("the file of key c: it is of another key"));
    fs::remove_file(place.path("c.key")).unwrap();
    write(&place.path("a.unfinished"), &whole[..9], 0o600);
    symlink(place.path("a.key"), place.path("b.unfinished")).unwrap();
    place.opens(2);
    assert!(!place.path("a.unfinished").exists() && place.path("b.unfinished").symlink_metadata().is_err());
    fs::create_dir(place.path("c.unfinished")).unwrap();
    assert!(place.refused().contains("c.unfinished: "));
}

#[test]
fn a_key_under_another_key_encryption_key_is_named_with_that_keys_id() {
    let place = Place::new();
    let other = Place::new();
    fs::remove_dir_all(&other.folder).unwrap();
    // A key-encryption key of another id, and one of the same.
    for (id, says) in [
        ("other", "the file of key c: version 1: key store: wrapped under \"other\", which is not among the keys"),
        ("first", "the file of key c: version 1: key store: does not unwrap"),
    ] {
        let kek = Kek::parse("test", &format!("{id} {}", "6f".repeat(32))).unwrap();
        let store = Store::open(&other.folder, kek).unwrap();
        store.generate("c", algorithm("ed25519"), 1).unwrap();
        drop(store);
        fs::rename(other.path("c.key"), place.path("c.key")).unwrap();
        let text = place.refused();
        assert!(text.contains(says) && !text.contains("6f6f"), "{text}");
    }
}

#[test]
fn ten_thousand_files_of_others_are_left_alone_and_more_than_ten_thousand_keys_are_refused() {
    let place = Place::new();
    for number in 0..KEYS_MAX {
        File::create(place.path(&format!("{number}.txt"))).unwrap();
    }
    place.opens(2);
    assert_eq!(fs::read_dir(&place.folder).unwrap().count(), KEYS_MAX + 3);
    for number in 0..KEYS_MAX {
        let path = place.path(&format!("{number}.key"));
        fs::rename(place.path(&format!("{number}.txt")), &path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }
    assert!(place.refused().contains("more than 10000 keys"));
    assert_eq!(fs::read_dir(&place.folder).unwrap().count(), KEYS_MAX + 3);
}

#[test]
fn a_lock_that_is_not_a_regular_file_is_reported_without_blocking() {
    let place = Place::new();
    let lock = place.path("lock");
    for what in ["a link to nothing", "a folder", "a pipe", "a socket"] {
        let _ = fs::remove_file(&lock).or_else(|_| fs::remove_dir(&lock));
        put(&place, what, &lock);
        let text = place.refused();
        assert!(text.contains("lock: "), "{what}: {text}");
        assert!(!place.path("nowhere").exists(), "a link is not followed");
    }
    fs::remove_file(&lock).unwrap();
    place.opens(2);
}
