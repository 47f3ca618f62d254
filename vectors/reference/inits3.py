"""Scenarios of wire 3's init and renewal: what both sides make of them."""

import json
from dataclasses import dataclass, field, replace
from functools import cache, partial

import checks3
import kem
import session3 as s3
from session import NOW, fixed, text_or_hex
from identity3 import Identity
from session3 import ClientKeys, InitRequest, ServerKeys

SUITES = ["X25519MLKEM768", "SecP256r1MLKEM768", "P256"]
SEEDS = fixed("wire 3/kem d") + fixed("wire 3/kem z")
KEM_PUBLIC, KEM_PRIVATE = kem.keys(SEEDS[:32], SEEDS[32:])
KEM1024_PUBLIC, KEM1024_PRIVATE = kem.keys(SEEDS[:32], SEEDS[32:], 4)
CLIENT = ClientKeys(fixed("wire 3/client p256"), fixed("wire 3/client x25519"), SEEDS, fixed("wire 3/client p384", 48))
SERVER = ServerKeys(fixed("wire 3/server p256"), fixed("wire 3/server x25519"), kem.encapsulate(KEM_PUBLIC, fixed("wire 3/kem m")),
                    fixed("wire 3/server p384", 48), kem.encapsulate(KEM1024_PUBLIC, fixed("wire 3/kem m")))
DAY = 86_400_000
IDENTITY = Identity(fixed("wire 3/identity now"), NOW - 2 * DAY, NOW + 30 * DAY)
NEXT = Identity(fixed("wire 3/identity next"), NOW - DAY, NOW + 60 * DAY)
PAST = Identity(fixed("wire 3/identity past"), NOW - 90 * DAY, NOW)
FUTURE = Identity(fixed("wire 3/identity future"), NOW + 1, NOW + 90 * DAY)
STRANGER = Identity(fixed("wire 3/identity stranger"), NOW - 2 * DAY, NOW + 30 * DAY)
BEARER = "Bearer eyJhbGciOiJFUzI1NiJ9.e30.c2lnbmF0dXJl"
OTHER_ID = "0123456789abcdef" * 2


def kinds(suite):
    return s3.PARTS.get(suite, ())


def identity_view(key: Identity) -> dict:
    """A server's identity key; what ES256 has not is absent there."""
    more = {} if key.alg == "ES256" else {"alg": key.alg, "seed_hex": key.seed.hex(), "public_hex": key.public.hex()}
    return {"scalar_hex": key.scalar.hex(), "not_before_ms": key.not_before_ms, "not_after_ms": key.not_after_ms} | more


@dataclass(frozen=True)
class Case:
    """An init, seen by both sides at once."""

    suite: str = "P256"
    suites: tuple = ("P256",)
    server_suites: tuple = tuple(SUITES)
    client_id: str = "demo-client"
    ttl_sec: int | None = None
    proof: str | None = None
    pinned: tuple = ()
    identities: tuple = (IDENTITY,)
    authorization: str | None = None
    auth: str = "none"
    subject: str | None = None
    tenant: str | None = None
    expires_in_sec: int = 3600
    renewed: tuple[str, bytes] | None = None
    text: str | None = None  # a body that says the same in another way than clients do
    # Not printed, as in Identity.
    algorithms: tuple | None = field(default=None, repr=False)

    def with_(self, **changes) -> "Case":
        return replace(self, **changes)

    @property
    def request(self) -> InitRequest:
        return InitRequest(self.suite, list(self.suites), s3.client_share(self.suite, CLIENT), self.client_id, self.ttl_sec,
                           self.proof, list(self.pinned), None if self.algorithms is None else list(self.algorithms))

    @property
    def body(self) -> str:
        return self.text or json.dumps(self.request.members(), separators=(",", ":"))

    @property
    def credential(self) -> bytes:
        return s3.credential(self.authorization)

    @property
    def random(self) -> bytes:
        unprinted = [*(key.alg for key in self.identities if key.alg != "ES256"), *(self.algorithms or ())]
        return fixed("/".join((f"wire 3/session id/{self.with_(text=None)}", *unprinted)), 16)

    def answered(self, request: InitRequest | None = None, credential: bytes | None = None):
        """What the server makes of it, or of a request that was changed on its way."""
        given = dict(session_id="S-" + self.random.hex(), expires_in_sec=self.expires_in_sec, server_time_ms=NOW,
                     auth=self.auth, subject=self.subject, tenant=self.tenant)
        return checks3.accept_init(request or self.request, self.credential if credential is None else credential, given,
                                   list(self.server_suites), list(self.identities), SERVER, self.renewed)

    def client_view(self) -> dict:
        parts = kinds(self.suite)
        expanded = KEM_PRIVATE if "kem" in parts else KEM1024_PRIVATE if "kem1024" in parts else b""
        return {"p256_scalar_hex": CLIENT.p256.hex() if "p256" in parts else "",
                "x25519_hex": CLIENT.x25519.hex() if "x25519" in parts else "",
                "kem_private_hex": expanded.hex()} | self.p384_view(CLIENT) | (
                    {"kem_seed_hex": SEEDS.hex()} if "kem1024" in parts else {})

    def p384_view(self, keys) -> dict:
        """What suites of before have not is absent in them."""
        return {"p384_scalar_hex": keys.p384.hex()} if "p384" in kinds(self.suite) else {}

    def server_view(self) -> dict:
        return {"suites": list(self.server_suites), "identities": [identity_view(key) for key in self.identities]}

    def renewal(self) -> dict:
        if self.renewed is None:
            return {}
        keys = old_session()[2]
        return {"old": {"session_id": self.renewed[0], "prk_hex": keys.prk.hex(), "exporter_hex": keys.exporter.hex(),
                        "client": init_view()}}

    def accepted(self) -> dict:
        said, signature, confirm, keys = self.answered()
        text = json.dumps(said.members(signature, confirm), separators=(",", ":"))
        script = s3.transcript(self.request, self.credential, said, self.renewed and self.renewed[0])
        secret, parts = s3.server_agree(self.suite, self.request.share, SERVER)[1], kinds(self.suite)
        encapsulated = SERVER.kem if "kem" in parts else SERVER.kem1024 if "kem1024" in parts else (b"", b"")
        # Both halves of the reference agree before anybody else is asked to.
        assert checks3.read_init(self.body.encode()) == self.request
        trusted = {said.key_id: next(key.public for key in self.identities if key.id == said.key_id)}
        assert checks3.finish_init(self.request, self.credential, CLIENT, trusted, 201, text.encode(), self.renewed) == (said, keys)
        return self.renewal() | {
            "authorization": self.authorization, "body": text_or_hex(self.body.encode()), "now_ms": NOW,
            "client": None if self.text else self.client_view(),
            "trusted_hex": [public.hex() for public in trusted.values()],
            "server": self.server_view() | {
                "session_id_random_hex": self.random.hex(), "expires_in_sec": self.expires_in_sec, "auth": self.auth,
                "subject": self.subject, "tenant": self.tenant,
                "p256_scalar_hex": SERVER.p256.hex() if "p256" in parts else "",
                "x25519_hex": SERVER.x25519.hex() if "x25519" in parts else "",
                "kem_ciphertext_hex": encapsulated[0].hex(), "kem_secret_hex": encapsulated[1].hex()} | self.p384_view(SERVER),
            "answer": text, "init_hash_hex": s3.init_hash(self.request).hex(), "credential_hex": self.credential.hex(), "transcript_hex": script.hex(),
            "th_hex": s3.sha256(script).hex(), "secret_hex": secret.hex(), "prk_hex": keys.prk.hex(),
            "c2s_hex": keys.c2s.hex(), "s2c_hex": keys.s2c.hex(), "exporter_hex": keys.exporter.hex(),
            "confirm_key_hex": keys.confirm_key.hex(),
        }


BASE = Case()


@cache
def old_session():
    """The session of BASE: its answer, its body and its keys."""
    said, signature, confirm, keys = BASE.answered()
    return said, json.dumps(said.members(signature, confirm), separators=(",", ":")), keys


def init_view() -> dict:
    """What makes that session on the client's side: an init's private key, its body and the answer."""
    return {"p256_scalar_hex": CLIENT.p256.hex(), "body": BASE.body, "answer": old_session()[1], "trusted_hex": IDENTITY.public.hex()}


RENEWED = Case(renewed=(old_session()[0].session_id, old_session()[2].exporter))


def accepted_case(add, name, comment, case):
    add("init3" if case.renewed is None else "renew3", name, comment, case.accepted())


def accepted(add):
    ok = partial(accepted_case, add)
    for suite in SUITES:
        base = Case(suite, (suite,))
        ok(f"init3-{suite}", "A plain init.", base)
        ok(f"renew3-{suite}", "A renewal: the old exporter goes before the secret.",
           base.with_(renewed=RENEWED.renewed, auth="bearer", subject="ann"))
    ok("init3-all", "All that an init may say, and an answer that says all.",
       Case("SecP256r1MLKEM768", tuple(SUITES[1:]), ("P256", "SecP256r1MLKEM768"), ttl_sec=600, proof="eyJ9.e30.c2ln",
            pinned=(IDENTITY.id, OTHER_ID), identities=(NEXT, IDENTITY), authorization="DPoP abc", auth="dpop", subject="ann",
            tenant="acme", expires_in_sec=600))
    strange = BASE.with_(suites=("MLKEM1024", "X" * 32, "a-b_c", "P256"))
    ok("init3-read-unknown-suites", "Names that the server does not know are passed over.", strange.with_(text=strange.body))
    ok("init3-client-order", "The client's order decides, not the server's.",
       BASE.with_(suites=("P256", "X25519MLKEM768"), server_suites=("X25519MLKEM768", "P256")))
    ok("init3-not-served-first", "The client's first is not in the server's list.",
       BASE.with_(suites=("X25519MLKEM768", "P256"), server_suites=("P256", "SecP256r1MLKEM768")))
    for ttl in (0, 1, 2**32 - 1):
        ok(f"init3-ttl-{ttl}", "A ttl at its bounds; the transcript has it as sent.", BASE.with_(ttl_sec=ttl))
    for name, client_id in {"1": "c", "256": "c" * 256, "punctuated": "App (iOS 17)/2.1, build=7; {x}~\""}.items():
        ok(f"init3-client-id-{name}", "A client id at the limits of what is allowed.", BASE.with_(client_id=client_id))
    ok("init3-bearer", "A token: the transcript has its hash.",
       BASE.with_(authorization=BEARER, auth="bearer", subject="ann", tenant="acme"))
    ok("init3-certificate", "Recognised by a certificate, without a tenant.", BASE.with_(auth="certificate", subject="CN=ann"))
    ok("init3-tenant-alone", "A tenant without a subject: absent is not the other's place.", BASE.with_(auth="bearer", tenant="ann"))
    ok("init3-subject-256", "The longest subject and tenant.", BASE.with_(auth="bearer", subject="s" * 256, tenant="t" * 256))
    ok("init3-subject-utf8", "A subject beyond ASCII: its UTF-8.", BASE.with_(auth="bearer", subject="Zoë ☃"))
    ok("init3-latest-key", "Of several live keys the latest signs, and all are named.",
       BASE.with_(identities=(IDENTITY, NEXT, PAST, FUTURE)))
    ok("init3-pinned-key", "A pinned key signs, though there is a later one.",
       BASE.with_(identities=(IDENTITY, NEXT), pinned=(IDENTITY.id,)))
    ok("init3-pinned-16", "As many pins as there may be.",
       BASE.with_(pinned=(*(f"{n:032x}" for n in range(15)), IDENTITY.id)))
    timed = BASE.with_(ttl_sec=600)
    for name, number in {"point": "600.0", "exponent": "6e2", "exponent-2": "6000E-1"}.items():
        ok(f"init3-read-ttl-{name}", "An integer value, however written.",
           timed.with_(text=timed.body.replace("600", number)))
    says = lambda more: BASE.with_(text=BASE.body[:-1] + more + "}")
    ok("init3-read-null", "null is as absent.", says(',"ttl_sec":null,"proof":null,"pinned_key_ids":null'))
    ok("init3-read-no-pins", "An empty list is as absent.", says(',"pinned_key_ids":[]'))
    ok("init3-read-unknown", "Unknown members are passed over.", says(',"device":{"suite":[1,null]},"":true'))
    ok("init3-read-twice", "Of a repeated member the last counts, and the transcript has what was understood.",
       timed.with_(text='{"ttl_sec":60,"share":1,"client_id":"nobody",' + timed.body[1:]))
    ok("init3-read-twice-null", "The last is null, which is as absent.", BASE.with_(text='{"ttl_sec":60,' + BASE.body[1:-1] + ',"ttl_sec":null}'))
    ok("init3-read-white-space", "JSON may have white space, and escapes, anywhere.",
       BASE.with_(text=" \n" + BASE.body.replace(":", " :\t").replace("client_id", "client\\u005fid")))
    ok("renew3-all", "A renewal that says more.", RENEWED.with_(ttl_sec=900, pinned=(IDENTITY.id,), auth="dpop", subject="ann",
                                                            tenant="acme", expires_in_sec=900))


def add_all(add):
    accepted(add)
