import { Channel } from "../../src/channel/channel.js";
import { Handshake, type Role } from "../../src/channel/handshake.js";
import { Secret } from "../../src/channel/secret.js";
import { type ChannelSettings, channelSettings, drawRandoms } from "../../src/channel/settings.js";
import { suiteById } from "../../src/channel/suite.js";
import { Socket, type WebSocketLike } from "../../src/channel/websocket.js";

type Listener = (event: unknown) => void;

/** One end of a WebSocket without a network. */
export class LooseEnd implements WebSocketLike {
  binaryType = "";
  readyState = 1;
  bufferedAmount = 0;
  other: LooseEnd | undefined;
  /** What a hostile middle does to a message: pass it on, change it, or drop it. */
  onWay: (message: unknown) => unknown[] = (message) => [message];
  closedWith: { code: number | undefined; reason: string | undefined } | undefined;
  readonly #listeners = new Map<string, Listener[]>();

  addEventListener(type: string, listener: Listener): void {
    this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
  }

  send(data: Uint8Array | string): void {
    const copy = typeof data === "string" ? data : data.slice().buffer;
    for (const message of this.onWay(copy))
      queueMicrotask(() => this.other?.emit("message", { data: message }));
  }

  close(code?: number, reason?: string): void {
    if (this.readyState === 3) return;
    this.closedWith = { code, reason };
    this.readyState = 3;
    setTimeout(() => {
      this.other?.emit("close", { code: code ?? 1005, reason: reason ?? "" });
      this.emit("close", { code: code ?? 1005, reason: reason ?? "" });
      if (this.other) this.other.readyState = 3;
    }, 0);
  }

  emit(type: string, event: unknown): void {
    for (const listener of this.#listeners.get(type) ?? []) listener(event);
  }
}

export function loosePair(): [LooseEnd, LooseEnd] {
  const pair: [LooseEnd, LooseEnd] = [new LooseEnd(), new LooseEnd()];
  pair[0].other = pair[1];
  pair[1].other = pair[0];
  return pair;
}

/** Both ends of a handshake under the same settings. */
export function handshakes(
  suite: number,
  rest: Partial<ChannelSettings> = {},
): { client: Handshake; server: Handshake } {
  const side = (role: Role): Handshake => {
    const given = {
      ...{ channelId: "pair", psk: new Secret(new Uint8Array(32).fill(7)) },
      ...{ suite: suiteById(suite)!, initExpiresS: 2_000_000_000 },
    };
    return new Handshake(
      role,
      channelSettings(given, rest),
      drawRandoms((bytes) => crypto.getRandomValues(bytes)),
    );
  };
  return { client: side("client"), server: side("server") };
}

export const NOW_S = 1_900_000_000;

/** Runs both ends to their end. */
export async function shaken(suite: number, rest: Partial<ChannelSettings> = {}) {
  const { client, server } = handshakes(suite, rest);
  await server.begin();
  let message = await client.begin();
  for (let isServers = true; message !== undefined; isServers = !isServers) {
    const progress = await (isServers ? server : client).read(message, NOW_S);
    message = progress.send;
  }
  return { client: client.records(), server: server.records() };
}

/** Two channels that are joined, and what joins them. */
export async function channels(suite = 0x100, liveness = { pingEveryMs: 20_000, silentMaxMs: 45_000 }) {
  const records = await shaken(suite);
  const [a, b] = loosePair();
  const make = (end: LooseEnd, role: Role): Channel =>
    new Channel({ socket: new Socket(end), ...records[role] }, role, suite >= 0x100, liveness, () =>
      performance.now(),
    );
  return { client: make(a, "client"), server: make(b, "server"), a, b };
}
