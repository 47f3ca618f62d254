//! Permissions of clients by their identity: `sessions.policies`, an ordered list of which the first match counts; and
//! the set of enabled wires.
//!
//! A client id is the client's own claim. A policy that must hold against a lying client requires a subject or a
//! tenant, or stands last without a condition.

use sealway_proto::session::{SessionRecord, TtlPolicy};
use sealway_proto::wire::Wire;

/// Set of wires, as policies and the setting `sessions.wires` name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wires([bool; Wire::ALL.len()]);

impl Wires {
    /// The set of all wires.
    pub const ALL: Wires = Wires([true; Wire::ALL.len()]);

    /// Creates a set of the given wires.
    pub fn of(wires: impl IntoIterator<Item = Wire>) -> Self {
        let mut set = Wires([false; Wire::ALL.len()]);
        for wire in wires {
            if let Some(is_in) = set.0.get_mut(index(wire)) {
                *is_in = true;
            }
        }
        set
    }

    /// True if the set contains the wire.
    pub fn has(self, wire: Wire) -> bool {
        // Routes alone say where requests without a session are served.
        self.0.get(index(wire)).copied().unwrap_or(true)
    }
}

/// Returns the index of a wire in [`Wire::ALL`]; behind its end for a wire without sessions.
pub(crate) fn index(wire: Wire) -> usize {
    usize::from(wire.number()).saturating_sub(1)
}

/// Permissions of the clients that match a policy. An unset field allows everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientPolicy {
    /// Names of the suites of wire 3 that may be agreed; all of the server's if `None`.
    pub suites: Option<Vec<Box<str>>>,
    /// Minimum lifetime of a session, in seconds.
    pub ttl_min_sec: Option<u32>,
    /// Maximum lifetime of a session, in seconds.
    pub ttl_max_sec: Option<u32>,
    /// Paths that sealed calls may go to, each with everything below it; any path if `None`.
    pub routes: Option<Vec<Box<str>>>,
    /// Wires that the client may use.
    pub wires: Wires,
}

impl ClientPolicy {
    /// A policy that allows everything.
    pub const OPEN: ClientPolicy =
        ClientPolicy { suites: None, ttl_min_sec: None, ttl_max_sec: None, routes: None, wires: Wires::ALL };

    /// True if the suite of this name may be agreed.
    pub fn allows_suite(&self, name: &str) -> bool {
        self.suites.as_ref().is_none_or(|suites| suites.iter().any(|suite| **suite == *name))
    }

    /// True if the wire may be used.
    pub fn allows_wire(&self, wire: Wire) -> bool {
        self.wires.has(wire)
    }

    /// Clamps a session's lifetime, in seconds, to the policy's bounds.
    pub fn clamp_ttl(&self, sec: u32) -> u32 {
        let sec = sec.max(self.ttl_min_sec.unwrap_or(0));
        sec.min(self.ttl_max_sec.unwrap_or(u32::MAX))
    }

    /// Clamps each lifetime of sessions of wires 1 and 2 to the policy's bounds.
    pub(crate) fn clamp_all(&self, ttl: &TtlPolicy) -> TtlPolicy {
        TtlPolicy {
            min_sec: self.clamp_ttl(ttl.min_sec),
            max_sec: self.clamp_ttl(ttl.max_sec),
            default_sec: self.clamp_ttl(ttl.default_sec),
            v1_anonymous_sec: self.clamp_ttl(ttl.v1_anonymous_sec),
            v1_authenticated_sec: self.clamp_ttl(ttl.v1_authenticated_sec),
            wire1_anonymous_sec: self.clamp_ttl(ttl.wire1_anonymous_sec),
        }
    }

    /// True if a sealed call may go to `path`, which is as sent, without its query. A path that a service could read as
    /// another one, by decoding or by resolving dots, is allowed only if every reading of it is.
    pub fn allows_path(&self, path: &str) -> bool {
        let Some(routes) = &self.routes else { return true };
        let path = path.as_bytes();
        let once = percent_decoded(path);
        let twice = percent_decoded(&once);
        let readings = [path, &once, &twice];
        !readings.iter().any(|reading| is_unsteady(reading))
            && routes.iter().any(|route| readings.iter().all(|reading| is_below(reading, route.as_bytes())))
    }
}

/// True if `path` is `route` or below it, segment by segment: `/payments` is not below `/pay`.
fn is_below(path: &[u8], route: &[u8]) -> bool {
    let route = route.strip_suffix(b"/").unwrap_or(route);
    path.strip_prefix(route).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// True if services may disagree on the target of a path: dot segments, with or without parameters, backslashes, and
/// characters that end a path.
fn is_unsteady(path: &[u8]) -> bool {
    let is_dots = |segment: &[u8]| {
        let bare = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        matches!(bare, b"." | b"..")
    };
    path.iter().any(|byte| matches!(byte, b'\\' | b'?' | b'#' | 0)) || path.split(|byte| *byte == b'/').any(is_dots)
}

fn percent_decoded(bytes: &[u8]) -> Vec<u8> {
    let hex = |byte: u8| char::from(byte).to_digit(16);
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, behind @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                let value = hex(*high).unwrap_or_default() * 16 + hex(*low).unwrap_or_default();
                out.push(value as u8);
                rest = behind;
            }
            (byte, _) => out.push(*byte),
        }
    }
    out
}

/// Condition of a policy. All fields that are set must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientMatch {
    /// Client id; with a `*` at its end, a prefix. Wire 1 has no client ids and never matches.
    pub client_id: Option<Box<str>>,
    /// Tenant of the session, matched exactly.
    pub tenant: Option<Box<str>>,
    /// Subject of the session, matched exactly.
    pub subject: Option<Box<str>>,
}

impl ClientMatch {
    fn matches(&self, client_id: Option<&str>, subject: Option<&str>, tenant: Option<&str>) -> bool {
        let same = |asked: &Option<Box<str>>, is: Option<&str>| asked.as_deref().is_none_or(|asked| is == Some(asked));
        let is_client = self.client_id.as_deref().is_none_or(|asked| match asked.strip_suffix('*') {
            Some(begin) => client_id.is_some_and(|id| id.starts_with(begin)),
            None => client_id == Some(asked),
        });
        is_client && same(&self.subject, subject) && same(&self.tenant, tenant)
    }
}

/// All policies, in their order.
#[derive(Clone, Debug, Default)]
pub struct PolicyTable(Vec<(ClientMatch, ClientPolicy)>);

impl PolicyTable {
    /// Creates a table; the first match counts.
    pub fn new(entries: Vec<(ClientMatch, ClientPolicy)>) -> Self {
        PolicyTable(entries)
    }

    /// Returns the first policy that matches; [`ClientPolicy::OPEN`] if none does.
    pub fn find(&self, client_id: Option<&str>, subject: Option<&str>, tenant: Option<&str>) -> &ClientPolicy {
        let found = self.0.iter().find(|(whom, _)| whom.matches(client_id, subject, tenant));
        found.map_or(&ClientPolicy::OPEN, |(_, policy)| policy)
    }

    /// Returns the longest lifetime that any client's session gets, in seconds, where others get `max_sec` at most.
    pub(crate) fn longest_ttl_sec(&self, max_sec: u32) -> u32 {
        self.0.iter().map(|(_, policy)| policy.clamp_ttl(max_sec)).fold(max_sec, u32::max)
    }

    /// Returns the policy of a session's client.
    pub fn of(&self, record: &SessionRecord) -> &ClientPolicy {
        self.find(record.client_id.as_deref(), record.subject.as_deref(), record.tenant.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(routes: &[&str]) -> ClientPolicy {
        let routes = routes.iter().map(|route| Box::from(*route)).collect();
        ClientPolicy { routes: Some(routes), ..ClientPolicy::OPEN }
    }

    #[test]
    fn a_route_allows_itself_and_what_is_below_it_and_no_path_that_only_begins_alike() {
        let policy = routes(&["/pay", "/orders/"]);
        for path in
            ["/pay", "/pay/", "/pay/1", "/pay/a%20b", "/pay//1", "/orders", "/orders/7", "/pay/a;v=1", "/pay/.x"]
        {
            assert!(policy.allows_path(path), "{path}");
        }
        for path in ["/payments", "/pay-1", "/", "", "/PAY", "/a/pay", "//pay", "/pay%2f1", "/pay;x", "/pa", "pay"] {
            assert!(!policy.allows_path(path), "{path}");
        }
        assert!(routes(&["/"]).allows_path("/any/thing"));
        assert!(!routes(&[]).allows_path("/any"));
        assert!(ClientPolicy::OPEN.allows_path("/any/../thing"));
    }

    #[test]
    fn no_spelling_of_a_path_leads_out_of_its_route() {
        let policy = routes(&["/pay"]);
        for path in [
            "/pay/../admin",
            "/pay/./../admin",
            "/pay/%2e%2e/admin",
            "/pay/%2E./admin",
            "/pay/%252e%252e/admin",
            "/pay/..;/admin",
            "/pay/..;x=1/admin",
            "/pay/..%2fadmin",
            "/pay/..%252fadmin",
            "/pay\\..\\admin",
            "/pay/%5c..%5cadmin",
            "/pay/..",
            "/%70ay/../admin",
            "/admin/../pay",
            "/pay/%00/x",
            "/pay/x%3f/../y",
        ] {
            assert!(!policy.allows_path(path), "{path}");
        }
        // Another spelling of the path differs from the listed one, as for routes.
        assert!(!policy.allows_path("/%70ay"));
    }

    #[test]
    fn the_first_match_counts_and_everything_is_allowed_where_none_matches() {
        let only = |wire| ClientPolicy { wires: Wires::of([wire]), ..ClientPolicy::OPEN };
        let whom = |client_id: Option<&str>, subject: Option<&str>, tenant: Option<&str>| {
            let [client_id, subject, tenant] = [client_id, subject, tenant].map(|text| text.map(Into::into));
            ClientMatch { client_id, tenant, subject }
        };
        let table = PolicyTable::new(vec![
            (whom(Some("app-7"), None, None), only(Wire::V1)),
            (whom(Some("app-*"), None, Some("acme")), only(Wire::V2)),
            (whom(None, Some("alice"), None), only(Wire::Native)),
        ]);
        let found =
            |client_id, subject, tenant| Wire::ALL.map(|w| table.find(client_id, subject, tenant).allows_wire(w));
        assert_eq!(found(Some("app-7"), Some("alice"), Some("acme")), [true, false, false]);
        assert_eq!(found(Some("app-8"), Some("alice"), Some("acme")), [false, true, false]);
        assert_eq!(found(Some("app-8"), Some("alice"), Some("other")), [false, false, true]);
        assert_eq!(found(None, Some("alice"), Some("acme")), [false, false, true]);
        for (client_id, tenant) in
            [(Some("app-8"), None), (Some("ap"), Some("acme")), (None, Some("acme")), (None, None)]
        {
            assert_eq!(found(client_id, None, tenant), [true; 3], "{client_id:?} {tenant:?}");
        }
    }

    #[test]
    fn lives_are_brought_within_a_policys_bounds() {
        let policy = ClientPolicy { ttl_min_sec: Some(400), ttl_max_sec: Some(1000), ..ClientPolicy::OPEN };
        assert_eq!([0, 400, 700, 1000, u32::MAX].map(|sec| policy.clamp_ttl(sec)), [400, 400, 700, 1000, 1000]);
        let ttl = policy.clamp_all(&TtlPolicy::default());
        assert_eq!((ttl.min_sec, ttl.max_sec, ttl.default_sec), (400, 1000, 1000));
        assert_eq!(ClientPolicy::OPEN.clamp_ttl(u32::MAX), u32::MAX);
        assert!(ClientPolicy { suites: Some(vec!["P256".into()]), ..policy }.allows_suite("P256"));
        assert!(!ClientPolicy { suites: Some(vec![]), ..ClientPolicy::OPEN }.allows_suite("P256"));
    }
}
