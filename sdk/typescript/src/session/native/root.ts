/** The word of a root on a service's keys (`spec/session-3.md`, Identity keys; `spec/one-shot.md`, The key document). */
import type { Provider } from "../../crypto/provider.js";
import { type Bytes, concat, utf8 } from "../../wire/bytes.js";
import { SealwayError } from "../../wire/error.js";
import { fields } from "../../wire/fields.js";
import { algorithmOf, isAccepted, verify } from "./algorithm.js";
import { type KeySet, keyIdOf, type SetKey } from "./key-set.js";

/**
 * Checks that `root` signed a set.
 *
 * @param accepted the algorithms to which the client is restricted.
 * @param label names the wire and what is signed.
 * @param encode gives the fields of a key.
 * @throws {SealwayError} `key_untrusted`, `signature_invalid`.
 */
export async function checkSet<K>(
  provider: Provider,
  set: KeySet<K>,
  root: Uint8Array,
  accepted: readonly string[] | undefined,
  label: string,
  encode: (key: K) => Bytes,
): Promise<void> {
  const isTrusted = isAccepted(algorithmOf(root), accepted, true);
  if (!isTrusted || set.rootKeyId !== (await keyIdOf(provider, root)) || set.rootSignature === undefined) {
    throw new SealwayError("key_untrusted", "the key set is not signed by the pinned root");
  }
  const hash = await provider.sha256(fields(set.issuedMs, set.expiresMs, fields(...set.keys.map(encode))));
  if (!(await verify(provider, root, concat(utf8(label), hash), set.rootSignature))) {
    throw new SealwayError("signature_invalid", "the key set is not signed by the pinned root");
  }
}

/**
 * Checks that `root` signed a set of identity keys.
 *
 * @throws {SealwayError} as {@link checkSet} does.
 */
export function checkKeySet(
  provider: Provider,
  set: KeySet,
  root: Uint8Array,
  accepted: readonly string[] | undefined,
): Promise<void> {
  return checkSet(provider, set, root, accepted, "sealway/3 keys", (key) =>
    fields(key.keyId, key.publicKey, key.notBeforeMs, key.notAfterMs),
  );
}

/**
 * Checks that a set that a root signed is to be taken now, and by a client that took one of `takenMs` before. Nothing may be
 * waited for between this and the taking.
 *
 * @throws {SealwayError} `key_untrusted`.
 */
export function checkKeySetTimes(set: KeySet<unknown>, nowMs: number, takenMs = 0): void {
  if (nowMs >= set.expiresMs || set.issuedMs < takenMs) {
    throw new SealwayError("key_untrusted", "the key set is over, or older than another");
  }
}

/**
 * The key of a set that may have signed an answer which says `serverTimeMs`. The thief of a key that is over says an earlier
 * time: for every end the client's own clock counts too, and when the set was issued.
 */
export function liveKey(set: KeySet, keyId: string, serverTimeMs: number, nowMs: number): Bytes | undefined {
  const latestMs = Math.max(serverTimeMs, nowMs, set.issuedMs);
  const isLive = ({ notBeforeMs, notAfterMs }: SetKey) =>
    notBeforeMs <= serverTimeMs && latestMs < Math.min(notAfterMs, set.expiresMs);
  return set.keys.find((key) => key.keyId === keyId && isLive(key))?.publicKey;
}
