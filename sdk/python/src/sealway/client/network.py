"""Connections that keep the timeouts of a call.

httpcore gives every read of a head or of a body the same timeout, so that a peer which drips bytes outlasts it.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any, Final

import httpcore
import httpx

from .timer import StepTimeout

#: Bytes of one write: the timer is checked before each.
_WRITE_MAX: Final = 65_536


def _left(timeout: float | None, error: type[Exception]) -> float | None:
    if not isinstance(timeout, StepTimeout):
        return timeout
    left = timeout.left_sec()
    if left <= 0:
        raise error("the time of the call is over")
    return left


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _WRITE_MAX):
            part = buffer if len(buffer) <= _WRITE_MAX else buffer[at : at + _WRITE_MAX]
            self._inner.write(part, _left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_tcp(host, port, left, local_address, socket_options))

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_unix_socket(path, left, socket_options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


def keep_timeouts(transport: httpx.BaseTransport) -> None:
    """Makes the connections of httpx's own transport keep timeouts. Of another transport each read alone is bounded."""
    pool = getattr(transport, "_pool", None)
    backend = getattr(pool, "_network_backend", None)
    if isinstance(backend, httpcore.NetworkBackend) and not isinstance(backend, _Backend):
        pool._network_backend = _Backend(backend)  # type: ignore[union-attr]
