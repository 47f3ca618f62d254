/** Bodies of answers. */
import type { Bytes } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import { Gathered } from "../wire/gathered.js";

/** The body of a handler's answer. */
export type Answering = Uint8Array | AsyncIterable<Uint8Array> | undefined;

/**
 * All of a body, up to a bound in bytes.
 *
 * @throws {SealwayError} `body_too_large`, and what the body throws.
 */
export async function collect(body: Answering, lengthMax: number): Promise<Bytes> {
  const all = new Gathered();
  for await (const part of body instanceof Uint8Array ? [body] : (body ?? [])) {
    if (all.length + part.length > lengthMax)
      throw new SealwayError("body_too_large", "the body is over its bound");
    all.push(part);
  }
  return all.take(all.length);
}
