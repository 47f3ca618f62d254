/** The client against the real service. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type CallMetrics,
  createClient,
  memoryTrustStore,
  SealwayError,
  SUITES,
  type Wire,
} from "../../src/index.js";
import { type Running, startSealway } from "../sealway.js";

let sealway: Running;
beforeAll(async () => {
  sealway = await startSealway();
});
afterAll(() => sealway?.stop());

const PURCHASE = JSON.stringify({ schemeCode: "AEF", amount: 5000 });
const post = (body: BodyInit = PURCHASE): RequestInit => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body,
});

describe("the client against the service", () => {
  it.each(SUITES)("agrees a session with suite %s and makes a sealed call", async (suite) => {
    const client = createClient({ url: sealway.url, trust: { pins: [sealway.pin] }, suites: [suite] });
    const response = await client.fetch("/transaction/purchase", post());
    expect(response.status).toBe(200);
    expect(response.url).toBe(`${sealway.url}/transaction/purchase`);
    expect(await response.json()).toMatchObject({ status: "SUCCESS", schemeCode: "AEF", amount: 5000 });
    expect(client.session?.suite).toBe(suite);
  });

  it.each([1, 2] as Wire[])("makes a sealed call on wire %s", async (wire) => {
    const client = createClient({ url: sealway.url, trust: { pins: [] }, wire });
    const response = await client.fetch("/transaction/purchase", post());
    expect(await response.json()).toMatchObject({ status: "SUCCESS" });
    expect(client.session).toMatchObject({ wire, suite: undefined });
  });

  it("sends a streamed body, and a request without one", async () => {
    const client = createClient({ url: sealway.url, trust: { firstUse: memoryTrustStore() } });
    const parts = [PURCHASE.slice(0, 5), PURCHASE.slice(5)].map((part) => new TextEncoder().encode(part));
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const part = parts.shift();
        if (part === undefined) controller.close();
        else controller.enqueue(part);
      },
    });
    const response = await client.fetch("/transaction/purchase", post(body));
    expect(await response.json()).toMatchObject({ status: "SUCCESS" });
    const read = await client.fetch("/transaction/purchase?a=b#c");
    expect([read.status, await read.json()]).toEqual([405, { error: "METHOD_NOT_ALLOWED" }]);
  });

  it("agrees one session for concurrent callers, and reports it", async () => {
    const metrics: CallMetrics[] = [];
    const seen: (string | undefined)[] = [];
    const client = createClient({
      url: sealway.url,
      trust: { pins: [sealway.pin] },
      onMetrics: (each) => metrics.push(each),
      onSession: (session) => seen.push(session?.id),
    });
    const { fetch: detached } = client;
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => detached("/transaction/purchase", post())),
    );
    await Promise.all(answers.map((answer) => answer.text()));
    expect(metrics.map(({ endpoint }) => endpoint).sort()).toEqual([...Array(8).fill("call"), "init"]);
    expect(metrics.find(({ endpoint }) => endpoint === "call")).toMatchObject({
      method: "POST",
      path: "/transaction/purchase",
      status: 200,
    });
    expect(metrics.at(-1)?.serverTiming.map(({ name }) => name)).toContain("aes-gcm-decrypt");
    const id = client.session?.id;
    expect(seen).toEqual([id]);
    await client.end();
    expect(client.session).toBeUndefined();
    expect(seen).toEqual([id, undefined]);
    expect(metrics.at(-1)).toMatchObject({ endpoint: "end", status: 204 });
  });

  it("renews a session that is about to end: one renewal reaches the service, and no second init", async () => {
    const sent: string[] = [];
    const spy: typeof fetch = async (input, init) => {
      const answer = await fetch(input, init);
      sent.push(`${init?.method} ${new URL(String(input)).pathname} ${answer.status}`);
      return answer;
    };
    const client = createClient({
      url: sealway.url,
      trust: { pins: [sealway.pin] },
      ttlSec: 300,
      fetch: spy,
    });
    const before = await client.connect();
    expect(before.expiresInSec).toBe(300);
    const real = performance.now.bind(performance);
    // In the last tenth of its life, and within the window of the service's clock, which has not moved.
    performance.now = () => real() + 280_000;
    try {
      const answers = await Promise.all([1, 2].map(() => client.fetch("/transaction/purchase", post())));
      expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    } finally {
      performance.now = real;
    }
    expect(client.session?.id).not.toBe(before.id);
    expect(sent.filter((each) => each.includes("/v3/"))).toEqual([
      "POST /v3/sessions 201",
      `POST /v3/sessions/${before.id}/renew 201`,
    ]);
  });

  it("retries no purchase whose session the service forgot, and agrees another for the next", async () => {
    const client = createClient({ url: sealway.url, trust: { pins: [sealway.pin] } });
    const { id } = await client.connect();
    const deleted = await fetch(`${sealway.url}/v1/authority/sessions/${id}`, {
      method: "DELETE",
      headers: { Authorization: `Bearer ${sealway.secret}` },
    });
    expect(deleted.status).toBe(200);
    const refused = client.fetch("/transaction/purchase", post());
    await expect(refused).rejects.toMatchObject({ code: "session_expired" });
    const response = await client.fetch("/transaction/purchase", post());
    expect(response.status).toBe(200);
    expect(client.session?.id).not.toBe(id);
  });

  it("agrees a new session after 401 on wire 2, once", async () => {
    const client = createClient({ url: sealway.url, trust: { pins: [] }, wire: 2 });
    const { id } = await client.connect();
    await fetch(`${sealway.url}/v1/authority/sessions/${id}`, {
      method: "DELETE",
      headers: { Authorization: `Bearer ${sealway.secret}` },
    });
    expect((await client.fetch("/transaction/purchase", post())).status).toBe(200);
  });

  it("rejects a service whose key it does not trust", async () => {
    const client = createClient({ url: sealway.url, trust: { pins: ["00".repeat(16)] } });
    const error = await client.connect().catch((caught) => caught);
    expect(error).toBeInstanceOf(SealwayError);
    expect(error.code).toBe("key_retired");
    expect(error.message).toContain(sealway.pin);
  });

  it("corrects a wrong clock by the service's proof", async () => {
    const client = createClient({ url: sealway.url, trust: { pins: [sealway.pin] } });
    const real = performance.now.bind(performance);
    await client.connect();
    const call = () => client.fetch("/transaction/purchase", post());
    try {
      // Its stamps are old, as after a sleep: what is too old for any service is sent again.
      performance.now = () => real() - 660_000;
      expect((await call()).status).toBe(200);
      // They are early: what is refused now would be good later, and the next call has the right time.
      performance.now = () => real() + 600_000;
      await expect(call()).rejects.toMatchObject({ code: "clock_skew" });
      expect((await call()).status).toBe(200);
    } finally {
      performance.now = real;
    }
  });

  it("stops waiting when its caller does", async () => {
    const client = createClient({ url: sealway.url, trust: { pins: [sealway.pin] } });
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(client.fetch("/transaction/purchase", { ...post(), signal })).rejects.toThrow("enough");
  });
});
