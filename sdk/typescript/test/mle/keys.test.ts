/** Keys of a codec: their names, what is wrong with one, and two at once. */
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { genericJwe, MleCodec, OpeningKey, SealingKey } from "../../src/mle/index.js";
import { isRoca } from "../../src/mle/keys.js";
import { classOf, forge, makePair } from "./forge.js";
import { codec, forged, KID, key, other, own } from "./shop.js";

describe("keys", () => {
  it("names derive as the specification says", () => {
    const named = (kidFrom: string) => [
      new SealingKey({ publicKey: own.certificate, kidFrom: kidFrom as "x5t_s256" }).kid,
      new OpeningKey({ ...own, kidFrom: kidFrom as "x5t_s256" }).kid,
    ];
    const forms: [string, RegExp][] = [
      ["spki_sha256_hex", /^[0-9a-f]{64}$/],
      ["certificate_sha256_hex", /^[0-9a-f]{64}$/],
      ["certificate_sha256_base64", /^[A-Za-z0-9+/]{43}=$/],
      ["x5t_s256", /^[\w-]{43}$/],
      ["subject_serial_number", /^1718$/],
      ["jwk_thumbprint", /^[\w-]{43}$/],
    ];
    for (const [source, form] of forms) {
      const [sealing, opening] = named(source);
      expect(sealing, source).toMatch(form);
      expect(opening).toBe(sealing);
    }
  });

  const weak = makePair("/CN=weak", "-newkey", "rsa:1024");
  const pss = makePair("/CN=pss", "-newkey", "rsa-pss", "-pkeyopt", "rsa_keygen_bits:2048");
  it.each<[string, () => unknown]>([
    ["1024 bits", () => new OpeningKey({ privateKey: weak.privateKey, kid: "k" })],
    ["1024 bits", () => new SealingKey({ publicKey: weak.publicKey, kid: "k" })],
    ["RSASSA-PSS", () => new OpeningKey({ privateKey: pss.privateKey, kid: "k" })],
    ["holds a private key", () => new SealingKey({ publicKey: own.privateKey, kid: "k" })],
    ["0 private keys", () => new OpeningKey({ privateKey: own.certificate, kid: "k" })],
    ["2 private keys", () => new OpeningKey({ privateKey: own.privateKey + own.privateKey, kid: "k" })],
    ["2 certificates", () => new SealingKey({ publicKey: own.certificate + own.publicKey, kid: "k" })],
    [
      "cannot be read",
      () => new OpeningKey({ privateKey: own.privateKey.replace(/\n.{9}/, "\n"), kid: "k" }),
    ],
    ["PEM text", () => new OpeningKey({ privateKey: Buffer.from(own.privateKey) as never, kid: "k" })],
    [
      "not that of the private key",
      () => new OpeningKey({ ...own, certificate: other.certificate, kid: "k" }),
    ],
    ["give a certificate", () => new OpeningKey({ ...own, certificate: own.publicKey, kid: "k" })],
    ["either kid or kidFrom", () => new OpeningKey({ privateKey: own.privateKey })],
    ["1 to 256 bytes", () => new OpeningKey({ privateKey: own.privateKey, kid: "" })],
    ["derives from a certificate", () => new SealingKey({ publicKey: own.publicKey, kidFrom: "x5t_s256" })],
    [
      "no serialNumber",
      () => new SealingKey({ publicKey: other.certificate, kidFrom: "subject_serial_number" }),
    ],
    ["kidFrom: one of", () => new SealingKey({ publicKey: own.publicKey, kidFrom: "toString" as never })],
    ["alg: ", () => new SealingKey({ publicKey: own.publicKey, kid: "k", alg: "RSA1_5" as never })],
    ["enc: ", () => new SealingKey({ publicKey: own.publicKey, kid: "k", enc: "A256CBC" as never })],
    ['two keys have the kid "shop-2030"', () => new MleCodec({ profile: "visa", open: [key, key] })],
    ["profile: ", () => new MleCodec({ profile: "master" as never })],
    ["profile: ", () => new MleCodec({ profile: "constructor" as never })],
    ["windowMs", () => new MleCodec({ profile: "visa", windowMs: -1 })],
    ["algs: ", () => genericJwe({ algs: ["dir" as never] })],
  ])("%s is named when a key or an option is wrong", (named, make) => {
    expect(make).toThrow(
      expect.objectContaining({ name: "SealwayError", code: "usage", stage: "configuration" }),
    );
    expect(make).toThrow(named);
  });

  it("PKCS#1 and an encrypted key are told apart", async () => {
    const { createPrivateKey } = await import("node:crypto");
    const made = createPrivateKey(own.privateKey);
    const pkcs1 = made.export({ type: "pkcs1", format: "pem" }).toString();
    expect(new OpeningKey({ privateKey: pkcs1, kidFrom: "spki_sha256_hex" }).kid).toBe(
      new SealingKey({ publicKey: own.publicKey, kidFrom: "spki_sha256_hex" }).kid,
    );
    for (const type of ["pkcs8", "pkcs1"] as const) {
      const options = { type, format: "pem", cipher: "aes-128-cbc", passphrase: "p" } as const;
      const privateKey = made.export(options as never).toString();
      expect(() => new OpeningKey({ privateKey, kid: "k" })).toThrow("it is encrypted");
    }
  });

  it("a modulus with the structure of CVE-2017-15361 is known", () => {
    const product =
      2n * 3n * 5n * 7n * 11n * 13n * 17n * 19n * 23n * 29n * 31n * 37n * 41n * 43n * 47n * 53n * 59n;
    const all =
      product *
      61n *
      67n *
      71n *
      73n *
      79n *
      83n *
      89n *
      97n *
      101n *
      103n *
      107n *
      109n *
      113n *
      127n *
      131n;
    const rest = all * 137n * 139n * 149n * 151n * 157n * 163n * 167n;
    expect(isRoca(65537n ** 5n + 12345n * rest)).toBe(true);
    expect(isRoca(65537n ** 5n + 12345n * rest + 2n)).toBe(false);
  });

  it("nothing printed holds a key", () => {
    for (const shown of [inspect(key, { depth: 9, showHidden: true }), JSON.stringify(key)])
      expect(shown).not.toMatch(/BEGIN|MII|pkcs8/);
  });

  it("two keys are live at once, and each opens what was sealed to it", async () => {
    const next = new OpeningKey({ privateKey: other.privateKey, kid: "shop-2031" });
    const rotating = codec("mastercard-jwe", { open: [key, next] });
    const bodies = [forged(), forge(other.publicKey, "shop-2031"), forge(other.publicKey, KID)].map((token) =>
      Buffer.from(`{"encryptedData":"${token}"}`),
    );
    const found = await Promise.all(bodies.map((body) => classOf(rotating.open("request", body))));
    expect(found).toEqual(["opened", "opened", "unwrap"]);
  });
});
