//! Comparison of URLs by RFC 3986 section 6.2, to check that a proof was made for this service.

use super::InitCredentials;

/// Returns the URLs that a proof of this request may name: the configured ones, else the request's own.
pub(super) fn candidates(public_urls: &[String], asked: &InitCredentials<'_>) -> Vec<String> {
    if public_urls.is_empty() {
        let scheme = if asked.is_tls { "https" } else { "http" };
        return normal(&format!("{scheme}://{}{}", asked.host, asked.path)).into_iter().collect();
    }
    public_urls.iter().filter_map(|base| normal(&format!("{}{}", base.trim_end_matches('/'), asked.path))).collect()
}

/// Returns an `http` or `https` URL in its normal form, without query and fragment (RFC 9449 section 4.3): scheme and
/// host in lower case, no default port, no dot segments, no needless escapes. `None` if it is no such URL.
pub(crate) fn normal(url: &str) -> Option<String> {
    let url = url.split(['?', '#']).next()?;
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let default_port = match scheme.as_str() {
        "https" => "443",
        "http" => "80",
        _ => return None,
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"@\\%\"<>^`{|}".contains(&byte);
    if authority.is_empty() || !authority.bytes().all(is_plain) || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    // An IPv6 address contains colons, in brackets.
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, ""),
    };
    if host.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut out = format!("{scheme}://{}", host.to_ascii_lowercase());
    if !port.is_empty() && port != default_port {
        out.push(':');
        out.push_str(port);
    }
    out.push_str(&without_dots(&unescaped(path)?));
    Some(out)
}

/// Decodes escapes of unreserved characters and writes the others in upper case; `None` for a malformed escape.
fn unescaped(path: &str) -> Option<String> {
    let hex = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let mut out = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(char::from(byte));
            continue;
        }
        let value = (hex(bytes.next())? * 16 + hex(bytes.next())?) as u8;
        if value.is_ascii_alphanumeric() || b"-._~".contains(&value) {
            out.push(char::from(value));
        } else {
            out.push_str(&format!("%{value:02X}"));
        }
    }
    Some(out)
}

/// Removes dot segments (RFC 3986 section 5.2.4) from a path that is empty or begins with a slash.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            ".." | "." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_mean_the_same_are_the_same_in_normal_form() {
        for same in [
            "https://api.example/v3/sessions",
            "HTTPS://API.Example:443/v3/sessions?x=1#y",
            "https://api.example:/v3/./x/../sessions",
            "https://api.example/%763/sess%69ons",
        ] {
            assert_eq!(normal(same).as_deref(), Some("https://api.example/v3/sessions"), "{same}");
        }
        for (url, want) in [
            ("http://[::1]:80", "http://[::1]/"),
            ("http://[::1]:8080/a/..", "http://[::1]:8080/"),
            ("https://h/a%2fb", "https://h/a%2Fb"),
            ("https://h:80/", "https://h:80/"),
            ("https://h/a/b/.", "https://h/a/b/"),
            ("https://h/../../a", "https://h/a"),
            ("https://h//a/", "https://h//a/"),
        ] {
            assert_eq!(normal(url).as_deref(), Some(want), "{url}");
        }
    }

    #[test]
    fn an_invalid_service_url_has_no_normal_form() {
        for none in [
            "",
            "/v3",
            "ftp://h/",
            "https://",
            "https://u@h/",
            "https://h:x/",
            "https://h/%zz",
            "https://h/ ",
            "https://:1/",
            "https:/h",
        ] {
            assert_eq!(normal(none), None, "{none}");
        }
        assert_ne!(normal("https://h/a"), normal("http://h/a"));
        assert_ne!(normal("https://h/a"), normal("https://h/a/"));
        assert_ne!(normal("https://h/a"), normal("https://h/A"));
    }
}
