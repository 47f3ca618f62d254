/** Middleware that opens the messages of a scheme for an ordinary handler, and seals its answers. */

import { Rejection } from "../exchange/rejection.js";
import { Stream } from "../exchange/stream.js";
import { type AnswerBody, collect } from "../server/body.js";
import { Cut } from "../server/cut.js";
import { expressOf, type Middleware } from "../server/express.js";
import { addHooks, type FastifyLike, unencapsulated } from "../server/fastify.js";
import { handlerOf } from "../server/fetch.js";
import type { GateAnswer, GateOutcome, GateRequest, OpenCall, Opener } from "../server/gate.js";
import { isStripped } from "../server/headers.js";
import { Reader } from "../server/open.js";
import { type ServerOptions, type ServerSettings, serverSettings } from "../server/options.js";
import { Room } from "../server/room.js";
import { ruleFor } from "../server/route.js";
import type { Bytes } from "../wire/bytes.js";
import { wants } from "../wire/error.js";
import { firstOf, type HeaderList, valuesOf } from "../wire/headers.js";
import { MleCodec, type MleOptions, tokenOf } from "./codec.js";
import type { MleMessage, MleProfile } from "./profile.js";
import { MleRefusal } from "./refusal.js";

/** Messages in clear that pass: none that has a body, or answers with a status of 400 and more. */
export type PlainAnswers = "none" | "errors";

/** A rejected request, for logs and metrics. */
export interface MleReport {
  /** A class of `spec/mle.md`, or a code of the middleware of sessions, such as `body_too_large` or `store_unavailable`. */
  readonly code: string;
  /** A sentence without plaintext, key or token. */
  readonly detail: string;
  readonly status: number;
  readonly path: string;
}

/** Options of the middleware. Those of {@link ServerOptions} mean the same there. */
export interface MleServerOptions
  extends MleOptions,
    Pick<
      ServerOptions,
      "routes" | "bodyMaxBytes" | "answerMaxBytes" | "bodyTimeoutMs" | "bufferedMaxBytes" | "trustForwarded"
    > {
  /** `errors` leaves the handler's answers of 400 and more in clear. Default: `none`. */
  readonly plainAnswers?: PlainAnswers;
  /** `Content-Type` of a plaintext for the handler. Default: `application/json`. */
  readonly contentType?: string;
  /** Called for every rejected request. The client learns nothing of the reason. */
  readonly onRefusal?: (report: MleReport) => void;
}

/** What waits for a private key counts as so many bytes more, so that a flood of small tokens is bounded too. */
const OPERATION_ROOM = 64 * 1024;
/** Media types of a bare token; the second is registered for another form, and in use for this one. */
const BARE_TYPES = ["application/jose", "application/jose+json", "application/jose+jwe"];
/** Describe a body that is not sent on. A digest of a plaintext would let it be guessed. */
const OF_BODY =
  /^(?:accept-ranges|content-(?:digest|encoding|length|md5|range|type)|digest|etag|last-modified|repr-digest|trailer|transfer-encoding)$/i;
/** Ask for what the answer to a message cannot be, or belong to the way here. */
const OF_REQUEST = /^(?:accept-encoding|expect|if-range|range)$/i;

/** Middleware for Express: use it before everything that reads bodies, under the path that it is for. */
export function mleExpress(options: MleServerOptions): Middleware {
  return expressOf(new MleGate(options));
}

/** The plugin for Fastify: `app.register(mleFastify, options)`. Its hooks are for all routes of the application: see `routes`. */
export function mleFastify(app: FastifyLike, options: MleServerOptions, done: (error?: Error) => void): void {
  addHooks(app, new MleGate(options));
  done();
}

unencapsulated(mleFastify, "sealway-mle");

/** Wraps a handler in the style of `fetch`: it sees plaintexts and gives plain answers. */
export function mleHandler(
  options: MleServerOptions,
  handler: (request: Request) => Response | Promise<Response>,
): (request: Request) => Promise<Response> {
  return handlerOf(new MleGate(options), handler);
}

/** Opens requests of a scheme. */
export class MleGate implements Opener {
  readonly settings: ServerSettings;
  readonly #codec: MleCodec;
  readonly #room: Room;
  readonly #plainAnswers: PlainAnswers;
  readonly #contentType: string;
  readonly #onRefusal: (report: MleReport) => void;

  /** @throws {SealwayError} `usage`. */
  constructor(options: MleServerOptions) {
    this.#codec = new MleCodec(options);
    wants((options.open?.length ?? 0) > 0, "open: at least one OpeningKey");
    this.#codec.checkSeal("answer");
    const { onRefusal, plainAnswers = "none", contentType = "application/json", store, ...rest } = options;
    wants(["none", "errors"].includes(plainAnswers), "plainAnswers: none or errors");
    // The store of sessions is not asked here: there are none.
    this.settings = serverSettings({
      ...rest,
      store: { claim: async () => "full", get: async () => undefined },
    });
    const { bufferedMaxBytes, bodyMaxBytes, routes } = this.settings;
    const longest = Math.max(bodyMaxBytes, ...routes.map((route) => route.bodyMaxBytes ?? 0));
    this.#room = new Room(bufferedMaxBytes, longest + OPERATION_ROOM);
    [this.#plainAnswers, this.#contentType] = [plainAnswers, contentType];
    this.#onRefusal = onRefusal ?? (() => undefined);
  }

  async open(incoming: GateRequest): Promise<GateOutcome<undefined>> {
    const { target, remote } = incoming;
    const { routes, trustForwarded, bodyMaxBytes, bodyTimeoutMs: timeoutMs } = this.settings;
    const path = target.split("?", 1)[0] ?? "/";
    const route = ruleFor(routes, path);
    if (route?.mode === "off") return { kind: "plain" };
    const holding = this.#room.holding(trustForwarded ? undefined : remote);
    try {
      if (route === undefined)
        throw new Rejection("disguised_path", "the path is another spelling of one with tokens");
      // Before the handler acts: an answer that cannot be sealed would be lost after it.
      this.#checkSeal();
      const lengthMax = Math.min(route.bodyMaxBytes ?? bodyMaxBytes, holding.max - OPERATION_ROOM);
      const reader = new Reader(new Stream(), incoming.body, {
        lengthMax,
        timeoutMs,
        holding,
        holdsWhole: true,
      });
      const { bytes } = await reader.next();
      holding.grow(OPERATION_ROOM);
      return { kind: "opened", call: await this.#call(incoming, path, bytes, route.mode === "optional") };
    } catch (error) {
      return { kind: "refused", answer: this.#refuse(error, path) };
    } finally {
      holding.release();
    }
  }

  async #call(
    request: GateRequest,
    path: string,
    body: Bytes,
    isOptional: boolean,
  ): Promise<OpenCall<undefined>> {
    const { method, headers } = request;
    const cut = new Cut(undefined);
    const plain = { caller: undefined, signal: cut.signal, drop: () => cut.drop() };
    if (isOptional && !this.#isToken("request", headers, body)) {
      const seal = async (status: number, answer: HeaderList, content: AnswerBody) => {
        cut.finish();
        return { status, headers: copyOf(answer), body: content };
      };
      const own = this.#headers(headers).filter(
        ([name]) => !/^(?:content-length|transfer-encoding)$/.test(name),
      );
      cut.begin();
      return { ...plain, headers: own, body: partsOf(body), seal };
    }
    const isBodiless = body.length === 0 && ["GET", "HEAD", "DELETE"].includes(method);
    const plaintext = isBodiless ? body : await this.#open(headers, body);
    const own = this.#headers(headers).filter(([name]) => !OF_BODY.test(name) && !OF_REQUEST.test(name));
    if (plaintext.length > 0) own.push(["content-type", this.#contentType]);
    if (!isBodiless) own.push(["x-sealway-wire", `mle:${this.#codec.profile.name}`]);
    cut.begin();
    const seal = async (status: number, answer: HeaderList, content: AnswerBody) => {
      try {
        return await this.#answer(method, status, answer, content);
      } catch (error) {
        return this.#refuse(error, path);
      } finally {
        cut.finish();
      }
    };
    return { ...plain, headers: own, body: partsOf(plaintext), seal };
  }

  /** The headers that a handler may see, in lower case. */
  #headers(headers: HeaderList): [string, string][] {
    const kept = headers.filter(([name]) => !isStripped(name, this.settings.trustForwarded));
    return kept.map(([name, value]) => [name.toLowerCase(), value]);
  }

  async #open(headers: HeaderList, body: Bytes): Promise<Bytes> {
    if (isCompressed(headers)) throw new MleRefusal("json", "the body has a Content-Encoding");
    return this.#codec.open("request", body, headers);
  }

  #isToken(message: MleMessage, headers: HeaderList, body: Bytes): boolean {
    return isToken(this.#codec.profile, message, headers, body);
  }

  #checkSeal(): void {
    try {
      this.#codec.checkSeal("answer");
    } catch (error) {
      throw unsealable(error);
    }
  }

  async #answer(
    method: string,
    status: number,
    headers: HeaderList,
    content: AnswerBody,
  ): Promise<GateAnswer> {
    const isBodiless = method === "HEAD" || status === 204 || status === 304;
    if (isBodiless || (this.#plainAnswers === "errors" && status >= 400))
      return { status, headers: copyOf(headers), body: isBodiless ? undefined : content };
    const plaintext = await collect(content, this.settings.answerMaxBytes).catch((error) => {
      throw unsealable(error);
    });
    if (plaintext.length === 0) return { status, headers: copyOf(headers), body: undefined };
    if (isCompressed(headers)) throw unsealable("the handler's answer has a Content-Encoding");
    const body = await this.#codec.seal("answer", plaintext).catch((error) => {
      throw unsealable(error);
    });
    return { status, headers: tokenHeaders(this.#codec.profile, "answer", headers), body };
  }

  #refuse(error: unknown, path: string): GateAnswer {
    const rejection = Rejection.of(error);
    const code = error instanceof MleRefusal ? error.class : rejection.code;
    const answer = rejection.answer("plain");
    this.#onRefusal({ code, detail: rejection.message, status: answer.status, path });
    return answer;
  }
}

/** True if a message has the form of the profile: a bare token by its media type, another by its body. */
export function isToken(
  profile: MleProfile,
  message: MleMessage,
  headers: HeaderList,
  body: Uint8Array,
): boolean {
  const side = profile[message];
  if (side.member === undefined) {
    const [type = ""] = (firstOf(headers, "Content-Type") ?? "").split(";", 1);
    return BARE_TYPES.includes(type.trim().toLowerCase());
  }
  try {
    tokenOf(body, side);
    return true;
  } catch {
    return false;
  }
}

/** Returns the headers of a message whose body has become a token. */
export function tokenHeaders(
  profile: MleProfile,
  message: MleMessage,
  headers: HeaderList,
): [string, string][] {
  const type = profile[message].member === undefined ? BARE_TYPES[0] : "application/json";
  return [...plainHeaders(headers), ["content-type", type ?? ""]];
}

/** Returns headers without those that describe another body. */
export function plainHeaders(headers: HeaderList): [string, string][] {
  return copyOf(headers.filter(([name]) => !OF_BODY.test(name)));
}

function isCompressed(headers: HeaderList): boolean {
  return valuesOf(headers, "Content-Encoding").some((coding) => !/^(?:identity)?$/i.test(coding));
}

function copyOf(headers: HeaderList): [string, string][] {
  return headers.map(([name, value]) => [name, value]);
}

function partsOf(body: Bytes): AsyncIterable<Uint8Array> | undefined {
  async function* parts() {
    yield body;
  }
  return body.length === 0 ? undefined : parts();
}

function unsealable(cause: unknown): Rejection {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new Rejection("upstream_unreachable", `the handler's answer cannot be sealed: ${why}`, cause);
}
