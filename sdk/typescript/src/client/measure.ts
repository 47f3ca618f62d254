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

/** Measures one exchange. */
export class Measure {
  readonly #endpoint: CallMetrics["endpoint"];
  readonly #method: string;
  readonly #path: string;
  readonly #begin = steadyMs();
  readonly #crypto: Timing[] = [];
  httpMs = 0;
  requestBytes = 0;
  responseBytes = 0;
  status = 0;
  serverTiming: readonly Timing[] = [];

  constructor(endpoint: CallMetrics["endpoint"], method: string, path: string) {
    this.#endpoint = endpoint;
    this.#method = method;
    this.#path = path;
  }

  /** Runs a step of cryptography; steps of one name are added up. */
  async step<T>(name: string, run: () => Promise<T>): Promise<T> {
    const begin = steadyMs();
    try {
      return await run();
    } finally {
      const ms = steadyMs() - begin;
      const at = this.#crypto.findIndex((timing) => timing.name === name);
      if (at < 0) this.#crypto.push({ name, ms });
      else this.#crypto[at] = { name, ms: ms + (this.#crypto[at]?.ms ?? 0) };
    }
  }

  /** Runs what waits for the network. */
  async http<T>(run: () => Promise<T>): Promise<T> {
    const begin = steadyMs();
    try {
      return await run();
    } finally {
      this.httpMs += steadyMs() - begin;
    }
  }

  done(): CallMetrics {
    return {
      endpoint: this.#endpoint,
      method: this.#method,
      path: this.#path,
      status: this.status,
      totalMs: steadyMs() - this.#begin,
      httpMs: this.httpMs,
      crypto: [...this.#crypto],
      serverTiming: this.serverTiming,
      requestBytes: this.requestBytes,
      responseBytes: this.responseBytes,
    };
  }
}
