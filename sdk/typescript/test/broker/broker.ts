import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BrokerClient, type BrokerOptions } from "../../src/broker/index.js";
import { sealway, until } from "../channel/relay.js";

const PROFILES = `
- Name: All
  Settings: { CryptoLibrary: native }
  API:
    HashData: { HashAlg: sha-256 }
    EncryptData: { EncryptAlg: aes-gcm, KeySize: 256 }
    Mac: { MacAlg: hmac-sha-256 }
    Derive: { DeriveAlg: hkdf-sha-256 }
    Random: true
    Encapsulate: { KemAlg: ml-kem-768 }
    Unwrap: { UnwrapAlg: rsa-oaep-256 }
    SignData: { SignAlg: ed25519 }
    SignCertificate:
      SignAlg: ecdsa
      HashAlg: sha-384
      SKIHashAlg: sha-256
      Validity: { ValidNotBeforeOffset: -1h, ValidNotAfterOffset: 24h }
      KeyConstraints:
        Subject: { ECDSA: { MinKeySize: 256, MaxKeySize: 521 } }
        Issuer: { ECDSA: { MinKeySize: 256, MaxKeySize: 521 } }
      KeyUsage: [digitalSignature]
      BasicConstraints: { CA: false }
`;

/** A broker in a process of its own, with a store of keys. */
export class BrokerFixture {
  readonly folder = mkdtempSync(join(tmpdir(), "sealway-ts-broker-"));
  readonly socket = join(this.folder, "run", "broker.sock");
  readonly #clients: BrokerClient[] = [];
  #child: ChildProcess | undefined;
  #said = "";

  constructor() {
    spawnSync("mkdir", ["-m", "700", join(this.folder, "run"), join(this.folder, "keys")]);
    this.file("profiles.yaml", PROFILES);
    this.file("kek", `${"ab".repeat(32)}\n`);
  }

  /** `environment` is beside this process's own. */
  async start(environment: Record<string, string> = {}): Promise<this> {
    const files = ["--profiles", join(this.folder, "profiles.yaml"), "--keys", join(this.folder, "keys")];
    const args = [
      "broker",
      "serve",
      "--socket",
      this.socket,
      ...files,
      "--kek-file",
      join(this.folder, "kek"),
      "--dev",
    ];
    const child = spawn(sealway(), args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...environment },
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (bytes: Buffer) => {
        this.#said += bytes.toString();
      });
    }
    const probe = this.client({ retry: { attempts: 1 }, breaker: false });
    await until(`a broker (${this.#said})`, async () => {
      if (child.exitCode !== null) throw new Error(`the broker ended: ${this.#said}`);
      const health = await probe.health().catch(() => undefined);
      return health === "SERVING" ? true : undefined;
    });
    return this;
  }

  client(options: Partial<BrokerOptions> = {}): BrokerClient {
    const client = new BrokerClient({ socket: this.socket, ...options });
    this.#clients.push(client);
    return client;
  }

  file(name: string, content: string): string {
    const path = join(this.folder, name);
    writeFileSync(path, content, { mode: 0o600 });
    return path;
  }

  openssl(...args: string[]): string {
    const { status, stdout, stderr } = spawnSync("openssl", args, { cwd: this.folder, encoding: "utf8" });
    if (status !== 0) throw new Error(`openssl ${args[0]}: ${stderr}`);
    return stdout;
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("close", resolve));
    child.kill();
    await ended;
    this.#child = undefined;
  }

  async end(): Promise<void> {
    for (const client of this.#clients) client.close();
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
