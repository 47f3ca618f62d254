import { type CallMetrics, type Client, createClient, MemoryTrustStore, type SessionInfo } from "sealway";
import type { Config } from "./config.js";

/** What a client tells the page while it works. */
export interface ClientEvents {
  readonly onMetrics: (metrics: CallMetrics) => void;
  readonly onSession: (session: SessionInfo) => void;
}

/** The name that the page gives itself in an init. */
const CLIENT_ID = "sealway-page";

/**
 * Whom the page trusts: the pinned keys, or the key that it meets first. What was met first is kept as long as the page is
 * open and not cleared, so that a key that changes under a visitor's eyes is refused.
 */
export class Trust {
  readonly pins: readonly string[];
  #met = new MemoryTrustStore();

  constructor(pins: readonly string[]) {
    this.pins = pins;
  }

  get isPinned(): boolean {
    return this.pins.length > 0;
  }

  forget(): void {
    this.#met = new MemoryTrustStore();
  }

  client(config: Config, events: ClientEvents): Client {
    return createClient({
      url: config.sessionUrl,
      clientId: CLIENT_ID,
      trust: this.isPinned ? { pins: [...this.pins] } : { firstUse: this.#met },
      onMetrics: events.onMetrics,
      onSession: events.onSession,
    });
  }
}
