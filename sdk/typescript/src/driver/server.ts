/** The server's operations of the driver. */
import * as crypto from "node:crypto";
import { nodeProvider as provider } from "../crypto/node.js";
import { Exchange } from "../exchange/exchange.js";
import type { Reply } from "../exchange/reply.js";
import type { Piece } from "../exchange/stream.js";
import { acceptCompatInit, type Family, parseCompatInit } from "../session/compat/server-init.js";
import { keyIdOf } from "../session/native/key-set.js";
import { SessionKeys } from "../session/native/keys.js";
import { acceptInit, admitInit, type Sign } from "../session/native/server-init.js";
import { drawServerShareKeys, PARTS } from "../session/native/suite.js";
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
  const identities = [{ keyId, algorithm: "ES256" as const, notBeforeMs: 0, notAfterMs: nowMs + 1 }];
  return { served: { suites: texts(line, "suites"), identities }, sign };
}

async function agree(line: Line, old?: Session) {
  const nowMs = whole(line, "now_ms");
  const { served, sign } = await identity(line);
  const init = admitInit(bytes(line, "body_hex"), served, nowMs);
  if (old !== undefined && init.request.clientId !== old.client_id) {
    throw new SealwayError("policy", "a renewal is for the session's own client id");
  }
  const keys = await drawServerShareKeys(provider, PARTS[init.suite], init.request.share);
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
  const init = await parseCompatInit(provider, family, headers, bytes(line, "body_hex"), nowMs, WINDOW_MS);
  const isAuthenticated = (firstOf(headers, "Authorization") ?? "") !== "";
  const key = await provider.p256();
  const agreed = await acceptCompatInit(provider, init, isAuthenticated, key, provider.random(16), nowMs);
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
  const request = { method: text(line, "method"), target: text(line, "target") };
  const { id, wire, client_id, expires_ms: expiresMs } = session;
  const record = { id, wire, clientId: client_id ?? undefined, expiresMs, key: keyOf(session) };
  const exchange = Exchange.begin(request, headers, nowMs, { wires: [1, 2, 3], windowMs: WINDOW_MS });
  const { opening, stream } = await exchange.session(provider, record);
  const [first, ...others] = await stream.all(body);
  const opened = await opening.open(first as Piece);
  const claim = await opened.readmit(record, nowMs);
  const { inner, first: beginning, reply } = await opened.release("fresh", nowMs);
  const plaintext = concat(beginning, ...others.map((piece) => piece.bytes));
  return { call: reply, headers: inner ?? [], body_hex: hex(plaintext), claim_hex: hex(claim.key) };
}

/** `server.seal`. */
export async function serverSeal(reply: Reply, line: Line) {
  const [status, nowMs, body] = [whole(line, "status"), whole(line, "now_ms"), bytes(line, "body_hex")];
  const randoms = { nonce: provider.random(16), iv: provider.random(12) };
  const seal = reply.answer(status);
  if (seal.kind === "plain") throw new Fault("an answer of this status is not sealed");
  if (seal.kind === "whole") {
    const { headers, contentType, body: sealed } = await seal.seal(body, nowMs, randoms);
    return { status, headers: [...headers, ["Content-Type", contentType]], body_hex: hex(sealed) };
  }
  const stream = await seal.begin(headersOf(line), nowMs, randoms);
  if (!stream.isBodyless) return { status, headers: stream.headers, body_hex: hex(await stream.whole(body)) };
  return { status, headers: [...stream.headers, await stream.inHeader()], body_hex: "" };
}
