//! The help text of each metric of routes and upstreams; those of listeners are the runtime's. docs/reference/metrics.md has labels and values.

/// Names of metrics with their help texts.
pub const METRICS: &[(&str, &str)] = &[
    ("sealway_access_log_lost_total", "Lines of the access log that could not be written"),
    ("sealway_listener_up", "1 while the listener accepts connections"),
    ("sealway_config_reloads_total", "Reloads of the configuration, by result"),
    ("sealway_requests_total", "Requests answered, by route and class of status"),
    ("sealway_request_seconds", "Time from a request's head to its answer's head, by route"),
    ("sealway_upstream_failures_total", "Requests without an answer from the upstream, by status"),
    ("sealway_upstream_up", "1 while requests are sent to the server"),
    ("sealway_upstream_requests_total", "Requests sent to a server, health checks and retries included"),
    ("sealway_upstream_in_flight", "Requests in flight to a server"),
    ("sealway_upstream_idle_connections", "Idle HTTP/1.1 connections to a server"),
    ("sealway_upstream_connects_total", "Connections made to a server"),
    ("sealway_upstream_handshakes_total", "TLS handshakes with a server"),
    ("sealway_upstream_connect_failures_total", "Connections to a server that failed"),
    (
        "sealway_mle_messages_total",
        "Messages of card schemes that were opened, sealed or signed, by route, profile and step",
    ),
    ("sealway_mle_key_uses_total", "Tokens and requests that a key opened, sealed or signed, by kid"),
    ("sealway_mle_key_expiry_seconds", "End of the validity of a key's certificate, in seconds since 1970, by key"),
    ("sealway_mle_broker_calls_total", "Calls to a broker that holds a key which opens, by key and result"),
    ("sealway_sealed_calls_total", "Requests sealed without a session that opened and were new, by wire"),
    ("sealway_one_shot_opens_total", "Requests sealed without a session, by mode, KEM and result"),
    ("sealway_one_shot_open_seconds", "Time to open the first frame of a request, by KEM"),
    ("sealway_one_shot_trial_opens_total", "Keys of EHBP that were tried in vain"),
    ("sealway_one_shot_key_used_total", "Requests to a key, by use and name"),
    ("sealway_one_shot_key_accepted_until_seconds", "End of a key, in seconds since 1970, by use and name"),
    ("sealway_tunnels_total", "Connections, or streams of HTTP/2, that changed to another protocol, by upstream"),
    ("sealway_tunnels", "Connections and streams in another protocol that are open, by upstream"),
];
