/** What a client and a log are told of a refusal: by the registry, and alike wherever the request is refused. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { PROBLEMS, REFUSALS, type Refusal } from "../../src/exchange/refusal.js";
import { Rejection } from "../../src/exchange/rejection.js";
import { Gate, type GateOutcome, MemoryStore, type SessionStore } from "../../src/server/index.js";
import { SealwayError } from "../../src/wire/error.js";
import { ID, incoming, sealing1, sealing2, sealingNative, stored } from "./sealing.js";

const REGISTRY = readFileSync(new URL("../../../../spec/registry.toml", import.meta.url), "utf8");

/** The entries of a table of the registry, by their names. */
function entries(table: string): [string, string][] {
  const all = REGISTRY.matchAll(new RegExp(`^\\[${table}\\.(\\w+)\\]\\n((?:[^\\[\\n].*\\n)+)`, "gm"));
  return [...all].map(([, name = "", text = ""]) => [name, text]);
}

function told(opened: GateOutcome): { status: number; members: Record<string, unknown> } {
  if (opened.kind !== "refused") throw new Error(`it was ${opened.kind}`);
  const { status, body } = opened.answer;
  return { status, members: JSON.parse(new TextDecoder().decode(body as Uint8Array)) };
}

describe("the list of rejections", () => {
  const codes = entries("errors").filter(([code]) => code !== "reservation_mismatch");
  const of = (text: string, form: string) =>
    new RegExp(`^${form} = \\{ status = (\\d+), error = "(\\w+)" \\}`, "m").exec(text)?.slice(1);

  it("has the registry's answer for each code of a sealed request", () => {
    let checked = 0;
    for (const [code, text] of codes) {
      for (const [form, name] of [
        ["plain", "sealed"],
        ["problem", "sealed3"],
      ] as const) {
        const wanted = of(text, name);
        if (wanted === undefined) continue;
        const { status, body } = new Rejection(code as Refusal, "").answer(form);
        const members = JSON.parse(new TextDecoder().decode(body));
        expect([code, `${status}`, members.error ?? members.code]).toEqual([code, ...wanted]);
        checked += 1;
      }
    }
    expect(checked).toBeGreaterThan(30);
  });

  it("has only the registry's texts and statuses for wires 1 and 2", () => {
    const known = new Map(entries("public"));
    for (const [status, error] of Object.values(REFUSALS)) {
      const statuses = /^statuses = (\[.*\])$/m.exec(known.get(error) ?? "")?.[1] ?? "[]";
      expect([error, JSON.parse(statuses)]).toEqual([error, expect.arrayContaining([status])]);
    }
  });

  it("has only the registry's problems", () => {
    const known = new Map(entries("problems"));
    for (const [code, [status, title]] of Object.entries(PROBLEMS))
      expect(known.get(code)).toContain(`status = ${status}\ntitle = "${title}"\n`);
    expect(Object.keys(REFUSALS).length).toBeGreaterThan(25);
  });
});

describe("an expired session", () => {
  it("has the same answer before a request is opened and when it is answered", async () => {
    const store = new MemoryStore();
    const paths: string[] = [];
    const gate = new Gate({ store, onRefusal: ({ path }) => paths.push(path) });
    store.put(stored(3, Date.now() + 600_000));
    const opened = await gate.open(
      incoming(await sealingNative(Date.now(), ["{}"], "/order?card=1"), "/order?card=1"),
    );
    const refused = incoming(await sealingNative(Date.now(), ["{}"], "/order?card=2"), "/order?card=2");
    store.delete(ID);
    if (opened.kind !== "opened") throw new Error("it was not opened");
    const late = await opened.call.seal(200, [], undefined);
    const early = await gate.open(refused);
    expect(told({ kind: "refused", answer: late })).toEqual(told(early));
    // A query is nobody's to log.
    expect(paths).toEqual(["/order", "/order"]);
  });
});

it("bytes after the last frame are rejected when they arrive, and not at the end of the body", async () => {
  const store = new MemoryStore();
  store.put(stored(3, Date.now() + 600_000));
  const codes: string[] = [];
  const gate = new Gate({ store, onRefusal: ({ code }) => codes.push(code) });
  const { headers, frames } = await sealingNative(Date.now());
  async function* body() {
    yield* frames;
    yield Uint8Array.of(0);
    await new Promise(() => undefined);
  }
  const opened = await gate.open({ method: "POST", target: "/order", headers, body: body() });
  expect([told(opened).status, ...codes]).toEqual([400, "frame_invalid"]);
});

describe("an anonymous session", () => {
  const store = new MemoryStore();
  const id = `A-${"4".repeat(32)}`;
  store.put({ ...stored(1, Date.now() + 600_000), id, clientId: undefined });
  const gate = new Gate({ store, anonymousPaths: ["/open"] });
  const asked = async (path: string, length: number) => {
    const request = incoming(await sealing1(id, Date.now(), path, length), path);
    const opened = await gate.open(request);
    return opened.kind === "opened"
      ? "opened"
      : Object.values(told(opened)).map((each) => JSON.stringify(each));
  };

  it("may use only its listed paths, with a short body", async () => {
    expect(await asked("/open", 2000)).toBe("opened");
    expect(await asked("/other", 2000)).toEqual(["403", '{"error":"SESSION_FORBIDDEN"}']);
    expect(await asked("/open", 4000)).toEqual(["413", '{"error":"PAYLOAD_TOO_LARGE"}']);
  });
});

describe.each([2, 3])("a claim of wire %s", (wire) => {
  const asked = async (claim: SessionStore["claim"]) => {
    const codes: string[] = [];
    const store: SessionStore = { get: async () => stored(wire, Date.now() + 600_000), claim };
    const gate = new Gate({ store, onRefusal: ({ code }) => codes.push(code) });
    const { status, members } = told(
      await gate.open(incoming(await (wire === 3 ? sealingNative : sealing2)(Date.now()))),
    );
    return [status, members["code"] ?? members["error"], ...codes];
  };
  const busy = wire === 3 ? "store_unavailable" : "SERVICE_UNAVAILABLE";
  const skew = wire === 3 ? "clock_skew" : "CRYPTO_ERROR";

  it("is not granted for an unknown outcome of the store", async () => {
    for (const outcome of [undefined, true, "granted"])
      expect(await asked(async () => outcome as never)).toEqual([503, busy, "store_unavailable"]);
  });

  it("is named by its outcome", async () => {
    expect(await asked(async () => "full")).toEqual(
      wire === 3 ? [503, busy, "nonces_full"] : [400, "CRYPTO_ERROR", "nonces_full"],
    );
    expect(await asked(async () => "outside_window")).toEqual([400, skew, "timestamp_outside_window"]);
  });

  it("that fails is store_unavailable", async () => {
    for (const error of [
      new Error("no"),
      new SealwayError("timeout", "no"),
      new SealwayError("toString", "no"),
    ])
      expect(await asked(() => Promise.reject(error))).toEqual([503, busy, "store_unavailable"]);
  });
});
