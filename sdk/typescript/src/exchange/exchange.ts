/**
 * A sealed request at a server, as a value, whichever protocol it speaks: bytes go in, decisions come out. What drives it need not
 * know which protocol that is. Shape and names are those of `crates/proto/src/exchange`.
 *
 * ```text
 * headers ─ Exchange.begin ─► session ─ Exchange.session ─► Opening, Stream
 *             body ─ Stream.read, Stream.end ─► Piece, the first of them ─ Opening.open ─► Unreplayed
 *                          Unreplayed.readmit ─► Claim ─ the store ─ Unreplayed.release ─► PlainRequest
 *                                              the rest of the body ─ Stream ─► Pieces of plaintext
 *   the handler's answer ─ Reply.answer ─► AnswerSeal
 * ```
 *
 * A refusal, at whichever step, is a {@link SealwayError}: {@link Rejection} makes the answer to the client.
 */
import type { Provider } from "../crypto/provider.js";
import { type Claim, type ClaimOutcome, makeClaim } from "../session/claim.js";
import type { RequestLine } from "../session/native/call.js";
import { type Bytes, wipe } from "../wire/bytes.js";
import { compatWireOf } from "../wire/compat-headers.js";
import { SealwayError } from "../wire/error.js";
import type { Wire } from "../wire/forms.js";
import { firstOf, type HeaderList, X_IDEMPOTENCY_KEY, X_KID, X_SEAL } from "../wire/headers.js";
import { CompatCall } from "./compat.js";
import { NativeCall } from "./native.js";
import { Rejection } from "./rejection.js";
import type { Reply } from "./reply.js";
import type { Piece, Stream } from "./stream.js";

/** The longest sealed body of a request in an anonymous session, in bytes. */
const ANONYMOUS_BODY_MAX = 4096;
const unknown = () => new SealwayError("session_unknown", "there is no such session");

/** Settings of a server. */
export interface Policy {
  readonly wires: readonly Wire[];
  /** Largest difference of a stamp from the clock, in milliseconds. */
  readonly windowMs: number;
}

/** A session as its server has it. */
export interface SessionRecord {
  readonly id: string;
  readonly wire: number;
  readonly clientId: string | undefined;
  /** Milliseconds of the epoch. */
  readonly expiresMs: number;
  /** 32 bytes. Never printed. */
  readonly key: Bytes;
}

/** A request that was opened, and is no replay. */
export interface PlainRequest {
  /** The headers within the seal, where the protocol seals headers; else the ones outside count. */
  readonly inner: [string, string][] | undefined;
  /** The beginning of its body; all of it, if the piece was the last. */
  readonly first: Uint8Array;
  readonly reply: Reply;
}

/** Opens a request by the first piece of its stream. */
export type Opener = (first: Bytes) => Promise<PlainRequest>;

/** A protocol's part of an exchange: a request whose headers are of their forms. */
export interface Call {
  readonly wire: Wire;
  /** None if the kid holds no session id. */
  readonly sessionId: string | undefined;
  readonly stampMs: number;
  readonly nonce: string;
  /** The widest window of stamps, in milliseconds. */
  readonly windowMax: number;
  /** True if the body is opened as a whole, else frame by frame. */
  readonly isWhole: boolean;
  /** @throws {SealwayError} `client_mismatch`, where the protocol knows more of a client than its session. */
  check(session: SessionRecord): void;
  /** The refusal of a stamp outside the window, with the proof of the server's time that the protocol has. */
  skewed(provider: Provider, session: SessionRecord, nowMs: number): Promise<Rejection>;
  begin(provider: Provider, session: SessionRecord): Promise<[Stream, Opener]>;
}

/** True if one of the headers of a seal is there, of any protocol. */
export function looksSealed(headers: HeaderList): boolean {
  return [X_KID, X_IDEMPOTENCY_KEY, X_SEAL].some((name) => firstOf(headers, name) !== undefined);
}

/** The protocol that a request's headers speak. */
export function wireOf(headers: HeaderList): Wire {
  return firstOf(headers, X_SEAL) === undefined ? compatWireOf(headers) : 3;
}

/** A sealed request whose headers are in order; its session is to be looked up next. */
export class Exchange {
  readonly #call: Call;
  readonly #nowMs: number;
  readonly #windowMs: number;

  private constructor(call: Call, nowMs: number, windowMs: number) {
    [this.#call, this.#nowMs, this.#windowMs] = [call, nowMs, windowMs];
  }

  /**
   * Reads the headers of a sealed request at `nowMs`.
   *
   * @throws {SealwayError} `wire_disabled`, `method_not_allowed`, and those of the wire.
   */
  static begin(line: RequestLine, headers: HeaderList, nowMs: number, { wires, windowMs }: Policy): Exchange {
    const wire = wireOf(headers);
    if (!wires.includes(wire)) throw new Rejection("wire_disabled", `wire ${wire} is not served`);
    if (wire === 3 ? /^(?:CONNECT|TRACE)$/.test(line.method) : line.method !== "POST")
      throw new Rejection("method_not_allowed", `${line.method} is not sealed on wire ${wire}`);
    const Variant = wire === 3 ? NativeCall : CompatCall;
    return new Exchange(new Variant(line, headers, nowMs, windowMs), nowMs, windowMs);
  }

  /**
   * The id of the session to look up.
   *
   * @throws {SealwayError} `session_unknown` for a malformed id: no store need be asked.
   */
  get sessionId(): string {
    if (this.#call.sessionId === undefined) throw unknown();
    return this.#call.sessionId;
  }

  /**
   * Takes the session, if the request may use it: its body is read next.
   *
   * @throws {SealwayError} `session_unknown`, `session_expired`, `wire_mismatch`, `client_mismatch`,
   * `timestamp_outside_window`.
   */
  async session<S extends SessionRecord>(provider: Provider, found: S | undefined) {
    const [call, windowMs] = [this.#call, this.#windowMs];
    const session = await admit(call, provider, found, this.#nowMs, windowMs);
    const [stream, open] = await call.begin(provider, session);
    return { session, opening: new Opening({ call, provider, session, windowMs }, open), stream };
  }
}

/** A request and its session, with the means to check both again. */
interface Context {
  readonly call: Call;
  readonly provider: Provider;
  readonly session: SessionRecord;
  readonly windowMs: number;
}

/** A request whose body is awaited. */
export class Opening {
  readonly #context: Context;
  readonly #open: Opener;

  constructor(context: Context, open: Opener) {
    [this.#context, this.#open] = [context, open];
  }

  /** True if the body is opened as a whole, by {@link open}; else its pieces are opened as they come. */
  get isWhole(): boolean {
    return this.#context.call.isWhole;
  }

  /** True for an anonymous session. */
  get isAnonymous(): boolean {
    return this.#context.session.id.startsWith("A-");
  }

  /** The longest sealed body that may follow, in bytes: of `whole` and `stream` what the protocol is bound by. */
  bodyMax(whole: number, stream: number): number {
    if (!this.isWhole) return stream;
    return this.isAnonymous ? Math.min(whole, ANONYMOUS_BODY_MAX) : whole;
  }

  /**
   * Opens the request by the first piece of its stream. It stays shut until its nonce is reserved.
   *
   * @throws {SealwayError} `body_too_short`, `aad_mismatch`, `base64_invalid`, `unsealable`, `inner_headers_invalid`.
   */
  async open({ bytes }: Piece): Promise<Unreplayed> {
    return new Unreplayed(this.#context, await this.#open(bytes));
  }
}

/** A request that has opened, and that no handler sees before its claim is granted. */
export class Unreplayed {
  readonly #context: Context;
  readonly #plain: PlainRequest;

  constructor(context: Context, plain: PlainRequest) {
    [this.#context, this.#plain] = [context, plain];
  }

  /**
   * Makes the claim. Session and stamp are checked again: the sender decides how long the body takes, and in between the session
   * may have ended, and a store forgotten an earlier claim. `found` is the session as the store has it now.
   *
   * @throws {SealwayError} as {@link Exchange.session} does.
   */
  async readmit(found: SessionRecord | undefined, nowMs: number): Promise<Claim> {
    const { call, provider, windowMs } = this.#context;
    const { id } = await admit(call, provider, found, nowMs, windowMs);
    return makeClaim(provider, 3, id, call.nonce, call.stampMs, nowMs, windowMs);
  }

  /**
   * Gives the request, if the store granted its claim.
   *
   * @throws {Rejection} `replayed`, `nonces_full`, `timestamp_outside_window`, `store_unavailable`.
   */
  async release(outcome: ClaimOutcome, nowMs: number): Promise<PlainRequest> {
    if (outcome === "fresh") return this.#plain;
    wipe(this.#plain.first);
    const { call, provider, session } = this.#context;
    if (outcome === "outside_window") throw await call.skewed(provider, session, nowMs);
    if (outcome === "replayed") throw new Rejection("replayed", "the nonce was seen before");
    if (outcome === "full") throw new Rejection("nonces_full", "the store of nonces is full");
    throw new Rejection("store_unavailable", "the store did not say what became of the claim");
  }
}

/** Returns the session, if the request may use it now. */
async function admit<S extends SessionRecord>(
  call: Call,
  provider: Provider,
  found: S | undefined,
  nowMs: number,
  windowMs: number,
): Promise<S> {
  if (found === undefined || call.sessionId !== found.id) throw unknown();
  if (nowMs >= found.expiresMs) throw new SealwayError("session_expired", "the session is over");
  if (found.wire !== call.wire)
    throw new SealwayError("wire_mismatch", "the session was agreed on another wire");
  call.check(found);
  if (Math.abs(call.stampMs - nowMs) <= Math.min(windowMs, call.windowMax)) return found;
  throw await call.skewed(provider, found, nowMs);
}
