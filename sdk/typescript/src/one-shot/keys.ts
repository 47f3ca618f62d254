/** Public keys of a service that a one-shot client uses (`spec/one-shot.md`, The key document). */
import { wallMs } from "../client/clock.js";
import { publicKey, Root } from "../client/trust.js";
import type { Provider } from "../crypto/provider.js";
import { keyIdOf } from "../session/native/key-set.js";
import { keyNameOf } from "../session/one-shot/config.js";
import {
  checkKeyDocument,
  type DocumentKey,
  type KeyDocument,
  keyInUse,
  parseKeyDocument,
  type UsableKey,
} from "../session/one-shot/document.js";
import { type Bytes, utf8 } from "../wire/bytes.js";
import { type Problem, SealwayError } from "../wire/error.js";
import { membersOf } from "../wire/json.js";
import { withKids } from "./error.js";
import type { OneShotSettings } from "./options.js";

/** Path at which a service publishes its key document. */
export const DOCUMENT_PATH = "/.well-known/sealway-hpke-keys";

const kidsOf = (document: KeyDocument): string[] => document.keys.map(({ keyId }) => `hpke:${keyId}`);

/** Keys that a `key_retired` gives in place of the retired one. */
export interface Replacement {
  /** Kids that its document names. */
  readonly kids: readonly string[];
  /** True if a root is pinned and the document was accepted. */
  readonly isTaken: boolean;
  /** Error for which it was rejected. */
  readonly cause?: unknown;
}

/** The keys of one service. */
export class ServiceKeys {
  readonly #provider: Provider;
  readonly #settings: OneShotSettings;
  readonly #root: Root<DocumentKey> | undefined;
  /** Pinned keys, or those of the document whose kids are pinned. */
  #pinned: readonly DocumentKey[] = [];
  #fetching: Promise<UsableKey> | undefined;

  private constructor(provider: Provider, settings: OneShotSettings, root: Root<DocumentKey> | undefined) {
    this.#provider = provider;
    this.#settings = settings;
    this.#root = root;
  }

  /**
   * Reads what is pinned.
   *
   * @throws {SealwayError} `usage`.
   */
  static async of(provider: Provider, settings: OneShotSettings): Promise<ServiceKeys> {
    const { pin, origin, signatureAlgorithms: accepted } = settings;
    if ("root" in pin) {
      const key = await publicKey(provider, pin.root, accepted, "pin.root");
      const check = (document: KeyDocument) => checkKeyDocument(provider, document, key, accepted);
      const place = new URL(DOCUMENT_PATH, origin).href;
      const root = new Root(await keyIdOf(provider, key), check, place, pin.store);
      return new ServiceKeys(provider, settings, root);
    }
    const keys = new ServiceKeys(provider, settings, undefined);
    if ("configs" in pin) {
      keys.#pinned = await Promise.all(
        pin.configs.map(async (config) => ({
          ...config,
          keyId: await keyNameOf(provider, config),
          notBeforeMs: 0,
          useUntilMs: Infinity,
          notAfterMs: Infinity,
        })),
      );
    }
    return keys;
  }

  /**
   * The key to seal to. The document is fetched where no key is in use, once for all who wait.
   *
   * @throws {SealwayError} `key_untrusted`, also if there is none then; `signature_invalid`, `field_invalid`, `json_invalid`,
   * `body_too_large`.
   */
  async current(fetchDocument: () => Promise<Bytes>): Promise<UsableKey> {
    const inUse = this.#inUse();
    if (inUse !== undefined) return inUse;
    this.#fetching ??= this.#fetch(fetchDocument).finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  /** The key in use, of what is pinned or was taken. */
  #inUse(): UsableKey | undefined {
    const nowMs = wallMs();
    const set = this.#root?.set;
    const keys = set && nowMs < set.expiresMs ? set.keys : this.#pinned;
    return keyInUse(keys, this.#settings.kems, nowMs);
  }

  async #fetch(fetchDocument: () => Promise<Bytes>): Promise<UsableKey> {
    const document = await parseKeyDocument(this.#provider, await fetchDocument());
    try {
      await this.#take(document);
    } catch (error) {
      // A newer document may have come with a problem meanwhile.
      if (this.#inUse() === undefined) throw error;
    }
    const inUse = this.#inUse();
    if (inUse !== undefined) return inUse;
    const what = `no key of ${this.#settings.origin.host} that this client takes is in use`;
    throw new SealwayError("key_untrusted", withKids(what, kidsOf(document)));
  }

  async #take(document: KeyDocument): Promise<void> {
    const { pin } = this.#settings;
    if (this.#root !== undefined) await this.#root.take(document);
    else if ("kids" in pin)
      this.#pinned = document.keys.filter(({ keyId }) => pin.kids.includes(`hpke:${keyId}`));
  }

  /** Takes the document of a `key_retired` if a pinned root signed it. Pinned kids are looked up anew at the next call. */
  async retired(problem: Problem): Promise<Replacement> {
    if ("kids" in this.#settings.pin) this.#pinned = [];
    const said = membersOf(problem["key_document"]);
    if (said === undefined) return { kids: [], isTaken: false };
    try {
      const document = await parseKeyDocument(this.#provider, utf8(JSON.stringify(said)));
      await this.#root?.take(document);
      return { kids: kidsOf(document), isTaken: this.#root !== undefined };
    } catch (cause) {
      return { kids: [], isTaken: false, cause };
    }
  }
}
