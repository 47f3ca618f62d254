/** Stage of a channel at which an error arose. */
export type Stage = "grant" | "connect" | "attach" | "handshake" | "record" | "stream" | "rpc" | "listen";

/** Codes of errors that a signature, a key or an option decides: they do not change by themselves. */
const LASTING = new Set([
  "address_invalid",
  "cancelled",
  "channel_mismatch",
  "forbidden",
  "grant_invalid",
  "invalid_attach",
  "psk_invalid",
  "role_mismatch",
  "setting_invalid",
  "suite_unsupported",
  "unauthorized",
  "upgrade_refused",
]);

/**
 * An error of a channel, or of a stream or call on it. `code` is one of `spec/registry.toml` (tables `channel_errors` and
 * `channel_client_errors`), or the reason with which a relay closed (`token replay` is `token_replay`). It holds no key, no token
 * and no plaintext.
 */
export class ChannelError extends Error {
  override readonly name: string = "ChannelError";
  readonly stage: Stage;
  readonly code: string;

  constructor(stage: Stage, code: string, message: string, cause?: unknown) {
    super(`${stage}: ${message} (${code})`, cause === undefined ? {} : { cause });
    this.stage = stage;
    this.code = code;
  }

  /** True if the same may succeed later: the peer was absent, a bound was reached, or a connection broke. */
  get isPassing(): boolean {
    // What a handshake or a record is refused for is this peer's doing: the next one is another.
    if (this.stage === "handshake" && (this.code === "setting_invalid" || this.code === "cancelled"))
      return false;
    return this.stage === "handshake" || this.stage === "record" || !LASTING.has(this.code);
  }
}

/** The peer, or the relay, ended the connection with a WebSocket close frame. Words of its reason become the code. */
export function closedWith(stage: Stage, code: number, reason: string): ChannelError {
  if (code === 1005 || code === 1006) {
    return new ChannelError(stage, "closed", "the connection was closed without a word");
  }
  const shown = JSON.stringify(reason);
  if (code === 1000) return new ChannelError(stage, "ended", `the channel was ended: ${shown}`);
  if (reason === "")
    return new ChannelError(stage, "closed", `the connection was closed with the code ${code}`);
  const name = reason
    .slice(0, 64)
    .toLowerCase()
    .replace(/[^a-z0-9]/g, "_");
  return new ChannelError(stage, name, `the connection was closed with the code ${code}: ${shown}`);
}

/** A failure of the core's. */
export function ofHandshake(code: string, message: string): ChannelError {
  return new ChannelError("handshake", code, message);
}

/** A failure of a record. */
export function ofRecord(code: string, message: string): ChannelError {
  return new ChannelError("record", code, message);
}
