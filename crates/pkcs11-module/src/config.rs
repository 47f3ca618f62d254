//! The configuration: a TOML file that names the broker's socket, and a slot for each profile.
// SPEC broker.md#pkcs11

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::process::is_privileged;

/// Environment variable that names the file.
pub(crate) const VARIABLE: &str = "SEALWAY_PKCS11_CONF";
/// File that is read without the variable.
const DEFAULT_PATH: &str = "/etc/sealway/pkcs11.toml";
/// Longest file of a configuration or of certificates, in bytes.
const FILE_LEN_MAX: u64 = 256 * 1024;
/// Most slots of a configuration.
const SLOTS_MAX: usize = 64;
/// Most certificates of a slot.
const CERTIFICATES_MAX: usize = 64;
/// Longest label of a token, in bytes (`CK_TOKEN_INFO`).
const LABEL_LEN_MAX: usize = 32;
/// Lengths of content keys that the broker unwraps, in bytes.
const CONTENT_KEY_LENS: [usize; 5] = [16, 24, 32, 48, 64];
/// Bounds of `deadline_ms`, in milliseconds.
const DEADLINE_MS: std::ops::RangeInclusive<u64> = 10..=600_000;

/// A defect of the configuration, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    file: PathBuf,
    /// Line from 1; 0 for the file as a whole.
    line: usize,
    text: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { file, line, text } = self;
        match line {
            0 => write!(f, "{}: {text}", file.display()),
            line => write!(f, "{}:{line}: {text}", file.display()),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    socket: toml::Spanned<PathBuf>,
    broker_uid: Option<u32>,
    deadline_ms: Option<toml::Spanned<u64>>,
    #[serde(default)]
    verbose: bool,
    #[serde(default)]
    slots: Vec<toml::Spanned<SlotTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SlotTable {
    profile: String,
    label: Option<String>,
    #[serde(default)]
    certificates: Vec<toml::Spanned<PathBuf>>,
    content_key_bytes: Option<usize>,
}

/// Configuration whose values are checked.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Path of the broker's socket.
    pub(crate) socket: PathBuf,
    /// User that the broker must run as, if configured.
    pub(crate) broker_uid: Option<u32>,
    /// Longest duration of a call.
    pub(crate) deadline: Duration,
    /// True if each failed call is written to standard error.
    pub(crate) is_verbose: bool,
    /// Slots in the file's order: the number of a slot is its place, from 0.
    pub(crate) slots: Vec<SlotConfig>,
}

/// Configuration of one slot, checked.
#[derive(Clone, Debug)]
pub(crate) struct SlotConfig {
    /// Name of the broker's profile.
    pub(crate) profile: String,
    /// Label of the token, by default the profile's name.
    pub(crate) label: String,
    /// Certificates in DER, with the stems of their files' names.
    pub(crate) certificates: Vec<(String, Vec<u8>)>,
    /// Length of the content keys that `CKM_RSA_PKCS_OAEP` decrypts, in bytes; `None`: it is off.
    pub(crate) content_key_len: Option<usize>,
}

/// Reads the file that the environment names, or the default one.
///
/// # Errors
/// The first defect of the file, or of a file of certificates that it names.
pub(crate) fn read() -> Result<Config, ConfigError> {
    // A setuid program must not use the broker that its caller names.
    let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty() && !is_privileged());
    let path = path.map_or_else(|| PathBuf::from(DEFAULT_PATH), PathBuf::from);
    let text = text_of(&path).map_err(|text| ConfigError { file: path.clone(), line: 0, text })?;
    parse(&path, &text)
}

fn text_of(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    // Looked at first: to open a pipe would wait for its writer.
    let metadata = std::fs::metadata(path).map_err(|err| format!("cannot be read: {err}"))?;
    if !metadata.is_file() {
        return Err("is not a plain file".into());
    }
    let file = std::fs::File::open(path).map_err(|err| format!("cannot be read: {err}"))?;
    let len = file.take(FILE_LEN_MAX + 1).read_to_string(&mut text).map_err(|err| format!("cannot be read: {err}"))?;
    if len as u64 > FILE_LEN_MAX {
        return Err(format!("is longer than {FILE_LEN_MAX} bytes"));
    }
    Ok(text)
}

fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let line_of = |at: usize| text.get(..at).map_or(0, |before| before.matches('\n').count() + 1);
    let fault = |at: usize, text: String| ConfigError { file: path.to_owned(), line: line_of(at), text };
    let file: File = toml::from_str(text)
        .map_err(|err| fault(err.span().map_or(usize::MAX, |span| span.start), err.message().to_owned()))?;
    if !file.socket.get_ref().is_absolute() {
        return Err(fault(file.socket.span().start, "socket: expected an absolute path".into()));
    }
    let deadline_ms = file.deadline_ms.as_ref().map_or(5_000, |ms| *ms.get_ref());
    if let Some(ms) = file.deadline_ms.filter(|ms| !DEADLINE_MS.contains(ms.get_ref())) {
        let (min, max) = (DEADLINE_MS.start(), DEADLINE_MS.end());
        return Err(fault(ms.span().start, format!("deadline_ms: {} is not within {min} to {max}", ms.get_ref())));
    }
    if file.slots.is_empty() || file.slots.len() > SLOTS_MAX {
        let text = format!("slots: expected 1 to {SLOTS_MAX} tables [[slots]], got {}", file.slots.len());
        return Err(fault(usize::MAX, text));
    }
    let mut slots: Vec<SlotConfig> = Vec::new();
    for table in file.slots {
        let at = table.span().start;
        let slot = slot(path, table.into_inner(), &fault, at)?;
        if slots.iter().any(|other| other.label == slot.label) {
            return Err(fault(at, format!("slots.label: two slots have the label {:?}", slot.label)));
        }
        slots.push(slot);
    }
    Ok(Config {
        socket: file.socket.into_inner(),
        broker_uid: file.broker_uid,
        deadline: Duration::from_millis(deadline_ms),
        is_verbose: file.verbose,
        slots,
    })
}

fn slot(
    path: &Path,
    table: SlotTable,
    fault: &impl Fn(usize, String) -> ConfigError,
    at: usize,
) -> Result<SlotConfig, ConfigError> {
    if !(1..=64).contains(&table.profile.len()) {
        return Err(fault(at, "slots.profile: expected a name of 1 to 64 bytes".into()));
    }
    let label = match table.label {
        Some(label) => label,
        None if table.profile.len() <= LABEL_LEN_MAX => table.profile.clone(),
        None => return Err(fault(at, format!("slots.label: required, as the profile has over {LABEL_LEN_MAX} bytes"))),
    };
    if !(1..=LABEL_LEN_MAX).contains(&label.len()) || label.chars().any(char::is_control) {
        return Err(fault(at, format!("slots.label: expected 1 to {LABEL_LEN_MAX} bytes without control characters")));
    }
    if let Some(len) = table.content_key_bytes.filter(|len| !CONTENT_KEY_LENS.contains(len)) {
        return Err(fault(at, format!("slots.content_key_bytes: {len} is not one of 16, 24, 32, 48 and 64")));
    }
    let mut certificates = Vec::new();
    for named in table.certificates {
        let start = named.span().start;
        let relative = named.into_inner();
        let file = path.parent().map_or_else(|| relative.clone(), |folder| folder.join(&relative));
        let wrong = |text: String| fault(start, format!("slots.certificates: {}: {text}", file.display()));
        let text = text_of(&file).map_err(wrong)?;
        let stem = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let ders = pem(&text).ok_or_else(|| wrong("holds a block that is not PEM".into()))?;
        if ders.is_empty() || ders.iter().any(|der| crate::der::certificate(der).is_none()) {
            return Err(wrong("holds no certificate, or a malformed one; expected PEM blocks CERTIFICATE".into()));
        }
        certificates.extend(ders.into_iter().map(|der| (stem.clone(), der)));
        if certificates.len() > CERTIFICATES_MAX {
            return Err(wrong(format!("more than {CERTIFICATES_MAX} certificates in the slot")));
        }
    }
    Ok(SlotConfig { profile: table.profile, label, certificates, content_key_len: table.content_key_bytes })
}

/// Decodes the blocks `CERTIFICATE` of a PEM file, and skips other blocks.
fn pem(text: &str) -> Option<Vec<Vec<u8>>> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(BEGIN) {
        let (body, after) = after.split_once(END)?;
        let body: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        found.push(STANDARD.decode(body).ok()?);
        rest = after;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(Path::new("/etc/p.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn a_configuration_has_its_defaults() {
        let config = parse(Path::new("/etc/p.toml"), "socket = '/s'\n[[slots]]\nprofile = 'P256'\n").unwrap();
        assert_eq!((config.deadline, config.is_verbose), (Duration::from_secs(5), false));
        assert_eq!((config.slots.len(), config.slots[0].label.as_str()), (1, "P256"));
    }

    #[test]
    fn an_error_names_file_line_and_key() {
        let slot = "[[slots]]\nprofile = 'P256'\n";
        for (text, wanted) in [
            ("socket = '/s'\nsockets = 1\n".to_owned(), "/etc/p.toml:2: unknown field `sockets`"),
            ("socket = '/s'\n\n  socket2\n".to_owned(), "/etc/p.toml:3: "),
            ("socket = 's'\n".to_owned() + slot, "/etc/p.toml:1: socket: expected an absolute path"),
            ("socket = '/s'\ndeadline_ms = 5\n".to_owned() + slot, "/etc/p.toml:2: deadline_ms: 5 is not within"),
            ("socket = '/s'\n".to_owned(), "/etc/p.toml: slots: expected 1 to 64 tables"),
            (format!("socket = '/s'\n{slot}{slot}"), "/etc/p.toml:4: slots.label: two slots"),
            (format!("socket = '/s'\n{slot}content_key_bytes = 5\n"), "slots.content_key_bytes: 5 is not one of"),
            (
                format!("socket = '/s'\n{slot}certificates = ['no.pem']\n"),
                ":4: slots.certificates: /etc/no.pem: cannot",
            ),
        ] {
            let found = error(&text);
            assert!(found.contains(wanted), "{found} for {text}");
        }
    }
}
