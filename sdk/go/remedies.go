// Code generated from spec/registry.toml by cargo xtask codegen. DO NOT EDIT.

package sealway

// remedyOf returns the remedy of an error code, or an empty string.
func remedyOf(code string) string {
	switch code {
	case "CRYPTO_ERROR":
		return "Look up the precise code in the server's log or in `sealway_refusals_total`: the response says no more on purpose."
	case "METHOD_NOT_ALLOWED":
		return "Use a method that the Allow header names."
	case "NOT_FOUND":
		return "Check the path and the route's rules."
	case "PAYLOAD_TOO_LARGE":
		return "Send less, or raise the bound of the route."
	case "RATE_LIMITED":
		return "Wait as long as Retry-After says. Keep sessions instead of agreeing one for each request."
	case "SERVICE_UNAVAILABLE":
		return "500: look at the route's `standalone`, or at the status of its HTTPRoute. 502 and 504: look at the service behind. 503: look at the store. The response carries Retry-After where a retry helps."
	case "SESSION_EXPIRED":
		return "Agree a new session and send the request again; SDKs do so by themselves."
	case "SESSION_FORBIDDEN":
		return "Use an authenticated session, the certificate of this client id, or ask the operator for the path."
	case "WIRE_DISABLED":
		return "Move the client to a newer protocol (docs on migration)."
	case "aad_mismatch":
		return "Do not change path, timestamp, nonce or client id after sealing; check for a proxy that rewrites them."
	case "answer_mismatch":
		return "Treat the response as forged. Check for a cache between client and service."
	case "base64_invalid":
		return "Check for a proxy that transcodes bodies. Send the body exactly as the SDK gives it."
	case "body_too_large":
		return "Send less, or raise the route's `body_max` (docs/reference/configuration.md)."
	case "body_too_short":
		return "Check for a proxy that cuts or replaces request bodies."
	case "client_mismatch":
		return "Send the X-ClientId with which the session was agreed. If a route binds client ids to certificates, use the certificate of this client."
	case "clock_skew":
		return "Synchronise the clocks. SDKs take the proven time of the response and retry once."
	case "field_invalid":
		return "Correct the member that the server's log names."
	case "frame_invalid":
		return "Check for a proxy that rewrites bodies; report it if both ends are Sealway's."
	case "header_invalid":
		return "Check for a proxy that joins, repeats or rewrites request headers."
	case "header_missing":
		return "Let an SDK of this protocol seal the request. If it does, a proxy in between drops headers: allow X-Kid, X-Idempotency-Key, X-Seal and X-Sealed through it."
	case "idempotency_key_shape":
		return "Do not set X-Idempotency-Key in application code: the SDK writes it."
	case "inner_headers_invalid":
		return "Send fewer or shorter headers; do not send hop-by-hop or sealing headers as inner headers."
	case "json_invalid":
		return "Send the JSON that spec/ gives for this path."
	case "key_retired":
		return "Update the client's pins."
	case "key_untrusted":
		return "If the service rotated its keys, update pins or root. Otherwise treat it as an attack."
	case "kid_prefix":
		return "Send X-Kid as the SDK gives it."
	case "malformed":
		return "Correct the message as the specification says; the server's log names the member."
	case "method_not_allowed":
		return "Use a method that the Allow header names."
	case "network":
		return "Check what stands between client and service. The service may have processed the request: retry only what may run twice."
	case "nonce_invalid":
		return "Use a nonce of the length and alphabet that spec/session.md gives; an SDK does."
	case "nonce_reserved":
		return "Draw nonces of requests as spec/session.md says. If an SDK sent it, the message was reflected: look at what stands in between."
	case "not_found":
		return "Check the path."
	case "policy":
		return "Ask the operator to extend the client's policy."
	case "provider":
		return "Look at the server's log and its start-up self-tests. Restart it; if it recurs, replace the host."
	case "public_key_invalid":
		return "Encode the key as 65 bytes, first byte 4, in base64."
	case "rate_limited":
		return "Wait as long as Retry-After says."
	case "redirected":
		return "Use the URL that the redirect leads to, if that is the service's."
	case "replayed":
		return "Either this nonce was received before, or the server lost its memory after the stamp. The outcome is unknown: repeat only what may run twice."
	case "reservation_mismatch":
		return "Report it, with the log lines of the request."
	case "session_expired":
		return "Agree a new session; SDKs do so by themselves."
	case "session_unknown":
		return "Agree a new session; SDKs do so by themselves. If it recurs, the gateways do not share one store, or the store lost its data."
	case "signature_invalid":
		return "Treat the response as forged. Check for a middlebox that rewrites bodies."
	case "store_unavailable":
		return "Wait as long as Retry-After says; the operator looks at the store."
	case "stream_truncated":
		return "Discard what was read. Retry if the call is safe to repeat; look for a timeout of a proxy if it recurs."
	case "suite_downgraded":
		return "Do not use the session: a machine on the path may have changed the offer. Check the service's `suites`."
	case "suite_required":
		return "Agree again with the suite that the problem names; SDKs do so by themselves."
	case "timeout":
		return "Check the service's load and the network, or raise the time bound that the message names."
	case "timestamp_invalid":
		return "Send Unix milliseconds as decimal digits."
	case "timestamp_outside_window":
		return "Synchronise both clocks by NTP. Clients of the native protocol learn the server's time and retry by themselves; a repeated error means that requests are held back on their way for longer than the window."
	case "too_large":
		return "Send less, or raise the bound of the route."
	case "unauthenticated":
		return "Send the credential that the service requires."
	case "unconfirmed":
		return "Treat the response as forged and agree a new session."
	case "unreachable":
		return "Check the URL, the network and the service's TLS certificate, and that the service runs."
	case "unsealable":
		return "Look up the precise code in the server's log: the response says no more on purpose."
	case "unsealed":
		return "Look at status and body: a proxy, not the service, answered. If it was the service, its route is not sealed."
	case "upstream_timeout":
		return "The operator looks at the service behind, or raises the route's timeout."
	case "upstream_unreachable":
		return "The operator looks at the service behind the gateway."
	case "usage":
		return "Correct the option or the request that the message names."
	case "wire_disabled":
		return "Use a protocol that the service offers."
	case "wire_mismatch":
		return "Use one protocol for a session: seal with the SDK object that agreed it."
	}
	return ""
}
