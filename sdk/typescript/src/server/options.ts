/** What a server is told about its routes. */
import { Check } from "../wire/check.js";
import { SealwayError } from "../wire/error.js";
import { WINDOW_MS, type Wire } from "../wire/forms.js";
import { BUFFERED_BYTES_MAX, BUFFERED_BYTES_MIN } from "./room.js";
import { type Rule, rulesOf } from "./route.js";
import type { SessionStore } from "./store.js";

/** Whether a path is sealed. */
export interface Route {
  /** A path as sent, with its escapes and without query; one that ends with `*` is a prefix. */
  readonly path: string;
  /** `required`: nothing else is served; `optional`: plain requests pass; `off`: all pass, and none is opened. */
  readonly sealed: "required" | "optional" | "off";
  /** The longest sealed body, in bytes. Default 1 MiB. */
  readonly bodyMax?: number;
}

export interface ServerOptions {
  readonly store: SessionStore;
  /**
   * The first that names a path counts; one that is never reached is an error. A path that none names must be sealed: name those
   * that are plain. Default none. `spec/routes.md` is the contract.
   */
  readonly routes?: readonly Route[];
  /** The wires that are served. Default all. */
  readonly wires?: readonly Wire[];
  /** How far a stamp may be from the clock, in milliseconds. Default 300 000, which is the most on wire 3. */
  readonly windowMs?: number;
  /** Where anonymous sessions of wire 1 may go: exact paths. Default none. */
  readonly anonymousPaths?: readonly string[];
  /** The longest answer on wires 1 and 2, which seal it whole, in bytes. Default 8 MiB. */
  readonly answerMax?: number;
  /**
   * How long the first frame of a sealed body may take as a whole, on wires 1 and 2 the body, and then each part of what
   * follows, in milliseconds. Default 30 000.
   */
  readonly bodyTimeoutMs?: number;
  /**
   * Bounds the bytes of sealed bodies that have arrived and are not opened yet, of all requests together: whole bodies on wires 1
   * and 2 and with `sealedExpress`, else frames. Default 64 MiB, 1 MiB at least. One remote address (IPv6: a /64) has a
   * sixteenth of it, or the longest `bodyMax` of those held whole if that is more; with `trustForwarded` all of it, since the
   * proxy's address is everybody's, and with `sealedFetch` too, which knows no address. What is over it is refused with 503.
   */
  readonly bufferedBytesMax?: number;
  /**
   * Whether the headers that say where a request came from (`Forwarded`, `X-Forwarded-…`, `X-Real-IP`, `Client-Cert`, `X-Client-Cert`
   * and the others of `stripped_headers` in `spec/registry.toml`) reach a handler, on plain routes too, from outside of a seal: only
   * where a proxy in front sets or removes them, since any client can send them. Default false.
   */
  readonly trustForwarded?: boolean;
  /**
   * Called for every refusal with the code of the registry that the client is not told; `disguised_path` is another spelling of a
   * sealed path, `no_room` a body that `bufferedBytesMax` has no room for, `nonces_full` a store that takes no more claims.
   */
  readonly onRefused?: (refused: { code: string; status: number; path: string }) => void;
  /** The clock, in milliseconds of the epoch. */
  readonly now?: () => number;
}

const check = new Check((message) => new SealwayError("configuration", message, { blame: "caller" }));

/** Options with their defaults. */
export type ServerSettings = Required<Omit<ServerOptions, "routes">> & {
  readonly routes: readonly Rule[];
};

/**
 * Looks through options.
 *
 * @throws {SealwayError} `configuration`.
 */
export function serverSettings(options: ServerOptions): ServerSettings {
  if (typeof options?.store?.claim !== "function") {
    throw new SealwayError("configuration", "store is needed: where sessions and claims are", {
      blame: "caller",
    });
  }
  check.numbers(options, BUFFERED_BYTES_MIN, true, "bufferedBytesMax");
  return {
    store: options.store,
    routes: rulesOf(options.routes ?? []),
    wires: options.wires ?? [1, 2, 3],
    windowMs: options.windowMs ?? WINDOW_MS,
    anonymousPaths: options.anonymousPaths ?? [],
    answerMax: options.answerMax ?? 8 * 1024 * 1024,
    bodyTimeoutMs: options.bodyTimeoutMs ?? 30_000,
    bufferedBytesMax: options.bufferedBytesMax ?? BUFFERED_BYTES_MAX,
    trustForwarded: options.trustForwarded ?? false,
    onRefused: options.onRefused ?? (() => undefined),
    now: options.now ?? Date.now,
  };
}
