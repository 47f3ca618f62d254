/** The server's operations of the driver. */
import * as crypto from "node:crypto";
import { nodeProvider as provider } from "../crypto/node.js";
import {
  checkOldSession,
  type OldRequest,
  type OldServerSession,
  openOldRequest,
  parseOldRequest,
  sealOldAnswer,
} from "../session/old/server.js";
import { acceptOldInit, type Family, parseOldInit } from "../session/old/server-init.js";
import { keyIdOf } from "../session/three/key-set.js";
import { SessionKeys } from "../session/three/keys.js";
import { openRequest, type PendingAnswer, sealAnswer } from "../session/three/server-call.js";
import { acceptInit, admitInit, type Sign } from "../session/three/server-init.js";
import { drawServerShareKeys } from "../session/three/suite.js";
import { fromBase64, toBase64 } from "../wire/base64.js";
import { type Bytes, concat, hex } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import { WINDOW_MS } from "../wire/forms.js";
import { firstOf, X_KID } from "../wire/headers.js";
import { fromHex } from "../wire/hex.js";
import { bytes, Fault, headersOf, type Line, text, texts, whole } from "./message.js";

const FAMILIES: Readonly<Record<string, Family>> = {
  "/session/init": "session",
  "/session/init/anon": "anonymous",
  "/v1/session/init": "v1",
};
const PKCS8 = fromHex("3041020100301306072a8648ce3d020106082a8648ce3d030107042730250201010420") as Bytes;

/** A session as the authority's endpoints have it. */
interface Session {
  readonly id: string;
  readonly wire: number;
  readonly client_id: string | null;
  readonly subject: string | null;
  readonly created_ms: number;
  readonly expires_ms: number;
  readonly key: string;
  readonly tenant: string | null;
  readonly auth: string;
}

/** A request that was opened, whose answer is to be sealed. */
export type OpenCall =
  | { readonly wire: 3; readonly pending: PendingAnswer }
  | { readonly wire: 1 | 2; readonly request: OldRequest; readonly session: OldServerSession };

function sessionOf(line: Line): Session {
  const session = line["session"];
  if (typeof session !== "object" || session === null) throw new Fault("session is no object");
  return session as Session;
}

function keyOf(session: Session): Bytes {
  const key = fromBase64(session.key);
  if (key === undefined) throw new Fault("session.key is no base64");
  return key;
}

async function identity(line: Line) {
  const scalar = bytes(line, "identity_hex");
  const { publicKey } = await provider.p256(scalar);
  const keyId = await keyIdOf(provider, publicKey);
  const der = Buffer.from(concat(PKCS8, scalar));
  const key = crypto.createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  const sign: Sign = async (_, message) =>
    Uint8Array.from(crypto.sign("sha256", message, { key, dsaEncoding: "ieee-p1363" }));
  const nowMs = whole(line, "now_ms");
  const identities = [{ keyId, notBeforeMs: 0, notAfterMs: nowMs + 1 }];
  return { served: { suites: texts(line, "suites"), identities }, sign };
}

async function agree(line: Line, old?: Session) {
  const nowMs = whole(line, "now_ms");
  const { served, sign } = await identity(line);
  const init = admitInit(bytes(line, "body_hex"), served, nowMs);
  if (old !== undefined && init.request.clientId !== old.client_id) {
    throw new SealwayError("policy", "a renewal is for the session's own client id");
  }
  const keys = await drawServerShareKeys(provider, init.suite, init.request.share);
  const expiresInSec = Math.min(3600, Math.max(300, init.request.ttlSec ?? 1800));
  const decided = {
    sessionIdRandom: provider.random(16),
    expiresInSec,
    auth: (old?.auth ?? "none") as "none",
    subject: old?.subject ?? undefined,
    tenant: old?.tenant ?? undefined,
    nowMs,
    authorization: old === undefined ? firstOf(headersOf(line), "Authorization") : undefined,
    old: old && { id: old.id, keys: await SessionKeys.of(provider, keyOf(old)) },
  };
  const agreed = await acceptInit(provider, init, served, keys, decided, sign);
  const session: Session = {
    id: agreed.id,
    wire: 3,
    client_id: init.request.clientId,
    subject: old?.subject ?? null,
    created_ms: old?.created_ms ?? nowMs,
    expires_ms: nowMs + expiresInSec * 1000,
    key: toBase64(agreed.prk),
    tenant: old?.tenant ?? null,
    auth: old?.auth ?? "none",
  };
  return { status: 201, body_hex: hex(agreed.body), session };
}

/** `server.init`. */
export async function serverInit(line: Line) {
  const path = text(line, "path");
  const json: [string, string] = ["Content-Type", "application/json"];
  if (path === "/v3/sessions") return { ...(await agree(line)), headers: [json] };
  const family = FAMILIES[path];
  if (family === undefined) throw new Fault("no init has this path");
  const [headers, nowMs] = [headersOf(line), whole(line, "now_ms")];
  const init = await parseOldInit(provider, family, headers, bytes(line, "body_hex"), nowMs, WINDOW_MS);
  const isAuthenticated = (firstOf(headers, "Authorization") ?? "") !== "";
  const key = await provider.p256();
  const agreed = await acceptOldInit(provider, init, isAuthenticated, key, provider.random(16), nowMs);
  const session: Session = {
    id: agreed.id,
    wire: agreed.wire,
    client_id: agreed.clientId ?? null,
    subject: null,
    created_ms: agreed.createdMs,
    expires_ms: agreed.expiresMs,
    key: toBase64(agreed.key),
    tenant: null,
    auth: "none",
  };
  const kid: [string, string][] = family === "v1" ? [[X_KID, agreed.id]] : [];
  return { status: 200, headers: [json, ...kid], body_hex: hex(agreed.body), session };
}

/** `server.renew`. */
export function serverRenew(line: Line) {
  return agree(line, sessionOf(line));
}

/** `server.open`. */
export async function serverOpen(line: Line) {
  const session = sessionOf(line);
  const [headers, body, nowMs] = [headersOf(line), bytes(line, "body_hex"), whole(line, "now_ms")];
  const target = text(line, "target");
  const { id, wire, expires_ms: expiresMs } = session;
  if (firstOf(headers, "X-Seal") !== undefined) {
    const request = { method: text(line, "method"), target };
    const keys = await SessionKeys.of(provider, keyOf(session));
    const server = { id, wire, expiresMs, keys };
    const opened = await openRequest(provider, server, request, headers, body, nowMs, WINDOW_MS);
    const call: OpenCall = { wire: 3, pending: opened.pending };
    const out = { headers: opened.headers, body_hex: hex(concat(...opened.frames)) };
    return { call, ...out, claim_hex: hex(opened.claim.key) };
  }
  const path = target.split("?", 1)[0] ?? "";
  const request = parseOldRequest(headers, path, nowMs, WINDOW_MS);
  const clientId = session.client_id ?? undefined;
  const key = await provider.aeadKey(keyOf(session));
  const server: OldServerSession = { id, wire, expiresMs, clientId, key };
  checkOldSession(request, server, nowMs);
  const { plaintext, claim } = await openOldRequest(provider, request, server, body, nowMs, WINDOW_MS);
  const call: OpenCall = { wire: request.wire, request, session: server };
  return { call, headers: [], body_hex: hex(plaintext), claim_hex: hex(claim.key) };
}

/** `server.seal`. */
export async function serverSeal(call: OpenCall, line: Line) {
  const [status, nowMs, body] = [whole(line, "status"), whole(line, "now_ms"), bytes(line, "body_hex")];
  const nonce = provider.random(16);
  if (call.wire === 3) {
    const sealed = await sealAnswer(provider, call.pending, status, headersOf(line), body, nowMs, nonce);
    return { status, headers: sealed.headers, body_hex: hex(sealed.body ?? new Uint8Array()) };
  }
  const iv = provider.random(12);
  const sealed = await sealOldAnswer(call.request, call.session, status, body, nowMs, nonce, iv);
  return {
    status,
    headers: [...sealed.headers, ["Content-Type", sealed.contentType]],
    body_hex: hex(sealed.body),
  };
}
