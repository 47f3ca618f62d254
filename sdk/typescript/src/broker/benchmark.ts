/** Measurement of `sealway-broker benchmark`: calls of one client, with a given concurrency. */

/** One line of JSON, as the Go command prints it. */
export interface Report {
  readonly program: "benchmark";
  /** Calls that were made; fewer than asked for where it was interrupted. */
  readonly calls: number;
  readonly failed: number;
  readonly concurrency: number;
  readonly input_bytes: number;
  readonly seconds: number;
  readonly throughput_per_s: number;
  readonly latency_ms: Readonly<Record<"min" | "mean" | "p50" | "p90" | "p95" | "p99" | "max", number>>;
  readonly interrupted: boolean;
}

/** Load of a measurement. */
export interface Load {
  readonly calls: number;
  readonly concurrency: number;
  readonly inputBytes: number;
}

/** Makes calls until there were enough, or a signal ends it: a call that the signal took back does not count. */
export async function measure(
  { calls, concurrency, inputBytes }: Load,
  call: () => Promise<unknown>,
  signal: AbortSignal,
): Promise<Report> {
  const took: number[] = [];
  let [begun, failed] = [0, 0];
  const fromMs = performance.now();
  const worker = async (): Promise<void> => {
    while (begun < calls && !signal.aborted) {
      begun++;
      const callMs = performance.now();
      const isDone = await call().then(
        () => true,
        () => false,
      );
      if (!isDone && signal.aborted) return;
      if (!isDone) failed++;
      took.push(performance.now() - callMs);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  const seconds = (performance.now() - fromMs) / 1000;
  took.sort((a, b) => a - b);
  const round = (ms: number): number => Math.round(ms * 1000) / 1000;
  const at = (share: number): number => round(took[Math.floor(share * (took.length - 1))] ?? 0);
  const mean = took.reduce((sum, one) => sum + one, 0) / Math.max(took.length, 1);
  const latency = { min: at(0), mean: round(mean), p50: at(0.5), p90: at(0.9), p95: at(0.95), p99: at(0.99) };
  return {
    ...{ program: "benchmark", calls: took.length, failed, concurrency, input_bytes: inputBytes, seconds },
    throughput_per_s: took.length / seconds,
    latency_ms: { ...latency, max: at(1) },
    interrupted: took.length < calls,
  };
}
