/** The answer to a sealed request. */
import type { SealedMessage } from "../session/compat/message.js";
import { encodeInner } from "../session/native/inner.js";
import { cut, type FrameSealer, sealAll } from "../session/native/stream.js";
import { toBase64 } from "../wire/base64.js";
import { type Bytes, concat } from "../wire/bytes.js";
import { SealwayError } from "../wire/error.js";
import { SEALED_HEADER_LEN_MAX } from "../wire/forms.js";
import { type HeaderList, X_SEALED } from "../wire/headers.js";
import type { ErrorAnswer } from "./rejection.js";

/** The random inputs of one answer. */
export interface SealRandoms {
  /** 16 bytes. */
  readonly nonce: Uint8Array;
  /** 12 bytes. */
  readonly iv: Uint8Array;
}

/** Seals as a whole, when all of the body is there. The answer's headers stay outside. */
export interface WholeSeal {
  readonly kind: "whole";
  /** The status that the answer is sent with. */
  readonly status: number;
  readonly seal: (body: Uint8Array, nowMs: number, randoms: SealRandoms) => Promise<SealedMessage>;
}

/** Seals frame by frame as the body comes, with the answer's headers within: `inner_headers_invalid` for wrong ones. */
export interface FrameSeal {
  readonly kind: "frames";
  readonly begin: (inner: HeaderList, nowMs: number, randoms: SealRandoms) => Promise<SealedStream>;
}

/** A way to seal an answer; `plain` replaces it by an error in plain. */
export type AnswerSeal = WholeSeal | FrameSeal | { readonly kind: "plain"; readonly answer: ErrorAnswer };

/** The part of a request that sealing its answer needs. */
export interface Reply {
  /**
   * The way to seal an answer of this status.
   *
   * @throws {Rejection} `upstream_unreachable` where there is none.
   */
  answer(status: number): AnswerSeal;
}

/** The frames of an answer, in order. */
export class SealedStream {
  /** The headers of its seal. */
  readonly headers: [string, string][];
  /** True if the answer has no body: its stream then goes into a header, by {@link inHeader}. */
  readonly isBodyless: boolean;
  readonly #sealer: FrameSealer;
  #inner: Bytes;

  constructor(headers: [string, string][], isBodyless: boolean, sealer: FrameSealer, inner: HeaderList) {
    this.headers = headers;
    this.isBodyless = isBodyless;
    this.#sealer = sealer;
    this.#inner = encodeInner(inner);
  }

  /** All of the stream, for a body that is all there. */
  whole(body: Uint8Array): Promise<Bytes> {
    return sealAll(this.#sealer, this.#with(body));
  }

  /**
   * The header that holds all of the stream.
   *
   * @throws {SealwayError} `inner_headers_invalid` for headers that are too many.
   */
  async inHeader(): Promise<[string, string]> {
    const value = toBase64(await this.whole(new Uint8Array()));
    if (value.length <= SEALED_HEADER_LEN_MAX) return [X_SEALED, value];
    throw new SealwayError("inner_headers_invalid", "X-Sealed does not hold so many headers");
  }

  /** The frames of the next part of the body; the first of all begins with the headers. */
  async *seal(part: Uint8Array, isLast: boolean): AsyncGenerator<Bytes> {
    const plaintext = this.#with(part);
    if (plaintext.length === 0 && !isLast) return;
    for (const each of cut(plaintext)) yield await this.#sealer.seal(each.part, isLast && each.isLast);
  }

  #with(part: Uint8Array): Uint8Array {
    if (this.#inner.length === 0) return part;
    const plaintext = concat(this.#inner, part);
    this.#inner = new Uint8Array();
    return plaintext;
  }
}
