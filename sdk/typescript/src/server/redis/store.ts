/** A store over the Redis of an authority (`spec/redis-store.md`), one round trip less than asking the authority. */
import * as crypto from "node:crypto";
import type { ClaimOutcome } from "../../session/claim.js";
import { wants } from "../../wire/error.js";
import { isSessionId, WINDOW_MS } from "../../wire/forms.js";
import { FreshSessions } from "../fresh.js";
import { type SessionStore, type StoreClaim, type StoredSession, unavailable } from "../store.js";
import type { RedisConnection } from "./connection.js";
import { scriptHash } from "./script.js";
import { type KekOptions, Keks, openValue } from "./value.js";

/** Time after which the epoch is checked again, in milliseconds. */
const JOIN_AGAIN_MS = 1000;
/** A claim waits until its stamp is no further ahead of Redis's clock, but no longer than this. */
const AHEAD_MS = 500;
const AHEAD_WAIT_MAX_MS = 2000;
/** The most commands that wait for their answers at a time. */
const WAITING_MAX = 10_000;

export interface RedisOptions extends KekOptions {
  /** A single server, 7.0 or newer: see {@link nodeRedis}, {@link ioRedis}. */
  readonly redis: RedisConnection;
  /** `sessions.redis.prefix`. Default: `sealway`. */
  readonly prefix?: string;
  /** `replay.window_ms`, in milliseconds. Default: 300,000. */
  readonly windowMs?: number;
  /** `replay.nonce_ttl_ms`, in milliseconds. Default, and least, twice the window. */
  readonly nonceTtlMs?: number;
  /**
   * True if PostgreSQL backs the authority's Redis and keeps what Redis may lose. Otherwise stamps from before an epoch that began
   * while this process ran are rejected. Default: false.
   */
  readonly postgresBehind?: boolean;
  /**
   * Time until which rows of wires 1 and 2 that a gateway of an earlier release wrote are served. An attacker who can write Redis
   * can change their clients. Default: such rows are rejected.
   */
  readonly acceptUnauthenticatedRowsUntil?: Date;
  /** Timeout of a command, in milliseconds. Default: 500. */
  readonly timeoutMs?: number;
}

/** The epoch that claims are made in. */
interface Epoch {
  /** Of the script of its generation. */
  readonly hash: string;
  /** By a clock that never jumps. */
  readonly atMs: number;
  /** Number of the connection over which it was read. */
  readonly connection: number;
}

/** A store that asks the authority's Redis. */
export class RedisStore implements SessionStore {
  readonly #redis: RedisConnection;
  readonly #keks: Keks;
  readonly #prefix: string;
  readonly #epoch: string;
  readonly #windowMs: number;
  readonly #keptMs: number;
  readonly #postgresBehind: boolean;
  readonly #acceptUntilMs: number;
  readonly #timeoutMs: number;
  readonly #sessions = new FreshSessions();
  #joined: Epoch | undefined;
  #joining: Promise<Epoch> | undefined;
  /** Counts the connections that were made. */
  #connection = 0;
  /** Counts how often the epoch was left. */
  #age = 0;
  /** Number of commands that wait for their answers. */
  #waiting = 0;
  /** The generation that was joined last. */
  #before: string | undefined;
  /** Stamps up to this are rejected: the server that began the epoch may not have known of a loss. */
  #refusedToMs = 0;

  /** @throws {SealwayError} `usage`. */
  constructor(options: RedisOptions) {
    wants(typeof options?.redis?.command === "function", "redis: nodeRedis(client) or ioRedis(client)");
    const { prefix = "sealway", windowMs = WINDOW_MS, timeoutMs = 500 } = options;
    const isBounded = (ms: number) => Number.isInteger(ms) && ms >= 1 && ms <= 864_000_000;
    const nonceTtlMs = Math.max(2 * windowMs, options.nonceTtlMs ?? 0);
    wants(
      /^[A-Za-z0-9._:-]{1,64}$/.test(prefix) && [windowMs, nonceTtlMs, timeoutMs].every(isBounded),
      "prefix, windowMs, nonceTtlMs or timeoutMs is out of its bounds",
    );
    this.#redis = options.redis;
    this.#keks = new Keks(options);
    this.#prefix = prefix;
    this.#epoch = `{${prefix}:0}:epoch`;
    this.#windowMs = windowMs;
    this.#keptMs = nonceTtlMs + 1;
    this.#postgresBehind = options.postgresBehind ?? false;
    this.#acceptUntilMs = options.acceptUnauthenticatedRowsUntil?.getTime() ?? 0;
    wants(!Number.isNaN(this.#acceptUntilMs), "acceptUnauthenticatedRowsUntil: a date");
    this.#timeoutMs = timeoutMs;
    options.redis.onConnect(() => {
      this.#connection += 1;
      this.#leave();
    });
  }

  get(id: string): Promise<StoredSession | undefined> {
    return this.#sessions.get(id, async () => {
      if (!isSessionId(id)) return undefined;
      const value = await this.#row(id);
      if (value === undefined || isRevoked(value)) return undefined;
      const row = await openValue(id, value, this.#keks, this.#acceptUntilMs);
      // A chain of renewals ends as a whole: its first session says so, also when that is over itself.
      const first = row?.lineage === undefined ? undefined : await this.#row(row.lineage);
      return first !== undefined && isRevoked(first) ? undefined : row?.session;
    });
  }

  async #row(id: string): Promise<Uint8Array | undefined> {
    const value = await this.#ask("GET", `${this.#prefix}:s:${id}`);
    if (value === null) return undefined;
    if (!(value instanceof Uint8Array)) throw unavailable("Redis answered what is no session");
    return value;
  }

  async claim({ key, stampMs }: StoreClaim): Promise<ClaimOutcome> {
    const joined = await this.#join();
    if (stampMs <= this.#refusedToMs) throw unavailable("the stamp is from before the epoch of the nonces");
    const nonce = Buffer.concat([Buffer.from(`{${this.#prefix}:0}:n:`), key]);
    const goneMs = stampMs + Math.floor((this.#keptMs - 1) / 2) + 1;
    const numbers = [this.#keptMs, stampMs, goneMs].map(String);
    const { state, nowMs, floorMs } = await this.#run(joined, nonce, crypto.randomBytes(8), numbers);
    switch (state) {
      case "FRESH":
        return "fresh";
      case "AHEAD":
        await this.#await(joined, stampMs, nowMs);
        return "fresh";
      case "REPLAYED":
      case "FORGOTTEN":
        return "replayed";
      case "FLOOR":
        if (floorMs < nowMs) return "replayed";
        throw unavailable("nonces were lost, and the floor lies ahead");
      default:
        this.#leave();
        throw unavailable("the memory of nonces is another one");
    }
  }

  /**
   * A claim that is stamped ahead of Redis's clock is good once that has come to it, in the same memory: a loss of it could not
   * forget the claim any more.
   */
  async #await(joined: Epoch, stampMs: number, nowMs: number): Promise<void> {
    let leftMs = AHEAD_WAIT_MAX_MS;
    // A timer may end early, and a clock may be set back: what Redis says is what counts.
    for (let waitMs = stampMs - AHEAD_MS - nowMs; waitMs > 0; ) {
      if (waitMs > leftMs) throw unavailable("the stamp is too far ahead of the clock of Redis");
      leftMs -= waitMs;
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      const now = await this.#run(joined, Buffer.from(this.#epoch), Buffer.alloc(0), ["0", "0", "0"]);
      if (now.state !== "OK") {
        this.#leave();
        throw unavailable("the memory of nonces was lost meanwhile");
      }
      waitMs = stampMs - AHEAD_MS - now.nowMs;
    }
  }

  async #run(
    joined: Epoch,
    nonce: Buffer,
    token: Buffer,
    numbers: string[],
  ): Promise<{ state: string; nowMs: number; floorMs: number }> {
    const keys = [this.#epoch, `{${this.#prefix}:0}:canary`, nonce];
    const answer = await this.#ask("EVALSHA", joined.hash, "3", ...keys, token, ...numbers);
    // It may have come from another server, which nobody has looked at: one that was master before has its script still.
    if (joined.connection !== this.#connection) throw unavailable("the connection to Redis is another one");
    const [state, nowMs, floorMs] = Array.isArray(answer) ? answer : [];
    if (!(state instanceof Uint8Array) || typeof nowMs !== "number" || typeof floorMs !== "number") {
      throw unavailable("Redis answered what is no claim");
    }
    return { state: Buffer.from(state).toString("latin1"), nowMs, floorMs };
  }

  /** The epoch in force, looked at less than a second ago. */
  async #join(): Promise<Epoch> {
    const joined = this.#joined;
    if (joined !== undefined && performance.now() - joined.atMs < JOIN_AGAIN_MS) return joined;
    this.#joining ??= this.#look().finally(() => {
      this.#joining = undefined;
    });
    return this.#joining;
  }

  async #look(): Promise<Epoch> {
    const [atMs, age, connection] = [performance.now(), this.#age, this.#connection];
    const [fields, info] = await Promise.all([
      this.#ask("HMGET", this.#epoch, "gen", "floor", "made", "node"),
      this.#ask("INFO", "server", "replication"),
    ]);
    const [generation = "", , made = "", node = ""] = Array.isArray(fields) ? fields.map(textOf) : [];
    const told = new Map(
      textOf(info)
        .split(/\r?\n/)
        .map((line) => line.split(":", 2) as [string, string]),
    );
    if (!/^[0-9a-f]{32}$/.test(generation)) throw unavailable("no epoch of nonces is in force");
    // A cluster's nonces are in other buckets.
    if (told.get("redis_mode") !== "standalone") throw unavailable("Redis is a member of a cluster");
    if (told.get("role") !== "master" || node === "" || told.get("master_replid") !== node) {
      throw unavailable("Redis is not the server that the epoch of nonces was begun in");
    }
    if (!/^\d{1,15}$/.test(made)) throw unavailable("the epoch of nonces is not of its form");
    if (this.#before !== undefined && this.#before !== generation && !this.#postgresBehind) {
      this.#refusedToMs = Math.max(this.#refusedToMs, Number(made) + this.#windowMs);
    }
    this.#before = generation;
    const joined = { hash: scriptHash(generation), atMs, connection };
    // What was lost meanwhile is looked at anew by the next claim.
    if (age === this.#age) this.#joined = joined;
    return joined;
  }

  #leave(): void {
    this.#age += 1;
    this.#joined = undefined;
  }

  /** Asks once. Whether a claim that was not answered was reserved is unknown: nobody asks for it again. */
  async #ask(name: string, ...args: (string | Buffer)[]): Promise<unknown> {
    if (this.#waiting >= WAITING_MAX) throw unavailable("too many commands wait for Redis");
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error("no answer in time")), this.#timeoutMs);
    });
    try {
      this.#waiting += 1;
      const asked = this.#redis.command(name, ...args).finally(() => {
        this.#waiting -= 1;
      });
      return await Promise.race([asked, late]);
    } catch (error) {
      this.#leave();
      throw unavailable("Redis did not answer, or with an error", error);
    } finally {
      clearTimeout(timer);
    }
  }
}

function isRevoked(value: Uint8Array): boolean {
  return value.length === 1 && value[0] === 0x78;
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  return value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : "";
}
