// Generated from spec/registry.toml by `cargo xtask codegen`.
package dev.sealway.wire;

/** The remedy of each error code. */
public final class Remedies {
    private Remedies() {}

    /** Returns the remedy of a code, or an empty string. */
    public static String of(String code) {
        return switch (code) {
            case "CRYPTO_ERROR" -> "Look up the precise code in the server's log or in `sealway_refusals_total`: the response says no more on purpose.";
            case "METHOD_NOT_ALLOWED" -> "Use a method that the Allow header names.";
            case "NOT_FOUND" -> "Check the path and the route's rules.";
            case "PAYLOAD_TOO_LARGE" -> "Send less, or raise the bound of the route.";
            case "RATE_LIMITED" -> "Wait as long as Retry-After says. Keep sessions instead of agreeing one for each request.";
            case "SERVICE_UNAVAILABLE" -> "500: look at the route's `standalone`, or at the status of its HTTPRoute. 502 and 504: look at the service behind. 503: look at the store. The response carries Retry-After where a retry helps.";
            case "SESSION_EXPIRED" -> "Agree a new session and send the request again; SDKs do so by themselves.";
            case "SESSION_FORBIDDEN" -> "Use an authenticated session, the certificate of this client id, or ask the operator for the path.";
            case "WIRE_DISABLED" -> "Move the client to a newer protocol (docs on migration).";
            case "aad_mismatch" -> "Do not change path, timestamp, nonce or client id after sealing; check for a proxy that rewrites them.";
            case "answer_mismatch" -> "Treat the response as forged. Check for a cache between client and service.";
            case "base64_invalid" -> "Check for a proxy that transcodes bodies. Send the body exactly as the SDK gives it.";
            case "body_too_large" -> "Send less, or raise the route's `body_max` (docs/reference/configuration.md).";
            case "body_too_short" -> "Check for a proxy that cuts or replaces request bodies.";
            case "client_mismatch" -> "Send the X-ClientId with which the session was agreed. If a route binds client ids to certificates, use the certificate of this client.";
            case "clock_skew" -> "Synchronise the clocks. SDKs take the proven time of the response and retry once.";
            case "field_invalid" -> "Correct the member that the server's log names.";
            case "frame_invalid" -> "Check for a proxy that rewrites bodies; report it if both ends are Sealway's.";
            case "header_invalid" -> "Check for a proxy that joins, repeats or rewrites request headers.";
            case "header_missing" -> "Let an SDK of this protocol seal the request. If it does, a proxy in between drops headers: allow X-Kid, X-Idempotency-Key, X-Seal and X-Sealed through it.";
            case "idempotency_key_shape" -> "Do not set X-Idempotency-Key in application code: the SDK writes it.";
            case "inner_headers_invalid" -> "Send fewer or shorter headers; do not send hop-by-hop or sealing headers as inner headers.";
            case "json_invalid" -> "Send the JSON that spec/ gives for this path.";
            case "key_retired" -> "Update the client's pins.";
            case "key_untrusted" -> "If the service rotated its keys, update pins or root. Otherwise treat it as an attack.";
            case "kid_prefix" -> "Send X-Kid as the SDK gives it.";
            case "malformed" -> "Correct the message as the specification says; the server's log names the member.";
            case "method_not_allowed" -> "Use a method that the Allow header names.";
            case "network" -> "Check what stands between client and service. The service may have processed the request: retry only what may run twice.";
            case "nonce_invalid" -> "Use a nonce of the length and alphabet that spec/session.md gives; an SDK does.";
            case "nonce_reserved" -> "Draw nonces of requests as spec/session.md says. If an SDK sent it, the message was reflected: look at what stands in between.";
            case "not_found" -> "Check the path.";
            case "policy" -> "Ask the operator to extend the client's policy.";
            case "provider" -> "Look at the server's log and its start-up self-tests. Restart it; if it recurs, replace the host.";
            case "public_key_invalid" -> "Encode the key as 65 bytes, first byte 4, in base64.";
            case "rate_limited" -> "Wait as long as Retry-After says.";
            case "redirected" -> "Use the URL that the redirect leads to, if that is the service's.";
            case "replayed" -> "Either this nonce was received before, or the server lost its memory after the stamp. The outcome is unknown: repeat only what may run twice.";
            case "reservation_mismatch" -> "Report it, with the log lines of the request.";
            case "session_expired" -> "Agree a new session; SDKs do so by themselves.";
            case "session_unknown" -> "Agree a new session; SDKs do so by themselves. If it recurs, the gateways do not share one store, or the store lost its data.";
            case "signature_invalid" -> "Treat the response as forged. Check for a middlebox that rewrites bodies.";
            case "store_unavailable" -> "Wait as long as Retry-After says; the operator looks at the store.";
            case "stream_truncated" -> "Discard what was read. Retry if the call is safe to repeat; look for a timeout of a proxy if it recurs.";
            case "suite_downgraded" -> "Do not use the session: a machine on the path may have changed the offer. Check the service's `suites`.";
            case "suite_required" -> "Agree again with the suite that the problem names; SDKs do so by themselves.";
            case "timeout" -> "Check the service's load and the network, or raise the time bound that the message names.";
            case "timestamp_invalid" -> "Send Unix milliseconds as decimal digits.";
            case "timestamp_outside_window" -> "Synchronise both clocks by NTP. Clients of the native protocol learn the server's time and retry by themselves; a repeated error means that requests are held back on their way for longer than the window.";
            case "too_large" -> "Send less, or raise the bound of the route.";
            case "unauthenticated" -> "Send the credential that the service requires.";
            case "unconfirmed" -> "Treat the response as forged and agree a new session.";
            case "unreachable" -> "Check the URL, the network and the service's TLS certificate, and that the service runs.";
            case "unsealable" -> "Look up the precise code in the server's log: the response says no more on purpose.";
            case "unsealed" -> "Look at status and body: a proxy, not the service, answered. If it was the service, its route is not sealed.";
            case "upstream_timeout" -> "The operator looks at the service behind, or raises the route's timeout.";
            case "upstream_unreachable" -> "The operator looks at the service behind the gateway.";
            case "usage" -> "Correct the option or the request that the message names.";
            case "wire_disabled" -> "Use a protocol that the service offers.";
            case "wire_mismatch" -> "Use one protocol for a session: seal with the SDK object that agreed it.";
            default -> "";
        };
    }
}
