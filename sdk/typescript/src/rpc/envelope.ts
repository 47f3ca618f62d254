/** Content of a frame of calls. SPEC rpc.md#envelope */
import { type Bytes, isObject, isUint, jsonObject, text, utf8 } from "../channel/encoding.js";

/** Numbers that the wire itself answers with; an application's own begin at 1000. */
export const RPC_CODES = {
  badRequest: 400,
  handlerNotFound: 404,
  deadlineExceeded: 408,
  tooLarge: 413,
  cancelled: 499,
  failed: 500,
} as const;

/** An answer that is an error. */
export interface WireError {
  readonly code: number;
  readonly message: string;
}

/** A frame, read. */
export type Envelope =
  | {
      readonly kind: "request";
      readonly id: number;
      readonly typeId: number;
      readonly payload: unknown;
      readonly timeoutMs: number | undefined;
    }
  | {
      readonly kind: "answer";
      readonly id: number;
      readonly typeId: number;
      readonly payload: unknown;
      readonly error: WireError | undefined;
    }
  | { readonly kind: "notification"; readonly typeId: number; readonly payload: unknown }
  | { readonly kind: "cancel"; readonly id: number };

const ID_MAX = Number.MAX_SAFE_INTEGER;
const U32_MAX = 0xffff_ffff;
const MESSAGE_MAX = 1024;

/** Reads a frame's JSON; nothing where it is malformed. */
export function parseEnvelope(json: Bytes): Envelope | undefined {
  const members = jsonObject(json);
  if (members === undefined) return undefined;
  const number = (name: string, max: number): number | undefined => {
    const value = members[name] === undefined ? 0 : members[name];
    return isUint(value, max) ? value : undefined;
  };
  const typeId = number("type_id", U32_MAX);
  const id = number("request_id", ID_MAX);
  const answered = number("response_to", ID_MAX);
  const payload = members.payload ?? null;
  if (typeId === undefined || id === undefined || answered === undefined) return undefined;
  if (id > 0 && answered > 0) return undefined;
  if (id > 0) {
    const timeoutMs = members.timeout_ms ?? undefined;
    if (timeoutMs !== undefined && !isUint(timeoutMs, U32_MAX)) return undefined;
    return { kind: "request", id, typeId, payload, timeoutMs };
  }
  if (answered > 0) {
    const error = members.error == null ? undefined : parseError(members.error);
    return error === null ? undefined : { kind: "answer", id: answered, typeId, payload, error };
  }
  if (members.cancel == null) return { kind: "notification", typeId, payload };
  return isUint(members.cancel, ID_MAX) ? { kind: "cancel", id: members.cancel } : undefined;
}

/** A frame's JSON. It throws a TypeError where the payload has no JSON. */
export function encodeEnvelope(envelope: Envelope): Bytes {
  const { kind } = envelope;
  const head = {
    type_id: kind === "cancel" ? 0 : envelope.typeId,
    request_id: kind === "request" ? envelope.id : 0,
    response_to: kind === "answer" ? envelope.id : 0,
  };
  if (kind === "cancel") return json({ ...head, cancel: envelope.id, payload: null });
  const payload = envelope.payload ?? null;
  if (kind === "request" && envelope.timeoutMs !== undefined) {
    return json({ ...head, timeout_ms: envelope.timeoutMs, payload });
  }
  if (kind === "answer" && envelope.error !== undefined) {
    const { code, message } = envelope.error;
    return json({ ...head, error: { code, message: cut(message) }, payload: null });
  }
  return json({ ...head, payload });
}

function json(members: object): Bytes {
  return utf8(JSON.stringify(members));
}

/** Null where it is malformed. */
function parseError(error: unknown): WireError | null {
  if (!isObject(error) || !isUint(error.code, U32_MAX)) return null;
  const message = error.message ?? "";
  return typeof message === "string" ? { code: error.code, message: cut(message) } : null;
}

/** As much of a sentence as the wire takes. */
function cut(message: string): string {
  const bytes = utf8(message);
  if (bytes.length <= MESSAGE_MAX) return message;
  for (let length = MESSAGE_MAX; ; length--) {
    const whole = text(bytes.subarray(0, length));
    if (whole !== undefined) return whole;
  }
}
