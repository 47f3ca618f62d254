/** Native records: all that they say is sealed. SPEC channel.md#native-records */
import { type Aead, aead } from "../aead.js";
import { type Bytes, concat, text, u64, uint, utf8 } from "../encoding.js";
import { ofRecord } from "../error.js";
import { nonceOf, RECORD_HEADER, recordHeader, recordParts } from "../frame.js";
import type { Role } from "../handshake.js";
import { expand } from "../hash.js";
import {
  CLOSE_REASON_MAX,
  type Content,
  Gate,
  type Opener,
  type Sealer,
  Sequence,
  TAG_LENGTH,
} from "../record.js";
import { type ChannelSettings, CONTENT_MAX, RECORDS_PER_KEY_MAX } from "../settings.js";
import type { Cipher } from "../suite.js";

const KINDS = { data: 1, ping: 2, pong: 3, rekey: 4, close: 5 } as const;
/** In the kind: the key changes after this record. */
const KEY_CHANGES = 0x80;
const RECORD_LENGTH_MAX = RECORD_HEADER + CONTENT_MAX + 1 + TAG_LENGTH;
const PREFIX: Bytes = new Uint8Array(4);
const NOTHING: Bytes = new Uint8Array(0);

/** One direction's key, which only goes forward. */
class Ratchet {
  readonly #cipher: Cipher;
  readonly #key: Bytes;
  aead: Aead;
  /** Records under this key. */
  used = 0;

  constructor(cipher: Cipher, key: Bytes) {
    this.#cipher = cipher;
    this.#key = key;
    this.aead = aead(cipher, key);
  }

  /** The next key; the one before does not follow from it. */
  turn(): void {
    const next = expand(this.#key, "sealway-channel-v1 next key");
    this.#key.set(next);
    next.fill(0);
    this.aead.wipe();
    this.aead = aead(this.#cipher, this.#key);
    this.used = 0;
  }

  wipe(): void {
    this.#key.fill(0);
    this.aead.wipe();
  }
}

/** Seals one direction. */
export class NativeSealer implements Sealer {
  readonly contentMax: number;
  readonly #settings: ChannelSettings;
  readonly #flags: number;
  readonly #ratchet: Ratchet;
  readonly #sequence = new Sequence();
  #sinceMs: number | undefined;

  /** Takes the key over. */
  constructor(cipher: Cipher, key: Bytes, role: Role, settings: ChannelSettings) {
    this.#ratchet = new Ratchet(cipher, key);
    this.#flags = role === "client" ? 0 : 1;
    this.#settings = settings;
    this.contentMax = settings.contentMax;
  }

  async seal(content: Content, nowMs: number): Promise<Bytes> {
    const bytes = encode(content);
    if (bytes.length > this.contentMax)
      throw ofRecord("content_too_large", `more than ${this.contentMax} bytes`);
    const seq = this.#sequence.take();
    const changes = this.#keyChanges(content.kind, nowMs);
    const inner = new Uint8Array(this.#padded(bytes.length + 1));
    inner.set(bytes);
    inner[bytes.length] = KINDS[content.kind] | (changes ? KEY_CHANGES : 0);
    const header = recordHeader("native", this.#flags, seq, inner.length + TAG_LENGTH);
    const sealing = this.#ratchet.aead.seal(nonceOf(PREFIX, header), inner, header);
    if (changes) {
      this.#ratchet.turn();
      this.#sinceMs = nowMs;
    }
    return concat(header, await sealing);
  }

  /** Counts this record, and says whether it is its key's last. */
  #keyChanges(kind: Content["kind"], nowMs: number): boolean {
    this.#ratchet.used++;
    this.#sinceMs ??= nowMs;
    const { rekeyAfterRecords, rekeyAfterMs } = this.#settings;
    return (
      kind === "rekey" || this.#ratchet.used >= rekeyAfterRecords || nowMs - this.#sinceMs >= rekeyAfterMs
    );
  }

  #padded(length: number): number {
    const { padTo } = this.#settings;
    return padTo < 2 ? length : Math.min(Math.ceil(length / padTo) * padTo, this.contentMax + 1);
  }

  wipe(): void {
    this.#ratchet.wipe();
  }
}

/** Opens one direction. */
export class NativeOpener implements Opener {
  readonly #own: number;
  readonly #ratchet: Ratchet;
  readonly #sequence = new Sequence();
  readonly #gate = new Gate();

  /** Takes the key over; `role` is this side's. */
  constructor(cipher: Cipher, key: Bytes, role: Role) {
    this.#ratchet = new Ratchet(cipher, key);
    this.#own = role === "client" ? 0 : 1;
  }

  open(message: Bytes): Promise<Content> {
    return this.#gate.pass(() => this.#open(message));
  }

  // SPEC channel.md#native-records: the checks, in this order.
  async #open(message: Bytes): Promise<Content> {
    const { header, flags, seq, sealed } = recordParts("native", RECORD_LENGTH_MAX, message);
    if (flags === this.#own) throw ofRecord("record_reflected", "a record of this side's own came back");
    if (flags > 1) throw ofRecord("record_flags", `a record with the flags ${flags}`);
    this.#sequence.expect(seq);
    if (this.#ratchet.used >= RECORDS_PER_KEY_MAX)
      throw ofRecord("rekey_overdue", "a key that is used too long");
    const inner = await this.#ratchet.aead.open(nonceOf(PREFIX, header), sealed, header);
    if (inner === undefined) throw ofRecord("record_unsealable", "a record that does not open");
    this.#sequence.take();
    this.#ratchet.used++;
    let end = inner.length - 1;
    while (end >= 0 && inner[end] === 0) end--;
    const kind = end < 0 ? 0 : inner[end]!;
    if ((kind & KEY_CHANGES) !== 0) this.#ratchet.turn();
    return decode(kind, inner.subarray(0, Math.max(end, 0)));
  }

  wipe(): void {
    this.#ratchet.wipe();
  }
}

function encode(content: Content): Bytes {
  switch (content.kind) {
    case "data":
      return content.bytes;
    case "ping":
    case "pong":
      return u64(content.value);
    case "rekey":
      return NOTHING;
    case "close": {
      const reason = utf8(content.reason);
      if (reason.length > CLOSE_REASON_MAX) throw ofRecord("content_too_large", "a reason over 123 bytes");
      return concat(uint(content.code & 0xffff, 2), reason);
    }
  }
}

function decode(kind: number, content: Bytes): Content {
  const number = (): bigint => new DataView(content.buffer, content.byteOffset, 8).getBigUint64(0);
  switch (kind & ~KEY_CHANGES) {
    case KINDS.data:
      return { kind: "data", bytes: content };
    case KINDS.ping:
      if (content.length === 8) return { kind: "ping", value: number() };
      break;
    case KINDS.pong:
      if (content.length === 8) return { kind: "pong", value: number() };
      break;
    case KINDS.rekey:
      if (content.length === 0 && (kind & KEY_CHANGES) !== 0) return { kind: "rekey" };
      break;
    case KINDS.close: {
      const reason = content.length <= 2 + CLOSE_REASON_MAX ? text(content.subarray(2)) : undefined;
      if (content.length < 2 || reason === undefined) break;
      return { kind: "close", code: content[0]! * 256 + content[1]!, reason };
    }
  }
  throw ofRecord("record_content", "a record that holds what no sender writes");
}
