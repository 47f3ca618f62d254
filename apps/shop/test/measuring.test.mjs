import assert from "node:assert/strict";
import test from "node:test";
import { percentile, runBenchmark } from "../dist/benchmark.js";
import { CHART_WIDTH, chartOf } from "../dist/chart.js";
import { Journal } from "../dist/journal.js";
import { MetricsBook, median, serverTotal, sharesOf } from "../dist/metrics.js";

const call = (endpoint, totalMs, more = {}) => ({
  endpoint,
  method: "POST",
  path: "/x",
  status: 200,
  totalMs,
  httpMs: totalMs / 2,
  crypto: [{ name: "seal", ms: totalMs / 4 }],
  serverTiming: [
    { name: "ecdh", ms: 1 },
    { name: "total", ms: 1.5 },
  ],
  requestBytes: 1,
  responseBytes: 2,
  ...more,
});

test("percentiles are of the nearest rank", () => {
  const values = Array.from({ length: 100 }, (_, index) => index + 1);
  assert.deepEqual(
    [0, 50, 90, 99, 100].map((percent) => percentile(values, percent)),
    [1, 50, 90, 99, 100],
  );
  assert.equal(percentile([7], 50), 7);
  assert.equal(median([3, 1, 2, 9]), 2);
});

test("the shares of a call add up to its round trip and none is below zero", () => {
  for (const [total, http, crypto, server] of [
    [10, 6, 2, 1],
    [10, 12, 3, 20],
    [10, 0, 0, 0],
    [0, 1, 1, 1],
  ]) {
    const shares = Object.values(sharesOf(total, http, crypto, server));
    assert.ok(shares.every((share) => share >= 0));
    assert.ok(Math.abs(shares.reduce((sum, share) => sum + share, 0) - total) < 1e-9);
  }
});

test("the server's total counts, else the sum of its steps, else nothing is known", () => {
  assert.equal(
    serverTotal([
      { name: "a", ms: 1 },
      { name: "total", ms: 5 },
    ]),
    5,
  );
  assert.equal(
    serverTotal([
      { name: "a", ms: 1 },
      { name: "b", ms: 2 },
    ]),
    3,
  );
  assert.equal(serverTotal([]), null);
});

test("metrics are kept by kind of call, in one order, within bounds", () => {
  const book = new MetricsBook();
  for (let count = 0; count < 2000; count += 1) book.add(call("call", count));
  book.add(call("init", 20));
  const rows = book.rows();
  assert.deepEqual(
    rows.map((row) => [row.endpoint, row.calls]),
    [
      ["init", 1],
      ["call", 2000],
    ],
  );
  assert.ok(rows[1].medianMs > 1700, "the median is of the last calls");
  book.wipe();
  assert.deepEqual(book.rows(), []);
});

test("each bar fills the chart with its shares", () => {
  const book = new MetricsBook();
  book.add(call("init", 40));
  book.add(call("call", 10));
  const { bars, description } = chartOf(book.rows());
  const ends = bars.map(({ segments }) => Math.max(...segments.map(({ x, width }) => x + width)));
  for (const end of ends) assert.ok(end <= CHART_WIDTH && end > 0.98 * CHART_WIDTH);
  assert.match(description, /Start session: 40\.0 ms, of it client crypto 10\.0/);
  assert.deepEqual(chartOf([]).bars, []);
});

test("the console keeps the last 200 lines", () => {
  const journal = new Journal();
  for (let count = 0; count < 500; count += 1) journal.add(count, "plain", String(count));
  assert.equal(journal.entries().length, 200);
  assert.equal(journal.entries()[0].text, "300");
  journal.wipe();
  assert.deepEqual(journal.entries(), []);
});

const plan = (call, more = {}) => {
  let now = 0;
  return {
    calls: 20,
    concurrency: 4,
    warmup: 2,
    call,
    now: () => (now += 1),
    signal: new AbortController().signal,
    onProgress() {},
    ...more,
  };
};

test("a benchmark makes the calls that were asked for, after those to warm up, so many at a time", async () => {
  let made = 0;
  let open = 0;
  let most = 0;
  const result = await runBenchmark(
    plan(async () => {
      made += 1;
      open += 1;
      most = Math.max(most, open);
      await new Promise((done) => setTimeout(done, 1));
      open -= 1;
    }),
  );
  assert.equal(made, 22);
  assert.equal(most, 4);
  assert.deepEqual([result.done, result.failed, result.cancelled], [20, 0, false]);
  assert.ok(result.throughputPerS > 0 && result.latencyMs.p50 > 0);
});

test("a benchmark that is cancelled keeps what was measured", async () => {
  const stop = new AbortController();
  let made = 0;
  const result = await runBenchmark(
    plan(
      async (signal) => {
        made += 1;
        if (made === 8) stop.abort();
        signal.throwIfAborted();
      },
      { signal: stop.signal, concurrency: 1 },
    ),
  );
  assert.deepEqual([result.done, result.failed, result.cancelled, result.fault], [5, 0, true, undefined]);
});

test("a benchmark gives up where nobody answers, and says why", async () => {
  let made = 0;
  const result = await runBenchmark(
    plan(
      async () => {
        made += 1;
        if (made > 4) throw new Error("offline");
      },
      { concurrency: 1 },
    ),
  );
  assert.deepEqual([result.done, result.failed, result.fault.message, result.cancelled], [2, 5, "offline", false]);
  const cold = await runBenchmark(
    plan(async () => {
      throw new Error("offline");
    }),
  );
  assert.deepEqual([cold.done, cold.failed, cold.fault.message, cold.latencyMs], [0, 0, "offline", null]);
});
