/** Keys of a service and the set of them that a root signs (`spec/session-3.md`, Identity keys). */
import type { Provider } from "../../crypto/provider.js";
import { type Bytes, hex } from "../../wire/bytes.js";
import { SealwayError } from "../../wire/error.js";
import { SET_LEN_MAX, SIGNATURE_LEN_MAX } from "../../wire/forms.js";
import { membersOf } from "../../wire/json.js";
import { bytesOf, fault, Reader, textOf, wholeUpTo } from "../../wire/reader.js";
import { ALGORITHM_NAME, algorithmOf, isAlgorithm } from "./algorithm.js";
import { KEY_ID } from "./message.js";

const KEYS_MAX = 16;
/** A time in milliseconds of the epoch, of 15 digits at most. */
export const wholeMs = wholeUpTo(1e15 - 1);

/** A key of a set. */
export interface SetKey {
  readonly keyId: string;
  /** Names the algorithm by its length; of an algorithm that this SDK does not know it is never trusted. */
  readonly publicKey: Bytes;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** A set as it came: of its form, its keys' ids their own, and nothing else proven. */
export interface KeySet<K = SetKey> {
  readonly issuedMs: number;
  readonly expiresMs: number;
  readonly keys: readonly K[];
  readonly rootKeyId?: string | undefined;
  readonly rootSignature?: Bytes | undefined;
}

/** The id of an identity key: the first 16 bytes of the SHA-256 of its public key. */
export async function keyIdOf(provider: Provider, publicKey: Uint8Array): Promise<string> {
  return hex((await provider.sha256(publicKey)).subarray(0, 16));
}

/**
 * Reads a set of keys that `parse` reads each.
 *
 * @throws {SealwayError} `body_too_large`, `json_invalid`, `field_invalid`.
 */
export async function parseSet<K extends { readonly keyId: string }>(
  body: Uint8Array,
  parse: (reader: Reader) => K | Promise<K>,
): Promise<KeySet<K>> {
  if (body.length > SET_LEN_MAX) throw new SealwayError("body_too_large", "the keys are over 64 KiB");
  const reader = Reader.of(body, "field_invalid");
  const issuedMs = reader.required("issued_ms", wholeMs);
  const expiresMs = reader.required("expires_ms", wholeMs);
  const listed = reader.required("keys", (value) =>
    Array.isArray(value) && value.length <= KEYS_MAX ? value : undefined,
  );
  const keys = await Promise.all(
    listed.map((each) => parse(new Reader(membersOf(each) ?? {}, "field_invalid"))),
  ).catch(() => {
    throw malformed("keys");
  });
  if (new Set(keys.map(({ keyId }) => keyId)).size < keys.length) throw malformed("keys");
  const rootKeyId = reader.optional("root_key_id", textOf(KEY_ID));
  const rootSignature = reader.optional("root_signature", bytesOf(SIGNATURE_LEN_MAX));
  if (!rootKeyId !== !rootSignature) throw malformed("root_key_id");
  return { issuedMs, expiresMs, keys, rootKeyId, rootSignature };
}

const malformed = (field: string) => fault("field_invalid", field);

/**
 * Reads a set of identity keys.
 *
 * @throws {SealwayError} as {@link parseSet} does.
 */
export function parseKeySet(provider: Provider, body: Uint8Array): Promise<KeySet> {
  return parseSet(body, async (reader) => {
    const alg = reader.required("alg", textOf(ALGORITHM_NAME));
    const key = {
      keyId: reader.required("key_id", textOf(KEY_ID)),
      publicKey: reader.required("public_key", bytesOf(SIGNATURE_LEN_MAX)),
      notBeforeMs: reader.required("not_before_ms", wholeMs),
      notAfterMs: reader.required("not_after_ms", wholeMs),
    };
    const algorithm = algorithmOf(key.publicKey);
    const isForm = algorithm === undefined ? !isAlgorithm(alg) : alg === algorithm;
    if (!isForm || (algorithm?.startsWith("ES") && key.publicKey[0] !== 4)) throw malformed("public_key");
    // Else a root's word for one key could be taken for its word for another.
    if (key.keyId !== (await keyIdOf(provider, key.publicKey))) throw malformed("key_id");
    return key;
  });
}
