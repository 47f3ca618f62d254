import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { controlGrants, parseGrantPair, type Role } from "../../src/channel/index.js";

/** The binary under test: SEALWAY_BIN, else that of a debug build. There is no silent skip. */
export function sealway(): string {
  const built = fileURLToPath(new URL("../../../../target/debug/sealway", import.meta.url));
  const path = process.env.SEALWAY_BIN ?? built;
  if (!existsSync(path))
    throw new Error(`no binary of sealway at ${path}: build it (cargo build) or set SEALWAY_BIN`);
  return path;
}

/**
 * A port that was free a moment ago, below those that the kernel gives to connections: a connection of another test cannot take
 * it before the server of this one does.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_000);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}

/** Waits until something holds. */
export async function until<T>(what: string, look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (let left = 600; left > 0; left--) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${what} did not come about within 30 s`);
}

/** A relay and a control plane in processes of their own. */
export class RelayFixture {
  readonly folder = mkdtempSync(join(tmpdir(), "sealway-ts-"));
  readonly #children: ChildProcess[] = [];
  url = "";
  controlUrl = "";
  readonly tokenFile = join(this.folder, "token");

  /** Starts both. `flags` are for `relay serve`. */
  async start(...flags: string[]): Promise<this> {
    const [key, keys] = [join(this.folder, "key.json"), join(this.folder, "keys.json")];
    this.run("relay", "keys", "--kid", "k1", "--issuer-key-file", key, "--issuer-keys-file", keys);
    writeFileSync(this.tokenFile, "test-token-0123456789-test-token-0123456789\n", { mode: 0o600 });
    await this.startRelay("127.0.0.1:0", ...flags);
    return this;
  }

  /** Starts a relay; at the address of the one before where none is given. */
  async startRelay(listen = new URL(this.url).host, ...flags: string[]): Promise<void> {
    const keys = ["--issuer-keys-file", join(this.folder, "keys.json")];
    const { child, ended } = this.spawn([
      "relay",
      "serve",
      "--listen",
      listen,
      ...keys,
      "--aud",
      "here",
      ...flags,
    ]);
    const said = JSON.parse(await firstLine(child)) as { listen: string; ws_path: string };
    this.url = `ws://${said.listen}${said.ws_path}`;
    this.stopRelay = async () => {
      child.kill("SIGKILL");
      await ended;
    };
  }

  /** Kills the relay. */
  stopRelay: () => Promise<void> = async () => undefined;

  async control(...flags: string[]): Promise<this> {
    const address = `127.0.0.1:${await freePort()}`;
    const key = [
      "--issuer-key-file",
      join(this.folder, "key.json"),
      "--tunnel-url",
      this.url,
      "--aud",
      "here",
    ];
    this.spawn(["relay", "control", "--listen", address, "--token-file", this.tokenFile, ...key, ...flags]);
    this.controlUrl = `http://${address}`;
    await until("the control plane", () => fetch(`${this.controlUrl}/healthz`).catch(() => undefined));
    return this;
  }

  /** Both grants of a new channel. */
  async mint(...flags: string[]) {
    return parseGrantPair(await this.mintText(...flags));
  }

  /** The same as JSON. Other tests that run at the same time have timeouts, so this does not stop them meanwhile. */
  async mintText(...flags: string[]): Promise<string> {
    const key = [
      "--issuer-key-file",
      join(this.folder, "key.json"),
      "--tunnel-url",
      this.url,
      "--aud",
      "here",
    ];
    return (await promisify(execFile)(sealway(), ["relay", "mint", ...key, ...flags])).stdout;
  }

  grants(name: string, role: Role) {
    const token = readFileSync(this.tokenFile, "utf8").trim();
    return controlGrants({ url: this.controlUrl, name, role, token });
  }

  /** A file in the fixture's folder. */
  file(name: string, content: string): string {
    const path = join(this.folder, name);
    writeFileSync(path, content, { mode: 0o600 });
    return path;
  }

  run(...args: string[]): string {
    const { status, stdout, stderr } = spawnSync(sealway(), args, { encoding: "utf8" });
    if (status !== 0) throw new Error(`sealway ${args.join(" ")} ended with ${status}: ${stderr}`);
    return stdout;
  }

  /** A process that ends with the fixture. */
  spawn(args: string[], stdin: "pipe" | "ignore" = "ignore") {
    const child = spawn(sealway(), args, { stdio: [stdin, "pipe", "pipe"] });
    this.#children.push(child);
    const said = { out: Buffer.alloc(0), err: "" };
    child.stdout!.on("data", (bytes: Buffer) => {
      said.out = Buffer.concat([said.out, bytes]);
    });
    child.stderr!.on("data", (bytes: Buffer) => {
      said.err += bytes.toString();
    });
    const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
    return { child, said, ended };
  }

  stop(): void {
    for (const child of this.#children) child.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout!.on("data", (bytes: Buffer) => {
      text += bytes.toString();
      if (text.includes("\n")) resolve(text.slice(0, text.indexOf("\n")));
    });
    child.on("close", (code) => reject(new Error(`it ended with ${code} before it said anything`)));
  });
}
