/** From a grant to a channel: over a relay with either role, or directly. SPEC relay.md#attach */
import type { Signal } from "../wire/platform.js";
import { Channel, type Liveness } from "./channel.js";
import { check, checkEndpoint, checkOptions } from "./check.js";
import { b64u } from "./encoding.js";
import { ChannelError } from "./error.js";
import type { DirectInfo, Grant } from "./grant.js";
import { Handshake, type Role } from "./handshake.js";
import type { Identity } from "./identity.js";
import { bindingOf, type ChannelSettings, channelSettings, drawRandoms } from "./settings.js";
import { suiteById } from "./suite.js";
import { readClaims } from "./token.js";
import { type DialOptions, dial, Socket, type WebSocketLike } from "./websocket.js";

/** Steps of a connection, in this order, for measurements. */
export type Step = "open" | "attached" | "heard" | "secured";

/** Options of channels. Times are in milliseconds. */
export interface ChannelOptions extends DialOptions {
  /** Takes the attempt back. */
  readonly signal?: Signal;
  /** From the name of the host to the open WebSocket. Default: 10 s. */
  readonly connectTimeoutMs?: number;
  /** Time of the handshake from the first message of the peer. Default: 10 s. */
  readonly handshakeTimeoutMs?: number;
  /** Time to wait for the peer. Default: until the grant's init expires. */
  readonly peerTimeoutMs?: number;
  readonly liveness?: Partial<Liveness>;
  /** This side's static key, for suites that have one. */
  readonly identity?: Identity;
  /** Names this run of the endpoint to relays (`drawInstance`). Default: drawn for each attempt. */
  readonly instance?: string;
  /** v1, as client: be connected before the server has proved anything; for servers of January 2026 alone. */
  readonly acceptUnconfirmed?: boolean;
  /** Native: records are padded to a multiple of so many bytes. */
  readonly padTo?: number;
  /** Hears how far it has come. */
  readonly told?: (step: Step) => void;
  /** Seconds of the epoch. Default: the platform's clock. */
  readonly nowS?: () => number;
}

/** Time to wait for an absent peer after the end of a grant, by which the relay should have ended the channel. */
const AFTER_GRANT_MS = 60_000;

/** Draws a name for a run of an endpoint: a relay lets the same one, and nobody else, take its own place again. */
export function drawInstance(): string {
  return b64u(crypto.getRandomValues(new Uint8Array(24)));
}

/**
 * Attaches to the relay that a grant names, in its role, waits for the peer and runs the handshake.
 * @throws ChannelError by stage: `grant`, `connect`, `attach` with the relay's reason as code, `handshake`.
 */
export async function attach(grant: Grant, options: ChannelOptions = {}): Promise<Channel> {
  checkEndpoint(grant, "the grant", "what parseGrant returns", "tunnelUrl");
  checkOptions(options);
  const token = new TextDecoder().decode(grant.token.reveal());
  const settings = grantSettings(grant, token, options);
  const socket = await dial(grant.tunnelUrl, options.connectTimeoutMs ?? 10_000, options, options.signal);
  options.told?.("open");
  const left = Math.max(settings.initExpiresS - nowS(options), 0) * 1000 + AFTER_GRANT_MS;
  const isNative = settings.suite.profile === "native";
  const first = JSON.stringify({
    v: 1,
    channel_id: grant.channelId,
    role: grant.role === "client" ? 1 : 2,
    token,
    endpoint_instance_id: options.instance ?? drawInstance(),
    ...(isNative ? { caps: { profile: "native" } } : {}),
  });
  return await shake(
    socket,
    settings,
    grant.role,
    Math.min(options.peerTimeoutMs ?? left, left),
    options,
    first,
  );
}

/**
 * Connects to a peer that listens.
 * @throws ChannelError as `attach`, without its stage `attach`.
 */
export async function connectDirect(info: DirectInfo, options: ChannelOptions = {}): Promise<Channel> {
  const settings = directSettings(info, options);
  const socket = await dial(info.wsUrl, options.connectTimeoutMs ?? 10_000, options, options.signal);
  options.told?.("open");
  return await shake(socket, settings, "client", directWait(options), options);
}

/**
 * Takes up a WebSocket that a peer opened with the same direct info: one of the package `ws`, on Node. Each info serves one
 * channel. Have the server of WebSockets refuse messages over 1 MiB (`maxPayload`) and compression.
 * @throws ChannelError as `connectDirect`.
 */
export async function acceptDirect(
  webSocket: WebSocketLike,
  info: DirectInfo,
  options: ChannelOptions = {},
): Promise<Channel> {
  const settings = directSettings(info, options);
  const isSocket = typeof webSocket?.addEventListener === "function";
  check.needs(isSocket, "webSocket", webSocket, "a WebSocket of the package ws that is open");
  const socket = new Socket(webSocket);
  try {
    return await shake(socket, settings, "server", directWait(options), options);
  } catch (error) {
    socket.close(1002, "");
    throw error;
  }
}

function nowS(options: ChannelOptions): number {
  return Math.floor(options.nowS?.() ?? Date.now() / 1000);
}

function directWait(options: ChannelOptions): number {
  return options.peerTimeoutMs ?? options.handshakeTimeoutMs ?? 10_000;
}

function grantSettings(grant: Grant, token: string, options: ChannelOptions): ChannelSettings {
  const { allowedSuites, peerStatic, noisePattern } = grant;
  const suite = suiteById(grant.defaultSuite);
  if (suite?.profile === "native" && noisePattern !== undefined && noisePattern !== suite.pattern) {
    throw new ChannelError("grant", "grant_invalid", "the grant's noise_pattern is not that of its suite");
  }
  let binding = new Uint8Array(32);
  // What v1 binds is in its handshake.
  if (suite?.profile === "native") {
    const claims = readClaims(token);
    binding = bindingOf(claims.aud, claims.iss);
  }
  return settingsOf(grant, { allowedSuites, peerStatic, binding }, options);
}

function directSettings(info: DirectInfo, options: ChannelOptions): ChannelSettings {
  checkEndpoint(info, "the direct info", "what parseDirectInfo returns", "wsUrl");
  checkOptions(options);
  return settingsOf(info, { binding: bindingOf("", "") }, options);
}

function settingsOf(
  given: Grant | DirectInfo,
  rest: Partial<ChannelSettings>,
  options: ChannelOptions,
): ChannelSettings {
  const suite = suiteById(given.defaultSuite);
  if (suite === undefined) {
    throw new ChannelError(
      "grant",
      "suite_unsupported",
      `the grant's suite ${given.defaultSuite} (defaultSuite) is unknown here`,
    );
  }
  const { channelId, psk, initExpiresS } = given;
  return channelSettings(
    { channelId, psk, suite, initExpiresS },
    {
      ...rest,
      localStatic: options.identity?.private(),
      acceptUnconfirmed: options.acceptUnconfirmed ?? false,
      padTo: options.padTo ?? 0,
    },
  );
}

/** Runs the handshake. `peerWaitMs` is for the peer's first message. Whatever fails ends the connection. */
async function shake(
  socket: Socket,
  settings: ChannelSettings,
  role: Role,
  peerWaitMs: number,
  options: ChannelOptions,
  first?: string,
): Promise<Channel> {
  const { signal, told } = options;
  const cancel = (): void => {
    socket.abort(new ChannelError("handshake", "cancelled", "the caller cancelled"));
  };
  const restMs = options.handshakeTimeoutMs ?? 10_000;
  const within = (ms: number, what: string): ReturnType<typeof setTimeout> =>
    // A timer holds no more than about 24 days.
    setTimeout(
      () => socket.abort(new ChannelError("handshake", "timeout", `${what} within ${ms} ms`)),
      Math.min(ms, 2_000_000_000),
    );
  let late = within(peerWaitMs, "the peer did not come");
  signal?.addEventListener("abort", cancel);
  try {
    if (signal?.aborted) cancel();
    if (first !== undefined) {
      await socket.send(first);
      told?.("attached");
    }
    const handshake = new Handshake(
      role,
      settings,
      drawRandoms((bytes) => crypto.getRandomValues(bytes)),
    );
    const begun = await handshake.begin();
    if (begun !== undefined) await socket.send(begun);
    for (let isFirst = true, isDone = false; !isDone; isFirst = false) {
      const message = await socket.receive();
      if (isFirst) {
        clearTimeout(late);
        late = within(restMs, "the handshake was not done");
        socket.stage = "handshake";
        told?.("heard");
      }
      const progress = await handshake.read(message, nowS(options));
      if (progress.send !== undefined) await socket.send(progress.send);
      isDone = progress.isDone;
    }
    const liveness = { pingEveryMs: 20_000, silentMaxMs: 45_000, ...options.liveness };
    told?.("secured");
    const records = { socket, ...handshake.records() };
    return new Channel(records, role, settings.suite.profile === "native", liveness, () => performance.now());
  } catch (error) {
    socket.close(1000, "");
    if (error instanceof ChannelError) throw error;
    throw new ChannelError(
      "handshake",
      "channel_provider",
      "the platform's cryptography refused to work",
      error,
    );
  } finally {
    clearTimeout(late);
    signal?.removeEventListener("abort", cancel);
  }
}
