/** The server's side of an init and of a renewal of wire 3 (`spec/session-3.md`, Init). */
import type { Provider } from "../../crypto/provider.js";
import { type Bytes, hex, latin1, wipe } from "../../wire/bytes.js";
import { SealwayError } from "../../wire/error.js";
import { isAccepted, type SignatureAlgorithm } from "./algorithm.js";
import { SessionKeys, schedule } from "./keys.js";
import {
  type Auth,
  encodeInitAnswer,
  type InitAnswer,
  type InitRequest,
  parseInitRequest,
  signedMessage,
  transcript,
} from "./message.js";
import { chosenSuite, isSuite, PARTS, type ServerShareKeys, type Suite, serverAgree } from "./suite.js";

/** An identity key, without its private half. */
export interface Identity {
  readonly keyId: string;
  readonly algorithm: SignatureAlgorithm;
  /** Milliseconds of the epoch; live from this one … */
  readonly notBeforeMs: number;
  /** … up to and without this one. */
  readonly notAfterMs: number;
}

/** Signs a message by the identity key of this id; both parts of a composite key sign `fields(algorithm)` and the message. */
export type Sign = (keyId: string, message: Bytes) => Promise<Bytes>;

/** Suites and identity keys of a server. */
export interface ServerConfig {
  readonly suites: readonly string[];
  readonly identities: readonly Identity[];
}

/** A request that was read and may be accepted. */
export interface AdmittedInit {
  readonly request: InitRequest;
  readonly suite: Suite;
  readonly signer: string;
  readonly keyIds: readonly string[];
}

/** Inputs of a server for a session: random bytes, decisions and the time. */
export interface InitDecision {
  /** 16 random bytes. */
  readonly sessionIdRandom: Uint8Array;
  readonly expiresInSec: number;
  readonly auth: Auth;
  readonly subject?: string | undefined;
  readonly tenant?: string | undefined;
  readonly nowMs: number;
  /** The value of `Authorization`. */
  readonly authorization?: string | undefined;
  /** Of a renewal: the session that it is about. */
  readonly old?: { readonly id: string; readonly keys: SessionKeys } | undefined;
}

/** A session that a server has agreed. `prk` is what a store keeps. */
export interface AgreedSession {
  readonly id: string;
  readonly prk: Bytes;
  readonly answer: InitAnswer;
  /** The body of the answer, whose status is 201. */
  readonly body: Bytes;
}

/**
 * Reads an init, in the order of the spec up to the share, which {@link acceptInit} looks at.
 *
 * @throws {SealwayError} `body_too_large`, `json_invalid`, `field_invalid`, `suite_required`, `key_retired`.
 */
export function admitInit(body: Uint8Array, served: ServerConfig, nowMs: number): AdmittedInit {
  const request = parseInitRequest(body);
  const suite = chosenSuite(request.suites, served.suites);
  if (suite === undefined || suite !== request.suite || !isSuite(suite)) {
    throw new SealwayError("suite_required", "the suite of the share is not the one to take");
  }
  const live = served.identities
    .filter((key) => key.notBeforeMs <= nowMs && nowMs < key.notAfterMs)
    .sort((a, b) => b.notBeforeMs - a.notBeforeMs);
  const { pinnedKeyIds: pinned, signatureAlgorithms: accepted } = request;
  const signer = live.find(
    ({ keyId, algorithm }) =>
      isAccepted(algorithm, accepted, pinned.length > 0) && (pinned.length === 0 || pinned.includes(keyId)),
  );
  if (signer === undefined) {
    throw new SealwayError("key_retired", "none of the identity keys that the client accepts is live");
  }
  return { request, suite, signer: signer.keyId, keyIds: live.map((key) => key.keyId) };
}

/**
 * Agrees a session.
 *
 * @throws {SealwayError} `public_key_invalid`.
 */
export async function acceptInit(
  provider: Provider,
  init: AdmittedInit,
  served: ServerConfig,
  keys: ServerShareKeys,
  decided: InitDecision,
  sign: Sign,
): Promise<AgreedSession> {
  const { request, suite } = init;
  const { share, secret } = await serverAgree(PARTS[suite], request.share, keys);
  const answer: InitAnswer = {
    sessionId: `S-${hex(decided.sessionIdRandom)}`,
    suite,
    suites: served.suites,
    share,
    expiresInSec: decided.expiresInSec,
    serverTimeMs: decided.nowMs,
    keyId: init.signer,
    keyIds: init.keyIds,
    auth: decided.auth,
    subject: decided.subject,
    tenant: decided.tenant,
  };
  const credential =
    decided.authorization === undefined
      ? new Uint8Array()
      : await provider.sha256(latin1(decided.authorization));
  const th = await provider.sha256(transcript(request, credential, answer, decided.old?.id));
  const exporter = await decided.old?.keys.exporter();
  const prk = await schedule(provider, th, secret, exporter);
  wipe(secret, exporter ?? new Uint8Array());
  const made = await SessionKeys.of(provider, prk);
  const [signature, confirm] = await Promise.all([
    sign(init.signer, signedMessage(th)),
    made.confirm(provider, th),
  ]);
  return { id: answer.sessionId, prk, answer, body: encodeInitAnswer({ answer, signature, confirm }) };
}
