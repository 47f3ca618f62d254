/** A WebSocket of a browser or of Node (`ws`) as messages in order, with bounds both ways. */
import type { Signal } from "../wire/platform.js";
import type { Bytes } from "./encoding.js";
import { ChannelError, closedWith, type Stage } from "./error.js";
import { RECORD_MAX } from "./record.js";

/** The part of a WebSocket that channels use; the browser's has it, and that of the package `ws`. */
export interface WebSocketLike {
  binaryType: string;
  readonly readyState: number;
  readonly bufferedAmount: number;
  send(data: Bytes | string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: string, listener: (event: any) => void): void;
  /** Node alone. */
  ping?(data?: Uint8Array): void;
  /** Node alone: what is not read waits in the network. */
  pause?(): void;
  resume?(): void;
  /** Node alone: ends the connection without a word. */
  terminate?(): void;
  on?(event: string, listener: (...values: never[]) => void): unknown;
}

/** Options of opening a WebSocket. Default: the platform's. */
export interface DialOptions {
  /** Sent as `Origin` by Node; a browser says its own. */
  readonly origin?: string;
  /** Further options of `ws`, such as `ca`; Node alone. */
  readonly node?: Readonly<Record<string, unknown>>;
}

const OPEN = 1;
/** Bytes that may wait to be sent before a sender waits; and until how many it does. */
const SEND_HIGH = 1 << 20;
const SEND_LOW = 1 << 18;
/** Bytes that may wait to be opened before the network has to wait, where it can. */
const HELD_HIGH = 1 << 20;
/** Bound where reading cannot pause (in browsers): the sum of the windows of all streams of a peer. The channel ends beyond it. */
const HELD_MAX = 96 << 20;
/** Cost of a waiting message beside its bytes, so that many empty ones count too. */
const HELD_OVERHEAD = 64;
const CLOSE_EVENT_TIME_MS = 2_000;

/** A connection. */
export class Socket {
  /** Called at each sign of life, pongs among them. */
  onLife: (pong?: Uint8Array) => void = () => undefined;
  readonly #raw: WebSocketLike;
  readonly #held: Bytes[] = [];
  #heldBytes = 0;
  #isPaused = false;
  #end: ChannelError | undefined;
  readonly #told: (() => void)[] = [];
  #waiting: { resolve: (message: Bytes) => void; reject: (error: unknown) => void } | undefined;
  /** At which stage whatever ends the connection ends it. */
  stage: Stage = "attach";

  /** Takes over a WebSocket that is open. */
  constructor(raw: WebSocketLike) {
    this.#raw = raw;
    raw.binaryType = "arraybuffer";
    raw.addEventListener("message", (event: { data: unknown }) => this.#take(event.data));
    raw.addEventListener("close", (event: { code: number; reason: string }) => {
      this.#over(closedWith(this.stage, event.code, event.reason));
    });
    raw.addEventListener("error", (event: { message?: string }) => {
      this.#over(broken(this.stage, event.message ?? ""));
    });
    raw.on?.("pong", ((data: Uint8Array) => this.onLife(data)) as never);
    raw.on?.("ping", (() => this.onLife()) as never);
  }

  /** True if the WebSocket can send its own pings; browsers cannot. */
  get canPing(): boolean {
    return this.#raw.ping !== undefined;
  }

  ping(data: Bytes): void {
    if (this.#raw.readyState === OPEN) this.#raw.ping?.(data);
  }

  /**
   * Sends a message. It returns once not much waits before it.
   * @throws ChannelError why the connection is over.
   */
  async send(message: Bytes | string): Promise<void> {
    if (this.#end !== undefined) throw this.#end;
    if (this.#raw.readyState !== OPEN) throw await this.#why();
    this.#raw.send(message);
    if (this.#raw.bufferedAmount < SEND_HIGH) return;
    while (this.#raw.bufferedAmount > SEND_LOW && this.#end === undefined && this.#raw.readyState === OPEN) {
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  /**
   * The peer's next message; one call at a time.
   * @throws ChannelError why the connection is over.
   */
  async receive(): Promise<Bytes> {
    const message = this.#held.shift();
    if (message !== undefined) {
      this.#heldBytes -= message.length + HELD_OVERHEAD;
      if (this.#isPaused && this.#heldBytes < HELD_HIGH / 2) {
        this.#isPaused = false;
        this.#raw.resume?.();
      }
      return message;
    }
    if (this.#end !== undefined) throw this.#end;
    return await new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  /** Ends the connection, with a code of RFC 6455 and at most 123 bytes of reason. */
  close(code: number, reason: string): void {
    try {
      this.#raw.close(code, reason);
    } catch {
      // It is over already, or never opened.
    }
    this.#raw.resume?.();
    // A peer that answers no close frame is not waited for.
    const late = setTimeout(() => this.#raw.terminate?.(), 2_000);
    (late as { unref?: () => void }).unref?.();
    this.#raw.addEventListener("close", () => clearTimeout(late));
  }

  /** Ends the connection at once. A pending read fails with the reason. */
  abort(why: ChannelError): void {
    this.#over(why);
    if (this.#raw.terminate) this.#raw.terminate();
    else this.close(1000, "");
  }

  #take(data: unknown): void {
    if (this.#end !== undefined) return;
    this.onLife();
    if (!(data instanceof ArrayBuffer)) {
      this.abort(new ChannelError(this.stage, "unexpected_text_frame", "a text message where records go"));
    } else if (data.byteLength > RECORD_MAX) {
      this.abort(new ChannelError(this.stage, "record_too_large", "a message over 1 MiB"));
    } else if (this.#waiting !== undefined) {
      const { resolve } = this.#waiting;
      this.#waiting = undefined;
      resolve(new Uint8Array(data));
    } else {
      this.#hold(new Uint8Array(data));
    }
  }

  #hold(message: Bytes): void {
    this.#held.push(message);
    this.#heldBytes += message.length + HELD_OVERHEAD;
    if (this.#heldBytes > HELD_HIGH && !this.#isPaused && this.#raw.pause) {
      this.#isPaused = true;
      this.#raw.pause();
    }
    if (this.#heldBytes > HELD_MAX) {
      this.abort(
        new ChannelError(this.stage, "record_too_large", "more waits to be read than windows allow"),
      );
    }
  }

  /** Reason of a closing connection, which its close event gives a moment later. */
  async #why(): Promise<ChannelError> {
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, CLOSE_EVENT_TIME_MS);
      this.#told.push(() => {
        clearTimeout(late);
        resolve();
      });
    });
    return this.#end ?? closedWith(this.stage, 1006, "");
  }

  #over(why: ChannelError): void {
    this.#end ??= why;
    for (const tell of this.#told.splice(0)) tell();
    this.#waiting?.reject(this.#end);
    this.#waiting = undefined;
  }
}

/**
 * Opens a WebSocket to `url` (`ws://` or `wss://`) within `timeoutMs`.
 * @throws ChannelError of the stage `connect`.
 */
export async function dial(
  url: string,
  timeoutMs: number,
  how: DialOptions,
  signal?: Signal,
): Promise<Socket> {
  if (!/^wss?:\/\/[^/]/.test(url))
    throw new ChannelError(
      "connect",
      "address_invalid",
      "the address (tunnelUrl, wsUrl) is no WebSocket's: give ws:// or wss://",
    );
  const raw = await open(url, timeoutMs, how);
  return await new Promise<Socket>((resolve, reject) => {
    const fail = (code: string, message: string): void => {
      done();
      if (raw.terminate) raw.terminate();
      else raw.close();
      reject(new ChannelError("connect", code, message));
    };
    const late = setTimeout(() => fail("timeout", `no connection within ${timeoutMs} ms`), timeoutMs);
    const cancel = (): void => fail("cancelled", "the caller cancelled");
    const done = (): void => {
      clearTimeout(late);
      signal?.removeEventListener("abort", cancel);
    };
    signal?.addEventListener("abort", cancel);
    if (signal?.aborted) return cancel();
    // What comes right behind the upgrade is not to be missed: the socket listens before it opens.
    const socket = new Socket(raw);
    raw.on?.("unexpected-response", ((_: unknown, response: { statusCode?: number }) => {
      const status = response.statusCode ?? 0;
      fail(upgradeCode(status), `the upgrade is answered with the status ${status}`);
    }) as never);
    raw.addEventListener("open", () => {
      done();
      resolve(socket);
    });
    raw.addEventListener("error", (event: { message?: string; error?: { code?: string } }) => {
      const system = event.error?.code;
      const code =
        system === "ECONNREFUSED"
          ? "connection_refused"
          : /CERT|SELF_SIGNED|TLS|SSL/.test(system ?? "")
            ? "tls_untrusted"
            : "unreachable";
      fail(code, event.message || "the address cannot be reached, or the upgrade was refused");
    });
  });
}

async function open(url: string, timeoutMs: number, how: DialOptions): Promise<WebSocketLike> {
  const isNode =
    (globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node !== undefined;
  try {
    if (!isNode) return new WebSocket(url) as unknown as WebSocketLike;
    const { WebSocket: NodeSocket } = await import("ws");
    const options = { ...how.node, ...(how.origin === undefined ? {} : { origin: how.origin }) };
    const fixed = {
      perMessageDeflate: false,
      maxPayload: RECORD_MAX,
      handshakeTimeout: timeoutMs,
      followRedirects: false,
    };
    return new NodeSocket(url, { ...options, ...fixed }) as unknown as WebSocketLike;
  } catch (cause) {
    throw new ChannelError("connect", "address_invalid", "the address is no WebSocket's", cause);
  }
}

function upgradeCode(status: number): string {
  if (status === 403) return "forbidden";
  if (status === 401 || status === 407) return "unauthorized";
  return status >= 500 || status === 429 || status === 408 ? "upgrade_unavailable" : "upgrade_refused";
}

function broken(stage: Stage, message: string): ChannelError {
  // `ws` says so where a message is longer than it takes.
  if (/max payload/i.test(message))
    return new ChannelError(stage, "record_too_large", "a message over 1 MiB");
  return new ChannelError(stage, "connection_lost", `the connection broke: ${message}`);
}
