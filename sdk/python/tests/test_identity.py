"""Identity keys and roots of every algorithm over real sockets, and attempts to lead a client to a weaker one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sealway
from calling import CONTENT, KINDS, calls
from hostile import Hostile
from one_shot_service import Service
from sealway import SignatureAlgorithm as Algorithm
from sealway import Suite
from sealway.crypto.curve import P256, KeyPair
from sealway.session import identity
from sealway.session.identity import IdentityKey, Signer, is_public_key, key_id, verify
from sealway.session.native.server import Identity
from sealway.wire.encoding import encode_base64
from sealway.wire.members import TIME_MS_MAX
from serving import IDENTITY, served

OTHERS = [algorithm for algorithm in Algorithm if algorithm is not Algorithm.ES256]
COMPOSITES = [Algorithm.ES256_ML_DSA_65, Algorithm.ES384_ML_DSA_87]


def key(algorithm: Algorithm, n: int = 1) -> IdentityKey:
    return IdentityKey(algorithm, bytes([n]) * (48 if "ES384" in algorithm else 32), bytes([n]) * 32)


KEYS = {algorithm: key(algorithm) for algorithm in Algorithm}


def serve(hostile: Hostile, *signers: Signer, root: Signer | None = None) -> None:
    """The service has these keys, the last one the latest."""
    hostile.identities = [Identity(signer, n, TIME_MS_MAX) for n, signer in enumerate(signers)]
    hostile.root = root


def base64(signer: Signer) -> str:
    return encode_base64(signer.public)


def fails(kind: str, url: str, **options: Any) -> str:
    """The code of the error that one call ends with; nothing was sent to the service's handlers."""
    with pytest.raises(sealway.SealwayError) as error:
        calls(kind, url, **options)
    assert error.value.stage == "agreement"
    return error.value.code


class Signing:
    """A signer that makes what a test says of a key's signature."""

    def __init__(self, of: IdentityKey, sign: Callable[[bytes], bytes]) -> None:
        self.public = of.public
        self.sign = sign


# --- Every algorithm


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_pinned_key_of_each_algorithm_signs(hostile: Hostile, url: str, kind: str, algorithm: Algorithm) -> None:
    serve(hostile, KEYS[algorithm])
    for pin in (key_id(KEYS[algorithm].public), base64(KEYS[algorithm])):
        for accepted in (None, (algorithm,)):
            trust = sealway.Pins([pin])
            [response] = calls(kind, url, trust=trust, signature_algorithms=accepted)
            assert response.content == CONTENT
            assert hostile.request is not None
            assert hostile.request.signature_algorithms == (None if accepted is None else (algorithm.value,))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", OTHERS)
def test_a_root_of_each_algorithm_names_keys(hostile: Hostile, url: str, kind: str, algorithm: Algorithm) -> None:
    root = key(algorithm, 2)
    serve(hostile, IDENTITY, KEYS[algorithm], root=root)
    trust = sealway.Root(base64(root))
    [response] = calls(kind, url, trust=trust, signature_algorithms=(algorithm,))
    assert response.content == CONTENT
    # Without a restriction the root is accepted, being pinned, and the key of ES256 signs.
    calls(kind, url, trust=trust)
    serve(hostile, IDENTITY, KEYS[algorithm], root=key(algorithm, 3))
    assert fails(kind, url, trust=trust) == "key_untrusted"


def test_all_suites_agree_with_all_algorithms(hostile: Hostile, url: str) -> None:
    hostile.suites = list(Suite)
    for suite in (Suite.SECP384R1MLKEM1024, Suite.MLKEM1024):
        serve(hostile, KEYS[Algorithm.ES384_ML_DSA_87])
        trust = sealway.Pins([base64(KEYS[Algorithm.ES384_ML_DSA_87])])
        [response] = calls("sync", url, trust=trust, suites=(suite,))
        assert response.extensions["sealway"].suite == suite.value


def test_the_suites_with_ml_kem_1024_are_not_offered_by_default(hostile: Hostile, url: str) -> None:
    calls("sync", url)
    assert hostile.request is not None
    assert hostile.request.suites == ("X25519MLKEM768", "SecP256r1MLKEM768", "P256")
    assert hostile.request.signature_algorithms is None
    assert b"signature_algorithms" not in hostile.request.encode()
    # A service that requires one of them has no suite in common.
    hostile.suites = [Suite.MLKEM1024, Suite.P256]
    [response] = calls("sync", url, suites=(Suite.MLKEM1024, Suite.P256))
    assert response.extensions["sealway"].suite == "MLKEM1024"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", OTHERS)
def test_a_root_of_each_algorithm_signs_a_key_document(kind: str, algorithm: Algorithm) -> None:
    from test_one_shot import send

    service = Service()
    service.root = reference_root(algorithm)
    root = encode_base64(service.root.public)
    with served(service.app) as url:
        for accepted in (None, (algorithm,)):
            [answer] = send(kind, url, sealway.Root(root), ("POST", "/a", b"1"), signature_algorithms=accepted)
            assert answer.content == b"1"
        service.root = reference_root(algorithm, 8)
        with pytest.raises(sealway.ProtocolError) as error:
            send(kind, url, sealway.Root(root), ("POST", "/a", b"1"))
        assert error.value.code == "key_untrusted"


def reference_root(algorithm: Algorithm, n: int = 7) -> Any:
    import identity3  # type: ignore[import-not-found]

    length = {"ES256": 32, "ES384": 48}.get(identity3.PARTS[algorithm.value][0], 0)
    return identity3.Identity(bytes([n]) * length, alg=algorithm.value, seed=bytes([n]) * 32)


# --- First use


def kept(store: Path) -> set[str]:
    [entry] = json.loads(store.read_text()).values()
    return set(entry)


@pytest.mark.parametrize("kind", KINDS)
def test_first_use_keeps_keys_of_accepted_algorithms(hostile: Hostile, url: str, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "trust.json"
    composite, other = KEYS[Algorithm.ES384_ML_DSA_87], KEYS[Algorithm.ML_DSA_65]
    serve(hostile, IDENTITY, other, composite)
    accepted = (Algorithm.ES384_ML_DSA_87,)
    calls(kind, url, trust=sealway.FirstUse(sealway.FileTrustStore(file)), signature_algorithms=accepted)
    assert kept(file) == {key_id(composite.public)}
    # The keys of the file are pinned: another client may have them without a restriction.
    calls(kind, url, trust=sealway.FirstUse(sealway.FileTrustStore(file)))
    assert hostile.request is not None and hostile.request.pinned_key_ids == (key_id(composite.public),)
    assert key_id(composite.public) in kept(file)
    # A client that accepts other algorithms alone trusts none of them.
    trust = sealway.FirstUse(sealway.FileTrustStore(file))
    with pytest.raises(sealway.UsageError, match="signature_algorithms is ML-DSA-65"):
        calls(kind, url, trust=trust, signature_algorithms=(Algorithm.ML_DSA_65,))


def test_first_use_without_a_restriction_keeps_keys_of_es256(hostile: Hostile, url: str, tmp_path: Path) -> None:
    file = tmp_path / "trust.json"
    serve(hostile, IDENTITY, KEYS[Algorithm.ML_DSA_87])
    calls("sync", url, trust=sealway.FirstUse(sealway.FileTrustStore(file)))
    assert kept(file) == {key_id(IDENTITY.public)}


# --- Downgrades


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("changed", [None, ("ES256",), ("ES256", "ML-DSA-87"), ("ML-DSA-87",)])
def test_changed_algorithms_are_detected(
    hostile: Hostile, url: str, kind: str, changed: tuple[str, ...] | None
) -> None:
    serve(hostile, IDENTITY, KEYS[Algorithm.ML_DSA_87])
    accepted = (Algorithm.ML_DSA_87, Algorithm.ES256)
    root = sealway.Root(base64(key(Algorithm.ML_DSA_87, 2)))
    hostile.root = key(Algorithm.ML_DSA_87, 2)
    calls(kind, url, trust=root, signature_algorithms=accepted)
    hostile.rewritten = {"signature_algorithms": changed}
    assert fails(kind, url, trust=root, signature_algorithms=accepted) == "signature_invalid"
    assert fails(kind, url, trust=sealway.FirstUse(), signature_algorithms=accepted) == "signature_invalid"
    # A client that accepts the strong algorithm alone does not even verify the weak key's signature.
    hostile.rewritten = {"signature_algorithms": ("ES256",)}
    code = fails(kind, url, trust=sealway.FirstUse(), signature_algorithms=accepted[:1])
    assert code == "key_untrusted"


def test_algorithms_that_are_added_on_the_way_are_detected(hostile: Hostile, url: str) -> None:
    hostile.rewritten = {"signature_algorithms": ("ES256",)}
    assert fails("sync", url) == "signature_invalid"


def test_the_service_needs_a_key_of_an_accepted_algorithm(hostile: Hostile, url: str) -> None:
    serve(hostile, IDENTITY, KEYS[Algorithm.ES256_ML_DSA_65])
    trust = sealway.FirstUse()
    assert fails("sync", url, trust=trust, signature_algorithms=(Algorithm.ML_DSA_65,)) == "key_retired"
    serve(hostile, KEYS[Algorithm.ML_DSA_65])
    assert fails("sync", url, trust=trust) == "key_retired"


@pytest.mark.parametrize("algorithm", [Algorithm.ES256, Algorithm.ML_DSA_87])
def test_a_key_that_is_not_accepted_is_rejected_without_a_fetch(
    hostile: Hostile, url: str, algorithm: Algorithm
) -> None:
    """A service that signs with a pinned key, though the client restricts the algorithms."""
    weak, strong = KEYS[algorithm], KEYS[Algorithm.ES384]
    serve(hostile, weak)
    hostile.rewritten = {"signature_algorithms": None}
    trust = sealway.Pins([key_id(weak.public), base64(strong)])
    assert fails("sync", url, trust=trust, signature_algorithms=(Algorithm.ES384,)) == "key_untrusted"
    # The id alone told nothing about the algorithm: the client looked the key up, once.
    assert hostile.key_sets == 1
    with pytest.raises(sealway.UsageError, match="signature_algorithms"):
        sealway.Options(trust=sealway.Pins([base64(weak)]), signature_algorithms=(Algorithm.ES384,))


Halves = tuple[bytes, bytes]
#: What a service sends of its own signature's halves, and of a stranger's.
FAULTS: dict[str, Callable[[Halves, Halves], bytes]] = {
    "classical wrong": lambda own, other: other[0] + own[1],
    "ml-dsa wrong": lambda own, other: own[0] + other[1],
    "classical zero": lambda own, _: bytes(len(own[0])) + own[1],
    "ml-dsa zero": lambda own, _: own[0] + bytes(len(own[1])),
    "swapped": lambda own, _: own[1] + own[0],
    "classical alone": lambda own, _: own[0],
    "ml-dsa alone": lambda own, _: own[1],
}


@pytest.mark.parametrize("algorithm", COMPOSITES)
def test_a_client_that_pins_a_composite_accepts_neither_part_alone(
    hostile: Hostile, url: str, algorithm: Algorithm
) -> None:
    whole, stranger = KEYS[algorithm], key(algorithm, 9)
    parts = [key(Algorithm(name)) for name in algorithm.split("+")]
    trust = sealway.Pins([base64(whole)])
    serve(hostile, whole)
    calls("sync", url, trust=trust)

    def halves(signer: IdentityKey, message: bytes) -> Halves:
        signature, at = signer.sign(message), parts[0].algorithm.signature_len
        return signature[:at], signature[at:]

    for name, fault in FAULTS.items():
        serve(hostile, Signing(whole, lambda m, fault=fault: fault(halves(whole, m), halves(stranger, m))))  # type: ignore[misc]
        assert fails("sync", url, trust=trust) == "signature_invalid", name
    # The parts as keys of their own sign the message itself.
    serve(hostile, Signing(whole, lambda m: parts[0].sign(m) + parts[1].sign(m)))
    assert fails("sync", url, trust=trust) == "signature_invalid"
    for part in parts:
        assert part.public in whole.public
        serve(hostile, part)
        assert fails("sync", url, trust=trust) == "key_retired"


def test_a_part_of_a_composite_signature_is_none_of_the_part_as_a_key() -> None:
    for algorithm in COMPOSITES:
        classical, lattice = (key(Algorithm(name)) for name in algorithm.split("+"))
        message = b"sealway/3 signature" + bytes(32)
        signature = KEYS[algorithm].sign(message)
        at = classical.algorithm.signature_len
        assert verify(KEYS[algorithm].public, message, signature)
        assert not verify(classical.public, message, signature[:at])
        assert not verify(lattice.public, message, signature[at:])
        both = classical.sign(message) + lattice.sign(message)
        assert not verify(KEYS[algorithm].public, message, both)


def test_a_suite_with_ml_kem_1024_that_is_stripped_is_detected(hostile: Hostile, url: str) -> None:
    hostile.suites = [Suite.MLKEM1024, Suite.P256]
    # The first agreement is led to P256 by a forged problem; the service names its suites under the signature.
    hostile.rewritten = {"suites": ("P256",)}
    forged = [Suite.P256]
    hostile.suites, kept_suites = forged, hostile.suites
    assert fails("sync", url, suites=(Suite.MLKEM1024, Suite.P256)) == "signature_invalid"
    hostile.suites, hostile.rewritten = kept_suites, {}
    calls("sync", url, suites=(Suite.MLKEM1024, Suite.P256))


# --- Keys and options


def test_public_keys_are_checked_before_they_are_trusted() -> None:
    for algorithm, each in KEYS.items():
        assert is_public_key(each.public)
        if algorithm.has_point:
            assert not is_public_key(b"\2" + each.public[1:])
            off = bytearray(each.public)
            off[40] ^= 1
            with pytest.raises(sealway.UsageError, match="public keys"):
                sealway.Pins([encode_base64(bytes(off))])
        with pytest.raises(sealway.UsageError, match="public keys"):
            sealway.Pins([encode_base64(each.public[:-1])])
        assert "redacted" in repr(each) and encode_base64(bytes([1]) * 32) not in repr(each)


def test_es256_signs_as_before() -> None:
    message = b"sealway/3 signature" + bytes(32)
    scalar = bytes(31) + b"\7"
    assert IdentityKey(Algorithm.ES256, scalar).sign(message) == KeyPair(scalar, P256).sign(message)


def test_wrong_algorithms_are_named() -> None:
    trust = sealway.FirstUse()
    root = sealway.Root(base64(KEYS[Algorithm.ML_DSA_87]))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"signature_algorithms": ()}, "signature_algorithms"),
        ({"signature_algorithms": ("ES256",)}, "signature_algorithms"),
        ({"signature_algorithms": "ES256"}, "signature_algorithms"),
        ({"signature_algorithms": (Algorithm.ES256, Algorithm.ES256)}, "signature_algorithms"),
        ({"signature_algorithms": (Algorithm.ES256,), "wire": 2}, "wires 1 and 2"),
        ({"signature_algorithms": (Algorithm.ES256,), "trust": root}, "do not include ML-DSA-87"),
        ({"signature_algorithms": (Algorithm.ES256,), "trust": root, "wire": 4}, "do not include ML-DSA-87"),
        ({"signature_algorithms": (Algorithm.ML_DSA_87,), "trust": sealway.Pins([base64(IDENTITY)])}, "ES256"),
    ]
    for given, message in wrong:
        with pytest.raises(sealway.UsageError, match=message):
            sealway.Options(**{"trust": trust, **given})


def test_an_algorithm_that_the_library_lacks_is_an_error_before_the_first_init(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in builds of `cryptography` on an older OpenSSL."""
    root = sealway.Root(base64(KEYS[Algorithm.ES256_ML_DSA_65]))
    for part in identity._PARTS[Algorithm.ES256_ML_DSA_65][1:]:
        monkeypatch.setitem(vars(part), "is_supported", False)
    assert not identity.accepts(None, KEYS[Algorithm.ML_DSA_65].public, is_pinned=True)
    for given in ({"trust": root}, {"trust": sealway.FirstUse(), "signature_algorithms": (Algorithm.ML_DSA_65,)}):
        with pytest.raises(sealway.UsageError, match=r"has no .*ML-DSA-65"):
            sealway.Options(**given)
    sealway.Options(trust=sealway.FirstUse(), signature_algorithms=(Algorithm.ML_DSA_87,))


def test_algorithms_are_copied_when_they_are_checked() -> None:
    given = iter((Algorithm.ES256, Algorithm.ES384))
    options = sealway.Options(trust=sealway.FirstUse(), signature_algorithms=given)  # type: ignore[arg-type]
    assert options.algorithm_names() == ("ES256", "ES384")
