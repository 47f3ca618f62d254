/** Scenarios of `vectors/session3`, in Node and in a browser. */
import { ml_dsa65, ml_dsa87 } from "@noble/post-quantum/ml-dsa.js";
import { ml_kem768, ml_kem1024 } from "@noble/post-quantum/ml-kem.js";
import { kemKeyOf } from "../../src/crypto/kem.js";
import type { AeadKey, MacKey, Provider } from "../../src/crypto/provider.js";
import { NativeReply } from "../../src/exchange/native.js";
import { requestHeaders } from "../../src/server/headers.js";
import { algorithmOf, isAccepted, type SignatureAlgorithm } from "../../src/session/native/algorithm.js";
import { answerContext, answerKeys, requestContext, requestKeys } from "../../src/session/native/call.js";
import { beginRequest, openAnswer } from "../../src/session/native/client-call.js";
import { ClientInit, type ClientSession } from "../../src/session/native/client-init.js";
import { encodeInner } from "../../src/session/native/inner.js";
import { keyIdOf, parseKeySet } from "../../src/session/native/key-set.js";
import { SessionKeys, schedule } from "../../src/session/native/keys.js";
import {
  initHashInput,
  parseInitAnswer,
  parseInitRequest,
  transcript,
} from "../../src/session/native/message.js";
import { clockMac, parseProblem, provenTimeMs, sendsAgain } from "../../src/session/native/problem.js";
import { checkKeySet, checkKeySetTimes, liveKey } from "../../src/session/native/root.js";
import { acceptInit, admitInit, type Identity } from "../../src/session/native/server-init.js";
import type { StreamKeys } from "../../src/session/native/stream.js";
import {
  clientAgree,
  drawServerShareKeys,
  PARTS,
  type ServerShareKeys,
  type ShareKeys,
  type Suite,
  serverAgree,
} from "../../src/session/native/suite.js";
import { toBase64 } from "../../src/wire/base64.js";
import { type Bytes, concat, fromLatin1, fromUtf8, hex, latin1, utf8 } from "../../src/wire/bytes.js";
import { firstOf, X_SEALED } from "../../src/wire/headers.js";
import { opened } from "./exchange.js";
import { bytesOf, headerSet, type Json, refused, same, textOf, unhex } from "./scenario.js";

const PROBE = utf8("probe");

export async function sameMac(
  what: string,
  provider: Provider,
  got: MacKey,
  wantedHex: string,
): Promise<void> {
  const wanted = await provider.macKey(unhex(wantedHex));
  same(what, hex(await got.mac(PROBE)), hex(await wanted.mac(PROBE)));
}

async function sameKeys(provider: Provider, keys: SessionKeys, s: Json): Promise<void> {
  await sameMac("c2s", provider, keys.c2s, s["c2s_hex"]);
  await sameMac("s2c", provider, keys.s2c, s["s2c_hex"]);
  same("exporter", hex(await keys.exporter()), s["exporter_hex"]);
}

export async function sameStream(provider: Provider, keys: StreamKeys, s: Json): Promise<void> {
  const wanted: AeadKey = await provider.aeadKey(unhex(s["key_hex"]));
  same(
    "key",
    hex(await keys.aead.seal(keys.iv, PROBE, PROBE)),
    hex(await wanted.seal(keys.iv, PROBE, PROBE)),
  );
  same("iv", hex(keys.iv), s["iv_hex"]);
  same("commit", hex(keys.commit), s["commit_hex"]);
}

async function trustedOf(
  provider: Provider,
  listed: string[],
): Promise<(id: string) => Uint8Array | undefined> {
  const keys = new Map<string, Uint8Array>();
  for (const text of listed) keys.set(await keyIdOf(provider, unhex(text)), unhex(text));
  return (id) => keys.get(id);
}

/** The keys of curves that a vector gives; those that a suite has not are empty or absent. */
async function curveKeys(provider: Provider, s: Json) {
  const [p256, p384, x25519] = [s["p256_scalar_hex"], s["p384_scalar_hex"], s["x25519_hex"]];
  return {
    ...(p256 && { p256: await provider.p256(unhex(p256)) }),
    ...(p384 && { p384: await provider.p384(unhex(p384)) }),
    ...(x25519 && { x25519: await provider.x25519(unhex(x25519)) }),
  };
}

async function clientKeys(provider: Provider, c: Json): Promise<ShareKeys> {
  const kem = unhex(c["kem_private_hex"]);
  if (c["kem_seed_hex"]) {
    const { secretKey } = (kem.length === 2400 ? ml_kem768 : ml_kem1024).keygen(unhex(c["kem_seed_hex"]));
    same("key of the seed", hex(secretKey), c["kem_private_hex"]);
  }
  return {
    ...(await curveKeys(provider, c)),
    ...(kem.length > 0 && { [kem.length === 2400 ? "kem" : "kem1024"]: await kemKeyOf(kem) }),
  };
}

function clientInit(
  provider: Provider,
  body: Json,
  authorization: string | null,
  keys: ShareKeys,
  old?: ClientSession,
): ClientInit {
  const offer = {
    suite: body["suite"] as Suite,
    suites: body["suites"] as Suite[],
    clientId: body["client_id"] as string,
    ttlSec: (body["ttl_sec"] ?? undefined) as number | undefined,
    proof: (body["proof"] ?? undefined) as string | undefined,
    pinnedKeyIds: (body["pinned_key_ids"] ?? []) as string[],
    signatureAlgorithms: (body["signature_algorithms"] ?? undefined) as SignatureAlgorithm[] | undefined,
    authorization: authorization ?? undefined,
  };
  return new ClientInit(provider, offer, keys, old);
}

/** The client's side of a session of suite P256, by finishing its init. */
async function clientSession(provider: Provider, c: Json): Promise<ClientSession> {
  const keys = { p256: await provider.p256(unhex(c["p256_scalar_hex"])) };
  const init = clientInit(provider, JSON.parse(c["body"]), null, keys);
  const trusted = await trustedOf(provider, [c["trusted_hex"]]);
  return init.finish(201, utf8(c["answer"]), trusted);
}

async function serverSession(provider: Provider, s: Json) {
  const keys = await SessionKeys.of(provider, unhex(s["prk_hex"]));
  await sameMac("c2s", provider, keys.c2s, s["c2s_hex"]);
  await sameMac("s2c", provider, keys.s2c, s["s2c_hex"]);
  if (s["created_ms"] > s["expires_ms"]) throw new Error("a session ends before it begins");
  if (typeof s["client_id"] !== "string") throw new Error("a session without client");
  const { id, wire, client_id: clientId, expires_ms: expiresMs, prk_hex: prk } = s;
  return { id, wire, clientId, expiresMs, key: unhex(prk), keys };
}

/** The public key of an identity: the parts of its algorithm, from their scalar and their seed. */
async function identityKey(provider: Provider, each: Json): Promise<Bytes> {
  const [scalar, seed, wanted] = [each["scalar_hex"], each["seed_hex"], each["public_hex"]];
  const parts = ((each["alg"] ?? "ES256") as string).split("+").map(async (part) => {
    if (part === "ES256") return (await provider.p256(unhex(scalar))).publicKey;
    if (part === "ES384") return (await provider.p384(unhex(scalar))).publicKey;
    return (part === "ML-DSA-65" ? ml_dsa65 : ml_dsa87).keygen(unhex(seed)).publicKey;
  });
  const key = concat(...(await Promise.all(parts)));
  if (wanted !== undefined) same("identity key", hex(key), wanted);
  return key;
}

async function identitiesOf(provider: Provider, listed: Json[]): Promise<Identity[]> {
  return Promise.all(
    listed.map(async (each) => ({
      keyId: await keyIdOf(provider, await identityKey(provider, each)),
      algorithm: (each["alg"] ?? "ES256") as SignatureAlgorithm,
      notBeforeMs: each["not_before_ms"] as number,
      notAfterMs: each["not_after_ms"] as number,
    })),
  );
}

async function priorSession(
  provider: Provider,
  old: Json,
): Promise<{ client: ClientSession; keys: SessionKeys }> {
  const keys = await SessionKeys.of(provider, unhex(old["prk_hex"]));
  same("old exporter", hex(await keys.exporter()), old["exporter_hex"]);
  const client = await clientSession(provider, old["client"]);
  same("old session", client.id, old["session_id"]);
  return { client, keys };
}

async function init3(provider: Provider, s: Json): Promise<void> {
  const old = s["old"] === undefined ? undefined : await priorSession(provider, s["old"]);
  const body = bytesOf(s["body"]);
  const request = parseInitRequest(body);
  same("init hash", hex(await provider.sha256(initHashInput(request))), s["init_hash_hex"]);
  const answer = utf8(s["answer"]);
  const { answer: said, signature } = parseInitAnswer(201, answer);
  const authorization = s["authorization"] as string | null;
  const credential = authorization === null ? new Uint8Array() : await provider.sha256(latin1(authorization));
  same("credential", hex(credential), s["credential_hex"]);
  const written = transcript(request, credential, said, old?.client.id);
  same("transcript", hex(written), s["transcript_hex"]);
  const th = await provider.sha256(written);
  same("th", hex(th), s["th_hex"]);

  const server = s["server"];
  const identities = await identitiesOf(provider, server["identities"]);
  const served = { suites: server["suites"] as string[], identities };
  const init = admitInit(body, served, s["now_ms"]);
  const kem = { ciphertext: unhex(server["kem_ciphertext_hex"]), secret: unhex(server["kem_secret_hex"]) };
  const keys: ServerShareKeys = {
    ...(await curveKeys(provider, server)),
    ...(kem.ciphertext.length > 0 && { [kem.ciphertext.length === 1088 ? "kem" : "kem1024"]: kem }),
  };
  if (!server["kem_ciphertext_hex"]) same("no secret of no ciphertext", server["kem_secret_hex"], "");
  const decided = {
    sessionIdRandom: unhex(server["session_id_random_hex"]),
    expiresInSec: server["expires_in_sec"],
    auth: server["auth"],
    subject: server["subject"] ?? undefined,
    tenant: server["tenant"] ?? undefined,
    nowMs: s["now_ms"],
    authorization: authorization ?? undefined,
    old: old && { id: old.client.id, keys: old.keys },
  };
  const agreed = await acceptInit(provider, init, served, keys, decided, async () => signature);
  same("answer", JSON.parse(fromUtf8(agreed.body) ?? ""), JSON.parse(s["answer"]));
  same("prk", hex(agreed.prk), s["prk_hex"]);
  const made = await SessionKeys.of(provider, agreed.prk);
  await sameKeys(provider, made, s);
  const confirmKey = await provider.macKey(unhex(s["confirm_key_hex"]));
  same("confirm", hex(await made.confirm(provider, th)), hex(await confirmKey.mac(th)));

  const trusted = await trustedOf(provider, s["trusted_hex"]);
  const c = s["client"];
  const prk = await schedule(provider, th, unhex(s["secret_hex"]), await old?.keys.exporter());
  same("prk of the secret", hex(prk), s["prk_hex"]);
  if (c === null) return;
  const own = await clientKeys(provider, c);
  same("secret", hex(await clientAgree(init.suite, said.share, own)), s["secret_hex"]);
  const text = JSON.parse(fromLatin1(body));
  const client = clientInit(provider, text, authorization, await clientKeys(provider, c), old?.client);
  same("body", JSON.parse(fromLatin1(client.body())), text);
  same("init hash of the client", hex(await client.initHash()), s["init_hash_hex"]);
  const session = await client.finish(201, answer, trusted);
  same("session", session.id, said.sessionId);
  await sameKeys(provider, session.keys, s);
}

async function init3Refused(provider: Provider, s: Json): Promise<void> {
  const old = s["old"] === null ? undefined : await priorSession(provider, s["old"]);
  const keys = await clientKeys(provider, s["client"]);
  const init = clientInit(provider, JSON.parse(textOf(s["body"])), s["authorization"], keys, old?.client);
  const trusted = await trustedOf(provider, s["trusted_hex"]);
  await refused(s["code"], () => init.finish(s["status"], bytesOf(s["answer"]), trusted));
}

async function init3RequestRefused(provider: Provider, s: Json): Promise<void> {
  const identities = await identitiesOf(provider, s["server"]["identities"]);
  const served = { suites: s["server"]["suites"] as string[], identities };
  const error = await refused(s["code"], async () => {
    const init = admitInit(bytesOf(s["body"]), served, s["now_ms"]);
    const keys = await drawServerShareKeys(provider, PARTS[init.suite], init.request.share);
    await serverAgree(PARTS[init.suite], init.request.share, keys);
  });
  same("field", error["field"] ?? null, s["field"]);
}

export function innerOf(s: Json): [string, string][] {
  return s["inner"].map(([name, value]: [string, Json]) => [name, textOf(value)]);
}

export function plaintexts(s: Json): Bytes[] {
  const frames = s["frames"].map(bytesOf) as Bytes[];
  return frames.map((frame, at) => (at === 0 ? concat(encodeInner(innerOf(s)), frame) : frame));
}

async function sameBody(provider: Provider, got: Bytes, wanted: Json): Promise<void> {
  if (!("sha256_hex" in wanted)) return same("body", hex(got), hex(bytesOf(wanted)));
  same("length of body", got.length, wanted["count"]);
  same("hash of body", hex(await provider.sha256(got)), wanted["sha256_hex"]);
}

/** The message as it was sealed; what is too long for a vector was made here a moment ago. */
function sentBody(wanted: Json, made: Bytes): Bytes {
  return "sha256_hex" in wanted ? made : bytesOf(wanted);
}

export async function sameStreamOut(
  provider: Provider,
  headers: [string, string][],
  stream: Bytes,
  sealed: Json,
): Promise<{ headers: [string, string][]; body: Bytes }> {
  const wanted = sealed["headers"] as [string, string][];
  const inHeader = firstOf(wanted, X_SEALED) !== undefined;
  if (inHeader) headers.push([X_SEALED, toBase64(stream)]);
  same("headers", headerSet(headers), headerSet(wanted));
  await sameBody(provider, inHeader ? new Uint8Array() : stream, sealed["body"]);
  return { headers: wanted, body: inHeader ? new Uint8Array() : sentBody(sealed["body"], stream) };
}

async function request3(provider: Provider, s: Json): Promise<void> {
  const client = await clientSession(provider, s["client"]);
  const server = await serverSession(provider, s["session"]);
  same("session", client.id, server.id);
  const line = { method: s["method"] as string, target: s["path"] as string };
  const { stamp, nonce } = s as { stamp: string; nonce: string };
  const type = (s["content_type"] ?? undefined) as string | undefined;
  await sameStream(provider, await requestKeys(provider, client, nonce, stamp), s);
  const context = await requestContext(provider, server, line, type ?? "", stamp, nonce);
  same("context", hex(context), s["context_hex"]);
  const begun = await beginRequest(provider, client, line, type, stamp, nonce);
  const parts: Bytes[] = [];
  const plain = plaintexts(s);
  for (const [at, part] of plain.entries())
    parts.push(await begun.sealer.seal(part, at === plain.length - 1));
  const sent = await sameStreamOut(provider, begun.headers, concat(...parts), s["sealed"]);

  const { now_ms: now, window_ms: window } = s as Json;
  const {
    plain: got,
    frames,
    claim,
  } = await opened(provider, server, line, sent.headers, sent.body, now, window);
  same("inner headers", got.inner, innerOf(s));
  same("frames", frames.map(hex), (s["frames"].map(bytesOf) as Bytes[]).map(hex));
  const wanted = s["claim"];
  same("claim", hex(claim.key), wanted["key_hex"]);
  same("sealed", claim.sealed, wanted["sealed"]);
  same("stamp", claim.stampMs, wanted["stamp_ms"]);
  same("end of claim", claim.expiresMs, wanted["expires_ms"]);
}

async function request3Refused(provider: Provider, s: Json): Promise<void> {
  const server = await serverSession(provider, s["session"]);
  const line = { method: s["method"], target: s["path"] };
  await refused(s["code"], () =>
    opened(provider, server, line, s["headers"], bytesOf(s["body"]), s["now_ms"], s["window_ms"]),
  );
}

async function answer3(provider: Provider, s: Json): Promise<void> {
  const client = await clientSession(provider, s["client"]);
  const server = await serverSession(provider, s["session"]);
  const line = { method: s["request"]["method"] as string, target: s["request"]["path"] as string };
  const asked = s["request"]["nonce"] as string;
  const { status, stamp, nonce } = s as { status: number; stamp: string; nonce: string };
  const type = (s["content_type"] ?? "") as string;
  await sameStream(provider, await answerKeys(provider, server, asked, nonce), s);
  const context = await answerContext(provider, server, status, line, type, stamp, nonce);
  same("context", hex(context), s["context_hex"]);
  const reply = new NativeReply(provider, server, line, asked);
  const begun = await reply.begin(status, innerOf(s), stamp, nonce, type);
  const parts: Bytes[] = [];
  const frames = s["frames"].map(bytesOf) as Bytes[];
  for (const [at, frame] of frames.entries())
    for await (const part of begun.seal(frame, at === frames.length - 1)) parts.push(part);
  const sent = await sameStreamOut(provider, begun.headers, concat(...parts), s["sealed"]);
  const pending = { seal: client, line, stamp: "0", nonce: asked };
  const opened = await openAnswer(provider, pending, status, sent.headers, sent.body);
  same("inner headers", opened.headers, innerOf(s));
  same("body", hex(opened.body), hex(concat(...frames)));
}

async function answer3Refused(provider: Provider, s: Json): Promise<void> {
  const seal = await clientSession(provider, s["client"]);
  const line = { method: s["request"]["method"], target: s["request"]["path"] };
  const pending = { seal, line, stamp: "0", nonce: s["request"]["nonce"] };
  await refused(s["code"], () =>
    openAnswer(provider, pending, s["status"], s["headers"], bytesOf(s["body"])),
  );
}

async function takeKeySet(provider: Provider, s: Json) {
  const { root_public_hex: root, now_ms: now, taken_issued_ms: taken } = s as Json;
  const set = await parseKeySet(provider, utf8(s["body"]));
  await checkKeySet(provider, set, unhex(root), s["signature_algorithms"] ?? undefined);
  checkKeySetTimes(set, now, taken ?? undefined);
  return set;
}

async function keySet3(provider: Provider, s: Json): Promise<void> {
  const set = await takeKeySet(provider, s);
  same("issued", set.issuedMs, s["issued_ms"]);
  const wanted = s["keys"].map((key: Json) => [key["key_id"], key["public_hex"]]);
  same(
    "keys",
    set.keys.filter((key) => algorithmOf(key.publicKey)).map((key) => [key.keyId, hex(key.publicKey)]),
    wanted,
  );
  const accepted = s["signature_algorithms"] ?? undefined;
  for (const { key_id: id, server_time_ms: time, now_ms: now, trusted } of s["signers"]) {
    const own = set.keys.find((key) => key.keyId === id)?.publicKey;
    const isTrusted =
      own !== undefined &&
      liveKey(set, id, time, now) === own &&
      isAccepted(algorithmOf(own), accepted, false);
    same(`${id} at ${time}, ${now}`, isTrusted, trusted);
  }
}

async function headers3(_: Provider, s: Json): Promise<void> {
  same("service", requestHeaders(s["inner"], s["outer"], s["front_trusted"]), s["service"]);
}

async function keySet3Refused(provider: Provider, s: Json): Promise<void> {
  await refused(s["code"], () => takeKeySet(provider, s));
}

async function problem3(provider: Provider, s: Json): Promise<void> {
  const seal = await clientSession(provider, s["client"]);
  const server = await serverSession(provider, s["session"]);
  const { stamp, nonce } = s["request"];
  const problem = parseProblem(utf8(s["body"]));
  if (problem === undefined) throw new Error("no problem was read");
  const time = await provenTimeMs(provider, problem, { seal, stamp, nonce });
  same("proven", time !== undefined, s["proven"]);
  for (const { method, elapsed_ms, again } of s["resends"]) {
    const told = sendsAgain(problem.code, time, method, Number(stamp), elapsed_ms);
    same(`${method} after ${elapsed_ms} ms sent again`, told, again);
  }
  if (time === undefined) return;
  const mac = await clockMac(provider, server.keys, nonce, stamp, time);
  same("mac", toBase64(mac), problem["mac"]);
}

/** What is done for each type. */
export const NATIVE: Readonly<Record<string, (provider: Provider, s: Json) => Promise<void>>> = {
  init3,
  renew3: init3,
  "init3-refused": init3Refused,
  "init3-request-refused": init3RequestRefused,
  request3,
  "request3-refused": request3Refused,
  answer3,
  "answer3-refused": answer3Refused,
  "key-set3": keySet3,
  "key-set3-refused": keySet3Refused,
  problem3,
  headers3,
};
