//! `sessions.wires` and `sessions.policies` of the configuration: as written, then checked.

use sealway_proto::limits::TTL_SEC_CONFIG_MAX;
use sealway_proto::session::native::Suite;
use sealway_proto::wire::Wire;
use sealway_runtime::config::{Problems, Within};
use serde::{Deserialize, Serialize};

use crate::policies::{ClientMatch, ClientPolicy, PolicyTable, Wires};

/// Maximum number of policies; each sealed call searches them in order.
const POLICIES_MAX: usize = 256;
/// Maximum number of entries of a list in a policy.
const LIST_LEN_MAX: usize = 256;

/// An entry of `sessions.policies` as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPolicy {
    /// Exact, or with a `*` at its end the beginning of client ids; wire 1 has none.
    /// - default: any
    client_id: Option<String>,
    /// Tenant of the session.
    /// - default: any
    tenant: Option<String>,
    /// Subject of the session.
    /// - default: any
    subject: Option<String>,
    /// Suites of wire 3 that may be agreed, by their names in `wire3.suites`.
    /// - default: all of `wire3.suites`
    suites: Option<Vec<String>>,
    /// Shortest life of a session; a shorter one is raised to it.
    ttl_min_sec: Within<u32, 1, { TTL_SEC_CONFIG_MAX as u64 }>,
    /// Longest life of a session; a longer one is cut to it.
    ttl_max_sec: Within<u32, 1, { TTL_SEC_CONFIG_MAX as u64 }>,
    /// Sealed calls may go to these and what is below them, segment by segment: `/pay` allows `/pay/1`, not `/payments`. A
    /// path with another reading, by escapes or dots, is allowed only where all its readings are.
    /// - type: list of paths
    /// - default: all
    routes: Option<Vec<String>>,
    /// Wires that may be used; `[]` denies the client.
    /// - type: list of 1, 2, 3
    /// - default: all
    wires: Option<Vec<u8>>,
}

/// Returns the wires of a list; all if there is no list.
pub(super) fn wires(at: &str, raw: Option<&[u8]>, problems: &mut Problems) -> Wires {
    let Some(raw) = raw else { return Wires::ALL };
    let known = raw.iter().filter_map(|number| {
        let wire = Wire::from_number(*number);
        problems.take(at, wire.ok_or_else(|| format!("{number} is no wire: they are 1, 2 and 3")))
    });
    Wires::of(known)
}

/// Returns the enabled wires: those of the list, or all if there is no list.
pub(super) fn served(raw: Option<&[u8]>, problems: &mut Problems) -> Wires {
    if raw.is_some_and(<[u8]>::is_empty) {
        problems.add("sessions.wires", "no wire would be served; name some of 1, 2 and 3");
    }
    wires("sessions.wires", raw, problems)
}

/// Builds the table of all policies, in their order.
pub(super) fn table(raw: &[RawPolicy], problems: &mut Problems) -> PolicyTable {
    if raw.len() > POLICIES_MAX {
        problems.add("sessions.policies", format!("there are more than {POLICIES_MAX}"));
    }
    let mut entries: Vec<(ClientMatch, ClientPolicy)> = Vec::with_capacity(raw.len().min(POLICIES_MAX));
    for (index, raw) in raw.iter().take(POLICIES_MAX).enumerate() {
        let at = format!("sessions.policies[{index}]");
        if entries.last().is_some_and(|(whom, _)| *whom == ClientMatch::default()) {
            problems.add(&at, "the one before it matches everybody, so this one never counts");
        }
        entries.push((whom(&at, raw, problems), policy(&at, raw, problems)));
    }
    PolicyTable::new(entries)
}

fn whom(at: &str, raw: &RawPolicy, problems: &mut Problems) -> ClientMatch {
    let mut text = |name: &str, text: &Option<String>| {
        let text = text.as_deref()?;
        if text.is_empty() {
            problems.add(format!("{at}.{name}"), "an empty one matches nobody; leave it out to match everybody");
        }
        Some(Box::from(text))
    };
    let whom = ClientMatch {
        client_id: text("client_id", &raw.client_id),
        tenant: text("tenant", &raw.tenant),
        subject: text("subject", &raw.subject),
    };
    let begin = whom.client_id.as_deref().map(|id| id.strip_suffix('*').unwrap_or(id));
    if begin.is_some_and(|begin| begin.contains('*')) {
        problems.add(format!("{at}.client_id"), "a * stands for the rest, at the end alone");
    }
    whom
}

fn policy(at: &str, raw: &RawPolicy, problems: &mut Problems) -> ClientPolicy {
    let ttl_min_sec = raw.ttl_min_sec.check(&format!("{at}.ttl_min_sec"), problems);
    let ttl_max_sec = raw.ttl_max_sec.check(&format!("{at}.ttl_max_sec"), problems);
    if let (Some(min), Some(max)) = (ttl_min_sec, ttl_max_sec)
        && min > max
    {
        problems.add(format!("{at}.ttl_min_sec"), format!("{min} is more than ttl_max_sec, {max}"));
    }
    let mut list = |name: &str, list: &Option<Vec<String>>, is_one: fn(&str) -> bool, expected: &str| {
        let list = list.as_deref()?;
        if list.len() > LIST_LEN_MAX {
            problems.add(format!("{at}.{name}"), format!("there are more than {LIST_LEN_MAX}"));
        }
        for entry in list.iter().filter(|entry| !is_one(entry)) {
            problems.add(format!("{at}.{name}"), format!("\"{entry}\" is no {expected}"));
        }
        Some(list.iter().map(|entry| Box::from(entry.as_str())).collect())
    };
    ClientPolicy {
        suites: list("suites", &raw.suites, is_suite, "suite, such as X25519MLKEM768"),
        routes: list("routes", &raw.routes, is_route, "path, such as /orders, which stands for what is below it too"),
        ttl_min_sec,
        ttl_max_sec,
        wires: wires(&format!("{at}.wires"), raw.wires.as_deref(), problems),
    }
}

/// True for the name of a suite in spec/session-3.md.
fn is_suite(name: &str) -> bool {
    Suite::from_name(name).is_some()
}

fn is_route(path: &str) -> bool {
    let has_dots = path.split('/').any(|segment| matches!(segment, "." | ".."));
    path.starts_with('/') && !has_dots && !path.contains(['?', '#', '*', '%', '\\', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(yaml: &str) -> (PolicyTable, String) {
        let raw: Vec<RawPolicy> = sealway_runtime::config::load_yaml(yaml).unwrap();
        let mut problems = Problems::default();
        let table = table(&raw, &mut problems);
        (table, problems.into_result().err().map(|err| err.to_string()).unwrap_or_default())
    }

    #[test]
    fn policies_are_read_in_their_order() {
        let (table, problems) = resolved(
            "- {client_id: app-*, tenant: acme, suites: [P256], ttl_min_sec: 60, ttl_max_sec: 600, routes: [/pay], wires: [3]}\n\
             - {subject: alice, routes: []}\n- {wires: []}",
        );
        assert_eq!(problems, "");
        let app = table.find(Some("app-1"), Some("alice"), Some("acme"));
        assert!(app.allows_suite("P256") && !app.allows_suite("X25519MLKEM768"));
        assert_eq!((app.clamp_ttl(1), app.clamp_ttl(9999)), (60, 600));
        assert!(app.allows_path("/pay/1") && !app.allows_path("/payments"));
        assert!(app.allows_wire(Wire::Native) && !app.allows_wire(Wire::V2));
        let (strong, problems) = resolved("- {suites: [SecP384r1MLKEM1024, MLKEM1024]}");
        let strong = strong.find(None, None, None);
        assert!(problems.is_empty() && strong.allows_suite("MLKEM1024") && !strong.allows_suite("P256"), "{problems}");
        let alice = table.find(Some("web"), Some("alice"), None);
        assert!(!alice.allows_path("/") && alice.allows_wire(Wire::V1));
        assert!(!table.find(None, None, None).allows_wire(Wire::V1));
    }

    #[test]
    fn meaningless_policies_are_rejected_by_their_path() {
        for (yaml, says) in [
            ("- {client_id: \"a*b\"}", "sessions.policies[0].client_id: a *"),
            ("- {tenant: \"\"}", "sessions.policies[0].tenant: an empty"),
            ("- {}\n- {subject: x}", "sessions.policies[1]: the one before"),
            ("- {suites: [x25519]}", "sessions.policies[0].suites: \"x25519\" is no suite"),
            ("- {routes: [pay]}", "sessions.policies[0].routes: \"pay\" is no path"),
            ("- {routes: [/pay/*]}", "routes: \"/pay/*\""),
            ("- {routes: [/a/../b]}", "routes: \"/a/../b\""),
            ("- {wires: [4]}", "sessions.policies[0].wires: 4 is no wire"),
            ("- {ttl_max_sec: 0}", "sessions.policies[0].ttl_max_sec: 0 is not"),
            ("- {ttl_min_sec: 9, ttl_max_sec: 8}", "ttl_min_sec: 9 is more"),
        ] {
            let (_, problems) = resolved(yaml);
            assert!(problems.contains(says), "{yaml}: {problems}");
        }
        let mut problems = Problems::default();
        served(Some(&[]), &mut problems);
        assert!(problems.into_result().unwrap_err().to_string().contains("sessions.wires: no wire"));
        assert_eq!(served(None, &mut Problems::default()), Wires::ALL);
    }
}
