/** The client's side of wires 1 and 2 (`spec/session.md`, Init, Answer). Nothing here proves who the service is. */
import type { AeadKey, AgreementKey, Provider } from "../../crypto/provider.js";
import { fromBase64, toBase64 } from "../../wire/base64.js";
import { type Bytes, hex, utf8, wipe } from "../../wire/bytes.js";
import { X_CLIENT_ID, X_NONCE, X_TIMESTAMP } from "../../wire/compat-headers.js";
import { SealwayError } from "../../wire/error.js";
import {
  checkAnswerNonce,
  idOf,
  isClientId,
  isSessionId,
  KID_PREFIX,
  parseStamp,
  splitIdempotencyKey,
} from "../../wire/forms.js";
import { type HeaderList, required, X_IDEMPOTENCY_KEY, X_KID } from "../../wire/headers.js";
import { isWhole, membersOf, parseJson } from "../../wire/json.js";
import { checkWindow } from "../../wire/window.js";
import { keyInfo, sessionKey } from "./keys.js";
import { aad1, aad2, open1, open2, parseDetached, type SealedMessage, seal1, seal2 } from "./message.js";

const U32 = 2 ** 32 - 1;

/** A session of wire 1 or 2, as its client has it. */
export interface CompatClientSession {
  readonly wire: 1 | 2;
  readonly id: string;
  readonly clientId: string;
  readonly expiresInSec: number;
  /** Milliseconds of the epoch, by the client's clock. */
  readonly expiresMs: number;
  readonly key: AeadKey;
}

/** An init that was begun. */
export class CompatInit {
  readonly #wire: 1 | 2;
  readonly #isAnonymous: boolean;
  readonly #clientId: string;
  readonly #key: AgreementKey;
  readonly headers: [string, string][];
  readonly body: Bytes;

  /**
   * `key` is a new one of P-256, `nonce` 16 random bytes. Wire 1 has no client id.
   *
   * @throws {SealwayError} `header_invalid` for a client id that is none.
   */
  constructor(
    wire: 1 | 2,
    isAnonymous: boolean,
    clientId: string,
    ttlSec: number | undefined,
    key: AgreementKey,
    nonce: Uint8Array,
    nowMs: number,
  ) {
    if (wire === 2 && !isClientId(clientId)) {
      throw new SealwayError("header_invalid", "the client id is not of its form");
    }
    this.#wire = wire;
    this.#isAnonymous = isAnonymous;
    this.#clientId = clientId;
    this.#key = key;
    const clientPublicKey = toBase64(key.publicKey);
    const agreement = wire === 1 ? { keyAgreement: "ECDH_P256" } : {};
    this.body = utf8(JSON.stringify({ clientPublicKey, ...agreement, ttlSec }));
    this.headers =
      wire === 1
        ? [
            [X_NONCE, hex(nonce)],
            [X_TIMESTAMP, String(nowMs)],
          ]
        : [
            [X_IDEMPOTENCY_KEY, `${nowMs}.${hex(nonce)}`],
            [X_CLIENT_ID, clientId],
          ];
  }

  /**
   * Takes the answer.
   *
   * @throws {SealwayError} `json_invalid`, `field_invalid`, `public_key_invalid`.
   */
  async finish(provider: Provider, answer: Uint8Array, nowMs: number): Promise<CompatClientSession> {
    const { sessionId, serverPublicKey, encAlg, expiresInSec } = membersOf(parseJson(answer)) ?? {};
    if (typeof sessionId !== "string" || !isSessionId(sessionId)) throw fault("sessionId");
    if (typeof serverPublicKey !== "string") throw fault("serverPublicKey");
    if (encAlg !== "A256GCM" && encAlg !== "aes-256-gcm") throw fault("encAlg");
    if (!isWhole(expiresInSec, U32)) throw fault("expiresInSec");
    const peer = fromBase64(serverPublicKey);
    const secret = peer && (await this.#key.agree(peer));
    if (secret === undefined) {
      throw new SealwayError("public_key_invalid", "the server's key is no point of P-256");
    }
    const info = keyInfo(this.#wire, this.#isAnonymous, this.#clientId);
    const bytes = await sessionKey(provider, secret, sessionId, info);
    const key = await provider.aeadKey(bytes);
    wipe(bytes);
    const expiresMs = nowMs + expiresInSec * 1000;
    return { wire: this.#wire, id: sessionId, clientId: this.#clientId, expiresInSec, expiresMs, key };
  }
}

function fault(field: string): SealwayError {
  return new SealwayError("field_invalid", `the member ${field} of the answer is not of its form`, { field });
}

/** Seals a request of `POST`. `path` has no query; `iv` are 12 random bytes. */
export async function sealCompatRequest(
  session: CompatClientSession,
  path: string,
  plaintext: Uint8Array,
  stamp: string,
  nonce: string,
  iv: Uint8Array,
): Promise<SealedMessage> {
  const kid = KID_PREFIX + session.id;
  if (session.wire === 1) return seal1(session.key, "POST", path, stamp, nonce, kid, iv, plaintext);
  const sealed = await seal2(session.key, stamp, nonce, kid, session.clientId, iv, plaintext);
  sealed.headers.push([X_CLIENT_ID, session.clientId]);
  return sealed;
}

/**
 * Opens an answer to a request of `path`.
 *
 * @throws {SealwayError} the codes that `spec/session.md` has under Answer.
 */
export async function openCompatAnswer(
  session: CompatClientSession,
  path: string,
  status: number,
  headers: HeaderList,
  body: Uint8Array,
  nowMs: number,
  windowMs: number,
): Promise<Bytes> {
  const kid = required(headers, X_KID);
  if (idOf(kid) !== session.id) {
    throw new SealwayError("answer_mismatch", "the answer is of another session");
  }
  let stamp: string;
  let nonce: string;
  let plaintext: Bytes;
  if (session.wire === 1) {
    [nonce, stamp] = [required(headers, X_NONCE), required(headers, X_TIMESTAMP)];
    const detached = parseDetached(headers);
    plaintext = await open1(session.key, detached, aad1(String(status), path, stamp, nonce, kid), body);
  } else {
    [stamp, nonce] = splitIdempotencyKey(required(headers, X_IDEMPOTENCY_KEY));
    plaintext = await open2(session.key, aad2(stamp, nonce, kid, session.clientId), body);
  }
  checkAnswerNonce(nonce, 1);
  checkWindow(parseStamp(stamp), nowMs, windowMs);
  return plaintext;
}
