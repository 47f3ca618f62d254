/**
 * A service of wire 4 that a test plays. It opens requests by a recipient of HPKE of its own, over `node:crypto`, sees all that
 * reaches it, and may meddle.
 */
import * as crypto from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import {
  answerContext,
  answerKeys,
  CONTENT_TYPE,
  isBodyless,
  requestContext,
  requestKeys,
  type Seal,
} from "../../src/session/native/call.js";
import { decodeInner, encodeInner } from "../../src/session/native/inner.js";
import { keyIdOf } from "../../src/session/native/key-set.js";
import { FrameOpener, FrameSealer } from "../../src/session/native/stream.js";
import { fromBase64, toBase64 } from "../../src/wire/base64.js";
import { type Bytes, concat, hex, utf8 } from "../../src/wire/bytes.js";
import { fields } from "../../src/wire/fields.js";
import { Signer } from "../signer.js";

const FAR_MS = 4_000_000_000_000;

const hmac = (key: Uint8Array, ...parts: Uint8Array[]): Bytes => {
  const mac = crypto.createHmac("sha256", key);
  for (const part of parts) mac.update(part);
  return Uint8Array.from(mac.digest());
};

/** `LabeledExtract` and `LabeledExpand` of RFC 9180 section 4, to 32 bytes. */
const labeled = (suiteId: Uint8Array) => ({
  extract: (salt: Uint8Array, label: string, ikm: Uint8Array) =>
    hmac(salt, utf8("HPKE-v1"), suiteId, utf8(label), ikm),
  expand: (prk: Uint8Array, label: string, info: Uint8Array) =>
    hmac(prk, Uint8Array.of(0, 32), utf8("HPKE-v1"), suiteId, utf8(label), info, Uint8Array.of(1)),
});

/** A key of a service, X25519. */
export class Key {
  readonly #private: crypto.KeyObject;
  readonly publicKey: Bytes;
  readonly config: Bytes;
  name = "";
  notBeforeMs = 0;
  useUntilMs = FAR_MS;

  private constructor() {
    const pair = crypto.generateKeyPairSync("x25519");
    this.#private = pair.privateKey;
    this.publicKey = Uint8Array.from(pair.publicKey.export({ format: "der", type: "spki" }).subarray(-32));
    this.config = concat(Uint8Array.of(1, 0, 0x20), this.publicKey, Uint8Array.of(0, 4, 0, 1, 0, 2));
  }

  static async make(): Promise<Key> {
    const made = new Key();
    made.name = await keyIdOf(provider, made.config);
    return made;
  }

  get kid(): string {
    return `hpke:${this.name}`;
  }

  /** The configuration in base64, to be pinned. */
  get pin(): string {
    return toBase64(this.config);
  }

  /** What a request is sealed under. */
  async seal(enc: Uint8Array, pskId: string, psk: Uint8Array): Promise<Seal> {
    const spki = Buffer.concat([Buffer.from("302a300506032b656e032100", "hex"), enc]);
    const publicKey = crypto.createPublicKey({ key: spki, format: "der", type: "spki" });
    const dh = crypto.diffieHellman({ privateKey: this.#private, publicKey });
    const kem = labeled(Uint8Array.of(...utf8("KEM"), 0, 0x20));
    const prk = kem.extract(new Uint8Array(), "eae_prk", dh);
    const shared = kem.expand(prk, "shared_secret", concat(enc, this.publicKey));
    const hpke = labeled(Uint8Array.of(...utf8("HPKE"), 0, 0x20, 0, 1, 0, 2));
    const info = fields("sealway/4", this.name, pskId);
    const context = concat(
      Uint8Array.of(pskId === "" ? 0 : 1),
      hpke.extract(new Uint8Array(), "psk_id_hash", utf8(pskId)),
      hpke.extract(new Uint8Array(), "info_hash", info),
    );
    const exporter = hpke.expand(hpke.extract(shared, "secret", psk), "exp", context);
    const keyOf = (label: string) => provider.macKey(hpke.expand(exporter, "sec", utf8(label)));
    const [c2s, s2c] = [await keyOf("sealway/4 c2s"), await keyOf("sealway/4 s2c")];
    return { wire: 4, id: this.name, keys: { c2s, s2c } };
  }
}

/** A key document, signed by a root if there is one. */
export async function documentOf(
  keys: Key[],
  root?: Signer,
  issuedMs = 1,
  expiresMs = FAR_MS,
): Promise<Record<string, unknown>> {
  const each = keys.map((key) => fields(key.config, key.notBeforeMs, key.useUntilMs, FAR_MS));
  const hash = await provider.sha256(fields(issuedMs, expiresMs, fields(...each)));
  const listed = keys.map((key) => ({
    config: key.pin,
    not_before_ms: key.notBeforeMs,
    use_until_ms: key.useUntilMs,
    not_after_ms: FAR_MS,
  }));
  const signed = root && {
    root_key_id: root.id,
    root_signature: toBase64(root.sign(concat(utf8("sealway/4 keys"), hash))),
  };
  return { issued_ms: issuedMs, expires_ms: expiresMs, keys: listed, ...signed };
}

/** A request as it was opened. */
export interface Opened {
  readonly method: string;
  readonly target: string;
  readonly inner: [string, string][];
  /** Body, frame by frame. */
  readonly frames: AsyncIterable<Uint8Array>;
  readonly pskId: string;
  readonly stampMs: number;
  readonly enc: string;
  readonly nonce: string;
}

/** What is answered, before it is sealed. */
export interface Plain {
  readonly status: number;
  /** True if the server answers by itself. */
  readonly isProblem?: boolean;
  readonly inner?: [string, string][];
  readonly frames?: Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
  /** Meddles with the parts of the stream before they are sent; what it leaves out is not sent. */
  readonly meddle?: (part: Bytes, at: number) => Uint8Array | undefined;
}

/** A problem that the server seals. */
export const sealedProblem = (status: number, code: string, more: object = {}): Plain => ({
  status,
  isProblem: true,
  inner: [["content-type", "application/problem+json"]],
  frames: [utf8(JSON.stringify({ type: `urn:sealway:problem:${code}`, code, status, ...more }))],
});

export class Service {
  /** The key that opens; a test may set the next one. */
  key: Key;
  readonly root: Signer;
  /** All requests that came: method and target. */
  readonly seen: string[] = [];
  /** Calls that opened. */
  readonly opened: Opened[] = [];
  document: object = {};
  url = "";
  psks = new Map<string, Uint8Array>();
  /** Answers by itself, in plain, before a request is opened. */
  before: (request: IncomingMessage, response: ServerResponse) => unknown = () => undefined;
  serve: (call: Opened) => Promise<Plain> | Plain = () => ({ status: 200, frames: [utf8("served")] });
  readonly #server: Server;

  private constructor(key: Key, root: Signer) {
    this.key = key;
    this.root = root;
    this.#server = createServer((request, response) => {
      this.#handle(request, response).catch(() => response.destroy());
    });
  }

  static async start(): Promise<Service> {
    const made = new Service(await Key.make(), await Signer.make());
    made.document = await documentOf([made.key], made.root);
    await new Promise<void>((resolve) => made.#server.listen(0, "127.0.0.1", resolve));
    made.url = `http://127.0.0.1:${(made.#server.address() as AddressInfo).port}`;
    return made;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** Number of requests whose method and target are of this form. */
  count(form: RegExp): number {
    return this.seen.filter((each) => form.test(each)).length;
  }

  get rootPin(): { root: string } {
    return { root: toBase64(this.root.publicKey) };
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url: target = "" } = request;
    this.seen.push(`${method} ${target}`);
    await this.before(request, response);
    if (response.writableEnded || response.destroyed) return;
    if (target === "/.well-known/sealway-hpke-keys") return plainProblem(response, 200, this.document);
    const { seal, call } = await this.#open(request, method, target);
    this.opened.push(call);
    await this.#answer(response, seal, call, await this.serve(call));
  }

  async #open(request: IncomingMessage, method: string, target: string) {
    const { "x-seal": wire, "x-kid": kid, "content-type": type = "" } = request.headers;
    if (wire !== "4" || kid !== this.key.kid) throw new Error(`not of this key: ${wire} ${kid}`);
    const [stamp = "", nonce = ""] = String(request.headers["x-idempotency-key"]).split(".");
    const inHeader = request.headers["x-sealed"];
    const parts = partsOf(inHeader === undefined ? request : [fromBase64(String(inHeader)) as Bytes]);
    const [mode, pskLength] = await parts.take(2);
    const pskId = Buffer.from(await parts.take(pskLength ?? 0)).toString("latin1");
    const psk = mode === 0 ? new Uint8Array() : this.psks.get(pskId);
    if (psk === undefined || (mode === 0) !== (pskId === ""))
      throw new Error(`not of a PSK: ${mode} ${pskId}`);
    const enc = await parts.take(32);
    const seal = await this.key.seal(enc, pskId, psk);
    const context = await requestContext(provider, seal, { method, target }, type, stamp, nonce);
    const opener = new FrameOpener(await requestKeys(provider, seal, nonce, stamp), context, !!inHeader);
    const plaintexts = framesOf(opener, parts);
    const first = (await plaintexts.next()).value;
    const { headers: inner, body } = decodeInner(first ?? new Uint8Array());
    const frames = (async function* () {
      yield body;
      yield* plaintexts;
    })();
    const stampMs = Number(stamp);
    const call: Opened = { method, target, inner, frames, pskId, stampMs, enc: hex(enc), nonce };
    return { seal, call };
  }

  async #answer(response: ServerResponse, seal: Seal, call: Opened, plain: Plain): Promise<void> {
    const { status, isProblem = false, inner = [], frames = [], meddle = (part: Bytes) => part } = plain;
    const nonce = `${isProblem ? "p" : "r"}-${hex(provider.random(16))}`;
    const stamp = String(Date.now());
    const inHeader = isBodyless(call.method, status);
    const type = inHeader ? "" : CONTENT_TYPE;
    const context = await answerContext(provider, seal, status, call, type, stamp, nonce);
    const sealer = new FrameSealer(await answerKeys(provider, seal, call.nonce, nonce), context);
    response.setHeader("X-Seal", "4").setHeader("X-Kid", this.key.kid);
    response.setHeader("X-Idempotency-Key", `${stamp}.${nonce}`);
    if (inHeader) {
      const all = [encodeInner(inner)];
      for await (const frame of frames) all.push(frame as Bytes);
      response.setHeader("X-Sealed", toBase64(await sealer.seal(concat(...all), true)));
      response.writeHead(status).end();
      return;
    }
    response.writeHead(status, { "Content-Type": type });
    let at = 0;
    const send = async (plaintext: Uint8Array, isLast: boolean) => {
      const part = meddle(await sealer.seal(plaintext, isLast), at);
      at += 1;
      if (part !== undefined) response.write(part);
    };
    // The first frame holds the headers and what there is of the body.
    const head = () => (at === 0 ? encodeInner(inner) : new Uint8Array());
    for await (const frame of frames) if (frame.length > 0) await send(concat(head(), frame), false);
    await send(head(), true);
    response.end();
  }
}

/** Takes so many bytes of parts that come. */
function partsOf(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>) {
  const parts = (async function* () {
    yield* source;
  })();
  let rest: Uint8Array = new Uint8Array();
  const next = async (): Promise<Uint8Array | undefined> => {
    if (rest.length > 0) {
      const given = rest;
      rest = new Uint8Array();
      return given;
    }
    const { value, done } = await parts.next();
    return done ? undefined : value;
  };
  const take = async (length: number): Promise<Uint8Array> => {
    while (rest.length < length) {
      const { value, done } = await parts.next();
      if (done) throw new Error("the stream ends in front of its frames");
      rest = concat(rest, value);
    }
    const taken = rest.subarray(0, length);
    rest = rest.subarray(length);
    return taken;
  };
  return { next, take };
}

async function* framesOf(opener: FrameOpener, parts: ReturnType<typeof partsOf>): AsyncGenerator<Uint8Array> {
  for (;;) {
    const frame = await opener.next();
    if (frame !== undefined) {
      yield frame;
      continue;
    }
    const part = await parts.next();
    if (part === undefined) return opener.finish();
    opener.push(part);
  }
}

/** Answers in plain with JSON. */
export function plainProblem(response: ServerResponse, status: number, members: object): void {
  response.writeHead(status, { "Content-Type": "application/problem+json" }).end(JSON.stringify(members));
}

/** All of a body. */
export async function bodyOf(call: Opened): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of call.frames) parts.push(part);
  return Buffer.concat(parts).toString();
}
