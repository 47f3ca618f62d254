/** The hello of a stream, which names its purpose, and frames of JSON. SPEC rpc.md#prologue, rpc.md#frames */
import { type Bytes, concat, isUint, jsonObject, uint, utf8 } from "./encoding.js";
import { ChannelError } from "./error.js";
import type { Stream } from "./stream.js";

/** A stream's prologue: a kind of 1 to 64 visible ASCII characters, and a version from 1. */
export interface Hello {
  readonly kind: string;
  readonly v: number;
}

/** The frame of a prologue. @throws ChannelError `hello_invalid`. */
export function encodeHello(hello: Hello): Bytes {
  check(hello.kind, hello.v);
  return jsonFrame(utf8(JSON.stringify({ kind: hello.kind, v: hello.v })));
}

/** The prologue in a frame. @throws ChannelError `hello_invalid`. */
export function parseHello(json: Bytes | undefined): Hello {
  const members = json && jsonObject(json);
  const [kind, v] = [members?.kind, members?.v];
  check(kind, v);
  return { kind: kind as string, v: v as number };
}

/** Bytes of JSON behind their length. */
export function jsonFrame(json: Bytes): Bytes {
  return concat(uint(json.length, 4), json);
}

/**
 * The next frame of a stream; nothing when it has ended.
 * @throws ChannelError `rpc_too_large` for a frame over `max` bytes, before any room is made for it.
 */
export async function readFrame(stream: Stream, max: number): Promise<Bytes | undefined> {
  const header = await stream.readExactly(4);
  if (header === undefined) return undefined;
  const length = new DataView(header.buffer).getUint32(0);
  if (length > max) throw new ChannelError("stream", "rpc_too_large", `a frame over ${max} bytes`);
  if (length === 0) return new Uint8Array(0);
  const json = await stream.readExactly(length);
  if (json === undefined) throw new ChannelError("stream", "broken_off", "the stream ended in between");
  return json;
}

function check(kind: unknown, v: unknown): void {
  const isKind = typeof kind === "string" && /^[\x21-\x7e]{1,64}$/.test(kind);
  if (!isKind || !isUint(v, 0xffff_ffff) || v < 1) {
    throw new ChannelError("stream", "hello_invalid", "the prologue of a stream is none");
  }
}
