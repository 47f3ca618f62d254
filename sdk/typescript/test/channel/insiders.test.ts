/** A peer that has the channel's secret, and uses it to say what no honest one says under the native profile. */
import { describe, expect, it } from "vitest";
import { aead } from "../../src/channel/aead.js";
import { type KeyPair, keyPair } from "../../src/channel/agreement.js";
import { type Bytes, concat, utf8 } from "../../src/channel/encoding.js";
import { handshakeFrame, handshakePayload, nonceOf, recordHeader } from "../../src/channel/frame.js";
import { ChannelError, type Role, Secret, suiteById } from "../../src/channel/index.js";
import { prologueOf } from "../../src/channel/noise/handshake.js";
import { NativeOpener, NativeSealer } from "../../src/channel/noise/record.js";
import { NoiseState } from "../../src/channel/noise/state.js";
import { channelSettings } from "../../src/channel/settings.js";
import { handshakes, NOW_S } from "./pair.js";

const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "nothing was refused",
    (error: unknown) => (error instanceof ChannelError ? error.code : `not typed: ${String(error)}`),
  );

/** The peer's half of the handshakes of `pair.ts`, with a key of its own choice. */
function insider(id: number, role: Role, ephemeral: KeyPair): NoiseState {
  const psks = new Map([[0, new Uint8Array(32).fill(7)]]);
  const { name } = suiteById(id)!;
  return new NoiseState({ name, role, prologue: prologueOf(settings(id)), psks, ephemeral });
}

function settings(id: number) {
  const psk = new Secret(new Uint8Array(32).fill(7));
  return channelSettings({ channelId: "pair", psk, suite: suiteById(id)!, initExpiresS: 2_000_000_000 });
}

/** A pair that shows a public key that it has no private one for. */
const showing = (curve: "25519" | "P256", publicKey: Bytes): KeyPair => ({
  curve,
  publicKey,
  agree: async () => new Uint8Array(32),
});
const ones = (length: number, first: number[] = []): Bytes => {
  const bytes = new Uint8Array(length).fill(0xff);
  bytes.set(first);
  return bytes;
};
const own = (id: number): Promise<KeyPair> =>
  keyPair((id & 2) === 0 ? "25519" : "P256", new Uint8Array(32).fill(5));

describe("a first message of an insider is rejected by our server:", () => {
  const X25519_ONE = ones(32).fill(0);
  X25519_ONE[0] = 1;
  it.each<[string, string, number, KeyPair | undefined, Bytes]>([
    ["a key of zeros", "peer_key_invalid", 0x100, showing("25519", new Uint8Array(32)), new Uint8Array()],
    ["a key of small order", "peer_key_invalid", 0x100, showing("25519", X25519_ONE), new Uint8Array()],
    ["a point that is none", "peer_key_invalid", 0x102, showing("P256", ones(65, [4])), new Uint8Array()],
    ["a payload where none is due", "handshake_field_invalid", 0x100, undefined, utf8("x")],
    ["no ML-KEM key", "peer_key_invalid", 0x104, undefined, new Uint8Array()],
    ["an ML-KEM key that is cut off", "peer_key_invalid", 0x104, undefined, new Uint8Array(1183)],
    ["an ML-KEM key with a rest", "peer_key_invalid", 0x104, undefined, new Uint8Array(1185)],
    ["an ML-KEM key that is not reduced", "peer_key_invalid", 0x104, undefined, ones(1184)],
  ])("%s is %s", async (_, code, id, key, payload) => {
    const { server } = handshakes(id);
    await server.begin();
    const message = await insider(id, "client", key ?? (await own(id))).write(payload);
    expect(await codeOf(server.read(handshakeFrame("native", 1, message), NOW_S))).toBe(code);
    expect(await codeOf(server.read(handshakeFrame("native", 1, message), NOW_S))).toBe("handshake_state");
  });
});

describe("a second message of an insider is rejected by our client:", () => {
  it.each<[string, string, number, KeyPair | undefined, Bytes]>([
    ["a key of zeros", "peer_key_invalid", 0x100, showing("25519", new Uint8Array(32)), new Uint8Array()],
    ["a point that is none", "peer_key_invalid", 0x102, showing("P256", ones(65, [4])), new Uint8Array()],
    ["a payload where none is due", "handshake_field_invalid", 0x100, undefined, utf8("x")],
  ])("%s is %s", async (_, code, id, key, payload) => {
    const { client } = handshakes(id);
    const server = insider(id, "server", key ?? (await own(id)));
    await server.read(handshakePayload("native", 1, (await client.begin())!));
    const message = handshakeFrame("native", 2, await server.write(payload));
    expect(await codeOf(client.read(message, NOW_S))).toBe(code);
    expect(await codeOf(client.read(message, NOW_S))).toBe("handshake_state");
  });

  it("a message without its ML-KEM ciphertext is handshake_frame_invalid, with another one handshake_unauthentic", async () => {
    for (const [code, change] of [
      ["handshake_frame_invalid", (payload: Bytes) => payload.slice(1088)],
      ["handshake_unauthentic", (payload: Bytes) => concat(new Uint8Array(1088), payload.slice(1088))],
    ] as const) {
      const { client, server } = handshakes(0x104);
      await server.begin();
      const second = await server.read((await client.begin())!, NOW_S);
      const payload = handshakePayload("native", 2, second.send!);
      expect(await codeOf(client.read(handshakeFrame("native", 2, change(payload)), NOW_S))).toBe(code);
    }
  });
});

it("a first record other than a ping does not confirm the keys", async () => {
  const { server } = handshakes(0x100);
  await server.begin();
  const client = insider(0x100, "client", await own(0x100));
  const first = handshakeFrame("native", 1, await client.write(new Uint8Array()));
  const second = await server.read(first, NOW_S);
  await client.read(handshakePayload("native", 2, second.send!));
  const sealer = new NativeSealer("AESGCM", client.split()[0], "client", settings(0x100));
  const record = await sealer.seal({ kind: "data", bytes: utf8("x") }, 0);
  expect(await codeOf(server.read(record, NOW_S))).toBe("unconfirmed");
  expect(() => server.records()).toThrowError(/handshake_state/);
});

describe("a record that opens with forbidden content is rejected:", () => {
  const reason = new Uint8Array(124).fill(0x61);
  it.each<[string, number[] | Uint8Array]>([
    ["nothing", []],
    ["padding alone", [0, 0, 0]],
    ["an unknown kind", [6]],
    ["no kind, and a key that changes", [0x80]],
    ["a ping of 3 bytes", [1, 2, 3, 2]],
    ["a pong of 9 bytes", [0, 0, 0, 0, 0, 0, 0, 0, 0, 3]],
    ["a rekey that keeps the key", [4]],
    ["a rekey with content", [1, 0x84]],
    ["a close without its code", [0, 5]],
    ["a close whose reason is no UTF-8", [0, 0, 0xff, 5]],
    ["a close whose reason is too long", concat(new Uint8Array(2), reason, Uint8Array.of(5))],
  ])("%s", async (_, inner) => {
    for (const cipher of ["AESGCM", "ChaChaPoly"] as const) {
      const key = new Uint8Array(32).fill(3);
      const opener = new NativeOpener(cipher, key.slice(), "server");
      const header = recordHeader("native", 0, 1, inner.length + 16);
      const sealed = await aead(cipher, key).seal(
        nonceOf(new Uint8Array(4), header),
        Uint8Array.from(inner),
        header,
      );
      expect(await codeOf(opener.open(concat(header, sealed)))).toBe("record_content");
      expect(await codeOf(opener.open(concat(header, sealed)))).toBe("channel_closed");
    }
  });
});
