/** The answer of a handler, sealed as it comes. */
import { nodeProvider } from "../crypto/node.js";
import { Rejection } from "../exchange/rejection.js";
import type { Reply, SealedStream } from "../exchange/reply.js";
import { SealwayError } from "../wire/error.js";
import type { HeaderList } from "../wire/headers.js";
import { type AnswerBody, collect } from "./body.js";
import type { Cut } from "./cut.js";
import type { GateAnswer } from "./gate.js";
import { answerHeaders } from "./headers.js";
import type { Reader } from "./open.js";
import type { ServerSettings } from "./options.js";

/** A request that is being answered. */
interface Call {
  readonly settings: ServerSettings;
  readonly reply: Reply;
  readonly reader: Reader;
  readonly cut: Cut;
  /** Reports a refusal, and gives its answer. */
  readonly refuse: (rejection: Rejection) => GateAnswer;
}

/** Seals an answer, and ends the call with it; what is refused after all is answered instead. */
export async function seal(
  call: Call,
  status: number,
  headers: HeaderList,
  body: AnswerBody,
): Promise<GateAnswer> {
  let isStream = false;
  try {
    // A handler saw a part of a request that did not open: whatever it made of that is nobody's answer.
    const over = call.reader.fault ?? (await call.cut.ended());
    if (over !== undefined) throw over;
    const answer = await sealed(call, status, headers, body);
    isStream = answer.body !== undefined && !(answer.body instanceof Uint8Array);
    return answer;
  } catch (error) {
    if (!(error instanceof SealwayError)) throw error;
    return call.refuse(Rejection.of(error));
  } finally {
    // A stream may be of what the request still brings.
    if (!isStream) end(call);
  }
}

async function sealed(
  call: Call,
  status: number,
  headers: HeaderList,
  body: AnswerBody,
): Promise<GateAnswer> {
  const seal = call.reply.answer(status);
  if (seal.kind === "plain") return seal.answer;
  const { answerMaxBytes, now } = call.settings;
  const { inner, outer } = answerHeaders(headers);
  const randoms = { nonce: nodeProvider.random(16), iv: nodeProvider.random(12) };
  if (seal.kind === "whole") {
    const plaintext = await collect(body, answerMaxBytes).catch(unsealable);
    const message = await seal.seal(plaintext, now(), randoms);
    const type: [string, string] = ["Content-Type", message.contentType];
    return { status: seal.status, headers: [...message.headers, type, ...outer], body: message.body };
  }
  const stream = await seal.begin(inner, now(), randoms).catch(unsealable);
  const out = [...stream.headers, ...outer];
  if (stream.isBodyless)
    return { status, headers: [...out, await stream.inHeader().catch(unsealable)], body: undefined };
  const isWhole = body === undefined || body instanceof Uint8Array;
  const frames = isWhole ? await stream.whole(body ?? new Uint8Array()) : framesOf(call, stream, body);
  return { status, headers: out, body: frames };
}

/** The frames of an answer: one ends where a part does. One that breaks off, or whose session ends, has no last frame. */
async function* framesOf(
  call: Call,
  stream: SealedStream,
  parts: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const nothing = new Uint8Array();
  const iterator = parts[Symbol.asyncIterator]();
  try {
    yield* stream.seal(nothing, false);
    for (;;) {
      const { done, value } = await call.cut.guard(iterator.next());
      if (done) break;
      yield* stream.seal(value, false);
    }
    yield* stream.seal(nothing, true);
  } finally {
    end(call);
    // Not waited for: a source that is in the middle of a part may never end it.
    iterator.return?.().catch(() => undefined);
  }
}

function unsealable(error: unknown): never {
  throw new Rejection("upstream_unreachable", "the handler's answer cannot be sealed", error);
}

function end({ cut, reader }: Call): void {
  cut.finish();
  reader.release();
}
