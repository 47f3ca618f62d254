//! The help text of each metric of listeners and of certificates. docs/reference/metrics.md has labels and values.

/// Names and help texts of metrics.
pub const METRICS: &[(&str, &str)] = &[
    ("sealway_connections", "Open connections, by listener"),
    ("sealway_connections_total", "Connections accepted, by listener"),
    ("sealway_connections_refused_total", "Connections refused at a bound, by listener"),
    ("sealway_handshake_failures_total", "TLS handshakes that failed, by listener and reason"),
    ("sealway_refused_requests_total", "Requests refused before a route was found, by listener and status"),
    ("sealway_http2_floods_total", "HTTP/2 connections ended for a flood of frames, by listener and kind of frame"),
    ("sealway_certificate_reloads_total", "Changed certificate files read again, by result"),
    (
        "sealway_certificate_expiry_seconds",
        "End of a certificate's validity, or next update of a CRL, in seconds since 1970; NaN if it is no longer in use",
    ),
];
