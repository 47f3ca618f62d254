/** Identity keys and roots of every algorithm, suites that are off by default, and downgrades of both, over HTTP. */
import { afterEach, describe, expect, it } from "vitest";
import {
  type ClientOptions,
  createClient,
  memoryTrustStore,
  SIGNATURE_ALGORITHMS,
  type SignatureAlgorithm,
  SUITES,
  type TrustStore,
} from "../../src/index.js";
import { toBase64 } from "../../src/wire/base64.js";
import { type Bytes, concat, utf8 } from "../../src/wire/bytes.js";
import { fields } from "../../src/wire/fields.js";
import { keySetOf, Signer } from "../signer.js";
import { Service } from "./service.js";

const COMPOSITES = ["ES256+ML-DSA-65", "ES384+ML-DSA-87"] as const;
const NOT_ES256 = SIGNATURE_ALGORITHMS.filter((algorithm) => algorithm !== "ES256");

let service: Service;
afterEach(() => service?.stop());

async function start(algorithm: SignatureAlgorithm): Promise<Signer> {
  service = await Service.start(algorithm);
  return service.identity;
}

const client = (more: Partial<ClientOptions> & Pick<ClientOptions, "trust">) =>
  createClient({ url: service.url, suites: ["P256"], headTimeoutMs: 5000, ...more });
const pin = (key: Signer): string => toBase64(key.publicKey);
const pinned = (key: Signer): ClientOptions["trust"] => ({ pins: [pin(key)] });
const call = async (more: Parameters<typeof client>[0]) => (await client(more).fetch("/order")).text();

/** Runs calls at a time when a session of five minutes is to be renewed, and checks that it was. */
async function renewed(run: () => Promise<void>): Promise<void> {
  const real = performance.now.bind(performance);
  performance.now = () => real() + 280_000;
  try {
    await run();
  } finally {
    performance.now = real;
  }
  expect(service.count(/renew$/)).toBe(1);
}

/** Keeps the bodies of inits as they arrive, and passes on what `change` makes of them. */
function intercept(change: (members: Record<string, unknown>) => object = (members) => members): any[] {
  const seen: any[] = [];
  service.received = (body: Bytes) => {
    const members = JSON.parse(new TextDecoder().decode(body));
    seen.push(members);
    return utf8(JSON.stringify(change(structuredClone(members))));
  };
  return seen;
}

describe.each(SIGNATURE_ALGORITHMS)("an identity key of %s", (algorithm) => {
  it("is accepted if it is pinned by key or id, also in a renewal", async () => {
    const own = await start(algorithm);
    for (const trust of [pinned(own), { pins: [own.id] }]) {
      const made = client({ trust });
      expect(await (await made.fetch("/order")).text()).toBe("served");
      expect(made.session?.keyId).toBe(own.id);
      await made.end();
    }
    service.expiresInSec = 300;
    const made = client({ trust: pinned(own), signatureAlgorithms: [algorithm] });
    await made.connect();
    await renewed(async () => expect(await (await made.fetch("/order")).text()).toBe("served"));
  });

  it("is accepted below a root of the same algorithm, and at first use, of which the store is read again", async () => {
    const own = await start(algorithm);
    const root = await Signer.make(algorithm);
    service.keySet = await keySetOf([own], root);
    const signatureAlgorithms = [algorithm];
    expect(await call({ trust: { root: pin(root) }, signatureAlgorithms })).toBe("served");
    const firstUse = memoryTrustStore();
    expect(await call({ trust: { firstUse }, signatureAlgorithms })).toBe("served");
    service.keySet = {};
    expect(await call({ trust: { firstUse } })).toBe("served");
  });

  it("verifies no signature that was changed, cut or made longer", async () => {
    const own = await start(algorithm);
    const changes: ((signature: Bytes) => Uint8Array)[] = [
      (signature) => signature.map((byte, at) => (at === 5 ? byte ^ 1 : byte)),
      (signature) => signature.map((byte, at) => (at === signature.length - 60 ? byte ^ 1 : byte)),
      (signature) => signature.subarray(1),
      (signature) => concat(signature, Uint8Array.of(0)),
      (signature) => new Uint8Array(signature.length),
    ];
    for (const change of changes) {
      service.sign = (_, message) => Uint8Array.from(change(own.sign(message)));
      await expect(call({ trust: pinned(own) })).rejects.toMatchObject({ code: "signature_invalid" });
    }
  });
});

describe("the option signatureAlgorithms", () => {
  it("is not sent if it is absent, and selects the key if it is there", async () => {
    const first = await start("ML-DSA-65");
    const root = await Signer.make();
    const [second, third] = [await Signer.make("ES256+ML-DSA-65"), await Signer.make()];
    service.identities = [first, second, third];
    service.keySet = await keySetOf(service.identities, root);
    const seen = intercept();
    const keyOf = async (more: Partial<ClientOptions>) => {
      const made = client({ trust: { root: pin(root) }, ...more });
      await made.connect();
      return made.session?.keyId;
    };
    expect(await keyOf({})).toBe(third.id);
    expect(Object.keys(seen[0])).toEqual(["suite", "suites", "share", "client_id"]);
    // Of ES256 too: the root itself is an ES256 key.
    expect(await keyOf({ signatureAlgorithms: ["ES256", "ES256+ML-DSA-65"] })).toBe(second.id);
    expect(seen[1].signature_algorithms).toEqual(["ES256", "ES256+ML-DSA-65"]);
    expect(await keyOf({ signatureAlgorithms: ["ES256", "ML-DSA-65", "ES256"] })).toBe(first.id);
    expect(seen[2].signature_algorithms).toEqual(["ES256", "ML-DSA-65"]);
    expect(await keyOf({ trust: { pins: [third.id, second.id] } })).toBe(second.id);
    expect(await keyOf({ trust: { pins: [third.id, second.id] }, signatureAlgorithms: ["ES256"] })).toBe(
      third.id,
    );
    service.identities = [first, second];
    await expect(keyOf({ signatureAlgorithms: ["ES256"] })).rejects.toMatchObject({ code: "key_retired" });
  });

  it("rejects pins and a root of other algorithms before anything is sent", async () => {
    const own = await start("ES384+ML-DSA-87");
    const [part] = own.parts;
    for (const trust of [pinned(own), { root: pin(own) }, { pins: [toBase64(part!.publicKey)] }]) {
      const made = client({ trust, signatureAlgorithms: ["ES256", "ML-DSA-87"] });
      const error = await made.connect().catch((caught) => caught);
      expect(error).toMatchObject({ code: "usage", stage: "configuration" });
      expect(error.message).toMatch(/ES384.* is not of signatureAlgorithms/);
    }
    expect(service.seen).toEqual([]);
  });

  it("rejects a pinned composite key whose point is off the curve", async () => {
    const own = await start("ES256+ML-DSA-65");
    const off = own.publicKey.map((byte, at) => (at === 64 ? byte ^ 1 : byte));
    await expect(call({ trust: { pins: [toBase64(off)] } })).rejects.toMatchObject({ code: "usage" });
    expect(service.seen).toEqual([]);
  });

  it("leaves keys of other algorithms out of a first-use store, and finds them once they are accepted", async () => {
    const own = await start("ES256");
    const [next, odd] = [await Signer.make("ES256+ML-DSA-65"), await Signer.make("ES384")];
    service.identities = [own, next, odd];
    service.keySet = await keySetOf(service.identities);
    const firstUse: TrustStore = memoryTrustStore();
    const kept = () => (firstUse.load(service.url) as any).keys.map(({ keyId }: any) => keyId);
    expect(await call({ trust: { firstUse } })).toBe("served");
    expect(kept()).toEqual([own.id]);
    expect(await call({ trust: { firstUse }, signatureAlgorithms: ["ES256", "ES256+ML-DSA-65"] })).toBe(
      "served",
    );
    expect(kept().sort()).toEqual([own.id, next.id].sort());
    service.identities = [next];
    expect(await call({ trust: { firstUse }, signatureAlgorithms: ["ES256+ML-DSA-65"] })).toBe("served");
    service.identities = [odd];
    await expect(call({ trust: { firstUse } })).rejects.toMatchObject({ code: "key_retired" });
  });

  it("rejects a first-use store without a key of these algorithms before anything is sent", async () => {
    const own = await start("ES256");
    const firstUse = memoryTrustStore();
    expect(await call({ trust: { firstUse } })).toBe("served");
    const sent = service.seen.length;
    const made = client({ trust: { firstUse }, signatureAlgorithms: ["ES384"] });
    const error = await made.connect().catch((caught) => caught);
    expect(error).toMatchObject({ code: "usage", stage: "configuration" });
    expect(error.message).toMatch(/is of ES256, and none of it is of signatureAlgorithms/);
    expect(service.seen.length).toBe(sent);
    expect(await call({ trust: { firstUse }, signatureAlgorithms: ["ES384", "ES256"] })).toBe("served");
    expect(own.algorithm).toBe("ES256");
  });
});

describe("a downgrade by an attacker on the path", () => {
  it.each(NOT_ES256)("of a client that accepts %s alone, by another list, is rejected", async (algorithm) => {
    const own = await start(algorithm);
    const [root, weak] = [await Signer.make(algorithm), await Signer.make()];
    service.identities = [own, weak];
    service.keySet = await keySetOf(service.identities, root);
    const trust = { root: pin(root) };
    const signatureAlgorithms = [algorithm];
    for (const [change, code] of [
      [() => ({}), "key_untrusted"],
      [() => ({ signature_algorithms: ["ES256"] }), "key_untrusted"],
      [() => ({ signature_algorithms: ["ES256", algorithm] }), "signature_invalid"],
      [() => ({ signature_algorithms: [algorithm, "none"] }), "signature_invalid"],
    ] as [() => object, string][]) {
      intercept(({ signature_algorithms: __, ...members }) => ({ ...members, ...change() }));
      await expect(call({ trust, signatureAlgorithms })).rejects.toMatchObject({ code });
    }
    // Also if the key is pinned, and the service signs by it anyway.
    intercept(({ signature_algorithms: __, ...members }) => members);
    await expect(call({ trust: pinned(own), signatureAlgorithms })).rejects.toMatchObject({
      code: "signature_invalid",
    });
    intercept((members) => ({ ...members, signature_algorithms: [algorithm] }));
    await expect(call({ trust: pinned(own) })).rejects.toMatchObject({ code: "signature_invalid" });
  });

  it.each(NOT_ES256)(
    "to %s, of a client below a root that accepts ES256 alone, is rejected",
    async (algorithm) => {
      const own = await start(algorithm);
      const root = await Signer.make();
      service.keySet = await keySetOf([own], root);
      intercept((members) => ({ ...members, signature_algorithms: [algorithm] }));
      for (const more of [{}, { signatureAlgorithms: ["ES256"] as const }])
        await expect(call({ trust: { root: pin(root) }, ...more })).rejects.toMatchObject({
          code: "key_untrusted",
        });
      await expect(call({ trust: { firstUse: memoryTrustStore() } })).rejects.toMatchObject({
        code: "key_untrusted",
      });
    },
  );

  it.each(COMPOSITES)("to one part of %s is rejected", async (algorithm) => {
    const own = await start(algorithm);
    const [classical, quantum] = own.parts as [Signer, Signer];
    const other = await Signer.make(algorithm);
    const [strange, stranger] = other.parts as [Signer, Signer];
    const bound = (message: Bytes) => concat(fields(algorithm), message);
    const forged: ((message: Bytes) => Uint8Array)[] = [
      // One part alone, and the other absent, zero, of a stranger, or over the message that a single key signs.
      (message) => classical.sign(bound(message)),
      (message) => quantum.sign(bound(message)),
      (message) => concat(classical.sign(bound(message)), new Uint8Array(quantum.sign(message).length)),
      (message) => concat(new Uint8Array(classical.sign(message).length), quantum.sign(bound(message))),
      (message) => concat(classical.sign(bound(message)), stranger.sign(bound(message))),
      (message) => concat(strange.sign(bound(message)), quantum.sign(bound(message))),
      (message) => concat(classical.sign(message), quantum.sign(bound(message))),
      (message) => concat(classical.sign(bound(message)), quantum.sign(message)),
      (message) => concat(classical.sign(message), quantum.sign(message)),
      // Swapped parts, and the name of another algorithm.
      (message) => concat(quantum.sign(bound(message)), classical.sign(bound(message))),
      (message) => {
        const lower = concat(fields(algorithm.toLowerCase()), message);
        return concat(classical.sign(lower), quantum.sign(lower));
      },
    ];
    for (const forge of forged) {
      service.sign = (_, message) => Uint8Array.from(forge(message));
      await expect(call({ trust: pinned(own) })).rejects.toMatchObject({ code: "signature_invalid" });
    }
    service.sign = (_, message) => own.sign(message);
    expect(await call({ trust: pinned(own) })).toBe("served");
  });

  it.each(COMPOSITES)("to a key that consists of a part of %s is rejected", async (algorithm) => {
    const own = await start(algorithm);
    const names = algorithm.split("+") as SignatureAlgorithm[];
    for (const [at, name] of names.entries()) {
      const alone = await Signer.of(name, [own.parts[at]!]);
      service.identities = [alone];
      service.keySet = await keySetOf([alone]);
      intercept(({ pinned_key_ids: _, ...members }) => ({ ...members, signature_algorithms: [name] }));
      await expect(call({ trust: pinned(own) })).rejects.toMatchObject({ code: "key_untrusted" });
      // A service with the part as a key cannot be led to sign for the composite one, nor the other way round.
      service.identities = [own];
      intercept();
      service.sign = (_, message) => alone.sign(concat(fields(algorithm), message));
      await expect(call({ trust: pinned(own) })).rejects.toMatchObject({ code: "signature_invalid" });
      service.identities = [alone];
      service.sign = (_, message) => {
        const lengths = own.parts.map((part) => part.sign(message).length);
        const begin = at === 0 ? 0 : lengths[0]!;
        return own.sign(message).slice(begin, begin + lengths[at]!);
      };
      await expect(call({ trust: pinned(alone) })).rejects.toMatchObject({ code: "signature_invalid" });
      service.sign = (_, message) => own.sign(message);
    }
  });
});

describe("the suites with ML-KEM-1024", () => {
  const STRONG = ["SecP384r1MLKEM1024", "MLKEM1024"] as const;

  it.each(STRONG)(
    "%s is agreed, renewed, and taken instead of another if the service requires it",
    async (suite) => {
      const own = await start("ES384+ML-DSA-87");
      service.suites = [suite];
      service.expiresInSec = 300;
      const made = client({ trust: pinned(own), suites: ["P256", suite] });
      expect(await (await made.fetch("/order", { method: "POST", body: "{}" })).text()).toBe("served");
      expect(made.session?.suite).toBe(suite);
      expect(service.count(/POST \/v3\/sessions$/)).toBe(2);
      await renewed(async () => expect(await (await made.fetch("/order")).text()).toBe("served"));
      expect(made.session?.suite).toBe(suite);
    },
  );

  it("are not offered by default, and never agreed by a client that does not offer them", async () => {
    const own = await start("ES256");
    expect(SUITES).toEqual(["X25519MLKEM768", "SecP256r1MLKEM768", "P256"]);
    service.suites = [...STRONG];
    const seen = intercept();
    await expect(call({ trust: pinned(own), suites: SUITES })).rejects.toMatchObject({
      code: "suite_required",
    });
    expect(seen[0].suites).toEqual(SUITES);
  });

  it.each(STRONG)("cannot be downgraded from %s to a weaker one", async (suite) => {
    const own = await start("ES256");
    service.suites = [suite, "P256"];
    const trust = pinned(own);
    // The attacker forges the rejection of the strong suite, and strips it from the list that the service reads.
    service.before = (request, response) => {
      if (request.url !== "/v3/sessions" || service.count(/v3/) > 1) return;
      request.resume();
      response.writeHead(409, { "Content-Type": "application/problem+json" });
      response.end(
        JSON.stringify({ code: "suite_required", status: 409, suites: ["P256"], suite: "MLKEM768" }),
      );
    };
    const seen = intercept((members) => ({ ...members, suites: ["P256"] }));
    await expect(call({ trust, suites: [suite, "P256"] })).rejects.toMatchObject({
      code: "suite_downgraded",
    });
    expect(seen[0].suite).toBe("P256");
  });
});
