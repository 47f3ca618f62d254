/** Options of the middleware. */
import { Check } from "../wire/check.js";
import { SealwayError, wants } from "../wire/error.js";
import { WINDOW_MS, type Wire } from "../wire/forms.js";
import { BUFFERED_MAX_BYTES, BUFFERED_MAX_BYTES_MIN } from "./room.js";
import { type Rule, rulesOf } from "./route.js";
import type { SessionStore } from "./store.js";

/** A rule for a path. */
export interface Route {
  /** A path as sent, with its escapes and without query; one that ends with `*` is a prefix. */
  readonly path: string;
  /** `required`: plain requests are rejected; `optional`: plain requests pass; `off`: all requests pass unopened. */
  readonly mode: "required" | "optional" | "off";
  /** Bound on a sealed body, in bytes. Default: that of {@link ServerOptions}. */
  readonly bodyMaxBytes?: number;
}

export interface ServerOptions {
  readonly store: SessionStore;
  /**
   * The first route that matches a path applies; a route that is never reached is an error. Paths without a route are `required`:
   * name the plain ones. Default: none. `spec/routes.md` is the contract.
   */
  readonly routes?: readonly Route[];
  /** Served wires. Default: all. */
  readonly wires?: readonly Wire[];
  /** Largest difference of a timestamp from the clock, in milliseconds. Default: 300,000, the largest on wire 3. */
  readonly windowMs?: number;
  /** Exact paths that anonymous sessions of wire 1 may call. Default: none. */
  readonly anonymousPaths?: readonly string[];
  /** Bound on a sealed body, in bytes. Default: 1 MiB. */
  readonly bodyMaxBytes?: number;
  /** Bound on an answer that is sealed whole (wires 1 and 2), in bytes. Default: 8 MiB. */
  readonly answerMaxBytes?: number;
  /**
   * Time of the first frame of a sealed body (wires 1 and 2: of the body), and then of each further part, in milliseconds.
   * Default: 30,000.
   */
  readonly bodyTimeoutMs?: number;
  /**
   * Bound on the sealed bytes of all requests that have arrived and are not opened yet: whole bodies on wires 1 and 2 and with
   * `sealedExpress`, else frames. Default: 64 MiB; minimum: 1 MiB. One remote address (IPv6: a /64) has a sixteenth of it, or the
   * longest `bodyMaxBytes` of bodies held whole if that is more; with `trustForwarded` (the address is the proxy's) and with
   * `sealedFetch` (the address is unknown) all of it. Requests over the bound are rejected with 503.
   */
  readonly bufferedMaxBytes?: number;
  /**
   * Passes headers that name the origin of a request (`Forwarded`, `X-Forwarded-…`, `X-Real-IP`, `Client-Cert`, `X-Client-Cert` and
   * the others of `stripped_headers` in `spec/registry.toml`) from outside a seal to handlers, on plain routes too. Set it only
   * behind a trusted proxy that sets or removes them. Default: false.
   */
  readonly trustForwarded?: boolean;
  /**
   * Called for every refusal with its code in the registry, which the client does not get. Further codes: `disguised_path`
   * (another spelling of a sealed path), `no_room` (`bufferedMaxBytes` is reached), `nonces_full` (the store takes no more claims).
   */
  readonly onRefusal?: (refusal: { code: string; status: number; path: string }) => void;
  /** The clock, in milliseconds of the epoch. */
  readonly now?: () => number;
}

/** Options of earlier versions. */
const RENAMED = {
  answerMax: "answerMaxBytes",
  bodyMax: "bodyMaxBytes",
  bufferedBytesMax: "bufferedMaxBytes",
  onRefused: "onRefusal",
};

const check = new Check((message) => new SealwayError("usage", message, { stage: "configuration" }));

/** Options with their defaults. */
export type ServerSettings = Required<Omit<ServerOptions, "routes">> & {
  readonly routes: readonly Rule[];
};

/**
 * Checks options.
 *
 * @throws {SealwayError} `usage`.
 */
export function serverSettings(options: ServerOptions): ServerSettings {
  wants(typeof options?.store?.claim === "function", "store: a SessionStore");
  for (const [name, use] of Object.entries(RENAMED)) wants(!(name in options), `${name}: use ${use}`);
  check.numbers(options, BUFFERED_MAX_BYTES_MIN, true, "bufferedMaxBytes");
  check.numbers(options, 0, true, "bodyMaxBytes", "answerMaxBytes");
  return {
    store: options.store,
    routes: rulesOf(options.routes ?? []),
    wires: options.wires ?? [1, 2, 3],
    windowMs: options.windowMs ?? WINDOW_MS,
    anonymousPaths: options.anonymousPaths ?? [],
    bodyMaxBytes: options.bodyMaxBytes ?? 1024 * 1024,
    answerMaxBytes: options.answerMaxBytes ?? 8 * 1024 * 1024,
    bodyTimeoutMs: options.bodyTimeoutMs ?? 30_000,
    bufferedMaxBytes: options.bufferedMaxBytes ?? BUFFERED_MAX_BYTES,
    trustForwarded: options.trustForwarded ?? false,
    onRefusal: options.onRefusal ?? (() => undefined),
    now: options.now ?? Date.now,
  };
}
