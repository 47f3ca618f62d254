"""The arithmetic of spec/redis-store.md, "Sessions", straight from its text, and its scenarios."""

import struct
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from session import NOW, fixed

AUTHS = ["none", "bearer", "dpop", "certificate"]
LABEL = b"sealway session row\0"
HOUR = 3_600_000


@dataclass(frozen=True)
class Stored:
    id: str
    wire: int
    client_id: str | None = None
    subject: str | None = None
    tenant: str | None = None
    auth: str = "none"
    lineage: str | None = None
    created_ms: int = NOW
    expires_ms: int = NOW + HOUR
    kek_id: str = "2026-11"

    @property
    def key(self) -> bytes:
        return fixed("row key " + self.id)

    @property
    def iv(self) -> bytes:
        return fixed("row iv " + self.id, 12)

    def told(self) -> dict:
        return {"id": self.id, "wire": self.wire, "client_id": self.client_id, "subject": self.subject,
                "tenant": self.tenant, "auth": self.auth, "lineage": self.lineage, "created_ms": self.created_ms,
                "expires_ms": self.expires_ms, "key_hex": self.key.hex()}

    def head(self, version: int) -> bytes:
        head = struct.pack(">QBBQ", self.expires_ms, version, self.wire, self.created_ms)
        head += text(self.client_id) + text(self.subject)
        if version > 1:
            head += text(self.tenant) + bytes([AUTHS.index(self.auth)])
        return head + text(self.lineage) if version > 2 else head

    def aad(self, version: int = 3) -> bytes:
        return self.id.encode() if version < 3 else LABEL + text(self.id) + self.head(3)

    def wrapped(self, version: int = 3) -> bytes:
        return self.iv + AESGCM(kek(self.kek_id)).encrypt(self.iv, self.key, self.aad(version))

    def value(self, version: int = 3, wrapped: bytes | None = None) -> bytes:
        return self.head(version) + text(self.kek_id) + (wrapped or self.wrapped(version))


def text(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else struct.pack(">H", len(value.encode())) + value.encode()


def kek(kek_id: str) -> bytes:
    return fixed("kek " + kek_id)


def an_id(label: str, kind: str = "S") -> str:
    return f"{kind}-{fixed('row id ' + label, 16).hex()}"


def keks(*ids: str) -> list[dict]:
    return [{"id": kek_id, "key_hex": kek(kek_id).hex()} for kek_id in ids]


FULL = Stored(an_id("full"), 3, "app", "alice", "bank-a", "dpop", an_id("first"))
PLAIN = Stored(an_id("plain"), 2, "web")
STORED = {
    "wire1-anonymous": (Stored(an_id("anonymous", "A"), 1), "Nothing but times."),
    "wire2": (PLAIN, "A client id."),
    "wire2-subject": (Stored(an_id("subject"), 2, "web", "alice"), "A subject whose token was verified."),
    "wire3-full": (FULL, "Renewed from another session, and every other field there is."),
    "wire3-first": (Stored(an_id("native"), 3, "app", "bob", None, "bearer"), "The first of its chain: no lineage."),
    "utf8": (Stored(an_id("utf8"), 3, "app", "\u00e9\U0001f511", "a\"b\\c", "certificate"), "Lengths are of bytes."),
    "empty-texts": (Stored(an_id("empty"), 2, "web", "", ""), "An empty text is not \"none\"."),
    "second-kek": (replace(PLAIN, id=an_id("second"), kek_id="2026-10"), "Wrapped under a key that no longer wraps."),
}


def add_all(add) -> None:
    for name, (stored, comment) in STORED.items():
        body = dict(keks=keks("2026-11", "2026-10"), session=stored.told(), kek_id=stored.kek_id, iv_hex=stored.iv.hex(),
                    aad_hex=stored.aad().hex(), value_hex=stored.value().hex())
        add("row", f"row-{name}", comment, body)
    add_old(add)
    add_refused(add)


def add_old(add) -> None:
    """Rows that releases before version 3 wrote, read until a time that is given."""
    wrong = Stored(an_id("old"), 2, "web", "alice")
    for name, stored, version in [("version1", wrong, 1), ("version2", replace(wrong, tenant="bank-a", auth="bearer"), 2)]:
        for what, until in [("read", stored.expires_ms), ("by-default", 0), ("too-long", stored.expires_ms - 1)]:
            body = dict(keks=keks("2026-11"), session_id=stored.id, value_hex=stored.value(version).hex(),
                        accept_until_ms=until)
            if what == "read":
                add("row-old", f"row-old-{name}", "Ends by the time until which such rows are accepted.",
                    body | dict(session=stored.told()))
            else:
                add("row-refused", f"row-refused-{name}-{what}", "Nothing authenticates its fields.",
                    body | dict(reason="unauthenticated"))
    native = Stored(an_id("old native"), 3, "app", "alice", None, "dpop")
    add("row-refused", "row-refused-version2-wire3", "A session that could be renewed is never read from an old row.",
        dict(keks=keks("2026-11"), session_id=native.id, value_hex=native.value(2).hex(), accept_until_ms=native.expires_ms,
             reason="unauthenticated"))
    zeros = replace(wrong, id="S-" + 32 * "0")
    add("row-refused", "row-refused-version1-zeros",
        "The id of zeros: stores keep a key that everybody knows wrapped under it.",
        dict(keks=keks("2026-11"), session_id=zeros.id, value_hex=zeros.value(1).hex(), accept_until_ms=zeros.expires_ms,
             reason="unauthenticated"))


def add_refused(add) -> None:
    def refused(name, comment, reason, value, session_id=FULL.id, ids=("2026-11",)):
        add("row-refused", f"row-refused-{name}", comment,
            dict(keks=keks(*ids), session_id=session_id, value_hex=value.hex(), accept_until_ms=0, reason=reason))

    changes = {
        "subject": dict(subject="bob"), "no-subject": dict(subject=None), "tenant": dict(tenant="bank-b"),
        "auth": dict(auth="certificate"), "client-id": dict(client_id="web"), "lineage": dict(lineage=an_id("other")),
        "no-lineage": dict(lineage=None), "wire": dict(wire=2), "created": dict(created_ms=NOW + 1),
        "expires": dict(expires_ms=FULL.expires_ms + HOUR),
        "moved-bytes": dict(client_id="appa", subject="lice"),
    }
    for name, change in changes.items():
        value = replace(FULL, **change).value(3, FULL.wrapped())
        refused(f"changed-{name}", "A field was changed in the store; the wrapped key is the genuine one.", "damaged", value)
    refused("other-id", "A genuine row under another session's id.", "damaged", FULL.value(), session_id=PLAIN.id)
    refused("as-version2", "A row of version 3 written as one of version 2.", "unauthenticated",
            FULL.value(2, FULL.wrapped()))
    refused("version2-as-3", "A wrap of version 2 in a row of version 3.", "damaged", FULL.value(3, FULL.wrapped(2)))
    flipped = bytearray(FULL.value())
    flipped[-1] ^= 1
    refused("tag", "One bit of the tag.", "damaged", bytes(flipped))
    refused("unknown-kek", "No key of this id.", "unknown_kek", FULL.value(), ids=("2026-10",))
    refused("version4", "A version that nobody has written.", "malformed", FULL.head(4) + FULL.value(3)[len(FULL.head(3)):])
    refused("short", "The last byte is missing.", "malformed", FULL.value()[:-1])
    refused("long", "A byte behind the row.", "malformed", FULL.value() + b"\0")
    refused("auth-number", "No such way to be recognised.", "malformed",
            FULL.value().replace(text("bank-a") + b"\2", text("bank-a") + b"\7"))
    refused("lineage-shape", "A lineage that is no session id.", "malformed", replace(FULL, lineage="S-1").value())
