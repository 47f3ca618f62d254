/** Frames of handshakes and headers of records, in both profiles. SPEC channel.md#framing */
import { type Bytes, concat, uint, utf8 } from "./encoding.js";
import { ofHandshake, ofRecord } from "./error.js";

/** One of the two wires. */
export type Profile = "v1" | "native";

const HANDSHAKE_HEADER = 10;
/** Longest payload of a handshake frame, in bytes. */
export const HANDSHAKE_PAYLOAD_MAX = 8192;
/** Length of a record's header, in bytes. */
export const RECORD_HEADER = 18;

const MAGIC = {
  v1: { handshake: utf8("FSEH"), record: utf8("FSEC") },
  native: { handshake: utf8("SWNH"), record: utf8("SWNR") },
} as const;

/** A handshake frame around a payload. */
export function handshakeFrame(profile: Profile, type: number, payload: Uint8Array): Bytes {
  return concat(MAGIC[profile].handshake, Uint8Array.of(1, type), uint(payload.length, 4), payload);
}

/**
 * The payload of a frame of the type that is due.
 * @throws ChannelError `handshake_frame_invalid`, `handshake_too_large`, `handshake_unexpected`.
 */
export function handshakePayload(profile: Profile, type: number, message: Bytes): Bytes {
  const magic = MAGIC[profile].handshake;
  if (message.length < HANDSHAKE_HEADER || !startsWith(message, magic) || message[4] !== 1) {
    throw ofHandshake("handshake_frame_invalid", "no frame of a handshake");
  }
  const length = view(message).getUint32(6);
  if (length > HANDSHAKE_PAYLOAD_MAX) throw ofHandshake("handshake_too_large", "a payload over 8192 bytes");
  if (message.length !== HANDSHAKE_HEADER + length) {
    throw ofHandshake("handshake_frame_invalid", "a frame of another length than it says");
  }
  if (message[5] !== type)
    throw ofHandshake("handshake_unexpected", `a frame of type ${message[5]} where ${type} is due`);
  return message.subarray(HANDSHAKE_HEADER);
}

/** The header of a record. */
export function recordHeader(profile: Profile, flags: number, seq: number, sealedLength: number): Bytes {
  const header = new Uint8Array(RECORD_HEADER);
  header.set(MAGIC[profile].record);
  header[4] = 1;
  header[5] = flags;
  const at = new DataView(header.buffer);
  at.setUint32(6, Math.floor(seq / 0x1_0000_0000));
  at.setUint32(10, seq >>> 0);
  at.setUint32(14, sealedLength);
  return header;
}

/** A record, taken apart. */
export interface RecordParts {
  readonly header: Bytes;
  readonly flags: number;
  /** Exact up to 2^53; what is above comes out above. */
  readonly seq: number;
  readonly sealed: Bytes;
}

/**
 * Takes a record apart.
 * @throws ChannelError `record_truncated`, `record_invalid`, `record_too_large`.
 */
export function recordParts(profile: Profile, max: number, message: Bytes): RecordParts {
  if (message.length < RECORD_HEADER) throw ofRecord("record_truncated", "a record without its header");
  if (!startsWith(message, MAGIC[profile].record) || message[4] !== 1) {
    throw ofRecord("record_invalid", "a message that is no record of this wire");
  }
  const at = view(message);
  const length = at.getUint32(14);
  if (message.length > max) throw ofRecord("record_too_large", `a record over ${max} bytes`);
  if (length < 16 || message.length !== RECORD_HEADER + length) {
    throw ofRecord("record_truncated", "a record of another length than it says");
  }
  return {
    header: message.subarray(0, RECORD_HEADER),
    flags: message[5]!,
    seq: at.getUint32(6) * 0x1_0000_0000 + at.getUint32(10),
    sealed: message.subarray(RECORD_HEADER),
  };
}

/** A nonce: 4 bytes and the number of the record. */
export function nonceOf(prefix: Uint8Array, header: Bytes): Bytes {
  return concat(prefix, header.subarray(6, 14));
}

function view(bytes: Bytes): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}

function startsWith(message: Bytes, magic: Uint8Array): boolean {
  return magic.every((byte, i) => message[i] === byte);
}
