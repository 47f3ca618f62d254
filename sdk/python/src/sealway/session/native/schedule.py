"""The keys of a session, all of one `prk`: `spec/session-3.md#init`."""

from __future__ import annotations

from ...crypto.digest import expand, extract

Bytes = bytes | bytearray


def prk_of(th: bytes, secret: bytes, previous_exporter: Bytes = b"") -> bytes:
    """`prk` of a transcript's hash and an agreed secret; a renewal puts the previous exporter before it."""
    return extract(th, bytes(previous_exporter) + secret)


def c2s_of(prk: Bytes) -> bytes:
    """The key of requests."""
    return expand(prk, b"sealway/3 c2s")


def s2c_of(prk: Bytes) -> bytes:
    """The key of answers."""
    return expand(prk, b"sealway/3 s2c")


def exporter_of(prk: Bytes) -> bytes:
    """Returns the secret for a renewal."""
    return expand(prk, b"sealway/3 exporter")


def confirm_key_of(prk: Bytes) -> bytes:
    """The key under which the server confirms the transcript."""
    return expand(prk, b"sealway/3 confirm")
