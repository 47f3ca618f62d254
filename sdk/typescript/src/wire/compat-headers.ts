/** Headers of wires 1 and 2 alone; apart from those that a page loads. All names are in `SEALING`. */
import { firstOf, type HeaderList, X_IDEMPOTENCY_KEY } from "./headers.js";

export const X_CLIENT_ID = "X-ClientId";
export const X_NONCE = "X-Nonce";
export const X_TIMESTAMP = "X-Timestamp";
export const X_ENC_ALG = "X-Enc-Alg";
export const X_IV = "X-IV";
export const X_TAG = "X-Tag";
export const X_AAD = "X-AAD";

/** Returns 1 if `X-Nonce` is present and `X-Idempotency-Key` is not, else 2. */
export function compatWireOf(headers: HeaderList): 1 | 2 {
  const has = (name: string) => firstOf(headers, name) !== undefined;
  return has(X_NONCE) && !has(X_IDEMPOTENCY_KEY) ? 1 : 2;
}
