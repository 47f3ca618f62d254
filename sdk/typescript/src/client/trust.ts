/** Which identity keys a client takes for a service's own (`spec/session-3.md`, Identity keys). */
import type { Provider } from "../crypto/provider.js";
import { type KeySet, keyIdOf, parseKeySet } from "../session/three/key-set.js";
import { type InitAnswer, KEY_ID } from "../session/three/message.js";
import { checkKeySet, checkKeySetTimes } from "../session/three/root.js";
import { fromBase64, toBase64 } from "../wire/base64.js";
import { type Bytes, utf8 } from "../wire/bytes.js";
import { type Problem, SealwayError } from "../wire/error.js";
import { wallMs } from "./clock.js";
import type { MetKeys, Trust, TrustStore } from "./options.js";

const KEYS_MAX = 16;

/** Where a service publishes its key set. */
export const KEY_SET_PATH = "/.well-known/sealway-keys";

/** Keeps what is learnt in memory, as long as the program runs. */
export function memoryTrustStore(): TrustStore {
  const met = new Map<string, MetKeys>();
  return {
    load: (origin) => met.get(origin),
    save: (origin, keys) => {
      met.set(origin, keys);
    },
  };
}

/** Keeps what is learnt in a `Storage` of the browser, such as `localStorage`. */
export function storageTrustStore(
  storage: Pick<Storage, "getItem" | "setItem">,
  prefix = "sealway:",
): TrustStore {
  return {
    load: (origin) => {
      const text = storage.getItem(prefix + origin);
      return text === null ? undefined : (JSON.parse(text) as MetKeys);
    },
    save: (origin, keys) => storage.setItem(prefix + origin, JSON.stringify(keys)),
  };
}

function untrusted(keyId: string): SealwayError {
  return new SealwayError("key_untrusted", `the identity key ${keyId} is not trusted`);
}

/** The keys that a client trusts for one service. */
export class Keyring {
  readonly #provider: Provider;
  readonly #trust: Trust;
  readonly #origin: string;
  readonly #keys = new Map<string, Bytes>();
  readonly #published = new Map<string, Bytes>();
  readonly #pins = new Set<string>();
  #root: Bytes | undefined;
  /** The root's id, and when the newest set was issued that it signed. */
  #taken: { keyId: string; issuedMs?: number } = { keyId: "" };
  /** When that set is over, by the wall clock. */
  #expiresMs = 0;
  #isMet = false;

  private constructor(provider: Provider, trust: Trust, origin: string) {
    this.#provider = provider;
    this.#trust = trust;
    this.#origin = origin;
  }

  /**
   * Reads what is pinned, or was met before.
   *
   * @throws {SealwayError} `configuration`.
   */
  static async of(provider: Provider, trust: Trust, origin: string): Promise<Keyring> {
    const ring = new Keyring(provider, trust, origin);
    if ("root" in trust) {
      ring.#root = await publicKey(provider, trust.root);
      const keyId = await keyIdOf(provider, ring.#root);
      const kept = (await trust.store?.load(origin))?.root;
      ring.#taken = kept?.keyId === keyId ? { ...kept } : { keyId };
    } else if ("pins" in trust) {
      if (trust.pins.length > KEYS_MAX) throw wrong(`more than ${KEYS_MAX} keys are pinned`);
      for (const pin of trust.pins) ring.#pins.add(await ring.#pin(pin));
    } else {
      const met = await trust.firstUse.load(origin);
      for (const { keyId, publicKey: text } of met?.keys ?? []) {
        const id = await ring.#pin(text);
        if (id !== keyId) throw wrong(`what was kept of ${origin} is damaged`);
      }
      ring.#isMet = ring.#keys.size > 0;
    }
    return ring;
  }

  async #pin(text: string): Promise<string> {
    if (KEY_ID.test(text)) return text;
    const key = await publicKey(this.#provider, text);
    const id = await keyIdOf(this.#provider, key);
    this.#keys.set(id, key);
    return id;
  }

  /** What is sent as `pinned_key_ids`. */
  pinned(): string[] {
    if ("root" in this.#trust) return [];
    return "pins" in this.#trust ? [...this.#pins] : [...this.#keys.keys()];
  }

  /**
   * The key with this id, if it is trusted; asks for the key set where that is needed.
   *
   * @throws {SealwayError} `key_untrusted`, `signature_invalid`, `field_invalid`.
   */
  async key(keyId: string, fetchSet: () => Promise<Bytes>): Promise<Bytes> {
    const known = this.#isStale() ? undefined : this.#keys.get(keyId);
    if (known !== undefined) return known;
    const canBeLearnt =
      this.#root !== undefined || this.#pins.has(keyId) || (this.#isByUse() && !this.#isMet);
    if (!canBeLearnt) throw untrusted(keyId);
    await this.#take(await parseKeySet(this.#provider, await fetchSet()));
    const found = this.known(keyId);
    if (found === undefined) throw untrusted(keyId);
    return found;
  }

  /** The key with this id, if it is known already. */
  known(keyId: string): Bytes | undefined {
    if (this.#isStale()) return undefined;
    // At first use there is nothing to trust yet but the signature with this very key.
    return (
      this.#keys.get(keyId) ?? (this.#isByUse() && !this.#isMet ? this.#published.get(keyId) : undefined)
    );
  }

  /** Whether what the root signed is over, or not there yet: then none of its keys is trusted. */
  #isStale(): boolean {
    return this.#root !== undefined && wallMs() >= this.#expiresMs;
  }

  #isByUse(): boolean {
    return "firstUse" in this.#trust;
  }

  async #take(set: KeySet): Promise<void> {
    if (this.#root !== undefined) {
      await checkKeySet(this.#provider, set, this.#root);
      checkKeySetTimes(set, wallMs(), this.#taken.issuedMs);
      const { issuedMs, expiresMs } = set;
      this.#keys.clear();
      for (const key of set.keys) this.#keys.set(key.keyId, key.publicKey);
      this.#expiresMs = expiresMs;
      if (issuedMs === this.#taken.issuedMs) return;
      this.#taken.issuedMs = issuedMs;
      const root = { keyId: this.#taken.keyId, issuedMs };
      if ("root" in this.#trust) await this.#trust.store?.save(this.#origin, { keys: [], root });
      return;
    }
    for (const key of set.keys) {
      if (this.#pins.has(key.keyId)) this.#keys.set(key.keyId, key.publicKey);
      if (this.#isByUse()) this.#published.set(key.keyId, key.publicKey);
    }
  }

  /**
   * What a `key_retired` is good for: a root's word on new keys is taken, and the init can begin anew.
   *
   * @throws {SealwayError} `key_retired` where keys are pinned or kept, with the ids that the service names.
   */
  async retired(problem: Problem): Promise<void> {
    const said = problem["key_set"];
    const set =
      typeof said === "object" && said !== null
        ? await parseKeySet(this.#provider, utf8(JSON.stringify(said)))
        : undefined;
    if (this.#root !== undefined && set !== undefined) return this.#take(set);
    const ids = set?.keys.map((key) => key.keyId).join(", ") || "none";
    const message = `no pinned identity key is live; the service names: ${ids}`;
    throw new SealwayError("key_retired", message, { status: 409, problem });
  }

  /** Keeps what an authenticated answer says of the service's keys, where trust comes from the first use. */
  async remember(answer: InitAnswer, fetchSet: () => Promise<Bytes>): Promise<void> {
    if (!("firstUse" in this.#trust)) return;
    const named = [answer.keyId, ...answer.keyIds];
    if (named.some((id) => !this.#keys.has(id) && !this.#published.has(id))) {
      const set = await fetchSet().then((body) => parseKeySet(this.#provider, body));
      await this.#take(set);
    }
    const kept = new Map<string, Bytes>();
    for (const id of [...named, ...this.#keys.keys()]) {
      const key = this.#keys.get(id) ?? this.#published.get(id);
      if (key !== undefined && kept.size < KEYS_MAX) kept.set(id, key);
    }
    const isNew = !this.#isMet || [...kept.keys()].some((id) => !this.#keys.has(id));
    this.#isMet = true;
    for (const [id, key] of kept) this.#keys.set(id, key);
    if (!isNew) return;
    const keys = [...kept].map(([keyId, key]) => ({ keyId, publicKey: toBase64(key) }));
    await this.#trust.firstUse.save(this.#origin, { keys });
  }
}

function wrong(what: string): SealwayError {
  return new SealwayError("configuration", what, { blame: "caller" });
}

async function publicKey(provider: Provider, text: string): Promise<Bytes> {
  const key = fromBase64(text.trim());
  if (key === undefined || !(await provider.isPoint(key))) {
    throw wrong("a pin is no key id and no public key in base64");
  }
  return key;
}
