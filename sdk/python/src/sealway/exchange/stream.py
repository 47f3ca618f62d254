"""The body of a sealed request, piece by piece."""

from __future__ import annotations

from ..errors import ProtocolError
from ..session.native.call import sealed_header
from ..session.native.stream import FrameOpener
from ..wire.header import X_SEALED, Headers


class Stream:
    """Reads the body of a sealed request, however it is cut into chunks. A piece is the plaintext of a frame, or all of the
    sealed message of a protocol without frames. The last one is held back until the body has ended, for a byte behind it
    makes the whole a forgery."""

    __slots__ = ("_headers", "_is_in_header", "_last", "_opener", "is_done")

    def __init__(self, opener: FrameOpener | None, headers: Headers) -> None:
        """Without an opener the body is one sealed message, which `Opening.open` opens."""
        self._opener, self._headers = opener, headers
        self._is_in_header = opener is not None and X_SEALED in headers
        self._last: bytes | bytearray = bytearray()
        #: True once the last piece was given.
        self.is_done = False

    @property
    def waiting(self) -> int:
        """The number of sealed bytes held that are in no piece yet."""
        return 0 if self._opener is None else self._opener.waiting

    def read(self, data: bytes) -> list[bytes]:
        """The pieces that this completes.

        Raises:
            ProtocolError: `frame_invalid`, `unsealable`; `header_invalid` for a byte beside a stream in a header, as either
                could be meant. The stream cannot be read on then.
        """
        if self._is_in_header and data:
            raise ProtocolError("header_invalid", X_SEALED)
        if self._opener is None:
            self._last += data
            return []
        pieces = self._opener.feed(data)
        if pieces and self._opener.is_done:
            self._last = pieces.pop()
        return pieces

    def end(self) -> list[bytes]:
        """The pieces that are left; the body has ended.

        Raises:
            ProtocolError: as `read`, `stream_truncated`.
        """
        is_in_header, self._is_in_header = self._is_in_header, False
        pieces = self.read(sealed_header(self._headers) or b"") if is_in_header else []
        if self._opener is not None:
            self._opener.finish()
        self.is_done = True
        last, self._last = bytes(self._last), b""
        return [*pieces, last]
