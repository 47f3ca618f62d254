//! Which policy a request falls under: the first route that matches.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use sealway_proto::limits::SEALED_BODY_MAX_DEFAULT;

use crate::policy::{CertificateField, HeaderPolicy};
use crate::standalone::Standalone;
use crate::three::KeptAnswers;
use crate::upstream::Upstream;

/// Longest body that passes through, in bytes, unless the configuration says otherwise.
const BODY_MAX_DEFAULT: u64 = 16 * 1024 * 1024 * 1024;

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
    Forward(Box<Forward>),
    /// The gateway answers by itself.
    Standalone(Standalone),
}

/// Forwarding.
#[derive(Debug)]
pub struct Forward {
    /// Where to.
    pub upstream: Arc<Upstream>,
    /// How.
    pub policy: ForwardPolicy,
    /// Sealed answers that may be asked for again.
    pub kept: Option<KeptAnswers>,
}

/// How requests are forwarded.
#[derive(Clone, Debug)]
pub struct ForwardPolicy {
    /// Whether requests are sealed.
    pub sealed: Sealed,
    /// The media type of what is inside a sealed request.
    pub content_type: HeaderValue,
    /// Longest body of a sealed request, and longest answer that is sealed, in bytes.
    pub sealed_body_max: usize,
    /// Longest body that passes through, in bytes.
    pub body_max: u64,
    /// What is done to headers.
    pub headers: HeaderPolicy,
    /// Which field of a client's certificate has to be the client id of a sealed request. A client without a certificate
    /// is the listener's to refuse.
    pub client_id: Option<CertificateField>,
    /// Whether `Connection: close` is said on when the other side has said it.
    pub pass_connection_close: bool,
    /// What stands before the path of a request on its way to the service.
    pub upstream_path: Option<String>,
    /// How long a sealed answer of wire 3 is kept for a client that sends the same bytes again; not at all unless set.
    pub keep_answers: Option<Duration>,
    /// Headers outside the seal of wire 3 that reach the service, beside those that always do.
    pub unsealed_headers: Vec<HeaderName>,
}

impl ForwardPolicy {
    /// The target that the service is asked for: its own path before the request's, one slash between them.
    pub(crate) fn target(&self, uri: &Uri) -> Uri {
        let Some(base) = &self.upstream_path else { return uri.clone() };
        let mut target = match uri.path() {
            "" | "/" => base.clone(),
            path => format!("{}/{}", base.trim_end_matches('/'), path.trim_start_matches('/')),
        };
        if let Some(query) = uri.query() {
            target.push('?');
            target.push_str(query);
        }
        // Two paths that are ones make one.
        target.parse().unwrap_or_else(|_| uri.clone())
    }
}

impl Default for ForwardPolicy {
    fn default() -> Self {
        ForwardPolicy {
            sealed: Sealed::Off,
            content_type: HeaderValue::from_static("application/json"),
            sealed_body_max: SEALED_BODY_MAX_DEFAULT,
            body_max: BODY_MAX_DEFAULT,
            headers: HeaderPolicy::default(),
            client_id: None,
            pass_connection_close: false,
            upstream_path: None,
            keep_answers: None,
            unsealed_headers: Vec::new(),
        }
    }
}

/// Which requests a route is for. An empty list is any.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    /// Listener names.
    pub listeners: Vec<Arc<str>>,
    /// Hosts without a port, in lower case; `*.example.com` is everything below it.
    pub hosts: Vec<String>,
    /// Exact paths.
    pub paths: Vec<String>,
    /// What paths begin with. Neither paths nor prefixes: every path.
    pub path_prefixes: Vec<String>,
}

/// A route.
#[derive(Debug)]
pub struct Route {
    /// Its place in the configuration, for metrics: `routes[0]`.
    pub name: String,
    /// Which requests it is for.
    pub matcher: Matcher,
    /// How long a request waits before anything else is done with it.
    pub delay: Duration,
    /// What is done.
    pub action: Action,
}

/// What of a request chooses its route.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The listener that it came in on.
    pub listener: &'a str,
    /// The host that it is for, without a port.
    pub host: &'a str,
    /// Its path, as sent.
    pub path: &'a str,
}

impl Matcher {
    fn matches(&self, asked: Asked<'_>) -> bool {
        let any_path = self.paths.is_empty() && self.path_prefixes.is_empty();
        self.is_for(asked)
            && (any_path
                || self.paths.iter().any(|exact| exact == asked.path)
                || self.path_prefixes.iter().any(|prefix| asked.path.starts_with(prefix.as_str())))
    }

    /// As a service might read the path that takes no notice of case, or of a slash at the end.
    fn matches_loosely(&self, asked: Asked<'_>) -> bool {
        let bare = asked.path.trim_end_matches('/');
        let begins = |prefix: &String| {
            let prefix = prefix.trim_end_matches('/');
            bare.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
                && (bare.len() == prefix.len() || bare.as_bytes().get(prefix.len()) == Some(&b'/'))
        };
        let any_path = self.paths.is_empty() && self.path_prefixes.is_empty();
        self.is_for(asked)
            && (any_path
                || self.paths.iter().any(|exact| exact.trim_end_matches('/').eq_ignore_ascii_case(bare))
                || self.path_prefixes.iter().any(|prefix| asked.path.starts_with(prefix.as_str()) || begins(prefix)))
    }

    /// Whether listener and host are right.
    fn is_for(&self, asked: Asked<'_>) -> bool {
        let is_host =
            |host: &String| match host.strip_prefix('*') {
                Some(suffix) => asked.host.len().checked_sub(suffix.len()).is_some_and(|at| {
                    at > 0 && asked.host.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
                }),
                None => host.eq_ignore_ascii_case(asked.host),
            };
        (self.listeners.is_empty() || self.listeners.iter().any(|name| **name == *asked.listener))
            && (self.hosts.is_empty() || self.hosts.iter().any(is_host))
    }
}

impl Route {
    fn requires_seal(&self) -> bool {
        matches!(&self.action, Action::Forward(forward) if forward.policy.sealed == Sealed::Required)
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
pub fn find<'a>(routes: &'a [Route], asked: Asked<'_>) -> Found<'a> {
    let found = routes.iter().enumerate().find(|(_, route)| route.matcher.matches(asked));
    if found.is_none_or(|(_, route)| !route.requires_seal())
        && routes.iter().any(|route| route.requires_seal() && route.matcher.is_for(asked))
    {
        let sealed = |path: &str| {
            let loosely = routes.iter().find(|route| route.matcher.matches_loosely(Asked { path, ..asked }));
            loosely.is_some_and(Route::requires_seal)
        };
        let disguised = match is_unusual(asked.path) {
            true => readings(asked.path).iter().any(|reading| reading.as_deref().is_none_or(sealed)),
            false => sealed(asked.path),
        };
        if disguised {
            return Found::Disguised;
        }
    }
    found.map_or(Found::None, |(index, route)| Found::Route(index, route))
}

/// Whether services may disagree on what the path is.
fn is_unusual(path: &str) -> bool {
    path.contains(['%', '\\', ';']) || path.contains("//") || path.contains("/.")
}

/// The path as lenient services might read it: percent-decoded not at all, once, or twice (by a chain of them). `None`
/// is a path on which they disagree so much that it may be any.
fn readings(path: &str) -> [Option<String>; 5] {
    let bytes = path.as_bytes();
    let once = percent_decoded(bytes);
    let twice = percent_decoded(&once);
    // Who decodes for one that decodes again may have made a query of a part of the path.
    let bare = |path: &[u8]| path.split(|byte| b"?#".contains(byte)).next().unwrap_or_default().to_vec();
    let (bare_once, bare_twice) = (bare(&once), bare(&twice));
    [bytes, &once, &twice, &bare_once, &bare_twice].map(reading)
}

/// With `\` as `/`, and without parameters, empty segments and dots.
fn reading(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    // A slash within parameters is cut with them by one service, and ends them for another.
    let hides_slash = |segment: &str| segment.split_once(';').is_some_and(|(_, cut)| cut.contains(['%', '\\']));
    if text.split('/').any(hides_slash) {
        return None;
    }
    // Letters whose other case is an ASCII one: for who takes no notice of case they are that.
    let text = text.replace('\\', "/").replace('\u{17f}', "s").replace('\u{212a}', "k");
    let text = text.replace(['\u{130}', '\u{131}'], "i");
    let mut plain = String::with_capacity(text.len() + 1);
    let mut ends_open = true;
    for segment in text.split('/') {
        match segment.split(';').next().unwrap_or_default() {
            // Which segment it takes away depends on whether empty ones count.
            ".." => return None,
            "" | "." => ends_open = true,
            segment => {
                ends_open = false;
                plain.push('/');
                plain.push_str(segment);
            }
        }
    }
    if ends_open {
        plain.push('/');
    }
    Some(plain)
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
    use crate::upstream::{ServerAddress, Target, UpstreamSettings};

    fn routes() -> Vec<Route> {
        let target = Target::Servers(vec![ServerAddress::parse("http://127.0.0.1:1").unwrap()]);
        let upstream = Arc::new(Upstream::new(target, UpstreamSettings::default()));
        let route = |prefix: &str, sealed| Route {
            name: prefix.into(),
            matcher: Matcher {
                path_prefixes: if prefix.is_empty() { Vec::new() } else { vec![prefix.into()] },
                ..Matcher::default()
            },
            delay: Duration::ZERO,
            action: Action::Forward(Box::new(Forward {
                upstream: upstream.clone(),
                policy: ForwardPolicy { sealed, ..ForwardPolicy::default() },
                kept: None,
            })),
        };
        vec![route("/transaction/", Sealed::Required), route("", Sealed::Off)]
    }

    fn asked(path: &str) -> Asked<'_> {
        Asked { listener: "a", host: "h", path }
    }

    #[test]
    fn the_services_own_path_stands_before_the_requests_with_one_slash() {
        let target = |base: &str, uri: &str| {
            let policy = ForwardPolicy { upstream_path: Some(base.into()), ..ForwardPolicy::default() };
            policy.target(&uri.parse().unwrap()).to_string()
        };
        assert_eq!(target("/base", "/a%2fb/../c?x=/y"), "/base/a%2fb/../c?x=/y");
        assert_eq!(target("/base/", "/a"), "/base/a");
        assert_eq!(target("/base/", "/?q"), "/base/?q");
        assert_eq!(target("/base", "/"), "/base");
        assert_eq!(ForwardPolicy::default().target(&"/a//b".parse().unwrap()).to_string(), "/a//b");
    }

    #[test]
    fn a_host_is_matched_whatever_its_case_and_a_star_is_all_below() {
        let matcher = Matcher { hosts: vec!["example.com".into(), "*.example.org".into()], ..Matcher::default() };
        let matches = |host| matcher.matches(Asked { host, ..asked("/") });
        assert!(
            matches("example.com") && matches("EXAMPLE.com") && matches("a.example.org") && matches("a.b.Example.org")
        );
        assert!(!matches("a.example.com") && !matches("example.org") && !matches(".example.org") && !matches(""));
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
            // From the fuzz target `routes`: services differ in which segment `..` takes away, and in how often they decode.
            "/./transaction//../purchase",
            "/x/%2e%2e/transaction/%252e%252e/y",
            "/x/../transaction/a%2f..%2f..%2fb",
            "/./transaction/.",
            "/./transaction/;x",
            "/;\\x/transaction/purchase",
            "/;a%2fb/%74ransaction/purchase",
            "/TRANSACTION/purchase",
            "/Transaction/Purchase",
            "/transaction",
            "/tran%C5%BFaction/purchase",
            "/transact%C4%B1on/purchase",
            "/transaction%3Fx",
            "/transaction%2523x",
        ] {
            assert!(matches!(find(&routes, asked(path)), Found::Disguised), "{path}");
        }
    }

    #[tokio::test]
    async fn the_first_match_wins_and_plain_paths_pass_as_sent() {
        let routes = routes();
        assert!(matches!(find(&routes, asked("/transaction/purchase")), Found::Route(0, _)));
        for path in ["/", "/a%2fb/./c//d", "/transactions/x", "/x/transaction/"] {
            assert!(matches!(find(&routes, asked(path)), Found::Route(1, _)), "{path}");
        }
    }
}
