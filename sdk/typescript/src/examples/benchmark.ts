/** Many sealed calls: `benchmark N [--json]`, with `BENCHMARK_CONCURRENCY` at once. */
import { clientOf, described, environment, finish, purchase, reason, stop, wholeOf } from "./environment.js";

const args = process.argv.slice(2);
const isJson = args.includes("--json");
const [count, ...more] = args.filter((arg) => arg !== "--json");
if (count === undefined || more.length > 0) stop("usage: benchmark N [--json]");
const n = wholeOf("N", count, 1, 10_000_000);
const concurrency = wholeOf("BENCHMARK_CONCURRENCY", process.env["BENCHMARK_CONCURRENCY"] || "1", 1, 1000);
const env = environment();
const client = clientOf(env);
const warmup = Math.min(100, Math.max(5, Math.floor(n / 10)));
const latencies: number[] = [];
let failed = 0;
let firstFailure: unknown;

function progress(): void {
  if (process.stderr.isTTY) process.stderr.write(`\r${latencies.length + failed} of ${n}, ${failed} failed `);
}

async function work(next: () => boolean): Promise<void> {
  while (next()) {
    const begin = performance.now();
    try {
      await purchase(client, env);
      latencies.push(performance.now() - begin);
    } catch (error) {
      failed += 1;
      firstFailure ??= error;
    }
    if ((latencies.length + failed) % 100 === 0) progress();
  }
}

function rank(sorted: readonly number[], part: number): number {
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? 0;
}

try {
  const session = await client.connect();
  console.error(`${described(session)}; ${warmup} calls to warm up, then ${n}, ${concurrency} at once`);
  for (let i = 0; i < warmup; i += 1) await purchase(client, env);
  let left = n;
  const next = (): boolean => {
    left -= 1;
    return left >= 0;
  };
  const begin = performance.now();
  await Promise.all(Array.from({ length: concurrency }, () => work(next)));
  const seconds = (performance.now() - begin) / 1000;
  progress();
  console.error(`${latencies.length + failed} of ${n} done`);
  await finish(client);
  const sorted = latencies.toSorted((a, b) => a - b);
  const latency = {
    min: sorted[0] ?? 0,
    mean: sorted.reduce((sum, ms) => sum + ms, 0) / Math.max(1, sorted.length),
    p50: rank(sorted, 0.5),
    p90: rank(sorted, 0.9),
    p95: rank(sorted, 0.95),
    p99: rank(sorted, 0.99),
    max: sorted.at(-1) ?? 0,
  };
  const throughput = sorted.length / seconds;
  if (isJson) {
    const head = { program: "benchmark", language: "typescript", wire: env.wire, n, concurrency, warmup };
    console.log(
      JSON.stringify({ ...head, failed, seconds, throughput_per_s: throughput, latency_ms: latency }),
    );
  } else {
    console.log(
      `${n} calls, ${failed} failed, in ${seconds.toFixed(3)} s: ${throughput.toFixed(1)} a second`,
    );
    for (const [name, ms] of Object.entries(latency))
      console.log(`  ${name.padEnd(5)}${ms.toFixed(3).padStart(10)} ms`);
  }
  if (failed > 0) {
    console.error(`the first failure: ${reason(firstFailure)}`);
    process.exitCode = 1;
  }
} catch (error) {
  console.error(`failed: ${reason(error)}`);
  process.exitCode = 1;
}
