#!/usr/bin/env python3
"""The conformance driver: `sdk/conformance/README.md`. One JSON object a line in, one a line out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from sealway import entropy
from sealway.crypto.curve import KeyPair
from sealway.crypto.hpke import Kem
from sealway.crypto.secret import Secret
from sealway.crypto.suite import DEFAULT_SUITES, Suite
from sealway.errors import ProtocolError
from sealway.exchange.reply import Reply
from sealway.exchange.request import Exchange
from sealway.session import one_shot
from sealway.session.claim import WINDOW_MS, Admission, SessionRecord
from sealway.session.compat import call as compat_call
from sealway.session.compat import init as compat_init
from sealway.session.identity import key_id
from sealway.session.native import call as native_call
from sealway.session.native import client, message, server
from sealway.session.native.stream import open_whole
from sealway.wire.encoding import decode_base64, encode_base64
from sealway.wire.header import X_IDEMPOTENCY_KEY, X_SEALED, Headers
from sealway.wire.identifier import split_idempotency_key
from sealway.wire.inner import InnerHeaders, encode_inner

TTL_SEC, TTL_SEC_MIN, TTL_SEC_MAX = 1800, 300, 3600

Json = dict[str, Any]


def by_nature(method: str, body: bytes) -> bool:
    return not body and method in native_call.BODILESS_METHODS


def inner_of(pairs: list[list[str]]) -> InnerHeaders:
    """Values are bytes, which JSON does not have: each stands there as the character of its number."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs]


def shown(inner: list[tuple[bytes, bytes]]) -> list[list[str]]:
    return [[name.decode("ascii"), value.decode("latin-1")] for name, value in inner]


def json_of(record: SessionRecord) -> Json:
    return {
        "id": record.id,
        "wire": record.wire,
        "client_id": record.client_id,
        "subject": record.subject,
        "created_ms": record.created_ms,
        "expires_ms": record.expires_ms,
        "key": encode_base64(record.key.reveal()),
        "tenant": record.tenant,
        "auth": record.auth,
    }


def record_of(given: Json) -> SessionRecord:
    return SessionRecord(
        given["id"],
        given["wire"],
        given["client_id"],
        Secret(decode_base64(given["key"])),
        given["created_ms"],
        given["expires_ms"],
        given.get("subject"),
        given.get("tenant"),
        given.get("auth", "none"),
    )


class Driver:
    """All handles, and what each operation does."""

    def __init__(self) -> None:
        self.handles: dict[int, Any] = {}
        self.last = 0

    def keep(self, value: Any) -> int:
        self.last += 1
        self.handles[self.last] = value
        return self.last

    def hello(self, m: Json) -> Json:
        return {
            "language": "python",
            "wires": [1, 2, 3, 4],
            "suites": [suite.value for suite in DEFAULT_SUITES],
            "kems": [kem.value for kem in Kem],
            "roles": ["client", "server"],
        }

    def reset(self, m: Json) -> Json:
        self.handles.clear()
        return {}

    # --- Inits

    def client_init(self, m: Json) -> Json:
        if m["wire"] == 3:
            keys = entropy.private_keys(Suite(m["suite"]))
            init = client.ClientInit(keys, tuple(m["suites"]), m["client_id"], ttl_sec=m["ttl_sec"])
            trusted = {key_id(public): public for public in map(bytes.fromhex, m["trusted_hex"])}
            headers, body = [("Content-Type", "application/json")], init.body()
            return {
                "handle": self.keep((init, trusted)),
                "method": "POST",
                "headers": headers,
                "body_hex": body.hex(),
            }
        compat = compat_init.ClientInit(
            m["wire"], m["path"], m["client_id"], m["ttl_sec"], entropy.key_pair(), m["now_ms"], entropy.nonce()
        )
        headers = [*compat.headers, ("Content-Type", "application/json")]
        return {
            "handle": self.keep((compat, None)),
            "method": "POST",
            "headers": headers,
            "body_hex": compat.body.hex(),
        }

    def accept_native(self, m: Json, body: bytes, credential: bytes, renewed: SessionRecord | None) -> Json:
        request = message.InitRequest.parse(body)
        ttl_sec = TTL_SEC if request.ttl_sec is None else min(max(request.ttl_sec, TTL_SEC_MIN), TTL_SEC_MAX)
        identity = server.Identity(KeyPair(bytes.fromhex(m["identity_hex"])), 0, 2**53)
        answer, record = server.accept(
            request,
            credential,
            [Suite(name) for name in m["suites"]],
            [identity],
            entropy.server_draws(),
            m["now_ms"],
            ttl_sec,
            server.Caller(),
            renewed,
        )
        return {
            "status": 201,
            "headers": [["Content-Type", "application/json"]],
            "body_hex": answer.hex(),
            "session": json_of(record),
        }

    def server_init(self, m: Json) -> Json:
        headers, body = Headers((name, value) for name, value in m["headers"]), bytes.fromhex(m["body_hex"])
        if m["path"] == message.INIT_PATH:
            return self.accept_native(m, body, message.credential_of(headers.first("Authorization")), None)
        family = next(family for family, path in compat_init.PATHS.items() if path == m["path"])
        is_authenticated = bool(headers.first("Authorization"))
        pending = compat_init.parse_init(family, headers, body, m["now_ms"], WINDOW_MS, is_authenticated)
        init = pending.release(Admission(pending.claim))
        answer, record = init.accept(entropy.key_pair(), entropy.nonce_random(), m["now_ms"])
        told = [["Content-Type", "application/json"]]
        if family is compat_init.Family.V1:
            told.append(["X-Kid", record.id])
        return {"status": 200, "headers": told, "body_hex": answer.hex(), "session": json_of(record)}

    def client_finish(self, m: Json) -> Json:
        init, trusted = self.handles[m["handle"]]
        body = bytes.fromhex(m["body_hex"])
        session: client.Session | compat_call.ClientSession
        if isinstance(init, client.ClientInit):
            unverified = init.unverified(m["status"], body)
            session = init.finish(unverified, trusted.get(unverified.answer.key_id))
        else:
            session = init.finish(body, m["now_ms"])
        del self.handles[m["handle"]]
        return {"session": self.keep((session, trusted)), "session_id": session.id}

    def client_renew(self, m: Json) -> Json:
        session, trusted = self.handles[m["session"]]
        keys = entropy.private_keys(Suite(m["suite"]))
        init = client.ClientInit(keys, tuple(m["suites"]), session.client_id, renewed=session)
        return {"handle": self.keep((init, trusted)), "body_hex": init.body().hex()}

    def server_renew(self, m: Json) -> Json:
        told = self.accept_native(m, bytes.fromhex(m["body_hex"]), b"", record_of(m["session"]))
        del told["headers"]
        return told

    # --- Calls

    def client_key(self, m: Json) -> Json:
        config = one_shot.KeyConfig(bytes.fromhex(m["config_hex"]))
        if config.kem is None:
            raise ProtocolError("public_key_invalid")
        psk = None if m["psk_id"] is None else (m["psk_id"], bytes.fromhex(m["psk_hex"]))
        return {"session": self.keep((config, (config.kem, psk))), "kid": config.kid}

    def client_seal(self, m: Json) -> Json:
        session, more = self.handles[m["session"]]
        body, stamp = bytes.fromhex(m["body_hex"]), str(m["now_ms"])
        if isinstance(session, compat_call.ClientSession):
            sealed = session.seal(m["target"], body, stamp, entropy.nonce(), entropy.iv())
            headers = [*sealed.headers, ("Content-Type", sealed.content_type)]
            return {"call": self.keep(sealed), "headers": headers, "body_hex": sealed.body.hex()}
        is_bodiless = by_nature(m["method"], body)
        content_type = "" if is_bodiless else native_call.OCTETS
        request = (m["method"], m["target"], content_type, stamp, entropy.nonce())
        if isinstance(session, one_shot.KeyConfig):
            kem, psk = more
            pending = one_shot.seal(session, psk, entropy.hpke_draws(kem), *request)
        else:
            pending = session.seal(*request)
        stream = pending.sealer.seal_all(encode_inner(inner_of(m["headers"])), body)
        headers = list(pending.headers)
        if is_bodiless:
            headers.append((X_SEALED, encode_base64(stream)))
            stream = b""
        else:
            headers.append(("Content-Type", content_type))
        return {"call": self.keep(pending), "headers": headers, "body_hex": stream.hex()}

    def server_open(self, m: Json) -> Json:
        headers = Headers((name, value) for name, value in m["headers"])
        exchange = Exchange.begin(m["method"], m["target"], headers, m["now_ms"], WINDOW_MS)
        opening, stream = exchange.session(record_of(m["session"]))
        pieces = stream.read(bytes.fromhex(m["body_hex"])) + stream.end()
        pending = opening.open(pieces[0])
        plain = pending.release(Admission(pending.claim))
        return {
            "call": self.keep(plain.reply),
            "headers": shown(plain.inner or []),
            "body_hex": (plain.first + b"".join(pieces[1:])).hex(),
            "claim_hex": pending.claim.key.hex(),
        }

    def server_seal(self, m: Json) -> Json:
        reply: Reply = self.handles[m["call"]]
        inner, body, seal = inner_of(m["headers"]), bytes.fromhex(m["body_hex"]), reply.answer(m["status"])
        headers, sealed = seal.begin(inner, body, True, m["now_ms"], entropy.nonce_random(), entropy.iv())
        del self.handles[m["call"]]
        return {"status": seal.status, "headers": headers, "body_hex": sealed.hex()}

    def client_open(self, m: Json) -> Json:
        call, body, status = self.handles[m["call"]], bytes.fromhex(m["body_hex"]), m["status"]
        headers = Headers((name, value) for name, value in m["headers"])
        if isinstance(call, compat_call.SealedCall):
            plaintext = call.open(status, headers, body, m["now_ms"], WINDOW_MS)
            del self.handles[m["call"]]
            return {"headers": [], "body_hex": plaintext.hex()}
        opener, sealed = call.open(status, headers)
        if sealed is not None and body:
            raise ProtocolError("header_invalid", X_SEALED)
        inner, frames = open_whole(opener, body if sealed is None else sealed)
        del self.handles[m["call"]]
        _, nonce = split_idempotency_key(headers.single(X_IDEMPOTENCY_KEY))
        is_problem = nonce.startswith(one_shot.PROBLEM_PREFIX)
        return {"headers": shown(inner), "body_hex": b"".join(frames).hex(), "is_problem": is_problem}

    def answer(self, line: bytes) -> Json:
        """Returns the answer to one line."""
        try:
            m = json.loads(line)
            operation: Callable[[Json], Json] | None = OPERATIONS.get(m["op"])
            if operation is None:
                return {"fault": "no such op"}
            return {"ok": operation(self, m)}  # type: ignore[call-arg,arg-type]
        except ProtocolError as refused:
            return {"error": refused.code}
        except Exception as error:
            # What it says may hold what was sent; its kind does not.
            return {"fault": f"{type(error).__name__}: {error if isinstance(error, KeyError) else ''}".rstrip(": ")}


OPERATIONS: dict[str, Any] = {
    "hello": Driver.hello,
    "reset": Driver.reset,
    "client.init": Driver.client_init,
    "server.init": Driver.server_init,
    "client.finish": Driver.client_finish,
    "client.renew": Driver.client_renew,
    "server.renew": Driver.server_renew,
    "client.key": Driver.client_key,
    "client.seal": Driver.client_seal,
    "server.open": Driver.server_open,
    "server.seal": Driver.server_seal,
    "client.open": Driver.client_open,
}


def lines() -> Iterator[bytes]:
    """Lines of standard input until its end."""
    while line := sys.stdin.buffer.readline():
        if line.strip():
            yield line


def main() -> None:
    driver = Driver()
    for line in lines():
        print(json.dumps(driver.answer(line)), flush=True)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        # The harness is gone; the interpreter would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
