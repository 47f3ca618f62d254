//! `sessions.remote:` of the configuration, and the URL of the authority: as written, then checked.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use sealway_runtime::config::{FilePath, Flag, Number, Problems, relative_to};
use serde::{Deserialize, Serialize};

use super::FRESH_MS_MAX;

/// Setting to which problems of the URL are attributed.
const URL_SETTING: &str = "sessions.store";

const DEADLINE_MS: u64 = 1500;
const CONNECTIONS_MAX: u64 = 64;
const FRESH_MS: u64 = 500;
const CACHED_SESSIONS_MAX: u64 = 100_000;

/// Section `sessions.remote:` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawRemote {
    /// Bearer secret; this or a client certificate is required, both is better.
    secret_file: Option<FilePath>,
    /// Certificates (PEM) that the authority's must descend from; it must be for the URL's host.
    /// - default: the system's
    ca_file: Option<FilePath>,
    /// Certificate that this process presents to the terminator, in PEM; with `client_key_file`.
    client_cert_file: Option<FilePath>,
    /// Key of the certificate in `client_cert_file`, in PEM.
    client_key_file: Option<FilePath>,
    /// Time for a request to the authority, waiting for a connection included. Keep it below `sessions.store_deadline_ms`;
    /// else a warning at start.
    deadline_ms: Number<u64, DEADLINE_MS, 10, 60_000>,
    /// Requests to the authority at once; 64 times as many may wait, the next is rejected.
    connections_max: Number<usize, CONNECTIONS_MAX, 1, 10_000>,
    /// Time that a session is used before the authority is asked again.
    fresh_ms: Number<u64, FRESH_MS, 0, FRESH_MS_MAX>,
    /// Sessions kept in this process, about 1 KiB each.
    cached_sessions_max: Number<usize, CACHED_SESSIONS_MAX, 1, 10_000_000>,
    /// Allows `http:` to another machine; a warning at start. To this machine (`localhost`, `127.0.0.1`, `[::1]`) it is
    /// always allowed.
    allow_plain_http: Flag<false>,
}

/// Settings of the connection to another authority. Holds no secret: it is read from its file when the store is opened.
#[derive(Clone, Debug)]
pub struct RemoteConfig {
    /// URL of the authority, with the prefix of its paths; no slash at its end.
    pub url: Uri,
    /// File with the bearer secret that the authority requires.
    pub secret_file: Option<PathBuf>,
    /// Certificates from which the authority's must descend; by default the system's.
    pub ca_file: Option<PathBuf>,
    /// Certificate chain that is presented to the authority, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Maximum time of a request, including the wait for a connection and a retry.
    pub deadline: Duration,
    /// Maximum number of requests, and so of connections, at once.
    pub connections_max: usize,
    /// Time for which a session is used without asking again, and thus the delay until a revocation takes effect.
    pub fresh: Duration,
    /// Maximum number of cached sessions.
    pub cached_sessions_max: usize,
}

impl RemoteConfig {
    /// Creates settings for a URL, with defaults for all else.
    pub fn new(url: Uri) -> Self {
        RemoteConfig {
            url,
            secret_file: None,
            ca_file: None,
            identity: None,
            deadline: Duration::from_millis(DEADLINE_MS),
            connections_max: CONNECTIONS_MAX as usize,
            fresh: Duration::from_millis(FRESH_MS),
            cached_sessions_max: CACHED_SESSIONS_MAX as usize,
        }
    }
}

/// Checks the section, and the URL that `sessions.store` names. Paths are resolved against `file`, the configuration's
/// own. Adds notices for the operator to `warnings`.
pub fn resolve(
    url: &str,
    raw: &RawRemote,
    file: Option<&Path>,
    problems: &mut Problems,
    warnings: &mut Vec<String>,
) -> RemoteConfig {
    let url = parse_url(url).unwrap_or_else(|what| {
        problems.add(URL_SETTING, what);
        Uri::from_static("http://localhost")
    });
    let path = |path: &Option<String>| path.as_deref().map(|path| relative_to(file, path));
    let is_plain = url.scheme_str() == Some("http");
    let is_allowed = raw.allow_plain_http.get();
    if is_plain && !is_loopback(&url) && !is_allowed {
        problems.add(URL_SETTING, "session keys travel to the authority: use https:, or set allow_plain_http: true");
    } else if is_plain && !is_loopback(&url) {
        warnings.push(
            "sessions.remote.allow_plain_http is on: anyone who can read the network between this process and the \
             authority can read session keys"
                .into(),
        );
    }
    if is_plain && (raw.ca_file.is_some() || raw.client_cert_file.is_some() || raw.client_key_file.is_some()) {
        problems.add("sessions.remote", "ca_file, client_cert_file and client_key_file need https:");
    }
    let identity = match (path(&raw.client_cert_file), path(&raw.client_key_file)) {
        (Some(chain), Some(key)) => Some((chain, key)),
        (None, None) => None,
        _ => {
            problems.add("sessions.remote", "client_cert_file and client_key_file need each other");
            None
        }
    };
    if raw.secret_file.is_none() && raw.client_cert_file.is_none() {
        problems.add("sessions.remote", "expected secret_file, or client_cert_file and client_key_file, or both");
    }
    RemoteConfig {
        secret_file: path(&raw.secret_file),
        ca_file: path(&raw.ca_file),
        identity,
        deadline: raw.deadline_ms.millis("sessions.remote.deadline_ms", problems),
        connections_max: raw.connections_max.check("sessions.remote.connections_max", problems),
        fresh: raw.fresh_ms.millis("sessions.remote.fresh_ms", problems),
        cached_sessions_max: raw.cached_sessions_max.check("sessions.remote.cached_sessions_max", problems),
        url,
    }
}

/// Parses the URL of an authority. The error never quotes the text: the part before an `@` may be a password.
pub(crate) fn parse_url(text: &str) -> Result<Uri, &'static str> {
    const EXPECTED: &str = "expected https://HOST[:PORT][/PATH]";
    // The parser drops a fragment, in which a mistake could hide.
    if text.contains('#') {
        return Err("the URL of an authority has no fragment");
    }
    let url: Uri = text.trim_end_matches('/').parse().map_err(|_| EXPECTED)?;
    let authority = url.authority().ok_or(EXPECTED)?;
    if !matches!(url.scheme_str(), Some("http" | "https")) || authority.host().is_empty() {
        return Err(EXPECTED);
    }
    if authority.as_str().contains('@') {
        return Err("the URL of an authority holds no user and no password; use sessions.remote.secret_file");
    }
    if url.query().is_some() {
        return Err("the URL of an authority has no query");
    }
    if url.path().split('/').any(|part| part == "." || part == "..") {
        return Err("the URL of an authority has no . and .. in its path");
    }
    Ok(url)
}

/// True if the URL's host is this machine.
pub(crate) fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(url: &str, raw: RawRemote) -> (RemoteConfig, Vec<String>, String) {
        let (mut problems, mut warnings) = (Problems::default(), Vec::new());
        let config = resolve(url, &raw, Some(Path::new("/etc/sealway/serve.yaml")), &mut problems, &mut warnings);
        let problems = problems.into_result().err().map(|err| err.to_string()).unwrap_or_default();
        (config, warnings, problems)
    }

    fn secret() -> RawRemote {
        RawRemote { secret_file: Some("a.secret".into()), ..RawRemote::default() }
    }

    #[test]
    fn a_url_has_a_host_and_a_path_and_nothing_that_could_be_secret() {
        for url in [
            "https://a.example",
            "https://a.example:8443/base/",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost",
        ] {
            let (config, warnings, problems) = resolved(url, secret());
            assert_eq!((problems.as_str(), warnings.len()), ("", 0), "{url}");
            assert_eq!(config.url.to_string().trim_end_matches('/'), url.trim_end_matches('/'));
            assert_eq!(config.secret_file, Some("/etc/sealway/a.secret".into()));
        }
        for url in [
            "https://user:hunter2@a.example",
            "https://hunter2@a.example",
            "https://a.example/?hunter2",
            "https://a.example/#hunter2",
            "https://a.example/x/../hunter2",
            "ftp://hunter2",
            "https:hunter2",
            "https://",
            "/hunter2",
            "https://hunter2 x",
        ] {
            let (_, _, problems) = resolved(url, secret());
            assert!(problems.contains("sessions.store: "), "{url}");
            assert!(!problems.contains("hunter2"), "{url}: {problems}");
        }
    }

    #[test]
    fn plain_http_to_another_machine_needs_a_setting_and_warns() {
        for host in ["10.0.0.1", "authority.internal", "127.0.0.1.example", "[2001:db8::1]"] {
            let (_, _, problems) = resolved(&format!("http://{host}"), secret());
            assert!(problems.contains("allow_plain_http"), "{host}: {problems}");
            let raw = RawRemote { allow_plain_http: serde_json::from_str("true").unwrap(), ..secret() };
            let (_, warnings, problems) = resolved(&format!("http://{host}"), raw);
            assert_eq!((problems.as_str(), warnings.len()), ("", 1), "{host}");
        }
    }

    #[test]
    fn an_authority_is_not_asked_without_proof_and_a_certificate_has_its_key() {
        assert!(resolved("https://a", RawRemote::default()).2.contains("secret_file"));
        let cert = RawRemote { client_cert_file: Some("c".into()), ..RawRemote::default() };
        assert!(resolved("https://a", cert.clone()).2.contains("need each other"));
        let both = RawRemote { client_key_file: Some("k".into()), ..cert };
        let (config, _, problems) = resolved("https://a", both.clone());
        assert_eq!((problems.as_str(), config.identity.is_some()), ("", true));
        assert!(resolved("http://localhost", both).2.contains("need https:"));
    }

    #[test]
    fn revocation_cannot_be_configured_to_take_a_second() {
        let raw = RawRemote { fresh_ms: serde_json::from_str("1000").unwrap(), ..secret() };
        assert!(resolved("https://a", raw).2.contains("sessions.remote.fresh_ms"));
    }
}
