/** Arguments of `fetch`, split into the parts that are sealed. */

import { mayBeInner } from "../session/native/inner.js";
import { type Bytes, owned } from "../wire/bytes.js";
import { SealwayError, wants } from "../wire/error.js";
import type { HeaderList } from "../wire/headers.js";

/** A call as it is to be sealed. */
export interface Call {
  readonly url: URL;
  readonly method: string;
  /** Path and query as they are sent. */
  readonly target: string;
  readonly headers: HeaderList;
  /** Whole, or as it comes: a stream can be sent once. */
  readonly body: Bytes | ReadableStream<Uint8Array>;
  readonly signal?: AbortSignal | undefined;
  readonly credentials?: RequestCredentials | undefined;
  readonly showRedirects?: boolean;
  /** Moment of the steady clock at which the call times out. */
  readonly endsAt?: number;
}

/** Path and query of a URL, as `fetch` sends them. */
export function targetOf(url: URL): string {
  const { href } = url;
  const begin = href.indexOf("/", href.indexOf("//") + 2);
  const end = href.indexOf("#");
  return href.slice(begin, end < 0 ? undefined : end);
}

/**
 * Reads the arguments of `fetch`.
 *
 * @throws {SealwayError} `usage` for a URL of another origin than `base`, and for arguments that `fetch` rejects.
 */
export async function callOf(
  base: URL,
  endsAt: number,
  input: RequestInfo | URL,
  init: RequestInit = {},
): Promise<Call> {
  const given = input instanceof Request ? input : undefined;
  const text = given?.url ?? String(input);
  const url = URL.canParse(text, base) ? new URL(text, base) : undefined;
  wants(url?.origin === base.origin, `calls go to ${base.origin} alone`);
  const stream = init.body instanceof ReadableStream ? (init.body as ReadableStream<Uint8Array>) : undefined;
  // The platform's own reading of methods, headers and bodies.
  const { body: _, ...bodyless } = init;
  let request: Request;
  try {
    request = new Request(given ?? url, stream === undefined ? init : bodyless);
  } catch (cause) {
    throw new SealwayError("usage", "not a request that fetch accepts", { stage: "configuration", cause });
  }
  const headers = [...request.headers].filter(([name]) => mayBeInner(name));
  const body = stream ?? owned(new Uint8Array(await request.arrayBuffer()));
  const signal = init.signal ?? given?.signal;
  return {
    url,
    method: request.method,
    target: targetOf(url),
    headers,
    body,
    signal: signal ?? undefined,
    credentials: init.credentials ?? given?.credentials,
    showRedirects: request.redirect === "manual",
    endsAt,
  };
}
