/** Options of a client, and the types of its callbacks. */

import { isAlgorithm, SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from "../session/native/algorithm.js";
import type { Auth } from "../session/native/message.js";
import { ALL_SUITES, isSuite, SUITES, type Suite } from "../session/native/suite.js";
import { wants } from "../wire/error.js";
import { isClientId, type Wire } from "../wire/forms.js";
import type { Fetch, Url } from "../wire/platform.js";

/** Identity keys of a service that a client has accepted. */
export interface KnownKeys {
  /** Keys accepted at first use. */
  readonly keys: readonly { readonly keyId: string; readonly publicKey: string }[];
  /** Key id of the root, and the issue time of the newest key set that it signed: the client rejects older sets. */
  readonly root?: { readonly keyId: string; readonly issuedMs: number };
}

/** Keeps accepted identity keys, by the origin of the authority. */
export interface TrustStore {
  load(origin: string): KnownKeys | undefined | Promise<KnownKeys | undefined>;
  save(origin: string, met: KnownKeys): void | Promise<void>;
}

/**
 * How a client verifies the service's identity (`spec/session-3.md`, Identity keys): `pins` are 1 to 16 key ids or public keys in
 * base64; `root` is the key that signs key sets, in base64, whose `store` rejects older key sets after a restart too; `firstUse`
 * keeps the keys of the first connection, which an attacker on the path can replace.
 */
export type Trust =
  | { readonly pins: readonly string[] }
  | { readonly root: string; readonly store?: TrustStore }
  | { readonly firstUse: TrustStore };

/** Duration of one step of an exchange. */
export interface Timing {
  readonly name: string;
  /** Milliseconds. */
  readonly ms: number;
}

/** One exchange with a service, measured. All times in milliseconds, sizes in bytes of bodies or of what stands in `X-Sealed`. */
export interface CallMetrics {
  readonly endpoint: "init" | "call" | "renew" | "end";
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** From the call to the opened answer. */
  readonly totalMs: number;
  /** Time of the network and the service. */
  readonly httpMs: number;
  readonly crypto: readonly Timing[];
  /** Entries of the header `Server-Timing`. */
  readonly serverTiming: readonly Timing[];
  readonly requestBytes: number;
  readonly responseBytes: number;
}

/** A session, without its keys. */
export interface SessionInfo {
  readonly id: string;
  readonly wire: Wire;
  /** Absent on wires 1 and 2, which have only one. */
  readonly suite: Suite | undefined;
  readonly expiresInSec: number;
  /** End of the session, by the clock of `performance.now()`. */
  readonly expiresAt: number;
  /** Returns the milliseconds left, 0 after the end. */
  remainingMs(): number;
  /** Id of the identity key that signed; absent on wires 1 and 2. */
  readonly keyId: string | undefined;
  readonly auth: Auth;
  readonly subject?: string | undefined;
  readonly tenant?: string | undefined;
}

/**
 * Makes a DPoP proof (RFC 9449 section 4.2; `spec/session-3.md`, Who the client is), a JWT, for an init.
 *
 * @param initHash the value of its claim `init_hash`.
 * @param url the value of its claim `htu`; `htm` is `POST`.
 */
export type Proof = (initHash: string, url: string) => string | Promise<string>;

export interface ClientOptions {
  /** URL of the service, `https://host[:port]`: sealed requests go there, and relative URLs resolve against it. */
  readonly url: string;
  /** URL where sessions are agreed and identity keys published. Default: `url`. */
  readonly authorityUrl?: string;
  /** Required on wire 3. Wires 1 and 2 do not authenticate the service. */
  readonly trust: Trust;
  /** Default: 3. */
  readonly wire?: Wire;
  /** Accepted suites, in order of preference. Default: {@link SUITES}. */
  readonly suites?: readonly Suite[];
  /**
   * Algorithms of identity keys and roots that the client accepts on wire 3, of {@link SIGNATURE_ALGORITHMS}; the service signs
   * by a key of one of them. Default: ES256, and whatever algorithm a pinned key or root has.
   */
  readonly signatureAlgorithms?: readonly SignatureAlgorithm[];
  /** Name of the client. Default: `sealway-typescript`. */
  readonly clientId?: string;
  /** Requested life of sessions, in seconds. Default: the service's. */
  readonly ttlSec?: number;
  /** Path of inits: `/session/init` (the default), `/session/init/anon` (wire 1) or `/v1/session/init` (wire 2). */
  readonly initPath?: string;
  /** Returns the value of `Authorization` for each init: `Bearer …`, or `DPoP …` beside a `proof`. */
  readonly authorization?: () => string | Promise<string>;
  /** Makes a DPoP proof for an init of wire 3, at most 8 KiB: see {@link Proof}. */
  readonly proof?: Proof;
  readonly onMetrics?: (metrics: CallMetrics) => void;
  readonly onSession?: (session: SessionInfo | undefined) => void;
  /** Default: the platform's. */
  readonly fetch?: Fetch;
  /** Time from the last part of a request to the first frame of its response, in milliseconds. Default: 30,000. */
  readonly headTimeoutMs?: number;
  /** Time between two parts of a streamed response, in milliseconds. Default: 60,000. */
  readonly idleTimeoutMs?: number;
  /**
   * Time of a whole call, in milliseconds: agreement, retries, request and the response's body. 0 switches it off, for streams
   * without an end. Default: 60,000.
   */
  readonly totalTimeoutMs?: number;
  /** Bound on a response that is opened whole (wires 1 and 2), in bytes. Default: 16 MiB. */
  readonly answerMaxBytes?: number;
}

type Optional = "ttlSec" | "signatureAlgorithms" | "authorization" | "proof" | "onMetrics" | "onSession";

/** Checked options with their defaults. */
export interface Settings
  extends Omit<Required<ClientOptions>, Optional | "url" | "authorityUrl" | "suites">,
    Pick<ClientOptions, Optional> {
  readonly url: Url;
  readonly authorityUrl: Url;
  readonly suites: readonly [Suite, ...Suite[]];
}

const isFunction = (value: any) => typeof value === "function";
const isNumber = (value: any) => typeof value === "number" && value > 0 && value < 2 ** 31;
export const isStore = (store: any) => isFunction(store?.load) && isFunction(store.save);
const isTrust = ({ pins, root, firstUse, store = firstUse }: any) =>
  (Array.isArray(pins) || typeof root === "string" || firstUse) && (store === undefined || isStore(store));

const INIT_PATH = "/session/init";
export type Rule = readonly [what: string, holds: (value: any, settings: any) => unknown];
export const URL_RULE: Rule = ["an http(s) URL", (text) => URL.canParse(text) && /^https?:/i.test(text)];
const FUNCTION: Rule = ["a function", (value) => isFunction(value ?? wants)];
const NUMBER: Rule = ["above 0 and below 2^31", isNumber];
const renamed = (to: string): Rule => [`use ${to}`, (value) => value === undefined];

type Rules = Readonly<Record<string, Rule>>;

/** Requirements of the options that clients of all wires have. */
const SHARED: Rules = {
  signatureAlgorithms: [
    `of ${SIGNATURE_ALGORITHMS}`,
    (names) => names === undefined || (Array.isArray(names) && names[0] && names.every(isAlgorithm)),
  ],
  onMetrics: FUNCTION,
  fetch: FUNCTION,
  headTimeoutMs: NUMBER,
  idleTimeoutMs: NUMBER,
  totalTimeoutMs: ["0, or below 2^31", (ms) => ms === 0 || isNumber(ms)],
};

/** Requirements of the options of a client of sessions. */
const RULES: Rules = {
  url: URL_RULE,
  authorityUrl: URL_RULE,
  wire: ["1, 2 or 3", (wire) => [1, 2, 3].includes(wire)],
  trust: [
    "{ pins }, { root, store? } or { firstUse: store }",
    (trust, { wire }) => wire !== 3 || isTrust(Object(trust)),
  ],
  suites: [`of ${ALL_SUITES}`, (suites) => Array.isArray(suites) && suites[0] && suites.every(isSuite)],
  clientId: [
    "1 to 256 printable ASCII characters without |",
    (id) => typeof id === "string" && isClientId(id),
  ],
  ttlSec: ["whole seconds", (sec = 0) => Number.isInteger(sec) && sec >= 0 && sec < 2 ** 32],
  authorization: FUNCTION,
  proof: FUNCTION,
  onSession: FUNCTION,
  answerMaxBytes: NUMBER,
  serverUrl: renamed("url, and authorityUrl for the former url"),
  timeoutMs: renamed("headTimeoutMs, idleTimeoutMs and totalTimeoutMs"),
  answerMax: renamed("answerMaxBytes"),
};

/**
 * Checks options by these rules and {@link SHARED}. No message shows a value, which may be a secret.
 *
 * @throws {SealwayError} `usage`, with the option's name.
 */
export function checked(options: object, defaults: object, rules: Rules): any {
  const settings: any = { headTimeoutMs: 30_000, idleTimeoutMs: 60_000, totalTimeoutMs: 60_000, ...defaults };
  for (const [name, value] of Object.entries(options ?? {})) if (value !== undefined) settings[name] = value;
  for (const [name, [what, holds]] of Object.entries({ ...rules, ...SHARED }))
    wants(holds(settings[name], settings), `${name}: ${what}`);
  // Read at each call, so that a global `fetch` that is replaced later is used.
  settings.fetch ??= (...args: Parameters<typeof fetch>) => globalThis.fetch(...args);
  return settings;
}

/**
 * Checks the options of a client of sessions.
 *
 * @throws {SealwayError} `usage`, with the option's name.
 */
export function settingsOf(options: ClientOptions): Settings {
  const defaults = {
    authorityUrl: options?.url,
    wire: 3,
    suites: SUITES,
    clientId: "sealway-typescript",
    initPath: INIT_PATH,
    answerMaxBytes: 2 ** 24,
  };
  const settings = checked(options, defaults, RULES);
  const { wire, initPath } = settings;
  wants(
    initPath === INIT_PATH || initPath === { 1: `${INIT_PATH}/anon`, 2: `/v1${INIT_PATH}` }[wire as 1],
    `initPath: ${initPath} is not ${INIT_PATH}, ${INIT_PATH}/anon (wire 1) or /v1${INIT_PATH} (wire 2)`,
  );
  settings.suites = [...new Set(settings.suites)];
  settings.signatureAlgorithms &&= [...new Set(settings.signatureAlgorithms)];
  for (const name of ["url", "authorityUrl"]) settings[name] = new URL(settings[name]);
  return settings;
}
