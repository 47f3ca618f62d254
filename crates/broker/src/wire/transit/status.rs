//! Endpoints beside the mount that clients call before their first operation.

use http::Method;
use sealway_runtime::clock::Clock;
use serde_json::json;

use super::answer::Answer;

/// Answers an endpoint that needs no token. Says nothing of keys or callers.
pub(super) fn public(method: &Method, path: &str, clock: &dyn Clock) -> Option<Answer> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let version = env!("CARGO_PKG_VERSION");
    let body = match path {
        "sys/health" => json!({
            "initialized": true,
            "sealed": false,
            "standby": false,
            "performance_standby": false,
            "replication_performance_mode": "disabled",
            "replication_dr_mode": "disabled",
            "server_time_utc": clock.now_ms() / 1000,
            "version": version,
            "cluster_name": "sealway",
            "cluster_id": "",
        }),
        "sys/seal-status" => json!({
            "type": "sealway",
            "initialized": true,
            "sealed": false,
            "t": 1,
            "n": 1,
            "progress": 0,
            "nonce": "",
            "version": version,
            "build_date": "",
            "migration": false,
            "cluster_name": "sealway",
            "cluster_id": "",
            "recovery_seal": false,
            "storage_type": "file",
        }),
        "sys/init" => json!({ "initialized": true }),
        _ => return None,
    };
    Some(Answer::plain(body))
}

/// Describes a caller's own token, by the name that the operator gave it.
pub(super) fn lookup_self(name: &str) -> Answer {
    Answer::data(json!({
        "accessor": "",
        "creation_time": 0,
        "creation_ttl": 0,
        "display_name": name,
        "entity_id": "",
        "expire_time": null,
        "explicit_max_ttl": 0,
        "id": "",
        "meta": null,
        "num_uses": 0,
        "orphan": true,
        "path": "auth/token/create",
        "policies": [name],
        "renewable": false,
        "ttl": 0,
        "type": "service",
    }))
}
