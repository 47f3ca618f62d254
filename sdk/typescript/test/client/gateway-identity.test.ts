/** Identity keys and roots of every algorithm, and every suite, at the real service with keys that its own tool made. */
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type ClientOptions,
  createClient,
  memoryTrustStore,
  SIGNATURE_ALGORITHMS,
  type Suite,
} from "../../src/index.js";
import { binary, startServe } from "../sealway.js";

const SUITES: readonly Suite[] = [
  "X25519MLKEM768",
  "SecP256r1MLKEM768",
  "P256",
  "SecP384r1MLKEM1024",
  "MLKEM1024",
];

describe.each(SIGNATURE_ALGORITHMS)("a gateway whose identity key and root are of %s", (algorithm) => {
  let running: Awaited<ReturnType<typeof startServe>>;
  let root: string;
  let key: { key_id: string; public_key: string; alg: string };

  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), "sealway-ts-"));
    const [keys, rootFile] = [join(folder, "identity.keys"), join(folder, "root.json")];
    const identity = (...args: string[]) =>
      execFileSync(binary(), ["identity", ...args], { encoding: "utf8" });
    identity("generate", keys, "--alg", algorithm);
    root =
      /root_public_key\W+([A-Za-z0-9+/=]+)/.exec(identity("root", rootFile, "--alg", algorithm))?.[1] ?? "";
    identity("sign", keys, "--root", rootFile, "--expires-in", "90d");
    running = await startServe(
      folder,
      `listeners: [{ address: "127.0.0.1:0" }]
routes:
  - match: { path_prefix: "/v3/", path: "/.well-known/sealway-keys" }
    sessions: {}
  - match: { path_prefix: "/transaction/" }
    sealed: required
    upstream: shop
upstreams:
  shop: { servers: ["demo:"] }
sessions:
  identity: { key_file: "identity.keys" }
  wire3: { suites: [${SUITES}] }
telemetry: { log_format: json, log_level: info }
`,
    );
    [key] = (await (await fetch(`${running.url}/.well-known/sealway-keys`)).json()).keys;
  });
  afterAll(() => running?.stop());

  async function suiteOf(more: Partial<ClientOptions> & Pick<ClientOptions, "trust">) {
    const client = createClient({ url: running.url, ...more });
    const body = JSON.stringify({ schemeCode: "AEF", amount: 5000 });
    const headers = { "Content-Type": "application/json" };
    const response = await client.fetch("/transaction/purchase", { method: "POST", headers, body });
    expect(await response.json()).toMatchObject({ status: "SUCCESS" });
    return client.session?.suite;
  }

  it("is trusted by pins, root and first use", async () => {
    expect(key.alg).toBe(algorithm);
    const signatureAlgorithms = [algorithm];
    for (const pin of [key.key_id, key.public_key]) {
      await suiteOf({ trust: { pins: [pin] } });
      await suiteOf({ trust: { pins: [pin] }, signatureAlgorithms });
    }
    await suiteOf({ trust: { root }, signatureAlgorithms });
    const firstUse = memoryTrustStore();
    await suiteOf({ trust: { firstUse }, signatureAlgorithms });
    await suiteOf({ trust: { firstUse } });
  });

  it.each(SUITES)("agrees suite %s", async (suite) => {
    expect(await suiteOf({ trust: { pins: [key.key_id] }, suites: [suite] })).toBe(suite);
  });

  it("gives no session to a client that accepts another algorithm", async () => {
    const signatureAlgorithms = SIGNATURE_ALGORITHMS.filter((each) => each !== algorithm);
    await expect(
      suiteOf({ trust: { firstUse: memoryTrustStore() }, signatureAlgorithms }),
    ).rejects.toMatchObject({ code: "key_retired" });
  });
});
