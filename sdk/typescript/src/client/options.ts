/** What a client is given, and what it tells of itself. */

import type { Auth } from "../session/native/message.js";
import { isSuite, SUITES, type Suite } from "../session/native/suite.js";
import { wants } from "../wire/error.js";
import { isClientId, type Wire } from "../wire/forms.js";
import type { Fetch, Url } from "../wire/platform.js";

/** What was learnt of a service's identity keys. */
export interface KnownKeys {
  /** Those that were met at first use. */
  readonly keys: readonly { readonly keyId: string; readonly publicKey: string }[];
  /** The pinned root's key id, and the newest key set that it signed: an older one is not taken any more. */
  readonly root?: { readonly keyId: string; readonly issuedMs: number };
}

/** Where to keep what was learnt, by the origin of the authority. */
export interface TrustStore {
  load(origin: string): KnownKeys | undefined | Promise<KnownKeys | undefined>;
  save(origin: string, met: KnownKeys): void | Promise<void>;
}

/**
 * Whose word a client takes for who the service is (`spec/session-3.md`, Identity keys): up to 16 keys by id or base64; a
 * root's key in base64, with a `store` if a key set is to be refused after a restart that is older than one taken before; or
 * what is met at first use, which whoever stands in between at the first use can be.
 */
export type Trust =
  | { readonly pins: readonly string[] }
  | { readonly root: string; readonly store?: TrustStore }
  | { readonly firstUse: TrustStore };

/** A step of an exchange and how long it took. */
export interface Timing {
  readonly name: string;
  /** Milliseconds. */
  readonly ms: number;
}

/** One exchange with a service, measured. All times in milliseconds, sizes in bytes of bodies. */
export interface CallMetrics {
  readonly endpoint: "init" | "call" | "renew" | "end";
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** From the call to the opened answer. */
  readonly totalMs: number;
  /** What the network and the service took of it. */
  readonly httpMs: number;
  readonly crypto: readonly Timing[];
  /** What the service says in `Server-Timing`. */
  readonly serverTiming: readonly Timing[];
  readonly requestBytes: number;
  readonly responseBytes: number;
}

/** A session, without its keys. */
export interface SessionInfo {
  readonly id: string;
  readonly wire: Wire;
  /** None on wires 1 and 2, which have but one. */
  readonly suite: Suite | undefined;
  readonly expiresInSec: number;
  /** When it ends, as `performance.now()` counts. */
  readonly expiresAt: number;
  /** Milliseconds left, 0 once it is over. */
  remainingMs(): number;
  /** The identity key that signed; none on wires 1 and 2. */
  readonly keyId: string | undefined;
  readonly auth: Auth;
  readonly subject?: string;
  readonly tenant?: string;
}

/**
 * Makes a DPoP proof (RFC 9449 section 4.2; `spec/session-3.md`, Who the client is), a JWT, for an init.
 *
 * @param initHash the value of its claim `init_hash`.
 * @param url the value of its claim `htu`; `htm` is `POST`.
 */
export type Proof = (initHash: string, url: string) => string | Promise<string>;

export interface ClientOptions {
  /** Where sessions are agreed, `https://host[:port]`. */
  readonly url: string;
  /** Where calls go, and where relative URLs lead. A call to another origin is refused. Default `url`. */
  readonly serverUrl?: string;
  /** On wires 1 and 2, which prove nothing of the service, it is not looked at. */
  readonly trust: Trust;
  /** Default 3. */
  readonly wire?: Wire;
  /** The suites to take, the one liked most first. Default all of {@link SUITES}. */
  readonly suites?: readonly Suite[];
  /** Default `sealway-typescript`. */
  readonly clientId?: string;
  /** The life to ask for, in seconds. */
  readonly ttlSec?: number;
  /** The value of `Authorization` at an init: `Bearer …`, or `DPoP …` beside a `proof`. */
  readonly authorization?: () => string | Promise<string>;
  /** Makes a DPoP proof for an init of wire 3, at most 8 KiB: see {@link Proof}. */
  readonly proof?: Proof;
  readonly onMetrics?: (metrics: CallMetrics) => void;
  readonly onSession?: (session: SessionInfo | undefined) => void;
  readonly fetch?: Fetch;
  /** How long to wait for an answer, and for each next part of one, in milliseconds. Default 30 000. */
  readonly timeoutMs?: number;
  /** The longest answer on wires 1 and 2, which open it whole, in bytes. Default 8 MiB. */
  readonly answerMax?: number;
}

/** Options with their defaults, looked through. */
export interface Settings {
  readonly url: Url;
  readonly serverUrl: Url;
  readonly trust: Trust;
  readonly wire: Wire;
  readonly suites: readonly [Suite, ...Suite[]];
  readonly clientId: string;
  readonly ttlSec: number | undefined;
  readonly authorization: (() => string | Promise<string>) | undefined;
  readonly proof: Proof | undefined;
  readonly fetch: Fetch;
  readonly timeoutMs: number;
  readonly answerMax: number;
}

const isFunction = (value: unknown) => typeof value === "function";

const isAbove0 = (value: unknown) => typeof value === "number" && value > 0;

/**
 * Looks through options.
 *
 * @throws {SealwayError} `configuration`, with the option's name.
 */
export function settingsOf(options: ClientOptions): Settings {
  const { url, serverUrl = url, trust, wire = 3, clientId = "sealway-typescript", ttlSec } = options ?? {};
  const [at, serverAt] = [url, serverUrl].map((text, n) => {
    // Not shown: it may hold a secret.
    wants(URL.canParse(text) && /^https?:/i.test(text), `${n ? "serverUrl" : "url"}: an http(s) URL`);
    return new URL(text);
  }) as [URL, URL];
  const { suites = SUITES, timeoutMs = 30_000, answerMax = 8 * 1024 * 1024 } = options;
  const { authorization, proof, fetch: run, onMetrics, onSession } = options;
  for (const [name, value] of Object.entries({ authorization, proof, fetch: run, onMetrics, onSession }))
    wants(isFunction(value ?? wants), `${name}: a function`);
  wants([1, 2, 3].includes(wire), "wire: 1, 2 or 3");
  const { pins, root, firstUse, store = firstUse } = Object(trust);
  wants(
    wire !== 3 ||
      ((Array.isArray(pins) || typeof root === "string" || firstUse) &&
        (store === undefined || (isFunction(store?.load) && isFunction(store.save)))),
    "trust: { pins }, { root, store? } or { firstUse: store }",
  );
  wants(
    typeof clientId === "string" && isClientId(clientId),
    "clientId: 1 to 256 printable ASCII characters without |",
  );
  wants(Array.isArray(suites) && suites[0] && suites.every(isSuite), `suites: of ${SUITES}`);
  wants(
    ttlSec === undefined || (Number.isInteger(ttlSec) && ttlSec >= 0 && ttlSec < 2 ** 32),
    "ttlSec: whole seconds",
  );
  wants(isAbove0(timeoutMs) && timeoutMs < 2 ** 31, "timeoutMs: milliseconds");
  wants(isAbove0(answerMax), "answerMax: bytes");
  return {
    url: at,
    serverUrl: serverAt,
    trust,
    wire,
    suites: [...new Set(suites)] as [Suite, ...Suite[]],
    clientId,
    ttlSec,
    authorization,
    proof,
    // Looked up when it is called: whoever replaces the global one means it.
    fetch: run ?? ((input, init) => globalThis.fetch(input, init)),
    timeoutMs,
    answerMax,
  };
}
