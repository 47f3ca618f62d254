/** All keys that come of one agreement (`spec/session-3.md`, Init). */
import { expand, expandKey, extract } from "../../crypto/hkdf.js";
import type { MacKey, Provider } from "../../crypto/provider.js";
import { type Bytes, concat, wipe } from "../../wire/bytes.js";

/** The keys of a session; none of them is readable but for a renewal's exporter. */
export class SessionKeys {
  readonly #prk: MacKey;
  /** Of requests. */
  readonly c2s: MacKey;
  /** Of answers. */
  readonly s2c: MacKey;

  private constructor(prk: MacKey, c2s: MacKey, s2c: MacKey) {
    this.#prk = prk;
    this.c2s = c2s;
    this.s2c = s2c;
  }

  /** From `prk`, 32 bytes, which is not wiped here. */
  static async of(provider: Provider, prk: Uint8Array): Promise<SessionKeys> {
    const key = await provider.macKey(prk);
    const [c2s, s2c] = await Promise.all([
      expandKey(provider, key, "sealway/3 c2s"),
      expandKey(provider, key, "sealway/3 s2c"),
    ]);
    return new SessionKeys(key, c2s, s2c);
  }

  /** Returns the secret that a renewal mixes in. The caller wipes it. */
  exporter(): Promise<Bytes> {
    return expand(this.#prk, "sealway/3 exporter");
  }

  /** The mac that confirms a transcript's hash. */
  async confirm(provider: Provider, th: Uint8Array): Promise<Bytes> {
    return (await expandKey(provider, this.#prk, "sealway/3 confirm")).mac(th);
  }
}

/** The key that all others come of, from a transcript's hash and the agreed secret, both of which are left as they are. */
export async function schedule(
  provider: Provider,
  th: Uint8Array,
  secret: Uint8Array,
  priorExporter?: Uint8Array,
): Promise<Bytes> {
  if (priorExporter === undefined) return extract(provider, th, secret);
  const ikm = concat(priorExporter, secret);
  const prk = await extract(provider, th, ikm);
  wipe(ikm);
  return prk;
}
