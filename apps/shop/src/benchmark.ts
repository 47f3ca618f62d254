/** What a run of N calls came to. Times in milliseconds. */
export interface BenchmarkResult {
  readonly wanted: number;
  readonly done: number;
  readonly failed: number;
  readonly concurrency: number;
  readonly seconds: number;
  readonly throughputPerS: number;
  readonly latencyMs: Readonly<Record<"min" | "mean" | "p50" | "p90" | "p95" | "p99" | "max", number>> | null;
  readonly cancelled: boolean;
  /** What ended the run early, if something did. */
  readonly fault: unknown;
}

/** How far a run is. */
export interface BenchmarkProgress {
  readonly done: number;
  readonly failed: number;
  readonly seconds: number;
}

/** A run. `call` makes one call and throws where it fails; `now` is a clock of milliseconds that never jumps. */
export interface BenchmarkPlan {
  readonly calls: number;
  readonly concurrency: number;
  readonly warmup: number;
  readonly call: (signal: AbortSignal) => Promise<void>;
  readonly now: () => number;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: BenchmarkProgress) => void;
}

export const CALLS_MAX = 10_000;
export const CONCURRENCY_MAX = 16;
/** So many failures in a row mean that there is nobody to measure. */
const FAILURES_IN_A_ROW_MAX = 5;

/** The value at or below which `percent` of the sorted values lie (nearest rank). */
export function percentile(sorted: readonly number[], percent: number): number {
  const rank = Math.max(1, Math.ceil((percent / 100) * sorted.length));
  return sorted[rank - 1] ?? Number.NaN;
}

/** Runs the plan; resolves in every case, with what was measured until then. */
export async function runBenchmark(plan: BenchmarkPlan): Promise<BenchmarkResult> {
  // A run that gives up takes its other callers with it; whoever cancels does the same from outside.
  const giveUp = new AbortController();
  const signal = AbortSignal.any([plan.signal, giveUp.signal]);
  const latencies: number[] = [];
  let failed = 0;
  let inARow = 0;
  let started = 0;
  let fault: unknown;

  for (let count = 0; count < plan.warmup && !signal.aborted; count += 1) {
    try {
      await plan.call(signal);
    } catch (error) {
      if (!signal.aborted) fault = error;
      giveUp.abort();
    }
  }

  const begin = plan.now();
  const seconds = () => (plan.now() - begin) / 1000;
  const caller = async () => {
    while (started < plan.calls && !signal.aborted) {
      started += 1;
      const from = plan.now();
      try {
        await plan.call(signal);
        latencies.push(plan.now() - from);
        inARow = 0;
      } catch (error) {
        // A call that was broken off on purpose says nothing of the service.
        if (signal.aborted) return;
        failed += 1;
        inARow += 1;
        fault = error;
        if (inARow >= FAILURES_IN_A_ROW_MAX) giveUp.abort();
      }
      plan.onProgress({ done: latencies.length, failed, seconds: seconds() });
    }
  };
  await Promise.all(Array.from({ length: plan.concurrency }, caller));
  const took = seconds();
  const sorted = latencies.sort((a, b) => a - b);
  return {
    wanted: plan.calls,
    done: sorted.length,
    failed,
    concurrency: plan.concurrency,
    seconds: took,
    throughputPerS: took > 0 ? sorted.length / took : 0,
    latencyMs: sorted.length === 0 ? null : summary(sorted),
    cancelled: plan.signal.aborted,
    fault,
  };
}

function summary(sorted: readonly number[]) {
  return {
    min: percentile(sorted, 0),
    mean: sorted.reduce((total, value) => total + value, 0) / sorted.length,
    p50: percentile(sorted, 50),
    p90: percentile(sorted, 90),
    p95: percentile(sorted, 95),
    p99: percentile(sorted, 99),
    max: percentile(sorted, 100),
  };
}
