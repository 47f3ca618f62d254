/** Stores of sessions and claims (`spec/session.md`, Authority endpoints). */
import type { SessionRecord } from "../exchange/exchange.js";
import type { ClaimOutcome } from "../session/claim.js";
import { fromBase64 } from "../wire/base64.js";
import { hex } from "../wire/bytes.js";
import { SealwayError, wants } from "../wire/error.js";
import { isWhole, type Members, membersOf, parseJson } from "../wire/json.js";
import { FreshSessions } from "./fresh.js";

/** A session with its key and the authenticated client. */
export interface StoredSession extends SessionRecord {
  readonly subject: string | undefined;
  readonly tenant: string | undefined;
  readonly auth: string;
}

/** A claim on a nonce, for a store. */
export interface StoreClaim {
  /** 16 bytes. */
  readonly key: Uint8Array;
  /** True if a tag has been verified. */
  readonly sealed: boolean;
  readonly stampMs: number;
}

/** Keeps sessions and claims. Both methods throw {@link SealwayError} `store_unavailable` if the store cannot answer. */
export interface SessionStore {
  /** Returns the session of an id, if there is one. */
  get(id: string): Promise<StoredSession | undefined>;
  /** Grants a claim once. Callers try once: a lost answer may have granted it. */
  claim(claim: StoreClaim): Promise<ClaimOutcome>;
}

/** Options of an {@link AuthorityStore}. */
export interface AuthorityOptions {
  /** URL of the authority: `https://…`, or `http://` on this machine. */
  readonly url: string;
  /** Content of `sessions.authority_secret_file`. */
  readonly secret: string;
  /** Timeout of a request, in milliseconds. Default: 2,000. */
  readonly timeoutMs?: number;
  readonly fetch?: typeof fetch;
}

const MESSAGE_LEN_MAX = 65_536;

/** A store that cannot tell: nothing is served. */
export function unavailable(what: string, cause?: unknown): SealwayError {
  return new SealwayError("store_unavailable", what, { cause });
}

/** A store that asks an authority. */
export class AuthorityStore implements SessionStore {
  readonly #base: string;
  readonly #secret: string;
  readonly #timeoutMs: number;
  readonly #fetch: typeof fetch;
  readonly #sessions = new FreshSessions();

  /** @throws {SealwayError} `usage`. */
  constructor({ url, secret, timeoutMs = 2000, fetch: run }: AuthorityOptions) {
    const base = URL.canParse(url) ? new URL(url) : undefined;
    const isLocal = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(base?.hostname ?? "");
    wants(
      base?.protocol === "https:" || (base?.protocol === "http:" && isLocal),
      "url: https, or http on this machine, since keys travel there",
    );
    wants(/^[\x21-\x7e]{16,}$/.test(secret), "secret: one line of at least 16 visible characters");
    this.#base = `${base.origin}${base.pathname.replace(/\/$/, "")}/v1/authority`;
    this.#secret = secret;
    this.#timeoutMs = timeoutMs;
    this.#fetch = run ?? ((input, init) => globalThis.fetch(input, init));
  }

  get(id: string): Promise<StoredSession | undefined> {
    return this.#sessions.get(id, () => this.#get(id));
  }

  async #get(id: string): Promise<StoredSession | undefined> {
    const { status, members } = await this.#ask("GET", `/sessions/${id}`);
    if (members["id"] !== id) throw unavailable("the authority's answer is to another question");
    if (status === 404 && members["error"] === "SESSION_NOT_FOUND") return undefined;
    if (status !== 200) throw unavailable(`the authority answered ${status}`);
    return sessionOf(members);
  }

  async claim({ key, sealed, stampMs }: StoreClaim): Promise<ClaimOutcome> {
    const text = hex(key);
    const { status, members } = await this.#ask("POST", "/nonces", {
      key: text,
      sealed,
      stamp_ms: stampMs,
    });
    if (status === 507 && members["error"] === "NONCES_FULL") return "full";
    if (members["key"] !== text) throw unavailable("the authority's answer is to another question");
    if (status === 201) return "fresh";
    if (status === 409 && members["error"] === "REPLAYED") return "replayed";
    if (status === 409 && members["error"] === "TIMESTAMP_OUTSIDE_WINDOW") return "outside_window";
    throw unavailable(`the authority answered ${status}`);
  }

  async #ask(method: string, path: string, body?: object): Promise<{ status: number; members: Members }> {
    const headers: Record<string, string> = { Authorization: `Bearer ${this.#secret}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    try {
      const response = await this.#fetch(this.#base + path, {
        method,
        headers,
        ...(body !== undefined && { body: JSON.stringify(body) }),
        redirect: "error",
        signal: AbortSignal.timeout(this.#timeoutMs),
      });
      const isJson = /^application\/json *(?:;|$)/i.test(response.headers.get("Content-Type") ?? "");
      const members = isJson ? membersOf(parseJson(await bounded(response))) : undefined;
      if (members === undefined)
        throw unavailable(`the authority answered ${response.status}, and no message`);
      return { status: response.status, members };
    } catch (error) {
      // What a fault of the network says may hold the URL; it never holds the secret.
      throw error instanceof SealwayError && error.code === "store_unavailable"
        ? error
        : unavailable("the authority did not answer", error);
    }
  }
}

async function bounded(response: Response): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body ?? []) {
    length += part.length;
    if (length > MESSAGE_LEN_MAX) throw unavailable("the authority's answer is too long");
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function sessionOf(members: Members): StoredSession {
  const text = (name: string) => (typeof members[name] === "string" ? (members[name] as string) : undefined);
  const { id, wire, expires_ms: expiresMs } = members;
  const key = fromBase64(text("key") ?? "");
  const isWire = wire === 1 || wire === 2 || wire === 3;
  if (
    typeof id !== "string" ||
    !isWire ||
    !isWhole(expiresMs, Number.MAX_SAFE_INTEGER) ||
    key?.length !== 32
  ) {
    throw unavailable("the authority's session is not of its form");
  }
  const [clientId, subject, tenant] = [text("client_id"), text("subject"), text("tenant")];
  return redacted({ id, wire, clientId, subject, tenant, auth: text("auth") ?? "none", expiresMs, key });
}

/** Keeps the key out of what is printed or serialised. */
export function redacted(session: StoredSession): StoredSession {
  return Object.defineProperty(session, "key", { value: session.key, enumerable: false });
}

/** A store in memory, for tests. It is bounded: a full store rejects claims and evicts none that is in force. */
export class MemoryStore implements SessionStore {
  readonly #sessions = new Map<string, StoredSession>();
  readonly #claims = new Map<string, number>();
  readonly #windowMs: number;
  readonly #claimsMax: number;
  readonly #now: () => number;
  /** The latest time that claims were forgotten by: the clock may be set back. */
  #latestMs = 0;

  /**
   * `windowMs` is that of the server: a stamp further from `now` is no claim, and a claim is kept for twice as long. `now` is in
   * milliseconds of the epoch.
   */
  constructor(windowMs = 300_000, claimsMax = 1_000_000, now: () => number = () => Date.now()) {
    this.#windowMs = windowMs;
    this.#claimsMax = claimsMax;
    this.#now = now;
  }

  put(session: StoredSession): void {
    this.#sessions.set(session.id, redacted({ ...session, key: session.key }));
  }

  delete(id: string): boolean {
    return this.#sessions.delete(id);
  }

  async get(id: string): Promise<StoredSession | undefined> {
    return this.#sessions.get(id);
  }

  async claim({ key, stampMs }: StoreClaim): Promise<ClaimOutcome> {
    const [text, nowMs] = [hex(key), this.#now()];
    this.#latestMs = Math.max(this.#latestMs, nowMs);
    // By the very reading of the clock that claims are forgotten by, before or now.
    if (stampMs < this.#latestMs - this.#windowMs || stampMs > nowMs + this.#windowMs)
      return "outside_window";
    for (const [old, endMs] of this.#claims) {
      if (endMs > nowMs) break;
      this.#claims.delete(old);
    }
    if (this.#claims.has(text)) return "replayed";
    if (this.#claims.size >= this.#claimsMax) return "full";
    this.#claims.set(text, nowMs + 2 * this.#windowMs + 1);
    return "fresh";
  }
}
