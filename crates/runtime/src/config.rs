//! Sources of configuration: a YAML file, then the environment, then flags; later ones win.
//!
//! The caller defines the types: `raw` ones with `deny_unknown_fields`, whose resolution collects [`Problems`].

mod setting;
mod yaml;

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use figment::providers::{Env, Serialized};
pub use figment::value::Value;
use figment::value::{Dict, Map};
use figment::{Figment, Metadata, Profile, Provider};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use setting::{FilePath, Flag, Number, Whole, Within};
pub use yaml::load_yaml;

/// Largest configuration file, in bytes.
const FILE_LEN_MAX: u64 = 1024 * 1024;

/// The defects of a configuration. The text is for a person: it names the file and line, the variable, or each setting.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// Layers of settings, later ones over earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    figment: Figment,
}

impl Layers {
    /// Creates an empty set of layers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a YAML file, checked against `T` on its own so that errors name its line.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file.
    pub fn file<T: DeserializeOwned + Serialize>(self, path: &Path) -> Result<Self, ConfigError> {
        let text = read_bounded(path, FILE_LEN_MAX)?;
        self.text::<T>(&path.display().to_string(), &text)
    }

    /// Adds YAML text, named `name` in errors and checked as a file is. The layer holds the checked values, not the text parsed
    /// again without its types: there, `off` for a word would be false and `3000` for a name a number.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn text<T: DeserializeOwned + Serialize>(self, name: &str, text: &str) -> Result<Self, ConfigError> {
        let within = |err: ConfigError| ConfigError(format!("{name}: {}", err.0));
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Err(ConfigError(format!("{name}: the file holds no settings")));
        }
        let checked: T = load_yaml(text).map_err(within)?;
        let unusable = |err: figment::Error| ConfigError(format!("{name}: {err}"));
        let Value::Dict(_, mut values) = Value::serialize(&checked).map_err(unusable)? else {
            return Err(ConfigError(format!("{name}: expected settings by name")));
        };
        drop_unset(&mut values);
        Ok(Layers { figment: self.figment.merge(NamedValues { name: name.to_owned(), values }) })
    }

    /// Adds values by dotted path, from a source that errors name (old environment names, flags).
    pub fn values(mut self, values: Vec<(String, Value)>) -> Self {
        for (path, value) in values {
            self.figment = self.figment.merge(Serialized::default(&path, value));
        }
        self
    }

    /// Adds `SEALWAY_SECTION__KEY` variables. Names without `__` are not settings.
    pub fn env(self, prefix: &str) -> Self {
        let env = Env::prefixed(prefix).filter(|name| name.as_str().contains("__")).split("__");
        Layers { figment: self.figment.merge(env) }
    }

    /// Merges the layers into `T`.
    ///
    /// # Errors
    /// [`ConfigError`], naming the setting and its source.
    pub fn extract<T: DeserializeOwned>(self) -> Result<T, ConfigError> {
        self.figment.extract().map_err(|err| {
            let mut text = String::new();
            for err in err {
                if !text.is_empty() {
                    text.push('\n');
                }
                let source = err.metadata.as_ref().map_or("settings", |meta| meta.name.as_ref());
                text.push_str(&format!("{}: {} (from {source})", err.path.join("."), err.kind));
            }
            ConfigError(text)
        })
    }
}

/// Values with the name of their source for errors.
struct NamedValues {
    name: String,
    values: Dict,
}

impl Provider for NamedValues {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

/// Removes settings without a value: they count as absent.
fn drop_unset(values: &mut Dict) {
    values.retain(|_, value| !matches!(value, Value::Empty(..)));
    values.values_mut().for_each(drop_unset_within);
}

fn drop_unset_within(value: &mut Value) {
    match value {
        Value::Dict(_, values) => drop_unset(values),
        Value::Array(_, items) => items.iter_mut().for_each(drop_unset_within),
        _ => {}
    }
}

/// Reads a text file of at most `len_max` bytes.
///
/// # Errors
/// [`ConfigError`], naming the file.
pub fn read_bounded(path: &Path, len_max: u64) -> Result<String, ConfigError> {
    use std::io::Read;
    let fail = |err: std::io::Error| ConfigError(format!("cannot read {}: {err}", path.display()));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(fail)?;
    file.take(len_max + 1).read_to_string(&mut text).map_err(fail)?;
    if text.len() as u64 > len_max {
        return Err(ConfigError(format!("{}: the file is longer than {len_max} bytes", path.display())));
    }
    Ok(text)
}

/// Reads a secret of one line from a file, without its line end.
///
/// # Errors
/// [`ConfigError`], naming the file and never its content.
pub fn read_secret(path: &Path) -> Result<String, ConfigError> {
    let text = read_bounded(path, 4096)?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() || secret.contains(['\r', '\n']) {
        return Err(ConfigError(format!("{}: expected one line with a secret", path.display())));
    }
    Ok(secret.to_owned())
}

/// Returns a warning for the operator about a file with secrets that other users can read; `None` if only its owner can.
/// The group may read a file of root's that a process of another user reads: that is how Kubernetes mounts secrets.
pub fn readable_by_others(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    let mode = metadata.mode() & 0o777;
    let shown = path.display();
    (mode & bits_of_others(metadata.uid(), rustix::process::geteuid().as_raw()) != 0)
        .then(|| format!("{shown} has mode {mode:04o}: other users can read the secret in it; chmod 600 {shown}"))
}

/// Mode bits that a file with secrets must not have.
fn bits_of_others(owner: u32, user: u32) -> u32 {
    if owner == 0 && user != 0 { 0o037 } else { 0o077 }
}

/// Writes a secret of one line into a file that does not exist yet, for its owner only.
///
/// # Errors
/// [`ConfigError`], naming the file.
pub fn write_secret(path: &Path, secret: &str) -> Result<(), ConfigError> {
    let told = |err: std::io::Error| ConfigError(format!("{}: {err}", path.display()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(told)?;
    file.write_all(secret.as_bytes()).and_then(|()| file.write_all(b"\n")).and_then(|()| file.sync_all()).map_err(told)
}

/// Resolves a path of a configuration file against that file's folder.
pub fn relative_to(base: Option<&Path>, path: &str) -> PathBuf {
    match base.and_then(Path::parent) {
        Some(folder) => folder.join(path),
        None => PathBuf::from(path),
    }
}

/// All defects of a configuration, each with its path, so that one run reports them all.
#[derive(Debug, Default)]
pub struct Problems(Vec<String>);

impl Problems {
    /// Adds a problem at a path.
    pub fn add(&mut self, path: impl fmt::Display, message: impl fmt::Display) {
        self.0.push(format!("{path}: {message}"));
    }

    /// Adds an error that contains the name of its setting.
    pub fn add_error(&mut self, err: &ConfigError) {
        self.0.push(err.0.clone());
    }

    /// Adds a problem if the folder of a file to be created does not exist, or is not a folder.
    pub fn folder_of(&mut self, path: &str, file: &Path) {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            self.add(path, format!("there is no folder {}; make it, or name another place", folder.display()));
        }
    }

    /// Adds a problem if a file cannot be appended to. It creates no missing file and changes no existing one; it does not open
    /// a pipe, which may wait for its reader.
    pub fn appendable(&mut self, path: &str, file: &Path) {
        match std::fs::metadata(file) {
            Ok(meta) if meta.is_dir() => self.add(path, format!("{} is a folder; name a file", file.display())),
            Ok(meta) if meta.is_file() => {
                if let Err(err) = std::fs::OpenOptions::new().append(true).open(file) {
                    self.add(path, format!("{}: cannot be opened for appending: {err}", file.display()));
                }
            }
            Ok(_) => {}
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => self.folder_of(path, file),
            Err(err) => self.add(path, format!("{}: {err}", file.display())),
        }
    }

    /// Returns the value of a result, or adds the problem.
    pub fn take<T, E: fmt::Display>(&mut self, path: impl fmt::Display, result: Result<T, E>) -> Option<T> {
        result.map_err(|err| self.add(path, err)).ok()
    }

    /// Returns a number within bounds, or adds a problem and returns the default.
    pub fn bounded<N: PartialOrd + fmt::Display + Copy>(
        &mut self,
        path: &str,
        value: Option<N>,
        default: N,
        bounds: std::ops::RangeInclusive<N>,
    ) -> N {
        match value {
            None => default,
            Some(value) if bounds.contains(&value) => value,
            Some(value) => {
                self.add(path, format!("{value} is not from {} to {}", bounds.start(), bounds.end()));
                default
            }
        }
    }

    /// Returns a file's path, relative to the folder of the configuration in `base`; an empty one is a problem.
    pub fn file(&mut self, path: &str, base: Option<&Path>, text: &str) -> PathBuf {
        if text.is_empty() {
            self.add(path, "expected a file's path");
        }
        relative_to(base, text)
    }

    /// Returns `Ok` if there is no problem.
    ///
    /// # Errors
    /// [`ConfigError`] with one line a problem.
    pub fn into_result(self) -> Result<(), ConfigError> {
        if self.0.is_empty() { Ok(()) } else { Err(ConfigError(self.0.join("\n"))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
    #[serde(default)]
    struct Settings {
        word: Option<String>,
        name: String,
        section: Section,
    }

    #[derive(Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
    #[serde(default)]
    struct Section {
        number: Option<u32>,
    }

    #[test]
    fn a_secret_is_for_its_owner_and_one_of_roots_for_the_group_of_the_process_too() {
        for (mode, owner, user, warns) in [
            (0o600, 1000, 1000, false),
            (0o640, 1000, 1000, true),
            (0o640, 0, 0, true),
            (0o440, 0, 1000, false),
            (0o660, 0, 1000, true),
            (0o444, 0, 1000, true),
        ] {
            assert_eq!(mode & bits_of_others(owner, user) != 0, warns, "{mode:o} of {owner}, read by {user}");
        }
    }

    #[test]
    fn a_file_that_passes_its_check_means_the_same_in_the_layers() {
        for text in
            ["word: off\nname: 3000", "word: 'off'\nname: '3000'\nsection:\n", "{word: off, name: 0x1, section: ~}"]
        {
            let checked: Settings = load_yaml(text).unwrap();
            let layered: Settings = Layers::new().text::<Settings>("test", text).unwrap().extract().unwrap();
            assert_eq!(layered, checked, "{text}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_named_by_its_key_and_line() {
        for (text, want) in [
            ("section: { number: x }", "number: "),
            ("name: a\nsection:\n  number: [1]", "number: "),
            ("word:   {}", "word: "),
        ] {
            let err = load_yaml::<Settings>(text).unwrap_err().0;
            assert!(err.starts_with(want) && err.contains("line "), "{text}: {err}");
        }
        let err = load_yaml::<Vec<u32>>("[1, 'secret: x']").unwrap_err().0;
        assert!(!err.contains("secret"), "{err}");
    }

    #[test]
    fn what_a_file_leaves_out_is_left_to_the_other_layers() {
        let layers = Layers::new().text::<Settings>("test", "name: a\nsection: { number: ~ }").unwrap();
        let layers = layers.values(vec![("section.number".into(), 5_u32.into()), ("word".into(), "b".into())]);
        let settings: Settings = layers.extract().unwrap();
        let expected = Settings { word: Some("b".into()), name: "a".into(), section: Section { number: Some(5) } };
        assert_eq!(settings, expected);
    }
}
