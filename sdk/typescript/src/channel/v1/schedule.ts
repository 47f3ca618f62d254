/** Keys of v1. SPEC channel.md#v1-keys */
import { type Bytes, concat, uint, utf8 } from "../encoding.js";
import { expand, hmac256, sha256 } from "../hash.js";

const LABEL = "flowersec-e2ee-v1";

/** The messages of both ends. */
export interface Transcript {
  readonly suite: number;
  readonly clientFeatures: number;
  readonly serverFeatures: number;
  readonly channelId: string;
  readonly nonceC: Bytes;
  readonly nonceS: Bytes;
  readonly clientPublic: Bytes;
  readonly serverPublic: Bytes;
}

/** The transcript's hash. */
export function transcriptHash(of: Transcript): Bytes {
  const counted = (bytes: Bytes): Bytes => concat(uint(bytes.length, 2), bytes);
  return sha256(
    utf8(LABEL),
    uint(1, 1),
    uint(of.suite, 2),
    uint(1, 1),
    uint(of.clientFeatures, 4),
    uint(of.serverFeatures, 4),
    counted(utf8(of.channelId)),
    of.nonceC,
    of.nonceS,
    counted(of.clientPublic),
    counted(of.serverPublic),
  );
}

/** Computes the proof of the client, at its own time in seconds. */
export function authTag(psk: Bytes, transcript: Bytes, timestampS: number): Bytes {
  return hmac256(psk, transcript, uint(timestampS, 8));
}

/** One direction's keys. */
export interface Direction {
  readonly key: Bytes;
  /** 4 bytes before the number of each record. */
  readonly noncePrefix: Bytes;
  readonly rekeyBase: Bytes;
  readonly transcript: Bytes;
  /** 1 from the client, 2 from the server. */
  readonly number: 1 | 2;
}

/** Both directions' keys. */
export function directions(
  psk: Bytes,
  shared: Bytes,
  transcript: Bytes,
): { client: Direction; server: Direction } {
  const prk = hmac256(psk, shared, transcript);
  const one = (name: string, number: 1 | 2): Direction => ({
    key: expand(prk, `${LABEL}:${name}:key`),
    noncePrefix: expand(prk, `${LABEL}:${name}:nonce_prefix`, 4),
    rekeyBase: expand(prk, `${LABEL}:rekey_base`),
    transcript,
    number,
  });
  const both = { client: one("c2s", 1), server: one("s2c", 2) };
  prk.fill(0);
  return both;
}

/** A direction's key after its rekey record of a number. */
export function keyAfter(direction: Direction, seq: number): Bytes {
  const salt = hmac256(direction.rekeyBase, direction.transcript, uint(seq, 8), uint(direction.number, 1));
  const key = expand(hmac256(salt, utf8(`${LABEL}:rekey`)), `${LABEL}:rekey:key`);
  salt.fill(0);
  return key;
}
