//! Sessions that two drivers agree.

use serde_json::{Value, json};

use super::driver::Driver;

/// The time of every case without one of its own, in Unix milliseconds.
pub(super) const NOW_MS: u64 = 1_800_000_000_000;
pub(super) const CLIENT_ID: &str = "conformance-1";
/// The service's identity on wire 3: a scalar that protects nothing, and its public key.
pub(super) const IDENTITY: &str = "000051ea151ea151ea151ea151ea151ea151ea151ea151ea151ea151ea151ea1";
pub(super) const IDENTITY_PUBLIC: &str = "04301b23bc5711fb0f5f1476019183934496f1a39635d0fb6d174031056bef0ab26297105b7d5e7aacadab5d7f1f8d418bb4025ea7c6a5686e554ebbc4fc9fbc54";

/// A way to agree a session: a wire, a path, on wire 3 a suite.
pub(super) struct Family {
    pub(super) name: String,
    pub(super) wire: u64,
    pub(super) path: &'static str,
    pub(super) suite: Option<String>,
}

/// A session as both ends know it.
pub(super) struct SessionPair {
    /// The handle of the client's session.
    pub(super) client: Value,
    /// The record of the server's session.
    pub(super) record: Value,
}

/// Returns all families that two languages can agree.
pub(super) fn families(client: &[String], server: &[String]) -> Vec<Family> {
    let old = [(1, "/session/init"), (1, "/session/init/anon"), (2, "/session/init"), (2, "/v1/session/init")];
    let mut families: Vec<_> = old
        .into_iter()
        .map(|(wire, path)| Family { name: format!("wire {wire} {path}"), wire, path, suite: None })
        .collect();
    families.extend(client.iter().filter(|suite| server.contains(suite)).map(|suite| Family {
        name: format!("wire 3 {suite}"),
        wire: 3,
        path: "/v3/sessions",
        suite: Some(suite.clone()),
    }));
    families
}

impl Family {
    /// Returns the members of `client.init`.
    pub(super) fn offer(&self) -> Value {
        json!({
            "wire": self.wire, "path": self.path, "client_id": CLIENT_ID, "ttl_sec": 600, "now_ms": NOW_MS,
            "suite": self.suite, "suites": self.suite.as_ref().map(|suite| [suite]), "trusted_hex": [IDENTITY_PUBLIC],
        })
    }

    /// Returns the members of `server.init` for a request.
    pub(super) fn served(&self, request: &Value) -> Value {
        json!({
            "path": self.path, "headers": request["headers"], "body_hex": request["body_hex"], "now_ms": NOW_MS,
            "suites": self.suite.as_ref().map(|suite| [suite]), "identity_hex": IDENTITY,
        })
    }
}

/// Returns the members of `client.finish` for an answer.
pub(super) fn finish(handle: &Value, answer: &Value) -> Value {
    json!({
        "handle": handle, "status": answer["status"], "headers": answer["headers"], "body_hex": answer["body_hex"],
        "now_ms": NOW_MS,
    })
}

/// Performs an init from end to end.
pub(super) fn agree(client: &mut Driver, server: &mut Driver, family: &Family) -> anyhow::Result<SessionPair> {
    let request = client.must("client.init", family.offer())?;
    let answer = server.must("server.init", family.served(&request))?;
    let finished = client.must("client.finish", finish(&request["handle"], &answer))?;
    anyhow::ensure!(finished["session_id"] == answer["session"]["id"], "{finished} and {}", answer["session"]["id"]);
    Ok(SessionPair { client: finished["session"].clone(), record: answer["session"].clone() })
}

/// Renews a session of wire 3, in sealed calls.
pub(super) fn renew(
    client: &mut Driver,
    server: &mut Driver,
    family: &Family,
    session: &SessionPair,
) -> anyhow::Result<SessionPair> {
    let suites = family.suite.as_ref().map(|suite| [suite]);
    let asked = json!({"session": session.client, "suite": family.suite, "suites": suites, "now_ms": NOW_MS});
    let request = client.must("client.renew", asked)?;
    let answer = server.must(
        "server.renew",
        json!({
            "session": session.record, "body_hex": request["body_hex"], "now_ms": NOW_MS, "suites": suites,
            "identity_hex": IDENTITY,
        }),
    )?;
    let finished = client.must("client.finish", finish(&request["handle"], &answer))?;
    anyhow::ensure!(finished["session_id"] == answer["session"]["id"], "the renewed session has two ids");
    anyhow::ensure!(answer["session"]["id"] != session.record["id"], "the renewed session is the old one");
    Ok(SessionPair { client: finished["session"].clone(), record: answer["session"].clone() })
}
