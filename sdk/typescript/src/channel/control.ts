import type { Fetch, Signal } from "../wire/platform.js";
import { check } from "./check.js";
import { isObject } from "./encoding.js";
import { ChannelError } from "./error.js";
import { type Grant, parseGrant } from "./grant.js";
import type { Role } from "./handshake.js";

/** Timeout of the control plane, in ms: it holds a request for a listener to come for 30 s. */
const ANSWER_TIME_MS = 45_000;
/** Time for which a listener waits there for a client before it asks again, in seconds: less than the timeouts of proxies. */
const LISTEN_WAIT_S = 25;
/** Longest answer, in bytes. */
const ANSWER_MAX = 64 * 1024;

/** A source of grants, one after the other. */
export type Grants = (signal?: Signal) => Promise<Grant>;

/** Those that come when a client asks for their counterpart: others are there at once, and one after the other. */
const awaiting = new WeakSet<Grants>();

/** @internal Whether a listener may ask for the next one while a peer has not used the last. */
export function awaitsClients(grants: Grants): boolean {
  return awaiting.has(grants);
}

/** Grants of a control plane, for one end of channels under a name. SPEC relay.md#rendezvous */
export interface ControlOptions {
  /** `http://` or `https://`, without a path. */
  readonly url: string;
  /** 1 to 128 bytes. */
  readonly name: string;
  readonly role: Role;
  /** Sent as `Authorization: Bearer`. */
  readonly token?: string;
  /** Default: the platform's. */
  readonly fetch?: Fetch;
}

/**
 * Grants of a control plane.
 * @throws ChannelError `address_invalid` for an address that is none, `setting_invalid`.
 */
export function controlGrants(options: ControlOptions): Grants {
  check.object(options, "options", "url, name and role");
  const { name, role, token } = options;
  const isBare = /^https?:\/\/[^/?#@]+\/?$/.test(options.url) && URL.canParse(options.url);
  if (!isBare || typeof options.url !== "string") {
    const what = "url, the control plane's address, is none: give http(s)://host:port without a path";
    throw new ChannelError("grant", "address_invalid", what);
  }
  const url = new URL("/v1/grant", options.url);
  check.needs(typeof name === "string" && name !== "", "name", name, "the listener's name");
  check.needs(role === "client" || role === "server", "role", role, '"client" or "server"');
  check.texts(options, "token");
  check.functions(options, "fetch");
  const send = options.fetch ?? fetch;
  const asked = role === "server" ? { name, role, wait_s: LISTEN_WAIT_S } : { name, role };
  const ask = async (signal?: AbortSignal): Promise<Grant | undefined> => {
    const late = AbortSignal.timeout(ANSWER_TIME_MS);
    try {
      const answer = await send(url, {
        method: "POST",
        redirect: "error",
        headers: {
          "content-type": "application/json",
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        },
        body: JSON.stringify(asked),
        signal: signal === undefined ? late : AbortSignal.any([signal, late]),
      });
      return judge(answer.status, await bodyOf(answer));
    } catch (error) {
      if (error instanceof ChannelError) throw error;
      if (signal?.aborted) throw new ChannelError("grant", "cancelled", "the caller cancelled");
      if (late.aborted) throw new ChannelError("grant", "timeout", `no answer within ${ANSWER_TIME_MS} ms`);
      throw new ChannelError("grant", "control_unreachable", "the control plane cannot be reached", error);
    }
  };
  const grants: Grants = async (signal) => {
    for (;;) {
      // Nothing: no client has asked for as long as it was waited.
      const grant = await ask(signal);
      if (grant !== undefined) return grant;
    }
  };
  if (role === "server") awaiting.add(grants);
  return grants;
}

async function bodyOf(answer: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of answer.body ?? []) {
    length += chunk.length;
    if (length > ANSWER_MAX) throw new ChannelError("grant", "grant_invalid", "an answer over 64 KiB");
    chunks.push(chunk);
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return new TextDecoder().decode(all);
}

function judge(status: number, body: string): Grant | undefined {
  if (status === 200) return parseGrant(body);
  if (status === 204) return undefined;
  if (status === 401 || status === 403) {
    throw new ChannelError("grant", "unauthorized", `the control plane answers with the status ${status}`);
  }
  if (status === 404) throw new ChannelError("grant", "nobody_listens", "no peer listens under this name");
  throw new ChannelError("grant", "control_refused", `the control plane answers with the status ${status}`);
}

/**
 * Reads what `POST /v1/channel/init` and `relay mint` answer: both grants of a channel.
 * @throws ChannelError `grant_invalid` or `psk_invalid`.
 */
export function parseGrantPair(json: string): { readonly client: Grant; readonly server: Grant } {
  let pair: unknown;
  try {
    pair = JSON.parse(json);
  } catch {
    pair = undefined;
  }
  if (!isObject(pair) || !isObject(pair.grant_client) || !isObject(pair.grant_server)) {
    throw new ChannelError(
      "grant",
      "grant_invalid",
      "the answer holds no two grants, grant_client and grant_server",
    );
  }
  const both = { client: parseGrant(pair.grant_client), server: parseGrant(pair.grant_server) };
  if (both.client.role !== "client" || both.server.role !== "server") {
    throw new ChannelError("grant", "grant_invalid", "a grant is of the other role");
  }
  return both;
}
