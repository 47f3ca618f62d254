/** What a server is told about its routes. */
import { SealwayError } from "../wire/error.js";
import { WINDOW_MS, type Wire } from "../wire/forms.js";
import type { SessionStore } from "./store.js";

/** Whether a path is sealed. */
export interface Route {
  /** A path as it is sent, without query; one that ends with `*` stands for all that begin so. */
  readonly path: string;
  /** `required`: nothing else is served; `optional`: plain requests pass. */
  readonly sealed: "required" | "optional";
  /** The longest sealed body, in bytes. Default 1 MiB. */
  readonly bodyMax?: number;
}

export interface ServerOptions {
  readonly store: SessionStore;
  /** The first that fits counts; a path with none is not looked at. */
  readonly routes: readonly Route[];
  /** The wires that are served. Default all. */
  readonly wires?: readonly Wire[];
  /** How far a stamp may be from the clock, in milliseconds. Default 300 000. */
  readonly windowMs?: number;
  /** Where anonymous sessions of wire 1 may go: exact paths. Default none. */
  readonly anonymousPaths?: readonly string[];
  /** The longest answer on wires 1 and 2, which seal it whole, in bytes. Default 8 MiB. */
  readonly answerMax?: number;
  /** How long the next part of a sealed body may take, in milliseconds. Default 30 000. */
  readonly bodyTimeoutMs?: number;
  /** Told of every refusal, with the code of the registry that the client is not told. */
  readonly onRefused?: (refused: { code: string; status: number; path: string }) => void;
  /** The clock, in milliseconds of the epoch. */
  readonly now?: () => number;
}

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
  const routes = options.routes.map((route) => ({ bodyMax: 1024 * 1024, ...route }));
  for (const { path, sealed } of routes) {
    if (!path.startsWith("/") || !["required", "optional"].includes(sealed)) {
      const what = `a route's path begins with / and is sealed "required" or "optional": ${path}`;
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
    onRefused: options.onRefused ?? (() => undefined),
    now: options.now ?? Date.now,
  };
}

/** The route of a path. Where a handler may take the path for that of a sealed route, that is its route. */
export function routeOf(settings: ServerSettings, path: string): Required<Route> | undefined {
  const { routes } = settings;
  const sent = routes.find((route) =>
    route.path.endsWith("*") ? path.startsWith(route.path.slice(0, -1)) : path === route.path,
  );
  if (sent?.sealed === "required") return sent;
  for (const reading of readingsOf(path)) {
    const read = routes.find((route) => {
      const own = plainly(route.path);
      return own.endsWith("*") ? reading.startsWith(own.slice(0, -1)) : untailed(reading) === untailed(own);
    });
    if (read?.sealed === "required") return read;
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
