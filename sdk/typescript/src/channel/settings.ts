import { type Bytes, concat, u64, utf8 } from "./encoding.js";
import { ofHandshake } from "./error.js";
import { sha256 } from "./hash.js";
import { RECORD_MAX } from "./record.js";
import { Secret } from "./secret.js";
import { publicLength, type Suite } from "./suite.js";

/** Most content of a native record, in bytes. */
export const CONTENT_MAX = 65_536;
const CONTENT_MAX_LEAST = 16_384;
/** Most records under a native key. */
export const RECORDS_PER_KEY_MAX = 2 ** 20;

/** Settings of one end of a channel, mostly from its grant. */
export interface ChannelSettings {
  /** 1 to 256 bytes of UTF-8. */
  readonly channelId: string;
  /** 32 bytes that the control plane gave to both ends of this channel alone. */
  readonly psk: Secret;
  readonly suite: Suite;
  /** Numbers of suites, in the grant's order, at most 64; native handshakes bind the list. */
  readonly allowedSuites: readonly number[];
  /** Until when the channel may be set up, seconds of the epoch. */
  readonly initExpiresS: number;
  /** Largest difference between the clocks of the two ends, in seconds. */
  readonly skewS: number;
  /** Native: what the tokens of both ends say alike; see `bindingOf`. */
  readonly binding: Bytes;
  /** Native: this end's static private key, 32 bytes, for patterns that have one. */
  readonly localStatic: Secret | undefined;
  /** Native: the peer's pinned static public key (32 bytes of X25519, 33 of P-256). */
  readonly peerStatic: Bytes | undefined;
  /** v1: the bits that this end advertises; 1 says that it can change keys. */
  readonly features: number;
  /** v1, client: be connected when Ack is sent, although the server has proved nothing. For servers of January 2026. */
  readonly acceptUnconfirmed: boolean;
  /** v1: longest record, header and tag included, in bytes; 1 MiB at most. */
  readonly recordMax: number;
  /** Native: longest content of a record that this end sends, 16 to 64 KiB. */
  readonly contentMax: number;
  /** Native: after how many records this end changes its key; 2 to 2^20. */
  readonly rekeyAfterRecords: number;
  /** Native: after how many milliseconds this end changes its key. */
  readonly rekeyAfterMs: number;
  /** Native: records are padded to a multiple of so many bytes; 0 and 1 pad nothing. */
  readonly padTo: number;
}

/** Settings without a default. */
export type Required = Pick<ChannelSettings, "channelId" | "psk" | "suite" | "initExpiresS">;

/**
 * Settings with defaults for all that is not said, checked.
 * @throws ChannelError `setting_invalid`, with the first that is out of its bounds.
 */
export function channelSettings(required: Required, rest: Partial<ChannelSettings> = {}): ChannelSettings {
  const settings: ChannelSettings = {
    allowedSuites: [required.suite.id],
    skewS: 30,
    binding: new Uint8Array(32),
    localStatic: undefined,
    peerStatic: undefined,
    features: 1,
    acceptUnconfirmed: false,
    recordMax: RECORD_MAX,
    contentMax: CONTENT_MAX,
    rekeyAfterRecords: RECORDS_PER_KEY_MAX,
    rekeyAfterMs: 3_600_000,
    padTo: 0,
    ...rest,
    ...required,
  };
  const wants = (holds: boolean, name: string): void => {
    if (!holds) throw ofHandshake("setting_invalid", `the setting ${name} is absent or out of its bounds`);
  };
  const within = (value: number, least: number, most: number): boolean =>
    Number.isSafeInteger(value) && value >= least && value <= most;
  const { suite, allowedSuites } = settings;
  wants(within(utf8(settings.channelId).length, 1, 256), "channelId");
  wants(settings.psk.length === 32, "psk");
  wants(within(settings.initExpiresS, 0, Number.MAX_SAFE_INTEGER), "initExpiresS");
  wants(within(settings.skewS, 0, 86_400), "skewS");
  wants(allowedSuites.includes(suite.id) && allowedSuites.length <= 64, "allowedSuites");
  wants(
    allowedSuites.every((id) => within(id, 0, 0xffff)),
    "allowedSuites",
  );
  wants(within(settings.recordMax, 35, RECORD_MAX), "recordMax");
  if (suite.profile === "v1") return settings;
  wants(settings.binding.length === 32, "binding");
  wants(within(settings.contentMax, CONTENT_MAX_LEAST, CONTENT_MAX), "contentMax");
  wants(within(settings.rekeyAfterRecords, 2, RECORDS_PER_KEY_MAX), "rekeyAfterRecords");
  wants(settings.rekeyAfterMs > 0, "rekeyAfterMs");
  wants(within(settings.padTo, 0, settings.contentMax), "padTo");
  const { localStatic, peerStatic } = settings;
  wants(!suite.hasStaticKeys || localStatic !== undefined, "localStatic");
  wants(localStatic === undefined || localStatic.length === 32, "localStatic");
  wants(!suite.hasStaticKeys || peerStatic !== undefined, "peerStatic");
  wants(peerStatic === undefined || peerStatic.length === publicLength(suite.curve), "peerStatic");
  return settings;
}

/** Returns the hash that binds a channel to its tokens, over the claims that both share. Without a relay the texts are empty. */
export function bindingOf(audience: string, issuer: string): Bytes {
  const counted = (text: string): Bytes => {
    const bytes = utf8(text);
    return concat(u64(BigInt(bytes.length)), bytes);
  };
  return sha256(utf8("sealway-channel-v1 grant"), counted(audience), counted(issuer));
}

/** The random inputs of one handshake. Each is used once. */
export interface HandshakeRandoms {
  /** v1: `nonce_c` or `nonce_s`, 32 bytes. */
  readonly nonce: Bytes;
  /** v1, server: what the handshake id is made of, 24 bytes. */
  readonly handshakeId: Bytes;
  /** The ephemeral private key, 32 bytes. */
  readonly ephemeral: Secret;
  /** Hybrid: the seed of the client's key pair (64 bytes), or its expanded private key (2400 bytes). */
  readonly kemPrivate: Secret;
  /** Hybrid, server: what it encapsulates with (32 bytes), or a ciphertext and its secret. */
  readonly kemEncapsulated: Secret | { readonly ciphertext: Bytes; readonly secret: Secret };
}

/** Draws the random inputs of a handshake; `fill` fills bytes with randomness. */
export function drawRandoms(fill: (bytes: Bytes) => void): HandshakeRandoms {
  const draw = (length: number): Bytes => {
    const bytes = new Uint8Array(length);
    fill(bytes);
    return bytes;
  };
  const ephemeral = draw(32);
  // Beyond the order of P-256 no number begins otherwise; 1 in 2^32 does, and a broken source may.
  for (let tries = 0; tries < 4 && ephemeral.subarray(0, 4).every((byte) => byte === 0xff); tries++)
    fill(ephemeral);
  return {
    nonce: draw(32),
    handshakeId: draw(24),
    ephemeral: new Secret(ephemeral),
    kemPrivate: new Secret(draw(64)),
    kemEncapsulated: new Secret(draw(32)),
  };
}
