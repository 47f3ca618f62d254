//! The help text of each metric of the relay. docs/reference/metrics.md has labels and values.

/// Names and help texts; those of Flowersec v1 are served with `--metrics-compat` alone.
pub const METRICS: &[(&str, &str)] = &[
    ("sealway_relay_connections", "Open WebSocket connections"),
    ("sealway_relay_channels", "Channels with at least one endpoint"),
    ("sealway_relay_attach_total", "Attach messages answered, by result and reason"),
    ("sealway_relay_replace_total", "Endpoints that attached in the place of an earlier one, by result"),
    ("sealway_relay_pair_latency_seconds", "Time from the first endpoint's attach to the second one's"),
    ("sealway_relay_encrypted_total", "Channels on which records followed the handshake"),
    ("sealway_relay_close_total", "Channels ended, by reason"),
    ("sealway_relay_forwarded_bytes_total", "Bytes forwarded"),
    ("sealway_relay_forwarded_messages_total", "Messages forwarded"),
    ("sealway_relay_waiting_bytes", "Bytes that wait for endpoints"),
    ("sealway_relay_waiting_bytes_max", "Most bytes that may wait for endpoints"),
    ("sealway_relay_remembered_tokens", "Used tokens remembered"),
    ("sealway_relay_remembered_tokens_max", "Most used tokens that may be remembered"),
    ("flowersec_tunnel_connections", "As sealway_relay_connections"),
    ("flowersec_tunnel_channels", "As sealway_relay_channels"),
    ("flowersec_tunnel_attach_total", "As sealway_relay_attach_total, with the reasons of v1"),
    ("flowersec_tunnel_replace_total", "As sealway_relay_replace_total"),
    ("flowersec_tunnel_pair_latency_seconds", "As sealway_relay_pair_latency_seconds"),
    ("flowersec_tunnel_encrypted_total", "As sealway_relay_encrypted_total"),
    ("flowersec_tunnel_close_total", "As sealway_relay_close_total, with the reasons of v1"),
];
