//! Which policy a request falls under: the first route that matches.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderValue;

use crate::upstream::Upstream;

/// Whether a route's requests are sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sealed {
    /// Every request must be.
    Required,
    /// Those are that carry `X-Kid`, `X-Idempotency-Key` or `X-Seal`.
    Optional,
    /// None is: they pass through.
    #[default]
    Off,
}

impl<'de> serde::Deserialize<'de> for Sealed {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Sealed;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("required, optional or off")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Sealed, E> {
                match text {
                    "required" => Ok(Sealed::Required),
                    "optional" => Ok(Sealed::Optional),
                    "off" | "false" => Ok(Sealed::Off),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            // A bare `off` is a boolean to some readers of YAML.
            fn visit_bool<E: serde::de::Error>(self, on: bool) -> Result<Sealed, E> {
                if on { Err(E::invalid_value(serde::de::Unexpected::Bool(on), &self)) } else { Ok(Sealed::Off) }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// What is done with a route's requests.
#[derive(Debug)]
pub enum Action {
    /// The session authority answers.
    Sessions,
    /// A service behind answers.
    Forward(Forward),
}

/// Forwarding.
#[derive(Debug)]
pub struct Forward {
    /// Where to.
    pub upstream: Arc<Upstream>,
    /// Whether requests are sealed.
    pub sealed: Sealed,
    /// The media type of what is inside a sealed request.
    pub content_type: HeaderValue,
    /// Longest body of a sealed request, and longest answer that is sealed, in bytes.
    pub sealed_body_max: usize,
    /// Longest body that passes through, in bytes.
    pub body_max: u64,
}

/// A route.
#[derive(Debug)]
pub struct Route {
    /// Its place in the configuration, for metrics: `routes[0]`.
    pub name: String,
    /// Listener names; empty is any.
    pub listeners: Vec<Arc<str>>,
    /// Exact paths.
    pub paths: Vec<String>,
    /// What paths begin with. Neither paths nor prefixes: every path.
    pub path_prefixes: Vec<String>,
    /// What is done.
    pub action: Action,
}

impl Route {
    fn matches(&self, listener: &str, path: &str) -> bool {
        let on_listener = self.listeners.is_empty() || self.listeners.iter().any(|name| &**name == listener);
        let any_path = self.paths.is_empty() && self.path_prefixes.is_empty();
        on_listener
            && (any_path
                || self.paths.iter().any(|exact| exact == path)
                || self.path_prefixes.iter().any(|prefix| path.starts_with(prefix.as_str())))
    }

    /// As a service might read the path that takes no notice of case, or of a slash at the end.
    fn matches_loosely(&self, listener: &str, path: &str) -> bool {
        let on_listener = self.listeners.is_empty() || self.listeners.iter().any(|name| &**name == listener);
        let bare = path.trim_end_matches('/');
        let begins = |prefix: &String| {
            let prefix = prefix.trim_end_matches('/');
            bare.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
                && (bare.len() == prefix.len() || bare.as_bytes().get(prefix.len()) == Some(&b'/'))
        };
        let any_path = self.paths.is_empty() && self.path_prefixes.is_empty();
        on_listener
            && (any_path
                || self.paths.iter().any(|exact| exact.trim_end_matches('/').eq_ignore_ascii_case(bare))
                || self.path_prefixes.iter().any(|prefix| path.starts_with(prefix.as_str()) || begins(prefix)))
    }

    fn requires_seal(&self) -> bool {
        matches!(&self.action, Action::Forward(Forward { sealed: Sealed::Required, .. }))
    }
}

/// What the routes say of a request.
#[derive(Debug)]
pub enum Found<'a> {
    /// This one, with its index.
    Route(usize, &'a Route),
    /// None matches.
    None,
    /// The path is another spelling of one that must be sealed: a service that reads both alike would be reached in
    /// plain.
    Disguised,
}

/// Finds the first route that matches.
pub fn find<'a>(routes: &'a [Route], listener: &str, path: &str) -> Found<'a> {
    let found = routes.iter().enumerate().find(|(_, route)| route.matches(listener, path));
    if found.is_none_or(|(_, route)| !route.requires_seal()) && routes.iter().any(Route::requires_seal) {
        let plain = canonical(path);
        let loosely = routes.iter().find(|route| route.matches_loosely(listener, &plain));
        if loosely.is_some_and(Route::requires_seal) {
            return Found::Disguised;
        }
    }
    found.map_or(Found::None, |(index, route)| Found::Route(index, route))
}

/// The path as a lenient service might read it: percent-decoded, `\` as `/`, empty and dot segments resolved.
fn canonical(path: &str) -> Cow<'_, str> {
    if !path.contains(['%', '\\', ';']) && !path.contains("//") && !path.contains("/.") {
        return Cow::Borrowed(path);
    }
    let mut bytes = path.as_bytes().to_vec();
    // Twice: what is encoded twice is decoded twice by a chain of services.
    for _ in 0..2 {
        bytes = percent_decoded(&bytes);
    }
    let text = String::from_utf8_lossy(&bytes).replace('\\', "/");
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let mut plain = String::with_capacity(path.len());
    for segment in &segments {
        plain.push('/');
        plain.push_str(segment);
    }
    if text.ends_with('/') || segments.is_empty() {
        plain.push('/');
    }
    Cow::Owned(plain)
}

fn percent_decoded(bytes: &[u8]) -> Vec<u8> {
    let hex = |byte: u8| char::from(byte).to_digit(16);
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                let value = hex(*high).unwrap_or_default() * 16 + hex(*low).unwrap_or_default();
                out.push(value as u8);
                rest = &tail[2..];
            }
            (byte, _) => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{Target, UpstreamLimits};

    fn routes() -> Vec<Route> {
        let upstream = Arc::new(Upstream::new(Target::Http("127.0.0.1:1".parse().unwrap()), UpstreamLimits::default()));
        let forward = |sealed| {
            Action::Forward(Forward {
                upstream: upstream.clone(),
                sealed,
                content_type: HeaderValue::from_static("application/json"),
                sealed_body_max: 1,
                body_max: 1,
            })
        };
        let route = |prefix: &str, action| Route {
            name: prefix.into(),
            listeners: Vec::new(),
            paths: Vec::new(),
            path_prefixes: if prefix.is_empty() { Vec::new() } else { vec![prefix.into()] },
            action,
        };
        vec![route("/transaction/", forward(Sealed::Required)), route("", forward(Sealed::Off))]
    }

    #[tokio::test]
    async fn another_spelling_of_a_sealed_path_is_not_a_way_around_the_seal() {
        let routes = routes();
        for path in [
            "//transaction/purchase",
            "/x/../transaction/purchase",
            "/%74ransaction/purchase",
            "/%2574ransaction/purchase",
            "/./transaction/purchase",
            "/transaction%2fpurchase",
            "/x/%2e%2e/transaction/purchase",
            "\\transaction\\purchase",
            "/transaction;v=1/purchase",
            "/TRANSACTION/purchase",
            "/Transaction/Purchase",
            "/transaction",
        ] {
            assert!(matches!(find(&routes, "a", path), Found::Disguised), "{path}");
        }
    }

    #[tokio::test]
    async fn the_first_match_wins_and_plain_paths_pass_as_sent() {
        let routes = routes();
        assert!(matches!(find(&routes, "a", "/transaction/purchase"), Found::Route(0, _)));
        for path in ["/", "/a%2fb/./c//d", "/transactions/x", "/x/transaction/"] {
            assert!(matches!(find(&routes, "a", path), Found::Route(1, _)), "{path}");
        }
    }
}
