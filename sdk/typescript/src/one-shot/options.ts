/** Options of a one-shot client. */
import {
  type ClientOptions,
  checked,
  isStore,
  type Rule,
  type TrustStore,
  URL_RULE,
} from "../client/options.js";
import { type KeyConfig, KID, parseConfig } from "../session/one-shot/config.js";
import { isKem, KEMS, type Kem, type Psk } from "../session/one-shot/hpke.js";
import { fromBase64 } from "../wire/base64.js";
import { wants } from "../wire/error.js";
import type { Fetch, Url } from "../wire/platform.js";

/**
 * How a client knows the service's key (`spec/one-shot.md`, The key document): 1 to 16 key configurations in base64, of which it
 * uses the first whose KEM it takes; 1 to 16 kids of keys that the service publishes; or the `root` that signs the key document, a
 * public key in base64. `store` rejects older documents after a restart too, by the document's URL.
 */
export type Pin = string | readonly string[] | { readonly root: string; readonly store?: TrustStore };

export interface OneShotOptions
  extends Pick<
    ClientOptions,
    "signatureAlgorithms" | "onMetrics" | "fetch" | "headTimeoutMs" | "idleTimeoutMs" | "totalTimeoutMs"
  > {
  /** URL of the service, `https://host[:port]`: requests go there, and relative URLs resolve against it. */
  readonly origin: string;
  readonly pin: Pin;
  /**
   * Who the client is: the public name of a pre-shared key, 1 to 64 visible ASCII characters, and its 32 bytes, or these in base64.
   * Default: nobody in particular.
   */
  readonly psk?: { readonly id: string; readonly key: Uint8Array | string };
  /** Accepted KEMs; the service's order counts. Default: all of {@link KEMS}. */
  readonly kems?: readonly Kem[];
}

/** Checked options. */
export interface OneShotSettings extends Required<Pick<OneShotOptions, "headTimeoutMs" | "idleTimeoutMs">> {
  readonly origin: Url;
  readonly pin:
    | { readonly configs: readonly KeyConfig[] }
    | { readonly kids: readonly string[] }
    | { readonly root: string; readonly store?: TrustStore };
  readonly psk: Psk | undefined;
  readonly kems: readonly Kem[];
  readonly totalTimeoutMs: number;
  readonly onMetrics?: NonNullable<ClientOptions["onMetrics"]>;
  readonly signatureAlgorithms?: NonNullable<ClientOptions["signatureAlgorithms"]>;
  readonly fetch: Fetch;
}

const PINS_MAX = 16;
const PSK_LEN = 32;
const PSK_ID = /^[\x21-\x7e]{1,64}$/;

const isRoot = (pin: any): boolean =>
  typeof pin?.root === "string" && (pin.store === undefined || isStore(pin.store));
const isList = (pin: any): boolean =>
  Array.isArray(pin) &&
  pin.length > 0 &&
  pin.length <= PINS_MAX &&
  pin.every((each) => typeof each === "string");

/** The 32 bytes of a PSK; none if they are not as many. */
function pskKey(key: unknown): Uint8Array | undefined {
  const bytes = typeof key === "string" ? fromBase64(key.trim()) : key;
  return bytes instanceof Uint8Array && bytes.length === PSK_LEN ? bytes.slice() : undefined;
}

const RULES: Readonly<Record<string, Rule>> = {
  origin: URL_RULE,
  pin: [
    `1 to ${PINS_MAX} key configurations in base64, 1 to ${PINS_MAX} kids, or { root, store? }`,
    (pin) => typeof pin === "string" || isList(pin) || isRoot(pin),
  ],
  psk: [
    "{ id, key }: an id of 1 to 64 visible ASCII characters, a key of 32 bytes",
    (psk) => psk === undefined || (PSK_ID.test(psk?.id) && typeof psk.id === "string" && pskKey(psk.key)),
  ],
  kems: [`of ${KEMS}`, (kems) => Array.isArray(kems) && kems[0] && kems.every(isKem)],
};

/**
 * Checks the options of a one-shot client.
 *
 * @throws {SealwayError} `usage`, with the option's name.
 */
export function settingsOf(options: OneShotOptions): OneShotSettings {
  const { origin, pin, psk, kems, ...more } = checked(options, { kems: KEMS }, RULES);
  return {
    ...more,
    origin: new URL(origin),
    pin: pinOf(pin, kems),
    psk: psk && { id: psk.id, key: pskKey(psk.key) },
    kems: [...kems],
  };
}

/** Sorts what is pinned. */
function pinOf(pin: Pin, kems: readonly Kem[]): OneShotSettings["pin"] {
  if (typeof pin === "object" && "root" in pin) return pin;
  const texts = [pin].flat().map((each) => each.trim());
  if (texts.some((text) => KID.test(text))) {
    wants(
      texts.every((text) => KID.test(text)),
      "pin: key configurations, or kids; not both",
    );
    return { kids: texts };
  }
  const configs = texts.map((text) => {
    const bytes = fromBase64(text);
    const config = bytes && parseConfig(bytes);
    wants(config, "pin: not a kid, and not a key configuration in base64");
    return config;
  });
  wants(
    configs.some(({ kem }) => kem && kems.includes(kem)),
    "pin, kems: no pinned key is of a KEM that this client takes",
  );
  return { configs };
}
