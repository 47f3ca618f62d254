/**
 * The one core of all middleware: a request as it came in, what a handler may see of it, and its answer sealed. The order
 * of checks is that of `spec/session-3.md` and `spec/session.md`.
 */
import { nodeProvider } from "../crypto/node.js";
import { SealwayError } from "../wire/error.js";
import { firstOf, type HeaderList, X_IDEMPOTENCY_KEY, X_KID, X_SEAL } from "../wire/headers.js";
import type { Answering } from "./body.js";
import type { Caller } from "./handled.js";
import { OldGate } from "./old.js";
import { type ServerOptions, type ServerSettings, serverSettings } from "./options.js";
import { ALLOW, type Answer, plain, plainOf, problem, problemOf } from "./refusal.js";
import { Room } from "./room.js";
import { longestBody, ruleFor } from "./route.js";
import { ThreeGate } from "./three.js";

/** A request as it came in. */
export interface Incoming {
  readonly method: string;
  /** Path and query as sent. */
  readonly target: string;
  readonly headers: HeaderList;
  readonly body: AsyncIterable<Uint8Array> | undefined;
  /** The IP address that the request came from; absent, it has no bound of its own on `bufferedBytesMax`. */
  readonly remote?: string | undefined;
}

/** A request that was opened and is new: call `seal`, or `drop`, which end what it holds. */
export interface OpenedCall {
  readonly caller: Caller;
  /** What a handler sees. */
  readonly headers: [string, string][];
  /** None where the message has no body. It throws {@link SealwayError} where the rest does not open. */
  readonly body: AsyncIterable<Uint8Array> | undefined;
  /** Seals the handler's answer; what is refused after all is answered instead. */
  seal(status: number, headers: HeaderList, body: Answering): Promise<Answer>;
  /** Aborted when nobody waits for the answer any more, or its session has ended: what the handler makes is not sent then. */
  readonly signal: AbortSignal;
  /** The client is gone, or the handler failed: what streams is not waited for any more. */
  drop(): void;
}

/** What to do with a request: leave it alone, answer it, or let a handler see it. */
export type Opened =
  | { readonly kind: "plain" }
  | { readonly kind: "refused"; readonly answer: Answer }
  | { readonly kind: "opened"; readonly call: OpenedCall };

/** A refusal on its way out, and the answer that tells it. */
export class Refused extends Error {
  readonly code: string;
  readonly answer: Answer;

  constructor(code: string, answer: Answer) {
    super(code);
    this.code = code;
    this.answer = answer;
  }
}

export class Gate {
  readonly settings: ServerSettings;
  readonly #three: ThreeGate;
  readonly #old: OldGate;
  readonly #room: Room;

  /**
   * @param holdsWhole says that opened bodies are collected before a handler sees them: on wire 3, too, a body counts until all of
   * it has opened.
   * @throws {SealwayError} `configuration`.
   */
  constructor(options: ServerOptions, holdsWhole = false) {
    this.settings = serverSettings(options);
    const { bufferedBytesMax, routes, wires } = this.settings;
    const longest = holdsWhole || wires.some((wire) => wire !== 3) ? longestBody(routes) : 0;
    this.#room = new Room(bufferedBytesMax, longest);
    this.#three = new ThreeGate(nodeProvider, this.settings, holdsWhole);
    this.#old = new OldGate(nodeProvider, this.settings);
  }

  /** Opens a request, if its route is sealed; `OPTIONS` there is answered with 204, and no handler sees it. It never throws for what a peer sends. */
  async open(incoming: Incoming): Promise<Opened> {
    const path = incoming.target.split("?", 1)[0] ?? "/";
    const route = ruleFor(this.settings.routes, path);
    if (route === undefined) {
      const answer = plain(400, "CRYPTO_ERROR");
      this.settings.onRefused({ code: "disguised_path", status: answer.status, path });
      return { kind: "refused", answer };
    }
    if (route.sealed === "off") return { kind: "plain" };
    // What a browser asks before it sends anything is never sealed, and what answers it for pages stands in front of this.
    if (incoming.method === "OPTIONS") {
      return { kind: "refused", answer: { status: 204, headers: [["Allow", ALLOW]], body: undefined } };
    }
    const has = (name: string) => firstOf(incoming.headers, name) !== undefined;
    const isThree = has(X_SEAL);
    if (route.sealed === "optional" && !isThree && !has(X_KID) && !has(X_IDEMPOTENCY_KEY)) {
      return { kind: "plain" };
    }
    const gate = isThree ? this.#three : this.#old;
    const holding = this.#room.holding(this.settings.trustForwarded ? undefined : incoming.remote);
    try {
      const call = await gate.open(incoming, path, route.bodyMax, holding);
      return { kind: "opened", call };
    } catch (error) {
      const { code, answer } = refusedAs(error, isThree);
      this.settings.onRefused({ code, status: answer.status, path });
      return { kind: "refused", answer };
    }
  }
}

function refusedAs(error: unknown, isThree: boolean): Refused {
  if (error instanceof Refused) return error;
  const known =
    error instanceof SealwayError
      ? error
      : new SealwayError("store_unavailable", "the store failed", { cause: error });
  return new Refused(known.code, isThree ? problem(problemOf(known)) : plainOf(known));
}
