/** Identity keys and the set of them that a root signs (`spec/session-3.md`, Identity keys). */
import type { Provider } from "../../crypto/provider.js";
import { type Bytes, hex } from "../../wire/bytes.js";
import { membersOf } from "../../wire/json.js";
import { bytesOf, fault, Reader, textOf, wholeUpTo } from "../../wire/reader.js";
import { KEY_ID } from "./message.js";

const KEYS_MAX = 16;
const wholeMs = wholeUpTo(Number.MAX_SAFE_INTEGER);

/** A key of a set. */
export interface SetKey {
  readonly keyId: string;
  /** 65 bytes. */
  readonly publicKey: Bytes;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** A set as it came: of its form, its keys' ids their own, and nothing else proven. */
export interface KeySet {
  readonly issuedMs: number;
  readonly expiresMs: number;
  readonly keys: readonly SetKey[];
  readonly rootKeyId?: string | undefined;
  readonly rootSignature?: Bytes | undefined;
}

/** The id of an identity key: the first 16 bytes of the SHA-256 of its 65. */
export async function keyIdOf(provider: Provider, publicKey: Uint8Array): Promise<string> {
  return hex((await provider.sha256(publicKey)).subarray(0, 16));
}

/**
 * Reads a set.
 *
 * @throws {SealwayError} `json_invalid`, `field_invalid`.
 */
export async function parseKeySet(provider: Provider, body: Uint8Array): Promise<KeySet> {
  const reader = Reader.of(body, "field_invalid");
  const issuedMs = reader.required("issued_ms", wholeMs);
  const expiresMs = reader.required("expires_ms", wholeMs);
  const listed = reader.required("keys", (value) =>
    Array.isArray(value) && value.length <= KEYS_MAX ? value : undefined,
  );
  const keys = listed.map(parseKey);
  const rootKeyId = reader.optional("root_key_id", textOf(KEY_ID));
  const rootSignature = reader.optional("root_signature", bytesOf());
  if (!rootKeyId !== !rootSignature) throw malformed("root_key_id");
  for (const key of keys) {
    // Else a root's word for one key could be taken for its word for another.
    const id = await keyIdOf(provider, key.publicKey);
    if (key.keyId !== id || key.publicKey[0] !== 4) throw malformed("keys");
  }
  return { issuedMs, expiresMs, keys, rootKeyId, rootSignature };
}

const malformed = (field: string) => fault("field_invalid", field);

function parseKey(value: unknown): SetKey {
  try {
    const reader = new Reader(membersOf(value) ?? {}, "field_invalid");
    reader.required("alg", textOf(/^ES256$/));
    return {
      keyId: reader.required("key_id", textOf(KEY_ID)),
      publicKey: reader.required("public_key", bytesOf(65)),
      notBeforeMs: reader.required("not_before_ms", wholeMs),
      notAfterMs: reader.required("not_after_ms", wholeMs),
    };
  } catch {
    throw malformed("keys");
  }
}
