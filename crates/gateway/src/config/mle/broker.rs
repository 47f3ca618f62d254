//! `mle_keys.NAME.broker` of the configuration: a private key that a broker holds.

use std::path::Path;

use sealway_runtime::config::{FilePath, Problems};
use serde::{Deserialize, Serialize};

use crate::mle::BrokerSettings;

/// Section `broker` of an entry of `mle_keys:` as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMleBroker {
    /// Socket of the broker, a path of 1 to 107 bytes.
    socket: FilePath,
    /// Profile of the broker, of 1 to 64 bytes, with a section `Unwrap` of the algorithm `alg`.
    profile: String,
    /// Key of the broker's store, of 1 to 64 bytes: an `rsa-unwrap` key. The version whose public half is in `certificate` unwraps.
    /// - default: the name of the entry
    key: Option<String>,
    /// User that the broker must run as; another process that listens on its socket is asked nothing. Set it where others may
    /// write the socket's folder.
    /// - default: any user
    uid: Option<u32>,
}

/// Checks the section; `at` is its path, `name` the name of the entry.
pub(super) fn resolve(
    at: &str,
    name: &str,
    raw: &RawMleBroker,
    file: Option<&Path>,
    problems: &mut Problems,
) -> BrokerSettings {
    let key = raw.key.as_deref().unwrap_or(name);
    for (setting, text, len_max) in [("socket", &*raw.socket, 107), ("profile", &raw.profile, 64), ("key", key, 64)] {
        if text.is_empty() || text.len() > len_max {
            problems.add(format!("{at}.{setting}"), format!("expected 1 to {len_max} bytes"));
        }
    }
    BrokerSettings {
        socket: problems.file(&format!("{at}.socket"), file, &raw.socket),
        profile: raw.profile.clone(),
        key: key.to_owned(),
        uid: raw.uid,
    }
}
