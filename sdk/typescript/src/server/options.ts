/** What a server is told about its routes. */
import { SealwayError } from "../wire/error.js";
import { WINDOW_MS, type Wire } from "../wire/forms.js";
import type { SessionStore } from "./store.js";

/** Whether a path is sealed. */
export interface Route {
  /** A path as it is sent, without query; one that ends with `*` stands for all that begin so. */
  readonly path: string;
  /** `required`: nothing else is served; `optional`: plain requests pass; `off`: all pass, and none is opened. */
  readonly sealed: "required" | "optional" | "off";
  /** The longest sealed body, in bytes. Default 1 MiB. */
  readonly bodyMax?: number;
}

export interface ServerOptions {
  readonly store: SessionStore;
  /** The first that fits counts. A path with none must be sealed: name those that are plain. Default none. */
  readonly routes?: readonly Route[];
  /** The wires that are served. Default all. */
  readonly wires?: readonly Wire[];
  /** How far a stamp may be from the clock, in milliseconds. Default 300 000, which is the most on wire 3. */
  readonly windowMs?: number;
  /** Where anonymous sessions of wire 1 may go: exact paths. Default none. */
  readonly anonymousPaths?: readonly string[];
  /** The longest answer on wires 1 and 2, which seal it whole, in bytes. Default 8 MiB. */
  readonly answerMax?: number;
  /** How long the next part of a sealed body may take, in milliseconds. Default 30 000. */
  readonly bodyTimeoutMs?: number;
  /**
   * Whether `Forwarded`, `X-Forwarded-…`, `X-Real-IP`, `Client-Cert` and `Client-Cert-Chain` outside of a seal reach a
   * handler: only where whoever is in front sets them, since anybody on the path could. Default false.
   */
  readonly trustForwarded?: boolean;
  /** Told of every refusal, with the code of the registry that the client is not told. */
  readonly onRefused?: (refused: { code: string; status: number; path: string }) => void;
  /** The clock, in milliseconds of the epoch. */
  readonly now?: () => number;
}

const BODY_MAX = 1024 * 1024;
/** Of a path that no route names. */
const UNNAMED: Required<Route> = { path: "*", sealed: "required", bodyMax: BODY_MAX };

/** Options with their defaults. */
export type ServerSettings = Required<Omit<ServerOptions, "routes">> & {
  readonly routes: readonly Required<Route>[];
};

/**
 * Looks through options.
 *
 * @throws {SealwayError} `configuration`.
 */
export function serverSettings(options: ServerOptions): ServerSettings {
  const routes = (options.routes ?? []).map((route) => ({ bodyMax: BODY_MAX, ...route }));
  for (const { path, sealed } of routes) {
    if (!path.startsWith("/") || !["required", "optional", "off"].includes(sealed)) {
      const what = `a route's path begins with / and is sealed "required", "optional" or "off": ${path}`;
      throw new SealwayError("configuration", what, { blame: "caller" });
    }
  }
  return {
    store: options.store,
    routes,
    wires: options.wires ?? [1, 2, 3],
    windowMs: options.windowMs ?? WINDOW_MS,
    anonymousPaths: options.anonymousPaths ?? [],
    answerMax: options.answerMax ?? 8 * 1024 * 1024,
    bodyTimeoutMs: options.bodyTimeoutMs ?? 30_000,
    trustForwarded: options.trustForwarded ?? false,
    onRefused: options.onRefused ?? (() => undefined),
    now: options.now ?? Date.now,
  };
}

/** The route of a path. Where a handler may take the path for that of a sealed route, that is its route. */
export function routeOf(settings: ServerSettings, path: string): Required<Route> {
  const { routes } = settings;
  const sent = routes.find((route) =>
    route.path.endsWith("*") ? path.startsWith(route.path.slice(0, -1)) : path === route.path,
  );
  if (sent === undefined || sent.sealed === "required") return sent ?? UNNAMED;
  for (const reading of readingsOf(path)) {
    const read =
      routes.find((route) => {
        const own = plainly(route.path);
        return own.endsWith("*") ? reading.startsWith(own.slice(0, -1)) : untailed(reading) === untailed(own);
      }) ?? UNNAMED;
    if (read.sealed === "required") return read;
  }
  return sent;
}

/** What routers make of a path: they differ in escapes, case, slashes, dots and where it ends. */
function readingsOf(path: string): string[] {
  const bare = path.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "").split("#", 1)[0] ?? "";
  const plain = plainly(bare);
  const [cut = ""] = plain.split(";", 1);
  return [plain, cut].flatMap((read) => {
    const single = read.replace(/\/{2,}/g, "/");
    return [read, single, new URL(`http://host${single}`).pathname];
  });
}

function plainly(path: string): string {
  const decoded = path.replace(/%([0-9a-f]{2})/gi, (_, digits) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  );
  return decoded.replaceAll("\\", "/").toLowerCase();
}

function untailed(path: string): string {
  return path.endsWith("/") ? path.slice(0, -1) : path;
}
