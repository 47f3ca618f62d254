/** Middleware for Express, and for anything that takes `(request, response, next)`. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { SealwayError } from "../wire/error.js";
import { collect } from "./body.js";
import { Gate, type Opener } from "./gate.js";
import type { Caller } from "./headers.js";
import { handOver, headersOf, incomingOf, leaveRest, sealResponse, send, stripHeaders } from "./node.js";
import type { ServerOptions } from "./options.js";

/**
 * A request as Express has it, with what this middleware adds where the request was sealed: `sealway` says who asks; `signal` is
 * aborted when the client is gone or its session has ended, so that no answer is sent.
 */
export interface SealedMessage extends IncomingMessage {
  originalUrl?: string;
  body?: unknown;
  sealway?: Caller;
  signal?: AbortSignal;
}

export type Middleware = (
  request: SealedMessage,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void;

/**
 * Opens and seals around the handlers behind it. Use it before anything that reads bodies: `request.body` is there then,
 * parsed if it is JSON, a text if it is one, else bytes.
 */
export function sealedExpress(options: ServerOptions): Middleware {
  return expressOf(new Gate(options, true));
}

/** Makes middleware of what opens requests. */
export function expressOf(gate: Opener): Middleware {
  return (request, response, next) => {
    handle(gate, request, response).then((isNext) => isNext && next(), next);
  };
}

async function handle(gate: Opener, request: SealedMessage, response: ServerResponse): Promise<boolean> {
  const opened = await gate.open(incomingOf(request, request.originalUrl ?? request.url ?? "/"));
  if (opened.kind === "plain") {
    stripHeaders(request, gate.settings.trustForwarded);
    return true;
  }
  if (opened.kind === "refused") {
    leaveRest(request, response);
    await send(response, opened.answer);
    return false;
  }
  const { call } = opened;
  handOver(request, response, call);
  if (call.caller !== undefined) request.sealway = call.caller;
  // A later Node may have a getter of this name.
  Object.defineProperty(request, "signal", { value: call.signal, configurable: true });
  try {
    // A sealed body is within its route's bound, and its plaintext is shorter.
    const body = call.body === undefined ? undefined : await collect(call.body, Number.MAX_SAFE_INTEGER);
    if (body !== undefined) request.body = parsed(body, request.headers["content-type"] ?? "");
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof SealwayError)) throw error;
    leaveRest(request, response);
    await send(response, await call.seal(400, headersOf(response.getHeaders()), undefined));
    return false;
  }
  sealResponse(response, call);
  return true;
}

function parsed(body: Uint8Array, type: string): unknown {
  if (/^application\/(?:[\w.+-]+\+)?json *(?:;|$)/i.test(type))
    return JSON.parse(new TextDecoder().decode(body));
  if (/^text\//i.test(type)) return new TextDecoder().decode(body);
  return Buffer.from(body);
}
