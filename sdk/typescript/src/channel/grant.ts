/** The grant of a control plane to one end of a channel. SPEC relay.md#grants */
import { type Bytes, isObject, isUint, unb64u } from "./encoding.js";
import { ChannelError } from "./error.js";
import type { Role } from "./handshake.js";
import { Secret } from "./secret.js";
import { suiteById } from "./suite.js";

/** Longest grant that is read, in characters. */
const LENGTH_MAX = 64 * 1024;

/** One end's grant. It shows no secret where it is printed, inspected or serialized. */
export interface Grant {
  readonly tunnelUrl: string;
  readonly channelId: string;
  /** Until when the channel must carry records, seconds of the epoch. */
  readonly initExpiresS: number;
  /** 0 where nothing is said. */
  readonly idleTimeoutS: number;
  readonly role: Role;
  readonly token: Secret;
  readonly psk: Secret;
  readonly allowedSuites: readonly number[];
  readonly defaultSuite: number;
  readonly noisePattern: string | undefined;
  /** The peer's static public key, where it is pinned. */
  readonly peerStatic: Bytes | undefined;
}

/** Parameters of a channel without a relay. */
export interface DirectInfo {
  readonly wsUrl: string;
  readonly channelId: string;
  readonly psk: Secret;
  readonly defaultSuite: number;
  readonly initExpiresS: number;
}

/**
 * Reads a grant: JSON, or what JSON.parse made of it. Unknown members are ignored.
 * @throws ChannelError `grant_invalid` or `psk_invalid`, naming the member.
 */
export function parseGrant(grant: string | object): Grant {
  const members = membersOf(grant);
  const allowedSuites = members.allowed_suites ?? [];
  const defaultSuite = members.default_suite;
  const areSuites = Array.isArray(allowedSuites) && allowedSuites.every((id) => isUint(id, 0xffff) && id > 0);
  if (!areSuites || allowedSuites.length < 1 || allowedSuites.length > 64) throw invalid("allowed_suites");
  // Which profile is spoken is for the control plane to say, not for anyone on the way.
  if (new Set(allowedSuites.map((id: number) => id >= 0x100)).size > 1) throw invalid("allowed_suites");
  if (!allowedSuites.includes(defaultSuite)) throw invalid("default_suite");
  const role = members.role;
  if (role !== 1 && role !== 2) throw invalid("role");
  const idle = members.idle_timeout_seconds ?? 0;
  if (typeof idle !== "number" || !Number.isSafeInteger(idle)) throw invalid("idle_timeout_seconds");
  const pinned = optional(members, "peer_static_b64u");
  const peerStatic = pinned === undefined ? undefined : unb64u(pinned);
  if (pinned !== undefined && peerStatic === undefined) throw invalid("peer_static_b64u");
  return {
    tunnelUrl: text(members, "tunnel_url"),
    channelId: text(members, "channel_id"),
    initExpiresS: time(members),
    idleTimeoutS: Math.max(idle, 0),
    role: role === 1 ? "client" : "server",
    token: new Secret(new TextEncoder().encode(text(members, "token")) as Bytes),
    psk: psk(members),
    allowedSuites,
    defaultSuite: defaultSuite as number,
    noisePattern: optional(members, "noise_pattern"),
    peerStatic,
  };
}

/**
 * Reads what a channel without a relay needs: JSON, or what JSON.parse made of it.
 * @throws ChannelError `grant_invalid` or `psk_invalid`, naming the member.
 */
export function parseDirectInfo(info: string | object): DirectInfo {
  const members = membersOf(info);
  const defaultSuite = members.default_suite;
  if (!isUint(defaultSuite, 0xffff) || suiteById(defaultSuite) === undefined) throw invalid("default_suite");
  return {
    wsUrl: text(members, "ws_url"),
    channelId: text(members, "channel_id"),
    psk: psk(members),
    defaultSuite,
    initExpiresS: time(members),
  };
}

function membersOf(grant: string | object): Record<string, unknown> {
  let value: unknown = grant;
  if (typeof grant === "string") {
    if (grant.length > LENGTH_MAX) throw invalid("(its length)");
    try {
      value = JSON.parse(grant);
    } catch {
      throw invalid("(its JSON)");
    }
  }
  if (!isObject(value)) throw invalid("(its JSON)");
  return value;
}

function text(members: Record<string, unknown>, name: string): string {
  const value = members[name];
  if (typeof value !== "string" || value === "") throw invalid(name);
  return value;
}

function optional(members: Record<string, unknown>, name: string): string | undefined {
  const value = members[name] ?? "";
  if (typeof value !== "string") throw invalid(name);
  return value === "" ? undefined : value;
}

function time(members: Record<string, unknown>): number {
  const value = members.channel_init_expire_at_unix_s;
  if (!isUint(value, Number.MAX_SAFE_INTEGER)) throw invalid("channel_init_expire_at_unix_s");
  return value;
}

function psk(members: Record<string, unknown>): Secret {
  const value = members.e2ee_psk_b64u;
  const bytes = typeof value === "string" ? unb64u(value) : undefined;
  if (bytes?.length !== 32) throw new ChannelError("grant", "psk_invalid", "the secret of a grant is none");
  return new Secret(bytes);
}

function invalid(name: string): ChannelError {
  return new ChannelError("grant", "grant_invalid", `a grant cannot be used: ${name}`);
}
