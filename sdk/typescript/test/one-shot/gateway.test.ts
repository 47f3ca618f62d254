/** The one-shot client against the real gateway: the service's key file, its document and its PSKs. */
import { spawnSync } from "node:child_process";
import * as crypto from "node:crypto";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  ClockSkew,
  KEMS,
  KeyRetired,
  type Pin,
  PolicyDenial,
  Replayed,
  sealOnce,
} from "../../src/one-shot/index.js";
import { binary, startServe } from "../sealway.js";

const MASTER = crypto.randomBytes(32);
const folder = mkdtempSync(join(tmpdir(), "sealway-one-shot-"));
const keyFile = join(folder, "keys.json");
const rootFile = join(folder, "root.key");
let sealway: Awaited<ReturnType<typeof startServe>>;
let root = "";
/** Key configurations and kids as the service publishes them. */
let published: { config: string; kid: string; kem: number }[] = [];

function run(...args: string[]): string {
  const done = spawnSync(binary(), args, { encoding: "utf8" });
  if (done.status !== 0) throw new Error(`sealway ${args.join(" ")}: ${done.stderr}`);
  return done.stdout;
}

const pskOf = (id: string) => {
  const prk = crypto.createHmac("sha256", MASTER).update(id).digest();
  const key = crypto.createHmac("sha256", prk).update("sealway/4 psk").update(Uint8Array.of(1)).digest();
  return { id, key };
};

beforeAll(async () => {
  root = /[A-Za-z0-9+/]{87}=/.exec(run("identity", "root", rootFile))?.[0] ?? "";
  for (const kem of ["x-wing", "mlkem768-p256", "x25519", "p256"])
    run("one-shot-keys", "add", keyFile, "--use", "hpke", "--kem", kem, "--max-age", "60s");
  run("one-shot-keys", "sign", keyFile, "--root", rootFile, "--expires-in", "7d");
  writeFileSync(join(folder, "master"), `${MASTER.toString("base64")}\n`, { mode: 0o600 });
  const config = `listeners: [{ address: "127.0.0.1:0" }]
routes:
  - { match: { path_prefix: "/transaction/" }, sealed: hpke, upstream: shop }
  - { match: { path_prefix: "/team/" }, sealed: hpke, one_shot: { client: psk }, upstream: shop }
upstreams:
  shop: { servers: ["demo:"] }
one_shot: { keys: keys.json, psk: { master: master }, max_age_sec: 60 }
sessions: { store: "file:store.redb", allow_generated_kek: true }
telemetry: { log_format: json, log_level: info }
`;
  sealway = await startServe(folder, config);
  const document = await (await fetch(`${sealway.url}/.well-known/sealway-hpke-keys`)).json();
  published = document.keys.map(({ config }: { config: string }) => {
    const bytes = Buffer.from(config, "base64");
    const name = crypto.createHash("sha256").update(bytes).digest("hex").slice(0, 32);
    return { config, kid: `hpke:${name}`, kem: bytes.readUInt16BE(1) };
  });
});
afterAll(() => sealway?.stop());

const PURCHASE = JSON.stringify({ schemeCode: "AEF", amount: 5000 });
const purchase = (): RequestInit => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: PURCHASE,
});
const client = (pin: Pin, more: object = {}) => sealOnce({ origin: sealway.url, pin, ...more });

describe("the one-shot client against the gateway", () => {
  it.each(KEMS)("seals to a key of %s, with a PSK and without", async (kem) => {
    for (const more of [{}, { psk: pskOf("team-a") }]) {
      const once = client({ root }, { kems: [kem], ...more });
      const response = await once.fetch("/transaction/purchase", purchase());
      expect(await response.json()).toMatchObject({ status: "SUCCESS", schemeCode: "AEF" });
      const read = await once.fetch("/transaction/purchase?a=b");
      expect([read.status, await read.json()]).toEqual([405, { error: "METHOD_NOT_ALLOWED" }]);
    }
  });

  it("takes pinned configurations and pinned kids", async () => {
    for (const { config, kid } of published)
      for (const pin of [config, kid])
        expect((await client(pin).fetch("/transaction/purchase", purchase())).status).toBe(200);
  });

  it("streams a body", async () => {
    const parts = [PURCHASE.slice(0, 5), PURCHASE.slice(5)].map((part) => new TextEncoder().encode(part));
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const part = parts.shift();
        if (part === undefined) controller.close();
        else controller.enqueue(part);
      },
    });
    const init = { ...purchase(), body, duplex: "half" } as RequestInit;
    expect((await client({ root }).fetch("/transaction/purchase", init)).status).toBe(200);
  });

  it("knows a replay, a wrong clock and a denial by the gateway's seal", async () => {
    const twice: typeof fetch = async (input, init) => {
      if (init?.method === "POST") await (await fetch(input, init)).arrayBuffer();
      return fetch(input, init);
    };
    const replayed = client({ root }, { fetch: twice }).fetch("/transaction/purchase", purchase());
    await expect(replayed).rejects.toBeInstanceOf(Replayed);
    const real = Date.now;
    try {
      // A pinned configuration has no times, which these clocks would be outside of.
      const early = client(published[0]?.config ?? "");
      await early.fetch("/transaction/purchase", purchase());
      Date.now = () => real() + 600_000;
      await expect(early.fetch("/transaction/purchase", purchase())).rejects.toBeInstanceOf(ClockSkew);
      expect((await early.fetch("/transaction/purchase", purchase())).status).toBe(200);
      const late = client(published[0]?.config ?? "");
      Date.now = () => real();
      await late.fetch("/transaction/purchase", purchase());
      Date.now = () => real() - 660_000;
      expect((await late.fetch("/transaction/purchase", purchase())).status).toBe(200);
    } finally {
      Date.now = real;
    }
    await expect(client({ root }).fetch("/team/purchase", purchase())).rejects.toBeInstanceOf(PolicyDenial);
    const wrong = { id: "team-a", key: new Uint8Array(32) };
    const unknown = client({ root }, { psk: wrong }).fetch("/team/purchase", purchase());
    await expect(unknown).rejects.toMatchObject({ code: "unsealable", status: 400 });
  });

  it("takes the next key when the first is retired, and names the keys to who pinned it", async () => {
    const once = client({ root });
    const pinned = client(published[0]?.config ?? "");
    expect((await once.fetch("/transaction/purchase")).status).toBe(405);
    run("one-shot-keys", "retire", keyFile, published[0]?.kid.slice("hpke:".length) ?? "", "--now");
    run("one-shot-keys", "sign", keyFile, "--root", rootFile, "--expires-in", "7d");
    // The gateway reads the file again when it has changed.
    const kids = published.slice(1).map(({ kid }) => kid);
    const named = () => pinned.fetch("/transaction/purchase").then(String, (error) => error.kids);
    await expect.poll(named, { timeout: 30_000 }).toEqual(kids);
    expect((await once.fetch("/transaction/purchase")).status).toBe(405);
    const refused = pinned.fetch("/transaction/purchase", purchase());
    await expect(refused).rejects.toBeInstanceOf(KeyRetired);
  });
});
