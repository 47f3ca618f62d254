//! `routes`: no spelling of a path bypasses a seal.
//!
//! Input: a sealed matcher and a plain one, each `=/exact`, `/prefix` or nothing (any path, plain only), a line each; then
//! the path. The sealed route comes first.
//!
//! The reference reads the path as different services do: percent-decoded not at all or up to three times, as a whole or after it
//! was split; two slashes at the start a host or not; `\` a slash or not; `;parameters` cut or not; empty segments dropped or kept;
//! spaces and dots at the end of a segment dropped or not; then dot segments resolved (RFC 3986 section 5.2.4, and
//! `%2e` for a dot, as the URL standard has it, while at most three decodings are needed). If any of them lands in the
//! sealed route, letter case and a slash at the end aside, the plain one must not have it, unless it names the path in full.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sealway_gateway::route::{Action, Forward, ForwardPolicy, Matcher, Route, RouteQuery, Sealing, Selection, find};
use sealway_gateway::upstream::{ServerAddress, Target, Upstream, UpstreamSettings};
use sealway_proto::routes::Pattern;

/// The fuzz target for route matchers.
pub fn routes(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.splitn(3, '\n');
    let (Some(sealed), Some(plain), Some(path)) = (lines.next(), lines.next(), lines.next()) else { return };
    // Request paths have neither a query nor a fragment, and begin with a slash. The guarantee does not cover a sealed matcher
    // that is itself no plain spelling (escapes, dots, parameters).
    let sealed_path = sealed.strip_prefix('=').unwrap_or(sealed);
    let plainly_spelt = sealed_path.starts_with('/')
        && !sealed_path.contains(['%', '\\', ';', '\u{fffd}'])
        && !sealed_path.contains("//")
        && !sealed_path.contains("/.");
    if !path.starts_with('/') || path.contains(['?', '#']) || !plainly_spelt {
        return;
    }
    let (Some(required), Some(off)) = (route(sealed, Sealing::Required), route(plain, Sealing::Off)) else { return };
    let routes = [required, off];
    let found = find(&routes, RouteQuery { listener: "listener", host: "host", path });
    if matches(sealed, path.as_bytes()) {
        assert!(matches!(found, Selection::Route(0, _)), "a sealed path is not sealed: {found:?}");
    }
    if !matches!(found, Selection::Route(1, _)) || plain.starts_with('=') {
        return;
    }
    for reading in readings(path) {
        let read = String::from_utf8_lossy(&reading);
        assert!(!matches_loosely(sealed, &reading), "{path:?} is forwarded in plain, and may be read as {read:?}");
    }
}

/// Returns a route. `None` if its path has no canonical form.
fn route(matcher: &str, sealed: Sealing) -> Option<Route> {
    static UPSTREAM: OnceLock<Arc<Upstream>> = OnceLock::new();
    let upstream = UPSTREAM.get_or_init(|| {
        let address = ServerAddress::parse("http://127.0.0.1:1").expect("a server");
        Arc::new(Upstream::new(Target::Servers(vec![address]), UpstreamSettings::default()))
    });
    let patterns = match matcher.strip_prefix('=') {
        Some(exact) => vec![Pattern::exact(exact).ok()?],
        None if matcher.is_empty() => Vec::new(),
        None => vec![Pattern::prefix(matcher).ok()?],
    };
    let forward = Forward {
        upstream: upstream.clone(),
        policy: ForwardPolicy { sealed, ..ForwardPolicy::default() },
        kept: None,
        mle: None,
    };
    Some(Route {
        name: String::new(),
        matcher: Matcher { patterns, ..Matcher::default() },
        delay: Duration::ZERO,
        action: Action::Forward(Box::new(forward)),
    })
}

fn matches(matcher: &str, path: &[u8]) -> bool {
    match matcher.strip_prefix('=') {
        Some(exact) => exact.as_bytes() == path,
        None => path.starts_with(matcher.as_bytes()),
    }
}

/// Matches as a service does that ignores letter case, and a slash at the end of a path or of a prefix that has one.
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

/// Returns the path as different services read it. Parameters may be cut before decoding as well as after.
fn readings(path: &str) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut texts = vec![path.as_bytes().to_vec()];
    if let Some((_, after)) = path.strip_prefix("//").and_then(|host| host.split_once('/')) {
        texts.push(format!("/{after}").into_bytes());
    }
    for decoded in 0..4 {
        for text in &texts {
            for choice in 0..16 {
                // An option that changes nothing is not worth the time.
                if (choice & 1 != 0 && !text.contains(&b'\\'))
                    || (choice & 2 != 0 && !text.contains(&b';'))
                    || (choice & 8 != 0 && !text.iter().any(|byte| b" .".contains(byte)))
                {
                    continue;
                }
                // After three decodings an escape is text: the guarantee does not cover a fourth decoding.
                all.push(read(text, decoded < 3, choice));
            }
        }
        let cut: Vec<_> = texts.iter().filter(|text| text.contains(&b';')).map(|text| cut_parameters(text)).collect();
        texts.extend(cut);
        texts.retain(|text| text.contains(&b'%'));
        texts.iter_mut().for_each(|text| *text = decode(text));
    }
    all.extend(decoded_by_segment(path));
    all
}

/// Reads the path as services do that split first: a slash that a decoding uncovers is part of its segment, and cut with its
/// parameters.
fn decoded_by_segment(path: &str) -> Vec<Vec<u8>> {
    let mut segments: Vec<Vec<u8>> = path.split('/').map(|segment| segment.as_bytes().to_vec()).collect();
    let mut all = Vec::new();
    for decoded in 0..4 {
        let cut: Vec<_> = segments.iter().map(|segment| without_parameters(segment)).collect();
        all.push(read(&cut.join(&b'/'), decoded < 3, 4));
        segments.iter_mut().for_each(|segment| *segment = decode(segment));
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

/// Options by the bits of `choice`: a backslash is a slash, parameters are cut, empty segments are dropped, spaces and dots at
/// ends are dropped.
fn read(path: &[u8], escaped_dots: bool, choice: u8) -> Vec<u8> {
    let [backslash_is_slash, cut, drop_empty, trim] = [1, 2, 4, 8].map(|bit| choice & bit != 0);
    let is_slash = |byte: &u8| *byte == b'/' || (backslash_is_slash && *byte == b'\\');
    let mut segments = path.split(is_slash).skip(1).peekable();
    let mut out: Vec<&[u8]> = Vec::new();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        let segment = if cut { without_parameters(segment) } else { segment };
        let segment = if trim { without_end(segment) } else { segment };
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

/// Returns the segment without spaces and dots at its end, unless it has no other characters.
fn without_end(segment: &[u8]) -> &[u8] {
    let end = segment.iter().rposition(|byte| !b" .".contains(byte));
    end.map_or(segment, |last| &segment[..=last])
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
