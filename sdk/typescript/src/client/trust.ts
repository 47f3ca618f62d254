/** Identity keys that a client accepts (`spec/session-3.md`, Identity keys). */

import type { Provider } from "../crypto/provider.js";
import { algorithmOf, isAccepted, isPublicKey } from "../session/native/algorithm.js";
import { type KeySet, keyIdOf, parseKeySet, type SetKey } from "../session/native/key-set.js";
import { type InitAnswer, KEY_ID } from "../session/native/message.js";
import { checkKeySet, checkKeySetTimes, liveKey } from "../session/native/root.js";
import { fromBase64, toBase64 } from "../wire/base64.js";
import { type Bytes, utf8 } from "../wire/bytes.js";
import { type Problem, SealwayError, wants } from "../wire/error.js";
import { membersOf } from "../wire/json.js";
import type { KeyValues } from "../wire/platform.js";
import { wallMs } from "./clock.js";
import type { KnownKeys, Trust, TrustStore } from "./options.js";

const KEYS_MAX = 16;

/** Path at which a service publishes its key set. */
export const KEY_SET_PATH = "/.well-known/sealway-keys";

/** Makes a store in memory, which lives as long as the program. */
export function memoryTrustStore(): TrustStore {
  const met = new Map<string, KnownKeys>();
  return {
    load: (origin) => met.get(origin),
    save: (origin, keys) => {
      met.set(origin, keys);
    },
  };
}

/** Makes a store over a `Storage` of the browser, such as `localStorage`. */
export function storageTrustStore(storage: KeyValues, prefix = "sealway:"): TrustStore {
  wants(storage?.getItem, "storage: a Storage");
  return {
    load: (origin) => {
      const text = storage.getItem(prefix + origin);
      return text === null ? undefined : (JSON.parse(text) as KnownKeys);
    },
    save: (origin, keys) => storage.setItem(prefix + origin, JSON.stringify(keys)),
  };
}

/** A pinned root, and the newest set of keys that it signed. */
export class Root<K = SetKey> {
  readonly #keyId: string;
  readonly #check: (set: KeySet<K>) => Promise<void>;
  readonly #place: string;
  readonly #store: TrustStore | undefined;
  #issuedMs: number | undefined;
  /** That set, once one was taken. */
  set: KeySet<K> | undefined;

  /**
   * `check` verifies the root's signature; `place` is where `store` keeps when the newest set was issued, so that an older one is
   * rejected after a restart too.
   */
  constructor(
    keyId: string,
    check: (set: KeySet<K>) => Promise<void>,
    place: string,
    store: TrustStore | undefined,
  ) {
    this.#keyId = keyId;
    this.#check = check;
    this.#place = place;
    this.#store = store;
  }

  /**
   * Takes a set.
   *
   * @throws {SealwayError} `key_untrusted`, `signature_invalid`.
   */
  async take(set: KeySet<K>): Promise<void> {
    await this.#check(set);
    // Another client of the same store may have taken a newer one since.
    const kept = (await this.#store?.load(this.#place))?.root;
    if (kept?.keyId === this.#keyId) this.#issuedMs = Math.max(kept.issuedMs, this.#issuedMs ?? 0);
    checkKeySetTimes(set, wallMs(), this.#issuedMs);
    const { issuedMs } = set;
    this.set = set;
    if (issuedMs === this.#issuedMs) return;
    this.#issuedMs = issuedMs;
    await this.#store?.save(this.#place, { keys: [], root: { keyId: this.#keyId, issuedMs } });
  }
}

/** Trust of any kind; a root counts before pins, and these before the first use. */
interface AnyTrust {
  readonly root?: string;
  readonly store?: TrustStore;
  readonly pins?: readonly string[];
  readonly firstUse?: TrustStore;
}

/** The keys that a client trusts for one service. */
export class Keyring {
  readonly #provider: Provider;
  readonly #trust: AnyTrust;
  readonly #origin: string;
  readonly #accepted: readonly string[] | undefined;
  readonly #keys = new Map<string, Bytes>();
  readonly #published = new Map<string, Bytes>();
  readonly #pins = new Set<string>();
  #root: Root | undefined;

  private constructor(provider: Provider, trust: Trust, origin: string, accepted?: readonly string[]) {
    this.#provider = provider;
    this.#trust = trust;
    this.#origin = origin;
    this.#accepted = accepted;
  }

  /**
   * Reads what is pinned, or was met before. `accepted` are the algorithms to which the client is restricted.
   *
   * @throws {SealwayError} `configuration`.
   */
  static async of(
    provider: Provider,
    trust: Trust,
    origin: string,
    accepted?: readonly string[],
  ): Promise<Keyring> {
    const ring = new Keyring(provider, trust, origin, accepted);
    const { root, pins, firstUse, store } = ring.#trust;
    if (root !== undefined) {
      const key = await publicKey(provider, root, accepted);
      const check = (set: KeySet) => checkKeySet(provider, set, key, accepted);
      ring.#root = new Root(await keyIdOf(provider, key), check, origin, store);
    } else if (pins) {
      wants(pins.length > 0 && pins.length <= KEYS_MAX, `trust.pins: 1 to ${KEYS_MAX} keys`);
      for (const pin of pins) ring.#pins.add(await ring.#pin(pin, accepted));
    } else {
      const met = await firstUse?.load(origin);
      for (const { keyId, publicKey: text } of met?.keys ?? []) {
        const id = await ring.#pin(text);
        wants(id === keyId, `what was kept of ${origin} is damaged`);
      }
      const kept = [...ring.#keys.values()].map(algorithmOf);
      wants(
        kept.length === 0 || kept.some((algorithm) => isAccepted(algorithm, accepted, true)),
        `trust.firstUse: what was kept of ${origin} is of ${kept}, and none of it is of signatureAlgorithms`,
      );
    }
    return ring;
  }

  async #pin(text: string, accepted?: readonly string[]): Promise<string> {
    if (KEY_ID.test(text)) return text;
    const key = await publicKey(this.#provider, text, accepted);
    const id = await keyIdOf(this.#provider, key);
    this.#keys.set(id, key);
    return id;
  }

  /** Returns the value of `pinned_key_ids`. */
  pinned(): string[] {
    if (this.#root) return [];
    return [...(this.#trust.pins ? this.#pins : this.#keys.keys())];
  }

  /**
   * The key with this id, if it is trusted to have signed at `serverTimeMs`, which its answer says; asks for the key set where
   * that is needed.
   *
   * @throws {SealwayError} `key_untrusted`, `signature_invalid`, `field_invalid`.
   */
  async key(keyId: string, serverTimeMs: number, fetchSet: () => Promise<Bytes>): Promise<Bytes> {
    const known = this.#known(keyId, serverTimeMs);
    if (known !== undefined) return known;
    const isFirst = this.#trust.firstUse && !this.#keys.size;
    if (this.#root || this.#pins.has(keyId) || isFirst)
      await this.#take(await parseKeySet(this.#provider, await fetchSet()));
    // At first use there is nothing to trust yet but the signature with this very key.
    const met = isFirst ? this.#published.get(keyId) : undefined;
    const found = this.#known(keyId, serverTimeMs) ?? met;
    if (found !== undefined) return found;
    throw this.#untrusted(keyId);
  }

  #untrusted(keyId: string): SealwayError {
    const what = `the identity key ${keyId} of ${this.#origin} is not trusted: an impostor?`;
    return new SealwayError("key_untrusted", what);
  }

  #known(keyId: string, serverTimeMs: number): Bytes | undefined {
    if (this.#root === undefined) return this.#keys.get(keyId);
    const { set } = this.#root;
    return set && liveKey(set, keyId, serverTimeMs, wallMs());
  }

  async #take(set: KeySet): Promise<void> {
    if (this.#root !== undefined) return this.#root.take(set);
    for (const key of set.keys) {
      if (this.#pins.has(key.keyId)) this.#keys.set(key.keyId, key.publicKey);
      if (this.#trust.firstUse) this.#published.set(key.keyId, key.publicKey);
    }
  }

  /**
   * Takes the key set of a `key_retired` that the root signed, so that the init can begin anew.
   *
   * @throws {SealwayError} `key_retired` where keys are pinned or kept, with the ids that the service names.
   */
  async retired(problem: Problem): Promise<void> {
    const said = membersOf(problem["key_set"]);
    const set = said && (await parseKeySet(this.#provider, utf8(JSON.stringify(said))));
    if (this.#root !== undefined && set !== undefined) return this.#take(set);
    const ids = set?.keys.map((key) => key.keyId).join(", ") || "none";
    const message = `no pinned identity key is live; the service names: ${ids}`;
    throw new SealwayError("key_retired", message, { status: 409, problem });
  }

  /** Keeps the keys of an authenticated answer, if trust comes from the first use. */
  async remember(answer: InitAnswer, fetchSet: () => Promise<Bytes>): Promise<void> {
    const { firstUse } = this.#trust;
    if (!firstUse) return;
    const named = [answer.keyId, ...answer.keyIds];
    if (named.some((id) => !this.#keys.has(id) && !this.#published.has(id))) {
      const set = await fetchSet().catch((error: unknown) => {
        // The session holds, and the next one asks again.
        if (this.#keys.has(answer.keyId)) return undefined;
        throw error;
      });
      if (set !== undefined) await this.#take(await parseKeySet(this.#provider, set));
    }
    const kept = new Map<string, Bytes>();
    for (const id of [...named, ...this.#keys.keys()]) {
      const key = this.#keys.get(id) ?? this.#published.get(id);
      const isKept = key && (this.#keys.has(id) || isAccepted(algorithmOf(key), this.#accepted, false));
      // A store with a key off the curve could not be read again.
      if (isKept && kept.size < KEYS_MAX && (await isPublicKey(this.#provider, key))) kept.set(id, key);
    }
    const isNew = [...kept.keys()].some((id) => !this.#keys.has(id));
    // Another client of the same store, such as a page's in another tab, may have met the service since.
    const met = isNew ? (await firstUse.load(this.#origin))?.keys : [];
    if (met?.length && !met.some((key) => key.keyId === answer.keyId)) throw this.#untrusted(answer.keyId);
    for (const [id, key] of kept) this.#keys.set(id, key);
    if (!isNew) return;
    const keys = [...kept].map(([keyId, key]) => ({ keyId, publicKey: toBase64(key) }));
    await firstUse.save(this.#origin, { keys });
  }
}

/** Reads a public key in base64, of one of the `accepted` algorithms if there are such; `option` names where it stands. */
export async function publicKey(
  provider: Provider,
  text: string,
  accepted: readonly string[] | undefined,
  option = "trust.pins (or a key id), trust.root",
): Promise<Bytes> {
  const key = fromBase64(String(text).trim());
  wants(key && (await isPublicKey(provider, key)), `${option}: a public key in base64`);
  const algorithm = algorithmOf(key);
  wants(isAccepted(algorithm, accepted, true), `${option}: ${algorithm} is not of signatureAlgorithms`);
  return key;
}
