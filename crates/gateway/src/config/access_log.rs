//! Section `access_log:` of the configuration.

use std::path::{Path, PathBuf};

use sealway_runtime::config::{FilePath, Problems};
use serde::{Deserialize, Serialize};

use crate::access_log::{AccessLog, DEFAULT_FIELDS, Field};

/// File name that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// Section `access_log:` as written in the configuration file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawAccessLog {
    /// Appended to, and created with mode 0600; `-` is standard output. SIGHUP reopens it, for rotation.
    file: FilePath,
    /// Fields of a line, each at most once. Also: `listener`, `client` (the peer, or the client that a trusted proxy names),
    /// `certificate` (the subject of a verified one), `host`, `version`, `user_agent`.
    /// - default: `time`, `peer`, `method`, `path`, `route`, `upstream`, `status`, `duration_ms`, `bytes_sent`, `complete`
    fields: Option<Vec<Field>>,
}

/// Section `access_log:`, after its checks.
#[derive(Clone, Debug)]
pub(super) struct CheckedAccessLog {
    /// File of the log; `None` for standard output.
    file: Option<PathBuf>,
    fields: Vec<Field>,
}

pub(super) fn resolve(raw: &RawAccessLog, file: Option<&Path>, problems: &mut Problems) -> CheckedAccessLog {
    let fields = raw.fields.clone().unwrap_or_else(|| DEFAULT_FIELDS.to_vec());
    let is_repeated = |index: usize| fields[..index].contains(&fields[index]);
    if fields.is_empty() || (0..fields.len()).any(is_repeated) {
        problems.add("access_log.fields", "expected at least one field, and each once");
    }
    let to = (raw.file != STANDARD_OUTPUT).then(|| problems.file("access_log.file", file, &raw.file));
    CheckedAccessLog { file: to, fields }
}

impl CheckedAccessLog {
    /// Reports errors that would stop [`CheckedAccessLog::open`] from opening the file.
    pub(super) fn check_file(&self, problems: &mut Problems) {
        if let Some(file) = &self.file {
            problems.appendable("access_log.file", file);
        }
    }

    pub(super) fn open(&self) -> Result<AccessLog, String> {
        AccessLog::open(self.file.as_deref(), self.fields.clone()).map_err(|err| {
            let file = self.file.as_deref().unwrap_or(Path::new(STANDARD_OUTPUT)).display();
            format!("access_log.file: {file}: cannot be opened for appending: {err}")
        })
    }
}
