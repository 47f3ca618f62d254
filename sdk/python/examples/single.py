#!/usr/bin/env python3
"""One sealed purchase, narrated: single.py [--json]. The environment is in settings.py."""

from __future__ import annotations

import json
import sys
from typing import Any

import httpx

import sealway
from settings import LANGUAGE, PATH, PURCHASE, Settings, refuse


def narrate(metrics: sealway.CallMetrics) -> None:
    """The metrics of a call, for a person."""
    shown = metrics.as_json()
    print("\nPerformance Metrics Summary")
    for name, label in (
        ("round_trip_ms", "Total Round-Trip"),
        ("session_ms", "  agreeing a session"),
        ("http_ms", "  HTTP Request Time"),
    ):
        print(f"  {label:<32}{shown[name]:>10.3f} ms")
    for name, value in shown["crypto_ms"].items():
        print(f"  {'  client crypto: ' + name:<32}{value:>10.3f} ms")
    for name, value in shown["server_ms"].items():
        print(f"  {'  server: ' + name:<32}{value:>10.3f} ms")


def timings(metrics: sealway.CallMetrics) -> dict[str, Any]:
    """Returns the times of the agreement, and of the call."""
    call = metrics.as_json()
    call["round_trip_ms"] = round(call["round_trip_ms"] - call.pop("session_ms"), 3)
    del call["attempts"]
    return {"init": metrics.session and metrics.session.as_json(), "call": call}


def main() -> int:
    arguments = sys.argv[1:]
    if arguments not in ([], ["--json"]):
        refuse("usage: single.py [--json]")
    is_json = bool(arguments)
    settings = Settings()
    say = (lambda text: print(text, file=sys.stderr)) if is_json else print
    say(f"1. A client of wire {settings.options.wire} agrees a session at {settings.authority_url} for the first call.")
    transport = sealway.Transport(settings.url, settings.options)
    with httpx.Client(transport=transport) as client:
        say(f"2. It seals POST {PATH} with {json.dumps(PURCHASE)} and sends it to {settings.url}.")
        try:
            response = client.post(settings.url + PATH, json=PURCHASE)
            body = response.json()
        except (sealway.SealwayError, httpx.TransportError, ValueError) as error:
            print(f"It failed: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
        metrics: sealway.CallMetrics = response.extensions["sealway"]
        say(f"3. Session {metrics.session_id}, suite {metrics.suite or 'ECDH on P-256'}.")
        say(f"4. The answer opened: {response.status_code} {json.dumps(body)}")
        if is_json:
            line = {
                "program": "single",
                "language": LANGUAGE,
                "wire": metrics.wire,
                "suite": metrics.suite,
                "session_id": metrics.session_id,
                "status": response.status_code,
                "body": body,
                "timings": timings(metrics),
            }
            print(json.dumps(line))
        else:
            narrate(metrics)
        return 0 if response.status_code == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
