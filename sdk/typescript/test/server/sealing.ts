/** Sealed requests of one session, for servers in this process. */
import { nodeProvider as provider } from "../../src/crypto/node.js";
import type { GateRequest, StoredSession } from "../../src/server/index.js";
import { sealCompatRequest } from "../../src/session/compat/client.js";
import type { Seal } from "../../src/session/native/call.js";
import { beginRequest, type PendingCall } from "../../src/session/native/client-call.js";
import { encodeInner } from "../../src/session/native/inner.js";
import { SessionKeys } from "../../src/session/native/keys.js";
import { type Bytes, concat, utf8 } from "../../src/wire/bytes.js";

export const ID = `S-${"3".repeat(32)}`;
const key = Uint8Array.from(provider.random(32));

/** The session as a store has it. */
export function stored(wire: number, expiresMs: number): StoredSession {
  return {
    id: ID,
    wire,
    clientId: "tester",
    subject: undefined,
    tenant: undefined,
    auth: "none",
    expiresMs,
    key,
  };
}

export interface Sealed {
  readonly headers: [string, string][];
  /** Of wire 2 one, which is all of the body. */
  readonly frames: Bytes[];
  /** Of wire 3. */
  readonly pending?: PendingCall;
}

/** A request of wire 3, a frame for each of `parts`. */
export async function sealingNative(
  stampMs: number,
  parts: readonly string[] = ["{}"],
  target = "/order",
  inner: [string, string][] = [],
): Promise<Sealed> {
  const keys = await SessionKeys.of(provider, key);
  const session: Seal = { wire: 3, id: ID, keys };
  const line = { method: "POST", target };
  const type = "application/octet-stream";
  const begun = await beginRequest(provider, session, line, type, stampMs, provider.random(16));
  const frames: Bytes[] = [];
  for (const [at, part] of parts.entries()) {
    const plaintext = at === 0 ? concat(encodeInner(inner), utf8(part)) : utf8(part);
    frames.push(await begun.sealer.seal(plaintext, at === parts.length - 1));
  }
  return { headers: begun.headers, frames, pending: begun.pending };
}

async function whole(wire: 1 | 2, id: string, stampMs: number, target: string, body: Bytes): Promise<Sealed> {
  const aead = await provider.aeadKey(key);
  const own = { wire, id, clientId: "tester", expiresInSec: 600, expiresMs: 0, key: aead };
  const nonce = Buffer.from(provider.random(12)).toString("hex");
  const call = await sealCompatRequest(own, target, body, String(stampMs), nonce, provider.random(12));
  const headers: [string, string][] = [...call.headers, ["Content-Type", call.contentType]];
  return { headers, frames: [Uint8Array.from(call.body)] };
}

/** A request of wire 2. */
export function sealing2(stampMs: number, target = "/order"): Promise<Sealed> {
  return whole(2, ID, stampMs, target, utf8("{}"));
}

/** A request of wire 1 in a session of this id, with a body of so many bytes. */
export function sealing1(id: string, stampMs: number, target: string, length: number): Promise<Sealed> {
  return whole(1, id, stampMs, target, new Uint8Array(length));
}

/** A request as a gate takes it. */
export function incoming({ headers, frames }: Sealed, target = "/order"): GateRequest {
  async function* body() {
    yield* frames;
  }
  return { method: "POST", target, headers, body: body() };
}
