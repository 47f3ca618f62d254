/**
 * Types of the platform that stand in ours, so that ours hold where neither the DOM's library nor `@types/node` is loaded: with
 * one of them these are its own, else they are empty.
 */
declare global {
  interface AbortSignal {}
  interface URL {}
  interface ReadableStream<R = any> {}
  interface WritableStream<W = any> {}
}

export type Signal = AbortSignal;
export type Url = URL;
export type Readable<R> = ReadableStream<R>;
export type Writable<W> = WritableStream<W>;

/** `fetch`. */
export type Fetch = typeof globalThis extends { fetch: infer F }
  ? F
  : (input: string, init?: object) => Promise<object>;

/** The part of a `Storage` that the SDK uses. */
export interface KeyValues {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}
