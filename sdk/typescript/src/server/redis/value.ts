/** Sessions as they stand in Redis (`spec/redis-store.md`, Sessions). */
import { readFileSync } from "node:fs";
import { nodeProvider as provider } from "../../crypto/node.js";
import { fromBase64 } from "../../wire/base64.js";
import { type Bytes, concat, fromUtf8, utf8, wipe } from "../../wire/bytes.js";
import { SealwayError } from "../../wire/error.js";
import { isClientId, isSessionId } from "../../wire/forms.js";
import { redacted, type StoredSession, unavailable } from "../store.js";

const AUTHS = ["none", "bearer", "dpop", "certificate"] as const;
const NONE = 0xffff;
const WRAPPED_LEN = 60;
const KEKS_MAX = 16;
/** Least time between two reads of a key file, in milliseconds. */
const READ_AGAIN_MS = 1000;

/** Sources of key-encryption keys; exactly one is required. */
export interface KekOptions {
  /** The file of `sessions.kek_file`: lines of `id base64`. It is read again when an id is unknown. */
  readonly kekFile?: string;
  /** Such lines themselves, as in the variable `SEALWAY_KEK`. */
  readonly kek?: string;
}

/** Key-encryption keys by id. */
export class Keks {
  readonly #file: string | undefined;
  #keys: Map<string, Bytes>;
  #readAt = Number.NEGATIVE_INFINITY;

  /** @throws {SealwayError} `usage`. */
  constructor({ kekFile, kek }: KekOptions) {
    this.#file = kekFile;
    if (kek !== undefined && kekFile === undefined) this.#keys = parseKeks(kek, "kek");
    else if (kekFile !== undefined && kek === undefined) this.#keys = readKeks(kekFile);
    else throw wrong("one of kekFile and kek is needed");
  }

  /** @throws {SealwayError} `store_unavailable` for an id that is unknown. */
  get(id: string): Bytes {
    const nowMs = performance.now();
    if (this.#file !== undefined && !this.#keys.has(id) && nowMs - this.#readAt >= READ_AGAIN_MS) {
      this.#readAt = nowMs;
      try {
        // At once, so that no other call finds the key unknown meanwhile.
        this.#keys = readKeks(this.#file);
      } catch (error) {
        throw unavailable("the file of key-encryption keys cannot be read", error);
      }
    }
    const key = this.#keys.get(id);
    if (key === undefined)
      throw unavailable("a session is wrapped under a key-encryption key that is unknown");
    return key;
  }
}

function readKeks(file: string): Map<string, Bytes> {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw wrong(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
  return parseKeks(text, file);
}

/** Parses lines of keys. Its errors name the line and show none of its text. */
function parseKeks(text: string, name: string): Map<string, Bytes> {
  const keys = new Map<string, Bytes>();
  const lines = text.split("\n").map((line) => line.trim());
  for (const [at, line] of lines.entries()) {
    if (line === "" || line.startsWith("#")) continue;
    const space = line.indexOf(" ");
    const id = line.slice(0, Math.max(space, 0));
    const key = fromBase64(line.slice(space + 1).trim());
    if (!/^[A-Za-z0-9_-]{1,32}$/.test(id) || keys.has(id) || key?.length !== 32)
      throw wrong(`${name}:${at + 1}: expected an id of its own and 32 bytes in base64`);
    keys.set(id, key);
  }
  if (keys.size === 0 || keys.size > KEKS_MAX)
    throw wrong(`${name}: there are 1 to ${KEKS_MAX} key-encryption keys`);
  return keys;
}

function wrong(what: string): SealwayError {
  return new SealwayError("usage", what, { stage: "configuration" });
}

function malformed(): SealwayError {
  return unavailable("a session in Redis is not of its form");
}

/** Reads numbers and texts, one after the other. */
class Reader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  take(length: number): Uint8Array {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw malformed();
    const part = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return part;
  }

  number(length: 1 | 2 | 8): number {
    const at = this.#at;
    this.take(length);
    if (length === 1) return this.#view.getUint8(at);
    if (length === 2) return this.#view.getUint16(at);
    const value = this.#view.getBigUint64(at);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw malformed();
    return Number(value);
  }

  text(): string | undefined {
    const length = this.number(2);
    if (length === NONE) return undefined;
    const text = fromUtf8(this.take(length));
    if (text === undefined) throw malformed();
    return text;
  }

  get at(): number {
    return this.#at;
  }

  end(): void {
    if (this.#at !== this.#bytes.length) throw malformed();
  }
}

/** A session as it stands in Redis. */
export interface StoredRow {
  readonly session: StoredSession;
  /** The first session of its chain of renewals, whose revocation ends it; none where it is the first itself. */
  readonly lineage: string | undefined;
}

/**
 * Reads and unwraps a value; none for a row of an earlier release, whose fields nobody has authenticated, unless it ends by
 * `acceptUntilMs`.
 *
 * @throws {SealwayError} `store_unavailable`: what cannot be read is a fault, and never the end of a session.
 */
export async function openValue(
  id: string,
  value: Uint8Array,
  keks: Keks,
  acceptUntilMs = 0,
): Promise<StoredRow | undefined> {
  const reader = new Reader(value);
  const expiresMs = reader.number(8);
  const version = reader.number(1);
  const wire = reader.number(1);
  reader.number(8);
  const [clientId, subject] = [reader.text(), reader.text()];
  const tenant = version === 1 ? undefined : reader.text();
  const auth = AUTHS[version === 1 ? 0 : reader.number(1)];
  const lineage = version === 3 ? reader.text() : undefined;
  const headLength = reader.at;
  const kekId = reader.text();
  const wrapped = reader.take(WRAPPED_LEN);
  reader.end();
  const isKnown = version >= 1 && version <= 3 && wire >= 1 && wire <= 3;
  const isNamed = clientId === undefined ? wire === 1 : isClientId(clientId);
  const isChained = lineage === undefined || isSessionId(lineage);
  if (!isKnown || !isNamed || !isChained || auth === undefined || kekId === undefined) throw malformed();
  // A session of wire 3 could be renewed, and outlive that time; a key that everybody knows is wrapped under the zeros.
  const isAccepted = wire !== 3 && !/^.-0{32}$/.test(id) && expiresMs <= acceptUntilMs;
  if (version !== 3 && !isAccepted) return undefined;
  const aad = version === 3 ? rowAad(id, value.subarray(0, headLength)) : utf8(id);
  const aead = await provider.aeadKey(keks.get(kekId));
  const opened = await aead.open(wrapped.subarray(0, 12), wrapped.subarray(12), aad);
  if (opened?.length !== 32) throw unavailable("a session in Redis does not unwrap");
  const key = opened.slice();
  wipe(opened);
  return { session: redacted({ id, wire, clientId, subject, tenant, auth, expiresMs, key }), lineage };
}

/** Additional data that authenticates every field of a row beside its key. */
function rowAad(id: string, head: Uint8Array): Bytes {
  return concat(
    utf8("sealway session row"),
    Uint8Array.of(0, id.length >> 8, id.length & 0xff),
    utf8(id),
    head,
  );
}
