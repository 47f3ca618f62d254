/** Bodies of answers. */

import { ByteQueue } from "../wire/byte-queue.js";
import type { Bytes } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";

/** The body of a handler's answer. */
export type AnswerBody = Uint8Array | AsyncIterable<Uint8Array> | undefined;

/**
 * All of a body, up to a bound in bytes.
 *
 * @throws {SealwayError} `body_too_large`, and what the body throws.
 */
export async function collect(body: AnswerBody, lengthMax: number): Promise<Bytes> {
  const all = new ByteQueue();
  for await (const part of body instanceof Uint8Array ? [body] : (body ?? [])) {
    if (all.length + part.length > lengthMax)
      throw new SealwayError("body_too_large", "the body is over its bound");
    all.push(part);
  }
  return all.take(all.length);
}
