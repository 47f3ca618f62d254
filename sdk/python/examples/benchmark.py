#!/usr/bin/env python3
"""N sealed purchases: benchmark.py N [--json], BENCHMARK_CONCURRENCY at a time. The environment is in settings.py."""

from __future__ import annotations

import json
import math
import sys
import time

import anyio
import httpx

import sealway
from settings import LANGUAGE, PATH, PURCHASE, Settings, refuse, whole

N_MAX = 10_000_000


class Run:
    """The measurements of a run."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self.client, self.url = client, url
        self.latencies: list[float] = []
        self.failed = 0
        self.error = ""

    async def call(self) -> bool:
        """Makes one purchase. Returns True if it succeeded."""
        try:
            response = await self.client.post(self.url, json=PURCHASE)
            if response.status_code == 200 and response.json().get("status") == "SUCCESS":
                return True
            self.error = self.error or f"status {response.status_code}"
        except (sealway.SealwayError, httpx.TransportError, ValueError) as error:
            self.error = self.error or f"{type(error).__name__}: {error}"
        return False

    async def measure(self, n: int, concurrency: int) -> float:
        """Makes `n` calls. Returns their time in seconds."""
        left, done, shown = n, 0, 0.0

        async def work() -> None:
            nonlocal left, done, shown
            while left > 0:
                left -= 1
                began = time.perf_counter()
                if await self.call():
                    self.latencies.append((time.perf_counter() - began) * 1000)
                else:
                    self.failed += 1
                done += 1
                if time.monotonic() - shown > 0.2 or done == n:
                    shown = time.monotonic()
                    print(f"\r{done}/{n} ({self.failed} failed)", end="", file=sys.stderr, flush=True)

        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(min(concurrency, n)):
                group.start_soon(work)
        print(file=sys.stderr)
        return time.perf_counter() - began


def percentiles(latencies: list[float]) -> dict[str, float | None]:
    """Nearest rank, in milliseconds."""
    ordered = sorted(latencies)

    def at(share: float) -> float | None:
        return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 3) if ordered else None

    mean = round(sum(ordered) / len(ordered), 3) if ordered else None
    return {
        "min": at(0),
        "mean": mean,
        "p50": at(0.5),
        "p90": at(0.9),
        "p95": at(0.95),
        "p99": at(0.99),
        "max": at(1),
    }


async def run(n: int, is_json: bool) -> int:
    settings = Settings()
    concurrency = whole("BENCHMARK_CONCURRENCY", 1, 1, 1000)
    warmup = min(max(n // 10, concurrency), 100)
    transport = sealway.AsyncTransport(
        settings.url,
        settings.options,
        inner=httpx.AsyncHTTPTransport(limits=httpx.Limits(max_connections=concurrency)),
    )
    async with httpx.AsyncClient(transport=transport) as client:
        run = Run(client, settings.url + PATH)
        await run.measure(warmup, concurrency)
        warm_failed = run.failed
        run.latencies, run.failed = [], 0
        seconds = await run.measure(n, concurrency)
    if run.error:
        print(f"the first failure: {run.error}", file=sys.stderr)
    line = {
        "program": "benchmark",
        "language": LANGUAGE,
        "wire": settings.options.wire,
        "n": n,
        "concurrency": concurrency,
        "warmup": warmup,
        "failed": run.failed,
        "seconds": round(seconds, 6),
        "throughput_per_s": round((n - run.failed) / seconds, 3),
        "latency_ms": percentiles(run.latencies),
    }
    if is_json:
        print(json.dumps(line))
    else:
        print(f"{n} calls, {run.failed} failed, {seconds:.3f} s, {line['throughput_per_s']} a second")
        for name, value in percentiles(run.latencies).items():
            print(f"  {name:<5}{value if value is not None else '-':>10} ms")
    return 0 if run.failed == 0 and warm_failed == 0 else 1


def main() -> int:
    arguments = [argument for argument in sys.argv[1:] if argument != "--json"]
    if len(arguments) != 1 or not arguments[0].isascii() or not arguments[0].isdigit():
        refuse("usage: benchmark.py N [--json]")
    n = int(arguments[0]) if len(arguments[0]) <= 9 else 0
    if not 1 <= n <= N_MAX:
        refuse(f"N is a number from 1 to {N_MAX}")
    return anyio.run(run, n, "--json" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
