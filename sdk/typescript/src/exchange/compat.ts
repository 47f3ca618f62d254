/** Wires 1 and 2 as variants of an exchange (`spec/session.md`, Open, Answer): one sealed message, headers outside. */
import type { AeadKey, Provider } from "../crypto/provider.js";
import {
  aad1,
  aad2,
  type DetachedSeal,
  open1,
  open2,
  parseDetached,
  type SealedMessage,
  seal1,
  seal2,
} from "../session/compat/message.js";
import type { RequestLine } from "../session/native/call.js";
import { type Bytes, hex } from "../wire/bytes.js";
import { compatWireOf, X_CLIENT_ID, X_NONCE, X_TIMESTAMP } from "../wire/compat-headers.js";
import { SealwayError } from "../wire/error.js";
import {
  checkRequestNonce,
  isClientId,
  KID_PREFIX,
  parseStamp,
  sessionIdOf,
  splitIdempotencyKey,
  TARGET_LEN_MAX,
} from "../wire/forms.js";
import { type HeaderList, invalid, required, X_IDEMPOTENCY_KEY, X_KID } from "../wire/headers.js";
import { checkWindow } from "../wire/window.js";
import type { Call, Opener, SessionRecord } from "./exchange.js";
import { Rejection } from "./rejection.js";
import type { AnswerSeal, Reply, SealRandoms, WholeSeal } from "./reply.js";
import { Stream } from "./stream.js";

/** A sealed request of wire 1 or 2. */
export class CompatCall implements Call {
  readonly wire: 1 | 2;
  readonly sessionId: string | undefined;
  readonly stampMs: number;
  readonly nonce: string;
  readonly windowMax = Number.POSITIVE_INFINITY;
  readonly isWhole = true;
  /** Without the query. */
  readonly path: string;
  readonly #kid: string;
  readonly #stamp: string;
  /** Of wire 2. */
  readonly #clientId: string = "";
  /** Of wire 1. */
  readonly #detached: DetachedSeal | undefined;

  /**
   * Reads the headers: checks 2 to 7.
   *
   * @throws {SealwayError} the codes of those checks.
   */
  constructor({ target }: RequestLine, headers: HeaderList, nowMs: number, windowMs: number) {
    this.wire = compatWireOf(headers);
    this.path = target.split("?", 1)[0] ?? "";
    this.#kid = required(headers, X_KID);
    if (this.wire === 1) {
      [this.nonce, this.#stamp] = [required(headers, X_NONCE), required(headers, X_TIMESTAMP)];
      this.#detached = parseDetached(headers);
      if (this.path.length > TARGET_LEN_MAX) throw new SealwayError("body_too_large", "the path is too long");
    } else {
      const key = required(headers, X_IDEMPOTENCY_KEY);
      this.#clientId = required(headers, X_CLIENT_ID);
      if (!isClientId(this.#clientId)) throw invalid(X_CLIENT_ID);
      [this.#stamp, this.nonce] = splitIdempotencyKey(key);
    }
    checkRequestNonce(this.nonce, 1);
    this.stampMs = parseStamp(this.#stamp);
    checkWindow(this.stampMs, nowMs, windowMs);
    this.sessionId = sessionIdOf(this.#kid);
  }

  check(session: SessionRecord): void {
    if (this.wire === 2 && session.clientId !== this.#clientId) {
      throw new SealwayError("client_mismatch", "the session belongs to another client id");
    }
  }

  async skewed(): Promise<Rejection> {
    return new Rejection("timestamp_outside_window", "the timestamp is too far from the clock");
  }

  async begin(provider: Provider, session: SessionRecord): Promise<[Stream, Opener]> {
    const key = await provider.aeadKey(session.key);
    const reply = new CompatReply(this, key, session);
    const open: Opener = async (message) => ({
      inner: undefined,
      first: await this.#open(key, message),
      reply,
    });
    return [new Stream(), open];
  }

  /** Checks 12 and 13. */
  #open(key: AeadKey, message: Bytes): Promise<Bytes> {
    const [stamp, nonce, kid] = [this.#stamp, this.nonce, this.#kid];
    if (this.#detached === undefined) return open2(key, aad2(stamp, nonce, kid, this.#clientId), message);
    return open1(key, this.#detached, aad1("POST", this.path, stamp, nonce, kid), message);
  }
}

/** Answers a request of wire 1 or 2. */
export class CompatReply implements Reply {
  readonly #call: CompatCall;
  readonly #key: AeadKey;
  readonly #session: SessionRecord;

  constructor(call: CompatCall, key: AeadKey, session: SessionRecord) {
    this.#call = call;
    this.#key = key;
    this.#session = session;
  }

  answer(status: number): AnswerSeal {
    // Clients expect that of a plaintext that cannot be read.
    if (status === 400 || status === 422)
      return { kind: "plain", answer: new Rejection("unsealable", "the handler refused it").answer("plain") };
    if (status === 304) throw new Rejection("upstream_unreachable", "the handler answered 304 to a POST");
    const told = status >= 200 && status <= 299 ? 200 : status;
    const seal: WholeSeal["seal"] = (body, nowMs, randoms) => this.seal(told, body, nowMs, randoms);
    return { kind: "whole", status: told, seal };
  }

  /** Seals a message that is sent with this very status. */
  seal(status: number, body: Uint8Array, nowMs: number, { nonce, iv }: SealRandoms): Promise<SealedMessage> {
    const text = `r-${hex(nonce)}`;
    const [{ wire, path }, { id, clientId }, stamp] = [this.#call, this.#session, String(nowMs)];
    const kid = KID_PREFIX + id;
    if (wire === 1) return seal1(this.#key, String(status), path, stamp, text, kid, iv, body);
    return seal2(this.#key, stamp, text, kid, clientId ?? "", iv, body);
  }
}
