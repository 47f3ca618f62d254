# ruff: noqa: E501
"""Meaning and remedy of each error code: those of `spec/registry.toml`, then those that only the SDKs have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REMEDIES: Final[Mapping[str, tuple[str, str]]] = {
    "aad_mismatch": (
        "v1: X-AAD differs from the additional data that the message itself gives.",
        "Do not change path, timestamp, nonce or client id after sealing; check for a proxy that rewrites them.",
    ),
    "answer_mismatch": (
        "A response belongs to another session, or carries the nonce of a request.",
        "Treat the response as forged. Check for a cache between client and service.",
    ),
    "base64_invalid": (
        "A sealed body is not the base64 that the protocol requires.",
        "Check for a proxy that transcodes bodies. Send the body exactly as the SDK gives it.",
    ),
    "body_too_large": (
        "A body, or a path that v1 authenticates, exceeds its bound.",
        "Send less, or raise the route's `body_max` (docs/reference/configuration.md).",
    ),
    "body_too_short": (
        "A sealed body is shorter than the seal of an empty message.",
        "Check for a proxy that cuts or replaces request bodies.",
    ),
    "client_mismatch": (
        "The session belongs to another client id.",
        "Send the X-ClientId with which the session was agreed. If a route binds client ids to certificates, use the certificate of this client.",
    ),
    "clock_skew": (
        "The request's time is too far from the server's.",
        "Synchronise the clocks. SDKs take the proven time of the response and retry once.",
    ),
    "field_invalid": (
        "A member of a JSON body is absent or has a wrong type.",
        "Correct the member that the server's log names.",
    ),
    "frame_invalid": (
        "A frame has a wrong length, is empty without being the last, or follows the last one.",
        "Check for a proxy that rewrites bodies; report it if both ends are Sealway's.",
    ),
    "header_invalid": (
        "A sealing header is repeated, holds bytes beyond ASCII, or breaks its format.",
        "Check for a proxy that joins, repeats or rewrites request headers.",
    ),
    "header_missing": (
        "A required sealing header is absent or empty.",
        "Let an SDK of this protocol seal the request. If it does, a proxy in between drops headers: allow X-Kid, X-Idempotency-Key, X-Seal and X-Sealed through it.",
    ),
    "idempotency_key_shape": (
        "X-Idempotency-Key is not timestamp.nonce; on an init, also if the header is repeated.",
        "Do not set X-Idempotency-Key in application code: the SDK writes it.",
    ),
    "inner_headers_invalid": (
        "The headers inside the seal are malformed, too many, or have a name that is not allowed there.",
        "Send fewer or shorter headers; do not send hop-by-hop or sealing headers as inner headers.",
    ),
    "json_invalid": (
        "A body is not JSON, or is nested too deeply.",
        "Send the JSON that spec/ gives for this path.",
    ),
    "key_retired": (
        "None of the identity keys that the client pinned is in use any more.",
        "Update the pins from the service's key set (docs on identity keys), over a path that you trust.",
    ),
    "key_untrusted": (
        "A response is signed by an identity key that the client does not trust.",
        "If the service rotated its keys, update pins or root. Otherwise treat it as an attack.",
    ),
    "kid_prefix": (
        "X-Kid does not begin with `session:`.",
        "Send X-Kid as the SDK gives it.",
    ),
    "malformed": (
        "The message is not what it should be.",
        "Correct the message as the specification says; the server's log names the member.",
    ),
    "method_not_allowed": (
        "Another method is needed.",
        "Use a method that the Allow header names.",
    ),
    "nonce_invalid": (
        "A nonce has a wrong length or alphabet.",
        "Use a nonce of the length and alphabet that spec/session.md gives; an SDK does.",
    ),
    "nonce_reserved": (
        "A request carries a nonce of the form that is reserved for responses.",
        "Draw nonces of requests as spec/session.md says. If an SDK sent it, the message was reflected: look at what stands in between.",
    ),
    "not_found": (
        "There is no such thing here.",
        "Check the path.",
    ),
    "policy": (
        "The policy of this client does not allow the request.",
        "Ask the operator to extend the client's policy, or use another route.",
    ),
    "provider": (
        "The cryptographic module failed.",
        "Look at the server's log and its start-up self-tests. Restart it; if it recurs, replace the host.",
    ),
    "public_key_invalid": (
        "A public key is not the base64 of an uncompressed P-256 point.",
        "Encode the key as 65 bytes, first byte 4, in base64.",
    ),
    "rate_limited": (
        "Too many requests: wait.",
        "Wait as long as Retry-After says.",
    ),
    "replayed": (
        "The nonce was received before.",
        "Nothing, if a network retry caused it: the first copy was processed. Otherwise seal again for each attempt; a copy that the client did not send is an attack or a proxy that retries.",
    ),
    "reservation_mismatch": (
        "A reservation was presented for a nonce that it was not made for: a defect of the server.",
        "Report it, with the log lines of the request.",
    ),
    "session_expired": (
        "The session has reached the end of its lifetime.",
        "Agree a new session; SDKs do so by themselves.",
    ),
    "session_unknown": (
        "X-Kid is not a well-formed session id, or no store has the session.",
        "Agree a new session; SDKs do so by themselves. If it recurs, the gateways do not share one store, or the store lost its data.",
    ),
    "signature_invalid": (
        "A signature does not verify under the identity key that it names.",
        "Treat the response as forged. Check for a middlebox that rewrites bodies.",
    ),
    "store_unavailable": (
        "Try again later.",
        "Wait as long as Retry-After says; the operator looks at the store.",
    ),
    "stream_truncated": (
        "A sealed stream ended before its last frame.",
        "Discard what was read. Retry if the call is safe to repeat; look for a timeout of a proxy if it recurs.",
    ),
    "suite_downgraded": (
        "The suite of a response is not the first of the client's list that the server supports.",
        "Do not use the session: a machine on the path may have changed the offer. Check the service's `suites`.",
    ),
    "suite_required": (
        "The key share is not for the first suite of the client's list that the server supports.",
        "Agree again with the suite that the response names; SDKs do so by themselves.",
    ),
    "timestamp_invalid": (
        "A timestamp is not 1 to 15 decimal digits.",
        "Send Unix milliseconds as decimal digits.",
    ),
    "timestamp_outside_window": (
        "A timestamp differs from the server's clock by more than the replay window.",
        "Synchronise both clocks by NTP. Clients of the native protocol learn the server's time and retry by themselves; a repeated error means that requests are held back on their way for longer than the window.",
    ),
    "too_large": (
        "The message is over its bound.",
        "Send less, or raise the bound of the route.",
    ),
    "unauthenticated": (
        "The client did not authenticate.",
        "Send Authorization, a client certificate or a DPoP proof as the service requires.",
    ),
    "unconfirmed": (
        "The server's key confirmation does not follow from the agreed keys.",
        "Treat the response as forged and agree a new session.",
    ),
    "unsealable": (
        "The authentication tag does not verify: another key, changed bytes or a changed context (method, path, headers).",
        "Check that nothing in between rewrites the path, the method or the body, and that all gateways share one store.",
    ),
    "unsealed": (
        "The response to a sealed request is not sealed.",
        "Look at status and body: a proxy, not the service, answered. If it was the service, its route is not sealed.",
    ),
    "upstream_timeout": (
        "The service behind did not answer in time.",
        "The operator looks at the service behind, or raises the route's timeout.",
    ),
    "upstream_unreachable": (
        "The service behind did not answer.",
        "The operator looks at the service behind the gateway.",
    ),
    "wire_disabled": (
        "This wire is not served here.",
        "Use a protocol that the service offers.",
    ),
    "wire_mismatch": (
        "The session was agreed under another protocol than the one of the request.",
        "Use one protocol for a session: seal with the SDK object that agreed it.",
    ),
    "usage": (
        "An option is wrong, or the request cannot be sealed; nothing was sent.",
        "Correct the option or the request that the message names.",
    ),
    "unreachable": (
        "No connection to the host came about.",
        "Check that the URL is right, that the service runs, and that network, firewall and the certificate of the host let the client through.",
    ),
    "timeout": (
        "A timeout of the client passed.",
        "Look at the host's load and at the network; raise the timeout that the message names if the service needs longer.",
    ),
    "redirected": (
        "The host answered with a redirect, which a sealed request does not follow.",
        "Use the URL that it redirects to, if that is the service's.",
    ),
    "network": (
        "The connection broke.",
        "Look at the network and at proxies between client and host. Send the request again only if it is safe to repeat.",
    ),
}
