/** The key document of wire 4 (`spec/one-shot.md`, The key document). */
import type { Provider } from "../../crypto/provider.js";
import type { Bytes } from "../../wire/bytes.js";
import { fields } from "../../wire/fields.js";
import { bytesOf, fault } from "../../wire/reader.js";
import { type KeySet, parseSet, wholeMs } from "../native/key-set.js";
import { checkSet } from "../native/root.js";
import { type KeyConfig, keyNameOf, parseConfig } from "./config.js";
import type { Kem } from "./hpke.js";

/** A key of a document. Times are milliseconds of the epoch, each at least the one before. */
export interface DocumentKey extends KeyConfig {
  /** Key name. */
  readonly keyId: string;
  readonly notBeforeMs: number;
  /** Clients use the key up to and without this moment, servers accept it up to and without the next. */
  readonly useUntilMs: number;
  readonly notAfterMs: number;
}

export type KeyDocument = KeySet<DocumentKey>;

/**
 * Reads a key document.
 *
 * @throws {SealwayError} `body_too_large`, `json_invalid`, `field_invalid`.
 */
export function parseKeyDocument(provider: Provider, body: Uint8Array): Promise<KeyDocument> {
  return parseSet(body, async (reader) => {
    const config = reader.required("config", (value) => {
      const bytes: Bytes | undefined = bytesOf()(value);
      return bytes && parseConfig(bytes);
    });
    const notBeforeMs = reader.required("not_before_ms", wholeMs);
    const useUntilMs = reader.required("use_until_ms", wholeMs);
    const notAfterMs = reader.required("not_after_ms", wholeMs);
    if (notBeforeMs > useUntilMs || useUntilMs > notAfterMs) throw fault("field_invalid", "use_until_ms");
    return { ...config, keyId: await keyNameOf(provider, config), notBeforeMs, useUntilMs, notAfterMs };
  });
}

/**
 * Checks that `root` signed a document.
 *
 * @throws {SealwayError} `key_untrusted`, `signature_invalid`.
 */
export function checkKeyDocument(
  provider: Provider,
  document: KeyDocument,
  root: Uint8Array,
  accepted: readonly string[] | undefined,
): Promise<void> {
  return checkSet(provider, document, root, accepted, "sealway/4 keys", (key) =>
    fields(key.bytes, key.notBeforeMs, key.useUntilMs, key.notAfterMs),
  );
}

/** A key that this SDK can seal to. */
export type UsableKey = DocumentKey & { readonly kem: Kem };

/** The first key that is in use at a time, of the KEMs that a client takes. */
export function keyInUse(
  keys: readonly DocumentKey[],
  kems: readonly Kem[],
  nowMs: number,
): UsableKey | undefined {
  const isUsable = (key: DocumentKey): key is UsableKey =>
    key.kem !== undefined && kems.includes(key.kem) && key.notBeforeMs <= nowMs && nowMs < key.useUntilMs;
  return keys.find(isUsable);
}
