import { spawn, spawnSync } from "node:child_process";
import {
  createHash,
  createPublicKey,
  publicEncrypt,
  verify as verifySignature,
  X509Certificate,
} from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http2";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import protobuf from "protobufjs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Breaker } from "../../src/broker/breaker.js";
import { BrokerClient, BrokerError, isTraceParent } from "../../src/broker/index.js";
import { describe as described, MESSAGES, OPERATIONS } from "../../src/broker/schema.js";
import { BrokerFixture } from "./broker.js";

const profile = "All";
const bytes = (text: string) => new Uint8Array(Buffer.from(text));
const text = (data: Uint8Array | null | undefined) => Buffer.from(data ?? []).toString();
const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const fixture = new BrokerFixture();
beforeAll(async () => void (await fixture.start()));
afterAll(() => fixture.end());
vi.setConfig({ testTimeout: 60_000 });

it("the messages are those of spec/broker.proto, with every tag", () => {
  const path = fileURLToPath(new URL("../../../../spec/broker.proto", import.meta.url));
  const parsed = protobuf.parse(readFileSync(path, "utf8")).root.toJSON() as never as {
    nested: { sealway: { nested: { broker: { nested: { v1: { nested: Record<string, never> } } } } } };
  };
  const own: Record<string, { fields?: object; methods?: Record<string, { responseType: string }> }> =
    parsed.nested.sealway.nested.broker.nested.v1.nested;
  const messages = Object.entries(own).filter(([, value]) => value.fields !== undefined);
  expect(
    Object.fromEntries(Object.entries(MESSAGES).map(([name, fields]) => [name, described(fields)])),
  ).toEqual(Object.fromEntries(messages));
  for (const service of ["Broker", "Keys"] as const) {
    const methods = Object.entries(own[service]!.methods!).map(([name, { responseType }]) => [
      name,
      responseType.replace(/Response$/, ""),
    ]);
    expect(OPERATIONS[service]).toEqual(Object.fromEntries(methods));
  }
});

describe("a broker", () => {
  it("hashes, draws random bytes and returns its capabilities", async () => {
    const client = fixture.client();
    const { digests, descriptor } = await client.hash(
      { profile, inputs: [bytes("a"), bytes("")] },
      { traceparent: trace },
    );
    expect(digests.map((digest) => Buffer.from(digest).toString("hex"))).toEqual(
      ["a", ""].map((input) => createHash("sha256").update(input).digest("hex")),
    );
    expect(descriptor).toMatchObject({ profile, operation: "HashData", algorithm: "sha-256" });
    const { outputs } = await client.random({ profile, length: 32, count: 2 });
    expect(outputs.map((output) => output.length)).toEqual([32, 32]);
    expect((await client.information()).profiles).toEqual([profile]);
    expect(await client.health()).toBe("SERVING");
    expect(JSON.parse(await client.benchmark({ deadlineMs: 30_000 }))).toBeTruthy();
  });

  it("seals, opens, re-seals after a rotation, and rejects a changed input alone", async () => {
    const client = fixture.client();
    const keyId = "data";
    await client.generateKey({ keyId, algorithm: "aes-256-gcm" });
    const aad = bytes("header");
    const { ciphers } = await client.encrypt({ profile, keyId, plains: [{ plaintext: bytes("one"), aad }] });
    const cipher = { ...ciphers[0]!, aad };
    const rotated = await client.rotateKey({ keyId });
    expect(rotated.key.versions.length).toBe(2);
    const changed = { ...cipher, tag: cipher.tag.map((byte) => byte ^ 1) };
    const { opened } = await client.decrypt({ profile, keyId, ciphers: [cipher, changed] });
    expect(text(opened[0]!.plaintext)).toBe("one");
    expect(opened[1]!.refusal!.code).toBe(3);
    const { rewrapped } = await client.rewrap({ profile, keyId, ciphers: [cipher] });
    expect(rewrapped[0]!.cipher!.keyVersion).toBe(2);
    await client.disableKey({ keyId, version: 1 });
    const again = await client.decrypt({ profile, keyId, ciphers: [{ ...rewrapped[0]!.cipher!, aad }] });
    expect(text(again.opened[0]!.plaintext)).toBe("one");
    const enabled = await client.enableKey({ keyId, version: 1 });
    expect(enabled.key.versions[0]!.state).toBe("KEY_STATE_ENABLED");
  });

  it("signs, verifies, authenticates and derives", async () => {
    const client = fixture.client();
    await client.generateKey({ keyId: "signer", algorithm: "ed25519" });
    const { signatures } = await client.sign({ profile, keyId: "signer", inputs: [bytes("doc")] });
    const signed = [
      { input: bytes("doc"), signature: signatures[0]! },
      { input: bytes("other"), signature: signatures[0]! },
    ];
    expect((await client.verify({ profile, keyId: "signer", signed })).valid).toEqual([true, false]);
    const { der } = await client.publicKey({ keyId: "signer" });
    const key = createPublicKey({ key: Buffer.from(der), format: "der", type: "spki" });
    expect(verifySignature(null, bytes("doc"), key, signatures[0]!)).toBe(true);

    await client.importKey({ keyId: "mac", algorithm: "hmac-sha-256", material: new Uint8Array(32).fill(1) });
    const { tags } = await client.mac({ profile, keyId: "mac", inputs: [bytes("m")] });
    const tagged = [{ input: bytes("m"), signature: tags[0]! }];
    expect((await client.verifyMac({ profile, keyId: "mac", signed: tagged })).valid).toEqual([true]);
    await client.generateKey({ keyId: "root", algorithm: "hkdf-sha-256" });
    const derivations = [{ salt: bytes("s"), info: bytes("i"), length: 16 }];
    expect((await client.derive({ profile, keyId: "root", derivations })).outputs[0]!.length).toBe(16);
  });

  it("encapsulates for a key of the store and for a public key", async () => {
    const client = fixture.client();
    await client.generateKey({ keyId: "kem", algorithm: "ml-kem-768" });
    const { der } = await client.publicKey({ keyId: "kem" });
    for (const to of [{ keyId: "kem" }, { publicKey: der }]) {
      const { encapsulated } = await client.encapsulate({ profile, ...to });
      const { ciphertext, sharedSecret } = encapsulated[0]!;
      const { sharedSecrets } = await client.decapsulate({
        profile,
        keyId: "kem",
        ciphertexts: [ciphertext],
      });
      expect(Buffer.from(sharedSecrets[0]!).equals(sharedSecret)).toBe(true);
    }
  });

  it("unwraps content keys, and replaces one that does not decrypt", async () => {
    const client = fixture.client();
    await client.generateKey({ keyId: "unwrap", algorithm: "rsa-unwrap-2048" });
    const { der } = await client.publicKey({ keyId: "unwrap" });
    const key = createPublicKey({ key: Buffer.from(der), format: "der", type: "spki" });
    const contentKey = Buffer.alloc(32, 7);
    const encryptedKey = publicEncrypt({ key, oaepHash: "sha256" }, contentKey);
    const wrapped = [encryptedKey, Buffer.alloc(256, 1)].map((one) => ({ encryptedKey: one, length: 32 }));
    const { contentKeys } = await client.unwrap({ profile, keyId: "unwrap", wrapped });
    expect(contentKey.equals(contentKeys[0]!)).toBe(true);
    expect([contentKeys[1]!.length, contentKey.equals(contentKeys[1]!)]).toEqual([32, false]);
  });

  it("lists its keys by page, and rejects with gRPC's codes", async () => {
    const client = fixture.client();
    const first = await client.listKeys({ limit: 1 });
    expect([first.keys.length, first.hasMore]).toEqual([1, true]);
    const code = (call: Promise<unknown>) =>
      call.then(
        () => "ok",
        (error: BrokerError) => [error.code, error.sent],
      );
    expect(await code(client.hash({ profile: "none", inputs: [bytes("a")] }))).toEqual([
      "invalid_argument",
      "answered",
    ]);
    expect(await code(client.publicKey({ keyId: "nobody" }))).toEqual(["not_found", "answered"]);
    expect(await code(client.generateKey({ keyId: "data", algorithm: "aes-256-gcm" }))).toEqual([
      "already_exists",
      "answered",
    ]);
    expect(await code(client.hash({ profile, inputs: [new Uint8Array(5 << 20)] }))).toEqual([
      "out_of_range",
      "no",
    ]);
    expect(await code(client.hash({ profile, inputs: [bytes("a")] }, { traceparent: "00-0-0-00" }))).toEqual([
      "invalid_argument",
      "no",
    ]);
    expect(await code(client.hash({ profile, inputs: ["no bytes" as never, 7 as never] }))).toEqual([
      "invalid_argument",
      "no",
    ]);
  });

  it("answers concurrent callers", async () => {
    const client = fixture.client({ inFlightMax: 8, deadlineMs: 50_000 });
    const inputs = Array.from({ length: 200 }, (_, i) => bytes(`${i}`));
    const all = await Promise.all(inputs.map((input) => client.hash({ profile, inputs: [input] })));
    all.forEach(({ digests }, i) => {
      expect(Buffer.from(digests[0]!).equals(createHash("sha256").update(inputs[i]!).digest())).toBe(true);
    });
  });
});

describe("an unreachable broker", () => {
  it("is reported as not sent, and calls succeed again when it is back", async () => {
    const own = new BrokerFixture();
    const client = own.client({ deadlineMs: 20_000, retry: { attempts: 200, longestMs: 100 } });
    const early = await own
      .client({ retry: { attempts: 2 } })
      .health()
      .catch((error: BrokerError) => error);
    expect(early).toMatchObject({ code: "unavailable", sent: "no", attempts: 2, isPassing: true });
    await own.start();
    const hash = () => client.hash({ profile, inputs: [bytes("x")] });
    await hash();
    await own.stop();
    const waiting = hash();
    await own.start();
    expect((await waiting).digests.length).toBe(1);
    await own.end();
  });

  it("opens the breaker after consecutive failures, and a probe closes it", async () => {
    const own = new BrokerFixture();
    const client = own.client({ breaker: { failures: 3, openForMs: 100 }, retry: { attempts: 1 } });
    for (let i = 0; i < 3; i++)
      await expect(client.health()).rejects.toMatchObject({ code: "unavailable", attempts: 1 });
    expect(client.breakerState).toBe("open");
    const open = await client.health().catch((error: BrokerError) => error);
    expect(open).toMatchObject({ attempts: 0, sent: "no" });
    await own.start();
    // A probe may come before the library has connected anew.
    await expect
      .poll(() => client.health().catch(() => "away"), { timeout: 5000, interval: 50 })
      .toBe("SERVING");
    expect(client.breakerState).toBe("closed");
    await own.end();
  });
});

describe("a broker that answers nothing", () => {
  const silent = createServer();
  const socket = join(fixture.folder, "silent.sock");
  let calls = 0;
  silent.on("stream", (stream) => {
    calls++;
    stream.on("error", () => undefined);
  });
  beforeAll(() => new Promise<void>((resolve) => void silent.listen(socket, resolve)));
  afterAll(() => void silent.close());

  it("ends a call at its deadline, and a call can be cancelled", async () => {
    const client = new BrokerClient({ socket, deadlineMs: 1000 });
    const before = calls;
    const late = await client
      .generateKey({ keyId: "k", algorithm: "ed25519" })
      .catch((error: BrokerError) => error);
    expect(late).toMatchObject({ code: "deadline_exceeded", sent: "perhaps", attempts: 1 });
    const caller = new AbortController();
    const cancelled = expect(
      client.health({ signal: caller.signal, deadlineMs: 20_000 }),
    ).rejects.toMatchObject({
      code: "cancelled",
    });
    await vi.waitFor(() => expect(calls).toBe(before + 2), 10_000);
    caller.abort();
    await cancelled;
    client.close();
  });

  it("has a bounded queue, and a call beyond it fails at once", async () => {
    const client = new BrokerClient({ socket, deadlineMs: 300, inFlightMax: 1, waitingMax: 1 });
    const calls = [client.health(), client.health(), client.health()];
    const codes = await Promise.all(calls.map((call) => call.catch((error: BrokerError) => error.code)));
    expect(codes).toEqual(["deadline_exceeded", "deadline_exceeded", "resource_exhausted"]);
    client.close();
  });
});

it("callers that retry at once while the breaker is open do not block the event loop", async () => {
  const client = new BrokerClient({
    socket: "/nowhere/broker.sock",
    breaker: { failures: 1, openForMs: 60_000 },
    retry: { attempts: 1 },
  });
  const refused = () => client.hash({ profile, inputs: [bytes("a")] }).catch((error: BrokerError) => error);
  await refused();
  expect(client.breakerState).toBe("open");
  let hasFired = false;
  const timer = setTimeout(() => (hasFired = true), 1);
  const endMs = performance.now() + 10_000;
  while (!hasFired && performance.now() < endMs) await refused();
  clearTimeout(timer);
  client.close();
  expect(hasFired).toBe(true);
});

it("a breaker opens, lets one probe through, and an earlier success does not close it", () => {
  const breaker = new Breaker({ failures: 1, openForMs: 250 });
  const pass = (now: number) => {
    const given = breaker.pass(now);
    if (typeof given === "number") throw new Error(`closed for ${given} ms`);
    return given;
  };
  const early = pass(0);
  pass(0)(false, 0);
  early(true, 0);
  expect(breaker.state(0)).toBe("open");
  expect(breaker.pass(125)).toBe(125);
  const probe = pass(250);
  expect(breaker.pass(250)).toBe(0);
  probe(undefined, 250);
  pass(250)(false, 250);
  expect(breaker.pass(250)).toBe(250);
  pass(500)(true, 500);
  expect(breaker.state(500)).toBe("closed");
});

it("a malformed traceparent is rejected, and nothing of a key is in an error", async () => {
  expect(isTraceParent(trace)).toBe(true);
  for (const bad of [
    "",
    trace.toUpperCase(),
    `01${trace.slice(2)}`,
    `00-${"0".repeat(32)}-b7ad6b7169203331-01`,
  ]) {
    expect(isTraceParent(bad)).toBe(false);
  }
  const material = bytes("verysecretverysecretverysecret!!");
  const why = await fixture
    .client()
    .importKey({ keyId: "bad id!", algorithm: "hmac-sha-256", material })
    .catch((error: unknown) => error);
  expect(why).toBeInstanceOf(BrokerError);
  expect(inspect(why, { depth: 9, showHidden: true })).not.toMatch(/verysecret|76 65 72 79/);
});

describe("sealway-broker", () => {
  const cli = fileURLToPath(new URL("../../dist/broker/cli.js", import.meta.url));
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [cli, "--socket", fixture.socket, ...args], { encoding: "utf8" });
  beforeAll(() => {
    if (!existsSync(cli)) throw new Error(`${cli} is not built: npm run build`);
  });

  it("hashes, reports the broker's health, and measures it", () => {
    const digest = createHash("sha256").update("abc").digest("hex");
    expect(run("--profile", profile, "hash", "abc", "abc").stdout).toBe(`${digest}\n${digest}\n`);
    expect(run("health")).toMatchObject({ stdout: "SERVING\n", status: 0 });
    expect(JSON.parse(run("benchmark", "--server", "--timeout-ms", "30000").stdout)).toBeTruthy();
    const made = run(
      "--profile",
      profile,
      "benchmark",
      "--calls",
      "50",
      "--concurrency",
      "4",
      "--bytes",
      "100",
    );
    expect(JSON.parse(made.stdout)).toMatchObject({
      ...{ program: "benchmark", calls: 50, failed: 0, concurrency: 4, input_bytes: 100, interrupted: false },
      latency_ms: { p99: expect.any(Number) },
    });
  });

  it("serves the program of the README", () => {
    const readme = readFileSync(fileURLToPath(new URL("../../broker/README.md", import.meta.url)), "utf8");
    const program = /```js file=broker.js\n([\s\S]*?)```/.exec(readme)![1]!;
    // Within the package, its own name leads to it.
    const cwd = fileURLToPath(new URL("../../broker/", import.meta.url));
    expect(spawnSync(process.execPath, ["../stage.mjs"], { cwd }).status).toBe(0);
    const path = `${cwd}dist/readme-broker.mjs`;
    writeFileSync(path, program);
    try {
      const run = (...args: string[]) => spawnSync(process.execPath, [path, ...args], { encoding: "utf8" });
      const digest = createHash("sha256").update("hello").digest("hex");
      expect(run(fixture.socket, profile).stdout).toBe(`${digest} by sha-256\n`);
      const refused = run(fixture.socket, "Nowhere");
      expect([refused.status, refused.stderr]).toEqual([
        1,
        expect.stringContaining("there is no profile: Nowhere"),
      ]);
    } finally {
      rmSync(path);
    }
  });

  it("issues a certificate that its CA has signed", async () => {
    const client = fixture.client();
    const ca = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-nodes", "-subj", "/CN=ca"];
    fixture.openssl("req", "-x509", ...ca, "-keyout", "ca.key", "-out", "ca.pem", "-days", "30");
    const leaf = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=leaf"];
    fixture.openssl("req", "-new", ...leaf, "-keyout", "leaf.key", "-out", "leaf.csr");
    const material = readFileSync(join(fixture.folder, "ca.key"));
    await client.importKey({ keyId: "ca", algorithm: "ecdsa-p384", material });
    const files = ["--csr", join(fixture.folder, "leaf.csr"), "--ca-cert", join(fixture.folder, "ca.pem")];
    const { stdout, stderr } = run("--profile", profile, "sign", ...files, "--ca-key-ref", "ca");
    expect(stderr).toBe("");
    const sent = run("--profile", profile, "sign", ...files, "--ca-key", "ca.key");
    expect([sent.status, sent.stderr]).toEqual([2, expect.stringContaining("--ca-key-ref ID")]);
    const issued = new X509Certificate(stdout);
    const authority = new X509Certificate(readFileSync(join(fixture.folder, "ca.pem")));
    expect([issued.subject, issued.verify(authority.publicKey)]).toEqual(["CN=leaf", true]);
  });

  /** Runs until `isEnough` of what it said, interrupts it, and gives what it said in the end. */
  const interrupted = async (
    args: string[],
    isEnough: (said: string) => boolean,
    socket = fixture.socket,
  ) => {
    const child = spawn(process.execPath, [cli, "--socket", socket, ...args], { stdio: "pipe" });
    const said = { out: "", err: "", code: -1 };
    const look = (): void => {
      if (!isEnough(said.out + said.err)) return;
      isEnough = () => false;
      child.kill("SIGINT");
    };
    child.stdout.on("data", (data: Buffer) => {
      said.out += data.toString();
      look();
    });
    child.stderr.on("data", (data: Buffer) => {
      said.err += data.toString();
      look();
    });
    const poll = setInterval(look, 50);
    const late = setTimeout(() => child.kill("SIGKILL"), 40_000);
    said.code = await new Promise((resolve) => child.on("close", resolve));
    clearInterval(poll);
    clearTimeout(late);
    return said;
  };

  it("loops until it is interrupted, and prints its result", async () => {
    const said = await interrupted(["--loop", "50", "health"], (text) => text.split("\n").length > 3);
    expect([said.code, said.out.startsWith("SERVING\nSERVING\nSERVING\n")]).toEqual([0, true]);
    const calls = said.out.split("\n").length - 1;
    expect(said.err).toMatch(new RegExp(`^sealway-broker: ${calls} calls, 0 failed, in [0-9]+\\.[0-9] s\n$`));
    const away = await interrupted(
      ["--loop", "50", "health"],
      (text) => text.includes("sealway-broker:"),
      "/nowhere.sock",
    );
    expect([away.code, away.out]).toEqual([1, ""]);
    expect(away.err).toMatch(/sealway-broker: (\d+) calls, \1 failed, in [0-9.]+ s\n$/);
  });

  it("benchmarks until it is interrupted, and prints its result", async () => {
    const begunMs = performance.now();
    const args = ["--profile", profile, "benchmark", "--calls", "10000000", "--concurrency", "4"];
    const said = await interrupted(args, () => performance.now() - begunMs > 5000);
    const report = JSON.parse(said.out);
    expect(said).toMatchObject({ code: 0, err: "" });
    expect(report).toMatchObject({ failed: 0, interrupted: true });
    expect(report.calls).toBeGreaterThan(0);
    expect(report.calls).toBeLessThan(10_000_000);
    expect(report.latency_ms.p50).toBeGreaterThan(0);
    expect(performance.now() - begunMs).toBeLessThan(25_000);
  });

  it("exits with 1 if the broker rejects or is unreachable, and with 2 for an unknown command", () => {
    expect(run("--profile", "none", "hash", "abc").status).toBe(1);
    expect(run("--socket", "/nowhere/broker.sock", "health")).toMatchObject({ status: 1, stdout: "" });
    for (const args of [
      [],
      ["dance"],
      ["hash"],
      ["sign"],
      ["--loop", "0", "health"],
      ["--what"],
      ["benchmark", "--calls", "0"],
    ]) {
      expect(run(...args)).toMatchObject({ status: 2, stdout: "" });
    }
  });
});
