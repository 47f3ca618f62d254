/** Sealed handlers in the style of `fetch`: a `Request` in, a `Response` out. */

import { Gate, type GateAnswer, type GateRequest, type Opener } from "./gate.js";
import { type Caller, isStripped } from "./headers.js";
import type { ServerOptions } from "./options.js";

/** A handler; `caller` is there when the request was sealed. */
export type FetchHandler = (request: Request, caller: Caller | undefined) => Response | Promise<Response>;

/** Wraps a handler: on sealed routes it sees plain requests and gives plain answers. */
export function sealedFetch(
  options: ServerOptions,
  handler: FetchHandler,
): (request: Request) => Promise<Response> {
  return handlerOf(new Gate(options), handler);
}

/** Puts what opens requests in front of a handler. */
export function handlerOf(gate: Opener, handler: FetchHandler): (request: Request) => Promise<Response> {
  return async (request) => {
    const opened = await gate.open(incomingOf(request));
    if (opened.kind === "refused") return responseOf(opened.answer);
    if (opened.kind === "plain") {
      const { trustForwarded } = gate.settings;
      const headers = [...request.headers].filter(([name]) => !isStripped(name, trustForwarded));
      return handler(new Request(request, { headers }), undefined);
    }
    const { call } = opened;
    if (request.signal.aborted) call.drop();
    request.signal.addEventListener("abort", () => call.drop(), { once: true });
    const { headers, signal } = call;
    const init: RequestInit & { duplex?: "half" } = { method: request.method, headers, signal };
    if (call.body !== undefined && request.method !== "GET" && request.method !== "HEAD") {
      init.body = streamOf(call.body);
      init.duplex = "half";
    }
    let answer: Response;
    try {
      answer = await handler(new Request(request.url, init), call.caller);
    } catch (error) {
      call.drop();
      throw error;
    }
    const sealed = await call.seal(answer.status, [...answer.headers], answer.body ?? undefined);
    return responseOf(sealed, () => call.drop());
  };
}

function incomingOf(request: Request): GateRequest {
  const { href, origin } = new URL(request.url);
  const target = href.slice(origin.length).split("#", 1)[0] ?? "/";
  return { method: request.method, target, headers: [...request.headers], body: request.body ?? undefined };
}

function responseOf(answer: GateAnswer, onCancel: () => void = () => undefined): Response {
  const { body: source } = answer;
  const body = source instanceof Uint8Array ? Uint8Array.from(source) : source && streamOf(source, onCancel);
  return new Response(body ?? null, { status: answer.status, headers: answer.headers });
}

function streamOf(
  parts: AsyncIterable<Uint8Array>,
  onCancel: () => void = () => undefined,
): ReadableStream<Uint8Array> {
  const iterator = parts[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      onCancel();
      await iterator.return?.();
    },
  });
}
