//! Pre-shared keys of wire 4: all derived from one master, but for a list of those that are revoked.
// SPEC one-shot.md#pre-shared-keys

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use sealway_proto::crypto::Provider;
use sealway_proto::limits::KEY_LEN;
use sealway_proto::one_shot::is_psk_id;
use sealway_proto::wire::base64;
use sealway_runtime::config::{ConfigError, read_bounded, read_secret, readable_by_others};
use sealway_sessions::kek;
use zeroize::Zeroizing;

/// Longest list of revoked names, in bytes.
const REVOKED_LEN_MAX: u64 = 4 * 1024 * 1024;
/// The form of names, for errors.
const NAMES: &str = "1 to 64 visible ASCII characters";
/// Label of the derivation of a key.
const LABEL: &[u8] = b"sealway/4 psk";

/// The files of pre-shared keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PskFiles {
    /// File with 32 bytes in base64.
    pub master: PathBuf,
    /// File with a revoked name a line.
    pub revoked: Option<PathBuf>,
}

/// A pre-shared key for one name.
pub struct Psk {
    /// The key. For a revoked name it is derived from a secret that no client has, at the same cost.
    pub key: Zeroizing<[u8; KEY_LEN]>,
    /// False if the name is revoked: no message opens with the key.
    pub is_accepted: bool,
}

/// The master of all pre-shared keys, and the revoked names.
pub struct Psks {
    master: Zeroizing<[u8; KEY_LEN]>,
    decoy: Zeroizing<[u8; KEY_LEN]>,
    revoked: HashSet<String>,
}

/// The setting below `one_shot.psk` of a bad file, and what is wrong with it; never its content.
type PskFault = (&'static str, ConfigError);

impl Psks {
    /// Reads the files for the first time and draws a decoy.
    ///
    /// # Errors
    /// The setting below `one_shot.psk`, and what is wrong with its file; never its content.
    pub(super) fn read(provider: &dyn Provider, files: &PskFiles) -> Result<Psks, PskFault> {
        let master = read_master(&files.master).map_err(|err| ("master", err))?;
        let mut decoy = Zeroizing::new([0; KEY_LEN]);
        provider.fill_random(decoy.as_mut_slice()).map_err(|err| ("master", ConfigError(err.to_string())))?;
        let (revoked, fault) = revoked_of(files);
        fault.map_or(Ok(Psks { master, decoy, revoked }), |err| Err(("revoked", err)))
    }

    /// Reads the files again. A bad master leaves the one in force. A bad list of revoked names adds its good lines to the names in
    /// force, so that no name is accepted again by mistake.
    pub(super) fn reread(&self, files: &PskFiles) -> (Psks, Vec<PskFault>) {
        let mut faults = Vec::new();
        let master = read_master(&files.master).unwrap_or_else(|err| {
            faults.push(("master", err));
            self.master.clone()
        });
        let (mut revoked, fault) = revoked_of(files);
        if let Some(err) = fault {
            faults.push(("revoked", err));
            revoked.extend(self.revoked.iter().cloned());
        }
        (Psks { master, decoy: self.decoy.clone(), revoked }, faults)
    }

    /// Derives the key of a name.
    ///
    /// # Errors
    /// [`sealway_proto::Error::Provider`].
    pub fn get(&self, provider: &dyn Provider, id: &str) -> Result<Psk, sealway_proto::Error> {
        let is_accepted = !self.revoked.contains(id);
        let secret = if is_accepted { &self.master } else { &self.decoy };
        Ok(Psk { key: derive(provider, secret, id)?, is_accepted })
    }
}

impl fmt::Debug for Psks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Psks").field("revoked", &self.revoked.len()).finish_non_exhaustive()
    }
}

/// Derives the pre-shared key of a client from the master in a file, and returns it in base64. The file is made if it is not there.
///
/// # Errors
/// A name of another form, and what is wrong with the file; never its content.
// SPEC one-shot.md#pre-shared-keys
pub fn issue_psk(provider: &dyn Provider, master: &Path, id: &str) -> Result<Zeroizing<String>, ConfigError> {
    if !is_psk_id(id) {
        return Err(ConfigError(format!("{id:?} is no name of a client: expected {NAMES}")));
    }
    if !master.exists() {
        let mut secret = Zeroizing::new([0; KEY_LEN]);
        provider.fill_random(secret.as_mut_slice()).map_err(|err| ConfigError(err.to_string()))?;
        let line = Zeroizing::new(base64::encode(secret.as_slice()) + "\n");
        kek::write(master, &line, 0o600, |unfinished| std::fs::hard_link(unfinished, master))?;
    }
    let master = read_master(master)?;
    let key = derive(provider, &master, id).map_err(|err| ConfigError(err.to_string()))?;
    Ok(Zeroizing::new(base64::encode(key.as_slice())))
}

fn derive(
    provider: &dyn Provider,
    master: &[u8; KEY_LEN],
    id: &str,
) -> Result<Zeroizing<[u8; KEY_LEN]>, sealway_proto::Error> {
    provider.hkdf_sha256(id.as_bytes(), master, &[LABEL])
}

fn read_master(path: &Path) -> Result<Zeroizing<[u8; KEY_LEN]>, ConfigError> {
    let text = Zeroizing::new(read_secret(path)?);
    if let Some(warning) = readable_by_others(path) {
        tracing::warn!("the master of pre-shared keys: {warning}");
    }
    let master = base64::decode_array(&text).map(Zeroizing::new);
    master.map_err(|_| ConfigError(format!("{}: expected {KEY_LEN} bytes in base64", path.display())))
}

/// Reads the revoked names, and returns what is wrong with their file, if anything.
fn revoked_of(files: &PskFiles) -> (HashSet<String>, Option<ConfigError>) {
    let Some(path) = &files.revoked else { return (HashSet::new(), None) };
    match read_bounded(path, REVOKED_LEN_MAX) {
        Ok(text) => parse_revoked(path, &text),
        Err(err) => (HashSet::new(), Some(err)),
    }
}

/// Parses a list of names, one a line, each with a comment behind it or none: a blank, `#` and text. Empty lines and those that are `#` or
/// begin with `#` and a blank are skipped. Returns the names of the good lines, and the first bad line as an error.
fn parse_revoked(path: &Path, text: &str) -> (HashSet<String>, Option<ConfigError>) {
    let (mut names, mut fault) = (HashSet::new(), None);
    for (index, line) in text.lines().enumerate() {
        let (name, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        if name.is_empty() || name == "#" {
            continue;
        }
        let is_commented = rest.is_empty() || rest.trim_start().starts_with('#');
        if is_commented && is_psk_id(name) {
            names.insert(name.to_owned());
        } else if fault.is_none() {
            let (path, line) = (path.display(), index + 1);
            fault = Some(ConfigError(format!("{path}:{line}: expected the name of a pre-shared key, {NAMES}")));
        }
    }
    (names, fault)
}

#[cfg(test)]
mod tests {
    use sealway_proto::crypto::default_provider;

    use super::*;

    fn is_accepted(psks: &Psks, id: &str) -> bool {
        psks.get(default_provider(), id).unwrap().is_accepted
    }

    #[test]
    fn keys_are_those_of_the_spec_and_a_revoked_name_has_another() {
        let folder = tempfile::tempdir().unwrap();
        let files = PskFiles { master: folder.path().join("master"), revoked: Some(folder.path().join("revoked.txt")) };
        std::fs::write(&files.master, base64::encode(&[7; 32])).unwrap();
        std::fs::write(files.revoked.as_ref().unwrap(), "# gone\n\nmallory\n").unwrap();
        let psks = Psks::read(default_provider(), &files).unwrap();
        let expected = default_provider().hkdf_sha256(b"alice", &[7; 32], &[b"sealway/4 psk"]).unwrap();
        let alice = psks.get(default_provider(), "alice").unwrap();
        assert!(alice.is_accepted && *alice.key == *expected);
        let mallory = psks.get(default_provider(), "mallory").unwrap();
        let derived = default_provider().hkdf_sha256(b"mallory", &[7; 32], &[b"sealway/4 psk"]).unwrap();
        assert!(!mallory.is_accepted && *mallory.key != *derived);
        assert!(!format!("{psks:?}").contains("7, 7"));
    }

    #[test]
    fn the_key_that_is_issued_is_the_one_that_opens_and_a_new_master_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let files = PskFiles { master: folder.path().join("master"), revoked: None };
        let issued = issue_psk(default_provider(), &files.master, "alice").unwrap();
        assert_eq!(std::fs::metadata(&files.master).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(issue_psk(default_provider(), &files.master, "alice").unwrap(), issued);
        assert_ne!(issue_psk(default_provider(), &files.master, "bob").unwrap(), issued);
        let psks = Psks::read(default_provider(), &files).unwrap();
        assert_eq!(base64::encode(&*psks.get(default_provider(), "alice").unwrap().key), *issued);
        for name in ["", "a b", "é", &"a".repeat(65)] {
            let err = issue_psk(default_provider(), &files.master, name).unwrap_err();
            assert!(err.0.contains("1 to 64 visible"), "{err}");
        }
    }

    #[test]
    fn a_bad_line_is_named_and_no_secret_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let files = PskFiles { master: folder.path().join("master"), revoked: Some(folder.path().join("revoked")) };
        std::fs::write(&files.master, "c2hvcnQ=").unwrap();
        let (setting, err) = Psks::read(default_provider(), &files).unwrap_err();
        assert_eq!(setting, "master");
        assert!(err.0.contains("expected 32 bytes") && !err.0.contains("c2hvcnQ"), "{err}");
        std::fs::write(&files.master, base64::encode(&[7; 32])).unwrap();
        std::fs::write(files.revoked.as_ref().unwrap(), "a\nb c\n").unwrap();
        let (setting, err) = Psks::read(default_provider(), &files).unwrap_err();
        assert!(setting == "revoked" && err.0.contains("revoked:2:"), "{err}");
    }

    #[test]
    fn what_is_good_of_changed_files_applies_and_no_name_comes_back_by_a_bad_one() {
        let folder = tempfile::tempdir().unwrap();
        let files = PskFiles { master: folder.path().join("master"), revoked: Some(folder.path().join("revoked")) };
        let revoke = |list: &str| std::fs::write(files.revoked.as_ref().unwrap(), list).unwrap();
        std::fs::write(&files.master, base64::encode(&[7; 32])).unwrap();
        revoke("a # left the company\n#b\n");
        let psks = Psks::read(default_provider(), &files).unwrap();
        assert_eq!(["a", "#b", "c"].map(|id| is_accepted(&psks, id)), [false, false, true]);
        std::fs::write(&files.master, "!").unwrap();
        revoke("c\nd e\nf\n");
        let (psks, faults) = psks.reread(&files);
        assert_eq!(["a", "c", "d", "f"].map(|id| is_accepted(&psks, id)), [false, false, true, false]);
        assert_eq!(faults.iter().map(|(setting, _)| *setting).collect::<Vec<_>>(), ["master", "revoked"]);
        assert!(faults[1].1.0.contains("revoked:2:"), "{faults:?}");
        std::fs::write(&files.master, base64::encode(&[8; 32])).unwrap();
        revoke("a\n");
        let (psks, faults) = psks.reread(&files);
        assert!(faults.is_empty() && is_accepted(&psks, "c") && !is_accepted(&psks, "a"));
        assert_eq!(*psks.master, [8; 32]);
    }
}
