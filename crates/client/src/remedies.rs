//! Remedies of errors, by code.

/// Remedies by code: those of `spec/registry.toml` (of `errors`, else of `problems`, else of `public`), and those of the
/// codes that only SDKs have. [`Error::remedy`](crate::Error::remedy) looks a code up.
pub const REMEDIES: &[(&str, &str)] = &[
    (
        "CRYPTO_ERROR",
        "Look up the precise code in the server's log or in `sealway_refusals_total`: the response says no more on purpose.",
    ),
    ("METHOD_NOT_ALLOWED", "Use a method that the Allow header names."),
    ("NOT_FOUND", "Check the path and the route's rules."),
    ("PAYLOAD_TOO_LARGE", "Send less, or raise the bound of the route."),
    ("RATE_LIMITED", "Wait as long as Retry-After says. Keep sessions instead of agreeing one for each request."),
    (
        "SERVICE_UNAVAILABLE",
        "502 and 504: look at the service behind. 503: look at the store. The response carries Retry-After where a retry helps.",
    ),
    ("SESSION_EXPIRED", "Agree a new session and send the request again; SDKs do so by themselves."),
    (
        "SESSION_FORBIDDEN",
        "Use an authenticated session, the certificate of this client id, or ask the operator for the path.",
    ),
    ("WIRE_DISABLED", "Move the client to a newer protocol (docs on migration)."),
    (
        "aad_mismatch",
        "Do not change path, timestamp, nonce or client id after sealing; check for a proxy that rewrites them.",
    ),
    ("answer_mismatch", "Treat the response as forged. Check for a cache between client and service."),
    ("base64_invalid", "Check for a proxy that transcodes bodies. Send the body exactly as the SDK gives it."),
    ("body_too_large", "Send less, or raise the route's `body_max` (docs/reference/configuration.md)."),
    ("body_too_short", "Check for a proxy that cuts or replaces request bodies."),
    (
        "client_mismatch",
        "Send the X-ClientId with which the session was agreed. If a route binds client ids to certificates, use the certificate of this client.",
    ),
    ("clock_skew", "Synchronise the clocks. SDKs take the proven time of the response and retry once."),
    ("field_invalid", "Correct the member that the server's log names."),
    ("frame_invalid", "Check for a proxy that rewrites bodies; report it if both ends are Sealway's."),
    ("header_invalid", "Check for a proxy that joins, repeats or rewrites request headers."),
    (
        "header_missing",
        "Let an SDK of this protocol seal the request. If it does, a proxy in between drops headers: allow X-Kid, X-Idempotency-Key, X-Seal and X-Sealed through it.",
    ),
    ("idempotency_key_shape", "Do not set X-Idempotency-Key in application code: the SDK writes it."),
    (
        "inner_headers_invalid",
        "Send fewer or shorter headers; do not send hop-by-hop or sealing headers as inner headers.",
    ),
    ("json_invalid", "Send the JSON that spec/ gives for this path."),
    ("key_retired", "Update the pins from the service's key set (docs on identity keys), over a path that you trust."),
    ("key_untrusted", "If the service rotated its keys, update pins or root. Otherwise treat it as an attack."),
    ("kid_prefix", "Send X-Kid as the SDK gives it."),
    ("malformed", "Correct the message as the specification says; the server's log names the member."),
    ("method_not_allowed", "Use a method that the Allow header names."),
    ("network", "Check the network. The request may have been executed."),
    ("nonce_invalid", "Use a nonce of the length and alphabet that spec/session.md gives; an SDK does."),
    (
        "nonce_reserved",
        "Draw nonces of requests as spec/session.md says. If an SDK sent it, the message was reflected: look at what stands in between.",
    ),
    ("not_found", "Check the path."),
    ("policy", "Ask the operator to extend the client's policy, or use another route."),
    ("provider", "Look at the server's log and its start-up self-tests. Restart it; if it recurs, replace the host."),
    ("public_key_invalid", "Encode the key as 65 bytes, first byte 4, in base64."),
    ("rate_limited", "Wait as long as Retry-After says."),
    ("redirected", "Use the URL to which the service redirects, if that is the right service."),
    (
        "replayed",
        "Nothing, if a network retry caused it: the first copy was processed. Otherwise seal again for each attempt; a copy that the client did not send is an attack or a proxy that retries.",
    ),
    ("reservation_mismatch", "Report it, with the log lines of the request."),
    ("session_expired", "Agree a new session; SDKs do so by themselves."),
    (
        "session_unknown",
        "Agree a new session; SDKs do so by themselves. If it recurs, the gateways do not share one store, or the store lost its data.",
    ),
    ("signature_invalid", "Treat the response as forged. Check for a middlebox that rewrites bodies."),
    ("store_unavailable", "Wait as long as Retry-After says; the operator looks at the store."),
    (
        "stream_truncated",
        "Discard what was read. Retry if the call is safe to repeat; look for a timeout of a proxy if it recurs.",
    ),
    (
        "suite_downgraded",
        "Do not use the session: a machine on the path may have changed the offer. Check the service's `suites`.",
    ),
    ("suite_required", "Agree again with the suite that the response names; SDKs do so by themselves."),
    (
        "timeout",
        "Check the load of the service and the network; raise the timeout if calls take so long. The request may have been executed.",
    ),
    ("timestamp_invalid", "Send Unix milliseconds as decimal digits."),
    (
        "timestamp_outside_window",
        "Synchronise both clocks by NTP. Clients of the native protocol learn the server's time and retry by themselves; a repeated error means that requests are held back on their way for longer than the window.",
    ),
    ("too_large", "Send less, or raise the bound of the route."),
    ("unauthenticated", "Send Authorization, a client certificate or a DPoP proof as the service requires."),
    ("unconfirmed", "Treat the response as forged and agree a new session."),
    (
        "unreachable",
        "Check that the service runs, that host and port are right, and that this machine resolves the name and trusts the certificate.",
    ),
    (
        "unsealable",
        "Check that nothing in between rewrites the path, the method or the body, and that all gateways share one store.",
    ),
    (
        "unsealed",
        "Look at status and body: a proxy, not the service, answered. If it was the service, its route is not sealed.",
    ),
    ("upstream_timeout", "The operator looks at the service behind, or raises the route's timeout."),
    ("upstream_unreachable", "The operator looks at the service behind the gateway."),
    ("usage", "Correct the option or the argument that the message names."),
    ("wire_disabled", "Use a protocol that the service offers."),
    ("wire_mismatch", "Use one protocol for a session: seal with the SDK object that agreed it."),
];
