/** A plugin for Fastify 5: requests are opened before they are parsed, answers sealed before they are sent. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import type { AnswerBody } from "./body.js";
import { Gate, type GateAnswer, type OpenCall, type Opener } from "./gate.js";
import { type Caller, isOfPages } from "./headers.js";
import { dropAsides, handOver, headersOf, incomingOf, leaveRest, stripHeaders } from "./node.js";
import type { ServerOptions } from "./options.js";

/** The part of Fastify that this plugin uses. */
export interface FastifyLike {
  addHook(...args: any[]): unknown;
}

interface Request {
  readonly raw: IncomingMessage;
  readonly originalUrl: string;
  /** Aborted when the client is gone; earlier releases of Fastify 5 have none. */
  readonly signal?: AbortSignal;
}

interface Reply {
  code(status: number): Reply;
  header(name: string, value: string | string[]): Reply;
  removeHeader(name: string): Reply;
  getHeaders(): Record<string, number | string | string[] | undefined>;
  send(payload?: unknown): Reply;
  trailer(name: string, make: unknown): Reply;
  readonly statusCode: number;
  readonly raw: ServerResponse;
}

const callers = new WeakMap<IncomingMessage, Caller>();

/** Returns the caller of a sealed request, and nothing for a plain one. `request` is Fastify's. */
export function sealedCaller(request: { readonly raw: IncomingMessage }): Caller | undefined {
  return callers.get(request.raw);
}

/** The plugin: `app.register(sealedFastify, options)`. Routes are looked up by path in `options`, not in Fastify. */
export function sealedFastify(app: FastifyLike, options: ServerOptions, done: (error?: Error) => void): void {
  addHooks(app, new Gate(options));
  done();
}

// Not encapsulated: the hooks are for all routes of the application.
unencapsulated(sealedFastify, "sealway");

/** Has a plugin's hooks apply to all routes of the application that registers it. */
export function unencapsulated(plugin: object, name: string): void {
  Object.assign(plugin, {
    [Symbol.for("skip-override")]: true,
    [Symbol.for("fastify.display-name")]: name,
  });
}

/** Adds the hooks of what opens requests. */
export function addHooks(app: FastifyLike, gate: Opener): void {
  const calls = new WeakMap<IncomingMessage, OpenCall<Caller | undefined>>();
  app.addHook("preParsing", async (request: Request, reply: Reply, payload: unknown) => {
    const opened = await gate.open(incomingOf(request.raw, request.originalUrl));
    if (opened.kind === "plain") {
      stripHeaders(request.raw, gate.settings.trustForwarded);
      return payload;
    }
    if (opened.kind === "refused") {
      leaveRest(request.raw, reply.raw);
      reply.send(put(reply, opened.answer));
      return reply;
    }
    const { call } = opened;
    calls.set(request.raw, call);
    if (call.caller !== undefined) callers.set(request.raw, call.caller);
    handOver(request.raw, reply.raw, call);
    dropAsides(reply.raw);
    // Fastify would name them in a header, too.
    reply.trailer = () => reply;
    const signals = request.signal === undefined ? [call.signal] : [request.signal, call.signal];
    Object.defineProperty(request, "signal", { value: AbortSignal.any(signals), configurable: true });
    if (isEmptyJson(call)) delete request.raw.headers["content-type"];
    if (call.body === undefined) return Readable.from([]);
    request.raw.headers["transfer-encoding"] = "chunked";
    return Readable.from(call.body, { objectMode: false });
  });
  app.addHook("preValidation", async ({ raw }: Request) => {
    const call = calls.get(raw);
    if (call !== undefined && isEmptyJson(call)) raw.headers["content-type"] = "application/json";
  });
  app.addHook("onSend", async (request: Request, reply: Reply, payload: unknown) => {
    const call = calls.get(request.raw);
    if (call === undefined) return payload;
    // Nobody reads what has not come yet: on a connection that is kept, the next request would wait behind it.
    leaveRest(request.raw, reply.raw);
    const answer = await call.seal(reply.statusCode, headersOf(reply.getHeaders()), answering(payload));
    return put(reply, answer);
  });
}

/** True if a message is JSON by its wire, and empty: Fastify would reject it before the handler runs. */
function isEmptyJson({ caller, body }: OpenCall<Caller | undefined>): boolean {
  return caller !== undefined && caller.wire !== 3 && body === undefined;
}

function put(reply: Reply, answer: GateAnswer): unknown {
  for (const name of Object.keys(reply.getHeaders())) if (!isOfPages(name)) reply.removeHeader(name);
  reply.code(answer.status);
  for (const [name, value] of answer.headers) reply.header(name, value);
  const { body } = answer;
  if (body === undefined) return null;
  return body instanceof Uint8Array ? Buffer.from(body) : Readable.from(body, { objectMode: false });
}

function answering(payload: unknown): AnswerBody {
  if (payload === undefined || payload === null) return undefined;
  if (typeof payload === "string") return Buffer.from(payload);
  if (payload instanceof Uint8Array) return payload;
  return payload as AsyncIterable<Uint8Array>;
}
