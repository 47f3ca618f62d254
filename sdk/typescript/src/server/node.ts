/** Requests and answers of `node:http`, for Express and Fastify. */
import { once } from "node:events";
import type { IncomingMessage, OutgoingHttpHeader, ServerResponse } from "node:http";
import type { HeaderList } from "../wire/headers.js";
import type { AnswerBody } from "./body.js";
import type { GateAnswer, GateRequest, OpenCall } from "./gate.js";
import { isOfPages, isStripped } from "./headers.js";

/** Bytes of an answer that may wait to be sealed before its handler must wait for `drain`. */
const WAITING_MAX = 256 * 1024;

/** Time for a client to read an answer that was sent before its request was complete, in milliseconds. */
const LINGER_MS = 500;

/** A request as it came, repeated headers and all. */
export function incomingOf(request: IncomingMessage, target: string): GateRequest {
  const { method = "", rawHeaders, socket } = request;
  return { method, target, headers: pairsOf(rawHeaders), body: request, remote: socket.remoteAddress };
}

/** Requests whose headers are a middleware's: another one in the chain lets them be. */
const opened = new WeakSet<IncomingMessage>();

/** Puts the headers that a handler may see in the place of those that came, and drops the call once its client is gone. */
export function handOver(request: IncomingMessage, response: ServerResponse, call: OpenCall<unknown>): void {
  onceClosed(response, () => call.drop());
  opened.add(request);
  const { headers } = call;
  replaceRaw(request, headers);
  const joined = [...grouped(headers)].map(([name, values]) => [
    name,
    values.join(name === "cookie" ? "; " : ", "),
  ]);
  request.headers = Object.fromEntries(joined);
}

/** Node would count `rawHeaders` as they came to make `headersDistinct` of them. */
function replaceRaw(request: IncomingMessage, headers: HeaderList): void {
  const lower = headers.map(([name, value]): [string, string] => [name.toLowerCase(), value]);
  request.rawHeaders = headers.flat();
  request.headersDistinct = Object.fromEntries(grouped(lower));
}

/** The values under each name. No object holds them, in which a name may stand already: `constructor`. */
function grouped(headers: HeaderList): Map<string, string[]> {
  const values = new Map<string, string[]>();
  for (const [name, value] of headers) values.set(name, [...(values.get(name) ?? []), value]);
  return values;
}

/** Removes from a request that is not sealed the headers that its handler must not see. */
export function stripHeaders(request: IncomingMessage, trustForwarded: boolean): void {
  if (opened.has(request)) return;
  for (const name of Object.keys(request.headers))
    if (isStripped(name, trustForwarded)) delete request.headers[name];
  const kept = pairsOf(request.rawHeaders).filter(([name]) => !isStripped(name, trustForwarded));
  replaceRaw(request, kept);
}

/** The headers of an answer that is about to go. */
export function headersOf(
  headers: Readonly<Record<string, OutgoingHttpHeader | undefined>>,
): [string, string][] {
  return Object.entries(headers).flatMap(([name, value]): [string, string][] => {
    if (value === undefined) return [];
    return (Array.isArray(value) ? value : [value]).map((each) => [name, String(each)]);
  });
}

/** The methods of a response that send. */
interface RawResponse {
  write(part: Uint8Array): boolean;
  end(body?: Uint8Array): unknown;
  flushHeaders(): void;
}

/** Sends an answer, through `raw` where the response's own methods seal. */
export async function send(
  response: ServerResponse,
  answer: GateAnswer,
  raw: RawResponse = response,
): Promise<void> {
  for (const name of response.getHeaderNames()) if (!isOfPages(name)) response.removeHeader(name);
  const { body } = answer;
  for (const [name, values] of grouped(answer.headers))
    response.setHeader(name, values.length === 1 ? (values[0] ?? "") : values);
  response.statusCode = answer.status;
  if (body === undefined || body instanceof Uint8Array) {
    if (body !== undefined) response.setHeader("Content-Length", body.length);
    raw.end(body);
    return;
  }
  raw.flushHeaders();
  const gone = new AbortController();
  onceClosed(response, () => gone.abort());
  try {
    for await (const part of body) {
      gone.signal.throwIfAborted();
      if (!raw.write(part)) await once(response, "drain", { signal: gone.signal });
    }
    raw.end();
  } catch (error) {
    // A stream without its last frame is an error for its reader, and so it is to be.
    response.destroy(error instanceof Error ? error : undefined);
  }
}

/** Runs once the client is gone, or has its answer: at once, if it went before. */
function onceClosed(response: ServerResponse, run: () => void): void {
  if (response.destroyed) run();
  else response.once("close", run);
}

/** Answers a request whose body nobody will read: the connection ends with the answer, and with a client that sends on. */
export function leaveRest(request: IncomingMessage, response: ServerResponse): void {
  if (request.complete) return;
  // Said, too: else a client would send its next request on a connection that is about to end.
  response.shouldKeepAlive = false;
  response.once("finish", () => setTimeout(() => request.socket.destroy(), LINGER_MS).unref());
}

/** Parts that one side writes and the other reads. */
class Parts implements AsyncIterable<Uint8Array> {
  readonly #waiting: Uint8Array[] = [];
  readonly #onDrain: () => void;
  #length = 0;
  #isOver = false;
  #isGone = false;
  #wake: (() => void) | undefined;

  constructor(onDrain: () => void) {
    this.#onDrain = onDrain;
  }

  /** Appends a part. Returns false if the writer should wait for `drain`. */
  push(part: Uint8Array): boolean {
    if (this.#isGone) return true;
    this.#waiting.push(part);
    this.#length += part.length;
    this.#wake?.();
    return this.#length < WAITING_MAX;
  }

  /** Drops all parts, those to come as well: nobody reads them. */
  drop(): void {
    this.#isGone = true;
    this.#waiting.length = 0;
  }

  end(): void {
    this.#isOver = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const part = this.#waiting.shift();
      if (part !== undefined) {
        const wasFull = this.#length >= WAITING_MAX;
        this.#length -= part.length;
        if (wasFull && this.#length < WAITING_MAX) this.#onDrain();
        yield part;
      } else if (this.#isOver) {
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }
}

/** Drops what a handler would send beside its answer, outside the seal: trailers and early hints. */
export function dropAsides(response: ServerResponse): void {
  response.addTrailers = () => undefined;
  response.writeEarlyHints = (_hints, callback) => {
    if (callback !== undefined) queueMicrotask(callback);
  };
}

/** Has all that a handler writes to a response sealed on its way out. */
export function sealResponse(response: ServerResponse, call: OpenCall<unknown>): void {
  dropAsides(response);
  const { writeHead, write, end, flushHeaders } = response;
  const raw: RawResponse = {
    write: (part) => (write as RawResponse["write"]).call(response, part),
    end: (body) => (end as RawResponse["end"]).call(response, body),
    flushHeaders: () => flushHeaders.call(response),
  };
  let parts: Parts | undefined;
  let isOver = false;
  const go = (body: AnswerBody): void => {
    const { statusCode } = response;
    const headers = headersOf(response.getHeaders());
    Promise.resolve(call.seal(statusCode, headers, body))
      .then((answer) => {
        // The others stay: a handler that writes on must not write beside the seal.
        response.writeHead = writeHead;
        return send(response, answer, raw);
      })
      .catch((error) => response.destroy(error instanceof Error ? error : undefined));
  };
  const begin = (): Parts => {
    if (parts === undefined) {
      const made = new Parts(() => response.emit("drain"));
      parts = made;
      onceClosed(response, () => made.drop());
      go(made);
    }
    return parts;
  };
  // Else what handles errors would end a broken answer as a whole one.
  Object.defineProperty(response, "headersSent", { get: () => parts !== undefined || isOver });
  response.writeHead = ((status: number, ...rest: unknown[]) => {
    response.statusCode = status;
    const headers = rest.find((part) => typeof part === "object" && part !== null) ?? {};
    const isFlat = Array.isArray(headers) && !Array.isArray(headers[0]);
    const pairs = isFlat ? pairsOf(headers) : Array.isArray(headers) ? headers : Object.entries(headers);
    for (const [name, value] of pairs) response.setHeader(name, value);
    return response;
  }) as typeof response.writeHead;
  response.flushHeaders = () => void begin();
  response.write = ((chunk: string | Uint8Array, encoding?: unknown, done?: unknown) => {
    const callback = typeof encoding === "function" ? encoding : done;
    const isOpen = begin().push(bytesOf(chunk, encoding));
    if (typeof callback === "function") queueMicrotask(callback as () => void);
    return isOpen;
  }) as typeof response.write;
  response.end = ((chunk?: unknown, encoding?: unknown, done?: unknown) => {
    const callback = [chunk, encoding, done].find((part) => typeof part === "function");
    if (typeof callback === "function") response.once("finish", callback as () => void);
    if (isOver) return response;
    isOver = true;
    const last =
      typeof chunk === "string" || chunk instanceof Uint8Array ? bytesOf(chunk, encoding) : undefined;
    if (parts === undefined) go(last ?? new Uint8Array());
    else {
      if (last !== undefined) parts.push(last);
      parts.end();
    }
    return response;
  }) as typeof response.end;
}

function bytesOf(chunk: string | Uint8Array, encoding: unknown): Uint8Array {
  if (typeof chunk !== "string") return chunk;
  return Buffer.from(chunk, typeof encoding === "string" ? (encoding as BufferEncoding) : "utf8");
}

/** Pairs of what stands in turn in one list. */
function pairsOf<T>(flat: readonly (string | T)[]): [string, T][] {
  return Array.from({ length: flat.length / 2 }, (_, at) => [String(flat[2 * at]), flat[2 * at + 1] as T]);
}
