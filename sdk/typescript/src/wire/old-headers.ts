/** Names of headers of wires 1 and 2 alone; apart from those that a page loads. All are in `SEALING`. */
export const X_CLIENT_ID = "X-ClientId";
export const X_NONCE = "X-Nonce";
export const X_TIMESTAMP = "X-Timestamp";
export const X_ENC_ALG = "X-Enc-Alg";
export const X_IV = "X-IV";
export const X_TAG = "X-Tag";
export const X_AAD = "X-AAD";
