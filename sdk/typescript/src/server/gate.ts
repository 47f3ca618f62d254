/** The core of all middleware: a request's route decides whether it is plain, refused, or opened by {@link serve}. */
import { looksSealed, wireOf } from "../exchange/exchange.js";
import { ALLOW, type Form, formOf, Rejection } from "../exchange/rejection.js";
import type { HeaderList } from "../wire/headers.js";
import type { AnswerBody } from "./body.js";
import type { Caller } from "./headers.js";
import { type ServerOptions, type ServerSettings, serverSettings } from "./options.js";
import { Room } from "./room.js";
import { ruleFor } from "./route.js";
import { serve } from "./serve.js";

/** A request before it is opened. */
export interface GateRequest {
  readonly method: string;
  /** Path and query as sent. */
  readonly target: string;
  readonly headers: HeaderList;
  readonly body: AsyncIterable<Uint8Array> | undefined;
  /** The IP address that the request came from; absent, it has no bound of its own on `bufferedMaxBytes`. */
  readonly remote?: string | undefined;
}

/** An opened request that is no replay. `seal` or `drop` releases its resources. `C` is none where the protocol knows no caller. */
export interface OpenCall<C = Caller> {
  readonly caller: C;
  /** Headers for the handler. */
  readonly headers: [string, string][];
  /** None where the message has no body. It throws {@link SealwayError} where the rest does not open. */
  readonly body: AsyncIterable<Uint8Array> | undefined;
  /** Seals the handler's answer; what is refused after all is answered instead. */
  seal(status: number, headers: HeaderList, body: AnswerBody): Promise<GateAnswer>;
  /** Aborted when nobody waits for the answer any more, or its session has ended: what the handler makes is not sent then. */
  readonly signal: AbortSignal;
  /** Ends the call: the client is gone, or the handler failed. */
  drop(): void;
}

/** An answer to send. */
export interface GateAnswer {
  readonly status: number;
  readonly headers: [string, string][];
  readonly body: AnswerBody;
}

/** Result of opening a request: `plain` (pass it on), `refused` (send the answer), or `opened` (call the handler). */
export type GateOutcome<C = Caller> =
  | { readonly kind: "plain" }
  | { readonly kind: "refused"; readonly answer: GateAnswer }
  | { readonly kind: "opened"; readonly call: OpenCall<C> };

/** Opens requests for the middleware: a {@link Gate}, or what opens messages of another form. */
export interface Opener {
  readonly settings: Pick<ServerSettings, "trustForwarded">;
  /** It never throws for what a peer sends. */
  open(incoming: GateRequest): Promise<GateOutcome<Caller | undefined>>;
}

export class Gate implements Opener {
  readonly settings: ServerSettings;
  readonly #holdsWhole: boolean;
  readonly #room: Room;

  /**
   * @param holdsWhole says that opened bodies are collected before a handler sees them: on wire 3, too, a body counts until all of
   * it has opened.
   * @throws {SealwayError} `usage`.
   */
  constructor(options: ServerOptions, holdsWhole = false) {
    this.settings = serverSettings(options);
    this.#holdsWhole = holdsWhole;
    const { bufferedMaxBytes, bodyMaxBytes, routes, wires } = this.settings;
    const longest =
      holdsWhole || wires.some((wire) => wire !== 3)
        ? Math.max(bodyMaxBytes, ...routes.map((route) => route.bodyMaxBytes ?? 0))
        : 0;
    this.#room = new Room(bufferedMaxBytes, longest);
  }

  /** Opens a request, if its route is sealed; `OPTIONS` there is answered with 204, and no handler sees it. It never throws for what a peer sends. */
  async open(incoming: GateRequest): Promise<GateOutcome> {
    const { method, target, headers, remote } = incoming;
    const path = target.split("?", 1)[0] ?? "/";
    const route = ruleFor(this.settings.routes, path);
    if (route === undefined) {
      const rejection = new Rejection("disguised_path", "the path is another spelling of a sealed one");
      return { kind: "refused", answer: this.#refuse(rejection, "plain", path) };
    }
    if (route.mode === "off") return { kind: "plain" };
    // What a browser asks before it sends anything is never sealed, and what answers it for pages stands in front of this.
    if (method === "OPTIONS") {
      return { kind: "refused", answer: { status: 204, headers: [["Allow", ALLOW]], body: undefined } };
    }
    if (route.mode === "optional" && !looksSealed(headers)) return { kind: "plain" };
    const holding = this.#room.holding(this.settings.trustForwarded ? undefined : remote);
    const form = formOf(wireOf(headers));
    const refuse = (rejection: Rejection) => this.#refuse(rejection, form, path);
    const rules = {
      path,
      bodyMax: route.bodyMaxBytes ?? this.settings.bodyMaxBytes,
      holdsWhole: this.#holdsWhole,
      holding,
      refuse,
    };
    try {
      return { kind: "opened", call: await serve(this.settings, rules, incoming) };
    } catch (error) {
      holding.release();
      return { kind: "refused", answer: refuse(Rejection.of(error)) };
    }
  }

  #refuse(rejection: Rejection, form: Form, path: string): GateAnswer {
    const answer = rejection.answer(form);
    this.settings.onRefusal({ code: rejection.code, status: answer.status, path });
    return answer;
  }
}
