/** Sealed handlers in the style of `fetch`: a `Request` in, a `Response` out. */

import { Gate, type Incoming } from "./gate.js";
import type { Caller } from "./handled.js";
import { isClaimed } from "./handled.js";
import type { ServerOptions } from "./options.js";
import type { Answer } from "./refusal.js";

/** A handler; `caller` is there when the request was sealed. */
export type FetchHandler = (request: Request, caller: Caller | undefined) => Response | Promise<Response>;

/** Wraps a handler: on sealed routes it sees plain requests and gives plain answers. */
export function sealedFetch(
  options: ServerOptions,
  handler: FetchHandler,
): (request: Request) => Promise<Response> {
  const gate = new Gate(options);
  return async (request) => {
    const opened = await gate.open(incomingOf(request));
    if (opened.kind === "refused") return responseOf(opened.answer);
    if (opened.kind === "plain") {
      const headers = [...request.headers].filter(([name]) => !isClaimed(name));
      return handler(new Request(request, { headers }), undefined);
    }
    const { call } = opened;
    const init: RequestInit & { duplex?: "half" } = { method: request.method, headers: call.headers };
    if (call.body !== undefined && request.method !== "GET" && request.method !== "HEAD") {
      init.body = streamOf(call.body);
      init.duplex = "half";
    }
    const answer = await handler(new Request(request.url, init), call.caller);
    return responseOf(await call.seal(answer.status, [...answer.headers], answer.body ?? undefined));
  };
}

function incomingOf(request: Request): Incoming {
  const { href, origin } = new URL(request.url);
  const target = href.slice(origin.length).split("#", 1)[0] ?? "/";
  return { method: request.method, target, headers: [...request.headers], body: request.body ?? undefined };
}

function responseOf(answer: Answer): Response {
  const body =
    answer.body instanceof Uint8Array ? Uint8Array.from(answer.body) : answer.body && streamOf(answer.body);
  return new Response(body ?? null, { status: answer.status, headers: answer.headers });
}

function streamOf(parts: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = parts[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}
