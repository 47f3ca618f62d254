/** A service of wire 3 that a test plays: it agrees sessions by itself, sees all that reaches it, and may meddle. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { nodeProvider as provider } from "../../src/crypto/node.js";
import type { AnswerBody } from "../../src/server/body.js";
import { Gate, MemoryStore, type OpenCall } from "../../src/server/index.js";
import type { SignatureAlgorithm } from "../../src/session/native/algorithm.js";
import { SessionKeys } from "../../src/session/native/keys.js";
import type { InitRequest } from "../../src/session/native/message.js";
import { acceptInit, admitInit } from "../../src/session/native/server-init.js";
import { drawServerShareKeys, PARTS } from "../../src/session/native/suite.js";
import { toBase64 } from "../../src/wire/base64.js";
import { type Bytes, concat, utf8 } from "../../src/wire/bytes.js";
import { SealwayError } from "../../src/wire/error.js";
import { fields } from "../../src/wire/fields.js";
import { keySetOf, Signer } from "../signer.js";

const realNow = Date.now.bind(Date);

/** What an answer is made of, before it is sealed. */
export interface Plain {
  readonly status: number;
  readonly body: AnswerBody;
}

export class Service {
  /** Its keys, the latest first. */
  identities: Signer[];
  readonly store = new MemoryStore(300_000, 1_000_000, () => this.now());
  /** All requests that came: method and path. */
  readonly seen: string[] = [];
  /** How far its clock is ahead of this machine's, in milliseconds. */
  aheadMs = 0;
  expiresInSec = 3600;
  suites: string[] = ["X25519MLKEM768", "SecP256r1MLKEM768", "P256"];
  keySet: object = {};
  url = "";
  /** Looks at a request before anything else; what it answers itself is done with. */
  before: (request: IncomingMessage, response: ServerResponse) => unknown = () => undefined;
  /** Waits before a refusal goes out. */
  beforeRefusal: () => unknown = () => undefined;
  /** Serves a call that has opened. */
  serve: (call: OpenCall, request: IncomingMessage) => Promise<Plain> | Plain = () => ({
    status: 200,
    body: utf8("served"),
  });
  /** Says who a client is, from its init. */
  recognise: (
    init: InitRequest,
    authorization: string | undefined,
  ) => Promise<"none" | "bearer" | "dpop"> | "none" | "bearer" | "dpop" = () => "none";
  /** Signs an answer to an init. */
  sign: (keyId: string, message: Bytes) => Bytes = (keyId, message) =>
    (this.identities.find(({ id }) => id === keyId) as Signer).sign(message);
  /** Changes the body of an init before it is read. */
  received: (body: Bytes) => Bytes = (body) => body;
  readonly #gate: Gate;
  readonly #server: Server;

  private constructor(identity: Signer) {
    this.identities = [identity];
    this.#gate = new Gate({ store: this.store, now: () => this.now() });
    this.#server = createServer((request, response) => {
      this.#handle(request, response).catch(() => response.destroy());
    });
  }

  static async start(algorithm?: SignatureAlgorithm): Promise<Service> {
    const made = new Service(await Signer.make(algorithm));
    made.keySet = await keySetOf(made.identities);
    await new Promise<void>((resolve) => made.#server.listen(0, "127.0.0.1", resolve));
    made.url = `http://127.0.0.1:${(made.#server.address() as AddressInfo).port}`;
    return made;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  now(): number {
    return realNow() + this.aheadMs;
  }

  /** The latest of its keys. */
  get identity(): Signer {
    return this.identities[0] as Signer;
  }

  /** How many requests came whose method and path are of this form. */
  count(form: RegExp): number {
    return this.seen.filter((each) => form.test(each)).length;
  }

  /** A `session_expired` as servers of earlier versions signed it, for the request that was refused. */
  async expired(request: IncomingMessage, timeMs: number): Promise<object> {
    const id = String(request.headers["x-kid"]).slice("session:".length);
    const [stamp = "", nonce = ""] = String(request.headers["x-idempotency-key"]).split(".");
    const hash = await provider.sha256(fields(id, nonce, stamp, timeMs));
    const signature = toBase64(this.identity.sign(concat(utf8("sealway/3 expired"), hash)));
    return {
      code: "session_expired",
      status: 401,
      server_time_ms: timeMs,
      key_id: this.identity.id,
      signature,
    };
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [method = "", target = ""] = [request.method, request.url];
    this.seen.push(`${method} ${target}`);
    await this.before(request, response);
    if (response.writableEnded || response.destroyed) return;
    if (target === "/.well-known/sealway-keys") return problem(response, 200, this.keySet);
    if (target === "/v3/sessions") {
      const { authorization } = request.headers;
      return this.#answerInit(
        response,
        await this.#agree(this.received(await bodyOf(request)), authorization),
      );
    }
    const headers = pairs(request.rawHeaders);
    const opened = await this.#gate.open({ method, target, headers, body: request });
    if (opened.kind === "refused") {
      await this.beforeRefusal();
      return send(response, opened.answer.status, opened.answer.headers, opened.answer.body);
    }
    if (opened.kind === "plain") throw new Error("nothing is plain here");
    const { call } = opened;
    const { status, body } = await this.#served(call, request, method, target);
    const answer = await call.seal(status, [], body);
    return send(response, answer.status, answer.headers, answer.body);
  }

  async #served(call: OpenCall, request: IncomingMessage, method: string, target: string): Promise<Plain> {
    const id = call.caller.sessionId;
    if (target === `/v3/sessions/${id}/renew`) {
      const parts: Uint8Array[] = [];
      for await (const part of call.body ?? []) parts.push(part);
      const { status, body } = await this.#agree(concat(...parts), undefined, id);
      return { status, body };
    }
    if (method === "DELETE" && target === `/v3/sessions/${id}`) {
      this.store.delete(id);
      return { status: 204, body: undefined };
    }
    return this.serve(call, request);
  }

  async #agree(
    body: Uint8Array,
    authorization: string | undefined,
    oldId?: string,
  ): Promise<{ status: number; body: Bytes }> {
    const nowMs = this.now();
    const identities = this.identities.map(({ id, algorithm }) => {
      return { keyId: id, algorithm, notBeforeMs: 0, notAfterMs: 4_000_000_000_000 };
    });
    const served = { suites: this.suites, identities };
    try {
      const init = admitInit(body, served, nowMs);
      const keys = await drawServerShareKeys(provider, PARTS[init.suite], init.request.share);
      const found = oldId === undefined ? undefined : await this.store.get(oldId);
      const old = found && { id: found.id, keys: await SessionKeys.of(provider, found.key) };
      const decided = {
        sessionIdRandom: provider.random(16),
        expiresInSec: this.expiresInSec,
        auth: await this.recognise(init.request, authorization),
        nowMs,
        authorization,
        old,
      };
      const sign = async (keyId: string, message: Bytes) => this.sign(keyId, message);
      const agreed = await acceptInit(provider, init, served, keys, decided, sign);
      this.store.put({
        id: agreed.id,
        wire: 3,
        clientId: init.request.clientId,
        subject: undefined,
        tenant: undefined,
        auth: decided.auth,
        expiresMs: nowMs + 1000 * this.expiresInSec,
        key: agreed.prk,
      });
      return { status: 201, body: agreed.body };
    } catch (error) {
      if (!(error instanceof SealwayError)) throw error;
      const [suite] = this.suites;
      const more =
        error.code === "suite_required" ? { suites: this.suites, suite } : { key_set: this.keySet };
      return { status: 409, body: utf8(JSON.stringify({ code: error.code, status: 409, ...more })) };
    }
  }

  #answerInit(response: ServerResponse, { status, body }: { status: number; body: Bytes }): void {
    response.writeHead(status, { "Content-Type": "application/json" }).end(body);
  }
}

/** Answers with JSON in plain, as problems and key sets are. */
export function problem(response: ServerResponse, status: number, members: object): void {
  response.writeHead(status, { "Content-Type": "application/problem+json" }).end(JSON.stringify(members));
}

async function send(
  response: ServerResponse,
  status: number,
  headers: [string, string][],
  body: AnswerBody,
): Promise<void> {
  response.writeHead(status, headers.flat());
  if (body === undefined || body instanceof Uint8Array) {
    response.end(body);
    return;
  }
  response.flushHeaders();
  for await (const part of body) response.write(part);
  response.end();
}

function pairs(flat: string[]): [string, string][] {
  return Array.from({ length: flat.length / 2 }, (_, at) => [flat[2 * at] ?? "", flat[2 * at + 1] ?? ""]);
}

export async function bodyOf(request: AsyncIterable<Uint8Array>): Promise<Bytes> {
  const parts: Uint8Array[] = [];
  for await (const part of request) parts.push(part);
  return concat(...parts);
}
