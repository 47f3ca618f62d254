package dev.sealway.wire;

import java.util.Map;

/** Remedies of the error codes: those of {@code spec/registry.toml}, then those of the SDKs' own words. */
final class Remedies {
    private static final Map<String, String> BY_CODE = Map.ofEntries(
            Map.entry("header_missing", "Let an SDK of this protocol seal the request. If it does, a proxy in between drops headers: allow X-Kid, X-Idempotency-Key, X-Seal and X-Sealed through it."),
            Map.entry("header_invalid", "Check for a proxy that joins, repeats or rewrites request headers."),
            Map.entry("idempotency_key_shape", "Do not set X-Idempotency-Key in application code: the SDK writes it."),
            Map.entry("nonce_invalid", "Use a nonce of the length and alphabet that spec/session.md gives; an SDK does."),
            Map.entry("nonce_reserved", "Draw nonces of requests as spec/session.md says. If an SDK sent it, the message was reflected: look at what stands in between."),
            Map.entry("timestamp_invalid", "Send Unix milliseconds as decimal digits."),
            Map.entry("timestamp_outside_window", "Synchronise both clocks by NTP. Clients of the native protocol learn the server's time and retry by themselves; a repeated error means that requests are held back on their way for longer than the window."),
            Map.entry("kid_prefix", "Send X-Kid as the SDK gives it."),
            Map.entry("session_unknown", "Agree a new session; SDKs do so by themselves. If it recurs, the gateways do not share one store, or the store lost its data."),
            Map.entry("session_expired", "Agree a new session; SDKs do so by themselves."),
            Map.entry("client_mismatch", "Send the X-ClientId with which the session was agreed. If a route binds client ids to certificates, use the certificate of this client."),
            Map.entry("wire_mismatch", "Use one protocol for a session: seal with the SDK object that agreed it."),
            Map.entry("body_too_short", "Check for a proxy that cuts or replaces request bodies."),
            Map.entry("body_too_large", "Send less, or raise the route's `body_max` (docs/reference/configuration.md)."),
            Map.entry("base64_invalid", "Check for a proxy that transcodes bodies. Send the body exactly as the SDK gives it."),
            Map.entry("aad_mismatch", "Do not change path, timestamp, nonce or client id after sealing; check for a proxy that rewrites them."),
            Map.entry("unsealable", "Check that nothing in between rewrites the path, the method or the body, and that all gateways share one store."),
            Map.entry("replayed", "Nothing, if a network retry caused it: the first copy was processed. Otherwise seal again for each attempt; a copy that the client did not send is an attack or a proxy that retries."),
            Map.entry("json_invalid", "Send the JSON that spec/ gives for this path."),
            Map.entry("field_invalid", "Correct the member that the server's log names."),
            Map.entry("public_key_invalid", "Encode the key as 65 bytes, first byte 4, in base64."),
            Map.entry("answer_mismatch", "Treat the response as forged. Check for a cache between client and service."),
            Map.entry("reservation_mismatch", "Report it, with the log lines of the request."),
            Map.entry("suite_required", "Agree again with the suite that the response names; SDKs do so by themselves."),
            Map.entry("suite_downgraded", "Do not use the session: a machine on the path may have changed the offer. Check the service's `suites`."),
            Map.entry("key_retired", "Update the pins from the service's key set (docs on identity keys), over a path that you trust."),
            Map.entry("key_untrusted", "If the service rotated its keys, update pins or root. Otherwise treat it as an attack."),
            Map.entry("signature_invalid", "Treat the response as forged. Check for a middlebox that rewrites bodies."),
            Map.entry("unconfirmed", "Treat the response as forged and agree a new session."),
            Map.entry("stream_truncated", "Discard what was read. Retry if the call is safe to repeat; look for a timeout of a proxy if it recurs."),
            Map.entry("frame_invalid", "Check for a proxy that rewrites bodies; report it if both ends are Sealway's."),
            Map.entry("inner_headers_invalid", "Send fewer or shorter headers; do not send hop-by-hop or sealing headers as inner headers."),
            Map.entry("unsealed", "Look at status and body: a proxy, not the service, answered. If it was the service, its route is not sealed."),
            Map.entry("policy", "Ask the operator to extend the client's policy, or use another route."),
            Map.entry("unauthenticated", "Send Authorization, a client certificate or a DPoP proof as the service requires."),
            Map.entry("provider", "Look at the server's log and its start-up self-tests. Restart it; if it recurs, replace the host."),
            Map.entry("clock_skew", "Synchronise the clocks. SDKs take the proven time of the response and retry once."),
            Map.entry("wire_disabled", "Use a protocol that the service offers."),
            Map.entry("too_large", "Send less, or raise the bound of the route."),
            Map.entry("malformed", "Correct the message as the specification says; the server's log names the member."),
            Map.entry("not_found", "Check the path."),
            Map.entry("method_not_allowed", "Use a method that the Allow header names."),
            Map.entry("rate_limited", "Wait as long as Retry-After says."),
            Map.entry("store_unavailable", "Wait as long as Retry-After says; the operator looks at the store."),
            Map.entry("upstream_unreachable", "The operator looks at the service behind the gateway."),
            Map.entry("upstream_timeout", "The operator looks at the service behind, or raises the route's timeout."),
            Map.entry("CRYPTO_ERROR", "Look up the precise code in the server's log or in `sealway_refusals_total`: the response says no more on purpose."),
            Map.entry("SESSION_EXPIRED", "Agree a new session and send the request again; SDKs do so by themselves."),
            Map.entry("SESSION_FORBIDDEN", "Use an authenticated session, the certificate of this client id, or ask the operator for the path."),
            Map.entry("WIRE_DISABLED", "Move the client to a newer protocol (docs on migration)."),
            Map.entry("NOT_FOUND", "Check the path and the route's rules."),
            Map.entry("METHOD_NOT_ALLOWED", "Use a method that the Allow header names."),
            Map.entry("PAYLOAD_TOO_LARGE", "Send less, or raise the bound of the route."),
            Map.entry("RATE_LIMITED", "Wait as long as Retry-After says. Keep sessions instead of agreeing one for each request."),
            Map.entry("SERVICE_UNAVAILABLE", "502 and 504: look at the service behind. 503: look at the store. The response carries Retry-After where a retry helps."),
            Map.entry("usage", "Correct the option or the request that the message names."),
            Map.entry("unreachable", "Check the address and port, that the service runs there and speaks TLS with a certificate that this client trusts, and the name servers and firewalls in between."),
            Map.entry("timeout", "Check that the service runs and is not overloaded, or raise the time limit that the message names."),
            Map.entry("network", "Check that the service runs, and what stands between client and service. If the message says that the outcome is unknown, ask the service before repeating the call."),
            Map.entry("redirected", "Use the address that the redirect names: a client follows none."),
            Map.entry("cancelled", "Nothing: the caller cancelled the call."));

    private Remedies() {
    }

    /** Returns what to do about an error with this code, in a sentence. */
    static String of(String code) {
        return BY_CODE.getOrDefault(code, "Look up the code in the documentation of the service.");
    }
}
