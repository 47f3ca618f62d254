/** Keys of the one-shot client: pinned ones, a root's document, and retired ones. */
import { describe, expect, it } from "vitest";
import { memoryTrustStore, SIGNATURE_ALGORITHMS } from "../../src/index.js";
import { KeyRetired } from "../../src/one-shot/index.js";
import { fromBase64, toBase64 } from "../../src/wire/base64.js";
import { Signer } from "../signer.js";
import { client, errorOf, firstIs, post, service } from "./calling.js";
import { documentOf, Key, plainProblem } from "./service.js";

/** Problem of a key that is not accepted any more. */
const retired = (document?: object) => ({ code: "key_retired", status: 409, key_document: document });

describe("keys", () => {
  it("of pinned kids come from the document, which is fetched once", async () => {
    const other = await Key.make();
    service.document = await documentOf([other, service.key]);
    const { fetch: call } = client({ pin: [service.key.kid] });
    await Promise.all([call("/"), call("/")]);
    expect((await call("/")).status).toBe(200);
    expect(service.count(/well-known/)).toBe(1);
  });

  it("of pinned kids are found after a document with a forged time of issue and a key without end", async () => {
    const old = service.key;
    service.document = await documentOf([old], undefined, 1e15 - 1);
    const next = await Key.make();
    const { fetch: call } = client({ pin: [old.kid, next.kid] });
    await call("/");
    service.key = next;
    service.document = await documentOf([next]);
    firstIs(409, () => retired(service.document));
    expect(await errorOf(call("/"))).toBeInstanceOf(KeyRetired);
    expect((await call("/")).status).toBe(200);
    expect(service.count(/well-known/)).toBe(2);
  });

  it("whose kids are not in the document are none, and the error names the current ones", async () => {
    const error = await errorOf(client({ pin: `hpke:${"0".repeat(32)}` }).fetch("/", post()));
    expect(error).toMatchObject({ code: "key_untrusted", stage: "agreement", retryable: false });
    expect(error.message).toContain(service.key.kid);
    expect(service.opened).toEqual([]);
  });

  it("of a root are the first in use whose KEM the client takes", async () => {
    const over = await Key.make();
    over.useUntilMs = Date.now() - 1000;
    const early = await Key.make();
    early.notBeforeMs = Date.now() + 3_600_000;
    service.document = await documentOf([over, early, service.key], service.root);
    expect((await client({ pin: service.rootPin }).fetch("/")).status).toBe(200);
    const error = await errorOf(client({ pin: service.rootPin, kems: ["P-256"] }).fetch("/"));
    expect(error).toMatchObject({ code: "key_untrusted", stage: "agreement" });
    for (const { kid } of [over, early, service.key]) expect(error.message).toContain(kid);
  });

  it.each(SIGNATURE_ALGORITHMS)(
    "of a root of %s are accepted, and with no other signature",
    async (algorithm) => {
      const root = await Signer.make(algorithm);
      const pin = { root: toBase64(root.publicKey) };
      service.document = await documentOf([service.key], root);
      expect((await client({ pin }).fetch("/")).status).toBe(200);
      expect((await client({ pin, signatureAlgorithms: [algorithm] }).fetch("/")).status).toBe(200);
      const others = SIGNATURE_ALGORITHMS.filter((each) => each !== algorithm);
      expect(await errorOf(client({ pin, signatureAlgorithms: others }).fetch("/"))).toMatchObject({
        code: "usage",
        message: `pin.root: ${algorithm} is not of signatureAlgorithms`,
      });
      const signature = fromBase64(String(Object(service.document).root_signature)) ?? new Uint8Array();
      for (const forged of [signature.subarray(1), new Uint8Array(signature.length)]) {
        service.document = { ...service.document, root_signature: toBase64(forged) };
        expect(await errorOf(client({ pin }).fetch("/"))).toMatchObject({ code: "signature_invalid" });
      }
    },
  );

  it("are fetched again when none is in use any more", async () => {
    service.key.useUntilMs = Date.now() + 3_600_000;
    service.document = await documentOf([service.key], service.root, 1);
    const { fetch: call } = client({ pin: service.rootPin });
    await call("/");
    service.key.useUntilMs = Date.now() + 7_200_000;
    service.document = await documentOf([service.key], service.root, 2);
    const real = Date.now;
    Date.now = () => real() + 3_600_001;
    try {
      expect((await call("/")).status).toBe(200);
    } finally {
      Date.now = real;
    }
    expect(service.count(/well-known/)).toBe(2);
  });

  it.each([
    ["no root signed", "key_untrusted", () => documentOf([service.key])],
    ["another root signed", "key_untrusted", async () => documentOf([service.key], await Signer.make())],
    ["is over", "key_untrusted", () => documentOf([service.key], service.root, 1, 2)],
    [
      "was changed",
      "signature_invalid",
      async () => ({ ...(await documentOf([service.key], service.root)), issued_ms: 2 }),
    ],
    [
      "has a key of another form",
      "field_invalid",
      async () => ({ ...(await documentOf([], service.root)), keys: [{ config: "AAAA" }] }),
    ],
  ] as [string, string, () => Promise<object>][])("a document that %s is rejected", async (_, code, make) => {
    service.document = await make();
    const error = await errorOf(client({ pin: service.rootPin }).fetch("/", post()));
    expect(error).toMatchObject({ code, stage: "agreement" });
    expect(service.opened).toEqual([]);
  });

  it("of an older document than one that was taken before are rejected, after a restart too", async () => {
    const pin = { ...service.rootPin, store: memoryTrustStore() };
    service.document = await documentOf([service.key], service.root, 5);
    expect((await client({ pin }).fetch("/")).status).toBe(200);
    service.document = await documentOf([service.key], service.root, 4);
    expect(await errorOf(client({ pin }).fetch("/"))).toMatchObject({ code: "key_untrusted" });
    service.document = await documentOf([service.key], service.root, 5);
    expect((await client({ pin }).fetch("/")).status).toBe(200);
  });

  it("a document over 64 KiB, or with another status, is rejected", async () => {
    service.document = { padding: "x".repeat(65_536) };
    expect(await errorOf(client({ pin: service.rootPin }).fetch("/"))).toMatchObject({
      code: "body_too_large",
    });
    service.before = (_, response) => plainProblem(response, 404, { code: "not_found" });
    expect(await errorOf(client({ pin: service.rootPin }).fetch("/"))).toMatchObject({
      code: "key_untrusted",
      status: 404,
    });
  });
});

describe("a retired key", () => {
  it("is replaced by the root's document, and a safe method is sent again once", async () => {
    const gone = await Key.make();
    service.document = await documentOf([gone], service.root, 1);
    const next = await documentOf([service.key], service.root, 2);
    firstIs(409, () => retired(next));
    const { fetch: call } = client({ pin: service.rootPin });
    expect((await call("/thing")).status).toBe(200);
    expect(service.count(/GET \/thing/)).toBe(2);
    expect(service.count(/well-known/)).toBe(1);
  });

  it("is replaced for the next call, and no purchase is sent again", async () => {
    const gone = await Key.make();
    service.document = await documentOf([gone], service.root, 1);
    const next = await documentOf([service.key], service.root, 2);
    firstIs(409, () => retired(next));
    const { fetch: call } = client({ pin: service.rootPin });
    const error = await errorOf(call("/pay", post()));
    expect(error).toBeInstanceOf(KeyRetired);
    expect(error).toMatchObject({ kids: [service.key.kid], status: 409, retryable: false });
    expect(error.message).toContain("whether it was served is unknown");
    expect(service.count(/POST/)).toBe(1);
    expect((await call("/pay", post())).status).toBe(200);
  });

  it("is not sent to twice in one call", async () => {
    service.before = async (request, response) => {
      if (!request.url?.startsWith("/.well-known/")) plainProblem(response, 409, retired(service.document));
    };
    const error = await errorOf(client({ pin: service.rootPin }).fetch("/thing"));
    expect(error).toBeInstanceOf(KeyRetired);
    expect(service.count(/GET \/thing/)).toBe(2);
  });

  it.each([
    ["older", "key_untrusted", () => documentOf([service.key], service.root, 1)],
    ["over", "key_untrusted", () => documentOf([service.key], service.root, 9, 10)],
    ["of another root", "key_untrusted", async () => documentOf([service.key], await Signer.make(), 9)],
    [
      "badly signed",
      "signature_invalid",
      async () => ({ ...(await documentOf([service.key], service.root, 9)), expires_ms: 3_999_999_999_999 }),
    ],
    ["malformed", "field_invalid", async () => ({ keys: 1 })],
  ] as [string, string, () => Promise<object>][])(
    "with a document that is %s leads to no other request",
    async (_, code, make) => {
      service.document = await documentOf([service.key], service.root, 5);
      const forged = await make();
      service.before = async (request, response) => {
        if (!request.url?.startsWith("/.well-known/")) plainProblem(response, 409, retired(forged));
      };
      const { fetch: call } = client({ pin: service.rootPin });
      const error = await errorOf(call("/thing"));
      expect(error).toBeInstanceOf(KeyRetired);
      expect(error).toMatchObject({ kids: [], retryable: false, cause: { code } });
      service.before = () => undefined;
      expect((await call("/thing")).status).toBe(200);
      expect(service.count(/GET \/thing/)).toBe(2);
    },
  );

  it("that is pinned ends the call, by name of the current keys", async () => {
    const other = await documentOf([await Key.make()]);
    for (const pin of [service.key.pin, service.key.kid]) {
      firstIs(409, () => retired(other));
      const { fetch: call } = client({ pin });
      const error = await errorOf(call("/thing"));
      expect(error).toBeInstanceOf(KeyRetired);
      expect(error.kids).toHaveLength(1);
      expect(error.kids).not.toContain(service.key.kid);
      expect((await call("/thing")).status).toBe(200);
    }
  });
});
