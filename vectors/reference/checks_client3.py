r"""The self-check of client3.py: everything that wire 3 gives, and requests that are broken on purpose.

Below --prefix the service behind the gateway answers:

    <prefix>/echo?…      any method: 200, `content-type: application/json`, `x-mirror: <value of x-hidden>`, and a JSON object
                         of `method`, `target`, `headers` (pairs) and `body_hex` as the service received them
    <prefix>/stream      200, `content-type: text/event-stream`: "data: 0\n\n", then, when somebody has asked for <prefix>/go,
                         "data: 1\n\n" and "data: 2\n\n", each flushed
    <prefix>/go          204
    <prefix>/nothing     204
    <prefix>/missing     404 and a body
    <prefix>/count       200 and how many requests came to <prefix>/echo, in decimal digits
"""

import json
import secrets
import time
import traceback

import checks3
import session3 as s3
import stream3
from client3 import SUITES, Client, Problem, make, tell
from session3 import Refused, b64


class Failed(Exception):
    pass


def want(holds: bool, said) -> None:
    if not holds:
        raise Failed(str(said))


class Checks:
    def __init__(self, args):
        self.args, self.echo, self.passed, self.failed = args, args.prefix + "/echo", 0, 0
        self.client = make(args)

    def run(self, check) -> None:
        """One check: a method whose name says what must hold."""
        name = check.__name__.replace("_", " ")
        try:
            said = check() or {}
        except Exception as error:  # what a check did not expect is its failure
            self.failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            tell(check=name, ok=False, error=f"{type(error).__name__}: {error}", line=where.lineno)
        else:
            self.passed += 1
            tell(check=name, ok=True, **said)

    def refusal(self, act) -> Problem:
        try:
            answer = act()
        except Problem as problem:
            want(problem.status == problem.body.get("status"), f"{problem.status} and {problem.body}")
            want(problem.body.get("type") == f"urn:sealway:problem:{problem.code}", problem.body)
            return problem
        raise Failed(f"accepted: {getattr(answer, 'status', answer)}")

    def refused(self, act, status: int, code: str) -> Problem:
        problem = self.refusal(act)
        want((problem.status, problem.code) == (status, code), problem)
        return problem

    def count(self) -> int:
        return int(self.client.once("GET", self.args.prefix + "/count").body())

    # --- Init ---

    def keys_are_found_by_what_is_pinned(self):
        keys = self.client.learn_keys()
        want(keys, "the key set has no pinned key")
        return {"keys": sorted(keys)}

    def every_suite_agrees_a_session(self):
        said = {}
        for suite in self.args.suite or SUITES:
            client = make(self.args, suites=[suite])
            client.init()
            want(client.answer.suite == suite, client.answer.suite)
            want(client.once("GET", self.echo).status == 200, "a call in it")
            said[suite] = client.session.id
        want(len(set(said.values())) == len(said), "session ids differ")
        return {"sessions": said}

    def another_suite_is_asked_for_and_given(self):
        client = make(self.args, suites=["X25519MLKEM768", "P256"])
        tried = client.init("P256")
        want(tried == ["P256", "X25519MLKEM768"], tried)
        return {"tried": tried}

    def no_common_suite_is_suite_required(self):
        client = make(self.args, suites=["P256"])
        client.learn_keys()
        body = client.init_request("P256", client.new_keys()).members() | {"suites": ["MLKEM1024"]}
        problem = self.refused(lambda: self.raw_init(client, body), 409, "suite_required")
        want("suite" not in problem.body and set(problem.body["suites"]) <= set(SUITES), problem.body)

    def raw_init(self, client: Client, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = client.send_init(data)
        if response.status != 201:
            raise client.problem(response)
        return response

    def a_bad_init_names_its_member(self):
        good = self.client.init_request("P256", self.client.new_keys(), suites=["P256"]).members()
        for name in ("suite", "suites", "share", "client_id"):
            problem = self.refused(lambda: self.raw_init(self.client, {k: v for k, v in good.items() if k != name}), 400, "malformed")
            want(problem.body.get("field") == name, problem.body)
        for name, value in (("ttl_sec", 1.5), ("proof", 1), ("pinned_key_ids", "x"), ("client_id", "a|b")):
            problem = self.refused(lambda: self.raw_init(self.client, good | {name: value}), 400, "malformed")
            want(problem.body.get("field") == name, problem.body)
        self.refused(lambda: self.raw_init(self.client, b"{"), 400, "malformed")
        point = s3.unb64(good["share"])
        for share in (point[:-1] + bytes([point[-1] ^ 1]), point[:-1], b"\0"):
            self.refused(lambda: self.raw_init(self.client, good | {"share": b64(share)}), 400, "malformed")
        self.refused(lambda: self.raw_init(self.client, good | {"x": "x" * 16_384}), 413, "too_large")

    def a_pin_that_nobody_has_is_key_retired(self):
        body = self.client.init_request("P256", self.client.new_keys(), suites=["P256"], pinned_key_ids=["0" * 32]).members()
        problem = self.refused(lambda: self.raw_init(self.client, body), 409, "key_retired")
        keys = self.client.trust.keys(json.dumps(problem.body["key_set"]).encode())
        want(keys == self.client.trusted, "the problem has the key set")

    def a_session_is_agreed(self):
        self.client.init()
        answer = self.client.answer
        want(answer.key_id in answer.key_ids and answer.key_id in self.client.trusted, answer)
        return {"session": answer.session_id, "suite": answer.suite, "auth": answer.auth, "expires_in_sec": answer.expires_in_sec}

    def a_wrong_answer_is_refused_by_this_client(self):
        """Not the gateway's doing: what this client does with an answer that was changed on its way."""
        client = make(self.args, suites=["P256"])
        client.learn_keys()
        keys = client.new_keys()
        request = client.init_request("P256", keys)
        response = client.send_init(json.dumps(request.members()).encode())
        good = json.loads(response.read())
        changes = {"expires_in_sec": (good["expires_in_sec"] + 1, "signature_invalid"), "key_id": ("0" * 32, "key_untrusted"),
                   "suites": (["X25519MLKEM768"], "suite_downgraded"), "confirm": (b64(bytes(32)), "unconfirmed"),
                   "subject": ("mallory", "signature_invalid"), "share": (b64(client.init_request("P256", client.new_keys()).share),
                                                                         "signature_invalid")}
        for name, (value, code) in changes.items():
            try:
                client.take(request, keys, 201, json.dumps(good | {name: value}).encode(), b"", None)
            except Refused as error:
                want(error.code == code, f"{name}: {error.code}")
            else:
                raise Failed(f"a changed {name} is taken")
        client.take(request, keys, 201, json.dumps(good).encode(), s3.credential(client.authorization), None)

    # --- Sealed calls ---

    def mirrored(self, answer) -> dict:
        want(answer.status == 200, answer.status)
        want(answer.header("content-type") == "application/json", answer.inner)
        return json.loads(answer.body())

    def a_get_reaches_the_service(self):
        seen = self.mirrored(self.client.once("GET", self.echo + "?a=1&a=2%20", inner=[("accept", "text/x-mirror")]))
        want((seen["method"], seen["target"], seen["body_hex"]) == ("GET", self.echo + "?a=1&a=2%20", ""), seen)
        headers = {name.lower(): value for name, value in seen["headers"]}
        want(headers.get("accept") == "text/x-mirror", headers)
        want(headers.get("x-sealway-client-id") == self.args.client_id, headers)
        leaked = [name for name in headers if name in ("x-kid", "x-seal", "x-sealed", "x-idempotency-key")]
        want(not leaked, f"the service is sent {leaked}")

    def headers_are_hidden_both_ways(self):
        headers, body = self.client.seal("POST", self.echo, [b"{}"], [("content-type", "application/json"), ("x-hidden", "secret 7")])
        answer = self.client.sent("POST", self.echo, [*headers, ("X-Outer", "from nobody")], body)
        seen = {name.lower(): value for name, value in self.mirrored(answer)["headers"]}
        want(seen.get("x-hidden") == "secret 7" and seen.get("content-type") == "application/json", seen)
        want("x-outer" not in seen, "a header that anybody could have written reaches the service")
        want(answer.header("x-mirror") == "secret 7", answer.inner)

    def every_method_goes_through(self):
        for method in ("PUT", "PATCH", "DELETE", "QUERY"):
            seen = self.mirrored(self.client.once(method, self.echo, None if method == "DELETE" else [b"x"]))
            want(seen["method"] == method, seen)
        answer = self.client.once("HEAD", self.echo)
        want((answer.status, answer.body()) == (200, b""), answer.status)

    def a_long_body_of_many_frames_arrives_whole(self):
        body = secrets.token_bytes(300_000)
        frames = [b"", body[:10], *(body[at:at + 65_536] for at in range(10, len(body), 65_536))]
        answer = self.client.once("POST", self.echo, frames)
        want(bytes.fromhex(self.mirrored(answer)["body_hex"]) == body, "another body")
        want(answer.frames > 1, "the answer is one frame")
        return {"frames": answer.frames}

    def a_body_in_chunks_arrives_whole(self):
        headers, stream = self.client.seal("POST", self.echo, [b"one ", b"two ", b""])
        pieces = (stream[at:at + 7] for at in range(0, len(stream), 7))
        seen = self.mirrored(self.client.sent("POST", self.echo, headers, pieces))
        want(bytes.fromhex(seen["body_hex"]) == b"one two ", seen)

    def an_answer_streams(self):
        answer = self.client.once("GET", self.args.prefix + "/stream")
        want(answer.header("content-type") == "text/event-stream", answer.inner)
        parts = []
        for part in answer.parts():
            parts += [part] if part else []
            if part == b"data: 0\n\n":
                # The service has not said more yet, and will not before it is asked to.
                self.client.once("GET", self.args.prefix + "/go").body()
        want(b"".join(parts) == b"data: 0\n\ndata: 1\n\ndata: 2\n\n", parts)
        want(parts[0] == b"data: 0\n\n", "what the service flushed came with what it said later")
        return {"parts": len(parts)}

    def statuses_are_the_services(self):
        nothing, missing = (self.client.once("GET", self.args.prefix + path) for path in ("/nothing", "/missing"))
        want((nothing.status, nothing.body()) == (204, b""), nothing.status)
        want(missing.status == 404 and missing.body(), missing.status)

    def an_answer_is_good_for_its_request_alone(self):
        headers, body = self.client.seal("GET", self.echo)
        response = self.client.exchange("GET", self.echo, headers, body)
        stamp, nonce = self.client.stamp_and_nonce(headers)
        said, data = response.getheaders(), response.read()
        session = self.client.session
        checks3.open_answer(session, "GET", self.echo, nonce, 200, said, data)
        for label, arguments in {"another request": ("GET", self.echo, nonce[::-1] + "0", 200),
                                 "another method": ("POST", self.echo, nonce, 200), "another path": ("GET", self.echo + "?", nonce, 200),
                                 "another status": ("GET", self.echo, nonce, 201)}.items():
            try:
                checks3.open_answer(session, *arguments, said, data)
            except Refused as error:
                want(error.code == "unsealable", f"{label}: {error}")
            else:
                raise Failed(f"{label}: opened")
        try:
            checks3.open_answer(session, "GET", self.echo, nonce, 200, said, data[:-1])
        except Refused as error:
            want(error.code == "stream_truncated", error)
        else:
            raise Failed("a short answer was taken for a whole one")

    # --- Broken on purpose ---

    def broken_requests_are_refused_and_reach_nobody(self):
        before, client, path = self.count(), self.client, self.echo
        headers, body = client.seal("POST", path, [b"one", b"two"])
        other = dict(headers) | {"Content-Type": "text/plain"}
        again = lambda **changes: [(name, changes.get(name.replace("-", "_"), value)) for name, value in headers]
        stamp, nonce = client.stamp_and_nonce(headers)
        attempts = {
            "another path": ("POST", path + "?x", headers, body), "another method": ("PUT", path, headers, body),
            "another content type": ("POST", path, list(other.items()), body),
            "another stamp": ("POST", path, again(X_Idempotency_Key=f"{int(stamp) + 1}.{nonce}"), body),
            "another nonce": ("POST", path, again(X_Idempotency_Key=f"{stamp}.{nonce}0"), body),
            "an answer's nonce": ("POST", path, again(X_Idempotency_Key=f"{stamp}.r-{nonce}"), body),
            "no kid": ("POST", path, [h for h in headers if h[0] != "X-Kid"], body),
            "kid twice": ("POST", path, [*headers, headers[1]], body),
            "a bare kid": ("POST", path, again(X_Kid=client.session.id), body),
            "X-Sealed beside a body": ("POST", path, [*headers, ("X-Sealed", b64(body))], body),
            "neither": ("POST", path, headers, b""),
            "first frame cut": ("POST", path, headers, body[:30]), "commit alone": ("POST", path, headers, body[:16]),
        }
        for at in (0, 15, 16, 17, 20, 40):
            attempts[f"bit of byte {at}"] = ("POST", path, headers, body[:at] + bytes([body[at] ^ 1]) + body[at + 1:])
        for name, block in {"forbidden": stream3.encode_inner([("host", "x")]), "upper": stream3.encode_inner([("Accept", "x")]),
                            "line": stream3.encode_inner([("a", "b\r\nc: d")]), "beyond": b"\xff\xff"}.items():
            attempts[f"inner headers, {name}"] = ("POST", path, *client.seal("POST", path, [b"x"], block=block))
        for name, (method, target, sent_headers, sent_body) in attempts.items():
            problem = self.refusal(lambda: self.as_sent(method, target, sent_headers, sent_body))
            want((problem.status, problem.code) == (400, "unsealable"), f"{name}: {problem}")
        want(self.count() == before, "a broken request reached the service")
        want(self.mirrored(client.sent("POST", path, headers, body))["method"] == "POST", "none of them burnt its nonce")
        return {"attempts": len(attempts)}

    def as_sent(self, method, path, headers, body):
        """Whatever comes back: a problem, or a sealed answer, which nobody has a reason for."""
        response = self.client.exchange(method, path, headers, body)
        if checks3.optional(response.getheaders(), "X-Seal") is None:
            raise self.client.problem(response)
        return response

    def a_broken_end_is_no_whole_body(self):
        """A frame that opened may have reached the service, as a part of a request that broke off."""
        before = self.count()
        faults = {"cut": lambda body, first: body[:-1], "last frame missing": lambda body, first: body[:first],
                  "flipped": lambda body, first: body[:-1] + bytes([body[-1] ^ 1]),
                  "a byte behind": lambda body, first: body + b"\0"}
        for name, break_it in faults.items():
            headers, body = self.client.seal("POST", self.echo, [b"one", b"two"])
            first = 16 + 4 + int.from_bytes(body[16:20], "big") % 2**31
            problem = self.refusal(lambda: self.as_sent("POST", self.echo, headers, break_it(body, first)))
            want((problem.status, problem.code) == (400, "unsealable"), f"{name}: {problem}")
        want(self.count() == before, "the service took a broken body for a whole one")

    def a_request_is_taken_once(self):
        headers, body = self.client.seal("POST", self.echo, [b"once"])
        want(self.client.sent("POST", self.echo, headers, body).status == 200, "the first")
        for _ in range(2):
            self.refused(lambda: self.client.sent("POST", self.echo, headers, body), 409, "replayed")
        sealed, _ = self.client.seal("GET", self.echo)
        self.client.sent("GET", self.echo, sealed, None).body()
        self.refused(lambda: self.client.sent("GET", self.echo, sealed, None), 409, "replayed")

    def an_answer_is_no_request(self):
        headers, body = self.client.seal("POST", self.echo, [b"x"])
        response = self.client.exchange("POST", self.echo, headers, body)
        back = [(name, value) for name, value in response.getheaders() if name.lower() in
                ("x-seal", "x-kid", "x-idempotency-key", "content-type")]
        self.refused(lambda: self.as_sent("POST", self.echo, back, response.read()), 400, "unsealable")

    def a_wrong_clock_heals(self):
        self.client.clock_offset_ms = 86_400_000
        problem = self.refused(lambda: self.client.once("GET", self.echo), 400, "clock_skew")
        want(problem.proven, "the server's time is not proven")
        for method, offset in (("GET", 86_400_000), ("GET", -86_400_000), ("POST", -86_400_000)):
            self.client.clock_offset_ms = offset
            self.mirrored(self.client.call(method, self.echo, None if method == "GET" else [b"healed"]))
            want(abs(self.client.clock_offset_ms) < 60_000, self.client.clock_offset_ms)
        self.client.clock_offset_ms = 0

    def what_may_be_served_is_not_sent_again(self):
        """A stamp that was too early is good later; one that is too old now may have been good when it was sent."""
        before, exchange = self.count(), self.client.exchange

        def held(*what):
            response = exchange(*what)
            time.sleep(1)
            return response

        for offset, slowly in ((86_400_000, exchange), (-300_500, exchange), (-600_500, held)):
            self.client.clock_offset_ms, self.client.exchange = offset, slowly
            problem = self.refused(lambda: self.client.call("POST", self.echo, [b"once"]), 400, "clock_skew")
            want(problem.proven and not problem.again, f"{offset}: sent again")
            want(abs(self.client.clock_offset_ms) < 60_000, f"{offset}: the time was not taken")
        self.client.exchange = exchange
        want(self.count() == before, "the service was asked")
        self.mirrored(self.client.call("POST", self.echo, [b"the next one"]))
        self.client.clock_offset_ms = 0

    def in_an_unknown_session_a_safe_method_alone_is_sent_again(self):
        kept = self.client.session
        unknown = checks3.Session("S-" + secrets.token_hex(16), 3, kept.keys, kept.expires_ms)
        self.client.session = unknown
        problem = self.refused(lambda: self.client.call("POST", self.echo, [b"x"]), 401, "session_expired")
        want(set(problem.body) == {"type", "title", "status", "code"}, problem.body)
        want(self.client.session is unknown, "a POST was sent again")
        self.mirrored(self.client.call("GET", self.echo))
        want(self.client.session.id not in (kept.id, unknown.id), "no new session")

    # --- Renew and end ---

    def a_session_is_renewed(self):
        old, answer = self.client.session, self.client.answer
        self.client.renew()
        new = self.client.session
        want(new.id != old.id and new.keys.prk != old.keys.prk, new.id)
        want((self.client.answer.auth, self.client.answer.subject) == (answer.auth, answer.subject), self.client.answer)
        self.mirrored(self.client.once("GET", self.echo))
        self.client.session = old
        self.mirrored(self.client.once("GET", self.echo))
        self.client.session = new
        return {"old": old.id, "new": new.id}

    def nobody_renews_or_ends_for_another(self):
        other = make(self.args, suites=["P256"])
        other.init()
        self.refused(lambda: self.client.renew(client_id="somebody-else"), 403, "policy")
        self.refused(lambda: self.client.renew(session_id=other.session.id), 403, "policy")
        self.refused(lambda: self.client.once("DELETE", f"/v3/sessions/{other.session.id}"), 403, "policy")
        self.mirrored(other.once("GET", self.echo))

    def a_session_ends(self):
        want(self.client.end() == 204, "the answer")
        self.refused(lambda: self.client.once("POST", self.echo, [b"x"]), 401, "session_expired")


ORDER = [
    Checks.keys_are_found_by_what_is_pinned, Checks.every_suite_agrees_a_session, Checks.another_suite_is_asked_for_and_given,
    Checks.no_common_suite_is_suite_required, Checks.a_session_is_agreed, Checks.a_bad_init_names_its_member,
    Checks.a_pin_that_nobody_has_is_key_retired, Checks.a_wrong_answer_is_refused_by_this_client, Checks.a_get_reaches_the_service,
    Checks.headers_are_hidden_both_ways, Checks.every_method_goes_through, Checks.a_long_body_of_many_frames_arrives_whole,
    Checks.a_body_in_chunks_arrives_whole, Checks.an_answer_streams, Checks.statuses_are_the_services,
    Checks.an_answer_is_good_for_its_request_alone, Checks.broken_requests_are_refused_and_reach_nobody,
    Checks.a_broken_end_is_no_whole_body, Checks.a_request_is_taken_once, Checks.an_answer_is_no_request,
    Checks.a_wrong_clock_heals, Checks.what_may_be_served_is_not_sent_again, Checks.in_an_unknown_session_a_safe_method_alone_is_sent_again,
    Checks.a_session_is_renewed, Checks.nobody_renews_or_ends_for_another, Checks.a_session_ends,
]


def run(args) -> int:
    checks = Checks(args)
    for check in ORDER:
        checks.run(getattr(checks, check.__name__))
    if args.issuer_key:
        import checks_tokens3
        for check in checks_tokens3.TokenChecks(checks, args).all():
            checks.run(check)
    tell(passed=checks.passed, failed=checks.failed)
    return 1 if checks.failed or not checks.passed else 0
