/** Scenarios of `vectors/session`: wires 1 and 2. */
import type { Provider } from "../../src/crypto/provider.js";
import type { CompatReply } from "../../src/exchange/compat.js";
import type { SessionRecord } from "../../src/exchange/exchange.js";
import {
  type CompatClientSession,
  CompatInit,
  openCompatAnswer,
  sealCompatRequest,
} from "../../src/session/compat/client.js";
import { keyInfo } from "../../src/session/compat/keys.js";
import { aad1, aad2, type SealedMessage } from "../../src/session/compat/message.js";
import { acceptCompatInit, parseCompatInit } from "../../src/session/compat/server-init.js";
import { type Bytes, fromLatin1, hex, utf8 } from "../../src/wire/bytes.js";
import { opened } from "./exchange.js";
import { bytesOf, headerSet, type Json, refused, same, unhex } from "./scenario.js";

const PROBE = utf8("probe");

async function sameKey(
  provider: Provider,
  session: { key: CompatClientSession["key"] },
  keyHex: string,
): Promise<void> {
  const wanted = await provider.aeadKey(unhex(keyHex));
  const iv = new Uint8Array(12);
  same("key", hex(await session.key.seal(iv, PROBE, PROBE)), hex(await wanted.seal(iv, PROBE, PROBE)));
}

function sameClaim(
  claim: { key: Bytes; sealed: boolean; stampMs: number; expiresMs: number },
  s: Json,
): void {
  const { key, sealed, stampMs, expiresMs } = claim;
  same("claim", hex(key), s.key_hex);
  same("rest of the claim", [sealed, stampMs, expiresMs], [s.sealed, s.stamp_ms, s.expires_ms]);
}

async function init(provider: Provider, s: Json): Promise<void> {
  const { family, headers, now_ms: now, window_ms: window } = s as Json;
  const read = await parseCompatInit(provider, family, headers, bytesOf(s.body), now, window);
  sameClaim(read.claim, s.claim);
  const key = await provider.p256(unhex(s.server_scalar_hex));
  const client = await provider.p256(unhex(s.client_scalar_hex));
  const secret = await client.agree(key.publicKey);
  same("shared secret", secret && hex(secret), s.shared_secret_hex);
  same("info", keyInfo(read.wire, family === "anonymous", read.clientId ?? ""), s.key_info);
  const agreed = await acceptCompatInit(
    provider,
    read,
    s.authenticated,
    key,
    unhex(s.session_id_random_hex),
    now,
  );
  same("answer", fromLatin1(agreed.body), s.answer);
  const { id, wire, clientId, createdMs, expiresMs } = agreed;
  const wanted = s.session;
  same(
    "session",
    [id, wire, clientId ?? null, hex(agreed.key), createdMs, expiresMs],
    [wanted.id, wanted.wire, wanted.client_id, wanted.key_hex, wanted.created_ms, wanted.expires_ms],
  );
}

async function initRefused(provider: Provider, s: Json): Promise<void> {
  const { family, headers, now_ms: now, window_ms: window, code } = s as Json;
  await refused(code, async () => {
    const read = await parseCompatInit(provider, family, headers, bytesOf(s.body), now, window);
    await acceptCompatInit(provider, read, false, await provider.p256(), new Uint8Array(16), now);
  });
}

async function clientInit(provider: Provider, s: Json): Promise<void> {
  const key = await provider.p256(unhex(s.scalar_hex));
  const begun = new CompatInit(
    s.wire,
    s.anonymous,
    s.client_id ?? "",
    s.ttl_sec ?? undefined,
    key,
    unhex(s.nonce_random_hex),
    s.sent_ms,
  );
  same("headers", headerSet(begun.headers), headerSet(s.request.headers));
  const wanted = JSON.parse(fromLatin1(bytesOf(s.request.body)));
  same("body", JSON.parse(fromLatin1(begun.body)), wanted);
  const session = await begun.finish(provider, bytesOf(s.answer), s.received_ms);
  same("session", [session.id, session.expiresMs], [s.session_id, s.expires_ms]);
  await sameKey(provider, session, s.key_hex);
  const { path, stamp, nonce, iv_hex: iv, plaintext, sealed } = s.probe;
  sameSealed(await sealCompatRequest(session, path, bytesOf(plaintext), stamp, nonce, unhex(iv)), sealed);
}

async function clientInitRefused(provider: Provider, s: Json): Promise<void> {
  const key = await provider.p256(unhex(s.scalar_hex));
  const nonce = new Uint8Array(16);
  const begun = new CompatInit(s.wire, s.anonymous, s.client_id ?? "", undefined, key, nonce, 0);
  await refused(s.code, () => begun.finish(provider, bytesOf(s.answer), 0));
}

function sameSealed(got: SealedMessage, wanted: Json): void {
  same("headers", headerSet(got.headers), headerSet(wanted.headers));
  same("body", hex(got.body), hex(bytesOf(wanted.body)));
}

async function clientSession(provider: Provider, c: Json): Promise<CompatClientSession> {
  const key = await provider.p256(unhex(c.scalar_hex));
  const nonce = new Uint8Array(16);
  const begun = new CompatInit(c.wire, c.anonymous, c.client_id ?? "", undefined, key, nonce, 0);
  return begun.finish(provider, utf8(c.init_answer), 0);
}

function serverSession(s: Json): SessionRecord {
  if (s.created_ms > s.expires_ms) throw new Error("a session ends before it begins");
  const key = unhex(s.key_hex);
  return { id: s.id, wire: s.wire, clientId: s.client_id ?? undefined, expiresMs: s.expires_ms, key };
}

function open(provider: Provider, s: Json, path: string, headers: Json, body: Bytes) {
  const line = { method: "POST", target: path };
  const [record, sent] = [serverSession(s.session), headers as [string, string][]];
  return opened(provider, record, line, sent, body, s.now_ms, s.window_ms);
}

async function request(provider: Provider, s: Json): Promise<void> {
  const client = await clientSession(provider, s.client);
  const { path, stamp, nonce, iv_hex: iv, plaintext, aad, sealed } = s.request;
  const kid = `session:${client.id}`;
  const made =
    client.wire === 1 ? aad1("POST", path, stamp, nonce, kid) : aad2(stamp, nonce, kid, client.clientId);
  same("aad", fromLatin1(made), aad);
  sameSealed(await sealCompatRequest(client, path, bytesOf(plaintext), stamp, nonce, unhex(iv)), sealed);
  const { plain, claim } = await open(provider, s, path, sealed.headers, bytesOf(sealed.body));
  same("plaintext", hex(plain.first), hex(bytesOf(plaintext)));
  sameClaim(claim, s.claim);
}

async function requestRefused(provider: Provider, s: Json): Promise<void> {
  const { path, headers, code } = s as Json;
  const body = bytesOf(s.body);
  const { now_ms: _, window_ms: __ } = s as Json;
  await refused(code, () => open(provider, s, path, headers, body));
}

async function answer(provider: Provider, s: Json): Promise<void> {
  const client = await clientSession(provider, s.client);
  const asked = s.request;
  const { path, stamp, nonce, iv_hex: iv, plaintext, sealed } = asked;
  sameSealed(await sealCompatRequest(client, path, bytesOf(plaintext), stamp, nonce, unhex(iv)), sealed);
  if (!fromLatin1(utf8(asked.aad)).includes(nonce)) throw new Error("an AAD without its nonce");
  const { plain } = await open(provider, s, path, sealed.headers, bytesOf(sealed.body));
  const wanted = s.answer;
  const randoms = { nonce: unhex(wanted.nonce_random_hex), iv: unhex(wanted.iv_hex) };
  // With this very status: a handler's 201 is sent as 200.
  const reply = plain.reply as CompatReply;
  const got = await reply.seal(wanted.status, bytesOf(wanted.plaintext), wanted.stamp_ms, randoms);
  sameSealed(got, wanted.sealed);
  same("stamp and path", [wanted.stamp, wanted.path], [String(wanted.stamp_ms), path]);
  if (!wanted.aad.includes(wanted.nonce)) throw new Error("an AAD without its nonce");
  const body = await openCompatAnswer(
    client,
    path,
    wanted.status,
    wanted.sealed.headers,
    bytesOf(wanted.sealed.body),
    s.received_ms,
    s.window_ms,
  );
  same("plaintext", hex(body), hex(bytesOf(wanted.plaintext)));
}

async function answerRefused(provider: Provider, s: Json): Promise<void> {
  const client = await clientSession(provider, s.client);
  const { path, stamp, nonce, iv_hex: iv, plaintext, sealed, aad } = s.request;
  sameSealed(await sealCompatRequest(client, path, bytesOf(plaintext), stamp, nonce, unhex(iv)), sealed);
  if (!aad.includes(nonce)) throw new Error("an AAD without its nonce");
  await refused(s.code, () =>
    openCompatAnswer(client, path, s.status, s.headers, bytesOf(s.body), s.received_ms, s.window_ms),
  );
}

/** What is done for each type. */
export const COMPAT: Readonly<Record<string, (provider: Provider, s: Json) => Promise<void>>> = {
  init,
  "init-refused": initRefused,
  "client-init": clientInit,
  "client-init-refused": clientInitRefused,
  request,
  "request-refused": requestRefused,
  answer,
  "answer-refused": answerRefused,
};
