import { afterAll, describe, expect, it } from "vitest";
import { aead } from "../../src/channel/aead.js";
import { keyPair } from "../../src/channel/agreement.js";
import { type Bytes, concat } from "../../src/channel/encoding.js";
import { Handshake } from "../../src/channel/handshake.js";
import { prologueOf } from "../../src/channel/noise/handshake.js";
import { NoiseState, wire } from "../../src/channel/noise/state.js";
import type { Content } from "../../src/channel/record.js";
import { Secret } from "../../src/channel/secret.js";
import { bindingOf, channelSettings, type HandshakeRandoms } from "../../src/channel/settings.js";
import { type Curve, type NativeSuite, suiteById } from "../../src/channel/suite.js";
import { type Claims, isSignedBy, readClaims, signToken, tokenPublicKey } from "../../src/channel/token.js";
import { V1Opener, V1Sealer } from "../../src/channel/v1/record.js";
import { authTag, directions, transcriptHash } from "../../src/channel/v1/schedule.js";
import { digits, hex, type Scenario, scenarios } from "./scenario.js";

const runs: Record<string, (v: Scenario) => Promise<void>> = {
  "channel-v1": v1,
  "channel-v1-transcript": async (v) => {
    const hash = transcriptHash(transcriptOf(v, v.bytes("client_public_hex"), v.bytes("server_public_hex")));
    expect(digits(hash)).toBe(v.text("transcript_hex"));
  },
  "channel-v1-record": v1Record,
  noise: published,
  "channel-native": native,
  token,
};
const ran: Record<string, number> = {};

for (const folder of ["channel", "relay"]) {
  describe(`the vectors of ${folder}`, () => {
    for (const v of scenarios(folder)) {
      it(`${v.file} is written and read`, async () => {
        const run = runs[v.type];
        if (run === undefined) throw new Error(`nobody knows the type ${v.type}`);
        await run(v);
        v.done();
        ran[v.type] = (ran[v.type] ?? 0) + 1;
      });
    }
  });
}

afterAll(() => {
  console.log("vectors that ran:", JSON.stringify(ran));
  for (const type of Object.keys(runs)) expect(ran[type], type).toBeGreaterThan(0);
});

function transcriptOf(v: Scenario, clientPublic: Bytes, serverPublic: Bytes) {
  return {
    suite: v.number("suite"),
    clientFeatures: v.number("client_features"),
    serverFeatures: v.number("server_features"),
    channelId: v.text("channel_id"),
    nonceC: v.bytes("client_nonce_hex"),
    nonceS: v.bytes("server_nonce_hex"),
    clientPublic,
    serverPublic,
  };
}

function randoms(of: Partial<HandshakeRandoms>): HandshakeRandoms {
  const nothing = (): Secret => new Secret(new Uint8Array(0));
  return {
    nonce: new Uint8Array(0),
    handshakeId: new Uint8Array(0),
    ephemeral: nothing(),
    kemPrivate: nothing(),
    kemEncapsulated: nothing(),
    ...of,
  };
}

const payload = (frame: Bytes | undefined): unknown =>
  JSON.parse(Buffer.from((frame ?? new Uint8Array(0)).subarray(10)).toString());

function content(kind: string, bytes: Bytes): Content {
  const view = new DataView(bytes.buffer);
  if (kind === "data") return { kind, bytes };
  if (kind === "rekey") return { kind };
  if (kind === "close")
    return { kind, code: view.getUint16(0), reason: Buffer.from(bytes.subarray(2)).toString() };
  if (kind === "ping" || kind === "pong")
    return { kind, value: bytes.length === 8 ? view.getBigUint64(0) : 0n };
  throw new Error(`nobody knows the kind ${kind}`);
}

/** Both ends make and take every record; the first one, a ping, is given as it was made. */
async function talk(client: Handshake, server: Handshake, first: Bytes, records: Scenario[], named: string) {
  const ends = { client: client.records(), server: server.records() };
  for (const [number, record] of records.entries()) {
    const sender = record.text("sender") as "client" | "server";
    const said = content(record.text("kind"), record.bytes(named));
    const message = record.text("message_hex");
    const receiver = sender === "client" ? "server" : "client";
    if (number === 0) {
      expect(digits(first)).toBe(message);
    } else {
      expect(digits(await ends[sender].sealer.seal(said, 0)), record.file).toBe(message);
      const opened = await ends[receiver].opener.open(hex(message));
      if (opened.kind === "data" && said.kind === "data")
        expect(digits(opened.bytes)).toBe(digits(said.bytes));
      else expect(opened).toEqual(said);
    }
    record.done();
  }
}

async function v1(v: Scenario): Promise<void> {
  const suite = suiteById(v.number("suite"))!;
  const id = v.text("channel_id");
  const psk = v.bytes("psk_hex");
  const time = v.number("timestamp_s");
  const [clientPrivate, serverPrivate] = [v.bytes("client_private_hex"), v.bytes("server_private_hex")];
  const [clientFeatures, serverFeatures] = [v.number("client_features"), v.number("server_features")];
  const [nonceC, nonceS] = [v.bytes("client_nonce_hex"), v.bytes("server_nonce_hex")];
  const side = (role: "client" | "server", features: number, of: Partial<HandshakeRandoms>): Handshake => {
    const given = { channelId: id, psk: new Secret(psk.slice()), suite, initExpiresS: time };
    return new Handshake(role, channelSettings(given, { features }), randoms(of));
  };
  const curve: Curve = suite.curve;
  const [c, s] = [await keyPair(curve, clientPrivate.slice()), await keyPair(curve, serverPrivate.slice())];
  const shared = await c.agree(s.publicKey);
  expect(digits(shared)).toBe(v.text("shared_hex"));
  const hash = transcriptHash({
    ...{ suite: suite.id, clientFeatures, serverFeatures, channelId: id, nonceC, nonceS },
    ...{ clientPublic: c.publicKey, serverPublic: s.publicKey },
  });
  expect(digits(hash)).toBe(v.text("transcript_hex"));
  expect(digits(authTag(psk, hash, time))).toBe(v.text("auth_tag_hex"));
  const keys = directions(psk, shared, hash);
  expect(digits(keys.client.key)).toBe(v.text("client_key_hex"));
  expect(digits(keys.server.key)).toBe(v.text("server_key_hex"));
  expect(digits(keys.client.rekeyBase)).toBe(v.text("rekey_base_hex"));
  expect(digits(keys.client.noncePrefix)).toBe(v.text("client_nonce_prefix_hex"));
  expect(digits(keys.server.noncePrefix)).toBe(v.text("server_nonce_prefix_hex"));

  const client = side("client", clientFeatures, { nonce: nonceC, ephemeral: new Secret(clientPrivate) });
  const server = side("server", serverFeatures, {
    nonce: nonceS,
    handshakeId: v.bytes("handshake_id_random_hex"),
    ephemeral: new Secret(serverPrivate),
  });
  await server.begin();
  const init = await client.begin();
  expect(payload(init)).toEqual(JSON.parse(v.text("init")));
  const resp = await server.read(init!, time);
  expect(payload(resp.send)).toEqual(JSON.parse(v.text("resp")));
  const ack = await client.read(resp.send!, time);
  expect(payload(ack.send)).toEqual(JSON.parse(v.text("ack")));
  const ping = await server.read(ack.send!, time);
  expect([ack.isDone, ping.isDone]).toEqual([false, true]);
  expect((await client.read(ping.send!, time)).isDone).toBe(true);
  await talk(client, server, ping.send!, v.list("records"), "plaintext_hex");
}

async function v1Record(v: Scenario): Promise<void> {
  const direction = () => ({
    key: v1Key.slice(),
    noncePrefix: prefix,
    rekeyBase: new Uint8Array(32),
    transcript: new Uint8Array(32),
    number: 1 as const,
  });
  const [v1Key, prefix] = [v.bytes("key_hex"), v.bytes("nonce_prefix_hex")];
  const said = content(v.text("kind"), v.bytes("plaintext_hex"));
  expect(v.number("seq")).toBe(1);
  const message = v.text("message_hex");
  expect(digits(await new V1Sealer(direction(), 1 << 20).seal(said))).toBe(message);
  expect(await new V1Opener(direction(), 1 << 20).open(hex(message))).toEqual(said);
}

async function published(v: Scenario): Promise<void> {
  const name = v.text("noise_name");
  const [prologue, psk] = [v.bytes("prologue_hex"), v.bytes("psk_hex")];
  const pair = async (member: string) => {
    const key = v.bytes(member);
    return key.length === 0 ? undefined : await keyPair("25519", key);
  };
  const [cs, ss] = [await pair("client_static_hex"), await pair("server_static_hex")];
  const [ce, se] = [await pair("client_ephemeral_hex"), await pair("server_ephemeral_hex")];
  const psks = new Map([[Number(/psk(\d)/.exec(name)![1]), psk]]);
  const shared = { name, prologue, psks };
  const [knowsServer, knowsClient] = [/KK|IK/.test(name), /KK/.test(name)];
  const client = new NoiseState({
    ...shared,
    ...{ role: "client", ephemeral: ce!, ownStatic: cs, peerStatic: knowsServer ? wire(ss!) : undefined },
  });
  const server = new NoiseState({
    ...shared,
    ...{ role: "server", ephemeral: se!, ownStatic: ss, peerStatic: knowsClient ? wire(cs!) : undefined },
  });
  for (const [number, message] of v.list("messages").entries()) {
    const [writer, reader] = number % 2 === 0 ? [client, server] : [server, client];
    const [said, sent] = [message.text("payload_hex"), message.text("message_hex")];
    expect(digits(await writer.write(hex(said)))).toBe(sent);
    expect(digits(await reader.read(hex(sent)))).toBe(said);
    message.done();
  }
  expect(digits(client.handshakeHash)).toBe(v.text("handshake_hash_hex"));
  const keys = [v.text("client_key_hex"), v.text("server_key_hex")];
  expect(client.split().map(digits)).toEqual(keys);
  expect(server.split().map(digits)).toEqual(keys);
}

async function native(v: Scenario): Promise<void> {
  const suite = suiteById(v.number("suite")) as NativeSuite;
  expect(suite.name).toBe(v.text("noise_name"));
  const [id, psk, expires] = [v.text("channel_id"), v.bytes("psk_hex"), v.number("init_expires_s")];
  const [cs, ss] = [v.bytes("client_static_hex"), v.bytes("server_static_hex")];
  const binding = bindingOf(v.text("audience"), v.text("issuer"));
  const shared = {
    ...{ allowedSuites: v.take("allowed_suites") as number[], binding },
    ...{ rekeyAfterRecords: v.number("rekey_after_records"), padTo: v.number("pad_to") },
  };
  const [kemPrivate, ciphertext, secret] = [
    v.bytes("kem_private_hex"),
    v.bytes("kem_ciphertext_hex"),
    v.secret("kem_secret_hex"),
  ];
  const side = async (
    role: "client" | "server",
    own: Bytes,
    peer: Bytes,
    ephemeral: Secret,
  ): Promise<Handshake> => {
    const statics = suite.hasStaticKeys
      ? { localStatic: new Secret(own.slice()), peerStatic: wire(await keyPair(suite.curve, peer.slice())) }
      : {};
    const given = { channelId: id, psk: new Secret(psk.slice()), suite, initExpiresS: expires };
    const settings = channelSettings(given, { ...shared, ...statics });
    expect(digits(prologueOf(settings))).toBe(prologue);
    const kem = { kemPrivate: new Secret(kemPrivate.slice()), kemEncapsulated: { ciphertext, secret } };
    return new Handshake(role, settings, randoms({ ephemeral, ...kem }));
  };
  const prologue = v.text("prologue_hex");
  const client = await side("client", cs, ss, v.secret("client_ephemeral_hex"));
  const server = await side("server", ss, cs, v.secret("server_ephemeral_hex"));
  await server.begin();
  let message = await client.begin();
  let reader = server;
  for (const frame of v.list("messages")) {
    expect(reader === server ? "client" : "server").toBe(frame.text("sender"));
    expect(digits(message)).toBe(frame.text("message_hex"));
    const progress = await reader.read(message!, expires);
    message = progress.send;
    reader = reader === server ? client : server;
    frame.done();
  }
  // What was sent last is the ping that proves the keys of the reader of the last message.
  expect((await reader.read(message!, expires)).isDone).toBe(true);
  const records = v.list("records");
  // The keys show in what they seal: the first record under each is opened with the key that the vector names.
  const keys = { client: v.bytes("client_key_hex"), server: v.bytes("server_key_hex") };
  const first = message!;
  const from = first[5] === 0 ? "client" : "server";
  const opened = await aead(suite.cipher, keys[from]).open(
    concat(new Uint8Array(4), first.slice(6, 14)),
    first.slice(18),
    first.slice(0, 18),
  );
  expect(digits(opened)).toBe("000000000000000002");
  expect(keys.client).not.toEqual(keys.server);
  await talk(client, server, first, records, "content_hex");
}

async function token(v: Scenario): Promise<void> {
  const seed = v.secret("seed_hex");
  const claims = v.object("claims");
  const made = v.text("token");
  const isLater = made.startsWith("FST2.");
  const said: Claims = {
    ...(isLater ? { form: "FST2", idleTimeoutSeconds: claims.number("idle_timeout_seconds") } : {}),
    ...{ kid: claims.text("kid"), aud: claims.text("aud"), iss: claims.text("iss") },
    ...{
      channelId: claims.text("channel_id"),
      role: claims.number("role"),
      tokenId: claims.text("token_id"),
    },
    ...{ initExp: claims.number("init_exp"), iat: claims.number("iat"), exp: claims.number("exp") },
  };
  claims.done();
  expect(signToken(said, seed)).toBe(made);
  expect(readClaims(made)).toEqual(said);
  expect(isSignedBy(made, tokenPublicKey(seed))).toBe(true);
  expect(isSignedBy(`${made.slice(0, -4)}AAAA`, tokenPublicKey(seed))).toBe(false);
  if (!isLater) return;
  for (const wrong of [{ idleTimeoutSeconds: 0 }, { role: 3 }, { tokenId: " " }, { iat: said.exp + 1 }])
    expect(() => readClaims(signToken({ ...said, ...wrong }, seed))).toThrow(/grant_invalid/);
}
