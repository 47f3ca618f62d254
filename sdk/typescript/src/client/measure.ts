/** Times and sizes of one exchange. */
import { type HeaderList, valuesOf } from "../wire/headers.js";
import { steadyMs } from "./clock.js";
import type { CallMetrics, Timing } from "./options.js";

const ENTRIES_MAX = 64;

/** Parses the header `Server-Timing`, and skips malformed entries. */
export function serverTiming(headers: HeaderList): Timing[] {
  const entries = valuesOf(headers, "Server-Timing").join(",").split(",", ENTRIES_MAX);
  return entries.flatMap((entry) => {
    const [, name, ms] = /^\s*([\w-]+)\s*;.*?dur=([0-9.]+)/.exec(entry) ?? [];
    return name !== undefined && Number.isFinite(Number(ms)) ? [{ name, ms: Number(ms) }] : [];
  });
}

/** Measures one exchange. Its public members are those of {@link CallMetrics}. */
export class Measure {
  readonly #onMetrics: (metrics: CallMetrics) => void;
  readonly endpoint: CallMetrics["endpoint"];
  readonly method: string;
  readonly path: string;
  readonly #begin = steadyMs();
  readonly #crypto = new Map<string, number>();
  httpMs = 0;
  requestBytes = 0;
  responseBytes = 0;
  status = 0;
  serverTiming: readonly Timing[] = [];

  #isDone = false;

  constructor(
    onMetrics: (metrics: CallMetrics) => void,
    endpoint: CallMetrics["endpoint"],
    method: string,
    path: string,
  ) {
    this.#onMetrics = onMetrics;
    this.endpoint = endpoint;
    this.method = method;
    this.path = path;
  }

  /** Runs a step of cryptography; steps of one name are added up. */
  step<T>(name: string, run: () => Promise<T>): Promise<T> {
    return timed(run, (ms) => this.#crypto.set(name, ms + (this.#crypto.get(name) ?? 0)));
  }

  /** Runs what waits for the network. */
  http<T>(run: () => Promise<T>): Promise<T> {
    return timed(run, (ms) => {
      this.httpMs += ms;
    });
  }

  /** Reports the exchange, once. */
  done(): void {
    if (this.#isDone) return;
    this.#isDone = true;
    const crypto = [...this.#crypto].map(([name, ms]) => ({ name, ms }));
    this.#onMetrics({ ...this, totalMs: steadyMs() - this.#begin, crypto });
  }
}

async function timed<T>(run: () => Promise<T>, add: (ms: number) => unknown): Promise<T> {
  const begin = steadyMs();
  try {
    return await run();
  } finally {
    add(steadyMs() - begin);
  }
}
