/** Records of v1. SPEC channel.md#v1-records */
import { type Aead, aead } from "../aead.js";
import { type Bytes, concat } from "../encoding.js";
import { ofRecord } from "../error.js";
import { nonceOf, RECORD_HEADER, recordHeader, recordParts } from "../frame.js";
import { type Content, Gate, type Opener, type Sealer, Sequence, TAG_LENGTH } from "../record.js";
import { type Direction, keyAfter } from "./schedule.js";

const DATA = 0;
const PING = 1;
const REKEY = 2;
const NOTHING: Bytes = new Uint8Array(0);

/** Seals one direction. */
export class V1Sealer implements Sealer {
  readonly contentMax: number;
  readonly #direction: Direction;
  readonly #sequence = new Sequence();
  #aead: Aead;

  constructor(direction: Direction, recordMax: number) {
    this.#direction = direction;
    this.#aead = aead("AESGCM", direction.key);
    direction.key.fill(0);
    this.contentMax = recordMax - RECORD_HEADER - TAG_LENGTH;
  }

  async seal(content: Content): Promise<Bytes> {
    const isPing = content.kind === "ping" && content.value === 0n;
    if (content.kind !== "data" && content.kind !== "rekey" && !isPing) {
      throw ofRecord("content_unsupported", "this profile has no such record");
    }
    const bytes = content.kind === "data" ? content.bytes : NOTHING;
    if (bytes.length > this.contentMax)
      throw ofRecord("content_too_large", `more than ${this.contentMax} bytes`);
    const flags = content.kind === "data" ? DATA : content.kind === "ping" ? PING : REKEY;
    const seq = this.#sequence.take();
    const header = recordHeader("v1", flags, seq, bytes.length + TAG_LENGTH);
    const sealing = this.#aead.seal(nonceOf(this.#direction.noncePrefix, header), bytes, header);
    if (flags === REKEY) this.#aead = rekeyed(this.#direction, seq);
    return concat(header, await sealing);
  }

  wipe(): void {
    this.#aead.wipe();
    this.#direction.rekeyBase.fill(0);
  }
}

/** Opens one direction. */
export class V1Opener implements Opener {
  readonly #direction: Direction;
  readonly #recordMax: number;
  readonly #sequence = new Sequence();
  readonly #gate = new Gate();
  #aead: Aead;

  constructor(direction: Direction, recordMax: number) {
    this.#direction = direction;
    this.#recordMax = recordMax;
    this.#aead = aead("AESGCM", direction.key);
    direction.key.fill(0);
  }

  open(message: Bytes): Promise<Content> {
    return this.#gate.pass(() => this.#open(message));
  }

  async #open(message: Bytes): Promise<Content> {
    const { header, flags, seq, sealed } = recordParts("v1", this.#recordMax, message);
    if (flags > REKEY) throw ofRecord("record_flags", `a record with the flags ${flags}`);
    this.#sequence.expect(seq);
    const bytes = await this.#aead.open(nonceOf(this.#direction.noncePrefix, header), sealed, header);
    if (bytes === undefined) throw ofRecord("record_unsealable", "a record that does not open");
    this.#sequence.take();
    if (flags === DATA) return { kind: "data", bytes };
    if (bytes.length > 0) throw ofRecord("record_content", "a ping or rekey that is not empty");
    if (flags === PING) return { kind: "ping", value: 0n };
    this.#aead = rekeyed(this.#direction, seq);
    return { kind: "rekey" };
  }

  wipe(): void {
    this.#aead.wipe();
    this.#direction.rekeyBase.fill(0);
  }
}

function rekeyed(direction: Direction, seq: number): Aead {
  const key = keyAfter(direction, seq);
  const next = aead("AESGCM", key);
  key.fill(0);
  return next;
}
