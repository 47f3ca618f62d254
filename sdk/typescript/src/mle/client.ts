/** A client of a scheme: a `fetch` that seals requests and opens answers. */
import { steadyMs } from "../client/clock.js";
import { Transport } from "../client/transport.js";
import { Check } from "../wire/check.js";
import { SealwayError, wants } from "../wire/error.js";
import { MleCodec, type MleOptions } from "./codec.js";
import type { OpeningKey, SealingKey } from "./keys.js";
import { isToken, type PlainAnswers, plainHeaders, tokenHeaders } from "./server.js";

/** Options of {@link mleFetch}. */
export interface MleClientOptions extends Omit<MleOptions, "store"> {
  /** The scheme's key. */
  readonly seal: SealingKey;
  /** Keys that open answers, all of them live. */
  readonly open: readonly OpeningKey[];
  /** `errors` passes answers in clear with a status of 400 and more: schemes report errors so. Default: `none`. */
  readonly plainAnswers?: PlainAnswers;
  /** `Content-Type` of opened answers. Default: `application/json`. */
  readonly contentType?: string;
  /** Bound on an answer, in bytes. Default: 8 MiB. */
  readonly answerMaxBytes?: number;
  /** Time from the request to the head of its answer, in milliseconds. Default: 30,000. */
  readonly headTimeoutMs?: number;
  /** Time of the whole call, in milliseconds; 0 for none. Default: 60,000. */
  readonly totalTimeoutMs?: number;
  /** Replaces the platform's `fetch`, such as for a client certificate. */
  readonly fetch?: typeof fetch;
}

const check = new Check((message) => new SealwayError("usage", message, { stage: "configuration" }));

/**
 * Makes a `fetch` for a scheme. It seals the body of a request that has one, follows no redirect, and opens the answer. An answer
 * in clear is an error, unless it is empty or `plainAnswers` allows it. Nothing binds an answer to its request in these forms.
 *
 * @throws {SealwayError} `usage`. A call rejects with {@link SealwayError}: an {@link MleRefusal} says why an answer does not open.
 */
export function mleFetch(
  options: MleClientOptions,
): (input: string | URL | Request, init?: RequestInit) => Promise<Response> {
  const codec = new MleCodec(options);
  check.numbers(options, 0, false, "answerMaxBytes", "headTimeoutMs", "totalTimeoutMs");
  check.functions(options, "fetch");
  const {
    plainAnswers = "none",
    contentType = "application/json",
    answerMaxBytes = 8 * 1024 * 1024,
  } = options;
  const { headTimeoutMs = 30_000, totalTimeoutMs = 60_000 } = options;
  wants(["none", "errors"].includes(plainAnswers), "plainAnswers: none or errors");
  wants(options.open?.length > 0, "open: at least one OpeningKey");
  codec.checkSeal("request");
  const run: typeof fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  const transport = new Transport({ fetch: run, headTimeoutMs, idleTimeoutMs: headTimeoutMs });
  return async (input, init) => {
    const endsAt = totalTimeoutMs > 0 ? steadyMs() + totalTimeoutMs : undefined;
    const request = new Request(input, init);
    const { method, signal } = request;
    const url = new URL(request.url);
    const plaintext = new Uint8Array(await request.arrayBuffer());
    const given = [...request.headers].filter(([name]) => name !== "accept-encoding" && name !== "range");
    const body = plaintext.length > 0 ? await codec.seal("request", plaintext) : undefined;
    const sealed = body === undefined ? given : tokenHeaders(codec.profile, "request", given);
    // A compressed answer would be opened before its length is known.
    const headers = [...sealed, ["accept-encoding", "identity"] as const];
    const measure = transport.measure("call", method, url.pathname);
    const answer = await transport.send(url, { method, headers, body, signal, endsAt }, measure);
    const { status } = answer;
    const content = await answer.whole(answerMaxBytes);
    const isBodiless = content.length === 0 || method === "HEAD";
    const isPlain =
      plainAnswers === "errors" &&
      status >= 400 &&
      !isToken(codec.profile, "answer", answer.headers, content);
    if (isBodiless || isPlain) return responseOf(url, status, answer.headers, isBodiless ? null : content);
    try {
      const opened = await codec.open("answer", content);
      const own = [...plainHeaders(answer.headers), ["content-type", contentType] as const];
      return responseOf(url, status, own, opened);
    } catch (error) {
      if (error instanceof SealwayError) Object.assign(error, { host: url.host, status });
      throw error;
    }
  };
}

function responseOf(
  url: URL,
  status: number,
  headers: readonly (readonly [string, string])[],
  body: Uint8Array<ArrayBuffer> | null,
): Response {
  const response = new Response(body, { status, headers: headers.map(([name, value]) => [name, value]) });
  Object.defineProperty(response, "url", { value: url.href });
  return response;
}
