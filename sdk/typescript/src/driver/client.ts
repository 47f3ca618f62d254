/** The client's operations of the driver. */
import { nodeProvider as provider } from "../crypto/node.js";
import {
  type CompatClientSession,
  CompatInit,
  openCompatAnswer,
  sealCompatRequest,
} from "../session/compat/client.js";
import type { Seal } from "../session/native/call.js";
import { openAnswer, type PendingCall, sealRequest } from "../session/native/client-call.js";
import { ClientInit, type ClientSession, type TrustedKey } from "../session/native/client-init.js";
import { keyIdOf } from "../session/native/key-set.js";
import { drawShareKeys, isSuite, type Suite } from "../session/native/suite.js";
import { keyNameOf, parseConfig } from "../session/one-shot/config.js";
import { drawEncapsulation, type Psk } from "../session/one-shot/hpke.js";
import { type SealingKey, sealTo } from "../session/one-shot/request.js";
import { hex } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import { WINDOW_MS } from "../wire/forms.js";
import { bytes, Fault, headersOf, type Line, text, texts, whole } from "./message.js";

/** An init that was begun. */
export type PendingInit =
  | { readonly wire: 3; readonly init: ClientInit; readonly trusted: TrustedKey }
  | { readonly wire: 1 | 2; readonly init: CompatInit };

/** A client's session, or a key of a service. */
export type ClientState =
  | { readonly wire: 4; readonly key: SealingKey; readonly psk: Psk | undefined }
  | { readonly wire: 3; readonly session: ClientSession; readonly trusted: TrustedKey }
  | { readonly wire: 1 | 2; readonly session: CompatClientSession };

/** A request whose answer is to be opened. */
export type PendingCallState =
  | { readonly wire: 3 | 4; readonly pending: PendingCall }
  | { readonly wire: 1 | 2; readonly session: CompatClientSession; readonly path: string };

function suiteOf(line: Line): { suite: Suite; suites: Suite[] } {
  const [suite, suites] = [text(line, "suite"), texts(line, "suites")];
  if (!isSuite(suite)) throw new Fault("this suite is unknown here");
  // Names that nobody knows may stand in the list.
  return { suite, suites: suites as Suite[] };
}

/** `client.init`. */
export async function clientInit(line: Line) {
  const [wire, clientId] = [whole(line, "wire"), text(line, "client_id")];
  const ttlSec =
    line["ttl_sec"] === null || line["ttl_sec"] === undefined ? undefined : whole(line, "ttl_sec");
  const json: [string, string] = ["Content-Type", "application/json"];
  if (wire === 3) {
    const { suite, suites } = suiteOf(line);
    const keys = new Map<string, Uint8Array>();
    for (const [at] of texts(line, "trusted_hex").entries()) {
      const key = bytes({ key: texts(line, "trusted_hex")[at] }, "key");
      keys.set(await keyIdOf(provider, key), key);
    }
    const offer = { suite, suites, clientId, ttlSec, pinnedKeyIds: [] };
    const init = new ClientInit(provider, offer, await drawShareKeys(provider, suite));
    const begun: PendingInit = { wire: 3, init, trusted: (id) => keys.get(id) };
    return { handle: begun, method: "POST", headers: [json], body_hex: hex(init.body()) };
  }
  if (wire !== 1 && wire !== 2) throw new Fault("there is no such wire");
  const isAnonymous = text(line, "path").endsWith("/anon");
  const [key, nonce] = [await provider.p256(), provider.random(16)];
  const init = new CompatInit(wire, isAnonymous, clientId, ttlSec, key, nonce, whole(line, "now_ms"));
  const begun: PendingInit = { wire, init };
  return { handle: begun, method: "POST", headers: [...init.headers, json], body_hex: hex(init.body) };
}

/** `client.finish`. */
export async function clientFinish(begun: PendingInit, line: Line) {
  const [status, body] = [whole(line, "status"), bytes(line, "body_hex")];
  if (begun.wire === 3) {
    const session = await begun.init.finish(status, body, begun.trusted);
    const agreed: ClientState = { wire: 3, session, trusted: begun.trusted };
    return { session: agreed, session_id: session.id };
  }
  if (status !== 200) throw new SealwayError("answer_mismatch", "the status is not an init's");
  const session = await begun.init.finish(provider, body, whole(line, "now_ms"));
  const agreed: ClientState = { wire: session.wire, session };
  return { session: agreed, session_id: session.id };
}

/** `client.renew`. */
export async function clientRenew(agreed: ClientState, line: Line) {
  if (agreed.wire !== 3) throw new Fault("only wire 3 renews");
  const { suite, suites } = suiteOf(line);
  const { session, trusted } = agreed;
  const offer = { suite, suites, clientId: session.clientId, pinnedKeyIds: [] };
  const init = new ClientInit(provider, offer, await drawShareKeys(provider, suite), session);
  const begun: PendingInit = { wire: 3, init, trusted };
  return { handle: begun, body_hex: hex(init.body()) };
}

/** `client.key`. */
export async function clientKey(line: Line) {
  const config = parseConfig(bytes(line, "config_hex"));
  if (config === undefined) throw new SealwayError("field_invalid", "config is malformed");
  const { kem, publicKey } = config;
  if (kem === undefined) throw new SealwayError("public_key_invalid", "this KEM is unknown here");
  const keyId = await keyNameOf(provider, config);
  const isKnown = typeof line["psk_id"] === "string";
  const psk = isKnown ? { id: text(line, "psk_id"), key: bytes(line, "psk_hex") } : undefined;
  const taken: ClientState = { wire: 4, key: { keyId, kem, publicKey }, psk };
  return { session: taken, kid: `hpke:${keyId}` };
}

/** Makes what one request is sealed under: its encapsulation is its own. */
async function sealFor(key: SealingKey, psk: Psk | undefined): Promise<Seal> {
  return sealTo(provider, key, psk, await drawEncapsulation(provider, key.kem, key.publicKey));
}

/** `client.seal`. */
export async function clientSeal(agreed: ClientState, line: Line) {
  const [target, body, nowMs] = [text(line, "target"), bytes(line, "body_hex"), whole(line, "now_ms")];
  if (agreed.wire === 3 || agreed.wire === 4) {
    const seal = agreed.wire === 3 ? agreed.session : await sealFor(agreed.key, agreed.psk);
    const request = { method: text(line, "method"), target };
    const nonce = provider.random(16);
    const sealed = await sealRequest(provider, seal, request, headersOf(line), body, nowMs, nonce);
    const call: PendingCallState = { wire: agreed.wire, pending: sealed.pending };
    return { call, headers: sealed.headers, body_hex: hex(sealed.body ?? new Uint8Array()) };
  }
  const path = target.split("?", 1)[0] ?? "";
  const [nonce, iv] = [hex(provider.random(16)), provider.random(12)];
  const sealed = await sealCompatRequest(agreed.session, path, body, String(nowMs), nonce, iv);
  const call: PendingCallState = { wire: agreed.wire, session: agreed.session, path };
  const headers = [...sealed.headers, ["Content-Type", sealed.contentType]];
  return { call, headers, body_hex: hex(sealed.body) };
}

/** `client.open`. */
export async function clientOpen(call: PendingCallState, line: Line) {
  const [status, headers, body] = [whole(line, "status"), headersOf(line), bytes(line, "body_hex")];
  if ("pending" in call) {
    const opened = await openAnswer(provider, call.pending, status, headers, body);
    return { headers: opened.headers, body_hex: hex(opened.body), is_problem: opened.isProblem };
  }
  const nowMs = whole(line, "now_ms");
  const opened = await openCompatAnswer(call.session, call.path, status, headers, body, nowMs, WINDOW_MS);
  return { headers: [], body_hex: hex(opened) };
}
