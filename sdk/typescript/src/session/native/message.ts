/** The two messages of an init of wire 3, and the transcript over both (`spec/session-3.md`, Init). */
import { toBase64 } from "../../wire/base64.js";
import { type Bytes, concat, utf8 } from "../../wire/bytes.js";
import { SealwayError } from "../../wire/error.js";
import { fields } from "../../wire/fields.js";
import { INIT_LEN_MAX, SIGNATURE_LEN_MAX } from "../../wire/forms.js";
import { bytesOf, namesOf, Reader, shortText, textOf, wholeUpTo } from "../../wire/reader.js";
import { ALGORITHM_NAME } from "./algorithm.js";

const SUITE_NAME = /^[A-Za-z0-9_-]{1,32}$/;
const SESSION_ID = /^S-[0-9a-f]{32}$/;
const CLIENT_ID = /^[\x20-\x7b\x7d\x7e]{1,256}$/;
const AUTH = /^(?:none|bearer|dpop|certificate)$/;
const U32 = 2 ** 32 - 1;
const PROOF_LEN_MAX = 8192;
const SUBJECT_LEN_MAX = 256;
const KEYS_MAX = 16;

/** 32 lower-case hexadecimal digits. */
export const KEY_ID = /^[0-9a-f]{32}$/;

/** Authentication of a client at its init. */
export type Auth = "none" | "bearer" | "dpop" | "certificate";

/** The request of an init. */
export interface InitRequest {
  readonly suite: string;
  readonly suites: readonly string[];
  readonly share: Bytes;
  readonly clientId: string;
  readonly ttlSec?: number | undefined;
  readonly proof?: string | undefined;
  readonly pinnedKeyIds: readonly string[];
  /** Algorithms of identity keys that the client accepts; absent of a client without a restriction. */
  readonly signatureAlgorithms?: readonly string[] | undefined;
}

/** The answer to an init, without signature and confirmation. */
export interface InitAnswer {
  readonly sessionId: string;
  readonly suite: string;
  readonly suites: readonly string[];
  readonly share: Bytes;
  readonly expiresInSec: number;
  readonly serverTimeMs: number;
  readonly keyId: string;
  readonly keyIds: readonly string[];
  readonly auth: Auth;
  readonly subject?: string | undefined;
  readonly tenant?: string | undefined;
}

/** An answer as it came. */
export interface SignedAnswer {
  readonly answer: InitAnswer;
  readonly signature: Bytes;
  readonly confirm: Bytes;
}

/** The body of an init. */
export function encodeInitRequest(request: InitRequest): Bytes {
  return utf8(
    JSON.stringify({
      suite: request.suite,
      suites: request.suites,
      share: toBase64(request.share),
      client_id: request.clientId,
      ttl_sec: request.ttlSec,
      proof: request.proof,
      pinned_key_ids: request.pinnedKeyIds.length > 0 ? request.pinnedKeyIds : undefined,
      signature_algorithms: request.signatureAlgorithms,
    }),
  );
}

/**
 * Reads the body of an init, as a server.
 *
 * @throws {SealwayError} `body_too_large`, `json_invalid`, `field_invalid` with the member at fault.
 */
export function parseInitRequest(body: Uint8Array): InitRequest {
  if (body.length > INIT_LEN_MAX)
    throw new SealwayError("body_too_large", "the body of an init is too large");
  const reader = Reader.of(body, "field_invalid");
  return {
    suite: reader.required("suite", textOf(SUITE_NAME)),
    suites: reader.required("suites", namesOf(SUITE_NAME, 1, 8)),
    share: reader.required("share", bytesOf()),
    clientId: reader.required("client_id", textOf(CLIENT_ID)),
    ttlSec: reader.optional("ttl_sec", wholeUpTo(U32)),
    proof: reader.optional("proof", shortText(PROOF_LEN_MAX)),
    pinnedKeyIds: reader.optional("pinned_key_ids", namesOf(KEY_ID, 0, KEYS_MAX)) ?? [],
    signatureAlgorithms: reader.optional("signature_algorithms", namesOf(ALGORITHM_NAME, 1, 8)),
  };
}

/** The body of an init's answer. */
export function encodeInitAnswer({ answer, signature, confirm }: SignedAnswer): Bytes {
  return utf8(
    JSON.stringify({
      session_id: answer.sessionId,
      suite: answer.suite,
      suites: answer.suites,
      share: toBase64(answer.share),
      expires_in_sec: answer.expiresInSec,
      server_time_ms: answer.serverTimeMs,
      key_id: answer.keyId,
      key_ids: answer.keyIds,
      auth: answer.auth,
      subject: answer.subject,
      tenant: answer.tenant,
      signature: toBase64(signature),
      confirm: toBase64(confirm),
    }),
  );
}

/**
 * Reads an init's answer, as a client.
 *
 * @throws {SealwayError} `answer_mismatch`.
 */
export function parseInitAnswer(status: number, body: Uint8Array): SignedAnswer {
  if (status !== 201) throw new SealwayError("answer_mismatch", "the status is not an init's", { status });
  const reader = Reader.of(body, "answer_mismatch");
  const answer: InitAnswer = {
    sessionId: reader.required("session_id", textOf(SESSION_ID)),
    suite: reader.required("suite", textOf(SUITE_NAME)),
    suites: reader.required("suites", namesOf(SUITE_NAME, 1, 8)),
    share: reader.required("share", bytesOf()),
    expiresInSec: reader.required("expires_in_sec", wholeUpTo(U32)),
    // Beyond this a number of JSON is not read exactly.
    serverTimeMs: reader.required("server_time_ms", wholeUpTo(Number.MAX_SAFE_INTEGER)),
    keyId: reader.required("key_id", textOf(KEY_ID)),
    keyIds: reader.required("key_ids", namesOf(KEY_ID, 1, KEYS_MAX)),
    auth: reader.required("auth", textOf(AUTH)) as Auth,
    subject: reader.optional("subject", shortText(SUBJECT_LEN_MAX)),
    tenant: reader.optional("tenant", shortText(SUBJECT_LEN_MAX)),
  };
  return {
    answer,
    signature: reader.required("signature", bytesOf(SIGNATURE_LEN_MAX)),
    confirm: reader.required("confirm", bytesOf(32, 32)),
  };
}

/** Without a restriction there are no bytes at all, as in versions that knew none. */
const algorithms = ({ signatureAlgorithms: names }: InitRequest) => (names ? [fields(...names)] : []);

/**
 * The transcript. `credential` is empty or the SHA-256 of `Authorization`; `renewed` the id of the session that a renewal
 * is about.
 */
export function transcript(
  request: InitRequest,
  credential: Uint8Array,
  answer: InitAnswer,
  renewed: string | undefined,
): Bytes {
  return fields(
    ...(renewed === undefined ? ["sealway/3 init"] : ["sealway/3 renew", renewed]),
    request.suite,
    fields(...request.suites),
    request.share,
    request.clientId,
    request.ttlSec,
    request.proof,
    fields(...request.pinnedKeyIds),
    ...algorithms(request),
    credential,
    answer.sessionId,
    answer.suite,
    fields(...answer.suites),
    answer.share,
    answer.expiresInSec,
    answer.serverTimeMs,
    answer.keyId,
    fields(...answer.keyIds),
    answer.auth,
    answer.subject,
    answer.tenant,
  );
}

/** Encodes the input of `init_hash`, the claim of a DPoP proof: its SHA-256 in base64url. */
export function initHashInput(request: InitRequest): Bytes {
  const { suites, suite, share, clientId, ttlSec, pinnedKeyIds } = request;
  const pins = fields(...pinnedKeyIds);
  return fields(fields(...suites), suite, share, clientId, ttlSec, pins, ...algorithms(request));
}

/** Encodes the message that an identity key signs, from the hash of the transcript. */
export function signedMessage(th: Uint8Array): Bytes {
  return concat(utf8("sealway/3 signature"), th);
}
