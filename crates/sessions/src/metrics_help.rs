//! The help text of each metric of the session authority. docs/reference/metrics.md has labels and values.

/// Names of metrics with their help texts.
pub const METRICS: &[(&str, &str)] = &[
    ("sealway_inits_total", "Sessions granted, by protocol"),
    ("sealway_last_init_seconds", "Time of the last session granted on a protocol, in seconds since 1970; 0 for none"),
    (
        "sealway_last_call_seconds",
        "Time of the last sealed call opened on a protocol, in seconds since 1970; 0 for none",
    ),
    ("sealway_introspections_total", "Token introspections, by result"),
    ("sealway_sealed_calls_total", "Sealed calls opened that were no replays, by protocol"),
    ("sealway_refusals_total", "Requests rejected, by part and reason"),
    ("sealway_sessions", "Sessions held"),
    ("sealway_nonces", "Nonces held, by scope"),
    ("sealway_nonces_max", "Most nonces of a scope that this process holds"),
    ("sealway_nonces_full", "1 while the nonce store is full and requests are refused for it"),
    (
        "sealway_rows_refused_total",
        "Stored sessions of an earlier release that are not authenticated, and were taken for no session",
    ),
    ("sealway_store_up", "1 while the store takes sessions and nonces"),
    ("sealway_store_part_up", "1 while this part of the store answers"),
    ("sealway_store_pool", "Connections to the store, and callers that wait for one"),
    ("sealway_store_seconds", "Duration of store operations"),
    ("sealway_store_failures_total", "Store operations that failed or were too late"),
    ("sealway_session_cache_looks_total", "Lookups in the session cache, by what was found"),
    ("sealway_identity_key_expiry_seconds", "End of an identity key's validity, in seconds since 1970"),
    ("sealway_key_set_expiry_seconds", "End of the validity of the root-signed key set, in seconds since 1970"),
];
