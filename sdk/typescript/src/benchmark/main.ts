/**
 * What sealing costs beside the platform's bare cryptography: `node dist/benchmark/main.js [ROUNDS]`. Both are measured in
 * turns in one run; medians are told.
 */
import * as crypto from "node:crypto";
import { nodeProvider } from "../crypto/node.js";
import type { Provider } from "../crypto/provider.js";
import { webProvider } from "../crypto/web.js";
import { NativeReply } from "../exchange/native.js";
import { openAnswer, sealRequest } from "../session/native/client-call.js";
import { ClientInit, type ClientSession } from "../session/native/client-init.js";
import { keyIdOf } from "../session/native/key-set.js";
import { SessionKeys } from "../session/native/keys.js";
import { acceptInit, admitInit, type ServerConfig, type Sign } from "../session/native/server-init.js";
import { drawServerShareKeys, drawShareKeys, PARTS, type Suite } from "../session/native/suite.js";
import { type Bytes, hex } from "../wire/bytes.js";

const NOW_MS = 1_750_000_000_000;
const LINE = { method: "POST", target: "/transaction/purchase" };
const HEADERS: [string, string][] = [["content-type", "application/json"]];
const subtle = globalThis.crypto.subtle;

type Step = () => Promise<unknown>;

/** Runs all in turns, and gives the median of each, in microseconds. */
async function medians(rounds: number, steps: readonly Step[]): Promise<number[]> {
  const taken = steps.map((): number[] => []);
  for (let round = -Math.ceil(rounds / 5); round < rounds; round += 1) {
    for (const [at, step] of steps.entries()) {
      const begin = performance.now();
      await step();
      if (round >= 0) taken[at]?.push((performance.now() - begin) * 1000);
    }
  }
  return taken.map((all) => all.sort((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0);
}

/** A service of its own, in memory. */
async function service(provider: Provider) {
  const pair = crypto.generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const spki = pair.publicKey.export({ format: "der", type: "spki" });
  const publicKey = Uint8Array.from(spki.subarray(-65));
  const keyId = await keyIdOf(provider, publicKey);
  const key = pair.privateKey;
  const sign: Sign = async (_, message) =>
    Uint8Array.from(crypto.sign("sha256", message, { key, dsaEncoding: "ieee-p1363" }));
  const identities = [{ keyId, algorithm: "ES256" as const, notBeforeMs: 0, notAfterMs: 2 * NOW_MS }];
  const served: ServerConfig = { suites: ["X25519MLKEM768", "P256"], identities };
  const answer = async (body: Bytes) => {
    const init = admitInit(body, served, NOW_MS);
    const keys = await drawServerShareKeys(provider, PARTS[init.suite], init.request.share);
    const decided = {
      sessionIdRandom: provider.random(16),
      expiresInSec: 1800,
      auth: "none",
      nowMs: NOW_MS,
    } as const;
    return acceptInit(provider, init, served, keys, decided, sign);
  };
  return { answer, trusted: (id: string) => (id === keyId ? publicKey : undefined) };
}

async function agree(provider: Provider, suite: Suite) {
  const { answer, trusted } = await service(provider);
  const offer = { suite, suites: [suite], clientId: "benchmark", pinnedKeyIds: [] };
  const begin = async () => new ClientInit(provider, offer, await drawShareKeys(provider, suite));
  const init = await begin();
  const agreed = await answer(init.body());
  const session = await init.finish(201, agreed.body, trusted);
  const keys = await SessionKeys.of(provider, agreed.prk);
  const server = { wire: 3, id: agreed.id, keys } as const;
  return { begin, answer, trusted, session, server };
}

/** The platform's own AES-256-GCM, with a key that is there. */
function bare(provider: Provider, key: Bytes) {
  const iv = provider.random(12);
  if (provider === nodeProvider) {
    const secret = crypto.createSecretKey(key);
    const seal: (plaintext: Bytes) => Promise<Uint8Array> = async (plaintext) => {
      const cipher = crypto.createCipheriv("aes-256-gcm", secret, iv);
      return Buffer.concat([cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
    };
    const open = async (sealed: Uint8Array) => {
      const decipher = crypto.createDecipheriv("aes-256-gcm", secret, iv);
      decipher.setAuthTag(sealed.subarray(-16));
      return Buffer.concat([decipher.update(sealed.subarray(0, -16)), decipher.final()]);
    };
    return { seal, open };
  }
  const made = subtle.importKey("raw", key, "AES-GCM", false, ["encrypt", "decrypt"]);
  const algorithm = { name: "AES-GCM", iv };
  const seal = async (plaintext: Bytes) =>
    new Uint8Array(await subtle.encrypt(algorithm, await made, plaintext));
  const open = async (sealed: Uint8Array) => subtle.decrypt(algorithm, await made, Uint8Array.from(sealed));
  return { seal, open };
}

function row(name: string, ours: number, theirs: number): void {
  const ratio = (ours / theirs).toFixed(2);
  console.log(
    `${name.padEnd(34)}${ours.toFixed(1).padStart(10)} µs${theirs.toFixed(1).padStart(10)} µs${ratio.padStart(8)}`,
  );
}

async function calls(provider: Provider, rounds: number): Promise<void> {
  const { session, server } = await agree(provider, "P256");
  const platform = bare(provider, provider.random(32));
  for (const size of [256, 1024, 65_536]) {
    const body = provider.random(size);
    const seal = () => sealRequest(provider, session, LINE, HEADERS, body, NOW_MS, provider.random(16));
    const sealed = await seal();
    const reply = new NativeReply(provider, server, LINE, sealed.pending.nonce);
    const stream = await reply.begin(200, HEADERS, String(NOW_MS), `r-${hex(provider.random(16))}`);
    const answer = await stream.whole(body);
    const open = () => openAnswer(provider, sealed.pending, 200, stream.headers, answer);
    const ciphertext = await platform.seal(body);
    const [ours = 0, bareSeal = 1, ourOpen = 0, bareOpen = 1] = await medians(rounds, [
      seal,
      () => platform.seal(body),
      open,
      () => platform.open(ciphertext),
    ]);
    row(`${provider.name} seal ${size} B / bare AES-GCM`, ours, bareSeal);
    row(`${provider.name} open ${size} B / bare AES-GCM`, ourOpen, bareOpen);
  }
}

/** A bare agreement on P-256 and the derivation of a key, as an init needs it. */
async function bareAgreement(provider: Provider): Promise<void> {
  const [own, peer] = [await provider.p256(), await provider.p256()];
  const secret = (await own.agree(peer.publicKey)) as Bytes;
  if (provider === nodeProvider) {
    crypto.hkdfSync("sha256", secret, new Uint8Array(32), "bare", 32);
    return;
  }
  const key = await subtle.importKey("raw", secret, "HKDF", false, ["deriveBits"]);
  const algorithm = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(32), info: new Uint8Array(4) };
  await subtle.deriveBits(algorithm, key, 256);
}

async function inits(provider: Provider, rounds: number): Promise<void> {
  for (const suite of ["P256", "X25519MLKEM768"] as const) {
    const { begin, answer, trusted } = await agree(provider, suite);
    const waiting: { init: ClientInit; body: Bytes }[] = [];
    const made: ClientSession[] = [];
    const step = async () => {
      const init = await begin();
      // The server's part is not the client's cost: it was measured out by what stands below.
      waiting.push({ init, body: init.body() });
    };
    const finish = async () => {
      const next = waiting.pop();
      if (next !== undefined)
        made.push(await next.init.finish(201, (await answers.get(next.body))?.body as Bytes, trusted));
    };
    const answers = new Map<Bytes, Awaited<ReturnType<typeof answer>>>();
    const prepare = async () => {
      const next = waiting.at(-1);
      if (next !== undefined) answers.set(next.body, await answer(next.body));
    };
    const [share = 0, , agreed = 0, theirs = 1] = await medians(rounds, [
      step,
      prepare,
      finish,
      () => bareAgreement(provider),
    ]);
    row(`${provider.name} init ${suite} / two keys, ECDH, HKDF`, share + agreed, theirs);
  }
}

const rounds = Number(process.argv[2] ?? 400);
if (!Number.isInteger(rounds) || rounds < 1) {
  console.error("usage: main [ROUNDS]");
  process.exit(2);
}
console.log(
  `medians of ${rounds} rounds, node ${process.version}\n${" ".repeat(34)}      sealway         bare   ratio`,
);
for (const provider of [nodeProvider, webProvider]) {
  await calls(provider, rounds);
  await inits(provider, Math.max(20, Math.floor(rounds / 8)));
}
