#!/usr/bin/env node
/** `sealway-broker`: asks a broker from a command line. */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { BrokerClient } from "./client.js";
import { BrokerError } from "./error.js";

const USAGE = `usage: sealway-broker [OPTIONS] COMMAND
  hash TEXT...                               digests in hexadecimal; @FILE for a file's content
  sign --csr FILE --ca-key KEY --ca-cert FILE   a certificate in PEM; KEY is a key of the store
  health                                     exit code 0 where the broker serves
  benchmark                                  has a broker that was started with --dev time its operations
  --socket PATH      its socket; CRYPTO_BROKER_SOCKET, else /tmp/open-crypto-broker/crypto-broker-server.sock
  --profile NAME     Default unless said
  --timeout-ms MS    how long a call may take; 10000 unless said
  --traceparent TEXT the trace that calls belong to
  --loop MS          again and again, with so many ms in between, until it is interrupted; 1 to 86400000
`;

/** The command line could not be read. */
class Misuse extends Error {}

function command() {
  const text = { type: "string" } as const;
  const named = { socket: text, profile: text, "timeout-ms": text, traceparent: text, loop: text };
  const files = { csr: text, "ca-key": text, "ca-cert": text, subject: text };
  const help = { help: { type: "boolean", short: "h" } } as const;
  try {
    return parseArgs({ allowPositionals: true, options: { ...named, ...files, ...help } });
  } catch (error) {
    throw new Misuse((error as Error).message);
  }
}

function whole(value: string | undefined, name: string, otherwise: number): number {
  if (value === undefined) return otherwise;
  const number = Number(value);
  if (!Number.isInteger(number) || number < 1 || number > 86_400_000)
    throw new Misuse(`--${name}: no such number of ms`);
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

/** The call of a command: what it prints. */
function callOf(values: Values, positionals: string[]): (client: BrokerClient) => Promise<string> {
  const profile = values.profile ?? "Default";
  const trace = values.traceparent === undefined ? {} : { traceparent: values.traceparent };
  const options = { deadlineMs: whole(values["timeout-ms"], "timeout-ms", 10_000), ...trace };
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
      const request = {
        profile,
        csr: content(needed(values.csr, "csr")),
        caKeyRef: needed(values["ca-key"], "ca-key"),
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
    case "benchmark":
      return async (client) => `${await client.benchmark(options)}\n`;
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
  const call = callOf(values, positionals);
  const everyMs = values.loop === undefined ? undefined : whole(values.loop, "loop", 0);
  // A command that cannot be read is told of before gRPC is loaded.
  const { BrokerClient } = await import("./client.js");
  const client = new BrokerClient({ socket: values.socket ?? process.env.CRYPTO_BROKER_SOCKET ?? common });
  let isStopped = false;
  let wake = (): void => undefined;
  const stop = (): void => {
    isStopped = true;
    wake();
  };
  process.once("SIGINT", stop).once("SIGTERM", stop);
  try {
    do {
      try {
        process.stdout.write(await call(client));
      } catch (error) {
        // A loop goes on: it is there to see a broker come back.
        if (everyMs === undefined || !(error instanceof BrokerError)) throw error;
        process.stderr.write(`sealway-broker: ${error.message}\n`);
      }
      if (everyMs === undefined || isStopped) break;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, everyMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    } while (!isStopped);
  } finally {
    client.close();
  }
}

main().catch((error: Error) => {
  process.stderr.write(`sealway-broker: ${error.message}\n${error instanceof Misuse ? USAGE : ""}`);
  process.exitCode = error instanceof Misuse ? 2 : 1;
});
