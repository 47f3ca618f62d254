/** Scenarios of `vectors/one-shot`, in Node and in a browser. This SDK has the client of wire 4 alone. */
import type { Provider } from "../../src/crypto/provider.js";
import type { Seal } from "../../src/session/native/call.js";
import { answerContext, answerKeys, requestContext, requestKeys } from "../../src/session/native/call.js";
import { beginRequest, openAnswer } from "../../src/session/native/client-call.js";
import { parseProblem } from "../../src/session/native/problem.js";
import { checkKeySetTimes } from "../../src/session/native/root.js";
import { FrameSealer } from "../../src/session/native/stream.js";
import type { ServerShareKeys } from "../../src/session/native/suite.js";
import { type KeyConfig, keyNameOf, parseConfig } from "../../src/session/one-shot/config.js";
import { checkKeyDocument, keyInUse, parseKeyDocument } from "../../src/session/one-shot/document.js";
import { encapsulate, type Kem } from "../../src/session/one-shot/hpke.js";
import { isSentAgain } from "../../src/session/one-shot/problem.js";
import { sealTo } from "../../src/session/one-shot/request.js";
import { type Bytes, concat, hex, utf8 } from "../../src/wire/bytes.js";
import { X_IDEMPOTENCY_KEY, X_KID, X_SEAL } from "../../src/wire/headers.js";
import { innerOf, plaintexts, sameMac, sameStream, sameStreamOut } from "./native.js";
import { bytesOf, type Json, refused, same, unhex } from "./scenario.js";

const LENGTH_OF_CIPHERTEXT = 1088;

/** The draw of a request as a library that draws by itself has it: ML-KEM's ciphertext and secret, and the group's private key. */
async function drawnOf(provider: Provider, s: Json, kem: Kem): Promise<ServerShareKeys> {
  const enc = unhex(s["enc_hex"]);
  const group = unhex(s["group_private_hex"]);
  same("random bytes", s["randomness_hex"].slice(-64), s["group_private_hex"]);
  const isHybrid = s["kem_secret_hex"] !== "";
  return {
    ...(isHybrid && {
      kem: { ciphertext: enc.slice(0, LENGTH_OF_CIPHERTEXT), secret: unhex(s["kem_secret_hex"]) },
    }),
    ...(kem.endsWith("P256") || kem === "P-256"
      ? { p256: await provider.p256(group) }
      : { x25519: await provider.x25519(group) }),
  };
}

function configOf(configHex: string): KeyConfig {
  const config = parseConfig(unhex(configHex));
  if (config === undefined) throw new Error("a key configuration of another form");
  return config;
}

async function request4(provider: Provider, s: Json): Promise<void> {
  const config = configOf(s["key"]["config_hex"]);
  const kem = config.kem as Kem;
  same("KEM", kem, s["key"]["kem"]);
  const psk = s["psk"] === null ? undefined : { id: s["psk"]["id"], key: unhex(s["psk"]["psk_hex"]) };
  const draw = () => drawnOf(provider, s, kem);
  const { enc, secret } = await encapsulate(provider, kem, config.publicKey, await draw());
  same("enc", hex(enc), s["enc_hex"]);
  same("shared secret", hex(secret), s["shared_secret_hex"]);
  const { p256, x25519 } = await draw();
  const group = await (p256 ?? x25519)?.agree(config.publicKey.subarray(s["kem_secret_hex"] ? 1184 : 0));
  same("secret of the group", group && hex(group), s["group_secret_hex"]);

  const keyId = await keyNameOf(provider, config);
  const seal = await sealTo(provider, { ...config, kem, keyId }, psk, await draw());
  await sameMac("c2s", provider, seal.keys.c2s, s["c2s_hex"]);
  await sameMac("s2c", provider, seal.keys.s2c, s["s2c_hex"]);
  const line = { method: s["method"] as string, target: s["path"] as string };
  const { stamp, nonce } = s as { stamp: string; nonce: string };
  const type = (s["content_type"] ?? undefined) as string | undefined;
  await sameStream(provider, await requestKeys(provider, seal, nonce, stamp), s);
  const context = await requestContext(provider, seal, line, type ?? "", stamp, nonce);
  same("context", hex(context), s["context_hex"]);
  const begun = await beginRequest(provider, seal, line, type, stamp, nonce);
  const parts: Bytes[] = [];
  const plain = plaintexts(s);
  for (const [at, part] of plain.entries())
    parts.push(await begun.sealer.seal(part, at === plain.length - 1));
  await sameStreamOut(provider, begun.headers, concat(...parts), s["sealed"]);
  serverAlone(s["key"]["private_hex"], s["now_ms"], s["window_ms"], ...Object.values(s["claim"] as Json));
}

/** Members that only a server has a use for. */
function serverAlone(...members: unknown[]): void {
  if (members.some((each) => each === undefined)) throw new Error("a member is missing");
}

async function sealOf(provider: Provider, s: Json): Promise<Seal> {
  const key = await provider.macKey(unhex(s["s2c_hex"]));
  return { wire: 4, id: s["kid"].slice("hpke:".length), keys: { c2s: key, s2c: key } };
}

async function pendingOf(provider: Provider, s: Json) {
  const { method, path: target, nonce } = s["request"];
  return { seal: await sealOf(provider, s), line: { method, target }, stamp: "0", nonce };
}

async function answer4(provider: Provider, s: Json): Promise<void> {
  const pending = await pendingOf(provider, s);
  const { seal, line, nonce: asked } = pending;
  const { status, stamp, nonce, kid } = s as { status: number; stamp: string; nonce: string; kid: string };
  const type = s["content_type"] as string | null;
  const keys = await answerKeys(provider, seal, asked, nonce);
  await sameStream(provider, keys, s);
  const context = await answerContext(provider, seal, status, line, type ?? "", stamp, nonce);
  same("context", hex(context), s["context_hex"]);
  const sealer = new FrameSealer(keys, context);
  const parts: Bytes[] = [];
  const plain = plaintexts(s);
  for (const [at, part] of plain.entries()) parts.push(await sealer.seal(part, at === plain.length - 1));
  const headers: [string, string][] = [
    [X_SEAL, "4"],
    [X_KID, kid],
    [X_IDEMPOTENCY_KEY, `${stamp}.${nonce}`],
  ];
  if (type !== null) headers.push(["Content-Type", type]);
  const sent = await sameStreamOut(provider, headers, concat(...parts), s["sealed"]);
  const opened = await openAnswer(provider, pending, status, sent.headers, sent.body);
  same("problem", opened.isProblem, s["problem"]);
  same("inner headers", opened.headers, innerOf(s));
  same("body", hex(opened.body), hex(concat(...s["frames"].map(bytesOf))));
}

async function answer4Refused(provider: Provider, s: Json): Promise<void> {
  const pending = await pendingOf(provider, s);
  await refused(s["code"], () =>
    openAnswer(provider, pending, s["status"], s["headers"], bytesOf(s["body"])),
  );
}

async function takeDocument(provider: Provider, s: Json) {
  const { root_public_hex: root, now_ms: now, taken_issued_ms: taken } = s as Json;
  const document = await parseKeyDocument(provider, utf8(s["body"]));
  await checkKeyDocument(provider, document, unhex(root), s["signature_algorithms"] ?? undefined);
  checkKeySetTimes(document, now, taken ?? undefined);
  return document;
}

async function keyDocument4(provider: Provider, s: Json): Promise<void> {
  const { issuedMs, keys } = await takeDocument(provider, s);
  same("issued", issuedMs, s["issued_ms"]);
  const got = keys.map(({ keyId, bytes, kem }) => [`hpke:${keyId}`, hex(bytes), kem ?? null]);
  const wanted = s["keys"].map((key: Json) => [key["kid"], key["config_hex"], key["kem"]]);
  same("keys", got, wanted);
  for (const { now_ms: now, kems, kid } of s["choices"]) {
    const key = keyInUse(keys, kems, now);
    same(`at ${now} of ${kems}`, key === undefined ? null : `hpke:${key.keyId}`, kid);
  }
}

async function keyDocument4Refused(provider: Provider, s: Json): Promise<void> {
  await refused(s["code"], () => takeDocument(provider, s));
}

async function problem4(_: Provider, s: Json): Promise<void> {
  const problem = parseProblem(utf8(s["body"]));
  if (problem === undefined) throw new Error("no problem was read");
  same("status", problem.status, s["status"]);
  for (const { method, elapsed_ms, again } of s["resends"]) {
    const isAgain = isSentAgain(problem, s["sealed"], method, Number(s["stamp"]), elapsed_ms);
    same(`${method} after ${elapsed_ms} ms sent again`, isAgain, again);
  }
}

/** What is done for each type. */
export const ONE_SHOT: Readonly<Record<string, (provider: Provider, s: Json) => Promise<void>>> = {
  request4,
  answer4,
  "answer4-refused": answer4Refused,
  "key-document4": keyDocument4,
  "key-document4-refused": keyDocument4Refused,
  problem4,
};

/** Types for servers alone: they are skipped, and counted. */
export const SERVER_ALONE: readonly string[] = ["request4-refused", "psk4"];
