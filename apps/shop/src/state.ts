import type { BenchmarkProgress, BenchmarkResult } from "./benchmark.js";
import type { Config } from "./config.js";
import type { ExchangeView, Resend } from "./exchange.js";
import type { Fault } from "./fault.js";
import type { JournalEntry } from "./journal.js";
import type { EndpointMetrics } from "./metrics.js";
import type { Receipt } from "./purchase.js";

/** What the page is doing; one thing at a time. */
export type Task = "configure" | "initialise" | "purchase" | "purchase-once" | "replay" | "tamper" | "end" | "benchmark";

/** How a session stands. */
export type SessionPhase = "none" | "active" | "ending" | "over";

/** A session as it is shown. */
export interface SessionView {
  readonly phase: SessionPhase;
  readonly id: string;
  readonly wire: number;
  readonly suite: string;
  /** The identity key that signed. */
  readonly keyId: string;
  readonly auth: string;
  readonly lifeMs: number;
  readonly remainingMs: number;
}

/** A benchmark while it runs and when it is done. */
export interface BenchmarkView {
  readonly wanted: number;
  readonly progress: BenchmarkProgress;
  readonly result: BenchmarkResult | null;
}

/** All that is on the page. A new object whenever something changed. */
export interface ShopState {
  readonly config: Config | null;
  readonly isPinned: boolean;
  readonly task: Task | null;
  readonly session: SessionView | null;
  readonly receipt: Receipt | null;
  /** The bytes of the last purchase. */
  readonly exchange: ExchangeView | null;
  /** Those bytes sent again: the last of each kind. */
  readonly resends: readonly Resend[];
  readonly fault: Fault | null;
  readonly metrics: readonly EndpointMetrics[];
  readonly benchmark: BenchmarkView | null;
  readonly journal: readonly JournalEntry[];
  /** What a screen reader is told, politely. */
  readonly announcement: string;
  /** Counts how often the page was cleared: forms go back to their beginning with it. */
  readonly clearings: number;
}

export const INITIAL_STATE: ShopState = {
  config: null,
  isPinned: false,
  task: null,
  session: null,
  receipt: null,
  exchange: null,
  resends: [],
  fault: null,
  metrics: [],
  benchmark: null,
  journal: [],
  announcement: "",
  clearings: 0,
};

/** What stands in the session's pill. */
export const PHASE_LABELS: Readonly<Record<SessionPhase, string>> = {
  none: "No session",
  active: "Active",
  ending: "Ends soon",
  over: "Expired",
};

/** From here on a session is told to end soon. */
export const ENDING_MS = 60_000;

export function phaseOf(remainingMs: number, lifeMs: number): SessionPhase {
  if (remainingMs <= 0) return "over";
  return remainingMs <= Math.min(ENDING_MS, lifeMs / 4) ? "ending" : "active";
}
