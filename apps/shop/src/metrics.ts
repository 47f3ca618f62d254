import type { CallMetrics } from "sealway";

/** A step and how long it took, in milliseconds. */
export interface Step {
  readonly name: string;
  readonly ms: number;
}

/** Where the time of a call went. They add up to its round trip. */
export const SHARES = ["crypto", "network", "server", "other"] as const;
export type ShareName = (typeof SHARES)[number];

/** What a share is called on the page. */
export const SHARE_LABELS: Readonly<Record<ShareName, string>> = {
  crypto: "Client crypto",
  network: "Network",
  server: "Server",
  other: "Browser",
};

/** What is known of one kind of call. Times in milliseconds. */
export interface EndpointMetrics {
  readonly endpoint: CallMetrics["endpoint"];
  readonly label: string;
  readonly calls: number;
  /** The median round trip of the last calls, at most 500 of them. */
  readonly medianMs: number;
  readonly last: {
    readonly method: string;
    readonly path: string;
    readonly status: number;
    readonly totalMs: number;
    readonly httpMs: number;
    readonly cryptoMs: number;
    readonly serverMs: number | null;
    readonly shares: Readonly<Record<ShareName, number>>;
    readonly crypto: readonly Step[];
    readonly serverTiming: readonly Step[];
    readonly requestBytes: number;
    readonly responseBytes: number;
  };
}

const ORDER = ["init", "call", "renew", "end"] as const;
const LABELS: Readonly<Record<CallMetrics["endpoint"], string>> = {
  init: "Start session",
  call: "Sealed call",
  renew: "Renew session",
  end: "End session",
};
const SAMPLES_MAX = 500;

const sum = (steps: readonly Step[]) => steps.reduce((total, step) => total + step.ms, 0);

/** What the server says it took: its `total`, or the sum of its steps; null if it says nothing. */
export function serverTotal(steps: readonly Step[]): number | null {
  if (steps.length === 0) return null;
  return steps.find((step) => step.name === "total")?.ms ?? sum(steps);
}

/** Splits a round trip. Clocks of two machines never agree to the microsecond, so no share is below zero. */
export function sharesOf(totalMs: number, httpMs: number, cryptoMs: number, serverMs: number): Record<ShareName, number> {
  const crypto = Math.min(cryptoMs, totalMs);
  const http = Math.min(httpMs, totalMs - crypto);
  const server = Math.min(serverMs, http);
  return { crypto, network: http - server, server, other: Math.max(0, totalMs - crypto - http) };
}

/** The median, the lower one of two; NaN of nothing. */
export function median(values: readonly number[]): number {
  if (values.length === 0) return Number.NaN;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
}

/** Gathers what each call took, by kind of call, in bounded memory. */
export class MetricsBook {
  readonly #samples = new Map<string, number[]>();
  readonly #latest = new Map<string, { calls: number; last: EndpointMetrics["last"] }>();

  add(call: CallMetrics): void {
    const samples = this.#samples.get(call.endpoint) ?? [];
    samples.push(call.totalMs);
    if (samples.length > SAMPLES_MAX) samples.shift();
    this.#samples.set(call.endpoint, samples);
    const cryptoMs = sum(call.crypto);
    const serverMs = serverTotal(call.serverTiming);
    this.#latest.set(call.endpoint, {
      calls: (this.#latest.get(call.endpoint)?.calls ?? 0) + 1,
      last: {
        method: call.method,
        path: call.path,
        status: call.status,
        totalMs: call.totalMs,
        httpMs: call.httpMs,
        cryptoMs,
        serverMs,
        shares: sharesOf(call.totalMs, call.httpMs, cryptoMs, serverMs ?? 0),
        crypto: call.crypto,
        serverTiming: call.serverTiming,
        requestBytes: call.requestBytes,
        responseBytes: call.responseBytes,
      },
    });
  }

  wipe(): void {
    this.#samples.clear();
    this.#latest.clear();
  }

  /** One entry for each kind of call there was, always in the same order. */
  rows(): EndpointMetrics[] {
    return ORDER.flatMap((endpoint) => {
      const latest = this.#latest.get(endpoint);
      if (latest === undefined) return [];
      return [{ endpoint, label: LABELS[endpoint], medianMs: median(this.#samples.get(endpoint) ?? []), ...latest }];
    });
  }
}
