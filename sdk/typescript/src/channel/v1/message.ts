/** The three JSON messages of v1. Unknown members are ignored, of a repeated one the last counts. SPEC channel.md */
import { type Bytes, b64u, isUint, jsonObject, unb64u, utf8 } from "../encoding.js";
import { ofHandshake } from "../error.js";

/** Types of frames. */
export const INIT = 1;
export const RESP = 2;
export const ACK = 3;

/** The client's first words. */
export interface Init {
  readonly channelId: string;
  readonly role: number;
  readonly version: number;
  readonly suite: number;
  readonly clientPublic: Bytes;
  readonly nonceC: Bytes;
  readonly clientFeatures: number;
}

/** The server's answer. */
export interface Resp {
  readonly handshakeId: string;
  readonly serverPublic: Bytes;
  readonly nonceS: Bytes;
  readonly serverFeatures: number;
}

/** The proof of the client. */
export interface Ack {
  readonly handshakeId: string;
  readonly timestampS: number;
  /** As it came: its length is checked in its turn. */
  readonly authTag: Bytes;
}

class Members {
  readonly #members: Record<string, unknown>;

  constructor(payload: Bytes) {
    const members = jsonObject(payload);
    if (members === undefined)
      throw ofHandshake("handshake_json_invalid", "a handshake message that is no JSON");
    this.#members = members;
  }

  text(name: string): string {
    const value = this.#members[name];
    if (typeof value !== "string") throw invalid(name);
    return value;
  }

  uint(name: string, max: number): number {
    const value = this.#members[name];
    if (!isUint(value, max)) throw invalid(name);
    return value;
  }

  bytes(name: string, length?: number): Bytes {
    const bytes = unb64u(this.text(name));
    if (bytes === undefined || (length !== undefined && bytes.length !== length)) throw invalid(name);
    return bytes;
  }
}

/** A member that is absent, of another type or of another length. */
export function invalid(name: string): Error {
  return ofHandshake("handshake_field_invalid", `the member ${name} of a handshake message`);
}

export function encodeInit(init: Init): Bytes {
  return encode({
    channel_id: init.channelId,
    role: init.role,
    version: init.version,
    suite: init.suite,
    client_eph_pub_b64u: b64u(init.clientPublic),
    nonce_c_b64u: b64u(init.nonceC),
    client_features: init.clientFeatures,
  });
}

export function parseInit(payload: Bytes): Init {
  const members = new Members(payload);
  return {
    channelId: members.text("channel_id"),
    role: members.uint("role", 0xff),
    version: members.uint("version", 0xff),
    suite: members.uint("suite", 0xffff),
    clientPublic: members.bytes("client_eph_pub_b64u"),
    nonceC: members.bytes("nonce_c_b64u", 32),
    clientFeatures: members.uint("client_features", 0xffff_ffff),
  };
}

export function encodeResp(resp: Resp): Bytes {
  return encode({
    handshake_id: resp.handshakeId,
    server_eph_pub_b64u: b64u(resp.serverPublic),
    nonce_s_b64u: b64u(resp.nonceS),
    server_features: resp.serverFeatures,
  });
}

export function parseResp(payload: Bytes): Resp {
  const members = new Members(payload);
  const handshakeId = members.text("handshake_id");
  if (handshakeId === "") throw invalid("handshake_id");
  return {
    handshakeId,
    serverPublic: members.bytes("server_eph_pub_b64u"),
    nonceS: members.bytes("nonce_s_b64u", 32),
    serverFeatures: members.uint("server_features", 0xffff_ffff),
  };
}

export function encodeAck(ack: Ack): Bytes {
  return encode({
    handshake_id: ack.handshakeId,
    timestamp_unix_s: ack.timestampS,
    auth_tag_b64u: b64u(ack.authTag),
  });
}

export function parseAck(payload: Bytes): Ack {
  const members = new Members(payload);
  return {
    handshakeId: members.text("handshake_id"),
    timestampS: members.uint("timestamp_unix_s", Number.MAX_SAFE_INTEGER),
    authTag: members.bytes("auth_tag_b64u"),
  };
}

/** Lengths of public keys: 32 bytes of X25519, 65 of P-256. */
export function isPublicKey(key: Bytes, ours: Bytes): boolean {
  return key.length === ours.length && (ours.length !== 65 || key[0] === 4);
}

function encode(members: Record<string, unknown>): Bytes {
  return utf8(JSON.stringify(members));
}
