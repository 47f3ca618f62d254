//! `sessions.kek_broker` of the configuration, and its place beside `sessions.kek_file`.

use std::path::{Path, PathBuf};

use sealway_runtime::config::{FilePath, Problems, relative_to};
use serde::{Deserialize, Serialize};

/// Section `sessions.kek_broker` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawKekBroker {
    /// Socket of the broker, a path of 1 to 107 bytes.
    socket: FilePath,
    /// Profile of the broker, of 1 to 64 bytes; its nonces are the broker's, its tags 16 bytes.
    profile: String,
    /// Key of the broker's store, of 1 to 53 bytes.
    key: String,
    /// User that the broker must run as; another process that listens on its socket is sent no key. Set it where others may
    /// write the socket's folder.
    uid: Option<u32>,
    /// Beside `kek_file`, while sessions move from one to the other and both unwrap: the broker wraps (true), or the file
    /// does (false).
    /// - default: required beside `kek_file`, else true
    wraps: Option<bool>,
}

/// A broker that wraps session keys: `sessions.kek_broker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KekBroker {
    /// Path of the broker's socket.
    pub socket: PathBuf,
    /// Profile of the broker that defines the encryption.
    pub profile: String,
    /// Id of the key in the broker's store.
    pub key: String,
    /// User that the broker must run as, checked before anything is sent; any user by default.
    pub uid: Option<u32>,
    /// Beside a key file, while sessions move between the two: true if the broker wraps, false if the file does. Both
    /// unwrap.
    pub wraps: bool,
}

/// Checks the section; `beside_file` is true if a key file is configured too.
pub(super) fn resolve(
    raw: &RawKekBroker,
    beside_file: bool,
    file: Option<&Path>,
    problems: &mut Problems,
) -> KekBroker {
    for (name, text, len_max) in [("profile", &raw.profile, 64), ("key", &raw.key, 53), ("socket", &raw.socket, 107)] {
        if text.is_empty() || text.len() > len_max {
            problems.add(format!("sessions.kek_broker.{name}"), format!("expected 1 to {len_max} bytes"));
        }
    }
    match (beside_file, raw.wraps) {
        (true, None) => problems.add(
            "sessions.kek_broker",
            "beside sessions.kek_file, to move from one to the other, wraps has to say which wraps: true for the broker, false \
             for the file",
        ),
        (false, Some(false)) => problems.add("sessions.kek_broker.wraps", "false, and no sessions.kek_file that would wrap"),
        _ => {}
    }
    KekBroker {
        socket: relative_to(file, &raw.socket),
        profile: raw.profile.clone(),
        key: raw.key.clone(),
        uid: raw.uid,
        wraps: raw.wraps.unwrap_or(true),
    }
}
