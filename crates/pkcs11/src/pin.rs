//! Sources of PINs: a file, or an environment variable. A PIN is read at each start of a host process, so that a changed
//! file is used without a restart.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use zeroize::Zeroizing;

use crate::uri::UriError;
use crate::{Error, Fault};

/// Length of the longest PIN, in bytes.
const PIN_LEN_MAX: usize = 255;

/// Source of the PIN of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinSource {
    /// `file:PATH`: the first line of the file. Only its owner may access it.
    File(PathBuf),
    /// `env:NAME`: an environment variable of this process. The host process does not inherit it.
    Environment(String),
}

impl PinSource {
    /// Parses the value of `pin-source`.
    pub(crate) fn parse(text: &str) -> Result<PinSource, UriError> {
        let wrong = |text: &str| UriError(format!("pin-source: {text}"));
        if let Some(path) = text.strip_prefix("file:") {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            if !path.is_absolute() {
                return Err(wrong("expected an absolute path after file:"));
            }
            return Ok(PinSource::File(path));
        }
        let name = text.strip_prefix("env:").ok_or_else(|| wrong("expected file:PATH or env:NAME"))?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(wrong("expected the name of an environment variable after env:"));
        }
        Ok(PinSource::Environment(name.to_owned()))
    }

    /// Name of the environment variable; `None` for a file.
    pub fn variable(&self) -> Option<&str> {
        match self {
            PinSource::File(_) => None,
            PinSource::Environment(name) => Some(name),
        }
    }

    /// Reads the PIN from its source.
    ///
    /// # Errors
    /// [`Fault::PinSource`], naming the source and never its content.
    pub fn read(&self) -> Result<Zeroizing<String>, Error> {
        let pin = match self {
            PinSource::File(path) => {
                let fail =
                    |why: &dyn std::fmt::Display| Error::new(Fault::PinSource, format!("{}: {why}", path.display()));
                // The opened file is the checked one. A pipe does not block.
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|err| fail(&err))?);
                let meta = file.metadata().map_err(|err| fail(&err))?;
                let user = rustix::process::geteuid().as_raw();
                if !meta.is_file() {
                    return Err(fail(&"it is not a file"));
                }
                if meta.mode() & 0o077 != 0 {
                    return Err(fail(&"others than its owner can use it; chmod 600 it"));
                }
                if ![0, user].contains(&meta.uid()) {
                    return Err(fail(&"it belongs to another user"));
                }
                // Allocated at full length: a growing buffer would leave copies of the PIN.
                let mut text = Zeroizing::new(String::with_capacity(2 * PIN_LEN_MAX));
                file.take(2 * PIN_LEN_MAX as u64).read_to_string(&mut text).map_err(|err| fail(&err))?;
                Zeroizing::new(text.lines().next().unwrap_or_default().to_owned())
            }
            PinSource::Environment(name) => Zeroizing::new(std::env::var(name).map_err(|_| {
                Error::new(Fault::PinSource, format!("the environment variable {name} is not set, or not text"))
            })?),
        };
        if pin.is_empty() || pin.len() > PIN_LEN_MAX {
            return Err(Error::new(Fault::PinSource, format!("expected a PIN of 1 to {PIN_LEN_MAX} bytes")));
        }
        Ok(pin)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_pin_is_the_first_line_of_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pin");
        let source = PinSource::File(path.clone());
        assert_eq!(source.read().unwrap_err().fault, Fault::PinSource);
        for (text, pin) in [("12 34\n", Some("12 34")), ("1\r\n2", Some("1")), ("", None), ("\n1", None)] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            assert_eq!(source.read().ok().as_ref().map(|pin| pin.as_str()), pin, "{text:?}");
        }
        std::fs::write(&path, "secretword").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let err = source.read().unwrap_err().to_string();
        assert!(err.contains("chmod 600") && !err.contains("secretword"), "{err}");
        assert!(PinSource::File(folder.path().to_owned()).read().unwrap_err().to_string().contains("not a file"));
    }
}
