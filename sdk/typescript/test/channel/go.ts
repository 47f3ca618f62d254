import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { Channel, Stream } from "../../src/channel/index.js";
import { HandlerError, Rpc, type RpcError } from "../../src/rpc/index.js";

/** What Go's end says of a channel: sdk/go/channel/cmd/channel-peer. */
export interface Said {
  readonly id: string;
  readonly is: "refused" | "failed" | "played" | "over";
  readonly stage?: string;
  readonly code?: string;
  readonly text?: string;
  readonly close?: number;
  readonly reason?: string;
}

/** What Go's end is asked to play. */
export interface Asked {
  readonly grant: unknown;
  readonly identity?: string;
  readonly handshake_ms?: number;
  readonly closes?: boolean;
}

/** Go's end of channels, in a process of its own. Where Go is not installed it fails. */
export class GoPeer {
  readonly #folder = mkdtempSync(join(tmpdir(), "sealway-go-"));
  readonly #lines = new Map<string, Said[]>();
  readonly #waits = new Map<string, (said: Said) => void>();
  #child: ChildProcess | undefined;
  #count = 0;
  #err = "";

  start(): void {
    const into = join(this.#folder, "channel-peer");
    const cwd = fileURLToPath(new URL("../../../go/channel", import.meta.url));
    const built = spawnSync("go", ["build", "-o", into, "./cmd/channel-peer"], { cwd, encoding: "utf8" });
    if (built.status !== 0)
      throw new Error(`Go's end of channels does not build: ${built.error ?? built.stderr}`);
    const child = spawn(into, { stdio: ["pipe", "pipe", "pipe"] });
    child.stderr.on("data", (bytes: Buffer) => {
      this.#err += bytes.toString();
    });
    createInterface({ input: child.stdout }).on("line", (line) => {
      const said = JSON.parse(line) as Said;
      const wait = this.#waits.get(said.id);
      this.#waits.delete(said.id);
      if (wait !== undefined) wait(said);
      else this.#lines.set(said.id, [...(this.#lines.get(said.id) ?? []), said]);
    });
    this.#child = child;
  }

  /** Begins to play, and gives a way to hear what is said of it next. */
  ask(asked: Asked): () => Promise<Said> {
    const id = `${++this.#count}`;
    this.#child!.stdin!.write(`${JSON.stringify({ ...asked, id })}\n`);
    return () => this.#next(id);
  }

  stop(): void {
    this.#child?.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #next(id: string): Promise<Said> {
    const waiting = this.#lines.get(id)?.shift();
    if (waiting !== undefined) return waiting;
    return await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`Go's end says nothing more. ${this.#err}`)), 30_000);
      this.#waits.set(id, (said) => {
        clearTimeout(late);
        resolve(said);
      });
    });
  }
}

// The types of calls and the lengths are those of sdk/go/channel/cmd/channel-peer/play.go, which does the same.
const [ECHO, REFUSE, HAIL, HAILED, WAIT, NOBODY] = [1, 2, 3, 4, 5, 77] as const;
const STREAM_LENGTH = 600_000;
const CALLS_OF_EACH = 20;

/** Opens streams and calls both ways, and serves the other end's, as it does at the same time. */
export async function play(channel: Channel): Promise<void> {
  await Promise.all([serve(channel), echoed(channel, 0), echoed(channel, STREAM_LENGTH), called(channel)]);
}

async function serve(channel: Channel): Promise<void> {
  const ended: Promise<void>[] = [];
  for (let left = 3; left > 0; left--) {
    const { hello, stream } = (await channel.accept())!;
    if (hello.kind === "echo") {
      expect(hello.v).toBe(2);
      ended.push(echo(stream));
      continue;
    }
    expect(hello).toEqual({ kind: "rpc", v: 1 });
    const rpc: Rpc = Rpc.over(stream, {
      handlers: {
        [ECHO]: async (payload) => {
          await rpc.notify(HAILED, -(payload as number));
          return payload;
        },
        [REFUSE]: () => {
          throw new HandlerError(1234, "as was asked for");
        },
        [WAIT]: (_, { signal }) =>
          new Promise((resolve) => signal.addEventListener("abort", () => resolve(null))),
      },
      listeners: { [HAIL]: (payload) => void rpc.notify(HAILED, (payload as number) + 1) },
    });
    ended.push(rpc.over());
  }
  await Promise.all(ended);
}

async function echo(stream: Stream): Promise<void> {
  for (let chunk = await stream.read(); chunk !== undefined; chunk = await stream.read())
    await stream.write(chunk);
  await stream.end();
}

async function echoed(channel: Channel, length: number): Promise<void> {
  const stream = await channel.open({ kind: "echo", v: 2 });
  const sent = Buffer.alloc(length);
  for (let at = 0; at < length; at += 65_536) crypto.getRandomValues(sent.subarray(at, at + 65_536));
  const wrote = stream.write(sent).then(() => stream.end());
  const got: Uint8Array[] = [];
  for (let chunk = await stream.read(); chunk !== undefined; chunk = await stream.read()) got.push(chunk);
  expect(Buffer.concat(got).equals(sent)).toBe(true);
  await wrote;
}

async function called(channel: Channel): Promise<void> {
  const heard: number[] = [];
  let expected = 0;
  const rpc = await Rpc.open(channel, {
    listeners: { [HAILED]: (payload) => heard.push(payload as number) },
  });
  const hears = async (number: number): Promise<void> => {
    expected++;
    await expect.poll(() => heard.length, { timeout: 10_000, interval: 2 }).toBe(expected);
    expect(heard.at(-1)).toBe(number);
  };
  for (let number = 1; number <= CALLS_OF_EACH; number++) {
    expect(await rpc.call(ECHO, number)).toBe(number);
    await hears(-number);
    await rpc.notify(HAIL, number);
    await hears(number + 1);
  }
  await expect(rpc.call(NOBODY, null)).rejects.toMatchObject({ code: "handler_not_found", number: 404 });
  await expect(rpc.call(REFUSE, null)).rejects.toMatchObject({ code: "rpc_error", number: 1234 });
  const late = await rpc.call(WAIT, null, { timeoutMs: 50 }).then(
    () => undefined,
    (error: RpcError) => [error.code, error.number],
  );
  // Either end's clock may be the first to say so.
  expect([
    ["rpc_timeout", undefined],
    ["rpc_error", 408],
  ]).toContainEqual(late);
  await rpc.close();
}
