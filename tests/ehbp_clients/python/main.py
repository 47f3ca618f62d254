"""The published client of the Encrypted HTTP Body Protocol, unchanged, at a gateway. See ../README.md."""

import sys

from ehbp import Client
from ehbp.errors import KeyConfigMismatchError


def made(length: int) -> bytes:
    return bytes((at * 31 + 7) % 251 for at in range(length))


def main(base: str) -> None:
    client = Client.discover(base)
    for length in (1, 64 * 1024, 8 * 1024 * 1024):
        for route in ("v1", "stream"):
            sent = made(length)
            answer = client.post(f"/{route}/echo", body=sent)
            assert answer.status_code == 200, answer.status_code
            assert answer.content == sent, f"{length} bytes by {route}"

    own = client.post("/v1/500", body=b"x")
    assert (own.status_code, own.content) == (500, b'{"error":"own"}')

    # The parts of a streamed answer arrive one by one: the service waits for a line of this program before the second.
    with client.stream("POST", "/v1/parts", body=b"x") as streamed:
        text = b""
        for part in streamed:
            text += part
            if text == b"one,":
                print("first part", flush=True)
        assert text == b"one,two", text

    assert client.get("/bodyless/echo").status_code == 200

    print("retire", flush=True)
    sys.stdin.readline()
    try:
        client.post("/v1/echo", body=b"x")
    except KeyConfigMismatchError:
        pass
    else:
        raise AssertionError("a retired key was accepted")
    assert Client.discover(base).post("/v1/echo", body=b"again").content == b"again"
    print("done", flush=True)


main(sys.argv[1])
