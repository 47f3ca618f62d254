/** What a client sends again after a refusal, and when it gives a session up: over sockets, with a service that a test plays. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Client, createClient } from "../../src/index.js";
import { utf8 } from "../../src/wire/bytes.js";
import { bodyOf, problem, Service } from "./service.js";

let service: Service;
beforeEach(async () => {
  service = await Service.start();
});
afterEach(() => service.stop());

const WINDOW = 300_000;
const POST = { method: "POST", body: "{}" };
const CALLS = /\/order$/;
const INITS = /^POST \/v3\/sessions$/;
const RENEWALS = /renew$/;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

function client(): Client {
  const { url, identity } = service;
  return createClient({ url, trust: { pins: [identity.id] }, suites: ["P256"], headTimeoutMs: 5000 });
}

const order = async (made: Client, init: RequestInit = POST) => (await made.fetch("/order", init)).text();

/** Runs with the steady clock, or the wall clock, moved on by the argument of the given function. */
async function withClocks(run: (move: (steadyMs: number, wallMs: number) => void) => Promise<void>) {
  const [steady, wall] = [performance.now.bind(performance), Date.now.bind(Date)];
  let [steadyBy, wallBy] = [0, 0];
  performance.now = () => steady() + steadyBy;
  Date.now = () => wall() + wallBy;
  try {
    await run((steadyMs, wallMs) => {
      [steadyBy, wallBy] = [steadyBy + steadyMs, wallBy + wallMs];
    });
  } finally {
    performance.now = steady;
    Date.now = wall;
  }
}

describe("a genuine clock_skew", () => {
  it("retries no purchase that was in time when it was sent, but a safe request; the next call has the time", async () => {
    const made = client();
    await made.connect();
    service.aheadMs = WINDOW + 100;
    service.beforeRefusal = () => sleep(300);
    await expect(order(made)).rejects.toMatchObject({ code: "clock_skew", status: 400 });
    expect(service.count(CALLS)).toBe(1);
    expect(await order(made)).toBe("served");
    expect(service.count(CALLS)).toBe(2);
    service.aheadMs += WINDOW + 100;
    expect(await order(made, {})).toBe("served");
    expect(service.seen.filter((each) => each === "GET /order")).toHaveLength(2);
    expect(service.count(INITS)).toBe(1);
  });

  it("retries no purchase during which the machine slept: the steady clock stood still, the wall clock did not", async () => {
    const made = client();
    await made.connect();
    service.aheadMs = WINDOW + 10_000;
    await withClocks(async (move) => {
      service.beforeRefusal = () => move(0, 20_000);
      await expect(order(made)).rejects.toMatchObject({ code: "clock_skew" });
    });
    expect(service.count(CALLS)).toBe(1);
  });

  it("retries a purchase that was too old for any server before it was sent, as after a sleep", async () => {
    const made = client();
    await made.connect();
    service.aheadMs = 2 * WINDOW + 1000;
    expect(await order(made)).toBe("served");
    expect(service.count(CALLS)).toBe(2);
  });

  it("retries no purchase with an early stamp: an attacker who kept it can send it later", async () => {
    const made = client();
    await made.connect();
    service.aheadMs = -2 * WINDOW;
    await expect(order(made)).rejects.toMatchObject({ code: "clock_skew" });
    expect(service.count(CALLS)).toBe(1);
    expect(await order(made)).toBe("served");
    expect(service.count(CALLS)).toBe(2);
  });

  it("retries a call only once", async () => {
    const made = client();
    await made.connect();
    service.before = (request) => {
      if (request.url === "/order") service.aheadMs += 2 * WINDOW;
    };
    await expect(order(made, {})).rejects.toMatchObject({ code: "clock_skew" });
    expect(service.count(CALLS)).toBe(2);
  });
});

describe("an expired session", () => {
  const forget = async (made: Client) => service.store.delete((await made.connect()).id);

  it("is dropped without proof too: the purchase is not retried, and the next one succeeds", async () => {
    const made = client();
    await forget(made);
    await expect(order(made)).rejects.toMatchObject({ code: "session_expired" });
    expect([service.count(CALLS), service.count(INITS)]).toEqual([1, 1]);
    expect(made.session).toBeUndefined();
    expect(await order(made)).toBe("served");
    expect([service.count(CALLS), service.count(INITS)]).toEqual([2, 2]);
  });

  it.each([
    ["before its end", -60_000],
    ["behind its end", 60_000],
  ])("retries no purchase for a signature over a time %s, and is dropped", async (_, fromEndMs) => {
    const made = client();
    const agreedMs = Date.now();
    await made.connect();
    let refused = 0;
    service.before = async (request, response) => {
      if (request.url !== "/order" || refused > 0) return;
      refused += 1;
      problem(response, 401, await service.expired(request, agreedMs + 3_600_000 + fromEndMs));
    };
    const error = await order(made).catch((caught) => caught);
    expect(error).toMatchObject({ code: "session_expired", status: 401 });
    expect(error.message).toContain("whether it was served is unknown");
    expect(service.count(CALLS)).toBe(1);
    expect(await order(made)).toBe("served");
    expect(service.count(INITS)).toBe(2);
  });

  it("is dropped after HEAD too, whose rejection has no body, and HEAD is retried", async () => {
    const made = client();
    await forget(made);
    const answer = await made.fetch("/order", { method: "HEAD" });
    expect(answer.status).toBe(200);
    expect([service.count(CALLS), service.count(INITS)]).toEqual([2, 2]);
  });

  it("is replaced once for concurrent callers", async () => {
    const made = client();
    await forget(made);
    const refused = await Promise.allSettled(Array.from({ length: 6 }, () => order(made)));
    expect(refused.map(({ status }) => status)).toEqual(Array(6).fill("rejected"));
    expect(service.count(INITS)).toBe(1);
    expect(await Promise.all(Array.from({ length: 6 }, () => order(made)))).toEqual(Array(6).fill("served"));
    expect(await Promise.all(Array.from({ length: 6 }, () => order(made, {})))).toEqual(
      Array(6).fill("served"),
    );
    expect(service.count(INITS)).toBe(2);
    service.store.delete(made.session?.id ?? "");
    expect(await Promise.all(Array.from({ length: 6 }, () => order(made, {})))).toEqual(
      Array(6).fill("served"),
    );
    expect(service.count(INITS)).toBe(3);
  });

  it("is dropped alone: a late rejection of an older session drops no newer one", async () => {
    const made = client();
    await forget(made);
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let isFirst = true;
    service.beforeRefusal = () => {
      if (!isFirst) return undefined;
      isFirst = false;
      return held;
    };
    const late = order(made).catch((error) => error);
    while (isFirst) await sleep(5);
    await expect(order(made)).rejects.toMatchObject({ code: "session_expired" });
    expect(await order(made)).toBe("served");
    const newer = made.session?.id;
    release();
    expect(await late).toMatchObject({ code: "session_expired" });
    expect(made.session?.id).toBe(newer);
    expect(await order(made)).toBe("served");
    expect(service.count(INITS)).toBe(2);
  });
});

describe("an attacker who terminates TLS, delivers a purchase and holds its answer until the session is lost", () => {
  it.each([
    ["POST", 1],
    ["DELETE", 1],
    ["GET", 2],
  ])("has %s served %s times", async (method, times) => {
    let served = 0;
    service.serve = () => {
      served += 1;
      return { status: 200, body: utf8("served") };
    };
    const middle = await Middle.start(service);
    const { identity } = service;
    const made = createClient({ url: middle.url, trust: { pins: [identity.id] }, suites: ["P256"] });
    const told = await made.fetch("/order", { method }).catch((caught) => caught);
    if (method === "GET") expect(await told.text()).toBe("served");
    else expect(told).toMatchObject({ code: "session_expired" });
    expect([served, middle.shown]).toEqual([times, 2]);
    middle.stop();
  });
});

/** Ends TLS: it shows the first call to the service twice, and passes on what that says of the copy. */
class Middle {
  url = "";
  /** How often the first call was shown. */
  shown = 0;
  readonly #server: Server;

  private constructor(service: Service) {
    this.#server = createServer(async (request, response) => {
      const body = await bodyOf(request);
      const { method = "", url = "" } = request;
      const show = async () => {
        const headers = { ...(request.headers as Record<string, string>) };
        for (const name of ["host", "connection", "content-length", "transfer-encoding"])
          delete headers[name];
        const told = await fetch(service.url + url, { method, headers, ...(body.length > 0 && { body }) });
        return { status: told.status, headers: [...told.headers], bytes: await told.arrayBuffer() };
      };
      let told = await show();
      if (url === "/order" && this.shown === 0) {
        this.shown = 2;
        // The service is started anew over a store in memory, or an operator revokes the session.
        service.store.delete(String(request.headers["x-kid"]).slice("session:".length));
        const copy = await show();
        const signed = await service.expired(request, Date.now());
        told = { ...copy, bytes: Uint8Array.from(utf8(JSON.stringify(signed))).buffer };
      }
      const kept = told.headers.filter(
        ([name]) => !/^(?:content-length|connection|transfer-encoding)$/.test(name),
      );
      response.writeHead(told.status, kept.flat()).end(Buffer.from(told.bytes));
    });
  }

  static async start(service: Service): Promise<Middle> {
    const made = new Middle(service);
    await new Promise<void>((resolve) => made.#server.listen(0, "127.0.0.1", resolve));
    made.url = `http://127.0.0.1:${(made.#server.address() as AddressInfo).port}`;
    return made;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

describe("a session that expired while the machine slept", () => {
  it("is replaced before the first purchase: the steady clock stood still, the wall clock did not", async () => {
    const made = client();
    const before = await made.connect();
    await withClocks(async (move) => {
      move(0, 3_700_000);
      service.aheadMs = 3_700_000;
      expect(before.remainingMs()).toBe(0);
      expect(made.session).toBeUndefined();
      expect(await order(made)).toBe("served");
    });
    expect([service.count(CALLS), service.count(INITS), service.count(RENEWALS)]).toEqual([1, 2, 0]);
  });

  it("is expired by the steady clock if the wall clock was set back", async () => {
    const made = client();
    await made.connect();
    await withClocks(async (move) => {
      move(3_700_000, -3_600_000);
      service.aheadMs = 3_700_000;
      expect(await order(made)).toBe("served");
    });
    expect([service.count(CALLS), service.count(INITS)]).toEqual([1, 2]);
  });
});

describe("a session that is about to end", () => {
  it("counts its life from when its init was sent", async () => {
    await withClocks(async (move) => {
      // The answer takes 50 minutes of the hour that it grants, by the wall clock alone.
      service.before = ({ url }) => url === "/v3/sessions" && move(0, 3_000_000);
      const { remainingMs } = await client().connect();
      expect(remainingMs()).toBeGreaterThan(590_000);
      expect(remainingMs()).toBeLessThanOrEqual(600_000);
    });
  });

  it("is renewed, by one renewal and no new init", async () => {
    service.expiresInSec = 300;
    const made = client();
    const before = await made.connect();
    await withClocks(async (move) => {
      move(280_000, 280_000);
      service.aheadMs = 280_000;
      expect(await Promise.all([order(made), order(made)])).toEqual(["served", "served"]);
    });
    expect([service.count(RENEWALS), service.count(INITS)]).toEqual([1, 1]);
    expect(made.session?.id).not.toBe(before.id);
  });

  it("serves to its end if it cannot be renewed, without an attempt at every call", async () => {
    service.expiresInSec = 300;
    const made = client();
    const before = await made.connect();
    service.before = (request, response) => {
      if (request.url?.startsWith("/v3/")) problem(response, 503, { code: "store_unavailable", status: 503 });
    };
    await withClocks(async (move) => {
      move(280_000, 280_000);
      service.aheadMs = 280_000;
      expect(await order(made)).toBe("served");
      expect(await order(made)).toBe("served");
      expect(made.session?.id).toBe(before.id);
      expect(service.count(RENEWALS)).toBe(1);
      move(6000, 6000);
      expect(await order(made)).toBe("served");
      expect(service.count(RENEWALS)).toBe(2);
      move(20_000, 20_000);
      await expect(order(made)).rejects.toMatchObject({ code: "store_unavailable" });
    });
  });
});
