import { type CallMetrics, type Client, createClient, memoryTrustStore, type SessionInfo } from "sealway";
import { type OneShot, sealOnce } from "sealway/one-shot";
import type { Config } from "./config.js";

/** What a client tells the page while it works. */
export interface ClientEvents {
  readonly onMetrics: (metrics: CallMetrics) => void;
  /** A session was agreed or renewed, or is gone. */
  readonly onSession: (session: SessionInfo | undefined) => void;
}

/** The name that the page gives itself in an init. */
const CLIENT_ID = "sealway-page";
const CALL_TIME_MS = 15_000;

/**
 * Whom the page trusts: the pinned keys, or the key that it meets first. What was met first is kept as long as the page is
 * open and not cleared, so that a key that changes under a visitor's eyes is refused.
 */
export class Trust {
  readonly pins: readonly string[];
  #met = memoryTrustStore();

  constructor(pins: readonly string[]) {
    this.pins = pins;
  }

  get isPinned(): boolean {
    return this.pins.length > 0;
  }

  forget(): void {
    this.#met = memoryTrustStore();
  }

  /** A client of `config`'s service that speaks through `through`. */
  client(config: Config, events: ClientEvents, through: typeof fetch): Client {
    return createClient({
      url: config.serverUrl,
      authorityUrl: config.sessionUrl,
      clientId: CLIENT_ID,
      fetch: through,
      headTimeoutMs: CALL_TIME_MS,
      trust: this.isPinned ? { pins: [...this.pins] } : { firstUse: this.#met },
      onMetrics: events.onMetrics,
      onSession: events.onSession,
    });
  }
}

/** A client that seals each request to a key that `config` pins, without a session; it speaks through `through`. */
export function oneShotOf(config: Config, onMetrics: ClientEvents["onMetrics"], through: typeof fetch): OneShot {
  return sealOnce({
    origin: config.serverUrl,
    pin: config.oneShotPins ?? [],
    fetch: through,
    headTimeoutMs: CALL_TIME_MS,
    onMetrics,
  });
}
