/** Tokens of every profile, and tokens that are wrong in one place each. */
import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import {
  genericJwe,
  MLE_PROFILES,
  MleCodec,
  type MleOptions,
  type MleProfile,
  OpeningKey,
  SealingKey,
} from "../../src/mle/index.js";
import { MemoryStore } from "../../src/server/index.js";
import { base64url, classOf, forge, type Lies } from "./forge.js";
import { codec, everything, forged, KID, key, NOW_MS, other, own } from "./shop.js";

function opened(token: string, profile?: MleOptions["profile"]): Promise<string> {
  return classOf(codec(profile).open("request", Buffer.from(token)));
}

describe("round trips", () => {
  const profiles: MleProfile[] = [...Object.values(MLE_PROFILES), everything("seconds"), everything()];
  const cases = profiles.flatMap((profile) =>
    (["request", "answer"] as const).flatMap((message) =>
      profile[message].algs.flatMap((alg) =>
        profile[message].encs.map((enc) => [profile.name, message, alg, enc, profile] as const),
      ),
    ),
  );

  it.each(cases)("%s, %s, %s with %s", async (_, message, alg, enc, profile) => {
    const seal = new SealingKey({ publicKey: own.certificate, kid: KID, alg, enc });
    const open = new OpeningKey({ privateKey: own.privateKey, kid: KID, alg });
    const both = new MleCodec({ profile, seal, open: [open], now: Date.now });
    for (const length of [0, 1, 15, 16, 17, 5000]) {
      const plaintext = new Uint8Array(randomBytes(length));
      const body = await both.seal(message, plaintext);
      expect(await both.open(message, body), `${length}`).toEqual(plaintext);
    }
  });

  it("the header and the body have the profile's form", async () => {
    const seal = new SealingKey({ publicKey: own.publicKey, kid: 'k"1' });
    const made = async (profile: MleOptions["profile"]) => {
      const body = await codec(profile, { seal }).seal("request", Buffer.from("{}"));
      const text = Buffer.from(body).toString();
      const [, member, header = ""] = /^\{"(\w+)":"([\w-]+)\.[\w.-]+"\}$/.exec(text) ?? [];
      return [member, Buffer.from(header, "base64url").toString()];
    };
    const start = '{"alg":"RSA-OAEP-256","enc":"A256GCM","kid":"k\\"1"';
    expect(await made("mastercard-jwe")).toEqual(["encryptedData", `${start},"cty":"application/json"}`]);
    expect(await made("visa")).toEqual(["encData", `${start},"iat":${NOW_MS}}`]);
    expect(await made("visa-acceptance")).toEqual(["encryptedRequest", `${start},"iat":${NOW_MS / 1000}}`]);
  });

  it("seals nothing outside of the profile, without a key, or with a certificate that is not valid", async () => {
    const cbc = new SealingKey({ publicKey: own.publicKey, kid: "k", enc: "A128CBC-HS256" });
    await expect(codec("visa", { seal: cbc }).seal("request", new Uint8Array())).rejects.toThrow(
      "the profile visa does not allow RSA-OAEP-256 with A128CBC-HS256",
    );
    await expect(codec("visa").seal("request", new Uint8Array())).rejects.toThrow("seal: a SealingKey");
    const seal = new SealingKey({ publicKey: own.certificate, kid: "k" });
    // The certificate is of today, and the codec's clock is not.
    await expect(codec("visa", { seal }).seal("request", new Uint8Array())).rejects.toThrow("not valid now");
  });
});

describe("wrong tokens", () => {
  const header = { alg: "RSA-OAEP-256", enc: "A256GCM", kid: KID };
  const text = JSON.stringify(header);
  const withMember = (more: string) => ({ header: `${text.slice(0, -1)},${more}}` });
  const part = (at: number, change: (part: string) => string) => (parts: string[]) =>
    parts.map((each, index) => (index === at ? change(each) : each));
  const point = `"kty":"EC","crv":"P-256","x":"${base64url(randomBytes(32))}","y":"${base64url(randomBytes(32))}"`;
  const agreement = (epk: string) => ({ header: `{"alg":"ECDH-ES","enc":"A256GCM","kid":"${KID}"${epk}}` });
  const nested = (depth: number) => `"x":${"[".repeat(depth)}${"]".repeat(depth)}`;

  const cases: [string, string, Lies][] = [
    ["four parts", "shape", { parts: (parts) => parts.slice(1) }],
    ["six parts", "shape", { parts: (parts) => [...parts, ""] }],
    ["padding", "base64", { parts: part(2, (iv) => `${iv}=`) }],
    ["a line feed", "base64", { parts: part(3, (text) => `${text}\n`) }],
    ["a slash", "base64", { parts: part(1, (text) => `/${text.slice(1)}`) }],
    ["bits behind the last byte", "base64", { parts: part(4, (tag) => `${tag.slice(0, -1)}B`) }],
    ["a header that is too long", "size", withMember(`"x":"${"x".repeat(4096)}"`)],
    ["an empty header", "header", { header: "" }],
    ["a header that is an array", "header", { header: "[]" }],
    ["a byte order mark", "header", { header: `\ufeff${text}` }],
    ["bytes behind the header", "header", { header: `${text}{}` }],
    ["a member twice", "header", withMember('"a":1,"\\u0061":2')],
    ["a name in another member twice is fine", "opened", withMember('"a":{"b":1,"b":2}')],
    ["half of a surrogate pair", "header", withMember('"a":"\\ud83d"')],
    ["a surrogate pair is fine", "opened", withMember('"a":"\\ud83d\\ude00 \\\\ud83d"')],
    ["half of a pair behind an escaped backslash", "header", withMember('"a":"\\\\ud83d\\ude00"')],
    ["two first halves", "header", withMember('"a":"\\ud83d\\ud83d\\ude00"')],
    ["a raw control character in a name", "header", withMember('"a\n":1')],
    ["nesting of 64", "opened", withMember(nested(63))],
    ["nesting of 65", "header", withMember(nested(64))],
    ["typ that is a number", "header", withMember('"typ":1')],
    ["crit", "crit", withMember('"crit":[]')],
    ["b64", "crit", withMember('"b64":true')],
    ["zip", "zip", withMember('"zip":"DEF"')],
    ...["jku", "jwk", "x5u", "x5c", "x5t", "epk", "apu", "apv", "iv", "tag", "p2s", "p2c"].map(
      (name): [string, string, Lies] => [name, "param", withMember(`"${name}":"x"`)],
    ),
    ["x5t#S256 of another certificate", "param", withMember(`"x5t#S256":"${base64url(randomBytes(32))}"`)],
    ["x5t#S256 of 31 bytes", "param", withMember(`"x5t#S256":"${base64url(randomBytes(31))}"`)],
    ["no alg", "alg", { header: { ...header, alg: undefined } }],
    ["alg with another letter case", "alg", { header: { ...header, alg: "rsa-oaep-256" } }],
    ["Alg", "alg", { header: { Alg: "RSA-OAEP-256", enc: "A256GCM", kid: KID } }],
    ...["none", "RSA1_5", "dir", "A256KW", "A256GCMKW", "PBES2-HS256+A128KW", "RSA-OAEP"].map(
      (alg): [string, string, Lies] => [`alg ${alg}`, "alg", { header: { ...header, alg } }],
    ),
    ["enc that is unknown", "enc", { header: { ...header, enc: "A256CBC" } }],
    ["enc of a prototype", "enc", { header: { ...header, enc: "constructor" } }],
    ["no kid", "kid", { header: { ...header, kid: undefined } }],
    ["a kid that is empty", "kid", { header: { ...header, kid: "" } }],
    ["a kid of 257 bytes", "kid", { header: { ...header, kid: "k".repeat(257) } }],
    ["a kid that is a number", "kid", { header: { ...header, kid: 1 } }],
    ["a kid that is unknown", "kid", { header: { ...header, kid: "../../etc/passwd\0" } }],
    ["iat with a fraction", "iat", withMember('"iat":1.0')],
    ["iat with an exponent", "iat", withMember('"iat":1e3')],
    ["iat that is a text", "iat", withMember('"iat":"1"')],
    ["iat that is negative", "iat", withMember('"iat":-1')],
    ["iat of 2^64", "iat", withMember('"iat":18446744073709551616')],
    ["iat of 2^64 - 1, in a profile without time", "opened", withMember('"iat":18446744073709551615')],
    ["ECDH-ES without epk", "epk", agreement("")],
    ["ECDH-ES on another curve", "epk", agreement(`,"epk":{${point.replace("P-256", "P-384")}}`)],
    ["ECDH-ES with a private key", "epk", agreement(`,"epk":{${point},"d":"x"}`)],
    ["ECDH-ES, for which there are no keys", "alg", agreement(`,"epk":{${point}}`)],
    ["an encrypted key that is too short", "shape", { parts: part(1, (text) => text.slice(0, -2)) }],
    ["no encrypted key", "shape", { parts: part(1, () => "") }],
    ["an IV of 16 bytes", "iv", { iv: randomBytes(16) }],
    ["an IV of 8 bytes", "iv", { iv: randomBytes(8) }],
    ["no IV", "iv", { parts: part(2, () => "") }],
    [
      "a tag that is cut",
      "tag",
      { parts: part(4, (tag) => base64url(Buffer.from(tag, "base64url").subarray(0, 12))) },
    ],
    ["no tag", "tag", { parts: part(4, () => "") }],
    ["a header that was encoded anew", "tag", { aad: base64url(JSON.stringify({ ...header, a: 1 })) }],
    ["a content key of another length", "unwrap", { contentKey: randomBytes(16) }],
    ["an encrypted key of random bytes", "unwrap", { parts: part(1, () => base64url(Buffer.alloc(256, 7))) }],
    ["a key wrapped with SHA-1", "unwrap", { alg: "RSA-OAEP", header }],
  ];

  it.each(cases)("%s: %s", async (_, wanted, lies) => {
    expect(await opened(forged(lies))).toBe(wanted);
  });

  it("a token that is too long: size", async () => {
    const body = Buffer.from(forged());
    const short = codec(everything(), { tokenMaxBytes: body.length - 1 });
    expect(await classOf(short.open("request", body))).toBe("size");
    expect(await classOf(codec(everything(), { tokenMaxBytes: body.length }).open("request", body))).toBe(
      "opened",
    );
  });

  it.each(["A256GCM", "A128CBC-HS256"] as const)(
    "each bit of a token with %s matters",
    { timeout: 300_000 },
    async (enc) => {
      const parts = forged({ enc, plaintext: "" })
        .split(".")
        .map((part) => Buffer.from(part, "base64url"));
      // The encrypted key has nothing to do with the content's algorithm.
      const flips = parts.flatMap((bytes, at) =>
        Array.from({ length: at === 1 && enc !== "A256GCM" ? 8 : 8 * bytes.length }, (_, bit) => {
          const flipped = Buffer.from(bytes);
          flipped[bit >> 3]! ^= 1 << (bit & 7);
          return parts.map((each, index) => base64url(index === at ? flipped : each)).join(".");
        }),
      );
      const found = await Promise.all(flips.map((token) => opened(token)));
      expect(found.indexOf("opened")).toBe(-1);
      expect([...new Set(found)]).toEqual(
        expect.arrayContaining(["header", "alg", "enc", "kid", "unwrap", "tag"]),
      );
    },
  );

  it("a bad padding behind a right MAC is refused as a tag", async () => {
    // A ciphertext of no block at all has no padding, and its MAC is right.
    const { createHmac } = await import("node:crypto");
    const contentKey = randomBytes(32);
    const iv = randomBytes(16);
    const token = forged({
      enc: "A128CBC-HS256",
      contentKey,
      iv,
      parts: ([head = "", wrapped = "", ivPart = ""]) => {
        const bits = Buffer.alloc(8);
        bits.writeBigUInt64BE(BigInt(8 * head.length));
        const mac = createHmac("sha256", contentKey.subarray(0, 16))
          .update(head)
          .update(iv)
          .update(bits)
          .digest();
        return [head, wrapped, ivPart, "", base64url(mac.subarray(0, 16))];
      },
    });
    expect(await opened(token)).toBe("tag");
  });

  it("no refusal shows plaintext, key or token, and what it quotes is cut and escaped", async () => {
    const token = forged({ header: { ...header, kid: `\u202e\n${"k".repeat(200)}` } });
    const error = await codec()
      .open("request", Buffer.from(token))
      .catch((caught) => caught);
    expect(error).toMatchObject({ name: "SealwayError", code: "unsealable", class: "kid" });
    expect(error.message).toMatch(/^no live key has this kid: "\\u\{202e\}\\nk{62}"…$/);
  });
});

describe("profiles", () => {
  const wrapped = (name: string, token: string) => Buffer.from(`{"${name}":"${token}"}`);

  it("mastercard-jwe reads + and /, IVs of 16 bytes, and no time; the others do not", async () => {
    const master = codec("mastercard-jwe");
    const visa = codec("visa");
    for (let round = 0; round < 4; round += 1) {
      const plain = forged({ iv: randomBytes(round % 2 === 0 ? 16 : 12), enc: "A128GCM" });
      const mixed = plain.replaceAll("_", "/").replaceAll("-", round > 1 ? "+" : "-");
      const body = await master.open("request", wrapped("encryptedData", mixed));
      expect(Buffer.from(body).toString()).toBe('{"pan":"4111"}');
    }
    const timed = {
      header: { alg: "RSA-OAEP-256", enc: "A128GCM", kid: KID, iat: NOW_MS },
      enc: "A128GCM",
    } as const;
    const slashed = forged(timed).replace(/[\w-]\./, "/.");
    expect(await classOf(visa.open("request", wrapped("encData", slashed)))).toBe("base64");
    expect(
      await classOf(visa.open("request", wrapped("encData", forged({ ...timed, iv: randomBytes(16) })))),
    ).toBe("iv");
    expect(await classOf(visa.open("request", wrapped("encData", forged(timed))))).toBe("opened");
  });

  it.each([
    ["milliseconds", NOW_MS, "opened"],
    ["milliseconds", NOW_MS - 300_000, "opened"],
    ["milliseconds", NOW_MS - 300_001, "iat"],
    ["milliseconds", NOW_MS + 300_001, "iat"],
    ["milliseconds", NOW_MS / 1000, "iat"],
    ["milliseconds", undefined, "iat"],
    ["seconds", NOW_MS / 1000, "opened"],
    ["seconds", NOW_MS / 1000 + 301, "iat"],
    ["seconds", NOW_MS, "iat"],
    ["seconds", undefined, "iat"],
  ] as const)("a time in %s of %s: %s", async (unit, iat, wanted) => {
    const header = { alg: "RSA-OAEP-256", enc: "A256GCM", kid: KID, iat };
    expect(await opened(forged({ header }), everything(unit))).toBe(wanted);
    const answer = classOf(codec(everything(unit)).open("answer", Buffer.from(forged({ header }))));
    expect(await answer).toBe(iat === undefined ? "opened" : wanted);
  });

  it("answers of visa-acceptance may use what its requests may not", async () => {
    const sha1 = new OpeningKey({ privateKey: own.privateKey, kid: KID, alg: "RSA-OAEP" });
    const { publicKey } = own;
    const body = (name: string) => wrapped(name, forge(publicKey, KID, { alg: "RSA-OAEP", enc: "A128GCM" }));
    const both = codec("visa-acceptance", { open: [sha1] });
    expect(await classOf(both.open("answer", body("encryptedResponse")))).toBe("opened");
    expect(await classOf(both.open("request", body("encryptedRequest")))).toBe("alg");
  });

  it.each([
    ["", "not JSON"],
    ["{}", "no member"],
    ['{"encData":"TOKEN","pan":"4111"}', "a member beside it"],
    ['{"encData":"TOKEN","encData":"TOKEN"}', "the member twice"],
    ['{"encdata":"TOKEN"}', "another letter case"],
    ['{"encData":["TOKEN"]}', "no text"],
    ['["TOKEN"]', "an array"],
    ['{"encData":"TOKEN"} {', "bytes behind it"],
    ["TOKEN", "a bare token"],
  ])("the body %s is refused: %s", async (body) => {
    const header = { alg: "RSA-OAEP-256", enc: "A256GCM", kid: KID, iat: NOW_MS };
    const token = forged({ header });
    expect(await classOf(codec("visa").open("request", Buffer.from(body.replaceAll("TOKEN", token))))).toBe(
      "json",
    );
    const spaced = ` {\n"enc\\u0044ata" : "${token.replaceAll(".", "\\u002e")}" }`;
    expect(await classOf(codec("visa").open("request", Buffer.from(spaced)))).toBe("opened");
  });

  it("a token without kid is opened only where the profile allows it and one key is live", async () => {
    const header = { alg: "RSA-OAEP-256", enc: "A256GCM" };
    const second = new OpeningKey({ privateKey: other.privateKey, kid: "second" });
    const loose = genericJwe({ isKidOptional: true });
    expect(await opened(forged({ header }), loose)).toBe("opened");
    expect(await opened(forged({ header }))).toBe("kid");
    const two = codec(loose, { open: [key, second] });
    expect(await classOf(two.open("request", Buffer.from(forged({ header }))))).toBe("kid");
  });

  it("the header keyId must be the kid", async () => {
    const open = (...said: string[]) =>
      classOf(
        codec().open(
          "request",
          Buffer.from(forged()),
          said.map((each) => ["KeyId", each]),
        ),
      );
    expect([await open(KID), await open("other"), await open(KID, "other")]).toEqual([
      "opened",
      "kid",
      "kid",
    ]);
  });
});

describe("replays", () => {
  const body = (token: string) => Buffer.from(`{"encryptedData":"${token}"}`);

  it("a token opens once, in whatever letters it is written", async () => {
    const store = new MemoryStore(300_000, 10, () => NOW_MS);
    const once = codec("mastercard-jwe", { store });
    let token = forged();
    while (!token.includes("_")) token = forged();
    expect(await classOf(once.open("request", body(token)))).toBe("opened");
    expect(await classOf(once.open("request", body(token)))).toBe("replayed");
    expect(await classOf(once.open("request", body(token.replaceAll("_", "/"))))).toBe("replayed");
    expect(await classOf(once.open("request", body(forged())))).toBe("opened");
  });

  it("the claim is the fingerprint of the decoded parts, stamped with iat or ahead of the clock", async () => {
    const claims: unknown[] = [];
    const claim = async (made: unknown) => {
      claims.push(made);
      return "fresh" as const;
    };
    const store = { claim };
    const { createHash } = await import("node:crypto");
    const iat = NOW_MS / 1000 - 7;
    const timed = forged({ header: { alg: "RSA-OAEP-256", enc: "A256GCM", kid: KID, iat } });
    const parts = timed.split(".").flatMap((part) => {
      const bytes = Buffer.from(part, "base64url");
      const length = Buffer.alloc(8);
      length.writeUInt32BE(bytes.length, 4);
      return [length, bytes];
    });
    const hash = createHash("sha256")
      .update(Buffer.concat([Buffer.of(5), ...parts]))
      .digest();
    await codec(everything("seconds"), { store }).open("request", Buffer.from(timed));
    await codec(everything(), { store, windowMs: 1001 }).open("request", Buffer.from(forged()));
    await codec(everything(), { store }).open("answer", Buffer.from(forged()));
    expect(claims).toEqual([
      { key: new Uint8Array(hash.subarray(0, 16)), sealed: false, stampMs: 1000 * iat },
      { key: expect.any(Uint8Array), sealed: false, stampMs: NOW_MS + 500 },
    ]);
  });

  it("a token that does not open claims nothing, and a full store opens nothing", async () => {
    const store = new MemoryStore(300_000, 1, () => NOW_MS);
    const once = codec("mastercard-jwe", { store });
    const token = forged();
    const broken = `${token.slice(0, -3)}AAA`;
    expect(await classOf(once.open("request", body(broken)))).toMatch(/tag|base64/);
    expect(await classOf(once.open("request", body(token)))).toBe("opened");
    await expect(once.open("request", body(forged()))).rejects.toMatchObject({ code: "nonces_full" });
  });
});
