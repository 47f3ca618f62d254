//! Writing of key files: a new file, an added key, another order. A file is replaced as a whole or not at all.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use sealway_proto::crypto::Provider;
use sealway_proto::limits::KEY_LEN;
use sealway_proto::wire::base64;
use sealway_runtime::config::{ConfigError, read_bounded};
use zeroize::Zeroizing;

use super::{FILE_LEN_MAX, KeyRing};

impl KeyRing {
    /// Makes a key file with one new key, readable by its owner alone. An existing file is left alone.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file.
    pub fn generate(provider: &'static dyn Provider, path: &Path) -> Result<(), ConfigError> {
        let (_, line) = new_line(provider, path)?;
        // The link fails if the file exists.
        write(path, &line, 0o600, |unfinished| std::fs::hard_link(unfinished, path))
    }
}

/// Appends a new key to a key file: the key unwraps, but does not wrap yet. Returns its id.
///
/// # Errors
/// [`ConfigError`], naming the file.
pub fn add(provider: &'static dyn Provider, path: &Path) -> Result<String, ConfigError> {
    let mut text = Zeroizing::new(read_bounded(path, FILE_LEN_MAX)?);
    let (id, line) = new_line(provider, path)?;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&line);
    replace(provider, path, &text)?;
    Ok(id)
}

/// Moves a key of the file to the first place: from now on it wraps.
///
/// # Errors
/// [`ConfigError`], naming the file; the file may lack the key.
pub fn make_first(provider: &'static dyn Provider, path: &Path, id: &str) -> Result<(), ConfigError> {
    let text = Zeroizing::new(read_bounded(path, FILE_LEN_MAX)?);
    let is_it = |line: &&str| line.trim().split_once(' ').is_some_and(|(known, _)| known == id);
    let Some(line) = text.lines().find(is_it) else {
        return Err(ConfigError(format!("{}: it holds no key \"{id}\"", path.display())));
    };
    let mut changed = Zeroizing::new(format!("{line}\n"));
    for rest in text.lines().filter(|line| !is_it(line)) {
        changed.push_str(rest);
        changed.push('\n');
    }
    replace(provider, path, &changed)
}

/// Makes a line with a new key, and returns its id with it.
fn new_line(provider: &'static dyn Provider, path: &Path) -> Result<(String, Zeroizing<String>), ConfigError> {
    let mut random = Zeroizing::new([0_u8; KEY_LEN + 4]);
    provider
        .fill_random(random.as_mut_slice())
        .map_err(|err| ConfigError(format!("no key for {}: {err}", path.display())))?;
    let (key, id) = random.split_at(KEY_LEN);
    let id = format!("kek-{:08x}", u32::from_be_bytes([id[0], id[1], id[2], id[3]]));
    let key = Zeroizing::new(base64::encode(key));
    let line = Zeroizing::new(format!("{id} {}\n", *key));
    Ok((id, line))
}

/// Replaces a key file by a text that parses as one, keeping its access mode.
fn replace(provider: &'static dyn Provider, path: &Path, text: &str) -> Result<(), ConfigError> {
    super::parse(provider, &super::KekSource::File(path.to_owned()), text)?;
    let mode = std::fs::metadata(path).map_or(0o600, |meta| meta.mode() & 0o777);
    write(path, text, mode, |unfinished| std::fs::rename(unfinished, path))
}

/// Writes a file with keys, first under another name: a crash half-way must not leave a file that looks like a key
/// file. `place` moves the finished file to `path`.
///
/// # Errors
/// [`ConfigError`], naming the file.
pub fn write(
    path: &Path,
    text: &str,
    mode: u32,
    place: impl FnOnce(&Path) -> std::io::Result<()>,
) -> Result<(), ConfigError> {
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()?;
        place(&unfinished)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    });
    let _ = std::fs::remove_file(&unfinished);
    made.map_err(|err| ConfigError(format!("cannot write the key file {}: {err}", path.display())))
}

#[cfg(test)]
mod tests {
    use sealway_proto::crypto::default_provider;

    use super::*;

    #[test]
    fn a_key_is_added_last_and_made_first_and_nothing_else_changes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.kek");
        KeyRing::generate(default_provider(), &file).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let ring = KeyRing::load(default_provider(), &file).unwrap();
        let first = ring.active_id();
        let second = add(default_provider(), &file).unwrap();
        assert!(!ring.reload_if_changed(), "another key wraps already");
        assert_eq!(ring.ids(), [first.clone(), second.clone()]);
        make_first(default_provider(), &file, &second).unwrap();
        assert!(ring.reload_if_changed());
        assert_eq!(ring.ids(), [second, first]);
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a file was left over");
        let err = make_first(default_provider(), &file, "kek-none").unwrap_err().0;
        assert!(err.contains("sessions.kek") && err.contains("kek-none"), "{err}");
    }

    #[test]
    fn a_file_that_holds_another_key_under_a_known_id_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.kek");
        std::fs::write(&file, format!("one {}\n", base64::encode(&[1; KEY_LEN]))).unwrap();
        let ring = KeyRing::load(default_provider(), &file).unwrap();
        let changed = format!("two {}\none {}\n", base64::encode(&[2; KEY_LEN]), base64::encode(&[3; KEY_LEN]));
        std::fs::write(&file, changed).unwrap();
        assert!(!ring.reload_if_changed());
        assert_eq!(ring.ids(), ["one"]);
    }
}
