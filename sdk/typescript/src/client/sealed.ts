/** One sealed request over HTTP and its answer, of wires 3 and 4. */
import type { Provider } from "../crypto/provider.js";
import { CONTENT_TYPE, type Seal } from "../session/native/call.js";
import {
  beginAnswer,
  beginRequest,
  isHeaderRequest,
  type PendingCall,
} from "../session/native/client-call.js";
import { decodeInner, encodeInner } from "../session/native/inner.js";
import { isSafe } from "../session/native/problem.js";
import { sealAll } from "../session/native/stream.js";
import { toBase64 } from "../wire/base64.js";
import { type Bytes, concat } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import { PROBLEM_LEN_MAX, SET_LEN_MAX } from "../wire/forms.js";
import { firstOf, type HeaderList, X_SEAL, X_SEALED } from "../wire/headers.js";
import { bodyOf, OpenFlow, sealFlow } from "./flow.js";
import type { Measure } from "./measure.js";
import { notOurs, type ResponseHead } from "./refusal.js";
import type { Call } from "./request.js";
import type { Pace, Transport } from "./transport.js";

/** An answer that was opened up to its first frame. */
export interface PlainResponse extends ResponseHead {
  readonly headers: [string, string][];
  /** True of a problem that the server has sealed (wire 4 alone). */
  readonly isProblem: boolean;
  readonly first: Uint8Array;
  readonly flow: OpenFlow;
  readonly done: () => void;
}

/** Makes the error of an answer in plain. */
export type RefusalOf = (pending: PendingCall, answered: ResponseHead, body: Bytes) => Promise<SealwayError>;

/** Fetches what a service publishes about its keys, at most 64 KiB. It is part of an agreement: its measurement is not reported. */
export async function fetchKeys(transport: Transport, base: URL, path: string): Promise<Bytes> {
  const measure = transport.measure("init", "GET", path);
  const received = await transport.send(new URL(path, base), { method: "GET", headers: [] }, measure);
  const body = await received.whole(SET_LEN_MAX);
  const { status } = received;
  if (status === 200) return body;
  throw new SealwayError("key_untrusted", `${path}: ${notOurs(received)}`, { status });
}

/** Seals a request, sends it, and opens the answer up to its first frame. */
export async function exchange(
  provider: Provider,
  transport: Transport,
  seal: Seal,
  stampMs: number,
  call: Call,
  measure: Measure,
  refused: RefusalOf,
): Promise<PlainResponse> {
  const sealed = await measure.step("seal", () => sealCall(provider, seal, stampMs, call)).catch(unsealable);
  measure.requestBytes = sealed.length;
  const { headers, body, pace } = sealed;
  const received = await transport.send(call.url, { ...call, headers, body, pace }, measure);
  const done = () => {
    measure.responseBytes ||= received.received;
    measure.done();
  };
  if (firstOf(received.headers, X_SEAL) === undefined) {
    const body = await received.whole(PROBLEM_LEN_MAX).catch((error) => {
      if (error instanceof SealwayError && error.code === "body_too_large") return new Uint8Array();
      throw error;
    });
    done();
    throw await refused(sealed.pending, received, body);
  }
  try {
    const { headers, status, host } = received;
    const { opener, stream, isProblem } = await beginAnswer(provider, sealed.pending, status, headers);
    measure.responseBytes = stream?.length ?? 0;
    const flow = new OpenFlow(received, opener, stream);
    // Most of this waits for the network; what a frame costs beside is small.
    const frame = await measure.step("open", () => flow.next());
    const inner = decodeInner(frame ?? new Uint8Array());
    return { host, status, headers: inner.headers, isProblem, first: inner.body, flow, done };
  } catch (error) {
    received.stop();
    throw error;
  }
}

async function sealCall(
  provider: Provider,
  seal: Seal,
  stampMs: number,
  call: Call,
): Promise<{
  headers: HeaderList;
  body: Call["body"] | undefined;
  pending: PendingCall;
  length: number;
  pace?: Pace;
}> {
  const inner = encodeInner(call.headers);
  const whole = call.body instanceof ReadableStream ? undefined : call.body;
  const inHeader = whole !== undefined && isHeaderRequest(seal, call.method, whole.length, inner.length);
  // `fetch` takes no body with these.
  if (!inHeader && isSafe(call.method)) {
    throw new SealwayError("inner_headers_invalid", "too long for a request without body");
  }
  const { headers, sealer, pending } = await beginRequest(
    provider,
    seal,
    { method: call.method, target: call.target },
    inHeader ? undefined : CONTENT_TYPE,
    stampMs,
    provider.random(16),
  );
  if (whole === undefined) {
    const pace: Pace = {};
    const body = sealFlow(call.body as ReadableStream<Uint8Array>, sealer, inner, pace);
    return { headers, body, pending, length: 0, pace };
  }
  const stream = await sealAll(sealer, concat(inner, whole));
  const { length } = stream;
  if (!inHeader) return { headers, body: stream, pending, length };
  return { headers: [...headers, [X_SEALED, toBase64(stream)]], body: undefined, pending, length };
}

/** Marks an error of sealing: nothing was sent. */
function unsealable(error: unknown): never {
  if (error instanceof SealwayError) error.stage = "configuration";
  throw error;
}

/**
 * Makes a call with what `get` gives, a session or a key; one that no server can have served is sent again, once for each code. Of a
 * body that flows a part is gone: it is not.
 */
export async function sendCall<T>(
  call: Call,
  get: () => Promise<T>,
  once: (got: T) => Promise<PlainResponse>,
): Promise<Response> {
  const heard = new Set<string | undefined>();
  for (;;) {
    const got = await get();
    try {
      return answerOf(await once(got), call);
    } catch (error) {
      const { code, retryable } = error as Partial<SealwayError>;
      if (!retryable || heard.has(code) || call.body instanceof ReadableStream) throw error;
      heard.add(code);
    }
  }
}

/** The answer as `fetch` gives one. */
function answerOf(opened: PlainResponse, call: Call): Response {
  const { status, headers, first, flow, done } = opened;
  const isNull = [101, 204, 205, 304].includes(status) || call.method === "HEAD";
  if (isNull) {
    done();
    flow.stop();
  }
  const body = isNull ? null : bodyOf(flow, first, done);
  const response = new Response(body, { status, headers });
  Object.defineProperty(response, "url", { value: call.url.href });
  return response;
}
