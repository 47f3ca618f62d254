#!/usr/bin/env node
/** `sealway-broker`: asks a broker from a command line. */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { measure } from "./benchmark.js";
import type { BrokerClient } from "./client.js";
import { BrokerError } from "./error.js";

const USAGE = `usage: sealway-broker [OPTIONS] COMMAND
  hash TEXT...                               digests in hexadecimal; @FILE for a file's content
  sign --csr FILE --ca-cert FILE --ca-key-ref ID [--subject TEXT]   a certificate in PEM; ID names a key of the store
  health                                     exit code 0 where the broker serves
  benchmark [--calls N] [--concurrency N] [--bytes N]   digests, and how fast they came: one line of JSON
  benchmark --server                         has a broker that was started with --dev time its operations
  --socket PATH      its socket; CRYPTO_BROKER_SOCKET, else /tmp/open-crypto-broker/crypto-broker-server.sock
  --profile NAME     default: Default
  --timeout-ms MS    timeout of a call; default: 10000
  --traceparent TEXT the trace that calls belong to
  --loop MS          again and again, with so many ms in between, until it is interrupted; 1 to 86400000
Interrupted (SIGINT, SIGTERM), a loop and a benchmark end with what they did. The exit code is 0, 1 where a call failed or
health is not SERVING, 2 for a command that cannot be read.
`;

/** The command line could not be read. */
class Misuse extends Error {}

function command() {
  const text = { type: "string" } as const;
  const named = { socket: text, profile: text, "timeout-ms": text, traceparent: text, loop: text };
  const files = { csr: text, "ca-key-ref": text, "ca-key": text, "ca-cert": text, subject: text };
  const load = { calls: text, concurrency: text, bytes: text, server: { type: "boolean" } } as const;
  const help = { help: { type: "boolean", short: "h" } } as const;
  try {
    return parseArgs({ allowPositionals: true, options: { ...named, ...files, ...load, ...help } });
  } catch (error) {
    throw new Misuse((error as Error).message);
  }
}

function whole(
  value: string | undefined,
  name: string,
  otherwise: number,
  most = 86_400_000,
  least = 1,
): number {
  if (value === undefined) return otherwise;
  const number = Number(value);
  if (!/^[0-9]+$/.test(value) || number < least || number > most)
    throw new Misuse(`--${name} is a number from ${least} to ${most}`);
  return number;
}

function needed(value: string | undefined, name: string): string {
  if (value === undefined) throw new Misuse(`--${name} is absent`);
  return value;
}

function content(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Misuse(`${path}: ${(error as NodeJS.ErrnoException).code}`);
  }
}

type Values = ReturnType<typeof command>["values"];

/** The call of a command: what it prints. The signal takes it back. */
function callOf(
  values: Values,
  positionals: string[],
  signal: AbortSignal,
): (client: BrokerClient) => Promise<string> {
  const profile = values.profile ?? "Default";
  const trace = values.traceparent === undefined ? {} : { traceparent: values.traceparent };
  const options = { deadlineMs: whole(values["timeout-ms"], "timeout-ms", 10_000), signal, ...trace };
  const [name, ...rest] = positionals;
  if (name !== "hash" && rest.length > 0) throw new Misuse(`${name} takes no ${rest[0]}`);
  switch (name) {
    case "hash": {
      if (rest.length === 0) throw new Misuse("hash: what is to be digested is absent");
      const inputs = rest.map((text) => (text.startsWith("@") ? content(text.slice(1)) : Buffer.from(text)));
      return async (client) => {
        const { digests } = await client.hash({ profile, inputs }, options);
        return digests.map((digest) => `${Buffer.from(digest).toString("hex")}\n`).join("");
      };
    }
    case "sign": {
      if (values["ca-key"] !== undefined)
        throw new Misuse(
          "--ca-key FILE is not sent from here: import the key, and name it with --ca-key-ref ID",
        );
      const request = {
        profile,
        csr: content(needed(values.csr, "csr")),
        caKeyRef: needed(values["ca-key-ref"], "ca-key-ref"),
        caCertificate: content(needed(values["ca-cert"], "ca-cert")),
        ...(values.subject === undefined ? {} : { subject: values.subject }),
      };
      return async (client) => {
        const { der } = await client.signCertificate(request, options);
        const lines =
          Buffer.from(der)
            .toString("base64")
            .match(/.{1,64}/g) ?? [];
        return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
      };
    }
    case "health":
      return async (client) => {
        const health = await client.health(options);
        if (health !== "SERVING") process.exitCode = 1;
        return `${health}\n`;
      };
    case "benchmark": {
      const load = {
        calls: whole(values.calls, "calls", 1000, 10_000_000),
        concurrency: whole(values.concurrency, "concurrency", 1, 256),
        inputBytes: whole(values.bytes, "bytes", 256, 1 << 20, 0),
      };
      if (values.server === true) return async (client) => `${await client.benchmark(options)}\n`;
      const inputs = [new Uint8Array(load.inputBytes)];
      return async (client) => {
        const call = (): Promise<unknown> => client.hash({ profile, inputs }, options);
        // A call before the clock: the connection, and whether there is such a profile.
        await call();
        const report = await measure(load, call, signal);
        if (report.failed > 0) process.exitCode = 1;
        return `${JSON.stringify(report)}\n`;
      };
    }
    default:
      throw new Misuse(name === undefined ? "a command is absent" : `there is no command ${name}`);
  }
}

async function main(): Promise<void> {
  const { values, positionals } = command();
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const common = "/tmp/open-crypto-broker/crypto-broker-server.sock";
  const stop = new AbortController();
  const call = callOf(values, positionals, stop.signal);
  const everyMs = values.loop === undefined ? undefined : whole(values.loop, "loop", 0);
  // A malformed command is reported before gRPC is loaded.
  const { BrokerClient } = await import("./client.js");
  const client = new BrokerClient({ socket: values.socket ?? process.env.CRYPTO_BROKER_SOCKET ?? common });
  process.once("SIGINT", () => stop.abort()).once("SIGTERM", () => stop.abort());
  try {
    if (everyMs === undefined) process.stdout.write(await call(client));
    else await repeat(everyMs, stop.signal, async () => process.stdout.write(await call(client)));
  } finally {
    client.close();
  }
}

/** Goes on after failures, for it is there to see a broker come back, and ends with what it did. */
async function repeat(everyMs: number, signal: AbortSignal, call: () => Promise<unknown>): Promise<void> {
  const begunMs = performance.now();
  let [calls, failed] = [0, 0];
  while (!signal.aborted) {
    try {
      await call();
      calls++;
    } catch (error) {
      if (!(error instanceof BrokerError)) throw error;
      // What the signal took back was not answered, and did not fail.
      if (signal.aborted) break;
      calls++;
      failed++;
      process.stderr.write(`sealway-broker: ${error.message}\n`);
    }
    await pause(everyMs, signal);
  }
  const seconds = (performance.now() - begunMs) / 1000;
  process.stderr.write(`sealway-broker: ${calls} calls, ${failed} failed, in ${seconds.toFixed(1)} s\n`);
  if (failed > 0) process.exitCode = 1;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
}

main().catch((error: Error) => {
  process.stderr.write(`sealway-broker: ${error.message}\n${error instanceof Misuse ? USAGE : ""}`);
  process.exitCode = error instanceof Misuse ? 2 : 1;
});
