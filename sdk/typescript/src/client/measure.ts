/** Times and sizes of one exchange. */
import { type HeaderList, valuesOf } from "../wire/headers.js";
import { steadyMs } from "./clock.js";
import type { CallMetrics, Timing } from "./options.js";

const ENTRIES_MAX = 64;

/** What a service says in `Server-Timing`; what is not of its form is passed over. */
export function serverTiming(headers: HeaderList): Timing[] {
  const entries = valuesOf(headers, "Server-Timing").join(",").split(",", ENTRIES_MAX);
  return entries.flatMap((entry) => {
    const [, name, ms] = /^\s*([\w-]+)\s*;.*?dur=([0-9.]+)/.exec(entry) ?? [];
    return name !== undefined && Number.isFinite(Number(ms)) ? [{ name, ms: Number(ms) }] : [];
  });
}

/** Measures one exchange. What is public of it is told. */
export class Measure {
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

  constructor(endpoint: CallMetrics["endpoint"], method: string, path: string) {
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

  done(): CallMetrics {
    const crypto = [...this.#crypto].map(([name, ms]) => ({ name, ms }));
    return { ...this, totalMs: steadyMs() - this.#begin, crypto };
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
