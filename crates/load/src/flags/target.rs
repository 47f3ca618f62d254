//! Parses the URL that requests go to.

use http::Uri;
use sealway_runtime::config::Problems;

/// Upper bound of a URL, in bytes.
const URL_LEN_MAX: usize = 16 * 1024;

/// Parses a URL; if it is wrong, adds the problem and returns `None`. `name` names the URL in problems: `URL`, `--https-url`.
pub(crate) fn parse(problems: &mut Problems, name: &str, text: &str) -> Option<Uri> {
    let expected = "expected http://, https://, ws:// or wss://, a host and a path";
    // A user and password before an @ may be secret: such a URL is rejected without being shown.
    let authority = text.split_once("://").map_or(text, |(_, rest)| rest);
    if authority.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@')) {
        problems.add(name, "must not contain a user and password: give --header @FILE with an Authorization header");
        return None;
    }
    let shown: String = text.chars().take(200).collect();
    let named = format!("{name} {shown}");
    if text.len() > URL_LEN_MAX {
        problems.add(name, format!("is longer than {URL_LEN_MAX} bytes"));
        return None;
    }
    let url: Uri = match text.parse() {
        Ok(url) => url,
        Err(err) => {
            problems.add(named, format!("{err}; {expected}"));
            return None;
        }
    };
    let is_known = url.scheme_str().is_some_and(|scheme| ["http", "https", "ws", "wss"].contains(&scheme));
    if !is_known || url.host().is_none_or(str::is_empty) {
        problems.add(named, expected);
        return None;
    }
    if url.port_u16() == Some(0) || (url.port().is_none() && has_port(&url)) {
        problems.add(named, "expected a port, 1 to 65,535");
        return None;
    }
    Some(url)
}

/// Returns whether the authority has a colon in the place of a port.
fn has_port(url: &Uri) -> bool {
    let authority = url.authority().map_or("", http::uri::Authority::as_str);
    authority.rsplit_once(']').map_or(authority, |(_, after)| after).contains(':')
}

/// Returns the port; the default is 443 with TLS, otherwise 80.
pub(super) fn port(url: &Uri) -> u16 {
    url.port_u16().unwrap_or(if is_tls(url) { 443 } else { 80 })
}

/// Returns whether the scheme needs TLS.
pub(super) fn is_tls(url: &Uri) -> bool {
    matches!(url.scheme_str(), Some("https" | "wss"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_scheme_host_or_port_is_refused_and_a_password_is_never_shown() {
        for url in ["http://localhost", "https://[::1]:8443/a?b", "ws://x/", "http://x/{{counter}}?a={{uuid}}"] {
            let mut problems = Problems::default();
            assert!(parse(&mut problems, "URL", url).is_some(), "{url}");
        }
        for url in ["", "localhost:8080", "/x", "ftp://x/", "http://", "http://x:0/", "http://x:99999/", "http://x:/"] {
            let mut problems = Problems::default();
            assert!(parse(&mut problems, "URL", url).is_none(), "{url}");
            assert!(problems.into_result().unwrap_err().0.starts_with("URL "), "{url}");
        }
        for url in ["http://me:geheim@x/", "me:geheim@x", "https://geheim@x"] {
            let mut problems = Problems::default();
            assert!(parse(&mut problems, "URL", url).is_none(), "{url}");
            assert!(!problems.into_result().unwrap_err().0.contains("geheim"), "{url}");
        }
    }
}
