"""Sealed streams: a commit, then frames. `spec/session-3.md#sealed-requests`."""

from __future__ import annotations

from typing import Final

from ...crypto.aead import TAG_LEN, Aes256Gcm
from ...crypto.digest import expand, is_equal
from ...errors import ProtocolError
from ...wire.encoding import short_fields
from ...wire.inner import InnerHeaders, decode_inner

#: Plaintext bytes of a frame.
FRAME_MAX: Final = 65_536
COMMIT_LEN: Final = 16
_LAST = 0x8000_0000
_HEAD_LEN = COMMIT_LEN + 4
_ONE_LEN_MIN, _ONE_LEN_MAX = _HEAD_LEN + TAG_LEN - 1, _HEAD_LEN + FRAME_MAX + TAG_LEN
_COUNT_MAX = 2**32


class StreamKeys:
    """Key, IV and commit of one message. Printing shows nothing."""

    __slots__ = ("commit", "gcm", "iv")

    def __init__(self, direction_key: bytes | bytearray, label: bytes, one: str, other: str) -> None:
        out = expand(direction_key, label + short_fields(one, other), 60)
        self.gcm: Final = Aes256Gcm(out[:32])
        self.iv: Final = int.from_bytes(out[32:44], "big")
        self.commit: Final = out[44:]

    def nonce(self, count: int, is_last: bool) -> bytes:
        """`iv xor (F as 32 bits ‖ n as 64 bits)`."""
        return (self.iv ^ (is_last << 64 | count)).to_bytes(12, "big")

    def __repr__(self) -> str:
        return "StreamKeys(redacted)"


def stream_len(plaintext_len: int) -> int:
    """Returns the length of a stream of so many bytes, inner headers included, if no frame ends early."""
    frames = max(1, -(-plaintext_len // FRAME_MAX))
    return COMMIT_LEN + plaintext_len + frames * (4 + TAG_LEN)


class FrameSealer:
    """Seals the frames of one message, in order."""

    __slots__ = ("_context", "_count", "_keys", "prefix")

    def __init__(self, keys: StreamKeys, context: bytes, prefix: bytes = b"") -> None:
        """`prefix` stands before the commit."""
        self._keys, self._context, self.prefix = keys, context, prefix
        self._count = 0

    def seal(self, plaintext: bytes | bytearray | memoryview, is_last: bool) -> bytes:
        """The next frame; the commit stands before the first.

        Raises:
            ValueError: for more than 64 KiB, for an empty frame that is not the last, for too many frames.
        """
        if len(plaintext) > FRAME_MAX or self._count >= _COUNT_MAX or not (is_last or plaintext):
            raise ValueError("no frame can be made of this")
        return b"".join(self._parts(plaintext, is_last))

    def _parts(self, plaintext: bytes | bytearray | memoryview, is_last: bool) -> tuple[bytes, bytes]:
        sealed = self._keys.gcm.seal(self._keys.nonce(self._count, is_last), plaintext, self._context)
        head = ((_LAST if is_last else 0) | len(sealed)).to_bytes(4, "big")
        self._count += 1
        return (self.prefix + self._keys.commit + head if self._count == 1 else head), sealed

    def seal_all(self, inner: bytes, body: bytes | memoryview, is_last: bool = True) -> bytes:
        """Inner headers and what follows, in as few frames as there can be."""
        if len(inner) + len(body) <= FRAME_MAX:
            return self.seal(inner + body if inner else body, is_last)
        view = memoryview(body)
        first = FRAME_MAX - len(inner)
        out = [*self._parts(inner + view[:first], False)]
        for at in range(first, len(view), FRAME_MAX):
            out += self._parts(view[at : at + FRAME_MAX], is_last and at + FRAME_MAX >= len(view))
        return b"".join(out)


class FrameOpener:
    """Opens a stream as it comes, in pieces of any size. It holds less than a frame beside what it is fed."""

    __slots__ = ("_commit", "_context", "_count", "_is_single", "_keys", "_pending", "is_done")

    def __init__(self, keys: StreamKeys, context: bytes, *, is_single: bool = False) -> None:
        """`is_single` is true for a stream in `X-Sealed`, which has one frame."""
        self._keys, self._context, self._is_single = keys, context, is_single
        self._pending = bytearray()
        self._commit: bytes | None = None
        self._count = 0
        #: Whether the last frame was opened.
        self.is_done = False

    @property
    def waiting(self) -> int:
        """The number of bytes held of a frame that is not whole."""
        return len(self._pending)

    def feed(self, data: bytes) -> list[bytes]:
        """The plaintexts of the frames that this completes.

        Raises:
            ProtocolError: `frame_invalid`, `unsealable`; `stream_truncated` if the first frame in `X-Sealed` is not the
                last. The stream is of no use then.
        """
        if self._commit is None and not self._pending and len(data) > _ONE_LEN_MIN:
            # One frame, and whole: the common case.
            word = int.from_bytes(data[COMMIT_LEN:_HEAD_LEN], "big")
            if word & _LAST and (word & ~_LAST) == len(data) - _HEAD_LEN and len(data) <= _ONE_LEN_MAX:
                self._commit = data[:COMMIT_LEN]
                return [self._open(memoryview(data)[_HEAD_LEN:], True)]
        # What is fed whole is opened where it lies; what comes in crumbs is gathered without copying it for each.
        pending: bytes | bytearray = data
        if self._pending:
            self._pending += data
            pending = self._pending
        opened: list[bytes] = []
        at, end = 0, len(pending)
        if self._commit is None:
            if end < COMMIT_LEN:
                self._keep(pending, 0)
                return opened
            self._commit = bytes(pending[:COMMIT_LEN])
            at = COMMIT_LEN
        with memoryview(pending) as view:
            while not self.is_done and end - at >= 4:
                word = int.from_bytes(view[at : at + 4], "big")
                is_last, length = bool(word & _LAST), word & ~_LAST
                if not TAG_LEN <= length <= FRAME_MAX + TAG_LEN or (length == TAG_LEN and not is_last):
                    raise ProtocolError("frame_invalid")
                if end - at - 4 < length:
                    break
                opened.append(self._open(view[at + 4 : at + 4 + length], is_last))
                at += 4 + length
        if self.is_done and at < end:
            raise ProtocolError("frame_invalid")
        self._keep(pending, at)
        return opened

    def _keep(self, pending: bytes | bytearray, at: int) -> None:
        if pending is self._pending:
            del self._pending[:at]
        else:
            self._pending += memoryview(pending)[at:]

    def _open(self, sealed: memoryview, is_last: bool) -> bytes:
        # The first tag is computed whether or not the commit is right, so that no answer comes sooner for it.
        is_first = self._count == 0
        is_committed = not is_first or is_equal(self._commit or b"", self._keys.commit)
        try:
            plaintext = self._keys.gcm.open(self._keys.nonce(self._count, is_last), sealed, self._context)
        finally:
            sealed.release()
        if not is_committed:
            raise ProtocolError("unsealable")
        self._count += 1
        if self._count > _COUNT_MAX:
            raise ProtocolError("frame_invalid")
        self.is_done = is_last
        if self._is_single:
            self.finish()
        return plaintext

    def finish(self) -> None:
        """Says that nothing more comes.

        Raises:
            ProtocolError: `stream_truncated` unless the last frame came.
        """
        if not self.is_done:
            raise ProtocolError("stream_truncated")


def open_whole(opener: FrameOpener, data: bytes) -> tuple[InnerHeaders, list[bytes]]:
    """Inner headers, and what each frame of a whole stream holds of the body.

    Raises:
        ProtocolError: as the stream has it.
    """
    frames = opener.feed(data)
    inner: InnerHeaders = []
    if frames:
        # Before the check of the end: a reader of a stream in pieces checks the first frame first.
        inner, at = decode_inner(frames[0])
        frames[0] = frames[0][at:]
    opener.finish()
    return inner, frames
