import { SealwayError } from "../wire/error.js";

/** How far a channel had come. */
export type Stage = "grant" | "connect" | "attach" | "handshake" | "record" | "stream" | "rpc" | "listen";

const CALLERS = new Set([
  "setting_invalid",
  "handshake_state",
  "channel_closed",
  "content_unsupported",
  "content_too_large",
  "address_invalid",
  "forbidden",
  "grant_invalid",
  "key_invalid",
  "psk_invalid",
  "suite_unsupported",
  "unauthorized",
  "upgrade_refused",
  "cancelled",
  "rpc_cancelled",
]);
const NETWORK = new Set([
  "closed",
  "connection_lost",
  "connection_refused",
  "control_unreachable",
  "unreachable",
  "upgrade_failed",
  "upgrade_unavailable",
  "peer_silent",
]);
/** What a signature, a key or a configuration decides: it does not change by itself. */
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
 * Why a channel, or something on it, did not come about or ended. `code` is one of `spec/registry.toml` (tables
 * `channel_errors` and `channel_client_errors`), or what a relay said when it closed (`token replay` is `token_replay`).
 * It holds no key, no token and nothing that was decrypted.
 */
export class ChannelError extends SealwayError {
  /** At which stage. */
  readonly stage: Stage;

  constructor(stage: Stage, code: string, message: string, cause?: unknown) {
    const blame = CALLERS.has(code) ? "caller" : NETWORK.has(code) ? "network" : "peer";
    super(code, `${stage}: ${message} (${code})`, cause === undefined ? { blame } : { blame, cause });
    this.stage = stage;
  }

  /** Whether the same may work a little later: nobody was there, a bound was reached, or a connection broke. */
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
