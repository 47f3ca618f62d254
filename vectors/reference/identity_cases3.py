"""Scenarios of identity keys and roots of every algorithm, of the suites with ML-KEM-1024, and of what a client accepts."""

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import identity3
import mldsa
import one_shot
import one_shot_cases
import session3 as s3
from cryptography.hazmat.primitives import hashes
from identity3 import Identity
from inits3 import (BASE, BEARER, CLIENT, DAY, IDENTITY, KEM1024_PUBLIC, NEXT, OTHER_ID, PAST, RENEWED, SERVER, STRANGER, Case,
                    accepted_case)
from init_faults3 import members, refused_answer, refused_request
from keys3 import EXPIRES, ISSUED, key_set, refused_set, taken_set
from session import NOW, fixed
from session3 import b64

OTHERS = [alg for alg in identity3.PARTS if alg != "ES256"]
COMPOSITES = [alg for alg in OTHERS if len(identity3.PARTS[alg]) == 2]
SUITES = ["SecP384r1MLKEM1024", "MLKEM1024"]
WIDE, HYBRID, LARGE = "ES256+ML-DSA-65", "SecP384r1MLKEM1024", "ES384+ML-DSA-87"


def identity(alg: str, name: str = "identity", begin=NOW - 2 * DAY, end=NOW + 30 * DAY) -> Identity:
    """A key of an algorithm; each part has its own secret, and the P-384 scalars are below the order."""
    first, last = identity3.PARTS[alg][0], identity3.PARTS[alg][-1]
    length = {"ES256": 32, "ES384": 48}.get(first, 0)
    return Identity(fixed(f"wire 3/{alg}/{name}", length) if length else b"", begin, end, alg,
                    fixed(f"wire 3/{alg}/{name} seed") if last in mldsa.SETS else b"")


KEYS = {alg: identity(alg) for alg in OTHERS}
ROOTS = {alg: identity(alg, "root", 0, 0) for alg in OTHERS}
LATER = {alg: identity(alg, "later", NOW - DAY, NOW + 60 * DAY) for alg in ("ES384", "ML-DSA-87")}


def part(key: Identity, alg: str) -> Identity:
    """A part of a composite key as a key of its own, which nobody makes."""
    classical = alg in identity3.ECDSA
    return Identity(key.scalar if classical else b"", key.not_before_ms, key.not_after_ms, alg, b"" if classical else key.seed)


def pinned(alg: str, **more) -> Case:
    """An init of a client that pins a key of this algorithm."""
    return BASE.with_(identities=(KEYS[alg],), pinned=(KEYS[alg].id,), **more)


# --- What both sides make of them ---

def accepted(add):
    ok = partial(accepted_case, add)
    for alg in OTHERS:
        ok(f"init3-alg-{alg}", "A key that is pinned signs, whatever its algorithm.", pinned(alg))
        ok(f"init3-accepted-{alg}", "A client without pins accepts this algorithm alone.",
           BASE.with_(identities=(KEYS[alg], NEXT), algorithms=(alg,)))
    for suite in SUITES:
        of_suite = Case(suite, (suite,), (suite, "P256"))
        ok(f"init3-{suite}", "A plain init.", of_suite)
        ok(f"renew3-{suite}", "A renewal: the old exporter goes before the secret.",
           of_suite.with_(renewed=RENEWED.renewed, auth="bearer", subject="ann"))
    ok("init3-suites-1024", "The client's order decides between the suites with ML-KEM-1024 and those of before.",
       Case(HYBRID, (HYBRID, "MLKEM1024", "X25519MLKEM768", "P256"), ("P256", "MLKEM1024", HYBRID)))
    full = Case("MLKEM1024", ("MLKEM1024", HYBRID), (HYBRID, "MLKEM1024"), ttl_sec=600, proof="eyJ9.e30.c2ln",
                pinned=(KEYS[LARGE].id, OTHER_ID), identities=(NEXT, KEYS[LARGE]), algorithms=(LARGE, "ML-DSA-87"),
                authorization="DPoP abc", auth="dpop", subject="ann", tenant="acme", expires_in_sec=600)
    ok("init3-algorithms-all", "All that an init may say: the algorithms are in the transcript and in the hash of a proof.", full)
    ok("renew3-algorithms", "A renewal that restricts the algorithms.",
       RENEWED.with_(pinned=(KEYS[WIDE].id,), identities=(KEYS[WIDE],), algorithms=(WIDE,), auth="bearer", subject="ann"))
    ok("init3-algorithms-ES256", "To name the default is not to name nothing.", BASE.with_(algorithms=("ES256",)))
    ok("init3-algorithms-8", "As many algorithms as there may be, and names that nobody knows.",
       BASE.with_(algorithms=(*(f"Unknown_{n}+x-y" for n in range(6)), "A" * 32, "ES256")))
    mixed = BASE.with_(identities=(IDENTITY, KEYS["ML-DSA-87"], LATER["ES384"], LATER["ML-DSA-87"], PAST))
    ok("init3-choice-default", "Without pins and algorithms a key of ES256 signs, though others are later; all are named.", mixed)
    ok("init3-choice-latest", "Of several keys of accepted algorithms the latest signs, in whatever order they are named.",
       mixed.with_(identities=(IDENTITY, KEYS["ML-DSA-87"], LATER["ES384"]), algorithms=("ML-DSA-87", "ES256", "ES384")))
    ok("init3-choice-algorithm", "A later key of another algorithm is passed over.",
       mixed.with_(identities=(IDENTITY, KEYS["ML-DSA-87"], LATER["ES384"]), algorithms=("ML-DSA-87",)))
    ok("init3-choice-pins", "Of two pinned keys the latest signs, whatever its algorithm.",
       mixed.with_(identities=(IDENTITY, LATER["ES384"]), pinned=(IDENTITY.id, LATER["ES384"].id)))
    ok("init3-choice-pins-algorithms", "A pinned key of an accepted algorithm signs, though a later one is pinned.",
       mixed.with_(identities=(IDENTITY, LATER["ES384"], LATER["ML-DSA-87"]), pinned=(IDENTITY.id, LATER["ES384"].id),
                   algorithms=("ES256", "ML-DSA-87")))
    timed = BASE.with_(ttl_sec=600)
    ok("init3-read-algorithms-null", "null is as absent.", timed.with_(text=timed.body[:-1] + ',"signature_algorithms":null}'))


# --- What the client refuses ---

@dataclass(frozen=True)
class Signed:
    """A case's answer, to be signed by whatever a test likes."""

    case: Case

    @property
    def message(self) -> bytes:
        said = self.case.answered()[0]
        return s3.signed(s3.sha256(s3.transcript(self.case.request, self.case.credential, said)))

    def by(self, signature: bytes) -> dict:
        said, _, confirm, _ = self.case.answered()
        return said.members(signature, confirm)


def flipped(data: bytes, at: int) -> bytes:
    return bytes(byte ^ (n == at % len(data)) for n, byte in enumerate(data))


def signatures_refused(add):
    for alg in OTHERS:
        case, key, answer = pinned(alg), KEYS[alg], Signed(pinned(alg))
        no = lambda name, comment, signature, case=case, key=key, answer=answer, code="signature_invalid": refused_answer(
            add, name, comment, code, answer.by(signature), case, trusted=(key,))
        good = key.sign(answer.message)
        no(f"{alg}-flip-first", "One bit of the first byte is another.", flipped(good, 0))
        # Behind the hints of ML-DSA are zeros, and no others.
        no(f"{alg}-flip-last", "A byte near the end is wrong.", flipped(good, -9))
        no(f"{alg}-short", "A byte is missing.", good[:-1])
        no(f"{alg}-long", "A byte too many.", good + b"\0")
        no(f"{alg}-es256", "A signature of the length of ES256's.", IDENTITY.sign(answer.message))
        no(f"{alg}-zero", "A signature of zeros.", bytes(len(good)))
        other = identity(alg, "stranger")
        no(f"{alg}-stranger", "Another key of the same algorithm signed.", other.sign(answer.message))
    parts_refused(add)
    answer = Signed(pinned("ES384"))
    refused_answer(add, "ES384-sha256", "ECDSA on P-384 with SHA-256.", "signature_invalid",
                   answer.by(s3.sign(KEYS["ES384"].scalar, answer.message, s3.P384, hashes.SHA256)), answer.case, trusted=(KEYS["ES384"],))
    for alg in ("ML-DSA-65", "ML-DSA-87"):
        answer, key = Signed(pinned(alg)), KEYS[alg]
        refused_answer(add, f"{alg}-context", "Signed with a context, which is empty here.", "signature_invalid",
                       answer.by(mldsa.sign(alg, key.seed, answer.message, b"sealway")), answer.case, trusted=(key,))
    full = Signed(BASE)
    for name, signature in {"empty": "", "8193": b64(bytes(8193))}.items():
        refused_answer(add, f"signature-{name}", "signature is not of its form.", "answer_mismatch",
                       full.by(b"") | {"signature": signature})


def parts_refused(add):
    """Composite keys: both parts must verify, over a message that no key of one part signs."""
    for alg in COMPOSITES:
        classical, lattice = identity3.PARTS[alg]
        key, answer = KEYS[alg], Signed(pinned(alg))
        no = lambda name, comment, signature, key=key, answer=answer: refused_answer(
            add, f"{alg}-{name}", comment, "signature_invalid", answer.by(signature), answer.case, trusted=(key,))
        good, at = key.sign(answer.message), identity3.SIGNATURE[classical]
        first, second = good[:at], good[at:]
        stranger = identity(alg, "stranger").sign(answer.message)
        no("classical-wrong", "ML-DSA's part is right, the classical part is another key's.", stranger[:at] + second)
        no("ml-dsa-wrong", "The classical part is right, ML-DSA's part is another key's.", first + stranger[at:])
        no("classical-flip", "One bit of the classical part is another.", flipped(first, at - 1) + second)
        no("ml-dsa-flip", "One bit of ML-DSA's part is another.", first + flipped(second, 0))
        no("classical-zero", "No classical part.", bytes(at) + second)
        no("ml-dsa-zero", "No part of ML-DSA.", first + bytes(len(second)))
        no("swapped", "ML-DSA's part comes first.", second + first)
        no("classical-alone", "The classical part without the other.", first)
        no("ml-dsa-alone", "ML-DSA's part without the other.", second)
        bare = key.sign_parts(answer.message)
        no("bare", "Both parts signed the message of a key with one part.", bare)
        no("classical-bare", "The classical part signed the message of a key with one part.", bare[:at] + second)
        no("ml-dsa-bare", "ML-DSA's part signed the message of a key with one part.", first + bare[at:])
        for name, label in {"other": next(other for other in COMPOSITES if other != alg), "classical": classical, "ml-dsa": lattice,
                            "lower": alg.lower()}.items():
            no(f"label-{name}", "The parts signed under the name of another algorithm.",
               key.sign_parts(s3.field(label) + answer.message))
        no("label-unfielded", "The parts signed the name without its length.", key.sign_parts(alg.encode() + answer.message))
        for one in (classical, lattice):
            lone = part(key, one)
            trusting = Signed(BASE.with_(identities=(lone,), pinned=(lone.id,)))
            signature = key.sign(trusting.message)
            refused_answer(add, f"{alg}-as-{one}", "The part of a composite signature, for a client that trusts that part as a key.",
                           "signature_invalid", trusting.by(signature[:at] if one == classical else signature[at:]), trusting.case,
                           trusted=(lone,))
            # What the composite's owner never makes: its part as a key of its own.
            refused_answer(add, f"{alg}-key-of-{one}", "A part signed as a key of its own, for a client that pins the composite.",
                           "key_untrusted", Signed(BASE.with_(identities=(lone,), pinned=(lone.id,))).by(lone.sign(trusting.message)),
                           answer.case, trusted=(key,))


def algorithms_refused(add):
    no = partial(refused_answer, add)
    said = "The server saw other algorithms than the client sent: "
    both = BASE.with_(identities=(KEYS["ML-DSA-87"], IDENTITY), algorithms=("ML-DSA-87", "ES256"))
    for name, change in {"stripped": None, "fewer": ["ML-DSA-87"], "more": ["ML-DSA-87", "ES256", "ES384"],
                         "order": ["ES256", "ML-DSA-87"], "joined": ["ML-DSA-87ES256"]}.items():
        request = both.request.with_(signature_algorithms=change)
        if name == "joined":
            # A server that signs all the same, with the key that was meant.
            answer, _, confirm, _ = both.answered()
            th = s3.sha256(s3.transcript(request, b"", answer))
            no(f"sent-algorithms-{name}", said + name + ".", "signature_invalid",
               answer.members(KEYS["ML-DSA-87"].sign(s3.signed(th)), confirm), both, trusted=(KEYS["ML-DSA-87"], IDENTITY))
        else:
            no(f"sent-algorithms-{name}", said + name + ".", "signature_invalid", members(both, request=request), both,
               trusted=(KEYS["ML-DSA-87"], IDENTITY))
    no("sent-algorithms-added", said + "the client sent none.", "signature_invalid",
       members(BASE, request=BASE.request.with_(signature_algorithms=["ES256"])))
    swapped = BASE.with_(algorithms=("ES256",), authorization=BEARER)
    no("sent-algorithms-moved", said + "the list came behind the token's hash.", "signature_invalid", moved(swapped), swapped)
    only = BASE.with_(algorithms=("ML-DSA-87",))
    honest = members(only.with_(identities=(KEYS["ML-DSA-87"],)))
    no("algorithm-ES256", "A trusted key of ES256, which the client does not accept, signed.", "key_untrusted",
       signed_by(only, IDENTITY), only, trusted=(IDENTITY, KEYS["ML-DSA-87"]))
    no("algorithm-key-id", "The accepted key signed, in the name of one that is not accepted.", "key_untrusted",
       honest | {"key_id": IDENTITY.id}, only, trusted=(IDENTITY, KEYS["ML-DSA-87"]))
    restricted = BASE.with_(pinned=(IDENTITY.id, KEYS["ES384"].id), algorithms=("ES384",))
    no("algorithm-pinned", "A pinned key of an algorithm that the client does not accept signed.", "key_untrusted",
       signed_by(restricted, IDENTITY), restricted, trusted=(IDENTITY, KEYS["ES384"]))
    no("algorithm-part", "A client that accepts the composite does not accept its part.", "key_untrusted",
       signed_by(BASE.with_(algorithms=(WIDE,)), IDENTITY), BASE.with_(algorithms=(WIDE,)), trusted=(IDENTITY, KEYS[WIDE]))
    no("algorithm-composite", "A client that accepts both parts does not accept the composite.", "key_untrusted",
       signed_by(BASE.with_(algorithms=("ES256", "ML-DSA-65")), KEYS[WIDE]), BASE.with_(algorithms=("ES256", "ML-DSA-65")),
       trusted=(IDENTITY, KEYS[WIDE]))
    for alg in OTHERS:
        no(f"algorithm-default-{alg}", "A key of this algorithm signed, which a client accepts that names it or pins the key.",
           "key_untrusted", signed_by(BASE, KEYS[alg]), trusted=(KEYS[alg],))


def signed_by(case: Case, key: Identity) -> dict:
    """A server that signs this request with a key that the client does not accept; all else is right."""
    said = case.with_(identities=(key,), pinned=(key.id,), algorithms=None).answered()[0].with_(session_id="S-" + case.random.hex())
    th = s3.sha256(s3.transcript(case.request, case.credential, said))
    made = s3.schedule(th, s3.server_agree(case.suite, case.request.share, SERVER)[1])
    return said.members(key.sign(s3.signed(th)), s3.hmac256(made.confirm_key, th))


def moved(case: Case) -> dict:
    """As the case answers, with the algorithms behind the credential in what is signed."""
    said, _, confirm, _ = case.answered()
    request = case.request.with_(signature_algorithms=None)
    script = s3.transcript(request, case.credential, said)
    at = script.index(s3.field(case.credential)) + 36
    th = s3.sha256(script[:at] + s3.fields(case.algorithms) + script[at:])
    return said.members(IDENTITY.sign(s3.signed(th)), confirm)


def suites_refused(add):
    no, request_no = partial(refused_answer, add), partial(refused_request, add)
    two = BASE.with_(suites=("MLKEM1024", "P256"), server_suites=("P256", "MLKEM1024"))
    stripped = two.request.with_(suites=["P256"])
    no("suite-downgraded-MLKEM1024", "Both like MLKEM1024 better; the client was led to P256.", "suite_downgraded",
       members(two, request=stripped), two)
    three = Case("X25519MLKEM768", (HYBRID, "X25519MLKEM768"), (HYBRID, "X25519MLKEM768"))
    no(f"suite-downgraded-{HYBRID}", "Both like the larger ML-KEM better; the client was led to the smaller.", "suite_downgraded",
       members(three, request=three.request.with_(suites=["X25519MLKEM768"])), three)
    request = lambda suite, suites: Case(suite, tuple(suites)).request.members()
    request_no("suite-MLKEM1024-not-served", "The server has the other suite with ML-KEM-1024.", "suite_required",
               request("MLKEM1024", ["MLKEM1024", HYBRID]), case=BASE.with_(server_suites=(HYBRID,)))
    request_no(f"suite-{HYBRID}-not-first", "The server has one that the client likes better.", "suite_required",
               request(HYBRID, ["MLKEM1024", HYBRID]), case=BASE.with_(server_suites=(HYBRID, "MLKEM1024")))
    request_no(f"suite-{HYBRID}-off", "A server without the suites with ML-KEM-1024, as it is by default.", "suite_required",
               request(HYBRID, [HYBRID]))
    for suite in SUITES:
        for name, share in bad_shares(suite, True).items():
            case = Case(suite, (suite,), (suite,))
            said, _, confirm, _ = case.answered()
            said = said.with_(share=share)
            th = s3.sha256(s3.transcript(case.request, b"", said))
            code = "unconfirmed" if name == "ciphertext-flip" else "public_key_invalid"
            no(f"share-{suite}-{name}", "Signed, and the server's share is none.", code,
               said.members(IDENTITY.sign(s3.signed(th)), confirm), case)
        for name, share in bad_shares(suite, False).items():
            request_no(f"share-{suite}-{name}", "The share is none.", "public_key_invalid",
                       {"suite": suite, "suites": [suite], "share": b64(share), "client_id": "c"},
                       case=BASE.with_(server_suites=(suite,)))


P384 = 2**384 - 2**128 - 2**96 + 2**32 - 1


def bad_points() -> dict[str, bytes]:
    raw = s3.public(s3.P384, SERVER.p384)
    x, y = raw[1:49], raw[49:]
    return {"off-curve": flipped(raw, -1), "zero": b"\4" + bytes(96), "x-is-p": b"\4" + P384.to_bytes(48, "big") + y,
            "hybrid": bytes([6 + (y[-1] & 1)]) + x + y, "x-above-p": b"\4" + b"\xff" * 48 + y}


def bad_kem_keys() -> dict[str, bytes]:
    """Encapsulation keys with a coefficient that is not below q."""
    key = KEM1024_PUBLIC
    return {"kem-first-q": bytes([0x01, key[1] & 0xF0 | 0x0D]) + key[2:],
            "kem-last-4095": key[:1534] + bytes([key[1534] | 0xF0, 0xFF]) + key[1536:], "kem-all-ones": b"\xff" * 1536 + key[1536:]}


def bad_shares(suite: str, server: bool) -> dict[str, bytes]:
    """Shares that are none, by the side that makes them."""
    good = s3.server_agree(suite, s3.client_share(suite, CLIENT), SERVER)[0] if server else s3.client_share(suite, CLIENT)
    parts = s3.split(suite, good, s3.CLIENT_LENGTHS)
    join = lambda **changes: b"".join((parts | changes).values())
    out = {"short": good[:-1], "long": good + b"\0", "of-768": good[:-384]}
    if "p384" in parts:
        out |= {name: join(p384=point) for name, point in bad_points().items()}
        out["swapped"] = parts["kem1024"] + parts["p384"]
    if server:
        return out | {"ciphertext-flip": flipped(good, -1)}
    return out | {name: join(kem1024=key) for name, key in bad_kem_keys().items()}


# --- What the server refuses ---

def requests_refused(add):
    no = partial(refused_request, add)
    good = BASE.with_(ttl_sec=600).request.members()
    restricted = lambda algorithms: good | {"signature_algorithms": algorithms}
    wrong = {"empty": [], "9": [f"a{n}" for n in range(8)] + ["ES256"], "same": ["ES256", "ES256"], "of-numbers": [1],
             "empty-name": ["", "ES256"], "33": ["x" * 33, "ES256"], "space": ["ES256 ", "ES256"], "dot": ["a.b", "ES256"],
             "text": "ES256", "object": {}, "flag": True}
    for name, value in wrong.items():
        no(f"signature-algorithms-{name}", "signature_algorithms is not of its form.", "field_invalid", restricted(value),
           "signature_algorithms")
    no("suites-plus", "A suite's name has no plus, which an algorithm's has.", "field_invalid",
       good | {"suites": ["ES256+ML-DSA-65", "P256"]}, "suites")
    all_live = BASE.with_(identities=(IDENTITY, KEYS["ES384"], KEYS[WIDE]))
    retired = lambda name, comment, body, case: no(f"key-retired-{name}", comment, "key_retired", body, case=case)
    retired("algorithm", "No live key is of an accepted algorithm.", restricted(["ML-DSA-87"]), all_live)
    retired("unknown-algorithm", "The client accepts algorithms that nobody knows.", restricted(["Falcon-512"]), all_live)
    retired("default", "A client without pins and algorithms accepts ES256 alone, and no such key is live.", good,
            BASE.with_(identities=(KEYS["ML-DSA-87"], KEYS[WIDE], PAST)))
    retired("part", "The composite key is no key of its part's algorithm.", restricted(["ML-DSA-65"]), all_live)
    retired("part-pinned", "The pinned key is the part of a composite key.",
            good | {"pinned_key_ids": [part(KEYS[WIDE], "ES256").id]}, BASE.with_(identities=(KEYS[WIDE],)))
    retired("pin-and-algorithm", "The pinned key is of an algorithm that the client does not accept.",
            restricted(["ES384"]) | {"pinned_key_ids": [IDENTITY.id]}, all_live)
    retired("past-algorithm", "The key of the accepted algorithm is over.", restricted(["ES384"]),
            BASE.with_(identities=(IDENTITY, identity("ES384", "past", NOW - 90 * DAY, NOW))))
    no("order-pins-before-algorithms", "Two faults, to show the order of checks.", "field_invalid",
       restricted(1) | {"pinned_key_ids": 1}, "pinned_key_ids")


# --- Key sets, and key documents of wire 4 ---

def unknown(alg: str, public: bytes, key=IDENTITY):
    return SimpleNamespace(alg=alg, id=s3.key_id(public), public=public, not_before_ms=key.not_before_ms, not_after_ms=key.not_after_ms)


def sets(add):
    ok = partial(taken_set, add)
    trusted = lambda *keys: [(key, NOW, NOW, True) for key in keys]
    untrusted = lambda *keys: [(key, NOW, NOW, False) for key in keys]
    every = (IDENTITY, *KEYS.values())
    ok("algorithms-default", "A client without a restriction takes a set with keys of every algorithm, and trusts those of ES256.",
       key_set(every), cases=trusted(IDENTITY) + untrusted(*KEYS.values()))
    ok("algorithms-every", "A client that accepts every algorithm.", key_set(every), algorithms=tuple(identity3.PARTS),
       cases=trusted(*every))
    ok("algorithms-one", "A client that accepts one algorithm, its root's and a key's.", key_set(every, root=ROOTS["ML-DSA-87"]),
       root=ROOTS["ML-DSA-87"], algorithms=("ML-DSA-87",),
       cases=trusted(KEYS["ML-DSA-87"]) + untrusted(IDENTITY, *(KEYS[alg] for alg in OTHERS if alg != "ML-DSA-87")))
    for alg, root in ROOTS.items():
        ok(f"root-{alg}", "A root of this algorithm; it is accepted, being pinned.", key_set(root=root), root=root)
        ok(f"root-accepted-{alg}", "A client that accepts the root's algorithm and ES256.", key_set(root=root), root=root,
           algorithms=("ES256", alg))
    alien = unknown("SLH-DSA-128s", fixed("wire 3/unknown key"))
    for name, key in {"unknown": alien, "unknown-1-byte": unknown("x", b"\1"), "unknown-8192-bytes": unknown("A" * 32, b"\2" * 8192),
                      "unknown-plus": unknown("ES256+SLH-DSA_128s", b"\4" * 97 + b"\0")}.items():
        ok(f"algorithm-{name}", "A key of an algorithm that nobody knows is in what the root signs, and is never trusted.",
           key_set((key, IDENTITY)), cases=untrusted(key) + trusted(IDENTITY))
    off = [unknown(alg, flipped(KEYS[alg].public, 64)) for alg in ("ES384", *COMPOSITES)]
    ok("algorithm-off-curve", "Keys whose point is off the curve may stand in a set, and sign nothing.", key_set((*off, IDENTITY)),
       cases=trusted(IDENTITY) + untrusted(*off))
    ok("algorithm-unknown-accepted", "Nor is it if the client names that algorithm.", key_set((alien, IDENTITY)),
       algorithms=("SLH-DSA-128s", "ES256"), cases=untrusted(alien) + trusted(IDENTITY))


def sets_refused(add):
    no = partial(refused_set, add)
    for alg, root in ROOTS.items():
        good = key_set(root=root)
        no(f"root-{alg}-not-accepted", "A root of an algorithm that the client does not accept.", "key_untrusted", good, root=root,
           algorithms=("ES256",))
        for name, signature in root_faults(root, good, s3.key_set_message(ISSUED, EXPIRES, listed(IDENTITY, NEXT))):
            no(f"root-{alg}-{name}", "The root's signature is none.", "signature_invalid", good | {"root_signature": b64(signature)},
               root=root)
    no("root-ES256-not-accepted", "A root of an algorithm that the client does not accept.", "key_untrusted", key_set(),
       algorithms=("ML-DSA-87",))
    no("root-63-bytes", "The signature of a root has another length.", "signature_invalid", key_set(root_signature=b64(bytes(63))))
    alien = unknown("SLH-DSA-128s", fixed("wire 3/unknown key"))
    with_alien = key_set((alien, IDENTITY))
    no("unknown-removed", "A key of an unknown algorithm was taken out.", "signature_invalid", with_alien | {"keys": with_alien["keys"][1:]})
    other = unknown("SLH-DSA-128s", fixed("wire 3/other unknown key"))
    no("unknown-replaced", "A key of an unknown algorithm was replaced.", "signature_invalid",
       with_alien | {"keys": key_set((other, IDENTITY))["keys"]})
    form = lambda name, comment, key: no(f"key-{name}", comment, "field_invalid", key_set((key, IDENTITY)))
    lengths = "A key of another length than its algorithm's."
    for alg, key in KEYS.items():
        form(f"{alg}-short", lengths, unknown(alg, key.public[:-1]))
        form(f"{alg}-long", lengths, unknown(alg, key.public + b"\0"))
        form(f"{alg}-renamed", "The length of a known algorithm under a name that nobody knows.", unknown("SLH-DSA-128s", key.public))
        form(f"{alg}-lower", "Names of algorithms compare with case.", unknown(alg.lower(), key.public))
    form("ES384-as-ES256", "The length of a known algorithm under the name of another.", unknown("ES256", KEYS["ES384"].public))
    form("ES256-as-ES384", "The length of a known algorithm under the name of another.", unknown("ES384", STRANGER.public))
    form("composite-as-part", "The length of a known algorithm under the name of another.", unknown("ML-DSA-65", KEYS[WIDE].public))
    for alg in ("ES384", *COMPOSITES):
        form(f"{alg}-compressed", "A point of another form.", unknown(alg, b"\2" + KEYS[alg].public[1:]))
    form("unknown-8193-bytes", "A key of an unknown algorithm that is too long.", unknown("x", bytes(8193)))
    form("unknown-empty", "A key of an unknown algorithm without bytes.", unknown("x", b""))
    for name, alg in {"empty": "", "33": "x" * 33, "space": "SLH DSA", "dot": "SLH.DSA"}.items():
        form(f"alg-{name}", "alg is not of its form.", unknown(alg, b"\1\2\3"))
    form("unknown-id-other", "The id of another key, also where the algorithm is unknown.",
         SimpleNamespace(**vars(alien) | {"id": OTHER_ID}))


def listed(*keys):
    return [(key.id, key.public, key.not_before_ms, key.not_after_ms) for key in keys]


def root_faults(root: Identity, good: dict, message: bytes):
    """Signatures of a root's algorithm that are not this root's."""
    signature = s3.unb64(good["root_signature"])
    yield "flip", flipped(signature, 0)
    yield "short", signature[:-1]
    if root.alg in COMPOSITES:
        at = identity3.SIGNATURE[identity3.PARTS[root.alg][0]]
        stranger = identity(root.alg, "stranger").sign(message)
        yield "classical-wrong", stranger[:at] + signature[at:]
        yield "ml-dsa-wrong", signature[:at] + stranger[at:]
        yield "swapped", signature[at:] + signature[:at]
        yield "bare", root.sign_parts(message)


def documents(add):
    first = [(NOW, one_shot_cases.ALL, one_shot_cases.XWING.kid)]
    no = partial(one_shot_cases.refused_document, add)
    keys = [(one.config, one.not_before_ms, one.use_until_ms, one.not_after_ms) for one in one_shot_cases.KEYS]
    for alg, root in ROOTS.items():
        good = one_shot_cases.document(root=root)
        one_shot_cases.taken_document(add, f"root-{alg}", "A root of this algorithm.", good, first, root=root)
        one_shot_cases.taken_document(add, f"root-accepted-{alg}", "A client that accepts the root's algorithm.", good, first, root=root,
                                      algorithms=(alg,))
        no(f"root-{alg}-not-accepted", "A root of an algorithm that the client does not accept.", "key_untrusted", good, root=root,
           algorithms=("ES256",))
        message = one_shot.document_message(good["issued_ms"], good["expires_ms"], keys)
        for name, signature in root_faults(root, good, message):
            no(f"root-{alg}-{name}", "The root's signature is none.", "signature_invalid", good | {"root_signature": b64(signature)},
               root=root)
    no("root-ES256-not-accepted", "A root of an algorithm that the client does not accept.", "key_untrusted", one_shot_cases.document(),
       algorithms=("ML-DSA-87",))
    no("root-63-bytes", "The signature of a root has another length.", "signature_invalid",
       one_shot_cases.document(root_signature=b64(bytes(63))))


def add_all(add):
    for part_of in (accepted, signatures_refused, algorithms_refused, suites_refused, requests_refused, sets, sets_refused, documents):
        part_of(add)
