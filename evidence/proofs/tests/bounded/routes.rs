//! Decisions on routes: `crates/proto/src/routes/`, `crates/gateway/src/route.rs`.

use std::sync::Arc;
use std::time::Duration;

use sealway_gateway::route::{Action, Forward, ForwardPolicy, Matcher, Route, RouteQuery, Sealing, Selection, find};
use sealway_gateway::upstream::{ServerAddress, Target, Upstream, UpstreamSettings};
use sealway_proto::routes::{Decision, Pattern, PatternInvalid, SealMode, decide};

use crate::cases::texts;
use crate::{Counterexample, Outcome, ensure};

/// The name of the harness.
pub(crate) const NAME: &str = "route-decisions";
/// The property that it checks.
pub(crate) const PROPERTY: &str = "The first rule that names a path decides, or the request is refused. No path that any reading takes for a \
     sealed one passes as plain: readings decode it up to three times, take a backslash for a slash, cut parameters, drop empty segments, \
     trim dots and spaces, resolve dot segments, and ignore case. A path in its plain spelling is refused only if it is such a reading. \
     The gateway's routes decide as the rules do.";

/// Symbols of paths: separators, letters, dots, escapes of them once and twice, parameters, backslashes.
pub(crate) const SYMBOLS: &[&[u8]] = &[
    b"/",
    b"a",
    b"A",
    b"b",
    b".",
    b"..",
    b"%2e",
    b"%2e%2E",
    b"%252e%252e",
    b"%2f",
    b"%252F",
    b"%25",
    b"61",
    b"%61",
    b"%2541",
    b";",
    b";x",
    b"\\",
    b"%5c",
    b"%3f",
    b"%20",
];
pub(crate) const PLACES: [(&str, &str); 6] =
    [("/", ""), ("/", "a"), ("/", "/a/x"), ("/b/", ""), ("/b/", "a"), ("/b/", "/a/x")];

/// A rule: its mode, and its path with `=` before an exact one.
type Rule = (SealMode, &'static str);

/// The rule sets: a sealed part, a sealed path, a plain part, one within the other, and a rule that comes too late.
pub(crate) const RULES: &[&[Rule]] = &[
    &[(SealMode::Required, "/a/"), (SealMode::Off, "/")],
    &[(SealMode::Required, "=/a"), (SealMode::Optional, "/")],
    &[(SealMode::Off, "/b/"), (SealMode::Required, "/")],
    &[(SealMode::Off, "/a/b/"), (SealMode::Required, "/a/"), (SealMode::Off, "/")],
    &[(SealMode::Off, "=/a/b"), (SealMode::Required, "/a/"), (SealMode::Off, "/")],
    &[(SealMode::Optional, "/b/")],
    &[(SealMode::Off, "/"), (SealMode::Required, "/a/")],
];

/// A rule set, as patterns and as routes of a gateway.
pub(crate) struct RuleSet {
    rules: Vec<(Pattern, SealMode)>,
    routes: Vec<Route>,
}

impl RuleSet {
    /// Parses the rules of a set.
    pub(crate) fn new(rules: &[Rule]) -> Result<Self, Counterexample> {
        let failed = |err: PatternInvalid| Counterexample(err.to_string());
        let address = ServerAddress::parse("http://127.0.0.1:1").map_err(|_| Counterexample("no server".into()))?;
        let upstream = Arc::new(Upstream::new(Target::Servers(vec![address]), UpstreamSettings::default()));
        let (mut patterns, mut routes) = (Vec::new(), Vec::new());
        for (mode, path) in rules {
            let pattern = match path.strip_prefix('=') {
                Some(exact) => Pattern::exact(exact),
                None => Pattern::prefix(*path),
            };
            let pattern = pattern.map_err(failed)?;
            let sealed = match mode {
                SealMode::Required => Sealing::Required,
                SealMode::Optional => Sealing::Optional,
                SealMode::Off => Sealing::Off,
            };
            let policy = ForwardPolicy { sealed, ..ForwardPolicy::default() };
            routes.push(Route {
                name: String::new(),
                matcher: Matcher { patterns: vec![pattern.clone()], ..Matcher::default() },
                delay: Duration::ZERO,
                action: Action::Forward(Box::new(Forward {
                    upstream: upstream.clone(),
                    policy,
                    kept: None,
                    mle: None,
                })),
            });
            patterns.push((pattern, *mode));
        }
        Ok(RuleSet { rules: patterns, routes })
    }

    /// Returns the first rule that names a path byte for byte.
    fn first(&self, path: &str) -> Option<usize> {
        self.rules.iter().position(|(pattern, _)| {
            if pattern.is_prefix() { path.starts_with(pattern.path()) } else { path == pattern.path() }
        })
    }

    /// Returns whether a service that reads the path as this text, and ignores case and a slash at the end, takes it for one
    /// that must be sealed. A plain path that is named in full is meant as it stands, so it excuses no other spelling.
    fn seals(&self, reading: &[u8]) -> bool {
        let named = self.rules.iter().find(|(pattern, mode)| {
            (pattern.is_prefix() || *mode == SealMode::Required) && names_loosely(pattern, reading)
        });
        named.is_none_or(|(_, mode)| *mode == SealMode::Required)
    }
}

/// Returns whether a pattern names a path for a service that ignores case and a slash at the end.
fn names_loosely(pattern: &Pattern, path: &[u8]) -> bool {
    let bare = |path: &[u8]| {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        path.get(..end).unwrap_or_default().to_ascii_lowercase()
    };
    let (text, own) = (bare(path), pattern.path().as_bytes());
    if pattern.is_prefix() {
        [&text[..], b"/"].concat().starts_with(&own.to_ascii_lowercase())
    } else {
        bare(own) == text
    }
}

pub(crate) type Decide<'a> = &'a dyn Fn(&RuleSet, &str) -> Decision<usize>;

pub(crate) fn by_rules(set: &RuleSet, path: &str) -> Decision<usize> {
    decide(set.rules.iter().enumerate().map(|(at, (pattern, mode))| (pattern, *mode, at)), path)
}

/// Checks every rule set with every path of up to `len_max` symbols at each place.
pub(crate) fn check(decide: Decide<'_>, len_max: usize) -> Outcome {
    let mut cases = 0;
    for rules in RULES {
        let set = RuleSet::new(rules)?;
        for (before, behind) in PLACES {
            cases += texts(SYMBOLS, len_max, |text| {
                let path = format!("{before}{}{behind}", String::from_utf8_lossy(text));
                check_path(decide, &set, &path).map_err(|found| Counterexample(format!("rules {rules:?}, {}", found.0)))
            })?;
        }
    }
    Ok(cases)
}

fn check_path(decide: Decide<'_>, set: &RuleSet, path: &str) -> Outcome {
    let decision = decide(set, path);
    let first = set.first(path);
    let mode = first.and_then(|at| set.rules.get(at)).map(|(_, mode)| *mode);
    let expected = match (first, mode) {
        (Some(at), Some(SealMode::Optional)) => Decision::Optional(at),
        (Some(at), Some(SealMode::Off)) => Decision::Plain(at),
        _ => Decision::Sealed(first),
    };
    let is_sealed = matches!(expected, Decision::Sealed(_));
    ensure!(
        decision == expected || (!is_sealed && decision == Decision::Refused),
        "path {path}: {decision:?}, but its first rule says {expected:?}"
    );
    let is_exact = first.and_then(|at| set.rules.get(at)).is_some_and(|(pattern, _)| !pattern.is_prefix());
    if decision == expected && !is_sealed && !is_exact {
        for reading in readings(path.as_bytes()) {
            ensure!(
                !set.seals(&reading),
                "path {path}: {decision:?}, but a service may read {}",
                reading.escape_ascii()
            );
        }
    }
    if decision == Decision::Refused {
        let is_plain = |segment: &str| !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_lowercase());
        let is_spelt_plainly = path.strip_prefix('/').is_some_and(|path| path.split('/').all(is_plain));
        // A rule behind the one that decides may be narrower, and sealed: then the path is refused in any spelling.
        let is_late = set
            .rules
            .iter()
            .any(|(pattern, mode)| *mode == SealMode::Required && names_loosely(pattern, path.as_bytes()));
        ensure!(
            !is_spelt_plainly || set.seals(path.as_bytes()) || is_late,
            "path {path}: refused in its plain spelling"
        );
    }
    let selected = match find(&set.routes, RouteQuery { listener: "l", host: "h", path }) {
        Selection::Route(at, _) => Some(at),
        Selection::None => None,
        Selection::Disguised => Some(usize::MAX),
    };
    let by_rules = match by_rules(set, path) {
        Decision::Sealed(at) => at,
        Decision::Optional(at) | Decision::Plain(at) => Some(at),
        Decision::Refused => Some(usize::MAX),
    };
    ensure!(selected == by_rules, "path {path}: the gateway selects {selected:?}, the rules {by_rules:?}");
    Ok(1)
}

/// Returns a path as different services read it.
pub(crate) fn readings(path: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut texts = vec![path.to_vec()];
    // A URL parser takes the text after two slashes for a host.
    if let Some(host) = path.strip_prefix(b"//")
        && let Some(at) = host.iter().position(|byte| *byte == b'/')
    {
        texts.push(host.get(at..).unwrap_or_default().to_vec());
    }
    for _ in 0..4 {
        for text in &texts {
            let query = text.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(text.len());
            for text in [&text[..], text.get(..query).unwrap_or_default()] {
                for option in 0..16_u8 {
                    all.push(read(text, option));
                }
            }
        }
        let cut: Vec<Vec<u8>> =
            texts.iter().filter(|text| text.contains(&b';')).map(|text| without_parameters(text)).collect();
        texts.extend(cut);
        texts.retain(|text| text.contains(&b'%'));
        texts.iter_mut().for_each(|text| *text = decoded(text));
        texts.sort_unstable();
        texts.dedup();
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Reads a decoded path. Bits of `option`: a backslash is a slash, parameters are cut, empty segments are dropped, dots and
/// spaces at the end of a segment are dropped.
fn read(path: &[u8], option: u8) -> Vec<u8> {
    let [backslash, parameters, empty, trim] = [1, 2, 4, 8].map(|bit| option & bit != 0);
    let text: Vec<u8> = path.iter().map(|byte| if backslash && *byte == b'\\' { b'/' } else { *byte }).collect();
    let text = if parameters { without_parameters(&text) } else { text };
    let mut out: Vec<&[u8]> = Vec::new();
    let segments: Vec<&[u8]> = text.split(|byte| *byte == b'/').skip(1).collect();
    let last = segments.len().saturating_sub(1);
    for (at, segment) in segments.into_iter().enumerate() {
        let end = segment.iter().rposition(|byte| !matches!(byte, b' ' | b'.')).map(|last| last + 1);
        let segment = match end {
            Some(end) if trim => segment.get(..end).unwrap_or_default(),
            _ => segment,
        };
        match segment {
            b"." => {}
            b".." => drop(out.pop()),
            b"" if empty && at < last => continue,
            _ => {
                out.push(segment);
                continue;
            }
        }
        // A dot segment at the end leaves its slash.
        if at == last {
            out.push(b"");
        }
    }
    let mut read = Vec::with_capacity(path.len());
    for segment in out {
        read.push(b'/');
        read.extend_from_slice(segment);
    }
    read
}

fn without_parameters(path: &[u8]) -> Vec<u8> {
    let segments = path.split(|byte| *byte == b'/');
    let bare: Vec<&[u8]> =
        segments.map(|segment| segment.split(|byte| *byte == b';').next().unwrap_or_default()).collect();
    bare.join(&b'/')
}

/// Replaces each escape by its byte, once.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (mut out, mut left) = (Vec::with_capacity(text.len()), text);
    while let Some((first, after)) = left.split_first() {
        let byte = match (first, after) {
            (b'%', [high, low, ..]) => digit(high).zip(digit(low)).map(|(high, low)| high * 16 + low),
            _ => None,
        };
        out.push(byte.unwrap_or(*first));
        left = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound;
    use crate::report::{finds, holds};

    #[test]
    fn routes_hold_their_property() {
        let bounds = format!(
            "{} rule sets, {} places, paths of up to {} of {} symbols",
            RULES.len(),
            PLACES.len(),
            bound(2, 3),
            SYMBOLS.len()
        );
        holds(NAME, PROPERTY, &bounds, || check(&by_rules, bound(2, 3)));
    }

    #[test]
    fn a_decision_without_disguises_is_found() {
        finds(NAME, "a path without an escape is not looked at", || {
            check(
                &|set, path| match by_rules(set, path) {
                    Decision::Refused if !path.contains('%') => match set.first(path) {
                        Some(at) => Decision::Plain(at),
                        None => Decision::Sealed(None),
                    },
                    decision => decision,
                },
                2,
            )
        });
    }

    #[test]
    fn an_escape_that_is_decoded_once_is_found() {
        finds(NAME, "an escape of an escape is not decoded", || {
            check(
                &|set, path| match (by_rules(set, path), set.first(path)) {
                    (Decision::Refused, Some(at)) if path.contains("%25") => match set.rules.get(at) {
                        Some((_, SealMode::Off)) => Decision::Plain(at),
                        _ => Decision::Optional(at),
                    },
                    (decision, _) => decision,
                },
                2,
            )
        });
    }
}
