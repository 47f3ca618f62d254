/** The one-shot client against a service that a test plays: calls, problems, and who stands between. */
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import {
  type CallMetrics,
  ClockSkew,
  KeyRetired,
  type OneShotOptions,
  PolicyDenial,
  Replayed,
  SealwayError,
  Truncated,
} from "../../src/one-shot/index.js";
import { toBase64 } from "../../src/wire/base64.js";
import { utf8 } from "../../src/wire/bytes.js";
import { client, errorOf, firstIs, post, service } from "./calling.js";
import { bodyOf, type Plain, sealedProblem } from "./service.js";

describe("a call", () => {
  it("seals method, target, headers and body, and opens the answer", async () => {
    service.serve = async (call) => ({
      status: 201,
      inner: [["content-type", "text/plain"]],
      frames: [
        utf8(`${call.method} ${call.target} ${new Headers(call.inner).get("x-own")} `),
        utf8(await bodyOf(call)),
      ],
    });
    const metrics: CallMetrics[] = [];
    const response = await client({ onMetrics: (each) => metrics.push(each) }).fetch("/pay?a=b#c", {
      ...post("all of it"),
      headers: { "X-Own": "1" },
    });
    expect([response.status, response.headers.get("content-type")]).toEqual([201, "text/plain"]);
    expect(response.url).toBe(`${service.url}/pay?a=b#c`);
    expect(await response.text()).toBe("POST /pay?a=b 1 all of it");
    // A pinned configuration needs no document.
    expect(service.seen).toEqual(["POST /pay?a=b"]);
    expect(metrics).toMatchObject([{ endpoint: "call", method: "POST", status: 201 }]);
    expect(metrics[0]?.crypto.map(({ name }) => name)).toEqual(["share", "seal", "open"]);
  });

  it("without a body goes into a header, and so does an answer without one", async () => {
    service.serve = (call) => ({
      status: call.method === "DELETE" ? 204 : 200,
      inner: [["x-of", call.method]],
    });
    for (const method of ["GET", "HEAD", "DELETE"]) {
      const response = await client().fetch("/thing", { method });
      expect([response.headers.get("x-of"), await response.text()]).toEqual([method, ""]);
    }
  });

  it("has an encapsulation, a nonce and a stamp of its own each time", async () => {
    const { fetch: detached } = client();
    await Promise.all([1, 2, 3].map(() => detached("/", post())));
    expect(new Set(service.opened.map(({ enc }) => enc)).size).toBe(3);
    expect(new Set(service.opened.map(({ nonce }) => nonce)).size).toBe(3);
  });

  it("streams both ways: the first part is there before the last is made", async () => {
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    service.serve = (call) => ({ status: 200, frames: call.frames });
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        controller.enqueue(utf8("first "));
        await held;
        controller.enqueue(utf8("last"));
        controller.close();
      },
    });
    const response = await client().fetch("/echo", { method: "POST", body, duplex: "half" } as RequestInit);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe("first ");
    release();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe("last");
    expect((await reader.read()).done).toBe(true);
  });

  it("proves who the client is by a PSK", async () => {
    const key = Uint8Array.from({ length: 32 }, (_, at) => at);
    service.psks.set("till-7", key);
    for (const form of [key, toBase64(key)]) {
      const response = await client({ psk: { id: "till-7", key: form } }).fetch("/", post());
      expect(await response.text()).toBe("served");
    }
    expect(service.opened.map(({ pskId }) => pskId)).toEqual(["till-7", "till-7"]);
    // With another PSK no frame opens, and the service breaks off.
    const wrong = client({ psk: { id: "till-7", key: new Uint8Array(32) } }).fetch("/", post());
    expect(await errorOf(wrong)).toMatchObject({ code: "network", retryable: false });
  });

  it("shows no PSK when it is printed, nor in an error", async () => {
    const key = Buffer.alloc(32, "secret of a till");
    const once = client({ psk: { id: "till-7", key } });
    const error = await errorOf(once.fetch("/", post()));
    for (const text of [once, error, error.problem].map((each) =>
      inspect(each, { depth: 9, showHidden: true }),
    ))
      for (const form of [key.toString(), key.toString("hex"), key.toString("base64"), `${key.join(", ")}`])
        expect(text).not.toContain(form);
  });

  it("goes to its origin alone, and ends with its caller's signal", async () => {
    expect(await errorOf(client().fetch("http://127.0.0.1:1/"))).toMatchObject({ code: "usage" });
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(client().fetch("/", { ...post(), signal })).rejects.toThrow("enough");
    expect(service.seen).toEqual([]);
  });
});

describe("a problem that the server sealed", () => {
  const once = (problem: Plain): void => {
    let isFirst = true;
    service.serve = () => {
      if (!isFirst) return { status: 200, frames: [utf8("served")] };
      isFirst = false;
      return problem;
    };
  };

  it.each([
    ["replayed", 409, Replayed],
    ["policy", 403, PolicyDenial],
    ["store_unavailable", 503, SealwayError],
    ["upstream_timeout", 504, SealwayError],
  ] as [string, number, typeof SealwayError][])(
    "%s is an error of its class, and not sent again",
    async (code, status, Class) => {
      for (const init of [{ method: "GET" }, { method: "HEAD" }, post()]) {
        service.opened.length = 0;
        once(sealedProblem(status, code));
        const error = await errorOf(client().fetch("/pay", init));
        expect(error).toBeInstanceOf(Class);
        expect(error).toMatchObject({ code, status, stage: "call", retryable: false, problem: { code } });
        expect(service.opened).toHaveLength(1);
      }
    },
  );

  it("clock_skew sets the clock; a safe method, and what was too old for every server, is sent again", async () => {
    const serverMs = Date.now() + 86_400_000;
    for (const init of [{ method: "GET" }, { method: "HEAD" }, post()]) {
      service.opened.length = 0;
      once(sealedProblem(400, "clock_skew", { server_time_ms: serverMs }));
      expect((await client().fetch("/pay", init)).status).toBe(200);
      const [first, second] = service.opened;
      expect(second?.stampMs).toBeGreaterThanOrEqual(serverMs);
      expect(second?.stampMs).toBeLessThan(serverMs + 60_000);
      expect([first?.enc === second?.enc, first?.nonce === second?.nonce]).toEqual([false, false]);
    }
  });

  it("clock_skew of a purchase that may have been served is the caller's, and the next call has the time", async () => {
    const serverMs = Date.now() - 86_400_000;
    once(sealedProblem(400, "clock_skew", { server_time_ms: serverMs }));
    const { fetch: call } = client();
    const error = await errorOf(call("/pay", post()));
    expect(error).toBeInstanceOf(ClockSkew);
    expect(error.message).toContain("whether it was served is unknown");
    expect(service.opened).toHaveLength(1);
    expect((await call("/pay", post())).status).toBe(200);
    expect(Math.abs((service.opened[1]?.stampMs ?? 0) - serverMs)).toBeLessThan(60_000);
  });

  it("clock_skew again and again ends after the second request", async () => {
    service.serve = () => sealedProblem(400, "clock_skew", { server_time_ms: Date.now() + 86_400_000 });
    expect(await errorOf(client().fetch("/"))).toBeInstanceOf(ClockSkew);
    expect(service.opened).toHaveLength(2);
  });

  it("a body that flows is not sent again", async () => {
    once(sealedProblem(400, "clock_skew", { server_time_ms: Date.now() + 86_400_000 }));
    const body = new ReadableStream({
      start: (controller) => {
        controller.enqueue(utf8("part"));
        controller.close();
      },
    });
    const call = client().fetch("/pay", { method: "POST", body, duplex: "half" } as RequestInit);
    expect(await errorOf(call)).toBeInstanceOf(ClockSkew);
    expect(service.opened).toHaveLength(1);
  });

  it("of a code that no seal carries is an unknown one", async () => {
    for (const code of ["key_retired", "unsealable", "rate_limited"]) {
      once(sealedProblem(409, code, { key_document: service.document }));
      const error = await errorOf(client({ pin: service.rootPin }).fetch("/"));
      expect(error).toMatchObject({ code: "answer_mismatch", retryable: false });
      expect(error).not.toBeInstanceOf(KeyRetired);
    }
  });

  it("cannot come from the service: its own problem is an answer", async () => {
    once({ ...sealedProblem(409, "replayed"), isProblem: false });
    const response = await client().fetch("/pay", post());
    expect([response.status, (await response.json()).code]).toEqual([409, "replayed"]);
  });
});

describe("anybody on the path", () => {
  it.each(["replayed", "policy", "clock_skew", "store_unavailable", "upstream_unreachable"])(
    "cannot say %s without a seal",
    async (code) => {
      const real = Date.now() + 86_400_000;
      for (const init of [{ method: "GET" }, post()]) {
        service.seen.length = 0;
        firstIs(400, () => ({ code, server_time_ms: real }));
        const { fetch: call } = client();
        const error = await errorOf(call("/pay", init));
        expect(error).toMatchObject({ code: "unsealed", retryable: false });
        expect(service.seen).toHaveLength(1);
        await call("/pay", init);
        expect(service.opened.at(-1)?.stampMs).toBeLessThan(real - 3_600_000);
      }
    },
  );

  it.each(["unsealable", "too_large", "wire_disabled", "rate_limited", "new_code"])(
    "can say %s, which leads to no other request",
    async (code) => {
      firstIs(400, () => ({ code }));
      expect(await errorOf(client().fetch("/"))).toMatchObject({ code, retryable: false });
      expect(service.seen).toHaveLength(1);
    },
  );

  it("cannot answer in plain", async () => {
    service.before = (_, response) =>
      void response.writeHead(200, { "Content-Type": "text/html" }).end("<html>");
    expect(await errorOf(client().fetch("/"))).toMatchObject({ code: "unsealed", status: 200 });
  });

  it("cuts no answer unnoticed, at any frame", async () => {
    const frames = ["one", "two", "three"].map(utf8);
    for (const last of [0, 1, 2, 3]) {
      service.serve = () => ({
        status: 200,
        frames,
        meddle: (part, at) => (at < last ? part : undefined),
      });
      const done = client()
        .fetch("/")
        .then((response) => response.text());
      expect(await errorOf(done)).toBeInstanceOf(Truncated);
    }
  });

  it("changes no byte of an answer unnoticed, and gives it to no other request", async () => {
    service.serve = () => ({
      status: 200,
      frames: [utf8("one")],
      meddle: (part, at) => part.map((byte, n) => (at === 0 && n === part.length - 1 ? byte ^ 1 : byte)),
    });
    expect(await errorOf(client().fetch("/"))).toMatchObject({ code: "unsealable" });
    let kept: Uint8Array | undefined;
    service.serve = () => ({
      status: 200,
      frames: [],
      meddle: (part) => {
        kept ??= part;
        return kept;
      },
    });
    expect((await client().fetch("/")).status).toBe(200);
    expect(await errorOf(client().fetch("/"))).toMatchObject({ code: "unsealable" });
  });
});

describe("options", () => {
  const other = "x".repeat(31);
  it.each([
    ["origin", { origin: "service.test" }],
    ["pin", { pin: undefined as never }],
    ["pin", { pin: [] }],
    ["pin", { pin: "nothing" }],
    ["pin", { pin: Array(17).fill(`hpke:${"0".repeat(32)}`) }],
    ["pin", { pin: [`hpke:${"0".repeat(32)}`, "AQAgAAAA"] }],
    ["pin", { pin: { root: 1 as never } }],
    ["psk", { psk: { id: "", key: new Uint8Array(32) } }],
    ["psk", { psk: { id: "x".repeat(65), key: new Uint8Array(32) } }],
    ["psk", { psk: { id: "two words", key: new Uint8Array(32) } }],
    ["psk", { psk: { id: "till", key: new Uint8Array(31) } }],
    ["psk", { psk: { id: "till", key: other } }],
    ["kems", { kems: [] }],
    ["signatureAlgorithms", { signatureAlgorithms: ["ES512" as never] }],
    ["kems", { kems: ["P-521" as never] }],
    ["totalTimeoutMs", { totalTimeoutMs: -1 }],
  ] as [string, Partial<OneShotOptions>][])("a wrong %s is named, without its value", (name, options) => {
    try {
      client(options);
      expect.fail("it was accepted");
    } catch (error) {
      expect(error).toMatchObject({ code: "usage", stage: "configuration" });
      expect((error as Error).message).toContain(name);
      expect((error as Error).message).not.toContain(other);
    }
  });

  it("pinned keys of other KEMs than the client takes are none", () => {
    expect(() => client({ kems: ["X-Wing"] })).toThrow("no pinned key is of a KEM that this client takes");
  });
});
