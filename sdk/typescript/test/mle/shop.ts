/** The key of a shop, its codec, and tokens for it. */
import {
  genericJwe,
  type IatUnit,
  type MleAlg,
  MleCodec,
  type MleEnc,
  type MleOptions,
  OpeningKey,
} from "../../src/mle/index.js";
import { forge, type Lies, makePair } from "./forge.js";

export const NOW_MS = Date.UTC(2030, 0, 1);
export const own = makePair();
export const other = makePair("/CN=other");
export const KID = "shop-2030";
export const key = new OpeningKey({ privateKey: own.privateKey, certificate: own.certificate, kid: KID });
const ALGS: MleAlg[] = ["RSA-OAEP-256", "RSA-OAEP"];
const ENCS: MleEnc[] = [
  ...(["A128GCM", "A192GCM", "A256GCM"] as const),
  ...(["A128CBC-HS256", "A192CBC-HS384", "A256CBC-HS512"] as const),
];
export const everything = (iat?: IatUnit) => genericJwe({ algs: ALGS, encs: ENCS, ...(iat && { iat }) });

export function codec(
  profile: MleOptions["profile"] = everything(),
  more: Partial<MleOptions> = {},
): MleCodec {
  return new MleCodec({ profile, open: [key], now: () => NOW_MS, ...more });
}

export const forged = (lies?: Lies) => forge(own.publicKey, KID, lies);
