//! `routes`: no spelling of a path gets around a seal.
//!
//! Input: a sealed matcher and a plain one, each `=/exact`, `/prefix` or nothing (any path, plain only), a line each; then
//! the path. The sealed route comes first.
//!
//! The reference reads the path as different services do: percent-decoded not at all, once or twice; `\` a slash or not;
//! `;parameters` cut or not; empty segments dropped or kept; then dot segments resolved (RFC 3986 section 5.2.4, and
//! `%2e` for a dot, as the URL standard has it, while at most two decodings are needed). If any of them lands in the
//! sealed route, letter case and a slash at the end aside, the plain one must not have it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sealway_gateway::route::{Action, Asked, Forward, ForwardPolicy, Found, Matcher, Route, Sealed, find};
use sealway_gateway::upstream::{ServerAddress, Target, Upstream, UpstreamSettings};

/// The target.
pub fn routes(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.splitn(3, '\n');
    let (Some(sealed), Some(plain), Some(path)) = (lines.next(), lines.next(), lines.next()) else { return };
    // Request paths have neither a query nor a fragment, and begin with a slash. A sealed matcher that is no plain
    // spelling itself (escapes, dots, parameters) is outside of what is promised.
    let sealed_path = sealed.strip_prefix('=').unwrap_or(sealed);
    let plainly_spelt = sealed_path.starts_with('/')
        && !sealed_path.contains(['%', '\\', ';', '\u{fffd}'])
        && !sealed_path.contains("//")
        && !sealed_path.contains("/.");
    if !path.starts_with('/') || path.contains(['?', '#']) || !plainly_spelt {
        return;
    }
    let routes = [route(sealed, Sealed::Required), route(plain, Sealed::Off)];
    let found = find(&routes, Asked { listener: "listener", host: "host", path });
    if matches(sealed, path.as_bytes()) {
        assert!(matches!(found, Found::Route(0, _)), "a sealed path is not sealed: {found:?}");
    }
    if !matches!(found, Found::Route(1, _)) {
        return;
    }
    for reading in readings(path) {
        let read = String::from_utf8_lossy(&reading);
        assert!(!matches_loosely(sealed, &reading), "{path:?} is forwarded in plain, and may be read as {read:?}");
    }
}

fn route(matcher: &str, sealed: Sealed) -> Route {
    static UPSTREAM: OnceLock<Arc<Upstream>> = OnceLock::new();
    let upstream = UPSTREAM.get_or_init(|| {
        let address = ServerAddress::parse("http://127.0.0.1:1").expect("a server");
        Arc::new(Upstream::new(Target::Servers(vec![address]), UpstreamSettings::default()))
    });
    let (paths, path_prefixes) = match matcher.strip_prefix('=') {
        Some(exact) => (vec![exact.to_owned()], Vec::new()),
        None if matcher.is_empty() => (Vec::new(), Vec::new()),
        None => (Vec::new(), vec![matcher.to_owned()]),
    };
    let forward = Forward {
        upstream: upstream.clone(),
        policy: ForwardPolicy { sealed, ..ForwardPolicy::default() },
        kept: None,
    };
    Route {
        name: String::new(),
        matcher: Matcher { paths, path_prefixes, ..Matcher::default() },
        delay: Duration::ZERO,
        action: Action::Forward(Box::new(forward)),
    }
}

fn matches(matcher: &str, path: &[u8]) -> bool {
    match matcher.strip_prefix('=') {
        Some(exact) => exact.as_bytes() == path,
        None => path.starts_with(matcher.as_bytes()),
    }
}

/// As a service that takes no notice of case, nor of a slash at the end of a path or of a prefix that has one.
fn matches_loosely(matcher: &str, path: &[u8]) -> bool {
    let bare = |path: &[u8]| {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        path[..end].to_ascii_lowercase()
    };
    let mut slashed = bare(path);
    slashed.push(b'/');
    match matcher.strip_prefix('=') {
        Some(exact) => bare(path) == bare(exact.as_bytes()),
        None if matcher.ends_with('/') => slashed.starts_with(matcher.to_ascii_lowercase().as_bytes()),
        None => matches(matcher, path),
    }
}

/// The path as different services read it. Parameters may be cut before decoding as well as after.
fn readings(path: &str) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut texts = vec![path.as_bytes().to_vec()];
    for decoded in 0..3 {
        for text in &texts {
            for choice in 0..8 {
                // A choice that changes nothing is not worth the time.
                if (choice & 1 != 0 && !text.contains(&b'\\')) || (choice & 2 != 0 && !text.contains(&b';')) {
                    continue;
                }
                // After two decodings an escape is a text: a third one is not promised.
                all.push(read(text, decoded < 2, choice & 1 != 0, choice & 2 != 0, choice & 4 != 0));
            }
        }
        let cut: Vec<_> = texts.iter().filter(|text| text.contains(&b';')).map(|text| cut_parameters(text)).collect();
        texts.extend(cut);
        texts.retain(|text| text.contains(&b'%'));
        texts.iter_mut().for_each(|text| *text = decode(text));
    }
    all
}

fn cut_parameters(path: &[u8]) -> Vec<u8> {
    let segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').map(without_parameters).collect();
    segments.join(&b'/')
}

fn without_parameters(segment: &[u8]) -> &[u8] {
    segment.split(|byte| *byte == b';').next().unwrap_or_default()
}

fn read(path: &[u8], escaped_dots: bool, backslash_is_slash: bool, cut: bool, drop_empty: bool) -> Vec<u8> {
    let is_slash = |byte: &u8| *byte == b'/' || (backslash_is_slash && *byte == b'\\');
    let mut segments = path.split(is_slash).skip(1).peekable();
    let mut out: Vec<&[u8]> = Vec::new();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        let segment = if cut { without_parameters(segment) } else { segment };
        match segment.to_ascii_lowercase().as_slice() {
            b"." => {}
            b"%2e" if escaped_dots => {}
            b".." => drop(out.pop()),
            b".%2e" | b"%2e." | b"%2e%2e" if escaped_dots => drop(out.pop()),
            b"" if drop_empty && !last => continue,
            _ => {
                out.push(segment);
                continue;
            }
        }
        // A dot segment at the end leaves its slash.
        if last {
            out.push(b"");
        }
    }
    let mut text = Vec::new();
    for segment in out {
        text.push(b'/');
        text.extend_from_slice(segment);
    }
    text
}

fn decode(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let escape = bytes.get(at..at + 3).and_then(|escape| match std::str::from_utf8(escape) {
            Ok(text) if text.starts_with('%') && !text.contains('+') => u8::from_str_radix(&text[1..], 16).ok(),
            _ => None,
        });
        out.push(escape.unwrap_or(bytes[at]));
        at += if escape.is_some() { 3 } else { 1 };
    }
    out
}
